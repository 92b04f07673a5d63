/* Cost of ownership: does the time that more devices save pay for them? The study's formula, with its
 * constants as options (section cost). */
#include "plan/candidate.h"

#include <math.h>

static const ls_candidate_t *best_on(const ls_plan_t *plan, bool one) {
  for (int i = 0; i < plan->count; i++) {
    const ls_candidate_t *c = &plan->candidate[i];
    if (c->priced && c->fits && (ls_candidate_devices(c) == 1) == one) return c;
  }
  return NULL;
}

static double run_hours(const ls_config_t *config, const ls_plan_t *plan, double step_ns) {
  double steps = (double)config->train.steps;
  if (config->train.steps == 0) {
    if (plan->samples < 0) return NAN;
    steps = ceil((double)config->train.epochs * (double)plan->samples / (double)config->train.batch);
  }
  return steps * step_ns * 1e-9 / 3600;
}

double ls_plan_saved_hours(const ls_config_t *config, const ls_plan_t *plan, double step_ns, double than_ns) {
  if (config->cost.trainings_per_month <= 0) return NAN;
  double hours = run_hours(config, plan, step_ns) - run_hours(config, plan, than_ns);
  return hours * config->cost.trainings_per_month;
}

void ls_plan_ownership(const ls_config_t *config, const ls_plan_t *plan, ls_ownership_t *o) {
  const ls_cost_config_t *cost = &config->cost;
  const ls_candidate_t *one = best_on(plan, true), *more = best_on(plan, false);
  *o = (ls_ownership_t){.break_even_months = NAN, .verdict = ""};
  if (!one || !more || cost->trainings_per_month <= 0) return;
  double hours_one = run_hours(config, plan, one->mean.ns),
         hours_more = run_hours(config, plan, more->mean.ns);
  if (!isfinite(hours_one) || !isfinite(hours_more)) return;
  int extra = ls_candidate_devices(more) - 1;
  double kwh = (hours_more * ls_candidate_devices(more) - hours_one) * cost->power_w * 1e-3;
  o->known = true;
  o->devices = ls_candidate_devices(more);
  o->saved_hours_month = (hours_one - hours_more) * cost->trainings_per_month;
  o->benefit_month = o->saved_hours_month * cost->engineer_hour;
  o->energy_month = kwh * cost->price_kwh * cost->trainings_per_month;
  o->hardware_month = cost->device_price * extra / cost->amortize_months;
  o->overhead_month = cost->overhead_month;
  double running = o->benefit_month - o->energy_month - o->overhead_month;
  o->net_month = running - o->hardware_month;
  o->break_even_months = running > 0 ? cost->device_price * extra / running : INFINITY;
  if (o->saved_hours_month <= 0)
    o->verdict = "more devices are slower: they never pay for themselves";
  else if (running <= 0)
    o->verdict = "the time saved is worth less than what more devices cost every month: never";
  else if (o->break_even_months > cost->amortize_months)
    o->verdict = "more devices pay for themselves only after they are written off";
  else
    o->verdict = "more devices pay for themselves";
}
