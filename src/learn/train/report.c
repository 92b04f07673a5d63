/* The report of a run, its rate, and the reason why it diverged. */
#include "train/loop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

float ls_loop_rate(void *user, int64_t step) {
  const ls_trainer_t *t = user;
  return ls_rate_at(&t->config->rate, t->config->optimizer.lr, step, t->run.total_steps);
}

/* The first step warms up: it counts only while it is the only one. */
double ls_loop_samples_per_s(const ls_loop_t *loop) {
  int64_t done = loop->t->run.step - loop->first_step, rest_ns = loop->loop_ns - loop->first_ns;
  bool later = done > 1 && rest_ns > 0;
  double samples = (double)((later ? done - 1 : done) * loop->t->config->train.batch);
  int64_t took_ns = later ? rest_ns : loop->loop_ns;
  return took_ns > 0 ? samples * 1e9 / (double)took_ns : 0;
}

int64_t ls_loop_epochs(const ls_trainer_t *t) {
  return ls_trainer_samples(t) / t->dataset->train_count;
}

/* A remedy for steps that are not finite. f16 between ranks has a smaller range than the floats that compute gradients. */
static const char *remedy(const ls_loop_t *loop, const float *stats) {
  const ls_parallel_config_t *parallel = &loop->t->config->parallel;
  bool wire = loop->t->world->comm->size > 1 && strcmp(ls_wire_names[parallel->wire], "f16") == 0;
  return wire && isfinite(stats[LS_STAT_LOSS])
             ? "Gradients travel as f16, which has none above 65504: set parallel.wire: bf16 or f32. If that "
               "does not "
               "help, lower train.optimizer.lr, or set train.clip_norm"
             : "Lower train.optimizer.lr, set train.clip_norm, or look for extreme values in the data";
}

ls_status_t ls_loop_diverged(const ls_loop_t *loop, const float *stats) {
  return ls_fail(
      loop->t->ctx, LS_ERR_NONFINITE,
      "stopped at step %lld: %lld step%s in a row had a loss or gradient that is not finite (loss %g, "
      "gradient norm %g, learning rate %g). The parameters are those of the last good step. %s",
      (long long)loop->t->run.step, (long long)loop->skipped_in_a_row, LS_PLURAL(loop->skipped_in_a_row),
      (double)stats[LS_STAT_LOSS], (double)stats[LS_STAT_GRAD_NORM],
      (double)ls_loop_rate(loop->t, loop->t->run.step - 1), remedy(loop, stats));
}

static const char *why_unsaved(const ls_loop_t *loop) {
  const int64_t done = loop->t->run.step - loop->first_step;
  return !loop->t->config->checkpoint.dir    ? "no train.checkpoint.dir"
         : done > 0 && loop->skipped == done ? "every step was skipped"
                                             : "the run ended before its first save";
}

void ls_loop_report(ls_loop_t *loop) {
  ls_trainer_t *t = loop->t;
  ls_train_report_t *report = loop->report;
  ls_step_log_report(&loop->log, report);
  report->steps = t->run.step - loop->first_step;
  report->samples_per_s = ls_loop_samples_per_s(loop);
  report->train_loss_first = loop->train_loss_first;
  report->val_ended = t->dataset->validation_count > 0 && t->run.val_step == t->run.step;
  if (report->val_ended) { /* else the network has changed since its last evaluation */
    report->val_loss = t->run.val.loss;
    report->val_accuracy = t->run.val.accuracy;
    report->val_perplexity = ls_trainer_perplexity(t, t->run.val.loss);
    report->val_metrics = t->run.val.metrics;
  }
  const ls_score_t *figure = &ls_scores[t->config->train.figure];
  report->best.name = figure->name;
  report->best.share = figure->share;
  report->best.value = figure->rises ? -t->run.best.figure : t->run.best.figure;
  report->best.step = isnan(t->run.best.figure) ? -1 : t->run.best.step;
  report->best.epoch = t->run.best.epoch;
  report->skipped_steps = loop->skipped;
  report->loss_scale = (double)loop->stats[LS_STAT_LOSS_SCALE];
  report->eval_s = (double)loop->eval_ns * 1e-9;
  report->save_s = (double)loop->save_ns * 1e-9;
  report->wall_s = (double)(ls_clock_ns() - loop->start_ns) * 1e-9;
  if (ls_trainer_patience_lost(t) && t->run.step < t->run.total_steps)
    snprintf(report->stopped_early, sizeof report->stopped_early,
             "at epoch %lld: the validation %s has not improved for %lld evaluation%s",
             (long long)ls_loop_epochs(t), t->config->train.best, (long long)t->run.no_better,
             LS_PLURAL(t->run.no_better));
  memcpy(report->checkpoint, t->saver.checkpoint, sizeof report->checkpoint);
  report->saves = t->saver.saves;
  if (t->world->comm->rank == 0) ls_loop_notes(loop, report);
  if (!t->saver.checkpoint[0]) snprintf(report->unsaved, sizeof report->unsaved, "%s", why_unsaved(loop));
}

void ls_loop_describe(const ls_trainer_t *t, ls_train_report_t *report) {
  const ls_engine_t *e = &t->engine;
  *report = (ls_train_report_t){.params = ls_graph_param_count(e->step[LS_STEP_EVALUATE].graph),
                                .world_size = t->world->comm->size,
                                .threads_per_rank = e->backend->host_processors ? e->threads : 1,
                                .global_batch = t->config->train.batch,
                                .total_steps = t->run.total_steps,
                                .resumed_from = t->run.resumed_from,
                                .classes = t->classes,
                                .val_samples = t->dataset->validation_count,
                                .val_loss_first = NAN,
                                .val_loss = NAN,
                                .val_accuracy = NAN,
                                .val_perplexity = NAN,
                                .train_loss = NAN,
                                .train_loss_first = NAN};
  snprintf(report->strategy, sizeof report->strategy, "%s", t->config->parallel.strategy);
  snprintf(report->backend, sizeof report->backend, "%s", e->backend->name);
  snprintf(report->precision, sizeof report->precision, "%s", ls_math_names[e->device->math]);
  snprintf(report->device, sizeof report->device, "%s", e->device->name);
}

void ls_loop_nothing_left(const ls_trainer_t *t) {
  const ls_train_config_t *train = &t->config->train;
  if (t->world->comm->rank != 0 || t->run.resumed_from < 0 || t->run.step < t->run.total_steps) return;
  if (train->steps > 0)
    ls_log(t->ctx, LS_LOG_INFO, "nothing to train: %lld step%s done, train.steps is %lld",
           (long long)t->run.step, LS_PLURAL(t->run.step), (long long)train->steps);
  else
    ls_log(t->ctx, LS_LOG_INFO, "nothing to train: %lld samples done, train.epochs is %lld (%lld samples)",
           (long long)ls_trainer_samples(t), (long long)train->epochs, (long long)t->run.total_samples);
}
