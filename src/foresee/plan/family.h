/* Families of steps in a profile: a family is everything on which a step's task times depend, except the
 * number of rows. Times are kept as curves over rows, or for tasks of the optimizer over bytes. Inside the
 * plan module. */
#ifndef LS_PLAN_FAMILY_H
#define LS_PLAN_FAMILY_H

#include "plan/cost.h"

/* The key of a task's time over rows. False: it is not timed (a collective). */
bool ls_family_task_key(const char *family, const ls_schedule_t *s, const ls_task_t *task,
                        char key[LS_PROFILE_KEY_BYTES]);
/* Tasks of the optimizer and casts for the wire: they do not depend on rows. */
bool ls_family_by_bytes(const ls_task_t *task);
/* The key of their times over bytes, for buckets that were not timed. */
void ls_family_op_key(const char *family, const ls_task_t *task, char key[LS_PROFILE_KEY_BYTES]);
/* "overhead", "skew", "process" (bytes); of a timing (ls_cost_timing) "step", "mean", "well timed", "busy". Returns key. */
const char *ls_family_key(const char *family, const char *what, char key[LS_PROFILE_KEY_BYTES]);
/* Whether the curve has a point exactly there. */
bool ls_family_has(const ls_profile_t *profile, const char *key, double at);
/* Sets one point of a curve; a full one forgets its second smallest. */
ls_status_t ls_family_put(ls_profile_t *profile, const char *key, double at, const ls_time_t *time);
ls_time_t ls_family_scaled(ls_time_t t, double by);
/* The curve's time at `at`; *exact tells whether it was measured there. Beyond the ends: the nearest
 * segment's slope upwards, the first point downwards; a single point is scaled in proportion upwards. */
bool ls_family_look_up(const ls_profile_t *profile, const char *key, double at, ls_time_t *time, bool *exact);

#endif
