/* What a run's monitor gets to see: facts when it begins, sums after every step. */
#include "base/json.h"
#include "train/memory.h"
#include "train/trainer.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static_assert((int)LS_MONITOR_PARTS == (int)LS_PHASE_STEP_COUNT, "the monitor knows the parts of a step");

/* Bytes that this rank gives to the collectives of a step; a mean where steps differ. */
static double exchanged_bytes(const ls_program_t *p) {
  double bytes = 0;
  for (int i = 0; i < p->count; i++) {
    const ls_schedule_t *s = p->member[i];
    for (int k = 0; k < s->task_count; k++) {
      const ls_task_t *task = &s->tasks[k];
      if (task->kind == LS_TASK_COLLECTIVE && task->in_count > 0)
        bytes += ls_program_times(p, i) * (double)s->tensors[task->in[0]].size_bytes;
    }
  }
  return bytes;
}

/* The prices from which a report computes money; NULL: there are none. */
static json_t *cost_json(const ls_cost_config_t *c) {
  if (c->device_hour <= 0 && c->price_kwh <= 0) return NULL;
  return json_pack("{s:o?, s:f, s:f, s:f}", "currency", ls_json_text(c->currency), "device_hour",
                   c->device_hour, "power_w", c->power_w, "price_kwh", c->price_kwh);
}

static void warn_unwatched(const ls_trainer_t *t) {
  const ls_monitor_config_t *m = &t->config->monitor;
  const char *what = m->sinks.count > 0   ? "monitor.sinks"
                     : m->http_port > 0   ? "monitor.http_port"
                     : m->alert_count > 0 ? "monitor.alerts"
                                          : NULL;
  if (what && t->world->comm->rank == 0)
    ls_log(t->ctx, LS_LOG_WARN,
           "%s: has no effect, because nothing is watched: set monitor.dir, or set train.checkpoint.dir and "
           "use lockstep train --supervise",
           what);
}

ls_status_t ls_trainer_watch(ls_trainer_t *t) {
  const ls_config_t *config = t->config;
  const ls_engine_t *e = &t->engine;
  const ls_comm_t *comm = t->world->comm;
  ls_train_memory_t need = {0};
  ls_trainer_safety_begin(t);
  if (!config->monitor.dir) {
    warn_unwatched(t);
    return LS_OK;
  }
  ls_trainer_need(t, &need);
  json_t *cost = cost_json(&config->cost);
  const ls_monitor_run_t run = {.rank = comm->rank,
                                .ranks = comm->size,
                                .local_rank = comm->local_rank,
                                .first_step = t->step,
                                .total_steps = t->total_steps,
                                .batch = config->train.batch,
                                .resumed_from = t->resumed_from,
                                .params = ls_graph_param_count(e->step[LS_STEP_EVALUATE].graph),
                                .exchanged_bytes = exchanged_bytes(&e->step[LS_STEP_TRAIN].program),
                                .predicted_us = config->parallel.predicted_us,
                                .need_bytes = need.device_bytes,
                                .cost = cost,
                                .strategy = config->parallel.strategy,
                                .backend = e->backend->name,
                                .precision = ls_math_names[e->device->math],
                                .device = e->device->name,
                                .page = t->page,
                                .record = config->safety.count > 0 ? ls_trainer_safety_record : NULL,
                                .user = t,
                                .gpu = e->backend->host_processors ? -1 : comm->local_rank};
  ls_status_t status = ls_monitor_start(t->ctx, &config->monitor, &run, &t->monitor);
  json_decref(cost);
  return ls_comm_agree(t->world->comm, "opening the monitor", status);
}

/* Name, lane, phase, begin and duration (us) of each task of micro-batch m. */
static void add_tasks(const ls_engine_t *e, int64_t step, int m, int64_t after_ns, json_t *tasks) {
  enum { TASKS_MAX = 4000 };
  const ls_step_t *train = &e->step[LS_STEP_TRAIN];
  const ls_schedule_t *s = train->program.member[ls_program_at(&train->program, step, m)];
  const ls_task_time_t *times = ls_run_times(train->run);
  for (int i = 0; i < s->task_count && json_array_size(tasks) < TASKS_MAX; i++) {
    const ls_task_t *task = &s->tasks[i];
    json_array_append_new(tasks, json_pack("[s, i, i, f, f]", task->name, (int)task->lane, (int)task->phase,
                                           1e-3 * (double)(after_ns + times[i].start_ns),
                                           1e-3 * (double)(times[i].end_ns - times[i].start_ns)));
  }
}

void ls_trainer_timeline(ls_trainer_t *t, int64_t step, int m, ls_timeline_t *line) {
  enum { STEPS_FIRST = 8 }; /* caches are cold before */
  const int64_t every_ns = INT64_C(60) * 1000000000;
  const ls_engine_t *e = &t->engine;
  const int count = e->share.accumulate;
  if (!ls_run_times(e->step[LS_STEP_TRAIN].run)) return;
  const int64_t begin_ns = e->launched_ns[(step * count + m) % LS_ENGINE_SLOTS];
  if (m == 0 && line->steps++ >= STEPS_FIRST && begin_ns >= line->next_ns) {
    line->tasks = json_array();
    line->begin_ns = begin_ns;
    line->next_ns = begin_ns + every_ns;
  }
  if (!line->tasks) return;
  add_tasks(e, step, m, begin_ns - line->begin_ns, line->tasks);
  if (m + 1 < count) return;
  json_t *lanes = json_array();
  for (int i = 0; i < LS_LANE_COUNT; i++)
    json_array_append_new(lanes, json_string(ls_lane_name((ls_lane_t)i)));
  ls_monitor_event(t->monitor, "timeline",
                   json_pack("{s:I, s:f, s:o, s:o}", "step", (json_int_t)step + 1, "step_time_us",
                             1e-3 * (double)(e->done_ns - line->begin_ns), "lanes", lanes, "tasks",
                             line->tasks));
  line->tasks = NULL;
}

void ls_trainer_seen_evaluation(const ls_trainer_t *t, ls_monitor_state_t *s) {
  const struct {
    const char *name;
    double *to;
  } rows[] = {{"top5", &s->val_top5}, {"f1", &s->val_f1}, {"r2", &s->val_r2}, {"mae", &s->val_mae}};
  s->val_step = t->val_step;
  s->val_loss = t->val_loss;
  s->val_accuracy = t->val_accuracy;
  s->val_perplexity = ls_trainer_perplexity(t, t->val_loss);
  for (int k = 0; k < LS_COUNT(rows); k++) {
    *rows[k].to = NAN;
    for (int i = 0; i < t->val_metrics.count; i++)
      if (strcmp(t->val_metrics.v[i].name, rows[k].name) == 0) *rows[k].to = t->val_metrics.v[i].value;
  }
}

void ls_trainer_seen(ls_trainer_t *t, const float *stats, int64_t step_ns, const ls_step_parts_t *parts,
                     ls_monitor_state_t *s) {
  if (!t->monitor) return;
  s->step = t->step;
  s->done_ns = ls_clock_ns();
  if (parts) {
    const int64_t own_ns[] = {parts->input_ns, parts->forward_ns,   parts->backward_ns,
                              parts->comm_ns,  parts->optimizer_ns, parts->rest_ns};
    const bool applied = stats[LS_STAT_APPLIED] != 0.0f;
    s->loss = (double)stats[LS_STAT_LOSS];
    s->grad_norm = (double)stats[LS_STAT_GRAD_NORM];
    s->loss_scale = (double)stats[LS_STAT_LOSS_SCALE];
    s->lr = (double)ls_rate_at(&t->config->rate, t->config->optimizer.lr, t->step - 1, t->total_steps);
    s->steps++;
    s->skipped += !applied;
    s->losses += applied;
    s->loss_sum += applied ? s->loss : 0;
    s->step_ns += step_ns;
    for (int i = 0; i < LS_MONITOR_PARTS; i++) {
      const bool known = i == LS_PHASE_STEP_COMM ? parts->comm_measured : parts->measured;
      s->parts_ns[i] += known ? own_ns[i] : 0;
    }
    s->parts_steps += parts->measured;
    s->comm_steps += parts->comm_measured;
  }
  ls_monitor_show(t->monitor, s);
}
