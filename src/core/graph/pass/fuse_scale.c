/* Fuses the gradients of squeeze-and-excitation, if the backend has the op. The value is scaled by factors for its
 * channels, and the factors come from its mean. One op makes its gradient instead of three that write and read it. */
#include "graph/ops/ops.h"
#include "graph/pass/pass.h"

static int maker(const ls_graph_t *graph, ls_tensor_id_t id, const ls_op_t *op) {
  int node = graph->tensors[id].producer;
  return node >= 0 && graph->nodes[node].op == op ? node : -1;
}

/* Input `scaled` of the sum is the scaled gradient, the other one the mean's. */
static int fuse(ls_graph_t *graph, int add, int scaled) {
  const ls_graph_node_t sum = graph->nodes[add];
  int scale = maker(graph, sum.in[scaled], &ls_op_scale_channels);
  int view = maker(graph, sum.in[1 - scaled], &ls_op_reshape);
  int mean = maker(graph, view < 0 ? sum.in[1 - scaled] : graph->nodes[view].in[0], &ls_op_mean_positions_dx);
  if (scale < 0 || mean < 0) return 0;
  const ls_graph_node_t from = graph->nodes[scale];
  const ls_tensor_id_t m = graph->nodes[mean].in[0], in[] = {from.in[0], from.in[1], m};
  if (!ls_shape_equal(&graph->tensors[m].shape, &graph->tensors[in[1]].shape)) return 0;
  const int pair[] = {scale, add};
  if (!ls_graph_replace(graph, 2, pair, &ls_op_scale_add_mean, NULL, 3, in, sum.out)) return 0;
  if (view < 0 || ls_graph_remove(graph, view)) ls_graph_remove(graph, mean);
  return 1;
}

static int run(ls_graph_t *graph, const ls_pass_context_t *context) {
  int changes = 0;
  if (!context->fuse || !context->has(context->backend, ls_op_scale_add_mean.name, context->low)) return 0;
  for (int n = 0; n < graph->node_count; n++)
    for (int i = 0; i < 2 && graph->nodes[n].op == &ls_op_add; i++)
      changes += fuse(graph, n, i);
  return changes;
}

const ls_graph_pass_t ls_pass_fuse_scale = {
    .name = "fuse_scale",
    .help = "the two gradients of a value and of its mean in one op, where the backend has one",
    .run = run,
};
