/* Findings about processors, memory and the library that multiplies matrices. */
#include "probe/doctor_rows.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

bool ls_doctor_blas_reference(const ls_doctor_subject_t *p, char *evidence) {
  const char *blas = p->machine->blas;
  snprintf(evidence, LS_EVIDENCE_BYTES, "matrix products come from \"%s\"", blas);
  return *blas && strncmp(blas, "oneDNN", 6) != 0 && strncmp(blas, "OpenBLAS", 8) != 0 &&
         strncmp(blas, "MKL", 3) != 0;
}

/* Kernels for CPUs before AVX2, on a CPU that has it. */
bool ls_doctor_blas_old_core(const ls_doctor_subject_t *p, char *evidence) {
  static const char *const old[] = {"Prescott", "Core2", "Penryn", "Dunnington",
                                    "Nehalem",  "Atom",  "generic"};
  const ls_machine_t *m = p->machine;
  bool own = strncmp(m->blas, "OpenBLAS", 8) == 0;
  const char *core = strrchr(own ? m->blas : m->openblas, ' ');
  if (!core || strncmp(m->cpu_flags, "avx", 3) != 0) return false;
  for (int i = 0; i < LS_COUNT(old); i++) {
    if (strcasecmp(core + 1, old[i]) != 0) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES, "OpenBLAS took this CPU (%.15s) for a %s%s%.60s%s", m->cpu_flags,
             old[i],
             own ? "" : ": programs that use it (NumPy, PyTorch) are several times slower; lockstep uses ",
             own ? "" : m->blas, own ? "" : " instead");
    return true;
  }
  return false;
}

bool ls_doctor_threads_over_cores(const ls_doctor_subject_t *p, char *evidence) {
  const ls_machine_t *m = p->machine;
  snprintf(evidence, LS_EVIDENCE_BYTES, "%d usable hardware threads on %d cores: one thread each by default",
           m->usable_cpus, m->cores);
  return m->cores > 0 && m->usable_cpus > m->cores;
}

bool ls_doctor_cpus_limited(const ls_doctor_subject_t *p, char *evidence) {
  const ls_machine_t *m = p->machine;
  snprintf(evidence, LS_EVIDENCE_BYTES, "%d of %d CPUs can be used (affinity or a container's quota)",
           m->usable_cpus, m->threads);
  return m->usable_cpus > 0 && m->usable_cpus < m->threads;
}

/* Ranks share memory: the part of a step that waits for memory does not become faster with more ranks. */
bool ls_doctor_memory_contention(const ls_doctor_subject_t *p, char *evidence) {
  for (int i = 0; p->profile && i < ls_profile_time_count(p->profile); i++) {
    ls_time_t factor;
    char words[LS_PROFILE_KEY_BYTES];
    ls_profile_key_t key;
    if (!ls_profile_key_read(ls_profile_time_at(p->profile, i, &factor), LS_KEY_CONTENTION, words, &key) ||
        strcmp(key.backend, "cpu") != 0 || strcmp(key.name, "memory") != 0)
      continue;
    if (factor.ns < 1.5 || factor.low_ns < 1.1) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES,
             "passes over memory take %.1f times as long when %d ranks make them at once", factor.ns,
             key.ranks);
    return true;
  }
  return false;
}

bool ls_doctor_measured_busy(const ls_doctor_subject_t *p, char *evidence) {
  double busy = p->profile ? ls_profile_busy(p->profile) : 0;
  snprintf(evidence, LS_EVIDENCE_BYTES,
           "other programs took %.0f %% of the processors while they were measured", 100 * busy);
  return busy > 0;
}
