/* Quantisation after training: ranges of the inputs of products are measured on samples, weights are written as 8-bit
 * integers, and a trainer that only predicts takes both from that file. */
#include "device/int8.h"
#include "graph/ops/ops.h"
#include "model/names.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define RANGES_NAME "int8.ranges"
enum { OFFSET = 128 }; /* of a weight in the file, which has no signed bytes here */

/* ---- ranges ---- */

ls_status_t ls_trainer_ranges(ls_trainer_t *t, int64_t samples, ls_arena_t *arena, ls_int8_t *out) {
  const ls_step_t *step = &t->engine.step[LS_STEP_EVALUATE];
  ls_tensor_id_t id = ls_graph_find(step->graph, LS_NAME_RANGES);
  if (id < 0)
    return ls_fail(t->ctx, LS_ERR_UNSUPPORTED, "the model has no products that could be of 8-bit integers");
  const int count = (int)(ls_shape_count(&step->graph->tensors[id].shape) / 2);
  const size_t size = 2 * (size_t)count * sizeof(float);
  float *range = ls_arena_array(arena, 2 * (size_t)count, sizeof *range), *one = ls_alloc(t->ctx, size);
  ls_status_t status = range && one ? LS_OK : LS_ERR_MEMORY;
  if (samples > t->dataset->train_count) samples = t->dataset->train_count;
  const int64_t rows = step->rows, chunks = samples > rows ? samples / rows : 1;
  const ls_loader_spec_t spec = {.part = LS_PART_TRAIN,
                                 .seed = (uint64_t)t->config->train.seed,
                                 .global_batch = rows,
                                 .rows = rows,
                                 .accumulate = 1,
                                 .total_samples = samples,
                                 .total_steps = chunks};
  ls_batch_t batch = ls_feed_batch(&t->engine, LS_STEP_EVALUATE, 0);
  for (int64_t i = 0; i < chunks && status == LS_OK; i++) {
    status = ls_batch_fill(t->dataset, &spec, i, &batch);
    if (status == LS_OK) status = ls_engine_once(&t->engine, LS_STEP_EVALUATE);
    if (status == LS_OK) status = ls_run_read(step->run, LS_NAME_RANGES, 0, one, size);
    for (int k = 0; k < 2 * count && status == LS_OK; k++)
      if (i == 0 || (k % 2 ? one[k] > range[k] : one[k] < range[k])) range[k] = one[k];
  }
  ls_free(one);
  if (status == LS_OK) *out = (ls_int8_t){count, range};
  return status;
}

/* ---- writing ---- */

static bool is_product(const ls_graph_node_t *n) {
  return n->op == &ls_op_linear_int8 || n->op == &ls_op_conv2d_int8 || n->op == &ls_op_conv2d_int8_norm;
}

/* Whether nothing but products of integers reads this parameter, as their weights. */
static bool is_weight(const ls_graph_t *g, const char *name) {
  ls_tensor_id_t id = ls_graph_find(g, name);
  bool all = id >= 0 && g->tensors[id].use_count > 0;
  for (int i = 0; all && i < g->tensors[id].use_count; i++) {
    const ls_graph_node_t *n = &g->nodes[g->tensors[id].uses[i]];
    all = is_product(n) && n->in[1] == id;
  }
  return all;
}

/* Two tensors stand for one of ours. */
static ls_status_t round_weight(ls_arena_t *arena, const ls_ckpt_tensor_t *ours, ls_ckpt_tensor_t to[2]) {
  const int64_t outputs = ours->shape.dim[0], depth = ls_shape_inner(&ours->shape, 1);
  uint8_t *q = ls_arena_array(arena, (size_t)(outputs * depth), 1);
  float *scale = ls_arena_array(arena, (size_t)outputs, sizeof *scale);
  char *names[] = {ls_arena_printf(arena, "%s.int8", ours->name),
                   ls_arena_printf(arena, "%s.scale", ours->name)};
  if (!q || !scale || !names[0] || !names[1]) return LS_ERR_MEMORY;
  for (int64_t o = 0; o < outputs; o++) {
    int32_t sum;
    scale[o] = ls_int8_row((const float *)ours->data + o * depth, depth, (int8_t *)q + o * depth, &sum);
  }
  for (int64_t i = 0; i < outputs * depth; i++)
    q[i] = (uint8_t)((int8_t)q[i] + OFFSET);
  to[0] = (ls_ckpt_tensor_t){.name = names[0], .shape = ours->shape, .data = q};
  to[0].shape.dtype = LS_U8;
  to[1] = (ls_ckpt_tensor_t){.name = names[1], .shape = LS_SHAPE(LS_F32, outputs), .data = scale};
  return LS_OK;
}

ls_status_t ls_trainer_write_int8(ls_trainer_t *t, const ls_int8_t *int8, const char *path) {
  ls_model_config_t model = t->config->model;
  ls_graph_t *graph;
  ls_ckpt_rows_t rows = {0};
  ls_arena_t arena;
  model.int8 = int8;
  ls_status_t status = ls_model_build(t->ctx, &model, 1, false, &graph);
  if (status != LS_OK) return status;
  ls_arena_init(&arena, t->ctx);
  status = ls_state_pull(t->engine.state, t->engine.stream, t->world->comm->deadline_ns);
  if (status == LS_OK) status = ls_ckpt_rows(t->ctx, t->engine.table, t->engine.state->host, &rows);
  ls_ckpt_tensor_t *to = ls_arena_array(&arena, 2 * (size_t)rows.count[0] + 1, sizeof *to);
  if (status == LS_OK && !to) status = LS_ERR_MEMORY;
  int count = 0;
  for (int i = 0; i < rows.count[0] && status == LS_OK; i++) {
    const ls_ckpt_tensor_t *ours = &rows.tensor[0][i];
    bool rounds = is_weight(graph, ours->name);
    if (rounds)
      status = round_weight(&arena, ours, &to[count]);
    else
      to[count] = *ours;
    count += rounds ? 2 : 1;
  }
  if (status == LS_OK) {
    to[count++] = (ls_ckpt_tensor_t){.name = RANGES_NAME,
                                     .shape = LS_SHAPE(LS_F32, int8->count, 2),
                                     .data = (void *)(uintptr_t)int8->range};
    status = ls_ckpt_write_file(t->ctx, path, to, count);
  }
  ls_arena_release(&rows.arena);
  ls_arena_release(&arena);
  ls_graph_destroy(graph);
  return status;
}

/* ---- reading ---- */

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
  if (ls_ckpt_find(*file, RANGES_NAME) < 0)
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
  status = read_as(t->ctx, *file, RANGES_NAME, &shape, range);
  for (int64_t i = 0; i < count && status == LS_OK; i++)
    if (!isfinite(range[2 * i]) || !isfinite(range[2 * i + 1]) || range[2 * i] > range[2 * i + 1])
      status =
          ls_fail(t->ctx, LS_ERR_CORRUPT, "%s: '%s': row %lld is no range", path, RANGES_NAME, (long long)i);
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
    ((float *)ours->data)[i] = (float)(q[i] - OFFSET) * scale[i / (count / outputs)];
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
