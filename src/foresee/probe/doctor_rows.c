/* The doctor's knowledge: every finding with its severity and its remedy. The tests for them are in
 * doctor_gpu.c, doctor_cpu.c and doctor_environment.c. */
#include "probe/doctor_rows.h"

#include <assert.h>

const ls_doctor_row_t ls_doctor_rows[] = {
    {"copies-wrong", LS_SEVERITY_ERROR, ls_doctor_copies_wrong,
     "do not train over this link: switch the IOMMU to pass-through (iommu=pt), or set NCCL_P2P_DISABLE=1"},
    {"nccl-nthreads", LS_SEVERITY_ERROR, ls_doctor_nccl_nthreads,
     "unset NCCL_NTHREADS; NCCL refuses or ignores this value"},
    {"measured-busy", LS_SEVERITY_WARNING, ls_doctor_measured_busy,
     "end the other programs and measure again: lockstep probe"},
    {"peer-access-off", LS_SEVERITY_WARNING, ls_doctor_peer_off,
     "switch off ACS redirection of the PCIe switches and the IOMMU (or iommu=pt) in BIOS and kernel command "
     "line"},
    {"pcie-width", LS_SEVERITY_WARNING, ls_doctor_pcie_width,
     "reseat the card, use the slot wired for its full width, check for a second card or drive that shares "
     "the lanes"},
    {"pcie-generation", LS_SEVERITY_WARNING, ls_doctor_pcie_generation,
     "set the slot to its full generation in the BIOS; risers and long cables force lower ones"},
    {"power-cap", LS_SEVERITY_WARNING, ls_doctor_power_cap,
     "raise the limit (nvidia-smi -pl WATTS) or accept it: measurements hold for this limit only"},
    {"thermal-cap", LS_SEVERITY_WARNING, ls_doctor_thermal_cap,
     "improve the airflow; measure again when it is cool"},
    {"transfers-collapse", LS_SEVERITY_WARNING, ls_doctor_transfers_collapse,
     "the cards share an uplink: move them to slots of different root ports, or let fewer exchange at once"},
    {"blas-reference", LS_SEVERITY_WARNING, ls_doctor_blas_reference,
     "install libdnnl-dev or libopenblas-dev and build again"},
    {"blas-old-core", LS_SEVERITY_WARNING, ls_doctor_blas_old_core,
     "set OPENBLAS_CORETYPE=SkylakeX (AVX-512) or Haswell (AVX2), or build with oneDNN (libdnnl-dev)"},
    {"threads-environment", LS_SEVERITY_WARNING, ls_doctor_threads_in_environment,
     "unset it; lockstep divides the CPUs among its ranks itself"},
    {"nccl-p2p-disabled", LS_SEVERITY_WARNING, ls_doctor_nccl_p2p, "unset NCCL_P2P_DISABLE"},
    {"nccl-shm-disabled", LS_SEVERITY_WARNING, ls_doctor_nccl_shm, "unset NCCL_SHM_DISABLE"},
    {"nccl-channels", LS_SEVERITY_WARNING, ls_doctor_nccl_channels, "unset it and let NCCL choose"},
    {"nccl-debug", LS_SEVERITY_WARNING, ls_doctor_nccl_debug, "set NCCL_DEBUG=WARN"},
    {"launch-blocking", LS_SEVERITY_WARNING, ls_doctor_launch_blocking, "unset CUDA_LAUNCH_BLOCKING"},
    {"peer-access-bridge", LS_SEVERITY_INFO, ls_doctor_peer_off_bridge,
     "copies go through host memory, as GeForce drivers have it; lockstep plan counts with what that costs"},
    {"memory-contention", LS_SEVERITY_INFO, ls_doctor_memory_contention,
     "more ranks help steps bound by products, not by memory; lockstep plan counts with it"},
    {"threads-over-cores", LS_SEVERITY_INFO, ls_doctor_threads_over_cores,
     "try parallel.threads = cores / ranks: two threads of a core share its units"},
    {"cpus-limited", LS_SEVERITY_INFO, ls_doctor_cpus_limited,
     "ask the scheduler or the container engine for more CPUs"},
    {"gpus-unequal", LS_SEVERITY_INFO, ls_doctor_gpus_unequal,
     "the slowest decides the pace of equal shares; use one kind per run"},
    {"gpus-unread", LS_SEVERITY_INFO, ls_doctor_gpus_unread,
     "limits that act cannot be seen; nvidia-smi -q as root may say more"},
};
const int ls_doctor_row_count = LS_COUNT(ls_doctor_rows);
static_assert(LS_COUNT(ls_doctor_rows) <= LS_FINDINGS_MAX, "every row can fire at once");
