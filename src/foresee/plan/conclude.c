/* Conclusions from the prices: the order of the candidates, the choice, how much slower the others are and
 * why, and the cost of an epoch. */
#include "plan/candidate.h"

#include <math.h>
#include <stdlib.h>

/* The upper bound of the mean decides: a short median is worth nothing to a run whose other steps are long, and a mean that
 * varies may be the long one next time. */
static int by_time(const void *a, const void *b) {
  const ls_candidate_t *x = a, *y = b;
  bool good_x = x->priced && x->fits, good_y = y->priced && y->fits;
  if (good_x != good_y) return good_y - good_x;
  if (x->priced != y->priced) return y->priced - x->priced;
  if (x->priced && x->mean.high_ns != y->mean.high_ns) return x->mean.high_ns < y->mean.high_ns ? -1 : 1;
  return ls_candidate_devices(x) != ls_candidate_devices(y)
             ? ls_candidate_devices(x) - ls_candidate_devices(y)
         : ls_candidate_threads(x) != ls_candidate_threads(y)
             ? ls_candidate_threads(x) - ls_candidate_threads(y)
             : x->collectives - y->collectives;
}

static void add_costs(const ls_config_t *config, const ls_plan_t *plan, ls_candidate_t *c) {
  const ls_cost_config_t *cost = &config->cost;
  if (plan->samples < 0) return;
  c->epoch_s = ceil((double)plan->samples / (double)plan->batch) * c->mean.ns * 1e-9;
  double hours = c->epoch_s / 3600;
  if (cost->power_w > 0) c->epoch_kwh = hours * cost->power_w * 1e-3 * ls_candidate_devices(c);
  double energy = cost->power_w > 0 && cost->price_kwh > 0 ? c->epoch_kwh * cost->price_kwh : 0;
  if (cost->device_hour > 0 || energy > 0)
    c->epoch_cost = hours * ls_candidate_devices(c) * cost->device_hour + energy;
}

static double needed_mb(const ls_candidate_t *c) {
  return (double)(c->host_short ? c->need.host_bytes : c->device_bytes) * 1e-6;
}

/* Says that the need contains an allowance if the libraries' memory was not measured. */
static const char *allowance(const ls_candidate_t *c) {
  return c->library_assumed && !c->host_short ? " with an allowance for libraries (not measured here)" : "";
}

static const char *explain(ls_arena_t *arena, const ls_candidate_t *best, const ls_candidate_t *c) {
  const ls_strategy_t *strategy = ls_strategy_find(c->config.parallel.strategy);
  if (!c->fits)
    return ls_arena_printf(arena, "does not fit: %.1f MB%s for each rank%s", needed_mb(c),
                           c->host_short ? " of the host's memory" : "", allowance(c));
  if (!c->priced) return c->why;
  if (c->step.ns < best->step.ns && c->mean.high_ns > c->mean.ns)
    return ls_arena_printf(
        arena,
        "its median step is %.1f %% shorter, but its steps vary: a run takes %.1f us for each (90 %%: %.1f "
        "to %.1f), that of the choice %.1f to %.1f",
        100 * (1 - c->step.ns / best->step.ns), c->mean.ns * 1e-3, c->mean.low_ns * 1e-3,
        c->mean.high_ns * 1e-3, best->mean.low_ns * 1e-3, best->mean.high_ns * 1e-3);
  double slower = 100 * (c->mean.ns / best->mean.ns - 1), exposed = 100 * c->exposed_ns / c->step.ns;
  const char *sure = c->step.low_ns > best->step.high_ns && c->mean.low_ns > best->mean.high_ns
                         ? ""
                         : " (the intervals overlap)";
  if (ls_candidate_devices(c) > ls_candidate_devices(best))
    return ls_arena_printf(
        arena, "%.1f %% slower: of its step %.0f %% is exposed communication and %.0f %% the optimizer%s%s",
        slower, exposed, 100 * c->parts_ns[LS_PHASE_STEP_OPTIMIZER] / c->step.ns,
        strategy && strategy->shards ? "" : ", which every rank repeats", sure);
  if (ls_candidate_devices(c) < ls_candidate_devices(best))
    return ls_arena_printf(arena, "%.1f %% slower: all the work on fewer devices%s", slower, sure);
  if (ls_candidate_threads(c) != ls_candidate_threads(best))
    return ls_arena_printf(arena, "%.1f %% slower: %d thread%s instead of %d%s", slower,
                           ls_candidate_threads(c), LS_PLURAL(ls_candidate_threads(c)),
                           ls_candidate_threads(best), sure);
  const char *differs = ls_plan_difference(arena, c, best);
  return !differs ? NULL
                  : ls_arena_printf(arena, "%.1f %% slower: %s%s%.1f us of communication exposed%s", slower,
                                    differs, *differs ? "; " : "", c->exposed_ns * 1e-3, sure);
}

/* A doubt about the choice: "" unless its steps, or those of the next best candidate, vary by more than the two differ. */
static const char *doubt(ls_arena_t *arena, const ls_plan_t *plan) {
  const ls_time_t *best = &plan->candidate[0].mean, *next = &plan->candidate[plan->count > 1].mean;
  if (plan->count < 2 || !plan->candidate[1].priced || !plan->candidate[1].fits ||
      next->low_ns > best->high_ns || (next->low_ns == next->ns && best->high_ns == best->ns))
    return "";
  const char *name = ls_plan_name(arena, &plan->candidate[1]);
  return !name ? NULL
               : ls_arena_printf(
                     arena,
                     "not sure: a run takes %.1f to %.1f us for a step (90 %%), and %.1f to %.1f with %s",
                     best->low_ns * 1e-3, best->high_ns * 1e-3, next->low_ns * 1e-3, next->high_ns * 1e-3,
                     name);
}

ls_status_t ls_plan_conclude(const ls_config_t *config, ls_plan_t *plan) {
  qsort(plan->candidate, (size_t)plan->count, sizeof *plan->candidate, by_time);
  const ls_candidate_t *best = plan->candidate, *one = NULL;
  plan->choice = plan->count > 0 && best->priced && best->fits ? 0 : -1;
  for (int i = 0; i < plan->count && !one; i++)
    if (plan->candidate[i].priced && ls_candidate_devices(&plan->candidate[i]) == 1)
      one = &plan->candidate[i];
  for (int i = 0; i < plan->count; i++) {
    ls_candidate_t *c = &plan->candidate[i];
    if (c->priced && one) {
      double speedup = one->mean.ns / c->mean.ns;
      bool disturbed = speedup > ls_candidate_devices(c) && (c->busy_share > 0 || one->busy_share > 0);
      c->speedup = disturbed ? NAN : speedup;
      c->efficiency = c->speedup / ls_candidate_devices(c);
    }
    if (c->priced) add_costs(config, plan, c);
    if (plan->choice >= 0 &&
        !(c->why = i == plan->choice ? doubt(&plan->arena, plan) : explain(&plan->arena, best, c)))
      return LS_ERR_MEMORY;
  }
  ls_plan_ownership(config, plan, &plan->ownership);
  return LS_OK;
}

ls_status_t ls_plan_nothing_chosen(ls_ctx_t *ctx, const ls_plan_t *plan) {
  if (plan->count == 0)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "plan: the devices asked for cannot share this step");
  const ls_candidate_t *least = plan->candidate;
  if (least->fits) return ls_fail(ctx, LS_ERR_NOT_FOUND, "plan: %s", least->why);
  for (int i = 1; i < plan->count; i++)
    if (needed_mb(&plan->candidate[i]) < needed_mb(least)) least = &plan->candidate[i];
  bool host = least->host || least->host_short;
  return ls_fail(
      ctx, LS_ERR_MEMORY,
      "plan: no candidate fits: the smallest needs %.1f MB%s%s for each of %d rank%s (samples in memory: "
      "%.1f MB), and %.1f MB are there for %s; use a smaller network, batch or data set",
      needed_mb(least), least->host_short ? " of the host's memory" : "", allowance(least),
      ls_candidate_devices(least), LS_PLURAL(ls_candidate_devices(least)),
      (double)least->need.samples_bytes * 1e-6,
      (double)(least->host_short ? plan->host_memory_bytes : plan->memory_bytes) * 1e-6,
      host ? "all of them" : "each");
}
