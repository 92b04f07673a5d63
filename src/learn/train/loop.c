/* The training loop: the engine's steps in order, with evaluation, pruning, saving and interruption between them. Its
 * observers (observer.h) hear of each. */
#include "train/loop.h"

#include "train/memory.h"

#include <math.h>
#include <string.h>

enum { STOP_CHECK_STEPS_MAX = 256, STOP_CHECK_NS = 50000000 };

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

/* Whether this step, possibly the run's last, ends a multiple of so many epochs. */
static bool epochs_end(const ls_trainer_t *t, int64_t step) {
  int64_t every = t->config->train.evaluate_every * t->dataset->train_count;
  if (every == 0 || t->dataset->validation_count == 0) return false;
  return ls_trainer_position(t, step) / every != ls_trainer_position(t, step - 1) / every;
}

bool ls_loop_evaluates(const ls_trainer_t *t, int64_t step) {
  return step < t->run.total_steps && epochs_end(t, step);
}

static bool save_due(const ls_trainer_t *t, int64_t step) {
  int64_t every = t->config->checkpoint.every_steps;
  return t->config->checkpoint.dir && every > 0 && step % every == 0 && step < t->run.total_steps;
}

static bool check_due(const ls_trainer_t *t, int64_t step) {
  bool due = false;
  LS_OBSERVERS(o, t, due) due |= o->row->due(o->own, step);
  return due;
}

static ls_status_t check(ls_loop_t *loop) {
  ls_status_t status = LS_OK;
  LS_OBSERVERS(o, loop->t, check) if (status == LS_OK) status = o->row->check(o->own, loop);
  return status;
}

/* The time between two steps is part of neither. */
static void leave_out(ls_loop_t *loop, int64_t ns) {
  loop->last_done_ns += ns;
  loop->left_out_ns += ns;
}

static void take_evaluation(ls_loop_t *loop, const ls_eval_report_t *report) {
  ls_position_t *run = &loop->t->run;
  run->val = *report;
  run->val_step = run->step;
  run->val_figure = ls_scores[loop->t->config->train.figure].rises ? -report->figure : report->figure;
  if (run->step > loop->first_step && isfinite(run->val_figure) && !(run->val_figure >= run->best.figure))
    run->best = (ls_best_t){run->val_figure, run->step, ls_loop_epochs(loop->t)};
}

static ls_status_t evaluate(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  ls_eval_report_t report;
  const int64_t start = ls_loop_clock_ns(loop);
  ls_status_t status = ls_trainer_evaluate_part(t, LS_PART_VALIDATION, &report);
  loop->eval_ns += ls_loop_clock_ns(loop) - start;
  if (status == LS_OK) {
    take_evaluation(loop, &report);
    LS_OBSERVERS(o, t, evaluated) o->row->evaluated(o->own, loop);
  }
  leave_out(loop, ls_loop_clock_ns(loop) - start);
  return status;
}

/* Early stopping counts the evaluations at the ends of epochs, including the last, so an interrupted or
 * extended run counts the same. */
static bool count_evaluation(ls_trainer_t *t) {
  ls_position_t *run = &t->run;
  bool better = isfinite(run->val_figure) && !(run->val_figure >= run->best_figure);
  if (better) run->best_figure = run->val_figure;
  run->no_better = better ? 0 : run->no_better + 1;
  return better;
}

/* Whether the run changed the weights. As long as every step was skipped it saves nothing. */
static bool has_applied(const ls_loop_t *loop) {
  return loop->t->run.step - loop->first_step > loop->skipped;
}

/* Claims the directory as soon as a step was applied. */
static ls_status_t claim(ls_loop_t *loop) {
  if (loop->t->saver.claimed || !has_applied(loop)) return LS_OK;
  const int64_t start = ls_loop_clock_ns(loop);
  const ls_doing_t before = ls_trainer_do(loop->t, LS_DOING_OTHER);
  ls_status_t status = ls_trainer_claim(loop->t);
  ls_trainer_do(loop->t, before);
  leave_out(loop, ls_loop_clock_ns(loop) - start);
  return status;
}

static ls_status_t save(ls_loop_t *loop, ls_save_when_t when) {
  ls_trainer_t *t = loop->t;
  if (when != LS_SAVE_NOW && !has_applied(loop)) return LS_OK;
  const int64_t start = ls_loop_clock_ns(loop);
  const ls_doing_t before = ls_trainer_do(t, LS_DOING_SAVE);
  ls_status_t status = ls_trainer_claim(t);
  if (status == LS_OK) status = check(loop);
  if (status == LS_OK) status = ls_trainer_save(t, when);
  ls_trainer_do(t, before);
  const int64_t took = ls_loop_clock_ns(loop) - start;
  loop->save_ns += took;
  loop->saves++;
  loop->saved_ns = start;
  leave_out(loop, took);
  if (status == LS_OK) {
    LS_OBSERVERS(o, t, saved) o->row->saved(o->own, loop, when, took);
  }
  return status;
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

/* Waits for steps until `ahead` of them are in flight. */
static ls_status_t finish_steps(ls_loop_t *loop, int ahead) {
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
  const int64_t step = e->launched;
  const bool due = ls_prune_due(&t->config->prune, step) || ls_loop_evaluates(t, step) || save_due(t, step) ||
                   step == t->run.total_steps || check_due(t, step);
  if (status == LS_OK) status = finish_steps(loop, due ? 0 : e->lag);
  return status == LS_OK ? claim(loop) : status;
}

/* The work that follows a step by its number. */
static ls_status_t follow(ls_loop_t *loop, int64_t step) {
  ls_trainer_t *t = loop->t;
  ls_status_t status = ls_prune_due(&t->config->prune, step) ? ls_trainer_prune(t, step) : LS_OK;
  const bool saves = save_due(t, step);
  bool better = false;
  if (status == LS_OK && ls_loop_evaluates(t, step)) {
    status = evaluate(loop);
    better = count_evaluation(t) && t->config->checkpoint.dir;
    if (status == LS_OK && ls_trainer_patience_lost(t)) return LS_OK;
  }
  if (status == LS_OK && (saves || better)) status = save(loop, saves ? LS_SAVE_BESIDE : LS_SAVE_BEST);
  return status == LS_OK && check_due(t, step) ? check(loop) : status;
}

static ls_asks_t asked_of(const double *votes) {
  return (ls_asks_t){.stop = votes[0] > 0,
                     .save = votes[1] > 0,
                     .pause = votes[3] > 0,
                     .end = votes[4] > 0,
                     .smaller = votes[5] > 0};
}

/* What is asked between two steps, by any rank. The ranks of a world agree from time to time, all at the same step. The mean
 * step time of all ranks says when they agree next. */
static ls_status_t hear(ls_loop_t *loop, int64_t step, ls_asks_t *asked) {
  ls_trainer_t *t = loop->t;
  ls_comm_t *comm = t->world->comm;
  const int64_t done = t->run.step - loop->first_step;
  ls_asks_t own = {.smaller = t->config->train.smaller};
  if (loop->hooks->stop) {
    const ls_doing_t before = ls_trainer_do(t, LS_DOING_OTHER);
    own.stop = loop->hooks->stop(loop->hooks->user);
    ls_trainer_do(t, before);
  }
  LS_OBSERVERS(o, t, idle) o->row->idle(o->own, loop, &own);
  loop->rest_ns = own.rest_ns;
  *asked = own;
  if (comm->size == 1) return LS_OK;
  *asked = (ls_asks_t){.smaller = t->config->train.smaller};
  if (step < loop->agree_step) return LS_OK;
  /* whole numbers: their sum is exact, so that all ranks choose the same step */
  double votes[] = {own.stop,  own.save, done > 0 ? (double)(loop->loop_ns / done) : 0,
                    own.pause, own.end,  own.smaller};
  ls_status_t status = ls_comm_sum_f64(comm, "stop request", votes, LS_COUNT(votes));
  int64_t step_ns = (int64_t)(votes[2] / comm->size) + 1, wait = STOP_CHECK_NS / step_ns;
  loop->agree_step = step + (wait < 1 ? 1 : wait > STOP_CHECK_STEPS_MAX ? STOP_CHECK_STEPS_MAX : wait);
  *asked = asked_of(votes);
  return status;
}

static void wait_ns(int64_t ns) {
  const struct timespec wait = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  nanosleep(&wait, NULL);
}

/* Saves, and waits until no rank asks for a pause, or somebody asks for an end. */
static ls_status_t stand_still(ls_loop_t *loop, ls_asks_t *asked) {
  enum { LOOK_NS = 50000000 };
  ls_trainer_t *t = loop->t;
  ls_status_t status = t->config->checkpoint.dir ? save(loop, LS_SAVE_BESIDE) : LS_OK;
  if (t->world->comm->rank == 0)
    ls_log(t->ctx, LS_LOG_WARN, "safety: paused after step %lld", (long long)t->run.step);
  const int64_t begin_ns = ls_clock_ns();
  const ls_doing_t before = ls_trainer_do(t, LS_DOING_PAUSE);
  while (status == LS_OK && asked->pause && !asked->stop && !asked->end) {
    wait_ns(LOOK_NS);
    ls_trainer_do(t, LS_DOING_PAUSE);
    loop->agree_step = 0;
    status = hear(loop, t->run.step, asked);
  }
  ls_trainer_do(t, before);
  leave_out(loop, ls_clock_ns() - begin_ns);
  if (t->world->comm->rank == 0 && status == LS_OK && !asked->pause)
    ls_log(t->ctx, LS_LOG_INFO, "safety: goes on after %.1f s", (double)(ls_clock_ns() - begin_ns) * 1e-9);
  return status;
}

/* The rest of a duty cycle. No step is in flight, or a device would compute meanwhile. */
static ls_status_t rest(ls_loop_t *loop) {
  if (loop->rest_ns == 0) return LS_OK;
  const ls_status_t status = finish_steps(loop, 0);
  const int64_t begin_ns = ls_clock_ns();
  wait_ns(loop->rest_ns);
  leave_out(loop, ls_clock_ns() - begin_ns);
  return status;
}

int64_t ls_loop_resized(const ls_trainer_t *t, bool smaller) {
  const ls_train_config_t *train = &t->config->train;
  if (smaller == train->smaller) return 0;
  if (!smaller) return train->accumulate / 2;
  const int64_t twice = 2 * train->accumulate;
  if (twice > LS_ACCUMULATE_MAX) return 0;
  return ls_engine_cut(train->batch, twice, t->world->comm->size).empty == 0 ? twice : 0;
}

/* Does what is asked after this step. LS_ERR_INTERRUPTED and LS_ERR_AGAIN end the run. */
static ls_status_t obey(ls_loop_t *loop, int64_t step) {
  ls_trainer_t *t = loop->t;
  ls_asks_t asked;
  ls_status_t status = hear(loop, step, &asked);
  if (status != LS_OK) return status;
  loop->resized = ls_loop_resized(t, asked.smaller);
  if (asked.stop || asked.save || asked.pause || asked.end || loop->resized) status = finish_steps(loop, 0);
  if (status == LS_OK && asked.pause && !asked.stop && !asked.end) status = stand_still(loop, &asked);
  if (asked.stop || asked.end) loop->resized = 0;
  if (status == LS_OK && (asked.stop || asked.end || loop->resized)) {
    status = ls_trainer_saved(t);
    return status != LS_OK ? status : asked.stop ? LS_ERR_INTERRUPTED : LS_ERR_AGAIN;
  }
  if (status == LS_OK && asked.save) status = save(loop, LS_SAVE_BESIDE);
  return status == LS_OK ? rest(loop) : status;
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
    if (status == LS_OK) status = follow(loop, done);
    if (status == LS_OK && done < t->run.total_steps && !ls_trainer_patience_lost(t))
      status = obey(loop, done);
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
  ls_status_t status = validate ? evaluate(loop) : LS_OK;
  if (validate && status == LS_OK) loop->report->val_loss_first = t->run.val.loss;
  ls_loop_nothing_left(t);
  if (status == LS_OK) status = run_steps(loop);
  ls_trainer_do(t, LS_DOING_END);
  const int64_t done = t->run.step - loop->first_step;
  if (status == LS_OK && done > 0 && loop->skipped_row == done) status = ls_loop_diverged(loop, loop->stats);
  const bool ended = status == LS_OK || (goes_on(status) && (done == 0 || loop->skipped < done));
  if (!ended) ls_beside_end(t); /* what was copied is good; a failure was reported */
  if (ended && validate) {
    ls_status_t evaluation = evaluate(loop);
    if (evaluation != LS_OK) return evaluation;
    if (done > 0 && t->run.step == t->run.total_steps && epochs_end(t, t->run.step)) count_evaluation(t);
  }
  if (ended && t->config->checkpoint.dir && (done > 0 || t->run.resumed_from < 0)) {
    ls_status_t saving = save(loop, LS_SAVE_NOW);
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
