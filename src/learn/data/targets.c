/* Targets in the form that the model needs: class numbers, or rows of real values. */
#include "data/parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES_MAX = 1 << 24 /* whole numbers up to here are exact as f32 */ };

const char *ls_class_remedy(double least, double greatest, int64_t classes, char buf[LS_CLASS_REMEDY_BYTES]) {
  buf[0] = '\0';
  if (least == 1 && greatest == (double)classes)
    snprintf(buf, LS_CLASS_REMEDY_BYTES, "; they are 1 to %.0f here: subtract 1", greatest);
  else if (least < 0)
    snprintf(buf, LS_CLASS_REMEDY_BYTES, "; no class is left out: remove the samples without one");
  else if (greatest >= (double)classes && greatest < (double)CLASSES_MAX)
    snprintf(buf, LS_CLASS_REMEDY_BYTES, "; the largest is %.0f: give the layer %.0f units", greatest,
             greatest + 1);
  return buf;
}

/* Names the first number that is no class, and what all of them have in common. */
static ls_status_t refuse_class(ls_ctx_t *ctx, const ls_data_want_t *want, const char *name,
                                const ls_matrix_t *targets, int64_t row, double v) {
  double least = v, greatest = v;
  char remedy[LS_CLASS_REMEDY_BYTES];
  for (int64_t i = 0; i < targets->rows * targets->cols; i++) {
    const double other = ls_matrix_at(targets, i);
    if (want->positions > 0 && other == (double)want->ignored) continue;
    if (other < least) least = other;
    if (other > greatest) greatest = other;
  }
  if (want->positions > 0 && least < 0)
    snprintf(remedy, sizeof remedy, "; if this is padding, model.ignore: %.0f leaves it out", least);
  else
    ls_class_remedy(least, greatest, want->outputs, remedy);
  return ls_fail(ctx, LS_ERR_DATA,
                 "%s: row %" PRId64 " (from 0): class %.0f, but the model's last layer has %" PRId64
                 " unit%s: classes are 0 to %" PRId64 "%s",
                 name, row, v, want->outputs, LS_PLURAL(want->outputs), want->outputs - 1, remedy);
}

static ls_status_t check_classes(ls_ctx_t *ctx, const ls_data_want_t *want, const char *name,
                                 const ls_matrix_t *targets) {
  if (want->positions > 0 && targets->cols != want->positions)
    return ls_fail(
        ctx, LS_ERR_DATA,
        "%s has %" PRId64 " class number%s per sample, but the model's output has %" PRId64 " position%s",
        name, targets->cols, LS_PLURAL(targets->cols), want->positions, LS_PLURAL(want->positions));
  if (want->positions == 0 && targets->cols != 1)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s: class numbers are one column, but there are %" PRId64
                   ": use loss: mse for real targets",
                   name, targets->cols);
  if (want->outputs > CLASSES_MAX)
    return ls_fail(ctx, LS_ERR_DATA, "%" PRId64 " classes; at most %d are supported", want->outputs,
                   CLASSES_MAX);
  for (int64_t i = 0; i < targets->rows * targets->cols; i++) {
    double v = ls_matrix_at(targets, i);
    int64_t row = i / targets->cols;
    if (v != floor(v))
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: row %" PRId64
                     " (from 0): target %g is not a class number: use loss: mse for real targets",
                     name, row, v);
    if (want->positions > 0 && v == (double)want->ignored) continue;
    if (v < 0.0 || v >= (double)want->outputs) return refuse_class(ctx, want, name, targets, row, v);
  }
  return LS_OK;
}

static ls_status_t check_labels(ls_ctx_t *ctx, const char *name, const ls_matrix_t *targets) {
  for (int64_t i = 0; i < targets->rows * targets->cols; i++) {
    double v = ls_matrix_at(targets, i);
    if (!(v >= 0 && v <= 1))
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: row %" PRId64 ", target %" PRId64
                     " (from 0): %g is not in [0, 1], where loss: binary-cross-entropy has its labels",
                     name, i / targets->cols, i % targets->cols, v);
  }
  return LS_OK;
}

/* The dimensions above 1. */
static int long_dims(const ls_shape_t *shape, int64_t dim[LS_DIMS_MAX]) {
  int count = 0;
  for (int i = 0; i < shape->rank; i++)
    if (shape->dim[i] > 1) dim[count++] = shape->dim[i];
  return count;
}

static int times(const int64_t *dim, int count, int64_t one) {
  int n = 0;
  for (int i = 0; i < count; i++)
    n += dim[i] == one;
  return n;
}

ls_status_t ls_samples_check(ls_ctx_t *ctx, const char *name, const ls_shape_t *sample,
                             const ls_shape_t *input) {
  int64_t a[LS_DIMS_MAX], b[LS_DIMS_MAX];
  int count = long_dims(sample, a);
  char text[2][LS_SHAPE_TEXT_BYTES];
  if (long_dims(input, b) != count || !memcmp(a, b, (size_t)count * sizeof *a)) return LS_OK;
  for (int i = 0; i < count; i++)
    if (times(a, count, a[i]) != times(b, count, a[i])) return LS_OK;
  return ls_fail(ctx, LS_ERR_DATA,
                 "%s: samples are %s, but the model's input is %s: bring the dimensions into this order "
                 "(numpy.transpose)",
                 name, strchr(ls_shape_text(sample, text[0]), '('),
                 strchr(ls_shape_text(input, text[1]), '('));
}

/* Those that change the input of a preset. */
static const char *preset_sizes(const ls_data_want_t *want) {
  return want->x.rank == 3   ? "model.image and model.features to their height and channels"
         : want->x.rank == 2 ? "model.context and model.features to their places and values"
         : want->whole       ? "model.context to their places"
                             : "model.input and model.layers in place of the preset";
}

ls_status_t ls_targets_check(ls_ctx_t *ctx, const ls_data_want_t *want, const ls_source_t *s) {
  const ls_matrix_t *features = &s->features, *targets = &s->targets;
  if (targets->rows != features->rows)
    return ls_fail(ctx, LS_ERR_DATA, "%s has %" PRId64 " sample%s, but %s has %" PRId64 " target%s",
                   s->feature_name, features->rows, LS_PLURAL(features->rows), s->target_name, targets->rows,
                   LS_PLURAL(targets->rows));
  if (features->cols != want->inputs && want->preset)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s has %" PRId64 " feature%s per sample, but the preset's input is %" PRId64 ": set %s",
                   s->feature_name, features->cols, LS_PLURAL(features->cols), want->inputs,
                   preset_sizes(want));
  if (features->cols != want->inputs)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s has %" PRId64 " feature%s per sample, but the model's input is %" PRId64
                   ": set model.input to [%" PRId64 "]%s",
                   s->feature_name, features->cols, LS_PLURAL(features->cols), want->inputs, features->cols,
                   features->names ? ", or choose other columns"
                   : features->bytes && features->row.rank > 1 && want->x.rank > 1
                       ? ", or have the pictures scaled: data.resize"
                       : "");
  ls_status_t status = ls_samples_check(ctx, s->feature_name, &features->row, &want->x);
  if (status != LS_OK) return status;
  if (want->classes) return check_classes(ctx, want, s->target_name, targets);
  if (targets->cols != want->outputs)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s has %" PRId64 " target%s per sample, but the model's last layer has %" PRId64
                   " unit%s: give it %" PRId64 "%s",
                   s->target_name, targets->cols, LS_PLURAL(targets->cols), want->outputs,
                   LS_PLURAL(want->outputs), targets->cols,
                   targets->cols == 1 && targets->integers ? ", or use loss: cross-entropy for class numbers"
                                                           : "");
  return want->labels ? check_labels(ctx, s->target_name, targets) : LS_OK;
}

ls_status_t ls_labels_take(ls_ctx_t *ctx, ls_matrix_t *targets, ls_dataset_t *d) {
  size_t count = (size_t)targets->rows * (size_t)targets->cols;
  int32_t *labels = ls_alloc_array(ctx, count, sizeof *labels);
  if (!labels) return LS_ERR_MEMORY;
  for (size_t i = 0; i < count; i++)
    labels[i] = (int32_t)ls_matrix_at(targets, (int64_t)i);
  d->targets = labels;
  ls_matrix_release(targets);
  return LS_OK;
}
