/* A file of 8-bit weights (infer/int8.c writes it): a trainer that only predicts takes weights and ranges from it. */
#include "graph/ops/ops.h"
#include "model/names.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

/* The tensor with this name and shape, as f32 or as bytes. */
static ls_status_t read_as(ls_ctx_t *ctx, const ls_ckpt_t *file, const char *name, const ls_shape_t *shape,
                           void *to) {
  int at = ls_ckpt_find(file, name);
  char want[LS_SHAPE_TEXT_BYTES];
  if (at < 0 || !ls_shape_equal(ls_ckpt_shape(file, at), shape))
    return ls_fail(ctx, LS_ERR_MISMATCH, "%s: of another model: it has no tensor '%s' of %s",
                   ls_ckpt_path(file), LS_SHOWN(name), ls_shape_text(shape, want));
  return ls_ckpt_read_bytes(ctx, file, at, to);
}

/* How many products of the model can be of integers. */
static ls_status_t count_products(ls_trainer_t *t, int64_t *count) {
  static const ls_int8_t measure = {0};
  ls_model_config_t model = t->config->model;
  ls_graph_t *graph;
  model.int8 = &measure;
  ls_status_t status = ls_model_build(t->ctx, &model, 1, false, &graph);
  if (status != LS_OK) return status;
  ls_tensor_id_t id = ls_graph_find(graph, LS_NAME_RANGES);
  *count = id < 0 ? 0 : ls_shape_count(&graph->tensors[id].shape) / 2;
  ls_graph_destroy(graph);
  return LS_OK;
}

ls_status_t ls_trainer_open_int8(ls_trainer_t *t, const char *path, ls_ckpt_t **file) {
  int64_t count;
  ls_status_t status = count_products(t, &count);
  if (status == LS_OK) status = ls_ckpt_open_weights(t->ctx, path, file);
  if (status != LS_OK) return status;
  if (ls_ckpt_find(*file, LS_INT8_RANGES) < 0)
    return ls_fail(t->ctx, LS_ERR_MISMATCH, "%s: no weights of 8-bit integers; lockstep quantize makes them",
                   path);
  if (!ls_ckpt_sealed(*file))
    return ls_fail(
        t->ctx, LS_ERR_MISMATCH,
        "%s: it has no hash, so nothing tells whether it was altered; an earlier version wrote it: write it "
        "again with lockstep quantize",
        path);
  const ls_shape_t shape = LS_SHAPE(LS_F32, count, 2);
  float *range = t->range = ls_alloc_array(t->ctx, 2 * (size_t)count + 1, sizeof *range);
  if (!range) return LS_ERR_MEMORY;
  status = read_as(t->ctx, *file, LS_INT8_RANGES, &shape, range);
  for (int64_t i = 0; i < count && status == LS_OK; i++)
    if (!isfinite(range[2 * i]) || !isfinite(range[2 * i + 1]) || range[2 * i] > range[2 * i + 1])
      status = ls_fail(t->ctx, LS_ERR_CORRUPT, "%s: '%s': row %lld is no range", path, LS_INT8_RANGES,
                       (long long)i);
  t->int8 = (ls_int8_t){(int)count, range};
  t->own_config.model.int8 = &t->int8;
  return status;
}

static ls_status_t take(ls_trainer_t *t, const ls_ckpt_t *file, const ls_ckpt_tensor_t *ours) {
  const int64_t outputs = ours->shape.rank ? ours->shape.dim[0] : 1, count = ls_shape_count(&ours->shape);
  const ls_shape_t vector = LS_SHAPE(LS_F32, outputs);
  ls_shape_t bytes = ours->shape;
  bytes.dtype = LS_U8;
  char q_name[LS_NAME_BYTES + 8], scale_name[LS_NAME_BYTES + 8];
  if (ls_ckpt_find(file, ours->name) >= 0) return read_as(t->ctx, file, ours->name, &ours->shape, ours->data);
  snprintf(q_name, sizeof q_name, "%s.int8", ours->name);
  snprintf(scale_name, sizeof scale_name, "%s.scale", ours->name);
  uint8_t *q = ls_alloc(t->ctx, (size_t)count + 1);
  float *scale = ls_alloc_array(t->ctx, (size_t)outputs + 1, sizeof *scale);
  ls_status_t status = q && scale ? LS_OK : LS_ERR_MEMORY;
  if (status == LS_OK) status = read_as(t->ctx, file, q_name, &bytes, q);
  if (status == LS_OK) status = read_as(t->ctx, file, scale_name, &vector, scale);
  for (int64_t i = 0; i < count && status == LS_OK; i++)
    ((float *)ours->data)[i] = (float)(q[i] - LS_INT8_OFFSET) * scale[i / (count / outputs)];
  ls_free(q);
  ls_free(scale);
  return status;
}

ls_status_t ls_trainer_take_int8(ls_trainer_t *t, const ls_ckpt_t *file) {
  ls_ckpt_rows_t rows = {0};
  ls_status_t status = ls_state_pull(t->engine.state, t->engine.stream, t->world->comm->deadline_ns);
  if (status == LS_OK) status = ls_ckpt_rows(t->ctx, t->engine.table, t->engine.state->host, &rows);
  for (int i = 0; i < rows.count[0] && status == LS_OK; i++)
    status = take(t, file, &rows.tensor[0][i]);
  if (status == LS_OK) status = ls_state_push(t->engine.state, t->engine.stream, t->world->comm->deadline_ns);
  ls_arena_release(&rows.arena);
  return status;
}
