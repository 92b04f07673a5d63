/* Shifts and scales data to mean 0 and standard deviation 1, both measured on the training part alone: what
 * is held out must not leak into training. Sums are in f64 and in two passes, so that the order of magnitude
 * of a column does not matter; a column that does not vary comes out exactly 0. */
#include "data/parts.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

/* A matrix of the dataset and where its values go. */
typedef struct {
  const char *what; /* for messages */
  float *values;    /* (rows, cols) */
  int64_t cols;
  float *mean, *scale; /* (cols) */
  bool one_unit;
} side_t;

/* Reciprocal deviation as f32; 1 where nothing varies. */
static float scale_of(double variance) {
  if (!(variance > 0.0)) return 1.0f;
  double scale = 1.0 / sqrt(variance);
  return scale < (double)FLT_MAX ? (float)scale : FLT_MAX;
}

/* sum[c] over training rows of (x - shift) and, squared, of (x - mean). A pass over all columns at a time. */
static void sum_rows(const ls_dataset_t *d, const side_t *s, const double *shift, bool square, double *sum) {
  for (int64_t c = 0; c < s->cols; c++)
    sum[c] = 0.0;
  for (int64_t i = 0; i < d->train_count; i++) {
    const float *x = s->values + ls_dataset_row(d, LS_PART_TRAIN, i) * s->cols;
    if (square)
      for (int64_t c = 0; c < s->cols; c++)
        sum[c] += ((double)x[c] - shift[c]) * ((double)x[c] - shift[c]);
    else
      for (int64_t c = 0; c < s->cols; c++)
        sum[c] += (double)x[c] - shift[c];
  }
}

/* The columns' sums become one sum, in column order, for data of one unit. */
static double total(const double *sum, int64_t count) {
  double t = 0.0;
  for (int64_t i = 0; i < count; i++)
    t += sum[i];
  return t;
}

/* shift and sum: (cols) each, scratch. Starting from a value of the column itself keeps a constant column
 * exact. */
static void measure(const ls_dataset_t *d, const side_t *s, double *shift, double *sum) {
  const float *first = s->values + ls_dataset_row(d, LS_PART_TRAIN, 0) * s->cols;
  double n = (double)d->train_count;
  for (int64_t c = 0; c < s->cols; c++)
    shift[c] = first[s->one_unit ? 0 : c];
  sum_rows(d, s, shift, false, sum);
  double mean_all = shift[0] + total(sum, s->cols) / (n * (double)s->cols);
  for (int64_t c = 0; c < s->cols; c++) {
    shift[c] = s->one_unit ? mean_all : shift[c] + sum[c] / n;
    s->mean[c] = (float)shift[c];
  }
  sum_rows(d, s, shift, true, sum);
  double variance_all = total(sum, s->cols) / (n * (double)s->cols);
  for (int64_t c = 0; c < s->cols; c++)
    s->scale[c] = scale_of(s->one_unit ? variance_all : sum[c] / n);
}

/* In f64 per value, so that the same mean and scale give the same bits and no difference overflows. */
static ls_status_t apply(ls_ctx_t *ctx, const ls_dataset_t *d, const side_t *s) {
  for (int64_t row = 0; row < d->rows; row++) {
    float *x = s->values + row * s->cols;
    int bad = 0;
    for (int64_t c = 0; c < s->cols; c++) {
      x[c] = (float)(((double)x[c] - (double)s->mean[c]) * (double)s->scale[c]);
      bad |= !(fabsf(x[c]) <= FLT_MAX);
    }
    if (bad)
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: row %" PRId64
                     " (from 0): a value lies so far from the others that its normalised %s is "
                     "not finite",
                     d->source, row, s->what);
  }
  return LS_OK;
}

static ls_status_t fill(ls_ctx_t *ctx, ls_dataset_t *d, const side_t *s, const float *mean,
                        const float *scale, bool compute) {
  for (int64_t c = 0; c < s->cols; c++) {
    s->mean[c] = mean ? mean[c] : 0.0f;
    s->scale[c] = scale ? scale[c] : 1.0f;
  }
  if (!mean && !compute) return LS_OK;
  if (!mean) {
    double *scratch = ls_alloc_array(ctx, (size_t)s->cols, 2 * sizeof *scratch);
    if (!scratch) return LS_ERR_MEMORY;
    measure(d, s, scratch, scratch + s->cols);
    ls_free(scratch);
  }
  return apply(ctx, d, s);
}

ls_status_t ls_normalize(ls_ctx_t *ctx, ls_dataset_t *d, const ls_norm_t *given, bool compute,
                         bool one_unit) {
  int64_t outputs = d->classes ? 0 : d->outputs;
  if (given && (given->inputs != d->inputs || given->outputs != outputs))
    return ls_fail(ctx, LS_ERR_MISMATCH,
                   "%s has %" PRId64 " features and %" PRId64
                   " real targets, but the checkpoint's normalisation is "
                   "for %" PRId64 " and %" PRId64,
                   d->source, d->inputs, outputs, given->inputs, given->outputs);
  ls_norm_t *n = &d->norm;
  *n = (ls_norm_t){.inputs = d->inputs, .outputs = outputs};
  n->mean = ls_arena_array(&d->arena, (size_t)(d->inputs + outputs), 2 * sizeof *n->mean);
  if (!n->mean) return LS_ERR_MEMORY;
  n->scale = n->mean + d->inputs;
  n->target_mean = n->scale + d->inputs;
  n->target_scale = n->target_mean + outputs;

  side_t features = {"feature", d->features, d->inputs, n->mean, n->scale, one_unit};
  ls_status_t status =
      fill(ctx, d, &features, given ? given->mean : NULL, given ? given->scale : NULL, compute);
  if (status != LS_OK || outputs == 0) return status;
  side_t targets = {"target", d->targets, outputs, n->target_mean, n->target_scale, false};
  return fill(ctx, d, &targets, given ? given->target_mean : NULL, given ? given->target_scale : NULL,
              compute);
}
