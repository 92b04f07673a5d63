/* Predictions of given samples, in batches of the evaluation's rows or fewer. */
#include "infer/infer.h"

#include "train/trainer.h"

#include <math.h>
#include <string.h>

static int64_t computed(int64_t rows, int64_t chunk) {
  return (rows + chunk - 1) / chunk * chunk;
}

/* The kind of step that takes f32 from the host, made when it is first needed; a few large samples get one of their number,
 * because every step computes all of its rows. */
static ls_status_t find_kind(ls_trainer_t *t, int64_t rows, ls_step_kind_t *kind) {
  ls_engine_t *e = &t->engine;
  int64_t all = e->step[LS_STEP_EVALUATE].rows, few = e->step[LS_STEP_PREDICT].rows;
  bool own = e->data_rows > 0 || t->config->model.dtype != LS_F32;
  if (few == 0) few = own || rows > all ? all : rows;
  *kind = own || 2 * computed(rows, few) <= computed(rows, all) ? LS_STEP_PREDICT : LS_STEP_EVALUATE;
  ls_status_t status = ls_engine_lower(e, *kind, few);
  return status == LS_OK ? ls_engine_bind(e, LS_TIMED_NOTHING) : status;
}

ls_status_t ls_infer_check_norm(const ls_trainer_t *t) {
  if (!t->unmeasured) return LS_OK;
  return ls_fail(
      t->ctx, LS_ERR_ARGUMENT,
      "data.normalize: true: mean and deviation of the training part are in a checkpoint, and weights alone "
      "do not have them: name the run with --checkpoint, or %s%s",
      ls_data_pictures(&t->config->data) ? "set data.mean and data.std, and data.normalize to false"
                                         : "give samples that are normalised, and --set data.normalize=false",
      t->classes ? "" : ": predictions are then normalised, too");
}

/* Rows [begin, begin + count) as the samples of a batch. Rows of the batch beyond those repeat the last one. `x`: one
 * row of f64. */
static void fill(const ls_trainer_t *t, const ls_matrix_t *features, int64_t begin, int64_t count,
                 int64_t chunk, double *x, ls_batch_t *batch) {
  const ls_norm_t *norm = &t->dataset->norm;
  const bool gaps = t->config->data.missing != LS_MISSING_ERROR; /* the column's mean stands for NaN */
  const ls_shape_t target = ls_model_target(&t->config->model);
  memset(batch->weight, 0, (size_t)chunk * sizeof(float));
  memset(batch->target, 0, (size_t)chunk * ls_shape_bytes(&target));
  for (int64_t r = 0; r < chunk; r++) {
    float *to = (float *)batch->x + r * t->inputs;
    if (r < count) ls_matrix_values(features, (begin + r) * t->inputs, t->inputs, x);
    for (int64_t i = 0; i < t->inputs; i++)
      to[i] = gaps && isnan(x[i]) ? 0.0f : ls_norm_value(x[i], norm->mean[i], norm->scale[i]);
  }
}

/* Outputs in the units of the data. */
static void take(const ls_trainer_t *t, int64_t count, const float *y, float *outputs) {
  const ls_norm_t *norm = &t->dataset->norm;
  for (int64_t i = 0; i < count * t->outputs; i++) {
    const int64_t o = i % t->outputs;
    outputs[i] =
        t->classes ? y[i] : (float)((double)y[i] / (double)norm->target_scale[o] + norm->target_mean[o]);
  }
}

ls_status_t ls_infer_predict(ls_trainer_t *t, const ls_matrix_t *features, float *outputs) {
  ls_engine_t *e = &t->engine;
  const int64_t rows = features->rows, width = t->outputs;
  ls_step_kind_t kind;
  if (rows == 0) return LS_OK;
  ls_status_t status = ls_infer_check_norm(t);
  if (status == LS_OK) status = find_kind(t, rows, &kind);
  if (status != LS_OK) return status;
  const int64_t chunk = e->step[kind].rows;
  double *x = ls_alloc_array(t->ctx, (size_t)t->inputs, sizeof *x);
  float *y = ls_alloc_array(t->ctx, (size_t)(chunk * width), sizeof *y);
  if (!x || !y) status = LS_ERR_MEMORY;
  ls_batch_t batch = ls_feed_batch(e, kind, 0);
  for (int64_t begin = 0; begin < rows && status == LS_OK; begin += chunk) {
    const int64_t count = rows - begin < chunk ? rows - begin : chunk;
    fill(t, features, begin, count, chunk, x, &batch);
    status = ls_engine_once(e, kind);
    if (status == LS_OK)
      status = ls_run_read(e->step[kind].run, LS_NAME_OUTPUT, 0, y, (size_t)(chunk * width) * sizeof(float));
    if (status == LS_OK) take(t, count, y, outputs + begin * width);
  }
  ls_free(x);
  ls_free(y);
  return status;
}

ls_status_t ls_trainer_predict(ls_trainer_t *t, int64_t rows, const float *features, float *outputs) {
  const ls_matrix_t matrix = {.rows = rows,
                              .cols = t->inputs,
                              .row = LS_SHAPE(LS_F32, t->inputs),
                              .values = (void *)(uintptr_t)features};
  const ls_data_want_t want = ls_train_want(&t->config->model);
  if (want.whole && want.ids > 0) {
    ls_status_t status = ls_matrix_ids(t->ctx, "the given features", &matrix, 0, want.ids);
    if (status != LS_OK) return status;
  }
  return ls_infer_predict(t, &matrix, outputs);
}
