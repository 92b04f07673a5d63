/* A plan with the profile that it was made with, as lockstep plan makes it: the profile is found, or a quick probe measures
 * it; new timings are saved in it. */
#ifndef LS_PLAN_PLANNED_H
#define LS_PLAN_PLANNED_H

#include "base/child.h"
#include "machine/machine.h"
#include "machine/profile.h"
#include "plan/plan.h"

typedef struct {
  ls_machine_t machine;
  ls_profile_t *profile;
  char *path;   /* of the profile */
  bool probed;  /* there was none: the quick probe made it */
  bool kept;    /* there is a file of it */
  bool unsaved; /* what was measured could not be saved: this plan alone has it */
  ls_plan_t plan;
  const char *env; /* chosen in the configuration, which owns it; NULL: none */
} ls_planned_t;

/* Runs the probe's process so that a signal ends it (ls_child_run), and tells the first signal, 0 = none, and its name. */
typedef struct {
  bool (*run)(ls_child_spec_t *spec, ls_child_end_t *end);
  int (*requested)(void);
  const char *(*name)(int signal_number);
} ls_plan_stop_t;

/* `recorded`: profile of another machine for which to plan; NULL = this machine. `options` may be changed (samples,
 * replay). The caller releases *planned after LS_OK. LS_ERR_INTERRUPTED, LS_ERR_NOT_FOUND: the probe ended without a
 * profile. */
ls_status_t ls_planned_make(ls_ctx_t *ctx, const ls_config_t *config, const char *recorded,
                            const ls_plan_stop_t *stop, ls_plan_options_t *options, ls_planned_t *planned);
void ls_planned_release(ls_planned_t *planned);

/* The document of lockstep plan. `command`: the shell line that trains a candidate, in the arena; NULL when memory is short.
 * New reference; NULL when memory is short. */
typedef const char *(*ls_planned_command_fn)(const void *user, ls_arena_t *arena,
                                             const ls_candidate_t *candidate);
json_t *ls_planned_json(ls_ctx_t *ctx, const ls_planned_t *planned, ls_planned_command_fn command,
                        const void *user);

#endif
