/* Notes of a report: the last evaluation is no better than an answer that does not look at the sample. */
#include "train/loop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Fewer samples say little. */
enum { SAMPLES_MIN = 30 };

static const int32_t *classes_of(const ls_dataset_t *d) {
  return d->classes && d->sample.target.rank == 0 ? d->targets : NULL;
}

/* The loss of answering with the shares that the classes have in the validation part; *most: the most frequent class. NAN:
 * memory is short. */
static double shares_loss(const ls_trainer_t *t, int32_t *most, int64_t *most_count) {
  const ls_dataset_t *d = t->dataset;
  const int64_t classes = ls_model_classes(&t->config->model), n = d->validation_count;
  int64_t *count = ls_alloc_array(NULL, (size_t)classes, sizeof *count);
  double loss = 0;
  if (!count) return NAN;
  for (int64_t i = 0; i < n; i++)
    count[classes_of(d)[ls_dataset_row(d, LS_PART_VALIDATION, i)]]++;
  *most = 0;
  for (int32_t c = 0; c < classes; c++) {
    const double share = (double)count[c] / (double)n;
    loss -= share > 0 ? share * log(share) : 0;
    if (count[c] > count[*most]) *most = c;
  }
  *most_count = count[*most];
  ls_free(count);
  return loss;
}

/* The mean squared error of answering with the targets' means. */
static double means_loss(const ls_trainer_t *t) {
  const ls_dataset_t *d = t->dataset;
  const int64_t n = d->validation_count, width = d->outputs;
  double loss = 0;
  for (int64_t o = 0; o < width; o++) {
    double mean = 0, squares = 0; /* Welford, 1962 */
    for (int64_t i = 0; i < n; i++) {
      const double v =
          (double)((const float *)d->targets)[ls_dataset_row(d, LS_PART_VALIDATION, i) * width + o];
      const double off = v - mean;
      mean += off / (double)(i + 1);
      squares += off * (v - mean);
    }
    loss += squares / (double)n / (double)width;
  }
  return loss;
}

static void note_loss(const ls_loop_t *loop, double constant, const char *what, ls_train_report_t *report) {
  const bool best_is = loop->t->config->train.figure == 0 && report->best.value < constant;
  if (!(report->val_loss >= constant)) return;
  snprintf(report->note[report->notes++], sizeof report->note[0],
           "the validation loss %.6g is not below %.6g, that of always answering with %s%s", report->val_loss,
           constant, what,
           best_is ? "" : ": look at train.optimizer.lr, the length of the run and data.normalize");
}

void ls_loop_notes(const ls_loop_t *loop, ls_train_report_t *report) {
  const ls_trainer_t *t = loop->t;
  const ls_dataset_t *d = t->dataset;
  if (!report->val_ended || report->steps == 0) return;
  if (!isfinite(report->val_loss))
    snprintf(report->note[report->notes++], sizeof report->note[0],
             "the validation loss is not finite: the run has diverged; lower train.optimizer.lr, or set "
             "train.clip_norm");
  if (!isfinite(report->val_loss) || d->validation_count < SAMPLES_MIN) return;
  if (classes_of(d)) {
    int32_t most;
    int64_t most_count;
    const double constant = shares_loss(t, &most, &most_count);
    char name[64];
    snprintf(name, sizeof name, "%d", most);
    if (most < d->labels.count) ls_text_shown(d->labels.v[most], SIZE_MAX, name, sizeof name);
    note_loss(loop, constant, "the classes' shares", report);
    const int64_t right = llround(report->val_accuracy * (double)d->validation_count);
    if (isfinite(constant) && right <= most_count)
      snprintf(report->note[report->notes++], sizeof report->note[0],
               "the validation accuracy is not above %.4g %%, that of always answering %s",
               100 * (double)most_count / (double)d->validation_count, name);
  } else if (d->targets && t->config->model.loss == LS_LOSS_MSE) {
    note_loss(loop, means_loss(t), "the targets' means", report);
  }
}
