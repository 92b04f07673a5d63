/* The training loop: the engine's steps in order, and the work (loop_between.c) and wishes (loop_asks.c) between them. Its
 * observers (observer.h) hear of each. */
#include "train/loop.h"

#include "train/memory.h"

#include <math.h>
#include <string.h>

/* A micro-batch has ended. */
static void see_unit(void *user, int64_t step, int m) {
  ls_loop_t *loop = user;
  ls_loop_count_wait(loop, &loop->t->engine);
  LS_OBSERVERS(o, loop->t, unit) o->row->unit(o->own, loop, step, m);
}

static ls_status_t start(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  const ls_feed_t feed = {.dataset = t->dataset,
                          .seed = (uint64_t)t->config->train.seed,
                          .first_step = t->run.step,
                          .total_steps = t->run.total_steps,
                          .total_samples = t->run.total_samples,
                          .origin = ls_trainer_position(t, 0),
                          .lr = ls_loop_rate,
                          .lr_user = t,
                          .observer = {see_unit, loop},
                          .times = &t->input};
  return ls_feed_start(&t->engine, &feed);
}

/* Takes the numbers of the step that has just ended. */
static void count_step(ls_loop_t *loop, int64_t step, const float *got) {
  ls_trainer_t *t = loop->t;
  ls_engine_t *e = &t->engine;
  float *stats = loop->stats;
  for (int i = 0; i < LS_STAT_COUNT; i++)
    stats[i] = isnan(got[i]) ? NAN : got[i]; /* never "-nan" */
  /* If the process was stopped during a step, the step counts as long as the one before. */
  const int64_t stopped_ns = ls_stops_ns(t->stops), now = e->done_ns - stopped_ns;
  const bool whole = stopped_ns == loop->stopped_ns || step == loop->first_step;
  if (whole) loop->step_ns = now - loop->last_done_ns;
  loop->stopped_ns = stopped_ns;
  loop->last_done_ns = now;
  loop->loop_ns += loop->step_ns;
  const bool applied = stats[LS_STAT_APPLIED] != 0.0f;
  if (step == loop->first_step) {
    loop->first_ns = loop->step_ns;
    loop->train_loss_first = (double)stats[LS_STAT_LOSS];
  }
  /* a loss scale that is still too large for fp16 is no fault of the run */
  const bool overflows = !applied && stats[LS_STAT_LOSS_SCALE] > 1 && isfinite(stats[LS_STAT_LOSS]);
  loop->skipped += !applied;
  loop->skipped_row = applied ? 0 : loop->skipped_row + !overflows;
  if (e->took && whole) memcpy(loop->parts_ns, e->took->parts_ns, sizeof loop->parts_ns);
  const bool measured = e->took && e->backend->synchronous;
  ls_step_log_add(&loop->log, loop->step_ns, measured ? loop->parts_ns : NULL, (double)stats[LS_STAT_LOSS],
                  applied, &loop->parts);
  loop->comm_measured |= e->took != NULL;
  loop->parts.comm_measured = loop->comm_measured;
  loop->parts.comm_ns = loop->parts_ns[LS_PHASE_STEP_COMM];
  t->run.step = step + 1;
  ls_loop_count_own(loop, e->took, whole, loop->step_ns);
}

/* Waits for the oldest step in flight and records its numbers. */
static ls_status_t finish_step(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  const int64_t step = t->engine.finished;
  const float *got;
  ls_status_t status = ls_engine_wait(&t->engine, &got);
  if (status != LS_OK) return status;
  count_step(loop, step, got);
  LS_OBSERVERS(o, t, after_step) if (status == LS_OK) status = o->row->after_step(o->own, loop);
  loop->waited_ns = 0;
  if (status == LS_OK && loop->skipped_row >= t->config->train.max_skipped)
    status = ls_loop_diverged(loop, loop->stats);
  return status;
}

ls_status_t ls_loop_finish_steps(ls_loop_t *loop, int ahead) {
  const ls_engine_t *e = &loop->t->engine;
  ls_status_t status = LS_OK;
  while (e->launched - e->finished > ahead && status == LS_OK)
    status = finish_step(loop);
  return status;
}

/* The next step is launched, and the one before it has ended. None is in flight if something follows that needs its end. */
static ls_status_t step(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  ls_engine_t *e = &t->engine;
  ls_status_t status = LS_OK;
  ls_trainer_do(t, LS_DOING_STEPS); /* and the newest number of steps */
  LS_OBSERVERS(o, t, before_step) if (status == LS_OK) status = o->row->before_step(o->own, loop);
  if (status == LS_OK) status = ls_engine_launch(e);
  ls_loop_count_wait(loop, e);
  if (status == LS_OK) status = ls_loop_finish_steps(loop, ls_loop_needs_end(t, e->launched) ? 0 : e->lag);
  return status == LS_OK ? ls_loop_claim(loop) : status;
}

static ls_status_t run_steps(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  const ls_engine_t *e = &t->engine;
  loop->last_done_ns = loop->saved_ns = ls_loop_clock_ns(loop);
  ls_trainer_do(t, LS_DOING_STEPS);
  ls_status_t status = start(loop);
  while (e->launched < t->run.total_steps && !ls_trainer_patience_lost(t) && status == LS_OK) {
    status = step(loop);
    const int64_t done = e->launched;
    if (status == LS_OK) status = ls_loop_follow(loop, done);
    if (status == LS_OK && done < t->run.total_steps && !ls_trainer_patience_lost(t))
      status = ls_loop_obey(loop, done);
  }
  return status;
}

/* The run has saved what it has, and goes on when it is asked to. */
static bool goes_on(ls_status_t status) {
  return status == LS_ERR_INTERRUPTED || status == LS_ERR_AGAIN;
}

/* The run itself, between creating and releasing its resources. */
static ls_status_t run_loop(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  const bool validate = t->dataset->validation_count > 0;
  ls_status_t status = validate ? ls_loop_evaluate(loop) : LS_OK;
  if (validate && status == LS_OK) loop->report->val_loss_first = t->run.val.loss;
  ls_loop_nothing_left(t);
  if (status == LS_OK) status = run_steps(loop);
  ls_trainer_do(t, LS_DOING_END);
  const int64_t done = t->run.step - loop->first_step;
  if (status == LS_OK && done > 0 && loop->skipped_row == done) status = ls_loop_diverged(loop, loop->stats);
  const bool ended = status == LS_OK || (goes_on(status) && (done == 0 || loop->skipped < done));
  if (!ended) ls_beside_end(t); /* what was copied is good; a failure was reported */
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

static ls_status_t begin(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  const int64_t left = t->run.total_steps - t->run.step;
  ls_status_t status = ls_step_log_create(t->ctx,
                                          left > LS_LOG_CAPACITY ? LS_LOG_CAPACITY
                                          : left > 0             ? left
                                                                 : 0,
                                          &loop->log);
  ls_trainer_need(t, &loop->report->memory);
  LS_OBSERVERS(o, t, begin) if (status == LS_OK) status = o->row->begin(o->own, loop);
  return status;
}

ls_status_t ls_trainer_run(ls_trainer_t *t, const ls_train_hooks_t *hooks, ls_train_report_t *report) {
  static const ls_train_hooks_t no_hooks = {0};
  const int64_t start_ns = ls_clock_ns();
  ls_loop_t loop = {.t = t,
                    .hooks = hooks ? hooks : &no_hooks,
                    .report = report,
                    .first_step = t->run.step,
                    .train_loss_first = NAN};
  loop.begin_ns = ls_loop_clock_ns(&loop);
  ls_loop_describe(t, report);
  if (!t->training) return ls_fail(t->ctx, LS_ERR_ARGUMENT, "this trainer was created for evaluation only");
  ls_status_t status = begin(&loop);
  if (status == LS_OK) status = run_loop(&loop);
  const bool together = status == LS_OK || goes_on(status);
  ls_status_t asking = together ? ls_trainer_memory(t, &report->memory) : LS_OK;
  if (asking != LS_OK) status = asking;
  ls_trainer_do(t, LS_DOING_END);
  ls_engine_stop(&t->engine);
  ls_trainer_do(t, LS_DOING_NOTHING);
  report->accumulate_next = status == LS_ERR_AGAIN ? loop.resized : 0;
  if (loop.log.step_ns) ls_loop_report(&loop, start_ns);
  ls_status_t hashing = ls_trainer_hash(t, report->params_xxh3);
  ls_step_log_release(&loop.log);
  if (status == LS_OK) status = hashing;
  LS_OBSERVERS(o, t, at_end) o->row->at_end(o->own, status);
  if (!goes_on(status)) ls_trainer_failed(t, status);
  return status;
}
