/* Evaluation: forward passes over a part of the data in chunks of equally many rows, dealt to the ranks in
 * turn. Every rank learns every chunk's loss and adds them up in f64 in the order of the chunks, whichever
 * ranks computed them. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

enum { CHUNK_LOSS, CHUNK_CORRECT, CHUNK_VALUES };

/* This rank's chunks: (loss times samples, correct) of each into `values`. */
static ls_status_t evaluate_chunks(ls_trainer_t *t, const ls_loader_spec_t *spec, double *values) {
  const ls_comm_t *comm = t->world->comm;
  ls_run_t *run = t->engine.step[LS_STEP_EVALUATE].run;
  ls_batch_t batch = ls_engine_batch(&t->engine, LS_STEP_EVALUATE, 0);
  ls_status_t status = LS_OK;
  for (int64_t i = comm->rank; i < spec->total_steps && status == LS_OK; i += comm->size) {
    int64_t left = spec->total_samples - i * spec->rows, valid = left < spec->rows ? left : spec->rows;
    float loss = 0, correct = 0;
    ls_batch_fill(t->dataset, spec, i, &batch);
    status = ls_engine_once(&t->engine, LS_STEP_EVALUATE);
    if (status == LS_OK) status = ls_run_read(run, LS_NAME_LOSS, 0, &loss, sizeof loss);
    if (status == LS_OK) status = ls_run_read(run, LS_NAME_CORRECT, 0, &correct, sizeof correct);
    values[i * CHUNK_VALUES + CHUNK_LOSS] = (double)loss * (double)valid;
    values[i * CHUNK_VALUES + CHUNK_CORRECT] = (double)correct;
  }
  return status;
}

double ls_trainer_perplexity(const ls_trainer_t *t, double loss) {
  return ls_model_positions(&t->config->model) > 0 ? exp(loss) : NAN;
}

/* What has a class in the part: samples, or their positions that count. */
static int64_t classified(const ls_trainer_t *t, ls_part_t part, int64_t samples) {
  const ls_model_config_t *model = &t->config->model;
  int64_t positions = ls_model_positions(model), count = 0;
  if (positions == 0) return samples;
  if (!t->dataset->targets) return samples * positions; /* windows of a text: every token counts */
  for (int64_t i = 0; i < samples; i++) {
    const int32_t *target =
        (const int32_t *)t->dataset->targets + ls_dataset_row(t->dataset, part, i) * positions;
    for (int64_t k = 0; k < positions; k++)
      count += target[k] != model->ignore;
  }
  return count;
}

ls_status_t ls_trainer_evaluate_part(ls_trainer_t *t, ls_part_t part, ls_eval_report_t *report) {
  ls_comm_t *comm = t->world->comm;
  int64_t samples = part == LS_PART_TRAIN ? t->dataset->train_count : t->dataset->validation_count;
  int64_t rows = t->engine.step[LS_STEP_EVALUATE].rows, chunks = (samples + rows - 1) / rows;
  ls_loader_spec_t spec = {.part = part,
                           .seed = (uint64_t)t->config->train.seed,
                           .global_batch = rows,
                           .count = rows,
                           .rows = rows,
                           .accumulate = 1,
                           .total_samples = samples,
                           .total_steps = chunks};
  double *values = ls_alloc_array(t->ctx, (size_t)(chunks * CHUNK_VALUES), sizeof *values);
  uint64_t before = ls_watchdog_enter(t->watchdog, LS_WATCHDOG_EVALUATION, t->step);
  ls_status_t status = values ? evaluate_chunks(t, &spec, values) : LS_ERR_MEMORY;
  status = ls_comm_agree(comm, "evaluation", status);
  /* the others have zeros there, so each sum is exact */
  if (status == LS_OK) status = ls_comm_sum_f64(comm, "evaluation sums", values, chunks * CHUNK_VALUES);
  ls_watchdog_leave(t->watchdog, before);
  double loss = 0, correct = 0;
  for (int64_t i = 0; i < chunks && status == LS_OK; i++) {
    loss += values[i * CHUNK_VALUES + CHUNK_LOSS];
    correct += values[i * CHUNK_VALUES + CHUNK_CORRECT];
  }
  ls_free(values);
  if (status != LS_OK) return status;
  *report = (ls_eval_report_t){.samples = samples,
                               .correct = (int64_t)llround(correct),
                               .loss = loss / (double)samples,
                               .accuracy = t->classes ? correct / (double)classified(t, part, samples) : NAN,
                               .perplexity = ls_trainer_perplexity(t, loss / (double)samples),
                               .validation = part == LS_PART_VALIDATION,
                               .new_data = t->new_data};
  return LS_OK;
}

ls_status_t ls_trainer_evaluate(ls_trainer_t *t, ls_eval_report_t *report) {
  ls_part_t part = t->dataset->validation_count > 0 ? LS_PART_VALIDATION : LS_PART_TRAIN;
  return ls_trainer_evaluate_part(t, part, report);
}

int64_t ls_trainer_inputs(const ls_trainer_t *t) {
  return t->inputs;
}
int64_t ls_trainer_outputs(const ls_trainer_t *t) {
  return t->outputs;
}

/* The kind of step that takes f32 from the host: made when it is first needed. */
static ls_status_t find_kind(ls_engine_t *e, ls_step_kind_t *kind) {
  *kind = e->data_rows > 0 || e->config->model.dtype != LS_F32 ? LS_STEP_PREDICT : LS_STEP_EVALUATE;
  ls_status_t status = ls_engine_lower(e, *kind, e->step[LS_STEP_EVALUATE].rows);
  return status == LS_OK ? ls_engine_bind(e, false) : status;
}

ls_status_t ls_trainer_predict_matrix(ls_trainer_t *t, const ls_matrix_t *features, float *outputs) {
  const ls_norm_t *norm = &t->dataset->norm;
  ls_engine_t *e = &t->engine;
  int64_t chunk = e->step[LS_STEP_EVALUATE].rows, rows = features->rows, inputs = t->inputs,
          width = t->outputs;
  double *x = ls_alloc_array(t->ctx, (size_t)inputs, sizeof *x);
  float *y = ls_alloc_array(t->ctx, (size_t)(chunk * width), sizeof *y);
  if (!x || !y) {
    ls_free(x);
    ls_free(y);
    return LS_ERR_MEMORY;
  }
  ls_step_kind_t kind;
  ls_status_t status = find_kind(e, &kind);
  ls_batch_t batch = {0};
  const ls_shape_t target = ls_model_target(&t->config->model);
  if (status == LS_OK) batch = ls_engine_batch(e, kind, 0);
  for (int64_t begin = 0; begin < rows && status == LS_OK; begin += chunk) {
    int64_t count = rows - begin < chunk ? rows - begin : chunk;
    memset(batch.weight, 0, (size_t)chunk * sizeof(float));
    memset(batch.target, 0, (size_t)chunk * ls_shape_bytes(&target));
    for (int64_t r = 0; r < chunk; r++) { /* rows beyond the end repeat the last one */
      if (r < count) ls_matrix_values(features, (begin + r) * inputs, inputs, x);
      for (int64_t i = 0; i < inputs; i++)
        ((float *)batch.x)[r * inputs + i] = ls_norm_value(x[i], norm->mean[i], norm->scale[i]);
    }
    status = ls_engine_once(e, kind);
    if (status == LS_OK)
      status = ls_run_read(e->step[kind].run, LS_NAME_OUTPUT, 0, y, (size_t)(chunk * width) * sizeof(float));
    for (int64_t r = 0; r < count && status == LS_OK; r++)
      for (int64_t o = 0; o < width; o++) {
        float value = y[r * width + o];
        outputs[(begin + r) * width + o] =
            t->classes ? value
                       : (float)((double)value / (double)norm->target_scale[o] + norm->target_mean[o]);
      }
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
  return ls_trainer_predict_matrix(t, &matrix, outputs);
}
