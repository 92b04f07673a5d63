/* A plan as a document. */
#include "plan/planned.h"
#include "plan/spent.h"
#include "train/document.h"

#include <math.h>

/* A candidate, and the members of its document that are not its own. */
typedef struct {
  ls_candidate_t c;
  const char *transport, *precision, *reason, *command;
  double parts_us[LS_PHASE_STEP_COUNT];
  json_t *options, *memory; /* what a rank needs, and what libraries take */
} shown_t;
#define OWN(field, ...)   LS_FIELD_AS(shown_t, c.field, __VA_ARGS__)
#define SAME(field)       LS_FIELD_AS(shown_t, c.field, #field)
#define TIME(field, name) LS_FIELD_AS(ls_time_t, field, name, .scale = 1e-3)

static const ls_field_t time_rows[] = {TIME(ns, "predicted"), TIME(low_ns, "low"), TIME(high_ns, "high")};
static const ls_field_t library_rows[] = {
    OWN(library_bytes, "libraries", LS_FIELD_UNLESS(shown_t, c.library_assumed)),
    OWN(library_bytes, "libraries_allowed"),
    OWN(margin_bytes, "margin", .known = LS_KNOWN_ABOVE_0),
};
static const ls_field_t cost_rows[] = {SAME(epoch_s), SAME(epoch_kwh), OWN(epoch_cost, "epoch_money")};
static const ls_record_t time_record = LS_RECORD(time_rows), library_record = LS_RECORD(library_rows),
                         cost_record = LS_RECORD(cost_rows);
static const ls_field_t rows[] = {
    OWN(config.parallel.ranks, "devices"),
    OWN(config.parallel.threads, "threads_per_rank"),
    OWN(config.parallel.strategy, "strategy"),
    LS_FIELD(shown_t, options),
    LS_FIELD(shown_t, transport),
    LS_FIELD(shown_t, precision),
    SAME(rows),
    SAME(priced),
    SAME(interpolated),
    OWN(step, "step_time_us", .record = &time_record, LS_FIELD_IF(shown_t, c.priced)),
    OWN(mean, "step_mean_us", .record = &time_record, LS_FIELD_IF(shown_t, c.priced)),
    LS_FIELD_OF(shown_t, parts_us, LS_FIELD_RECORD, "step_parts_us", .record = &ls_train_parts_record,
                LS_FIELD_IF(shown_t, c.priced)),
    OWN(exposed_ns, "exposed_comm_us", .scale = 1e-3),
    SAME(samples_per_s),
    SAME(speedup),
    SAME(efficiency),
    OWN(device_bytes, "bytes_per_device", LS_FIELD_UNLESS(shown_t, c.library_assumed)),
    LS_FIELD_AS(shown_t, reason, "bytes_per_device_reason"),
    LS_FIELD(shown_t, memory),
    SAME(fits),
    LS_FIELD_OBJECT(cost_record, "cost"),
    LS_FIELD(shown_t, command),
};
static const ls_record_t record = LS_RECORD(rows);

static json_t *candidate_json(ls_arena_t *arena, const ls_plan_t *plan, ls_planned_command_fn command,
                              const void *user, const ls_candidate_t *c) {
  shown_t shown = {.c = *c,
                   .transport = c->transport ? c->transport->name : NULL,
                   .precision = plan->precision,
                   .reason = c->library_assumed ? ls_plan_no_libraries : NULL,
                   .command = command(user, arena, c),
                   .options = ls_config_tuned_json(&c->config),
                   .memory = ls_record_json(&ls_plan_need_record, &c->need)};
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    shown.parts_us[i] = c->parts_ns[i] * 1e-3;
  bool whole = shown.command && ls_record_put(shown.memory, &library_record, &shown);
  json_object_set_new(shown.options, "buckets", json_integer(c->collectives));
  json_object_set_new(shown.options, "shards", json_integer(plan->shards));
  json_t *j = whole ? ls_record_json(&record, &shown) : NULL;
  json_decref(shown.options);
  json_decref(shown.memory);
  return j;
}

#define OWNED(field) LS_FIELD(ls_ownership_t, field)
static const ls_field_t ownership_rows[] = {
    OWNED(devices),        OWNED(saved_hours_month), OWNED(benefit_month),
    OWNED(hardware_month), OWNED(overhead_month),    OWNED(energy_month),
    OWNED(net_month),      OWNED(break_even_months), OWNED(verdict)};
#define BOUGHT(field, ...) LS_FIELD_AS(ls_purchase_t, field, __VA_ARGS__)
static const ls_field_t purchase_rows[] = {
    BOUGHT(id, "id"),
    BOUGHT(what, "what"),
    BOUGHT(known, "known"),
    BOUGHT(devices, "devices", LS_FIELD_IF(ls_purchase_t, known)),
    BOUGHT(step_ns, "step_time_predicted_us", .scale = 1e-3),
    BOUGHT(speedup, "speedup"),
    BOUGHT(helps, "helps"),
    BOUGHT(price, "price"),
    BOUGHT(saved_hours_month, "saved_hours_month"),
    BOUGHT(benefit_month, "benefit_month"),
    BOUGHT(money_per_hour, "money_per_saved_hour"),
    BOUGHT(break_even_months, "break_even_months"),
};
static const ls_record_t ownership_record = LS_RECORD(ownership_rows),
                         purchase_record = LS_RECORD(purchase_rows);

/* "never" for what does not pay. */
static json_t *paying_json(const ls_record_t *of, const void *from, double break_even_months) {
  json_t *j = ls_record_json(of, from);
  if (isinf(break_even_months)) json_object_set_new(j, "break_even_months", json_string("never"));
  return j;
}

static json_t *purchases_json(const ls_plan_t *plan) {
  json_t *list = json_array();
  for (int i = 0; i < plan->purchase_count; i++) {
    const ls_purchase_t *o = &plan->purchase[i];
    json_array_append_new(list, paying_json(&purchase_record, o, o->break_even_months));
  }
  return list;
}

static json_t *crossover_json(const ls_plan_t *plan) {
  json_t *j = json_object();
  for (int i = 0; i < plan->crossover_count; i++) {
    char name[16];
    if (!plan->crossover[i].known) continue;
    snprintf(name, sizeof name, "%d", plan->crossover[i].devices);
    int64_t batch = plan->crossover[i].batch;
    json_object_set_new(j, name, batch > 0 ? json_integer(batch) : json_null());
  }
  return j;
}

json_t *ls_planned_json(ls_ctx_t *ctx, const ls_planned_t *planned, ls_planned_command_fn command,
                        const void *user) {
  const ls_plan_t *plan = &planned->plan;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  json_t *j =
      json_pack("{s:s, s:s, s:f, s:s, s:I, s:I, s:i}", "command", "plan", "label", "predicted", "busy_share",
                plan->busy_share, "backend", plan->backend, "params", (json_int_t)plan->params,
                "global_batch", (json_int_t)plan->batch, "choice", plan->choice);
  json_t *candidates = json_array(), *reasons = json_array();
  bool whole = j != NULL;
  for (int i = 0; i < plan->count && whole; i++) {
    const ls_candidate_t *c = &plan->candidate[i];
    json_t *row = candidate_json(&arena, plan, command, user, c);
    whole = row && json_array_append_new(candidates, row) == 0;
    json_array_append_new(reasons, i != plan->choice ? json_string(c->why)
                                   : c->why[0]       ? json_sprintf("the choice; %s", c->why)
                                                     : json_string("the choice"));
  }
  json_object_set_new(j, "candidates", candidates);
  json_object_set_new(j, "reasons", reasons);
  json_object_set_new(j, "crossover_batch", crossover_json(plan));
  json_object_set_new(j, "crossover_searched_to", json_integer(plan->batch_max));
  const ls_ownership_t *o = &plan->ownership;
  json_object_set_new(j, "ownership",
                      o->known ? paying_json(&ownership_record, o, o->break_even_months) : json_null());
  json_object_set_new(j, "purchases", purchases_json(plan));
  json_object_set_new(j, "replayed", json_boolean(plan->replayed));
  if (plan->left_out) json_object_set_new(j, "left_out", json_string(plan->left_out));
  json_object_set_new(j, "profile", planned->kept ? ls_json_text(planned->path) : json_null());
  json_object_set_new(j, "timed", json_integer(plan->timed));
  ls_arena_release(&arena);
  if (whole) return j;
  json_decref(j);
  return NULL;
}
