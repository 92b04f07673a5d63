/* The training loop: the engine's steps in order, and the work (loop_between.c) and wishes (loop_asks.c) between them. Its
 * observers (observer.h) hear of each. */
#include "train/loop.h"

#include <math.h>
#include <string.h>

static void micro_batch_ended(void *user, int64_t step, int m) {
  ls_loop_t *loop = user;
  ls_loop_count_wait(loop, &loop->t->engine);
  LS_OBSERVERS(o, loop->t, unit) o->row->unit(o->own, loop, step, m);
}

ls_status_t ls_loop_start(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  const ls_feed_t feed = {.dataset = t->dataset,
                          .seed = (uint64_t)t->config->train.seed,
                          .first_step = t->run.step,
                          .total_steps = t->run.total_steps,
                          .total_samples = t->run.total_samples,
                          .origin = ls_trainer_position(t, 0),
                          .lr = ls_loop_rate,
                          .lr_user = t,
                          .observer = {micro_batch_ended, loop},
                          .times = &t->input};
  return ls_feed_start(&t->engine, &feed);
}

/* Takes the numbers of the step that has just ended. Its update was skipped if LS_STAT_APPLIED is 0 (optim/control.c). */
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
  loop->skipped_in_a_row = applied ? 0 : loop->skipped_in_a_row + !overflows;
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
  if (status == LS_OK && loop->skipped_in_a_row >= t->config->train.max_skipped)
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

/* Launches the next step and waits for older ones, until as many are in flight as the engine allows: none if an evaluation,
 * a save or a comparison follows. */
static ls_status_t step(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  ls_engine_t *e = &t->engine;
  ls_status_t status = LS_OK;
  ls_trainer_do(t, LS_DOING_STEPS); /* observers also see the number of steps */
  LS_OBSERVERS(o, t, before_step) if (status == LS_OK) status = o->row->before_step(o->own, loop);
  if (status == LS_OK) status = ls_engine_launch(e);
  ls_loop_count_wait(loop, e);
  const bool ends = loop->stepping || ls_loop_needs_end(t, e->launched);
  if (status == LS_OK) status = ls_loop_finish_steps(loop, ends ? 0 : e->lag);
  return status == LS_OK ? ls_loop_claim(loop) : status;
}

bool ls_loop_left(const ls_trainer_t *t) {
  return t->engine.launched < t->run.total_steps && !ls_trainer_patience_lost(t);
}

ls_status_t ls_loop_advance(ls_loop_t *loop) {
  ls_status_t status = step(loop);
  const int64_t done = loop->t->engine.launched;
  if (status == LS_OK) status = ls_loop_follow(loop, done);
  return status == LS_OK && ls_loop_left(loop->t) ? ls_loop_obey(loop, done) : status;
}
