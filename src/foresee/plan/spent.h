/* The memory of a training that has ended: what it needed, what this machine's profile predicts, what was measured. */
#ifndef LS_PLAN_SPENT_H
#define LS_PLAN_SPENT_H

#include "plan/plan.h"

extern const ls_record_t ls_plan_need_record;  /* of an ls_train_memory_t, in bytes */
extern const char *const ls_plan_no_libraries; /* the reason where libraries are not measured */

typedef struct {
  ls_train_memory_t need;
  bool assumed; /* libraries are not measured here */
  int64_t library_bytes;
  int64_t predicted_bytes; /* need and libraries; 0 = nothing is predicted */
  const char *reason;      /* then, why */
} ls_plan_spent_t;
/* Predicts by this machine's profile; a missing or faulty one only means that nothing is predicted. Local. */
void ls_plan_spent(const ls_config_t *config, const ls_train_report_t *report, ls_plan_spent_t *spent);
json_t *ls_plan_spent_json(const ls_plan_spent_t *spent); /* new reference; NULL when memory is short */

#endif
