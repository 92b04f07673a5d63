/* Fuses a linear layer and the activation of its result if the backend computes both at once: the result is
 * then written once, instead of written, read and written. The gradients still read the activation's result;
 * an activation whose gradient reads its input is left alone. */
#include "graph/ops/ops.h"
#include "graph/pass/pass.h"

static const struct { const ls_op_t *activation, *fused; } rows[] = {{&ls_op_relu, &ls_op_linear_relu}};

static const ls_op_t *fused_op(const ls_op_t *activation, const ls_pass_context_t *context) {
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (rows[i].activation == activation && context->has(context->backend, rows[i].fused->name, context->low))
      return rows[i].fused;
  return NULL;
}

static int run(ls_graph_t *graph, const ls_pass_context_t *context) {
  int changes = 0;
  for (int n = 0; context->fuse && n < graph->node_count; n++) {
    const ls_graph_node_t *node = &graph->nodes[n];
    const ls_op_t *fused = node->op ? fused_op(node->op, context) : NULL;
    int linear = fused ? graph->tensors[node->in[0]].producer : -1;
    if (linear < 0 || graph->nodes[linear].op != &ls_op_linear) continue;
    const int pair[] = {linear, n};
    ls_graph_node_t from = graph->nodes[linear], to = *node;
    changes += ls_graph_replace(graph, 2, pair, fused, &from.attrs, from.in_count, from.in, to.out);
  }
  return changes;
}

const ls_graph_pass_t ls_pass_fuse_activation = {
    .name = "fuse_activation",
    .help = "a linear layer and its activation in one op, where the backend has one",
    .run = run,
};
