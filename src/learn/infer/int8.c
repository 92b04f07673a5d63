/* Quantisation after training: measures the ranges of the inputs of products on samples, and writes weights as 8-bit
 * integers. train/int8.c reads the file. */
#include "device/int8.h"
#include "graph/ops/ops.h"
#include "infer/infer.h"
#include "train/trainer.h"

ls_status_t ls_infer_ranges(ls_trainer_t *t, int64_t samples, ls_arena_t *arena, ls_int8_t *out) {
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
                                 .micro_batches = 1,
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

/* Makes two tensors of one of ours: bytes and scales. */
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
    q[i] = (uint8_t)((int8_t)q[i] + LS_INT8_OFFSET);
  to[0] = (ls_ckpt_tensor_t){.name = names[0], .shape = ours->shape, .data = q};
  to[0].shape.dtype = LS_U8;
  to[1] = (ls_ckpt_tensor_t){.name = names[1], .shape = LS_SHAPE(LS_F32, outputs), .data = scale};
  return LS_OK;
}

ls_status_t ls_infer_write_int8(ls_trainer_t *t, const ls_int8_t *int8, const char *path) {
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
    to[count++] = (ls_ckpt_tensor_t){.name = LS_INT8_RANGES,
                                     .shape = LS_SHAPE(LS_F32, int8->count, 2),
                                     .data = (void *)(uintptr_t)int8->range};
    status = ls_ckpt_write_file(t->ctx, path, to, count);
  }
  ls_arena_release(&rows.arena);
  ls_arena_release(&arena);
  ls_graph_destroy(graph);
  return status;
}
