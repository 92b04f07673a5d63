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

/* Dimensions in the form of the option: "[28, 28]". */
static const char *dims_text(const ls_shape_t *shape, char buf[LS_SHAPE_TEXT_BYTES]) {
  size_t used = 0;
  for (int i = 0; i < shape->rank; i++)
    used +=
        (size_t)snprintf(buf + used, LS_SHAPE_TEXT_BYTES - used, "%s%" PRId64, i ? ", " : "[", shape->dim[i]);
  snprintf(buf + used, LS_SHAPE_TEXT_BYTES - used, "]");
  return buf;
}

/* Rows of samples that are as many values as these dimensions, and pictures as far as one can tell: bytes, or square. */
static bool like_pictures(const ls_shape_t *sample, const ls_shape_t *x) {
  int64_t a[LS_DIMS_MAX], b[LS_DIMS_MAX];
  const int count = long_dims(sample, a);
  if (sample->dtype == LS_U8 && count == 1) return a[0] == ls_shape_count(x);
  return (sample->dtype == LS_U8 || x->dim[1] == x->dim[2]) && count == long_dims(x, b) &&
         !memcmp(a, b, (size_t)count * sizeof *a);
}

const char *ls_channels_first(const ls_shape_t *x, char buf[LS_CHANNELS_TEXT_BYTES]) {
  enum { MOST = 4 /* channels of pictures */ };
  if (x->rank != 3 || (x->dim[0] != 1 && x->dim[0] != 3) || x->dim[1] <= MOST || x->dim[2] <= MOST)
    return NULL;
  int used = snprintf(buf, LS_CHANNELS_TEXT_BYTES,
                      "channels come last: set model.input to [%" PRId64 ", %" PRId64, x->dim[1], x->dim[2]);
  snprintf(buf + used, (size_t)(LS_CHANNELS_TEXT_BYTES - used),
           x->dim[0] == 3 ? ", 3]" : "], or [%" PRId64 ", %" PRId64 ", 1]", x->dim[1], x->dim[2]);
  return buf;
}

ls_status_t ls_channels_check(ls_ctx_t *ctx, const char *name, const ls_shape_t *sample,
                              const ls_shape_t *x) {
  char remedy[LS_CHANNELS_TEXT_BYTES], text[LS_SHAPE_TEXT_BYTES], input[LS_SHAPE_TEXT_BYTES], other[96] = "";
  if (!ls_channels_first(x, remedy) || !like_pictures(sample, x)) return LS_OK;
  if (x->dim[0] == 1)
    snprintf(other, sizeof other, " (a sequence of %" PRId64 " places is [%" PRId64 ", 1, %" PRId64 "])",
             x->dim[1], x->dim[1], x->dim[2]);
  return ls_fail(ctx, LS_ERR_DATA,
                 "%s: samples are %s, of which model.input %s makes %" PRId64 " x %" PRId64
                 " pixels in %" PRId64 " channels; %s%s%s",
                 name, strchr(ls_shape_text(sample, text), '('), dims_text(x, input), x->dim[0], x->dim[1],
                 x->dim[2], remedy,
                 sample->rank == 3 && x->dim[0] == 3 ? ", and numpy.transpose(x, (0, 2, 3, 1))" : "", other);
}

/* The sizes that change the input of a preset. */
static const char *preset_sizes(const ls_data_want_t *want) {
  return want->x.rank == 3   ? "model.image and model.features to their height and channels"
         : want->x.rank == 2 ? "model.context and model.features to their places and values"
         : want->whole       ? "model.context to their places"
                             : "model.input and model.layers in place of the preset";
}

const char *ls_indicators_text(const ls_source_t *s, char buf[LS_INDICATORS_TEXT_BYTES]) {
  buf[0] = '\0';
  if (s->indicators.count > 0)
    snprintf(buf, LS_INDICATORS_TEXT_BYTES, " (the last %d of them indicators of gaps)", s->indicators.count);
  return buf;
}

static ls_status_t refuse_inputs(ls_ctx_t *ctx, const ls_data_want_t *want, const ls_source_t *s) {
  const ls_matrix_t *features = &s->features;
  const bool shaped = features->row.rank > 1 && !features->names;
  char gaps[LS_INDICATORS_TEXT_BYTES], dims[LS_SHAPE_TEXT_BYTES];
  ls_indicators_text(s, gaps);
  if (want->preset)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s has %" PRId64 " feature%s per sample%s, but the preset's input is %" PRId64 ": set %s",
                   s->feature_name, features->cols, LS_PLURAL(features->cols), gaps, want->inputs,
                   preset_sizes(want));
  return ls_fail(ctx, LS_ERR_DATA,
                 "%s has %" PRId64 " feature%s per sample%s, but the model's input is %" PRId64
                 ": set model.input to %s%s",
                 s->feature_name, features->cols, LS_PLURAL(features->cols), gaps, want->inputs,
                 dims_text(shaped ? &features->row : &LS_SHAPE(LS_F32, features->cols), dims),
                 features->names ? ", or choose other columns"
                 : features->bytes && shaped && want->x.rank > 1
                     ? ", or have the pictures scaled: data.resize"
                     : "");
}

ls_status_t ls_targets_check(ls_ctx_t *ctx, const ls_data_want_t *want, const ls_source_t *s) {
  const ls_matrix_t *features = &s->features, *targets = &s->targets;
  if (targets->rows != features->rows)
    return ls_fail(ctx, LS_ERR_DATA, "%s has %" PRId64 " sample%s, but %s has %" PRId64 " target%s",
                   s->feature_name, features->rows, LS_PLURAL(features->rows), s->target_name, targets->rows,
                   LS_PLURAL(targets->rows));
  if (features->cols != want->inputs) return refuse_inputs(ctx, want, s);
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
