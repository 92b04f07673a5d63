/* Inside the probe module: the test for each of the doctor's findings. Each function writes the evidence, one
 * line, and says whether the finding applies. It needs evidence: a fact that a source refused to tell is
 * never a finding. */
#ifndef LS_PROBE_DOCTOR_ROWS_H
#define LS_PROBE_DOCTOR_ROWS_H

#include "probe/doctor.h"

/* doctor_gpu.c */
ls_doctor_found_fn ls_doctor_peer_off, ls_doctor_peer_off_bridge, ls_doctor_copies_wrong,
    ls_doctor_pcie_width, ls_doctor_pcie_generation, ls_doctor_power_cap, ls_doctor_thermal_cap,
    ls_doctor_transfers_collapse, ls_doctor_gpus_unequal, ls_doctor_gpus_unread;
/* doctor_cpu.c */
ls_doctor_found_fn ls_doctor_blas_reference, ls_doctor_blas_old_core, ls_doctor_threads_over_cores,
    ls_doctor_cpus_limited, ls_doctor_memory_contention, ls_doctor_measured_busy;
/* doctor_environment.c */
ls_doctor_found_fn ls_doctor_threads_in_environment, ls_doctor_nccl_nthreads, ls_doctor_nccl_p2p,
    ls_doctor_nccl_shm, ls_doctor_nccl_channels, ls_doctor_nccl_debug, ls_doctor_launch_blocking;

#endif
