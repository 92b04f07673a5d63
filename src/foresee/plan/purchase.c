/* Which purchase would help more than one more device: every candidate is priced again with the times that
 * the purchase changes, and the fastest of them is compared with today's choice. These are predictions of
 * predictions: trust the order of the purchases more than the figures. */
#include "plan/candidate.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
  const char *id, *what; /* what NULL: see more_of_the_same */
  ls_scale_t scale;
  double price; /* 0 = not given */
  bool each;    /* the price is one device's */
} offer_t;

/* The fastest candidate with scaled times. */
static ls_status_t price_again(const ls_planner_t *p, const ls_plan_t *plan, const ls_scale_t *scale,
                               ls_purchase_t *out) {
  ls_planner_t scaled = *p;
  scaled.scale = scale;
  for (int i = 0; i < plan->count; i++) {
    ls_candidate_t c = plan->candidate[i];
    if (!c.priced || !c.fits) continue;
    ls_status_t status = ls_candidate_price(&scaled, &c);
    if (status != LS_OK) return status;
    if (!c.priced || (out->known && c.mean.ns >= out->step_ns)) continue;
    out->known = true;
    out->step_ns = c.mean.ns;
    out->devices = ls_candidate_devices(&c);
  }
  return LS_OK;
}

/* The next larger number of devices: if it is not among the candidates, there are no figures for it. */
static void one_more(const ls_plan_t *plan, ls_purchase_t *out) {
  const int now = ls_candidate_devices(&plan->candidate[plan->choice]);
  for (int i = 0; i < plan->count; i++) {
    const ls_candidate_t *c = &plan->candidate[i];
    if (!c->priced || !c->fits || ls_candidate_devices(c) <= now) continue;
    if (out->known && (ls_candidate_devices(c) > out->devices ||
                       (ls_candidate_devices(c) == out->devices && c->mean.ns >= out->step_ns)))
      continue;
    out->known = true;
    out->step_ns = c->mean.ns;
    out->devices = ls_candidate_devices(c);
  }
}

static void add_money(const ls_config_t *config, const ls_plan_t *plan, ls_purchase_t *out) {
  const ls_candidate_t *choice = &plan->candidate[plan->choice];
  double now_ns = choice->mean.ns;
  out->speedup = now_ns / out->step_ns;
  out->helps =
      out->step_ns < now_ns * choice->step.low_ns / choice->step.ns && out->step_ns < choice->mean.low_ns;
  out->saved_hours_month = ls_plan_saved_hours(config, plan, now_ns, out->step_ns);
  out->benefit_month = out->saved_hours_month * config->cost.engineer_hour;
  if (isnan(out->saved_hours_month) || isnan(out->price)) return;
  bool saves = out->saved_hours_month > 0;
  out->money_per_hour = saves ? out->price / config->cost.amortize_months / out->saved_hours_month : INFINITY;
  out->break_even_months = out->benefit_month > 0 ? out->price / out->benefit_month : INFINITY;
}

/* Known purchases first, the largest gain first. */
static int by_step(const void *a, const void *b) {
  const ls_purchase_t *x = a, *y = b;
  if (x->known != y->known) return y->known - x->known;
  if (!x->known || x->step_ns == y->step_ns) return 0;
  return x->step_ns < y->step_ns ? -1 : 1;
}

static const char *more_of_the_same(ls_arena_t *arena, const ls_purchase_t *one) {
  return one->known ? ls_arena_printf(arena, "more devices of the same kind: %d", one->devices)
                    : "one more device of the same kind: there is none here to price";
}

ls_status_t ls_plan_purchases(const ls_planner_t *p, ls_plan_t *plan) {
  const ls_cost_config_t *cost = &p->config->cost;
  const int devices = ls_candidate_devices(&plan->candidate[plan->choice]);
  const char *faster =
      ls_arena_printf(p->arena, "devices that compute %g times as fast", cost->faster_device_speed);
  const offer_t offers[LS_PURCHASES] = {
      {"device", NULL, {1, 1, 1}, cost->device_price, true},
      {"link-2x", "a link between the devices twice as fast", {1, 0.5, 1}, cost->link_price, false},
      {"link-free", "exchange that takes no time: the most that any link brings", {1, 0, 1}, 0, false},
      {"input-free", "inputs that reach the devices in no time", {1, 1, 0}, cost->host_price, false},
      {"faster-device", faster, {1 / cost->faster_device_speed, 1, 1}, cost->faster_device_price, true},
  };
  if (!faster) return LS_ERR_MEMORY;
  for (int i = 0; i < LS_PURCHASES; i++) {
    ls_purchase_t *out = &plan->purchase[i];
    *out = (ls_purchase_t){.id = offers[i].id,
                           .step_ns = NAN,
                           .speedup = NAN,
                           .price = NAN,
                           .saved_hours_month = NAN,
                           .benefit_month = NAN,
                           .money_per_hour = NAN,
                           .break_even_months = NAN};
    ls_status_t status = LS_OK;
    if (i == 0)
      one_more(plan, out);
    else
      status = price_again(p, plan, &offers[i].scale, out);
    if (status != LS_OK) return status;
    int count = !offers[i].each ? 1 : i == 0 ? out->devices - devices : out->devices;
    if (out->known && offers[i].price > 0) out->price = offers[i].price * count;
    if (out->known) add_money(p->config, plan, out);
    out->what = offers[i].what ? offers[i].what : more_of_the_same(p->arena, out);
    if (!out->what) return LS_ERR_MEMORY;
  }
  plan->purchase_count = LS_PURCHASES;
  qsort(plan->purchase, LS_PURCHASES, sizeof *plan->purchase, by_step);
  return LS_OK;
}
