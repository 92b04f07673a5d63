/* Findings about environment variables that change the behaviour of lockstep, NCCL or CUDA. */
#include "probe/doctor_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *variable(const ls_doctor_subject_t *p, const char *name) {
  return p->variable ? p->variable(p->user, name) : NULL;
}

static bool is_set(const ls_doctor_subject_t *p, const char *name) {
  const char *value = variable(p, name);
  return value && *value && strcmp(value, "0") != 0;
}

/* A whole number, or -1. */
static long number(const char *text) {
  char *end;
  long value = strtol(text, &end, 10);
  return end == text || *end || value < 0 ? -1 : value;
}

bool ls_doctor_threads_in_environment(const ls_doctor_subject_t *p, char *evidence) {
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

/* NCCL documentation, "Environment Variables": NCCL_NTHREADS. */
bool ls_doctor_nccl_nthreads(const ls_doctor_subject_t *p, char *evidence) {
  const char *value = variable(p, "NCCL_NTHREADS");
  if (!value) return false;
  long threads = number(value);
  snprintf(evidence, LS_EVIDENCE_BYTES, "NCCL_NTHREADS=%.32s is not a multiple of 32 from 64 to 512", value);
  return threads < 64 || threads > 512 || threads % 32 != 0;
}

bool ls_doctor_nccl_p2p(const ls_doctor_subject_t *p, char *evidence) {
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

bool ls_doctor_nccl_shm(const ls_doctor_subject_t *p, char *evidence) {
  snprintf(evidence, LS_EVIDENCE_BYTES,
           "NCCL_SHM_DISABLE is set: GPUs without peer access talk through the network");
  return p->machine->gpu_count > 1 && is_set(p, "NCCL_SHM_DISABLE");
}

bool ls_doctor_nccl_channels(const ls_doctor_subject_t *p, char *evidence) {
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

bool ls_doctor_nccl_debug(const ls_doctor_subject_t *p, char *evidence) {
  const char *value = variable(p, "NCCL_DEBUG");
  if (!value || p->machine->gpu_count < 1) return false;
  snprintf(evidence, LS_EVIDENCE_BYTES, "NCCL_DEBUG=%.16s writes a line per call", value);
  return !strcasecmp(value, "TRACE");
}

bool ls_doctor_launch_blocking(const ls_doctor_subject_t *p, char *evidence) {
  snprintf(evidence, LS_EVIDENCE_BYTES, "CUDA_LAUNCH_BLOCKING is set: the host waits for every kernel");
  return p->machine->gpu_count > 0 && is_set(p, "CUDA_LAUNCH_BLOCKING");
}
