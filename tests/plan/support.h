/* A small network, a machine that is not here and a profile filled by hand, so that every price can be
 * computed by hand too. */
#ifndef TESTS_PLAN_SUPPORT_H
#define TESTS_PLAN_SUPPORT_H

#include "plan/candidate.h"

#include "unit.h"

/* Forward and backward tasks take row_ns a row each, tasks of the optimizer fixed_ns; the step is their sum,
 * overhead_ns and wait_ns, which ranks spend exchanging and waiting for each other. */
typedef struct {
  double row_ns, fixed_ns, overhead_ns, wait_ns;
} pace_t;

ls_config_t *small_config(ls_ctx_t *ctx, const char *more); /* `more`: further YAML lines */
ls_profile_t *small_profile(ls_ctx_t *ctx);
ls_planner_t small_planner(ls_ctx_t *ctx, const ls_config_t *config, ls_profile_t *profile);
/* As if the candidate had been timed. Returns how many tasks depend on rows; *fixed how many do not. */
int fill_timing(ls_planner_t *p, ls_candidate_t *c, const pace_t *pace, int *fixed);
/* A flat curve: every all-reduce over `ranks` takes ns. */
void fill_all_reduce(ls_profile_t *profile, int ranks, double ns);
void fill_all_gather(ls_profile_t *profile, int ranks, double ns);

#endif
