/* The training loop: the engine's steps in order, with evaluation, saving, skipped steps and interruption
 * between them. */
#include "train/loop.h"

#include "train/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STOP_CHECK_STEPS_MAX = 256, STOP_CHECK_NS = 50000000 };

static void show(ls_loop_t *loop, ls_page_phase_t phase) {
  if (phase != LS_PAGE_EVALUATE && phase != LS_PAGE_SAVE) loop->shown = phase;
  ls_page_enter(loop->t->line, phase, ls_clock_ns());
}

/* A micro-batch has ended. */
static void see_unit(void *user, int64_t step, int m) {
  ls_loop_t *loop = user;
  ls_trainer_t *t = loop->t;
  ls_loop_count_wait(loop, &t->engine);
  if (t->monitor) ls_trainer_timeline(t, step, m, &loop->timeline);
  if (loop->trace && ls_run_times(t->engine.step[LS_STEP_TRAIN].run) &&
      step >= t->total_steps - LS_TRACE_STEPS && loop->tracing == LS_OK)
    loop->tracing = ls_trace_add(loop->trace, &t->engine, step, m);
}

static ls_status_t start(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  const ls_feed_t feed = {.dataset = t->dataset,
                          .seed = (uint64_t)t->config->train.seed,
                          .first_step = t->step,
                          .total_steps = t->total_steps,
                          .total_samples = t->total_samples,
                          .origin = ls_trainer_position(t, 0),
                          .lr = ls_loop_rate,
                          .lr_user = t,
                          .observer = {loop->trace || t->monitor || t->page ? see_unit : NULL, loop},
                          .times = &t->input};
  return ls_feed_start(&t->engine, &feed);
}

/* Whether this step, possibly the run's last, ends a multiple of so many epochs. */
static bool epochs_end(const ls_trainer_t *t, int64_t step) {
  int64_t every = t->config->train.evaluate_every * t->dataset->train_count;
  if (every == 0 || t->dataset->validation_count == 0) return false;
  return ls_trainer_position(t, step) / every != ls_trainer_position(t, step - 1) / every;
}

static bool evaluate_due(const ls_trainer_t *t, int64_t step) {
  return step < t->total_steps && epochs_end(t, step);
}

/* A step with an evaluation is reported with the evaluation's results. */
static bool reported_later(const ls_trainer_t *t) {
  return evaluate_due(t, t->step) || (t->step == t->total_steps && t->dataset->validation_count > 0);
}

/* What the loop does between two steps is part of neither. */
static void leave_out(ls_loop_t *loop, int64_t ns) {
  loop->last_done_ns += ns;
  loop->left_out_ns += ns;
}

static ls_status_t evaluate(ls_loop_t *loop, ls_eval_report_t *report) {
  ls_trainer_t *t = loop->t;
  int64_t start = ls_loop_clock_ns(loop);
  show(loop, LS_PAGE_EVALUATE);
  ls_status_t status = ls_trainer_evaluate_part(t, LS_PART_VALIDATION, report);
  show(loop, loop->shown);
  if (status == LS_OK) ls_loop_evaluated(loop, report);
  int64_t took = ls_loop_clock_ns(loop) - start;
  loop->eval_ns += took;
  loop->seen.eval_ns = loop->eval_ns;
  ls_trainer_seen(t, NULL, 0, NULL, &loop->seen);
  leave_out(loop, took);
  if (status == LS_OK && t->step > loop->first_step && loop->progress.step != t->step) ls_loop_progress(loop);
  return status;
}

/* Until the next save where it is chosen: as Daly's estimate says, and the disk done with the last one nine times over. */
static int64_t save_wait_ns(const ls_loop_t *loop) {
  enum { FIRST_COST_NS = 1000000000 };
  const int64_t failure_ns = (int64_t)(loop->t->config->checkpoint.failure_hours * 3600e9);
  int64_t wait_ns =
      ls_save_interval_ns(loop->saves > 0 ? loop->save_ns / loop->saves : FIRST_COST_NS, failure_ns);
  int64_t apart_ns = LS_WRITES_APART * loop->t->save_took_ns;
  return wait_ns > apart_ns ? wait_ns : apart_ns;
}

/* Whether rank 0 chooses when to save. */
static bool save_chosen(const ls_trainer_t *t) {
  const ls_checkpoint_config_t *c = &t->config->checkpoint;
  return c->dir && c->every_steps < 0 && t->world->comm->rank == 0;
}

/* Whether the run changed the weights: as long as every step was skipped, it saves nothing. */
static bool has_applied(const ls_loop_t *loop) {
  return loop->t->step - loop->first_step > loop->skipped;
}

/* As soon as a step was applied. The time that it takes is no part of a step. */
static ls_status_t claim(ls_loop_t *loop) {
  if (loop->t->claimed || !has_applied(loop)) return LS_OK;
  const int64_t start = ls_loop_clock_ns(loop);
  uint64_t before = ls_watchdog_enter(loop->t->watchdog, LS_WATCHDOG_OFF, loop->t->step);
  ls_status_t status = ls_trainer_claim(loop->t);
  ls_watchdog_leave(loop->t->watchdog, before);
  leave_out(loop, ls_loop_clock_ns(loop) - start);
  return status;
}

/* LS_SAVE_NOW: the run has ended, and nothing is trained while it is written. */
static ls_status_t save(ls_loop_t *loop, ls_save_when_t when) {
  if (when != LS_SAVE_NOW && !has_applied(loop)) return LS_OK;
  int64_t start = ls_loop_clock_ns(loop);
  show(loop, LS_PAGE_SAVE);
  uint64_t before = ls_watchdog_enter(loop->t->watchdog, LS_WATCHDOG_OFF, loop->t->step);
  ls_status_t status = ls_trainer_claim(loop->t);
  if (status == LS_OK && loop->t->config->train.replica_steps > 0)
    status = ls_trainer_compare_replicas(loop->t);
  if (status == LS_OK) status = ls_trainer_save(loop->t, when);
  ls_watchdog_leave(loop->t->watchdog, before);
  show(loop, loop->shown);
  int64_t took = ls_loop_clock_ns(loop) - start;
  loop->save_ns += took;
  loop->seen.save_ns = loop->save_ns;
  ls_trainer_seen(loop->t, NULL, 0, NULL, &loop->seen);
  loop->saves++;
  loop->saved_ns = start;
  leave_out(loop, took);
  if (status == LS_OK && when == LS_SAVE_BESIDE && !loop->spoke_of_saves && save_chosen(loop->t)) {
    loop->spoke_of_saves = true;
    ls_log(loop->t->ctx, LS_LOG_INFO,
           "the run stood still for %.3g s to save: the next checkpoint is made in %.3g s or later "
           "(checkpoint.every_steps: -1, checkpoint.failure_hours: %g)",
           (double)took * 1e-9, (double)save_wait_ns(loop) * 1e-9, loop->t->config->checkpoint.failure_hours);
  }
  return status;
}

/* Waits for the oldest step in flight and records its numbers. */
static ls_status_t finish_step(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  ls_engine_t *e = &t->engine;
  int64_t step = e->finished;
  const float *got, *stats = loop->stats;
  ls_status_t status = ls_engine_wait(e, &got);
  if (status == LS_OK) status = loop->tracing;
  if (status != LS_OK) return status;
  for (int i = 0; i < LS_STAT_COUNT; i++)
    loop->stats[i] = isnan(got[i]) ? NAN : got[i]; /* never "-nan" */
  /* If the process was stopped during a step, the step counts as long as the one before. */
  int64_t stopped_ns = ls_watchdog_stopped_ns(t->watchdog), now = e->done_ns - stopped_ns;
  bool whole = stopped_ns == loop->stopped_ns || step == loop->first_step;
  int64_t step_ns = whole ? now - loop->last_done_ns : loop->step_ns;
  loop->stopped_ns = stopped_ns;
  loop->last_done_ns = now;
  loop->loop_ns += step_ns;
  bool applied = stats[LS_STAT_APPLIED] != 0.0f;
  if (step == loop->first_step) loop->first_ns = step_ns;
  if (step == loop->first_step) loop->train_loss_first = (double)stats[LS_STAT_LOSS];
  /* a loss scale that is still too large for fp16 is no fault of the run */
  bool overflows = !applied && stats[LS_STAT_LOSS_SCALE] > 1 && isfinite(stats[LS_STAT_LOSS]);
  loop->skipped += !applied;
  loop->skipped_row = applied ? 0 : loop->skipped_row + !overflows;
  if (e->took && whole) memcpy(loop->parts_ns, e->took->parts_ns, sizeof loop->parts_ns);
  bool measured = e->took && e->backend->synchronous;
  ls_step_log_add(&loop->log, step_ns, measured ? loop->parts_ns : NULL, (double)stats[LS_STAT_LOSS], applied,
                  &loop->parts);
  loop->comm_measured |= e->took != NULL;
  loop->parts.comm_measured = loop->comm_measured;
  loop->parts.comm_ns = loop->parts_ns[LS_PHASE_STEP_COMM];
  t->step = step + 1;
  loop->shown = LS_PAGE_STEP;
  ls_page_step(t->line, t->step, e->done_ns);
  loop->step_ns = step_ns;
  ls_loop_count_own(loop, e->took, whole, step_ns);
  if (t->page && e->took)
    ls_page_timed(t->page, t->world->comm->rank, loop->own_ns,
                  loop->parts.measured ? loop->parts.input_ns : loop->waited_ns);
  loop->waited_ns = 0;
  ls_trainer_seen(t, stats, step_ns, &loop->parts, &loop->seen);
  if (!reported_later(t)) ls_loop_progress(loop);
  if (status == LS_OK && loop->skipped_row >= t->config->train.max_skipped)
    status = ls_loop_diverged(loop, stats);
  return status;
}

static bool save_wanted(const ls_loop_t *loop) {
  return save_chosen(loop->t) && ls_loop_clock_ns(loop) - loop->saved_ns >= save_wait_ns(loop);
}

typedef struct {
  bool stop, save, pause, end, smaller;
} ls_asked_t;

static ls_asked_t asked_of(const double *votes) {
  return (ls_asked_t){.stop = votes[0] > 0,
                      .save = votes[1] > 0,
                      .pause = votes[3] > 0,
                      .end = votes[4] > 0,
                      .smaller = votes[5] > 0};
}

/* What is asked between two steps: to stop, to pause or to end for safety, by any rank; to save, by rank 0. Ranks of a world agree from time to time, all
 * at the same step; the next one is chosen from the mean step time of all. */
static ls_status_t what_is_asked(ls_loop_t *loop, int64_t step, ls_asked_t *asked) {
  ls_comm_t *comm = loop->t->world->comm;
  int64_t done = loop->t->step - loop->first_step;
  uint64_t before = ls_watchdog_enter(loop->t->watchdog, LS_WATCHDOG_OFF, step);
  bool stop = loop->hooks->stop && loop->hooks->stop(loop->hooks->user);
  ls_watchdog_leave(loop->t->watchdog, before);
  /* A save that failed ends the run; the ranks hear why when they agree on it. */
  stop = ls_beside_failed(loop->t) || stop;
  /* whole numbers: their sum is exact, so that all ranks choose the same step */
  const ls_safety_act_t safety = ls_trainer_safety(loop->t);
  double votes[] = {stop,
                    save_wanted(loop),
                    done > 0 ? (double)(loop->loop_ns / done) : 0,
                    safety == LS_SAFETY_PAUSE,
                    safety == LS_SAFETY_END,
                    ls_trainer_safety_smaller(loop->t)};
  *asked = asked_of(votes);
  if (comm->size == 1) return LS_OK;
  *asked = (ls_asked_t){.smaller = loop->t->config->train.smaller};
  if (step < loop->stop_check_step) return LS_OK;
  ls_status_t status = ls_comm_sum_f64(comm, "stop request", votes, LS_COUNT(votes));
  int64_t step_ns = (int64_t)(votes[2] / comm->size) + 1, wait = STOP_CHECK_NS / step_ns;
  loop->stop_check_step = step + (wait < 1 ? 1 : wait > STOP_CHECK_STEPS_MAX ? STOP_CHECK_STEPS_MAX : wait);
  *asked = asked_of(votes);
  return status;
}

/* Early stopping counts the evaluations at the ends of epochs, including the last, so an interrupted or
 * extended run counts the same. */
static bool count_evaluation(ls_trainer_t *t) {
  bool better = isfinite(t->val_figure) && !(t->val_figure >= t->best_figure);
  if (better) t->best_figure = t->val_figure;
  t->no_better = better ? 0 : t->no_better + 1;
  return better;
}

static bool save_due(const ls_trainer_t *t, int64_t step) {
  int64_t every = t->config->checkpoint.every_steps;
  return t->config->checkpoint.dir && every > 0 && step % every == 0 && step < t->total_steps;
}

static bool compare_due(const ls_trainer_t *t, int64_t step) {
  int64_t every = t->config->train.replica_steps;
  return every > 0 && step % every == 0 && t->world->comm->size > 1;
}

/* Waits for steps until `ahead` of them are in flight. */
static ls_status_t finish_steps(ls_loop_t *loop, int ahead) {
  const ls_engine_t *e = &loop->t->engine;
  ls_status_t status = LS_OK;
  while (e->launched - e->finished > ahead && status == LS_OK)
    status = finish_step(loop);
  return status;
}

/* Saves, and waits until no rank's ladder asks for a pause, or somebody asks for an end. */
static ls_status_t stand_still(ls_loop_t *loop, ls_asked_t *asked) {
  enum { LOOK_NS = 50000000 };
  ls_trainer_t *t = loop->t;
  ls_status_t status = t->config->checkpoint.dir ? save(loop, LS_SAVE_BESIDE) : LS_OK;
  if (t->world->comm->rank == 0)
    ls_log(t->ctx, LS_LOG_WARN, "safety: paused after step %lld", (long long)t->step);
  const int64_t begin_ns = ls_clock_ns();
  ls_watchdog_enter(t->watchdog, LS_WATCHDOG_OFF, t->step);
  while (status == LS_OK && asked->pause && !asked->stop && !asked->end) {
    ls_trainer_wait(LOOK_NS);
    show(loop, LS_PAGE_SAVE); /* lives, but does no steps */
    loop->stop_check_step = 0;
    status = what_is_asked(loop, t->step, asked);
  }
  leave_out(loop, ls_clock_ns() - begin_ns);
  if (t->world->comm->rank == 0 && status == LS_OK && !asked->pause)
    ls_log(t->ctx, LS_LOG_INFO, "safety: goes on after %.1f s", (double)(ls_clock_ns() - begin_ns) * 1e-9);
  return status;
}

/* The pause of a duty cycle. A device would go on with what it has meanwhile. */
static ls_status_t rest(ls_loop_t *loop) {
  const int64_t ns = ls_trainer_safety_rest_ns(loop->t, loop->own_ns);
  if (ns == 0) return LS_OK;
  const ls_status_t status = finish_steps(loop, 0);
  const int64_t begin_ns = ls_clock_ns();
  ls_trainer_wait(ns);
  leave_out(loop, ls_clock_ns() - begin_ns);
  return status;
}

static ls_status_t run_steps(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  ls_engine_t *e = &t->engine;
  loop->last_done_ns = loop->saved_ns = ls_loop_clock_ns(loop);
  ls_page_step(t->line, t->step, ls_clock_ns());
  show(loop, LS_PAGE_FIRST_STEP);
  ls_watchdog_enter(t->watchdog, LS_WATCHDOG_STEP, t->step);
  ls_status_t status = start(loop);
  while (e->launched < t->total_steps && !ls_trainer_patience_lost(t) && status == LS_OK) {
    ls_asked_t asked = {.smaller = t->config->train.smaller};
    ls_watchdog_enter(t->watchdog, LS_WATCHDOG_STEP, e->launched);
    status = ls_trainer_inject(t, loop->hooks, e->launched, loop->stop_check_step, loop->own_ns);
    if (status == LS_OK) status = ls_engine_launch(e);
    ls_loop_count_wait(loop, e);
    int64_t step = e->launched;
    const bool prune = ls_prune_due(&t->config->prune, step);
    bool due =
        prune || evaluate_due(t, step) || save_due(t, step) || compare_due(t, step) || step == t->total_steps;
    if (status == LS_OK) status = finish_steps(loop, due ? 0 : e->lag);
    if (status == LS_OK) status = claim(loop);
    if (status == LS_OK && prune) status = ls_trainer_prune(t, step);
    ls_eval_report_t unused;
    bool saves = save_due(t, step), better = false;
    if (status == LS_OK && evaluate_due(t, step)) {
      status = evaluate(loop, &unused);
      better = count_evaluation(t) && t->config->checkpoint.dir;
      if (status == LS_OK && ls_trainer_patience_lost(t)) return LS_OK;
    }
    if (status == LS_OK && (saves || better)) status = save(loop, saves ? LS_SAVE_BESIDE : LS_SAVE_BEST);
    if (status == LS_OK && compare_due(t, step) && !((saves || better) && has_applied(loop)))
      status = ls_trainer_compare_replicas(t);
    if (status == LS_OK && step < t->total_steps) status = what_is_asked(loop, step, &asked);
    if (status != LS_OK) return status;
    loop->resized = ls_trainer_safety_resized(t, asked.smaller);
    if (asked.stop || asked.save || asked.pause || asked.end || loop->resized) status = finish_steps(loop, 0);
    if (status == LS_OK && asked.pause && !asked.stop && !asked.end) status = stand_still(loop, &asked);
    if (asked.stop || asked.end) loop->resized = 0;
    if (status == LS_OK && (asked.stop || asked.end || loop->resized)) {
      status = ls_trainer_saved(t);
      return status != LS_OK ? status : asked.stop ? LS_ERR_INTERRUPTED : LS_ERR_AGAIN;
    }
    if (status == LS_OK && asked.save) status = save(loop, LS_SAVE_BESIDE);
    if (status == LS_OK) status = rest(loop);
  }
  return status;
}

/* The run itself, between creating and releasing its resources. */
static ls_status_t run_loop(ls_loop_t *loop, ls_train_report_t *report) {
  ls_trainer_t *t = loop->t;
  ls_eval_report_t evaluated = {.loss = NAN};
  bool validate = t->dataset->validation_count > 0;
  ls_status_t status = validate ? evaluate(loop, &evaluated) : LS_OK;
  report->val_loss_first = evaluated.loss;
  ls_loop_nothing_left(t);
  if (status == LS_OK) status = run_steps(loop);
  show(loop, LS_PAGE_END);
  int64_t done = t->step - loop->first_step;
  if (status == LS_OK && done > 0 && loop->skipped_row == done) status = ls_loop_diverged(loop, loop->stats);
  bool ended = status == LS_OK || (ls_trainer_goes_on(status) && (done == 0 || loop->skipped < done));
  if (!ended) ls_beside_end(t); /* what was copied is good; a failure was reported */
  if (ended && validate) {
    ls_status_t evaluation = evaluate(loop, &evaluated);
    if (evaluation != LS_OK) return evaluation;
    if (done > 0 && t->step == t->total_steps && epochs_end(t, t->step)) count_evaluation(t);
  }
  if (ended && t->config->checkpoint.dir && (done > 0 || t->resumed_from < 0)) {
    ls_status_t saving = save(loop, LS_SAVE_NOW);
    if (saving != LS_OK) return saving;
  }
  if (ended && loop->trace) {
    const int left_out = t->engine.share.accumulate - 2 * LS_TRACE_ENDS;
    if (left_out > 0 && t->world->comm->rank == 0)
      ls_log(t->ctx, LS_LOG_WARN,
             "%s: of each step the trace has the first %d and the last %d micro-batches; %d between them are "
             "left out",
             loop->hooks->trace_path, LS_TRACE_ENDS, LS_TRACE_ENDS, left_out);
    report->trace = ls_trace_write(t->ctx, loop->trace, t->world->comm, loop->hooks->trace_path);
  }
  return status;
}

ls_status_t ls_trainer_run(ls_trainer_t *t, const ls_train_hooks_t *hooks, ls_train_report_t *report) {
  static const ls_train_hooks_t no_hooks = {0};
  int64_t start_ns = ls_clock_ns();
  ls_loop_t loop = {.t = t,
                    .hooks = hooks ? hooks : &no_hooks,
                    .first_step = t->step,
                    .shown = LS_PAGE_START,
                    .train_loss_first = NAN};
  loop.begin_ns = ls_loop_clock_ns(&loop);
  ls_loop_describe(t, report);
  if (!t->training) return ls_fail(t->ctx, LS_ERR_ARGUMENT, "this trainer was created for evaluation only");
  ls_page_first(t->line, t->step);
  int64_t steps = t->total_steps - t->step;
  ls_status_t status = ls_step_log_create(t->ctx,
                                          steps > LS_LOG_CAPACITY ? LS_LOG_CAPACITY
                                          : steps > 0             ? steps
                                                                  : 0,
                                          &loop.log);
  if (status == LS_OK && loop.hooks->trace_path && !(loop.trace = json_array()))
    status = ls_fail(t->ctx, LS_ERR_MEMORY, "out of memory for the trace");
  ls_trainer_need(t, &report->memory);
  loop.progress = (ls_progress_t){.total_steps = t->total_steps,
                                  .total_epochs = t->config->train.steps > 0 ? 0 : t->config->train.epochs,
                                  .val_loss = NAN,
                                  .val_accuracy = NAN,
                                  .device_bytes = report->memory.device_bytes};
  ls_trainer_seen_evaluation(t, &loop.seen); /* there is none yet */
  if (status == LS_OK) status = ls_trainer_watch(t);
  if (status == LS_OK) status = run_loop(&loop, report);
  bool together = status == LS_OK || ls_trainer_goes_on(status);
  ls_status_t asking = together ? ls_trainer_memory(t, &report->memory) : LS_OK;
  if (asking != LS_OK) status = asking;
  ls_watchdog_enter(t->watchdog, LS_WATCHDOG_END, t->step);
  ls_engine_stop(&t->engine);
  ls_watchdog_enter(t->watchdog, LS_WATCHDOG_OFF, t->step);
  report->accumulate_next = status == LS_ERR_AGAIN ? loop.resized : 0;
  if (loop.log.step_ns) ls_loop_report(&loop, start_ns, report);
  ls_status_t hashing = ls_trainer_hash(t, report->params_xxh3);
  json_decref(loop.trace);
  json_decref(loop.timeline.tasks);
  ls_step_log_release(&loop.log);
  if (status == LS_OK) status = hashing;
  ls_monitor_stop(t->monitor, status);
  t->monitor = NULL;
  if (!ls_trainer_goes_on(status)) ls_page_fail(t->line, status);
  return status;
}
