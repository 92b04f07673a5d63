/* The rows of the state that a step needs, declared from graph, placement and options before anything is lowered.
 * Lowering finds them by name. */
#include "graph/ops/ops.h"
#include "strategy/lowering.h"

static bool power_of_two(int n) {
  return n > 0 && n <= LS_TREE_PARTS_MAX && !(n & (n - 1));
}

/* Refuses a graph whose states the ranks would change differently, as states are replicated. Values that a
 * rank computes from its own samples differ until they have been summed over the ranks. */
static ls_status_t check_states(ls_ctx_t *ctx, const ls_lower_t *in) {
  const ls_graph_t *graph = in->graph;
  const char *name = NULL;
  bool *own = ls_alloc_array(ctx, (size_t)graph->tensor_count + 1, sizeof *own);
  if (!own) return LS_ERR_MEMORY;
  for (int id = 0; id < graph->tensor_count; id++)
    own[id] = graph->tensors[id].role == LS_ROLE_INPUT;
  for (int n = 0; n < graph->node_count; n++) {
    const ls_graph_node_t *node = &graph->nodes[n];
    bool any = false;
    for (int i = 0; i < node->in_count; i++)
      any |= own[node->in[i]];
    for (int i = 0; i < node->out_count; i++) {
      int of = graph->tensors[node->out[i]].alias_of;
      own[node->out[i]] = any && node->op != &ls_op_sum_ranks;
      if (own[node->out[i]] && of >= 0 && graph->tensors[of].role == LS_ROLE_STATE)
        name = graph->tensors[of].name;
    }
  }
  ls_free(own);
  if (!name) return LS_OK;
  return ls_fail(
      ctx, LS_ERR_UNSUPPORTED,
      "lower: each of %d ranks would change the state '%s' from its own samples alone; use one rank",
      in->world_size, name);
}

static bool sums_ranks(const ls_graph_t *graph) {
  for (int n = 0; n < graph->node_count; n++)
    if (graph->nodes[n].op == &ls_op_sum_ranks) return true;
  return false;
}

static const ls_graph_tensor_t *find_input(const ls_graph_t *graph, const char *name) {
  const ls_tensor_id_t id = ls_graph_find(graph, name);
  const ls_graph_tensor_t *t = id < 0 ? NULL : &graph->tensors[id];
  return t && t->role == LS_ROLE_INPUT && t->shape.rank > 0 ? t : NULL;
}

static ls_status_t check_tables(ls_ctx_t *ctx, const ls_lower_t *in) {
  const ls_graph_tensor_t *x = find_input(in->graph, LS_NAME_X), *y = find_input(in->graph, LS_NAME_TARGET);
  if (x && y && x->shape.dim[0] == y->shape.dim[0] && in->data_rows <= INT32_MAX) return LS_OK;
  return ls_fail(
      ctx, LS_ERR_ARGUMENT,
      "lower: a graph without inputs '%s' and '%s' of as many rows, or a table of %lld rows, cannot "
      "have its data on the device",
      LS_NAME_X, LS_NAME_TARGET, (long long)in->data_rows);
}

/* The shape of all samples of an input. */
static ls_shape_t table(const ls_lower_t *in, const char *name) {
  const ls_graph_tensor_t *t = find_input(in->graph, name);
  ls_shape_t shape = t ? t->shape : (ls_shape_t){0};
  shape.dim[0] = in->data_rows;
  return shape;
}

/* The dtype of the graph's casts of parameters; LS_F32: it has none. */
static ls_dtype_t cast_to(const ls_graph_t *graph) {
  for (int n = 0; n < graph->node_count; n++)
    if (ls_lowering_casts(graph, &graph->nodes[n])) return graph->tensors[graph->nodes[n].out[0]].shape.dtype;
  return LS_F32;
}

static ls_status_t check(ls_ctx_t *ctx, const ls_lower_t *in) {
  if (in->graph->status) return in->graph->status;
  if (in->micro_batches < 1 || in->options.bucket_bytes < 1)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lower: %d micro-batches, buckets of %lld bytes", in->micro_batches,
                   (long long)in->options.bucket_bytes);
  if (!in->optim && in->micro_batches > 1)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lower: an evaluation is one micro-batch, not %d",
                   in->micro_batches);
  if (in->optim && in->options.reproducible &&
      (!power_of_two(in->micro_batches) || !power_of_two(in->world_size)))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lower: %d shards on each of %d ranks are no tree",
                   in->micro_batches, in->world_size);
  if (in->optim && !in->state->layout->trained_count)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lower: there is nothing to train");
  if (in->optim && in->options.reproducible && sums_ranks(in->graph))
    return ls_fail(
        ctx, LS_ERR_UNSUPPORTED,
        "lower: statistics over all ranks (batch_norm) are of other samples at another number of ranks; a "
        "reproducible step cannot have them. Use layer_norm, or parallel.reproducible: false");
  ls_status_t status = in->data_rows > 0 ? check_tables(ctx, in) : LS_OK;
  return !status && in->optim && in->world_size > 1 ? check_states(ctx, in) : status;
}

/* The ranges that this rank updates, after the head; none: it updates all. */
static ls_status_t own_ranges(ls_arena_t *work, const ls_lower_t *in, const ls_placement_t *placement,
                              ls_range_t **ranges, int *count) {
  ls_bucket_t *bucket;
  if (!placement || !placement->shards) return LS_OK;
  ls_status_t status = ls_buckets_make(work, in, placement, &bucket, count);
  if (status) return status;
  ls_range_t *range = *ranges = ls_arena_array(work, (size_t)*count + 1, sizeof *range);
  if (!range) return LS_ERR_MEMORY;
  range[0] = (ls_range_t){0, LS_LAYOUT_HEAD};
  for (int b = 0; b < *count; b++)
    range[1 + b] = bucket[b].own;
  return LS_OK;
}

static ls_status_t declare(const ls_lower_t *in, const ls_placement_t *placement, const ls_range_t *range,
                           int count) {
  const bool scatters = placement && placement->scatters;
  const int64_t levels = ls_lowering_levels(in), trained = in->state->layout->trained;
  const ls_dtype_t low = cast_to(in->graph);
  const struct {
    bool needed;
    ls_state_row_t row;
  } rows[] = {
      {in->optim,
       {.name = LS_ROW_GRADIENTS,
        .part = "gradients",
        .of_layout = true,
        .trained = true,
        .shape = {.dtype = LS_F32},
        .owner = scatters ? LS_STATE_SHARDED : LS_STATE_REPLICATED,
        .range = scatters ? range : NULL,
        .range_count = scatters ? 1 + count : 0}},
      {levels > 0,
       {.name = LS_ROW_SHARDS,
        .part = "gradients",
        .shape = LS_SHAPE(LS_F32, levels, trained),
        .owner = LS_STATE_LOCAL}},
      {placement && placement->gathers,
       {.name = LS_ROW_GATHERED,
        .part = "gradients",
        .shape = LS_SHAPE(LS_F32, in->world_size, trained),
        .owner = LS_STATE_LOCAL}},
      {low != LS_F32, {.name = LS_ROW_LOW, .part = "parameters", .of_layout = true, .shape = {.dtype = low}}},
      {in->data_rows > 0,
       {.name = LS_NAME_FEATURES, .part = "data", .shape = table(in, LS_NAME_X), .life = LS_STATE_CONSTANT}},
      {in->data_rows > 0,
       {.name = LS_NAME_TARGETS,
        .part = "data",
        .shape = table(in, LS_NAME_TARGET),
        .life = LS_STATE_CONSTANT}},
  };
  ls_status_t status = LS_OK;
  for (int i = 0; i < LS_COUNT(rows) && !status; i++)
    if (rows[i].needed) status = ls_state_declare(in->state, &rows[i].row, NULL);
  if (!status && placement && placement->declare) status = placement->declare(in);
  return !status && in->optim ? ls_optim_declare(in->optim, in->state, count ? range + 1 : NULL, count)
                              : status;
}

ls_status_t ls_lower_declare(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t *placement) {
  ls_range_t *range = NULL;
  int count = 0;
  ls_arena_t work;
  ls_arena_init(&work, ctx);
  ls_status_t status = check(ctx, in);
  if (!status) status = own_ranges(&work, in, placement, &range, &count);
  if (!status) status = declare(in, placement, range, count);
  ls_arena_release(&work);
  return status;
}
