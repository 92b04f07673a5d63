/* What the doctor knows. A row fires on evidence only: what a source refused to tell is never held against
 * it. */
#include "probe/doctor.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* nvmlClocksThrottleReasons (NVML API Reference Guide). */
enum {
  THROTTLE_IDLE = 0x1,
  THROTTLE_POWER_CAP = 0x4,
  THROTTLE_HW_SLOWDOWN = 0x8,
  THROTTLE_SW_THERMAL = 0x20,
  THROTTLE_HW_THERMAL = 0x40,
  THROTTLE_POWER_BRAKE = 0x80
};

static const char *variable(const ls_patient_t *p, const char *name) {
  return p->variable ? p->variable(p->user, name) : NULL;
}

static bool is_set(const ls_patient_t *p, const char *name) {
  const char *value = variable(p, name);
  return value && *value && strcmp(value, "0") != 0;
}

/* A whole number, or -1. */
static long number(const char *text) {
  char *end;
  long value = strtol(text, &end, 10);
  return end == text || *end || value < 0 ? -1 : value;
}

/* Peer access refused between GPUs of one of these links. */
static bool refused_over(const ls_patient_t *p, ls_link_t least, ls_link_t most, char *evidence) {
  const ls_machine_t *m = p->machine;
  int pairs = 0, refused = 0, a = 0, b = 0;
  for (int i = 0; i < m->gpu_count; i++)
    for (int j = i + 1; j < m->gpu_count; j++) {
      if (m->link[i][j] < least || m->link[i][j] > most) continue;
      pairs++;
      if (m->peer_access[i][j] != 0) continue;
      if (refused++ == 0) {
        a = i;
        b = j;
      }
    }
  snprintf(evidence, LS_EVIDENCE_BYTES,
           "peer access is off between %d of %d pairs of GPUs, first %d-%d, linked by %s%s%s", refused, pairs,
           a, b, ls_link_name(m->link[a][b]), *m->virtualization ? "; in " : "", m->virtualization);
  return refused > 0;
}

static bool peer_off(const ls_patient_t *p, char *evidence) {
  return refused_over(p, LS_LINK_NVLINK, LS_LINK_PCIE_SWITCH, evidence);
}

static bool peer_off_bridge(const ls_patient_t *p, char *evidence) {
  return refused_over(p, LS_LINK_HOST_BRIDGE, LS_LINK_HOST_BRIDGE, evidence);
}

static bool copies_wrong(const ls_patient_t *p, char *evidence) {
  snprintf(evidence, LS_EVIDENCE_BYTES, "copies between %d pairs of devices arrived with wrong bytes",
           p->wrong_copies);
  return p->wrong_copies > 0;
}

static bool pcie_width(const ls_patient_t *p, char *evidence) {
  for (int i = 0; i < p->machine->gpu_count; i++) {
    const ls_gpu_t *g = &p->machine->gpu[i];
    if (g->pcie_width <= 0 || g->pcie_width >= g->pcie_width_max) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES, "GPU %d (%s) is a x%d card in a x%d link", i, g->name,
             g->pcie_width_max, g->pcie_width);
    return true;
  }
  return false;
}

/* An idle card falls back to generation 1 to save power: only a busy one is held to its best. */
static bool pcie_generation(const ls_patient_t *p, char *evidence) {
  for (int i = 0; i < p->machine->gpu_count; i++) {
    const ls_gpu_t *g = &p->machine->gpu[i];
    bool busy = g->throttle_reasons >= 0 && !(g->throttle_reasons & THROTTLE_IDLE);
    if (!busy || g->pcie_generation <= 0 || g->pcie_generation >= g->pcie_generation_max) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES, "GPU %d (%s) is busy, but its link runs at PCIe %d.0 of %d.0", i,
             g->name, g->pcie_generation, g->pcie_generation_max);
    return true;
  }
  return false;
}

static bool throttled(const ls_patient_t *p, int64_t reasons, const char *what, char *evidence) {
  for (int i = 0; i < p->machine->gpu_count; i++) {
    const ls_gpu_t *g = &p->machine->gpu[i];
    if (g->throttle_reasons < 0 || !(g->throttle_reasons & reasons)) continue;
    int used = snprintf(evidence, LS_EVIDENCE_BYTES, "GPU %d (%s) is held back by %s", i, g->name, what);
    if (g->power_w >= 0 && g->power_limit_w > 0)
      used += snprintf(evidence + used, (size_t)(LS_EVIDENCE_BYTES - used), ", %.0f of %.0f W", g->power_w,
                       g->power_limit_w);
    if (g->temperature_c >= 0)
      used += snprintf(evidence + used, (size_t)(LS_EVIDENCE_BYTES - used), ", %d C", g->temperature_c);
    if (g->clock_sm_mhz >= 0 && g->clock_sm_max_mhz > 0)
      snprintf(evidence + used, (size_t)(LS_EVIDENCE_BYTES - used), ", %d of %d MHz", g->clock_sm_mhz,
               g->clock_sm_max_mhz);
    return true;
  }
  return false;
}

static bool power_cap(const ls_patient_t *p, char *evidence) {
  return throttled(p, THROTTLE_POWER_CAP | THROTTLE_POWER_BRAKE, "its power limit", evidence);
}

static bool thermal_cap(const ls_patient_t *p, char *evidence) {
  return throttled(p, THROTTLE_HW_SLOWDOWN | THROTTLE_SW_THERMAL | THROTTLE_HW_THERMAL,
                   "temperature or hardware slowdown", evidence);
}

/* All neighbours at once against the slowest pair alone. */
static bool transfers_collapse(const ls_patient_t *p, char *evidence) {
  static const char prefix[] = "device-copy ";
  const ls_curve_point_t *points;
  ls_time_t all;
  int count;
  double slowest = 0, bytes = 0;
  if (!p->profile || !ls_profile_get(p->profile, "device-copy cuda all", &all)) return false;
  for (int i = 0; i < ls_profile_curve_count(p->profile); i++) {
    const char *key = ls_profile_curve_at(p->profile, i, &points, &count);
    if (strncmp(key, prefix, sizeof prefix - 1) != 0 || points[count - 1].time.ns <= slowest) continue;
    slowest = points[count - 1].time.ns;
    bytes = points[count - 1].bytes;
  }
  if (slowest <= 0 || all.ns <= 1.5 * slowest) return false;
  snprintf(evidence, LS_EVIDENCE_BYTES,
           "a copy between two GPUs reaches %.1f GB/s alone, %.1f GB/s when all copy at once",
           bytes / slowest, bytes / all.ns);
  return true;
}

static bool blas_reference(const ls_patient_t *p, char *evidence) {
  const char *blas = p->machine->blas;
  snprintf(evidence, LS_EVIDENCE_BYTES, "matrix products come from \"%s\"", blas);
  return *blas && strncmp(blas, "oneDNN", 6) != 0 && strncmp(blas, "OpenBLAS", 8) != 0 &&
         strncmp(blas, "MKL", 3) != 0;
}

/* Kernels for CPUs before AVX2, on a CPU that has it. */
static bool blas_old_core(const ls_patient_t *p, char *evidence) {
  static const char *const old[] = {"Prescott", "Core2", "Penryn", "Dunnington",
                                    "Nehalem",  "Atom",  "generic"};
  const ls_machine_t *m = p->machine;
  const char *core = strrchr(m->blas, ' ');
  if (strncmp(m->blas, "OpenBLAS", 8) != 0 || !core || strncmp(m->cpu_flags, "avx", 3) != 0) return false;
  for (int i = 0; i < LS_COUNT(old); i++) {
    if (strcasecmp(core + 1, old[i]) != 0) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES, "OpenBLAS took this CPU (%s) for a %s", m->cpu_flags, old[i]);
    return true;
  }
  return false;
}

static bool threads_in_environment(const ls_patient_t *p, char *evidence) {
  static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"};
  for (int i = 0; i < LS_COUNT(names); i++) {
    const char *value = variable(p, names[i]);
    long threads = value ? number(value) : -1;
    if (p->machine->usable_cpus <= 0 || threads <= p->machine->usable_cpus) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES, "%s=%ld, but %d CPUs can be used", names[i], threads,
             p->machine->usable_cpus);
    return true;
  }
  return false;
}

static bool threads_over_cores(const ls_patient_t *p, char *evidence) {
  const ls_machine_t *m = p->machine;
  snprintf(evidence, LS_EVIDENCE_BYTES, "%d usable hardware threads on %d cores: one thread each by default",
           m->usable_cpus, m->cores);
  return m->cores > 0 && m->usable_cpus > m->cores;
}

static bool cpus_limited(const ls_patient_t *p, char *evidence) {
  const ls_machine_t *m = p->machine;
  snprintf(evidence, LS_EVIDENCE_BYTES, "%d of %d CPUs can be used (affinity or a container's quota)",
           m->usable_cpus, m->threads);
  return m->usable_cpus > 0 && m->usable_cpus < m->threads;
}

/* NCCL documentation, "Environment Variables": NCCL_NTHREADS. */
static bool nccl_nthreads(const ls_patient_t *p, char *evidence) {
  const char *value = variable(p, "NCCL_NTHREADS");
  if (!value) return false;
  long threads = number(value);
  snprintf(evidence, LS_EVIDENCE_BYTES, "NCCL_NTHREADS=%.32s is not a multiple of 32 from 64 to 512", value);
  return threads < 64 || threads > 512 || threads % 32 != 0;
}

static bool nccl_p2p(const ls_patient_t *p, char *evidence) {
  const ls_machine_t *m = p->machine;
  if (!is_set(p, "NCCL_P2P_DISABLE")) return false;
  for (int i = 0; i < m->gpu_count; i++)
    for (int j = i + 1; j < m->gpu_count; j++) {
      if (m->peer_access[i][j] != 1) continue;
      snprintf(evidence, LS_EVIDENCE_BYTES,
               "NCCL_P2P_DISABLE=%.8s, but GPUs %d and %d reach each other over %s",
               variable(p, "NCCL_P2P_DISABLE"), i, j, ls_link_name(m->link[i][j]));
      return true;
    }
  return false;
}

static bool nccl_shm(const ls_patient_t *p, char *evidence) {
  snprintf(evidence, LS_EVIDENCE_BYTES,
           "NCCL_SHM_DISABLE is set: GPUs without peer access talk through the network");
  return p->machine->gpu_count > 1 && is_set(p, "NCCL_SHM_DISABLE");
}

static bool nccl_channels(const ls_patient_t *p, char *evidence) {
  static const char *const names[] = {"NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"};
  for (int i = 0; i < LS_COUNT(names) && p->machine->gpu_count > 1; i++) {
    const char *value = variable(p, names[i]);
    long channels = value ? number(value) : -1;
    if (channels < 1 || channels > 2) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES, "%s=%ld: most of a fast link stays unused", names[i], channels);
    return true;
  }
  return false;
}

static bool nccl_debug(const ls_patient_t *p, char *evidence) {
  const char *value = variable(p, "NCCL_DEBUG");
  if (!value || p->machine->gpu_count < 1) return false;
  snprintf(evidence, LS_EVIDENCE_BYTES, "NCCL_DEBUG=%.16s writes a line per call", value);
  return !strcasecmp(value, "TRACE");
}

static bool launch_blocking(const ls_patient_t *p, char *evidence) {
  snprintf(evidence, LS_EVIDENCE_BYTES, "CUDA_LAUNCH_BLOCKING is set: the host waits for every kernel");
  return p->machine->gpu_count > 0 && is_set(p, "CUDA_LAUNCH_BLOCKING");
}

static bool gpus_unequal(const ls_patient_t *p, char *evidence) {
  const ls_machine_t *m = p->machine;
  for (int i = 1; i < m->gpu_count; i++) {
    if (!strcmp(m->gpu[i].name, m->gpu[0].name)) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES, "GPU 0 is a %s, GPU %d a %s", m->gpu[0].name, i, m->gpu[i].name);
    return true;
  }
  return false;
}

static bool gpus_unread(const ls_patient_t *p, char *evidence) {
  const ls_machine_t *m = p->machine;
  int unread = 0;
  for (int i = 0; i < m->gpu_count; i++) {
    const ls_gpu_t *g = &m->gpu[i];
    unread += g->throttle_reasons < 0 || g->power_w < 0 || g->clock_sm_mhz < 0 || g->pcie_width < 0;
  }
  snprintf(evidence, LS_EVIDENCE_BYTES,
           "NVML refuses clocks, power, limits or links of %d of %d GPUs%s%.100s", unread, m->gpu_count,
           *m->gpu_refused ? "; " : "", m->gpu_refused);
  return unread > 0 || (m->gpu_count > 0 && *m->gpu_refused);
}

/* Ranks that share memory: the part of a step that waits for memory does not become faster by more of them.
 */
static bool memory_crowded(const ls_patient_t *p, char *evidence) {
  for (int i = 0; p->profile && i < ls_profile_time_count(p->profile); i++) {
    ls_time_t factor;
    char kind[16];
    int ranks, threads;
    const char *key = ls_profile_time_at(p->profile, i, &factor);
    if (sscanf(key, "crowd cpu %dx%d %15s", &ranks, &threads, kind) != 3 || strcmp(kind, "memory") != 0)
      continue;
    if (factor.ns < 1.5 || factor.low_ns < 1.1) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES,
             "passes over memory take %.1f times as long when %d ranks make them at once", factor.ns, ranks);
    return true;
  }
  return false;
}

const ls_doctor_row_t ls_doctor_rows[] = {
    {"copies-wrong", LS_SEVERITY_ERROR, copies_wrong,
     "do not train over this link: switch the IOMMU to pass-through (iommu=pt), or set NCCL_P2P_DISABLE=1"},
    {"nccl-nthreads", LS_SEVERITY_ERROR, nccl_nthreads,
     "unset NCCL_NTHREADS; NCCL refuses or ignores this value"},
    {"peer-access-off", LS_SEVERITY_WARNING, peer_off,
     "switch off ACS redirection of the PCIe switches and the IOMMU (or iommu=pt) in BIOS and kernel command "
     "line"},
    {"pcie-width", LS_SEVERITY_WARNING, pcie_width,
     "reseat the card, use the slot wired for its full width, check for a second card or drive that shares "
     "the lanes"},
    {"pcie-generation", LS_SEVERITY_WARNING, pcie_generation,
     "set the slot to its full generation in the BIOS; risers and long cables force lower ones"},
    {"power-cap", LS_SEVERITY_WARNING, power_cap,
     "raise the limit (nvidia-smi -pl WATTS) or accept it: measurements hold for this limit only"},
    {"thermal-cap", LS_SEVERITY_WARNING, thermal_cap, "improve the airflow; measure again when it is cool"},
    {"transfers-collapse", LS_SEVERITY_WARNING, transfers_collapse,
     "the cards share an uplink: move them to slots of different root ports, or let fewer exchange at once"},
    {"blas-reference", LS_SEVERITY_WARNING, blas_reference,
     "install libdnnl-dev or libopenblas-dev and build again"},
    {"blas-old-core", LS_SEVERITY_WARNING, blas_old_core,
     "set OPENBLAS_CORETYPE=SkylakeX (AVX-512) or Haswell (AVX2), or build with oneDNN (libdnnl-dev)"},
    {"threads-environment", LS_SEVERITY_WARNING, threads_in_environment,
     "unset it; lockstep divides the CPUs among its ranks itself"},
    {"nccl-p2p-disabled", LS_SEVERITY_WARNING, nccl_p2p, "unset NCCL_P2P_DISABLE"},
    {"nccl-shm-disabled", LS_SEVERITY_WARNING, nccl_shm, "unset NCCL_SHM_DISABLE"},
    {"nccl-channels", LS_SEVERITY_WARNING, nccl_channels, "unset it and let NCCL choose"},
    {"nccl-debug", LS_SEVERITY_WARNING, nccl_debug, "set NCCL_DEBUG=WARN"},
    {"launch-blocking", LS_SEVERITY_WARNING, launch_blocking, "unset CUDA_LAUNCH_BLOCKING"},
    {"peer-access-bridge", LS_SEVERITY_INFO, peer_off_bridge,
     "copies go through host memory, as GeForce drivers have it; lockstep plan counts with what that costs"},
    {"memory-crowded", LS_SEVERITY_INFO, memory_crowded,
     "more ranks help steps bound by products, not by memory; lockstep plan counts with it"},
    {"threads-over-cores", LS_SEVERITY_INFO, threads_over_cores,
     "try parallel.threads = cores / ranks: two threads of a core share its units"},
    {"cpus-limited", LS_SEVERITY_INFO, cpus_limited,
     "ask the scheduler or the container engine for more CPUs"},
    {"gpus-unequal", LS_SEVERITY_INFO, gpus_unequal,
     "the slowest decides the pace of equal shares; use one kind per run"},
    {"gpus-unread", LS_SEVERITY_INFO, gpus_unread,
     "limits that act cannot be seen; nvidia-smi -q as root may say more"},
};
const int ls_doctor_row_count = LS_COUNT(ls_doctor_rows);
static_assert(LS_COUNT(ls_doctor_rows) <= LS_FINDINGS_MAX, "every row can fire at once");
