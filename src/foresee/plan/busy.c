/* Timings that were made while other programs ran. They are marked in the profile, so that a later plan
 * repeats them instead of trusting them. Marks are curves over rows, like the times to which they belong. */
#include "machine/load.h"
#include "plan/candidate.h"
#include "plan/family.h"

#include <math.h>
#include <string.h>

struct ls_timed {
  const char *timing;
  int64_t rows;
  ls_timed_t *next;
};

double ls_cost_busy(const ls_profile_t *profile, const char *timing, int64_t rows) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t share;
  bool exact;
  return ls_family_look_up(profile, ls_family_key(timing, "busy", key), (double)rows, &share, &exact) && exact
             ? share.ns
             : 0;
}

bool ls_busy_timed(const ls_planner_t *p, const char *timing, int64_t rows) {
  for (const ls_timed_t *t = p->timings; t; t = t->next)
    if (t->rows == rows && !strcmp(t->timing, timing)) return true;
  return false;
}

ls_status_t ls_busy_note(ls_planner_t *p, const char *timing, int64_t rows) {
  if (ls_busy_timed(p, timing, rows)) return LS_OK;
  ls_timed_t *t = ls_arena_alloc(p->arena, sizeof *t);
  const char *name = t ? ls_arena_strdup(p->arena, timing) : NULL;
  if (!name) return LS_ERR_MEMORY;
  *t = (ls_timed_t){name, rows, p->timings};
  p->timings = t;
  return LS_OK;
}

ls_status_t ls_busy_mark(ls_planner_t *p, double others) {
  double share = others > LS_LOAD_DISTURBING ? others : 0; /* not known: 0 */
  ls_status_t status = LS_OK;
  for (const ls_timed_t *t = p->timings; t && status == LS_OK; t = t->next) {
    char key[LS_PROFILE_KEY_BYTES];
    if (ls_cost_busy(p->profile, t->timing, t->rows) == share) continue;
    status = ls_family_put(p->profile, ls_family_key(t->timing, "busy", key), (double)t->rows,
                           &(ls_time_t){share, share, share});
  }
  return status;
}
