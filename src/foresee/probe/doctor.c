/* Runs every row and sorts the findings. */
#include "probe/doctor.h"

#include <assert.h>

const char *ls_severity_name(ls_severity_t severity) {
  static const char *const names[] = {"info", "warning", "error"};
  static_assert(LS_COUNT(names) == LS_SEVERITY_ERROR + 1, "one name per severity");
  return names[severity];
}

int ls_doctor_examine(const ls_doctor_subject_t *subject, ls_finding_t *findings) {
  int count = 0;
  for (int severity = LS_SEVERITY_ERROR; severity >= LS_SEVERITY_INFO; severity--)
    for (int i = 0; i < ls_doctor_row_count && count < LS_FINDINGS_MAX; i++) {
      const ls_doctor_row_t *row = &ls_doctor_rows[i];
      ls_finding_t *finding = &findings[count];
      if ((int)row->severity != severity) continue;
      finding->evidence[0] = '\0';
      if (!row->found(subject, finding->evidence)) continue;
      finding->id = row->id;
      finding->severity = row->severity;
      finding->remedy = row->remedy;
      count++;
    }
  return count;
}
