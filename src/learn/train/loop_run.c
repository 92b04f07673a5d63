/* Runs of a trainer: as a whole, or a step a call. Both open the same loop, advance it, and close it. */
#include "base/json.h"
#include "train/document.h"
#include "train/loop.h"
#include "train/memory.h"

#include <math.h>
#include <string.h>

/* A trainer's newest run. */
struct ls_train_run {
  ls_loop_t loop;
  ls_train_report_t report;
  bool open; /* it has not ended */
  ls_status_t status;
};

/* The run ended on request: it has saved its state, and can be continued. */
static bool ended_on_request(ls_status_t status) {
  return status == LS_ERR_INTERRUPTED || status == LS_ERR_AGAIN;
}

static ls_status_t begin(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  const int64_t left = t->run.total_steps - t->run.step;
  const int64_t steps = left < 0 ? 0 : left < LS_LOG_CAPACITY ? left : LS_LOG_CAPACITY;
  ls_status_t status = ls_step_log_create(t->ctx, steps, &loop->log);
  ls_trainer_need(t, &loop->report->memory);
  LS_OBSERVERS(o, t, begin) if (status == LS_OK) status = o->row->begin(o->own, loop);
  return status;
}

/* The work before the first step. */
static ls_status_t enter(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  const bool validate = t->dataset->validation_count > 0;
  ls_status_t status = validate ? ls_loop_evaluate(loop) : LS_OK;
  if (validate && status == LS_OK) loop->report->val_loss_first = t->run.val.loss;
  ls_loop_nothing_left(t);
  if (status != LS_OK) return status;
  loop->last_done_ns = loop->saved_ns = ls_loop_clock_ns(loop);
  ls_trainer_do(t, LS_DOING_STEPS);
  return ls_loop_start(loop);
}

/* The work after the last step. `status`: of the steps. */
static ls_status_t leave(ls_loop_t *loop, ls_status_t status) {
  ls_trainer_t *t = loop->t;
  const bool validate = t->dataset->validation_count > 0;
  ls_trainer_do(t, LS_DOING_END);
  const int64_t done = t->run.step - loop->first_step;
  if (status == LS_OK && done > 0 && loop->skipped_in_a_row == done)
    status = ls_loop_diverged(loop, loop->stats);
  /* A run whose every step was skipped saves nothing. */
  const bool ended = status == LS_OK || (ended_on_request(status) && (done == 0 || loop->skipped < done));
  if (!ended) ls_beside_end(t); /* the copy that a thread is writing is good; its failure is reported there */
  if (ended && validate) {
    ls_status_t evaluation = ls_loop_evaluate(loop);
    if (evaluation != LS_OK) return evaluation;
    if (done > 0 && t->run.step == t->run.total_steps && ls_loop_epochs_end(t, t->run.step))
      ls_loop_count_evaluation(t);
  }
  if (ended && t->config->checkpoint.dir && (done > 0 || t->run.resumed_from < 0)) {
    ls_status_t saving = ls_loop_save(loop, LS_SAVE_NOW);
    if (saving != LS_OK) return saving;
  }
  if (ended) {
    LS_OBSERVERS(o, t, finish) o->row->finish(o->own, loop, loop->report);
  }
  return status;
}

static ls_status_t close_run(ls_loop_t *loop, ls_status_t status) {
  ls_trainer_t *t = loop->t;
  ls_train_report_t *report = loop->report;
  const bool together = status == LS_OK || ended_on_request(status); /* all ranks are here */
  ls_status_t asking = together ? ls_trainer_memory(t, &report->memory) : LS_OK;
  if (asking != LS_OK) status = asking;
  ls_trainer_do(t, LS_DOING_END);
  ls_engine_stop(&t->engine);
  ls_trainer_do(t, LS_DOING_NOTHING);
  report->accumulate_next = status == LS_ERR_AGAIN ? loop->resized : 0;
  if (loop->log.step_ns) ls_loop_report(loop);
  /* A rank that failed alone does not wait for the others, who may wait for it. */
  const bool hashes = together || !ls_ckpt_sharded(t->engine.table);
  ls_status_t hashing = hashes ? ls_trainer_hash(t, report->params_xxh3) : LS_OK;
  ls_step_log_release(&loop->log);
  if (status == LS_OK) status = hashing;
  LS_OBSERVERS(o, t, at_end) o->row->at_end(o->own, status);
  if (!ended_on_request(status)) ls_trainer_failed(t, status);
  t->newest->open = false;
  return t->newest->status = status;
}

static ls_status_t open_run(ls_trainer_t *t, const ls_train_hooks_t *hooks) {
  if (!t->newest && !(t->newest = ls_alloc(t->ctx, sizeof *t->newest))) return LS_ERR_MEMORY;
  memset(t->newest, 0, sizeof *t->newest);
  t->newest->open = true;
  ls_loop_t *loop = &t->newest->loop;
  *loop = (ls_loop_t){.t = t,
                      .hooks = hooks,
                      .report = &t->newest->report,
                      .first_step = t->run.step,
                      .start_ns = ls_clock_ns(),
                      .train_loss_first = NAN};
  loop->begin_ns = ls_loop_clock_ns(loop);
  ls_loop_describe(t, loop->report);
  ls_status_t status = begin(loop);
  if (status != LS_OK) return close_run(loop, status);
  status = enter(loop);
  return status == LS_OK ? LS_OK : close_run(loop, leave(loop, status));
}

static ls_status_t check_training(const ls_trainer_t *t) {
  return t->training ? LS_OK
                     : ls_fail(t->ctx, LS_ERR_ARGUMENT, "this trainer was created for evaluation only");
}

static const ls_train_hooks_t no_hooks = {0};

/* The open run between two calls: the time meanwhile is no part of a step. */
static void let_go(ls_loop_t *loop) {
  loop->stepping = false;
  loop->hooks = &no_hooks;
  loop->away_ns = ls_loop_clock_ns(loop);
  ls_trainer_do(loop->t, LS_DOING_NOTHING);
}

static void take_up(ls_loop_t *loop, const ls_train_hooks_t *hooks) {
  ls_loop_leave_out(loop, ls_loop_clock_ns(loop) - loop->away_ns);
  loop->hooks = hooks;
  ls_trainer_do(loop->t, LS_DOING_STEPS);
}

ls_status_t ls_trainer_run(ls_trainer_t *t, const ls_train_hooks_t *hooks, ls_train_report_t *report) {
  const bool begun = t->newest && t->newest->open;
  if (!hooks) hooks = &no_hooks;
  if (report) ls_loop_describe(t, report);
  ls_status_t status = check_training(t);
  if (status == LS_OK && !begun) status = open_run(t, hooks);
  if (status == LS_OK) {
    ls_loop_t *loop = &t->newest->loop;
    if (begun) take_up(loop, hooks);
    loop->agree_step = begun ? 0 : loop->agree_step; /* all ranks hear the hook at once */
    if (begun && ls_loop_left(t)) status = ls_loop_obey(loop, t->run.step);
    while (status == LS_OK && ls_loop_left(t))
      status = ls_loop_advance(loop);
    status = close_run(loop, leave(loop, status));
    loop->hooks = &no_hooks;
  }
  if (report && t->training && t->newest) *report = t->newest->report;
  return status;
}

static void put_stats(const ls_loop_t *loop, ls_step_stats_t *stats) {
  const ls_trainer_t *t = loop->t;
  const size_t known = stats->struct_bytes < sizeof *stats ? stats->struct_bytes : sizeof *stats;
  const ls_step_stats_t all = {.struct_bytes = stats->struct_bytes,
                               .step = t->run.step,
                               .left = ls_loop_left(t) ? t->run.total_steps - t->run.step : 0,
                               .loss = (double)loop->stats[LS_STAT_LOSS],
                               .grad_norm = (double)loop->stats[LS_STAT_GRAD_NORM],
                               .step_time_ns = loop->step_ns,
                               .applied = loop->stats[LS_STAT_APPLIED] != 0.0f};
  memcpy(stats, &all, known);
}

ls_status_t ls_trainer_step(ls_trainer_t *t, ls_step_stats_t *stats) {
  ls_status_t status = check_training(t);
  if (status == LS_OK && stats->struct_bytes < sizeof stats->struct_bytes)
    return ls_fail(t->ctx, LS_ERR_ARGUMENT, "ls_trainer_step: struct_bytes is not set");
  const bool begun = t->newest && t->newest->open;
  if (status == LS_OK && !begun) status = open_run(t, &no_hooks);
  if (status != LS_OK) return status;
  ls_loop_t *loop = &t->newest->loop;
  if (begun) take_up(loop, &no_hooks);
  loop->stepping = true;
  const bool left = ls_loop_left(t);
  if (left) status = ls_loop_advance(loop);
  if (status != LS_OK) return close_run(loop, leave(loop, status));
  let_go(loop);
  if (!left) return ls_fail(t->ctx, LS_ERR_ARGUMENT, "the run has no step left: end it with ls_trainer_run");
  put_stats(loop, stats);
  return LS_OK;
}

char *ls_trainer_report_text(ls_trainer_t *t) {
  const ls_train_run_t *run = t->newest;
  if (!run || run->open) return NULL;
  json_t *document = ls_train_report_json(&run->report, run->status, 0);
  char *text = document ? ls_json_dump(document, JSON_COMPACT) : NULL;
  json_decref(document);
  return text;
}

void ls_loop_drop(ls_trainer_t *t) {
  if (t->newest && t->newest->open) {
    ls_engine_stop(&t->engine);
    ls_step_log_release(&t->newest->loop.log);
    LS_OBSERVERS(o, t, at_end) o->row->at_end(o->own, LS_ERR_INTERRUPTED);
  }
  ls_free(t->newest);
  t->newest = NULL;
}
