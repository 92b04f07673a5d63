/* The doctor: facts about this machine that cost speed, each finding with its evidence and a remedy. Findings
 * are rows (doctor_rows.c). They read only their arguments, so recorded machines can be examined too. */
#ifndef LS_PROBE_DOCTOR_H
#define LS_PROBE_DOCTOR_H

#include "machine/profile.h"

typedef enum { LS_SEVERITY_INFO, LS_SEVERITY_WARNING, LS_SEVERITY_ERROR } ls_severity_t;
enum { LS_EVIDENCE_BYTES = 256, LS_FINDINGS_MAX = 32 };

typedef struct {
  const ls_machine_t *machine;
  const ls_profile_t *profile; /* NULL: nothing was measured */
  /* Value of an environment variable or NULL. NULL: the environment of this process does not count (a
   * recording). */
  const char *(*variable)(void *user, const char *name);
  void *user;
  int wrong_copies; /* pairs of devices whose copies arrived wrong */
} ls_doctor_subject_t;

typedef struct {
  const char *id; /* "pcie-width" */
  ls_severity_t severity;
  char evidence[LS_EVIDENCE_BYTES]; /* one line */
  const char *remedy;               /* one line */
} ls_finding_t;

/* Fills findings (LS_FINDINGS_MAX of them), the most severe first; returns how many. */
int ls_doctor_examine(const ls_doctor_subject_t *subject, ls_finding_t *findings);
const char *ls_severity_name(ls_severity_t severity); /* "info", "warning", "error" */

/* doctor_rows.c: `found` writes the evidence if the finding applies. */
typedef bool ls_doctor_found_fn(const ls_doctor_subject_t *subject, char evidence[LS_EVIDENCE_BYTES]);
typedef struct {
  const char *id;
  ls_severity_t severity;
  ls_doctor_found_fn *found;
  const char *remedy;
} ls_doctor_row_t;
extern const ls_doctor_row_t ls_doctor_rows[];
extern const int ls_doctor_row_count;

#endif
