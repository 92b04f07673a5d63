/* Fuses the ops around a residual connection, if the backend computes them at once. Forward: dropout, add and layer
 * norm. Backward: the gradients of a layer norm, the sum with the gradient that bypasses it, and the dropout of the
 * branch's gradient. The graph still keeps the sum and the norm's mean and rstd. */
#include "graph/ops/ops.h"
#include "graph/pass/pass.h"

static bool made_by(const ls_graph_t *graph, ls_tensor_id_t id, const ls_op_t *op, int *node) {
  *node = graph->tensors[id].producer;
  return *node >= 0 && graph->nodes[*node].op == op;
}

/* layer_norm(n) of a sum: with the dropout of one summand, or without. */
static bool fuse_norm(ls_graph_t *graph, int n) {
  const ls_graph_node_t norm = graph->nodes[n];
  ls_tensor_id_t step = ls_graph_find(graph, "step");
  int add, drop;
  if (step < 0 || !made_by(graph, norm.in[0], &ls_op_add, &add)) return false;
  const ls_graph_node_t sum = graph->nodes[add];
  const ls_tensor_id_t out[] = {sum.out[0], norm.out[0], norm.out[1], norm.out[2]};
  for (int i = 0; i < 2; i++) {
    if (!made_by(graph, sum.in[i], &ls_op_dropout, &drop)) continue;
    const ls_graph_node_t dropout = graph->nodes[drop];
    const ls_attrs_t attrs = {.i = {dropout.attrs.i[0]}, .f = {norm.attrs.f[0], dropout.attrs.f[0]}};
    const ls_tensor_id_t in[] = {dropout.in[0], sum.in[!i], norm.in[1], norm.in[2], dropout.in[1]};
    if (ls_graph_replace(graph, 3, (int[]){drop, add, n}, &ls_op_residual_norm, &attrs, 5, in, out))
      return true;
  }
  const ls_attrs_t attrs = {.f = {norm.attrs.f[0]}};
  const ls_tensor_id_t in[] = {sum.in[0], sum.in[1], norm.in[1], norm.in[2], step};
  return ls_graph_replace(graph, 2, (int[]){add, n}, &ls_op_residual_norm, &attrs, 5, in, out);
}

/* add(n) of a layer norm's gradient. */
static bool fuse_gradient(ls_graph_t *graph, int n) {
  const ls_graph_node_t sum = graph->nodes[n];
  int dx;
  for (int i = 0; i < 2; i++) {
    if (!made_by(graph, sum.in[i], &ls_op_layer_norm_dx, &dx)) continue;
    const ls_graph_node_t norm = graph->nodes[dx];
    const ls_tensor_id_t in[] = {norm.in[0], norm.in[1], norm.in[2], norm.in[3], norm.in[4], sum.in[!i]};
    if (ls_graph_replace(graph, 2, (int[]){dx, n}, &ls_op_layer_norm_dx_add, &norm.attrs, 6, in, sum.out))
      return true;
  }
  return false;
}

/* add(n) of the gradient that comes through a linear layer. */
static bool fuse_product(ls_graph_t *graph, int n) {
  const ls_graph_node_t sum = graph->nodes[n];
  int dx;
  for (int i = 0; i < 2; i++) {
    if (!made_by(graph, sum.in[i], &ls_op_linear_dx, &dx)) continue;
    const ls_graph_node_t product = graph->nodes[dx];
    const ls_tensor_id_t in[] = {product.in[0], product.in[1], sum.in[!i]};
    if (ls_graph_replace(graph, 2, (int[]){dx, n}, &ls_op_linear_dx_add, &product.attrs, 3, in, sum.out))
      return true;
  }
  return false;
}

/* The node of this op that reads dy and x first; -1: there is none. */
static int reader(const ls_graph_t *graph, const ls_op_t *op, ls_tensor_id_t dy, ls_tensor_id_t x) {
  const ls_graph_tensor_t *t = &graph->tensors[dy];
  for (int i = 0; i < t->use_count; i++) {
    const ls_graph_node_t *node = &graph->nodes[t->uses[i]];
    if (node->op == op && node->in[0] == dy && (x < 0 || node->in[1] == x)) return t->uses[i];
  }
  return -1;
}

/* Fuses layer_norm_dgb(n) with dx of the same norm, the sum with the other gradient, and the dropout if there is
 * one. */
static bool fuse_whole(ls_graph_t *graph, int n) {
  const ls_graph_node_t sums = graph->nodes[n];
  ls_tensor_id_t step = ls_graph_find(graph, "step");
  int dx = reader(graph, &ls_op_layer_norm_dx_add, sums.in[0], sums.in[1]);
  bool adds = dx >= 0;
  if (!adds) dx = reader(graph, &ls_op_layer_norm_dx, sums.in[0], sums.in[1]);
  if (dx < n || step < 0) return false;
  const ls_graph_node_t norm = graph->nodes[dx];
  const ls_tensor_id_t in[] = {
      norm.in[0], norm.in[1], norm.in[2], norm.in[3], norm.in[4], norm.in[adds ? 5 : 0], step};
  ls_attrs_t attrs = {.i = {0, adds}, .f = {norm.attrs.f[0]}};
  int drop = reader(graph, &ls_op_dropout, norm.out[0], -1);
  if (drop > dx) {
    const ls_graph_node_t dropout = graph->nodes[drop];
    attrs.i[0] = dropout.attrs.i[0];
    attrs.f[1] = dropout.attrs.f[0];
    const ls_tensor_id_t out[] = {norm.out[0], dropout.out[0], sums.out[0], sums.out[1]};
    if (ls_graph_replace(graph, 3, (int[]){n, dx, drop}, &ls_op_layer_norm_back_drop, &attrs, 7, in, out))
      return true;
    attrs.i[0] = 0;
    attrs.f[1] = 0;
  }
  const ls_tensor_id_t out[] = {norm.out[0], sums.out[0], sums.out[1]};
  return ls_graph_replace(graph, 2, (int[]){n, dx}, &ls_op_layer_norm_back, &attrs, 7, in, out);
}

static const struct {
  const ls_op_t *sought, *fused; /* the op that begins a pattern; the op that replaces it */
  bool (*fuse)(ls_graph_t *graph, int n);
} rows[] = {{&ls_op_layer_norm, &ls_op_residual_norm, fuse_norm},
            {&ls_op_add, &ls_op_layer_norm_dx_add, fuse_gradient},
            {&ls_op_add, &ls_op_linear_dx_add, fuse_product},
            {&ls_op_layer_norm_dgb, &ls_op_layer_norm_back_drop, fuse_whole}};

static int run(ls_graph_t *graph, const ls_pass_context_t *context) {
  int changes = 0;
  for (int i = 0; context->fuse && i < LS_COUNT(rows); i++)
    for (int n = 0; n < graph->node_count; n++)
      if (graph->nodes[n].op == rows[i].sought &&
          context->has(context->backend, rows[i].fused->name, context->low))
        changes += rows[i].fuse(graph, n);
  return changes;
}

const ls_graph_pass_t ls_pass_fuse_residual = {
    .name = "fuse_residual",
    .help = "a residual sum with its dropout and layer norm in one op, and its gradient, where the backend "
            "has them",
    .run = run,
};
