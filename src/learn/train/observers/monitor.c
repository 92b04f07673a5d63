/* Watches a run with monitor.dir: facts when it begins, sums after each step, evaluation and save, and the event log. */
#include "train/observers/observers.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct {
  ls_trainer_t *t;
  ls_monitor_t *monitor; /* during a run */
  ls_monitor_state_t state;
} own_t;

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

static bool wanted(const ls_trainer_t *t) {
  if (t->training && !t->config->monitor.dir) warn_unwatched(t);
  return t->training && t->config->monitor.dir;
}

static void see_evaluation(const ls_trainer_t *t, ls_monitor_state_t *s) {
  const struct {
    const char *name;
    double *to;
  } rows[] = {{"top5", &s->val_top5}, {"f1", &s->val_f1}, {"r2", &s->val_r2}, {"mae", &s->val_mae}};
  s->val_step = t->run.val_step;
  s->val_loss = t->run.val.loss;
  s->val_accuracy = t->run.val.accuracy;
  s->val_perplexity = ls_trainer_perplexity(t, t->run.val.loss);
  for (int k = 0; k < LS_COUNT(rows); k++) {
    *rows[k].to = NAN;
    for (int i = 0; i < t->run.val.metrics.count; i++)
      if (strcmp(t->run.val.metrics.v[i].name, rows[k].name) == 0)
        *rows[k].to = t->run.val.metrics.v[i].value;
  }
}

static ls_status_t begin(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  ls_trainer_t *t = o->t;
  const ls_config_t *config = t->config;
  const ls_engine_t *e = &t->engine;
  const ls_comm_t *comm = t->world->comm;
  void *safety = ls_observers_own(t, &ls_observer_safety);
  o->state = (ls_monitor_state_t){0};
  see_evaluation(t, &o->state); /* there is none yet */
  json_t *cost = cost_json(&config->cost);
  const ls_monitor_run_t run = {.rank = comm->rank,
                                .ranks = comm->size,
                                .local_rank = comm->local_rank,
                                .first_step = t->run.step,
                                .total_steps = t->run.total_steps,
                                .batch = config->train.batch,
                                .resumed_from = t->run.resumed_from,
                                .params = ls_graph_param_count(e->step[LS_STEP_EVALUATE].graph),
                                .exchanged_bytes = exchanged_bytes(&e->step[LS_STEP_TRAIN].program),
                                .predicted_us = config->parallel.predicted_us,
                                .need_bytes = loop->report->memory.device_bytes,
                                .cost = cost,
                                .strategy = config->parallel.strategy,
                                .backend = e->backend->name,
                                .precision = ls_math_names[e->device->math],
                                .device = e->device->name,
                                .page = ls_observers_page(t),
                                .record = safety ? ls_observers_judge : NULL,
                                .user = safety,
                                .gpu = e->backend->host_processors ? -1 : comm->local_rank};
  ls_status_t status = ls_monitor_start(t->ctx, &config->monitor, &run, &o->monitor);
  json_decref(cost);
  return ls_comm_agree(t->world->comm, "opening the monitor", status);
}

static void show(own_t *o, const ls_loop_t *loop) {
  o->state.step = o->t->run.step;
  o->state.done_ns = ls_clock_ns();
  o->state.eval_ns = loop->eval_ns;
  o->state.save_ns = loop->save_ns;
  ls_monitor_show(o->monitor, &o->state);
}

static ls_status_t after_step(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  ls_monitor_state_t *s = &o->state;
  const ls_step_parts_t *parts = &loop->parts;
  const float *stats = loop->stats;
  const int64_t own_ns[] = {parts->input_ns, parts->forward_ns,   parts->backward_ns,
                            parts->comm_ns,  parts->optimizer_ns, parts->rest_ns};
  const bool applied = stats[LS_STAT_APPLIED] != 0.0f;
  s->loss = (double)stats[LS_STAT_LOSS];
  s->grad_norm = (double)stats[LS_STAT_GRAD_NORM];
  s->loss_scale = (double)stats[LS_STAT_LOSS_SCALE];
  s->lr = (double)ls_loop_rate(o->t, o->t->run.step - 1);
  s->steps++;
  s->skipped += !applied;
  s->losses += applied;
  s->loss_sum += applied ? s->loss : 0;
  s->step_ns += loop->step_ns;
  for (int i = 0; i < LS_MONITOR_PARTS; i++) {
    const bool known = i == LS_PHASE_STEP_COMM ? parts->comm_measured : parts->measured;
    s->parts_ns[i] += known ? own_ns[i] : 0;
  }
  s->parts_steps += parts->measured;
  s->comm_steps += parts->comm_measured;
  show(o, loop);
  return LS_OK;
}

static void evaluated(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  see_evaluation(o->t, &o->state);
  show(o, loop);
}

static void saved(void *own, const ls_loop_t *loop, ls_save_when_t when, int64_t took_ns) {
  (void)when, (void)took_ns;
  show(own, loop);
}

static void told(void *own, const char *kind, json_t *members) {
  const own_t *o = own;
  ls_monitor_event(o->monitor, kind, json_incref(members));
}

static void at_end(void *own, ls_status_t status) {
  own_t *o = own;
  ls_monitor_stop(o->monitor, status);
  o->monitor = NULL;
}

const ls_observer_t ls_observer_monitor = {.name = "monitor",
                                           .own_bytes = sizeof(own_t),
                                           .wanted = wanted,
                                           .told = told,
                                           .begin = begin,
                                           .after_step = after_step,
                                           .evaluated = evaluated,
                                           .saved = saved,
                                           .at_end = at_end};
