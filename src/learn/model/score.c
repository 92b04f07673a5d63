/* Figures of an evaluation, a row each: the op that makes a rank's sums, and how the sums of all ranks become the
 * figure. */
#include "graph/ops/ops.h"
#include "model/layer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static double loss(const ls_evaluated_t *e, const double *sum) {
  (void)sum;
  return e->loss;
}

static double accuracy(const ls_evaluated_t *e, const double *sum) {
  (void)sum;
  return e->correct / (double)e->classified;
}

static double perplexity(const ls_evaluated_t *e, const double *sum) {
  (void)sum;
  return exp(e->loss);
}

static double hits(const ls_evaluated_t *e, const double *sum) {
  return sum[0] / (double)e->classified;
}

/* The mean over the classes (labels) that occur or are predicted, of the harmonic mean of precision and recall. */
static double f1(const ls_evaluated_t *e, const double *sum) {
  const double *right = sum, *predicted = sum + e->width, *true_ = predicted + e->width;
  double all = 0, present = 0;
  for (int64_t c = 0; c < e->width; c++) {
    double count = predicted[c] + true_[c];
    all += count > 0 ? 2 * right[c] / count : 0;
    present += count > 0;
  }
  return all / present;
}

/* 1 - residual / total sum of squares; NaN if the output does not vary: if its total does not exceed what rounding can
 * make of it. n terms of one sign, added in f64 in any order (n epsilon / 2), which travel as pairs of f32 (16 epsilon),
 * bound the relative error of t2; t * t / n has twice that of t. */
static double r2_of(const ls_evaluated_t *e, const double *sum, int64_t o) {
  const double n = (double)e->samples, rounding = 2 * (n + 32) * DBL_EPSILON;
  const double *square = sum + e->width, *t = square + e->width, *t2 = t + e->width;
  const double total = t2[o] - t[o] * t[o] / n;
  return total <= rounding * t2[o] ? (double)NAN : 1 - square[o] / total;
}

static double r2(const ls_evaluated_t *e, const double *sum) {
  double all = 0, vary = 0;
  for (int64_t o = 0; o < e->width; o++) {
    const double one = r2_of(e, sum, o);
    all += isnan(one) ? 0 : one;
    vary += !isnan(one);
  }
  return vary > 0 ? all / vary : NAN;
}

static double mae_of(const ls_evaluated_t *e, const double *sum, int64_t o) {
  return sum[o] / (e->target_scale ? (double)e->target_scale[o] : 1) / (double)e->samples;
}

static double mae(const ls_evaluated_t *e, const double *sum) {
  double all = 0;
  for (int64_t o = 0; o < e->width; o++)
    all += mae_of(e, sum, o);
  return all / (double)e->width;
}

enum {
  CLASSES = 1 << LS_LOSS_CROSS_ENTROPY,
  LABELS = 1 << LS_LOSS_BCE,
  VALUES = 1 << LS_LOSS_MSE | 1 << LS_LOSS_L1 | 1 << LS_LOSS_HUBER
};
const ls_score_t ls_scores[] = {
    {.name = "loss", .losses = CLASSES | LABELS | VALUES, .figure = loss},
    {.name = "accuracy", .losses = CLASSES | LABELS, .rises = true, .share = true, .figure = accuracy},
    {.name = "perplexity", .losses = CLASSES, .positions = true, .figure = perplexity},
    {.name = "top5",
     .losses = CLASSES,
     .op = &ls_op_top_hits,
     .attrs = {.i = {5}},
     .counts = true,
     .rises = true,
     .share = true,
     .figure = hits},
    {.name = "f1", .losses = CLASSES, .op = &ls_op_class_counts, .counts = true, .rises = true, .figure = f1},
    {.name = "f1", .losses = LABELS, .op = &ls_op_label_counts, .counts = true, .rises = true, .figure = f1},
    {.name = "r2", .losses = VALUES, .op = &ls_op_value_sums, .rises = true, .figure = r2, .of = r2_of},
    {.name = "mae", .losses = VALUES, .op = &ls_op_value_sums, .figure = mae, .of = mae_of},
    {.name = NULL}};
static_assert(LS_COUNT(ls_scores) - 1 <= LS_SCORES_MAX, "a bit for every row");

static bool applies(const ls_score_t *row, const ls_model_config_t *model) {
  return (row->losses >> model->loss & 1) != 0 && (!row->positions || ls_model_positions(model) > 0);
}

int ls_score_find(const ls_model_config_t *model, const char *name) {
  for (int i = 0; ls_scores[i].name; i++)
    if (strcmp(ls_scores[i].name, name) == 0 && applies(&ls_scores[i], model)) return i;
  return -1;
}

int ls_score_names(const ls_model_config_t *model, const char *names[LS_SCORES_MAX + 1]) {
  int count = 0;
  for (int i = 0; ls_scores[i].name; i++)
    if (applies(&ls_scores[i], model)) names[count++] = ls_scores[i].name;
  names[count] = NULL;
  return count;
}

const char *ls_score_tensor(int metric, char text[LS_SCORE_NAME_BYTES]) {
  snprintf(text, LS_SCORE_NAME_BYTES, "sums %s", ls_scores[metric].op->name);
  return text;
}

void ls_model_add_scores(ls_graph_t *graph, const ls_model_config_t *model, const ls_tensor_id_t in[3]) {
  char name[LS_SCORE_NAME_BYTES];
  for (int i = 0; ls_scores[i].name; i++) {
    const ls_score_t *row = &ls_scores[i];
    if (!(model->scores >> i & 1) || !row->op || ls_graph_find(graph, ls_score_tensor(i, name)) >= 0)
      continue;
    ls_graph_rename(graph, ls_graph_op(graph, row->op, &row->attrs, 3, in, NULL), name);
  }
}
