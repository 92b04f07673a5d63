/* The global batch from which more devices win: the batch is doubled until they do, then the place is
 * narrowed down. Op times are interpolated between the timed batches, and extrapolated beyond them. */
#include "plan/candidate.h"

#include <math.h>

enum { NARROW_STEPS = 5, TIMED_PLACES = 4, STEPS_TIMED = 5 };
static const double step_long_ns = 100e6;

/* The configuration holds the plan's own batch, so another batch needs a copy. */
static ls_status_t price_at(const ls_planner_t *p, int devices, int64_t batch, double *step_ns) {
  ls_config_t config = *p->config;
  ls_planner_t at = *p;
  config.train.batch = batch;
  at.config = &config;
  ls_candidate_t c = ls_candidate_make(&at, devices, NULL);
  ls_status_t status = ls_candidate_price(&at, &c);
  *step_ns = status == LS_OK && c.priced ? c.mean.high_ns : NAN;
  return status;
}

static ls_status_t wins(const ls_planner_t *p, int devices, int64_t batch, bool *known, bool *faster) {
  double one, many = NAN;
  ls_status_t status = price_at(p, 1, batch, &one);
  if (status == LS_OK) status = price_at(p, devices, batch, &many);
  *known = isfinite(one) && isfinite(many);
  *faster = *known && many < one;
  return status;
}

/* Whether the step can be timed here and now: it fits into the memory that is left, and STEPS_TIMED of it into the budget.
 * A curve of few points may promise anything beyond them, so a step takes at least as long as its FLOPs. */
static bool can_time(const ls_planner_t *p, const ls_candidate_t *c) {
  char timing[LS_FAMILY_BYTES];
  ls_time_t step = {.ns = 0};
  bool exact;
  ls_cost_timing(p->backend, c, timing);
  ls_cost_step(p->profile, timing, (double)c->rows, &step, NULL, &exact);
  const double ns = fmax(step.ns, c->flops / p->flops_per_ns),
               left_ns = (double)(p->deadline_ns - ls_clock_ns());
  const int64_t bytes = (int64_t)c->fit.device_total_bytes *
                        (p->backend->host_memory ? ls_candidate_devices(c) : 1),
                free_bytes = p->backend->host_memory ? p->free_bytes : -1;
  return ns <= step_long_ns && STEPS_TIMED * ns <= left_ns &&
         (p->memory_bytes <= 0 || bytes < p->memory_bytes) && (free_bytes < 0 || bytes < free_bytes);
}

/* Steps that cannot be timed are extrapolated from those that were. */
static ls_status_t time_place(ls_planner_t *p, ls_candidate_t *c) {
  ls_status_t status = ls_candidate_name(p, c);
  return status == LS_OK && can_time(p, c) ? ls_candidate_time(p, c) : status;
}

/* Times both sides at a few batches, so that the lines between them are short. */
static ls_status_t time_places(ls_planner_t *p, int devices, int64_t batch_max) {
  ls_status_t status = LS_OK;
  int64_t batch = 16;
  for (int i = 0; i < TIMED_PLACES && batch <= batch_max && status == LS_OK; i++, batch *= 8) {
    ls_config_t config = *p->config;
    config.train.batch = batch;
    const ls_config_t *own = p->config;
    p->config = &config;
    for (int side = 0; side < 2 && status == LS_OK; side++) {
      int n = side == 0 ? 1 : devices;
      ls_candidate_t c = ls_candidate_make(p, n, NULL);
      ls_program_t program = {0};
      status = ls_candidate_lower(p, &c, &program); /* its rows, and where its data are */
      ls_program_release(&program);
      p->window_ns = (p->deadline_ns - ls_clock_ns()) / 2 / (2 * (TIMED_PLACES - i) - side);
      if (status == LS_OK) status = time_place(p, &c);
    }
    p->config = own;
  }
  return status;
}

ls_status_t ls_plan_crossover(ls_planner_t *p, int devices, int64_t batch_max, ls_crossover_t *crossover) {
  p->searching = true;
  ls_status_t status = p->flops_per_ns > 0 ? time_places(p, devices, batch_max) : LS_OK;
  p->searching = false;
  bool known = false, faster, any = false;
  int64_t lost = 0, won = -1; /* largest batch that loses, smallest above it that wins */
  for (int64_t batch = devices; batch <= batch_max && status == LS_OK; batch *= 2) {
    status = wins(p, devices, batch, &known, &faster);
    if (!known) continue;
    any = true;
    if (!faster) {
      lost = batch;
      won = -1;
    } else if (won < 0) {
      won = batch;
    }
  }
  for (int i = 0; i < NARROW_STEPS && won > 0 && lost > 0 && won - lost > 1 && status == LS_OK; i++) {
    int64_t middle = lost + (won - lost) / 2;
    status = wins(p, devices, middle, &known, &faster);
    if (status != LS_OK || !known) break;
    if (faster)
      won = middle;
    else
      lost = middle;
  }
  if (status == LS_OK) *crossover = (ls_crossover_t){.devices = devices, .batch = won, .known = any};
  return status;
}
