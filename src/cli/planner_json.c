/* A plan as JSON. */
#include "cli/planner.h"

#include <math.h>

static json_t *time_json(const ls_time_t *t) {
  return json_pack("{s:o, s:o, s:o}", "predicted", ls_json_number(t->ns * 1e-3), "low",
                   ls_json_number(t->low_ns * 1e-3), "high", ls_json_number(t->high_ns * 1e-3));
}

static json_t *parts_json(const ls_candidate_t *c) {
  json_t *parts = json_object();
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    json_object_set_new(parts, ls_step_part_keys[i], ls_json_number(c->parts_ns[i] * 1e-3));
  return parts;
}

static json_t *memory_json(const ls_candidate_t *c) {
  json_t *j = cli_memory_json(&c->need);
  json_object_set_new(j, "libraries", c->library_assumed ? json_null() : json_integer(c->library_bytes));
  json_object_set_new(j, "libraries_allowed", json_integer(c->library_bytes));
  return j;
}

static json_t *candidate_json(ls_arena_t *arena, const cli_args_t *args, const ls_plan_t *plan,
                              const ls_candidate_t *c) {
  const char *command = cli_planner_command(arena, args, plan, c);
  json_t *j = json_pack("{s:i, s:i, s:s, s:{s:I, s:i, s:I, s:I}}", "devices", c->devices, "threads_per_rank",
                        c->threads, "strategy", c->strategy, "options", "bucket_bytes",
                        (json_int_t)c->bucket_bytes, "buckets", c->buckets, "accumulate",
                        (json_int_t)c->accumulate, "shards", (json_int_t)plan->shards);
  if (!j || !command) {
    json_decref(j);
    return NULL;
  }
  json_object_set_new(j, "transport", c->transport ? json_string(c->transport->name) : json_null());
  json_object_set_new(j, "precision", json_string(plan->precision));
  json_object_set_new(j, "rows", json_integer(c->rows));
  json_object_set_new(j, "priced", json_boolean(c->priced));
  json_object_set_new(j, "interpolated", json_boolean(c->interpolated));
  json_object_set_new(j, "step_time_us", c->priced ? time_json(&c->step) : json_null());
  json_object_set_new(j, "step_parts_us", c->priced ? parts_json(c) : json_null());
  json_object_set_new(j, "exposed_comm_us", ls_json_number(c->exposed_ns * 1e-3));
  json_object_set_new(j, "samples_per_s", ls_json_number(c->samples_per_s));
  json_object_set_new(j, "speedup", ls_json_number(c->speedup));
  json_object_set_new(j, "efficiency", ls_json_number(c->efficiency));
  json_object_set_new(j, "bytes_per_device",
                      c->library_assumed ? json_null() : json_integer(c->device_bytes));
  json_object_set_new(j, "bytes_per_device_reason", cli_memory_reason(!c->library_assumed));
  json_object_set_new(j, "memory", memory_json(c));
  json_object_set_new(j, "fits", json_boolean(c->fits));
  json_object_set_new(j, "cost",
                      json_pack("{s:o, s:o, s:o}", "epoch_s", ls_json_number(c->epoch_s), "epoch_kwh",
                                ls_json_number(c->epoch_kwh), "epoch_money", ls_json_number(c->epoch_cost)));
  json_object_set_new(j, "command", json_string(command));
  return j;
}

/* "never" for what does not pay. */
static json_t *months_json(double months) {
  return isinf(months) ? json_string("never") : ls_json_number(months);
}

static json_t *ownership_json(const ls_ownership_t *o) {
  if (!o->known) return json_null();
  return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:s}", "devices", o->devices,
                   "saved_hours_month", o->saved_hours_month, "benefit_month", o->benefit_month,
                   "hardware_month", o->hardware_month, "overhead_month", o->overhead_month, "energy_month",
                   o->energy_month, "net_month", o->net_month, "break_even_months",
                   months_json(o->break_even_months), "verdict", o->verdict);
}

static json_t *purchases_json(const ls_plan_t *plan) {
  json_t *list = json_array();
  for (int i = 0; i < plan->purchase_count; i++) {
    const ls_purchase_t *o = &plan->purchase[i];
    json_t *row = json_pack(
        "{s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id", o->id, "what", o->what, "known",
        o->known, "devices", o->known ? json_integer(o->devices) : json_null(), "step_time_predicted_us",
        ls_json_number(o->step_ns * 1e-3), "speedup", ls_json_number(o->speedup), "price",
        ls_json_number(o->price), "saved_hours_month", ls_json_number(o->saved_hours_month), "benefit_month",
        ls_json_number(o->benefit_month), "money_per_saved_hour", ls_json_number(o->money_per_hour),
        "break_even_months", months_json(o->break_even_months));
    json_array_append_new(list, row);
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

json_t *cli_planner_json(ls_ctx_t *ctx, const cli_args_t *args, const cli_planned_t *planned) {
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
    json_t *row = candidate_json(&arena, args, plan, c);
    whole = row && json_array_append_new(candidates, row) == 0;
    json_array_append_new(reasons, json_string(i == plan->choice ? "the choice" : c->why));
  }
  json_object_set_new(j, "candidates", candidates);
  json_object_set_new(j, "reasons", reasons);
  json_object_set_new(j, "crossover_batch", crossover_json(plan));
  json_object_set_new(j, "crossover_searched_to", json_integer(plan->batch_max));
  json_object_set_new(j, "ownership", ownership_json(&plan->ownership));
  json_object_set_new(j, "purchases", purchases_json(plan));
  json_object_set_new(j, "replayed", json_boolean(plan->replayed));
  json_object_set_new(j, "profile", planned->kept ? ls_json_text(planned->path) : json_null());
  json_object_set_new(j, "timed", json_integer(plan->timed));
  ls_arena_release(&arena);
  if (whole) return j;
  json_decref(j);
  return NULL;
}
