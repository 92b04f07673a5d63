/* Tells the program's progress hook of each step. Rank 0. */
#include "train/observers/observers.h"

#include <math.h>

typedef struct {
  ls_trainer_t *t;
  ls_progress_t progress; /* as it was told last; evaluations fill in their part */
} own_t;

static bool wanted(const ls_trainer_t *t) {
  return t->training && t->world->comm->rank == 0;
}

static ls_status_t begin(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  const ls_trainer_t *t = loop->t;
  o->progress = (ls_progress_t){.total_steps = t->run.total_steps,
                                .total_epochs = t->config->train.steps > 0 ? 0 : t->config->train.epochs,
                                .val_loss = NAN,
                                .val_accuracy = NAN,
                                .device_bytes = loop->report->memory.device_bytes};
  return LS_OK;
}

static void tell(own_t *o, const ls_loop_t *loop) {
  ls_trainer_t *t = o->t;
  ls_progress_t *p = &o->progress;
  const int64_t whole = ls_loop_epochs(t), samples = ls_trainer_samples(t);
  p->step = t->run.step;
  if (!loop->hooks->progress) return;
  p->epoch = whole;
  p->in_epoch = whole + (samples > whole * t->dataset->train_count || whole == 0);
  p->train_loss = (double)loop->stats[LS_STAT_LOSS];
  p->train_loss_mean = ls_step_log_loss(&loop->log);
  p->grad_norm = (double)loop->stats[LS_STAT_GRAD_NORM];
  p->lr = (double)ls_loop_rate(t, t->run.step - 1);
  p->step_time_ns = loop->step_ns;
  p->parts = loop->parts;
  p->samples_per_s = ls_loop_samples_per_s(loop);
  p->skipped_steps = loop->skipped;
  p->running_ns = ls_loop_clock_ns(loop) - loop->begin_ns;
  const ls_doing_t before = ls_trainer_do(t, LS_DOING_OTHER);
  loop->hooks->progress(loop->hooks->user, p);
  ls_trainer_do(t, before);
}

/* A step with an evaluation is told once, with the evaluation's results. */
static ls_status_t after_step(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  const ls_trainer_t *t = o->t;
  const bool last = t->run.step == t->run.total_steps && t->dataset->validation_count > 0;
  if (!last && !ls_loop_evaluates(t, t->run.step)) tell(o, loop);
  return LS_OK;
}

static void evaluated(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  const ls_position_t *run = &o->t->run;
  o->progress.val_loss = run->val.loss;
  o->progress.val_accuracy = run->val.accuracy;
  o->progress.val_metrics = run->val.metrics;
  if (run->step > loop->first_step && o->progress.step != run->step) tell(o, loop);
}

const ls_observer_t ls_observer_progress = {.name = "progress",
                                            .own_bytes = sizeof(own_t),
                                            .wanted = wanted,
                                            .begin = begin,
                                            .after_step = after_step,
                                            .evaluated = evaluated};
