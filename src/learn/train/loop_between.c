/* The work between two steps: evaluation, pruning, checks, saving. */
#include "train/loop.h"

#include <math.h>

bool ls_loop_epochs_end(const ls_trainer_t *t, int64_t step) {
  int64_t every = t->config->train.evaluate_every * t->dataset->train_count;
  if (every == 0 || t->dataset->validation_count == 0) return false;
  return ls_trainer_position(t, step) / every != ls_trainer_position(t, step - 1) / every;
}

bool ls_loop_evaluates(const ls_trainer_t *t, int64_t step) {
  return step < t->run.total_steps && ls_loop_epochs_end(t, step);
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

bool ls_loop_needs_end(const ls_trainer_t *t, int64_t step) {
  return ls_prune_due(&t->config->prune, step) || ls_loop_evaluates(t, step) || save_due(t, step) ||
         step == t->run.total_steps || check_due(t, step);
}

static ls_status_t check(ls_loop_t *loop) {
  ls_status_t status = LS_OK;
  LS_OBSERVERS(o, loop->t, check) if (status == LS_OK) status = o->row->check(o->own, loop);
  return status;
}

void ls_loop_leave_out(ls_loop_t *loop, int64_t ns) {
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

ls_status_t ls_loop_evaluate(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  ls_eval_report_t report;
  const int64_t start = ls_loop_clock_ns(loop);
  ls_status_t status = ls_trainer_evaluate_part(t, LS_PART_VALIDATION, &report);
  loop->eval_ns += ls_loop_clock_ns(loop) - start;
  if (status == LS_OK) {
    take_evaluation(loop, &report);
    LS_OBSERVERS(o, t, evaluated) o->row->evaluated(o->own, loop);
  }
  ls_loop_leave_out(loop, ls_loop_clock_ns(loop) - start);
  return status;
}

bool ls_loop_count_evaluation(ls_trainer_t *t) {
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

ls_status_t ls_loop_claim(ls_loop_t *loop) {
  if (loop->t->saver.claimed || !has_applied(loop)) return LS_OK;
  const int64_t start = ls_loop_clock_ns(loop);
  const ls_doing_t before = ls_trainer_do(loop->t, LS_DOING_OTHER);
  ls_status_t status = ls_trainer_claim(loop->t);
  ls_trainer_do(loop->t, before);
  ls_loop_leave_out(loop, ls_loop_clock_ns(loop) - start);
  return status;
}

ls_status_t ls_loop_save(ls_loop_t *loop, ls_save_when_t when) {
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
  ls_loop_leave_out(loop, took);
  if (status == LS_OK) {
    LS_OBSERVERS(o, t, saved) o->row->saved(o->own, loop, when, took);
  }
  return status;
}

ls_status_t ls_loop_follow(ls_loop_t *loop, int64_t step) {
  ls_trainer_t *t = loop->t;
  ls_status_t status = ls_prune_due(&t->config->prune, step) ? ls_trainer_prune(t, step) : LS_OK;
  const bool saves = save_due(t, step);
  bool better = false;
  if (status == LS_OK && ls_loop_evaluates(t, step)) {
    status = ls_loop_evaluate(loop);
    better = ls_loop_count_evaluation(t) && t->config->checkpoint.dir;
    if (status == LS_OK && ls_trainer_patience_lost(t)) return LS_OK;
  }
  if (status == LS_OK && (saves || better))
    status = ls_loop_save(loop, saves ? LS_SAVE_BESIDE : LS_SAVE_BEST);
  return status == LS_OK && check_due(t, step) ? check(loop) : status;
}
