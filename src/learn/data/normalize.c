/* Shifts and scales data to mean 0 and standard deviation 1, both measured on the training part alone,
 * because held-out data must not leak into training. Values are f64 until they are shifted, and sums are f64
 * in two passes. So neither the magnitude of a column nor its distance from 0 matters, and a constant column
 * becomes exactly 0. */
#include "data/order.h"
#include "data/picture/images.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

/* A matrix of the dataset, and the destination of its mean and scale. */
typedef struct {
  const char *what; /* for messages */
  ls_matrix_t *matrix;
  double *mean;            /* (cols) */
  float *scale;            /* (cols) */
  bool one_unit, may_stay; /* may_stay: as bytes, for the device to convert */
} side_t;

/* Scratch of measuring one side. */
typedef struct {
  const ls_dataset_t *dataset;
  const side_t *side;
  double *shift, *sum, *row, *seen; /* (cols) each; seen: number of values, which may be fewer than rows */
  bool *exact;                      /* (cols): f32 holds every value so far */
} measure_t;

/* Reciprocal deviation as f32; 1 for constant columns. */
static float scale_of(double variance) {
  if (!(variance > 0.0)) return 1.0f;
  double scale = 1.0 / sqrt(variance);
  return scale < (double)FLT_MAX ? (float)scale : FLT_MAX;
}

/* Adds one row: x - shift, or its square. */
static void add_row(const measure_t *m, int64_t row, bool square) {
  const ls_matrix_t *matrix = m->side->matrix;
  int64_t cols = matrix->cols;
  const double *x = m->row;
  ls_matrix_values(matrix, row * cols, cols, m->row);
  for (int64_t c = 0; c < cols; c++) {
    double from = isnan(x[c]) ? 0.0 : x[c] - m->shift[c];
    m->sum[c] += square ? from * from : from;
    m->seen[c] += !isnan(x[c]);
  }
  for (int64_t c = 0; c < cols && ls_matrix_is_wide(matrix); c++)
    m->exact[c] &= (double)(float)x[c] == x[c] || isnan(x[c]);
}

/* sum[c] over training rows, in the order of the split, a pass over all columns at a time. */
static void sum_rows(const measure_t *m, bool square) {
  const ls_dataset_t *d = m->dataset;
  for (int64_t c = 0; c < m->side->matrix->cols; c++)
    m->sum[c] = m->seen[c] = 0.0;
  for (int64_t i = 0; i < d->train_count; i += LS_ORDER_EACH_MAX) {
    int64_t row[LS_ORDER_EACH_MAX];
    int count = d->train_count - i < LS_ORDER_EACH_MAX ? (int)(d->train_count - i) : LS_ORDER_EACH_MAX;
    ls_dataset_rows(d, LS_PART_TRAIN, i, count, row);
    for (int k = 0; k < count; k++)
      add_row(m, row[k], square);
  }
}

/* Adds the columns' sums up in column order, for data in one unit. */
static double total(const double *sum, int64_t count) {
  double t = 0.0;
  for (int64_t i = 0; i < count; i++)
    t += sum[i];
  return t;
}

/* Starting from a value of the column itself keeps a constant column exact. */
static void measure(const measure_t *m) {
  const side_t *s = m->side;
  const ls_matrix_t *matrix = s->matrix;
  int64_t first = ls_dataset_row(m->dataset, LS_PART_TRAIN, 0) * matrix->cols, cols = matrix->cols;
  double n = (double)m->dataset->train_count, all = n * (double)cols;
  for (int64_t c = 0; c < cols; c++) {
    m->shift[c] = ls_matrix_at(matrix, first + (s->one_unit ? 0 : c));
    if (isnan(m->shift[c])) m->shift[c] = 0.0;
    m->exact[c] = true;
  }
  sum_rows(m, false);
  double mean_all = m->shift[0] + total(m->sum, cols) / all;
  bool all_exact = true;
  for (int64_t c = 0; c < cols; c++)
    all_exact &= m->exact[c];
  for (int64_t c = 0; c < cols; c++) {
    m->shift[c] = s->one_unit ? mean_all : m->shift[c] + m->sum[c] / m->seen[c];
    s->mean[c] = (s->one_unit ? all_exact : m->exact[c]) ? (double)(float)m->shift[c] : m->shift[c];
  }
  sum_rows(m, true);
  double variance_all = total(m->sum, cols) / all;
  for (int64_t c = 0; c < cols; c++)
    s->scale[c] = scale_of(s->one_unit ? variance_all : m->sum[c] / m->seen[c]);
}

static ls_status_t measure_side(ls_ctx_t *ctx, const ls_dataset_t *d, const side_t *s) {
  size_t cols = (size_t)s->matrix->cols;
  double *scratch = ls_alloc_array(ctx, cols, 4 * sizeof *scratch + sizeof(bool));
  if (!scratch) return LS_ERR_MEMORY;
  const measure_t m = {.dataset = d,
                       .side = s,
                       .shift = scratch,
                       .sum = scratch + cols,
                       .row = scratch + 2 * cols,
                       .seen = scratch + 3 * cols,
                       .exact = (bool *)(scratch + 4 * cols)};
  measure(&m);
  ls_status_t status = LS_OK;
  for (size_t c = 0; c < cols && status == LS_OK; c++)
    if (m.seen[c] == 0)
      status = ls_fail(ctx, LS_ERR_DATA,
                       "%s: column '%s' has no value in the training part: leave it out of data.columns",
                       d->source, LS_SHOWN(s->matrix->names[c]));
  ls_free(scratch);
  return status;
}

static ls_status_t check_finite(ls_ctx_t *ctx, const ls_dataset_t *d, const side_t *s) {
  for (int64_t row = 0; row < d->rows; row++) {
    const float *x = (const float *)s->matrix->values + row * s->matrix->cols;
    int bad = 0;
    for (int64_t c = 0; c < s->matrix->cols; c++)
      bad |= !(fabsf(x[c]) <= FLT_MAX);
    if (bad)
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: row %" PRId64
                     " (from 0): a value lies so far from the others that its normalised %s is "
                     "not finite",
                     d->source, row, s->what);
  }
  return LS_OK;
}

/* Whether the values stay as they were read. */
static bool stays(const side_t *s) {
  if (!s->may_stay || s->matrix->row.dtype != LS_U8) return false;
  bool same = (double)(float)s->mean[0] == s->mean[0] &&
              isfinite(ls_norm_value(UINT8_MAX, s->mean[0], s->scale[0])) &&
              isfinite(ls_norm_value(0, s->mean[0], s->scale[0]));
  for (int64_t c = 1; c < s->matrix->cols; c++)
    same &= s->mean[c] == s->mean[0] && s->scale[c] == s->scale[0];
  return same;
}

static ls_status_t fill(ls_ctx_t *ctx, ls_dataset_t *d, const side_t *s, const double *mean,
                        const float *scale, bool compute) {
  ls_status_t status = LS_OK;
  for (int64_t c = 0; c < s->matrix->cols; c++) {
    s->mean[c] = mean ? mean[c] : 0.0;
    s->scale[c] = scale ? scale[c] : 1.0f;
  }
  bool as_read = !mean && !compute;
  if (s->matrix->read_wide) d->reading_bytes += s->matrix->rows * s->matrix->cols * (int64_t)sizeof(float);
  if (as_read)
    status = ls_collapse_warn(ctx, d->source, s->what, s->matrix);
  else if (!mean)
    status = measure_side(ctx, d, s);
  if (status != LS_OK || stays(s)) return status;
  if (s->matrix->row.dtype != LS_F32 || !as_read)
    status = ls_matrix_narrow(ctx, s->mean, s->scale, s->matrix);
  return status == LS_OK && !as_read ? check_finite(ctx, d, s) : status;
}

/* For tokens: nothing is measured, and every number stays. */
static ls_status_t check_ids(ls_ctx_t *ctx, const ls_dataset_t *d, const ls_matrix_t *m, int64_t ids) {
  if (ids == 0) return LS_OK;
  ls_matrix_t own = *m, held = *m;
  if (*d->validation_source) own.rows = d->split_rows;
  held.rows -= own.rows;
  held.values = (char *)m->values + (size_t)own.rows * ls_shape_bytes(&m->row);
  ls_status_t status = ls_matrix_ids(ctx, d->source, &own, 0, ids);
  return status == LS_OK ? ls_matrix_ids(ctx, d->validation_source, &held, 0, ids) : status;
}

static ls_status_t keep_whole(ls_ctx_t *ctx, const ls_dataset_t *d, const side_t *s, int64_t ids) {
  for (int64_t c = 0; c < s->matrix->cols; c++) {
    s->mean[c] = 0.0;
    s->scale[c] = 1.0f;
  }
  ls_status_t status = ls_matrix_whole(ctx, d->source, s->matrix);
  return status == LS_OK ? check_ids(ctx, d, s->matrix, ids) : status;
}

static void *take_values(ls_matrix_t *matrix) {
  void *values = matrix->values;
  matrix->values = NULL;
  return values;
}

static ls_status_t normalize_features(ls_ctx_t *ctx, ls_dataset_t *d, ls_matrix_t *features,
                                      const ls_normalize_t *how) {
  const ls_norm_t *given = how->given, *n = &d->norm;
  const side_t x = {"feature", features, n->mean, n->scale, how->one_unit, .may_stay = true};
  ls_status_t status =
      how->whole ? keep_whole(ctx, d, &x, how->ids)
                 : fill(ctx, d, &x, given ? given->mean : NULL, given ? given->scale : NULL, how->compute);
  if (status != LS_OK) return status;
  d->sample.x = features->row;
  bool ready = features->row.dtype == LS_F32;
  ls_dataset_one_unit(d, ready ? 0.0f : (float)n->mean[0], ready ? 1.0f : n->scale[0]);
  d->features = take_values(features);
  return LS_OK;
}

ls_status_t ls_normalize(ls_ctx_t *ctx, ls_dataset_t *d, ls_matrix_t *features, ls_matrix_t *targets,
                         const ls_normalize_t *how) {
  const ls_norm_t *given = how->given;
  int64_t outputs = d->classes ? 0 : d->outputs;
  if (given && (given->inputs != d->inputs || given->outputs != outputs))
    return ls_fail(ctx, LS_ERR_MISMATCH,
                   "%s has %" PRId64 " features and %" PRId64
                   " real targets, but the checkpoint's normalisation is "
                   "for %" PRId64 " and %" PRId64,
                   d->source, d->inputs, outputs, given->inputs, given->outputs);
  ls_norm_t *n = &d->norm;
  *n = (ls_norm_t){.inputs = d->inputs, .outputs = outputs};
  n->mean = ls_arena_array(&d->arena, (size_t)(d->inputs + outputs), sizeof *n->mean);
  n->scale = ls_arena_array(&d->arena, (size_t)(d->inputs + outputs), sizeof *n->scale);
  if (!n->mean || !n->scale) return LS_ERR_MEMORY;
  n->target_mean = n->mean + d->inputs;
  n->target_scale = n->scale + d->inputs;

  ls_status_t status = how->pictures ? ls_images_normalize(ctx, how->pictures, given, d)
                                     : normalize_features(ctx, d, features, how);
  if (status != LS_OK || outputs == 0) return status;
  const side_t y = {"target", targets, n->target_mean, n->target_scale};
  status = fill(ctx, d, &y, given ? given->target_mean : NULL, given ? given->target_scale : NULL,
                how->compute && !how->labels);
  if (status == LS_OK) d->targets = take_values(targets);
  return status;
}
