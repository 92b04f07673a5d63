/* Predictions of all samples of a file or stream. */
#include "infer/infer.h"

#include "train/trainer.h"

struct ls_predictions {
  ls_ctx_t *ctx;
  ls_trainer_t *model;
  ls_arena_t arena;
  ls_data_config_t data; /* the configured section, with the names that the checkpoint's data had */
  ls_data_want_t want;
  ls_stream_rows_t *in;
  ls_predictions_facts_t facts;
  float *values; /* of a batch */
  int64_t capacity, samples;
  int64_t each; /* rows for a sample */
};

/* Names of classes or values, if the configuration or the data have some. */
static ls_status_t find_names(ls_predictions_t *p) {
  const ls_dataset_t *d = p->model->dataset;
  const ls_strings_t *target = &p->model->config->data.target;
  if (d->classes)
    return d->labels.count > 0 ? ls_class_names(&p->arena, &d->labels, p->facts.width, &p->facts.names)
                               : LS_OK;
  if (target->count == p->facts.width) p->facts.names = *target;
  return LS_OK;
}

static ls_status_t open_input(ls_predictions_t *p, const char *input) {
  const ls_trainer_t *t = p->model;
  const ls_dataset_t *d = t->dataset;
  const int64_t positions = ls_model_positions(&t->config->model);
  p->want = ls_train_want(&t->config->model);
  p->data = t->config->data;
  if (d->columns) p->data.columns = (ls_strings_t){(int)d->column_count, (const char *const *)d->columns};
  p->data.columns_trained = d->columns != NULL;
  p->data.indicators = d->indicators;
  ls_status_t status = ls_stream_open(p->ctx, &p->data, input, &p->want, &p->in);
  if (status != LS_OK) return status;
  const int64_t samples = ls_stream_total(p->in);
  p->each = positions > 0 ? positions : 1;
  p->facts = (ls_predictions_facts_t){.classes = d->classes,
                                      .width = t->outputs / p->each,
                                      .rows = samples < 0 ? samples : samples * p->each,
                                      .files = samples > 0 && ls_stream_file(p->in, 0)};
  return find_names(p);
}

ls_status_t ls_predictions_open(ls_ctx_t *ctx, ls_trainer_t *model, const char *input,
                                ls_predictions_t **out) {
  ls_status_t status = ls_infer_check_norm(model);
  if (status != LS_OK) return status;
  ls_predictions_t *p = ls_alloc(ctx, sizeof *p);
  if (!p) return LS_ERR_MEMORY;
  p->ctx = ctx;
  p->model = model;
  ls_arena_init(&p->arena, ctx);
  status = open_input(p, input);
  if (status != LS_OK)
    ls_predictions_close(p);
  else
    *out = p;
  return status;
}

void ls_predictions_close(ls_predictions_t *p) {
  if (!p) return;
  ls_stream_close(p->in);
  ls_arena_release(&p->arena);
  ls_free(p->values);
  ls_free(p);
}

const ls_predictions_facts_t *ls_predictions_facts(const ls_predictions_t *p) {
  return &p->facts;
}

ls_status_t ls_predictions_next(ls_predictions_t *p, int64_t *rows, const float **values) {
  ls_matrix_t batch;
  *rows = 0;
  ls_status_t status = ls_stream_next(p->in, &batch);
  if (status != LS_OK || batch.rows == 0) return status;
  if (batch.rows > p->capacity) {
    ls_free(p->values);
    p->capacity = batch.rows;
    p->values = ls_alloc_array(p->ctx, (size_t)(batch.rows * p->model->outputs), sizeof *p->values);
    if (!p->values) return LS_ERR_MEMORY;
  }
  status = ls_infer_predict(p->model, &batch, p->values);
  p->samples += batch.rows;
  *rows = batch.rows * p->each;
  *values = p->values;
  return status;
}

int64_t ls_predictions_samples(const ls_predictions_t *p) {
  return p->samples;
}

const char *ls_predictions_file(const ls_predictions_t *p, int64_t row) {
  return ls_stream_file(p->in, row / p->each);
}
