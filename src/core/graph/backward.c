/* Reverse-mode differentiation: walks the nodes from the loss back and lets each op append the nodes of its own
 * gradient. A tensor that is used more than once gets the sum. Unused gradients are not built. */
#include "graph/inside.h"
#include "graph/ops/ops.h"

typedef struct {
  ls_graph_t *graph;
  bool *needs;          /* per tensor: a wanted tensor depends on it */
  ls_tensor_id_t *grad; /* per tensor: sum of the contributions so far, -1 = none yet */
} walk_t;

static ls_status_t check_scalar(const ls_graph_t *graph, const char *what, ls_tensor_id_t id) {
  const ls_shape_t scalar = LS_SHAPE(LS_F32, 1);
  if (id < 0 || id >= graph->tensor_count)
    return ls_fail(graph->ctx, LS_ERR_ARGUMENT, "backward: the %s is no tensor of this graph", what);
  if (ls_shape_equal(&graph->tensors[id].shape, &scalar)) return LS_OK;
  char text[LS_SHAPE_TEXT_BYTES];
  return ls_fail(graph->ctx, LS_ERR_SHAPE, "backward: the %s %s is %s, must be f32 (1)", what,
                 graph->tensors[id].name, ls_shape_text(&graph->tensors[id].shape, text));
}

static ls_status_t check_wanted(const ls_graph_t *graph, ls_tensor_id_t loss, ls_tensor_id_t seed, int count,
                                const ls_tensor_id_t *wrt) {
  ls_status_t status = check_scalar(graph, "loss", loss);
  if (!status && seed != -1) status = check_scalar(graph, "seed", seed);
  if (status) return status;
  for (int i = 0; i < count; i++)
    if (wrt[i] < 0 || wrt[i] >= graph->tensor_count || graph->tensors[wrt[i]].shape.dtype != LS_F32)
      return ls_fail(graph->ctx, LS_ERR_ARGUMENT, "backward: wanted tensor %d is no f32 tensor of this graph",
                     i);
  return LS_OK;
}

static ls_status_t walk_begin(walk_t *walk, ls_graph_t *graph, int count, const ls_tensor_id_t *wrt) {
  *walk = (walk_t){.graph = graph};
  walk->needs = ls_arena_array(&graph->arena, (size_t)graph->tensor_count, sizeof *walk->needs);
  walk->grad = ls_arena_array(&graph->arena, (size_t)graph->tensor_count, sizeof *walk->grad);
  if (!walk->needs || !walk->grad) return LS_ERR_MEMORY;
  for (int id = 0; id < graph->tensor_count; id++)
    walk->grad[id] = -1;
  for (int i = 0; i < count; i++)
    walk->needs[wrt[i]] = true;
  for (int n = 0; n < graph->node_count; n++) {
    const ls_graph_node_t *node = &graph->nodes[n];
    bool needed = false;
    for (int i = 0; i < node->in_count; i++)
      needed |= walk->needs[node->in[i]];
    for (int i = 0; needed && i < node->out_count; i++)
      walk->needs[node->out[i]] = true;
  }
  return LS_OK;
}

/* Adds as soon as a second contribution arrives, so that a gradient is complete as early as possible. */
static void contribute(walk_t *walk, ls_tensor_id_t id, ls_tensor_id_t grad) {
  ls_tensor_id_t *sum = &walk->grad[id];
  if (*sum < 0)
    *sum = grad;
  else
    *sum = ls_graph_op(walk->graph, &ls_op_add, NULL, 2, (ls_tensor_id_t[]){*sum, grad}, NULL);
}

static ls_status_t visit(walk_t *walk, int n) {
  ls_graph_t *graph = walk->graph;
  const ls_graph_node_t node = graph->nodes[n]; /* a copy: appending moves the array */
  ls_tensor_id_t grad_out[LS_NODE_OUT_MAX], grad_in[LS_NODE_IN_MAX];
  bool wanted[LS_NODE_IN_MAX], reached = false, needed = false;
  for (int i = 0; i < node.out_count; i++) {
    grad_out[i] = walk->grad[node.out[i]];
    reached |= grad_out[i] >= 0;
  }
  for (int i = 0; i < node.in_count; i++) {
    wanted[i] = walk->needs[node.in[i]];
    needed |= wanted[i];
    grad_in[i] = -1;
  }
  if (!reached || !needed) return LS_OK;
  if (!node.op->backward)
    return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: %s is not differentiable", node.name, node.op->name);
  ls_graph_scope_like(graph, &node); /* of the node that the gradient belongs to */
  ls_status_t status = node.op->backward(graph, &node, grad_out, wanted, grad_in);
  if (status) return status;
  for (int i = 0; i < node.in_count; i++)
    if (wanted[i] && grad_in[i] >= 0) contribute(walk, node.in[i], grad_in[i]);
  return graph->status;
}

ls_status_t ls_graph_gradients(ls_graph_t *graph, ls_tensor_id_t loss, ls_tensor_id_t seed, int count,
                               const ls_tensor_id_t *wrt, ls_tensor_id_t *grads) {
  walk_t walk;
  if (graph->status) return graph->status;
  if ((graph->status = check_wanted(graph, loss, seed, count, wrt))) return graph->status;
  if ((graph->status = walk_begin(&walk, graph, count, wrt))) return graph->status;
  const char *scope = graph->scope;
  ls_graph_phase_t phase = graph->phase;
  int forward_count = graph->node_count;
  graph->phase = LS_PHASE_BACKWARD;
  graph->scope = "";
  if (walk.needs[loss]) {
    ls_attrs_t one = {.i = {1}, .f = {1}};
    walk.grad[loss] = graph->seed = seed >= 0 ? seed : ls_graph_op(graph, &ls_op_fill, &one, 0, NULL, NULL);
  }
  for (int n = forward_count - 1; n >= 0 && !graph->status; n--)
    graph->status = visit(&walk, n);
  graph->phase = phase;
  graph->scope = scope;
  for (int i = 0; i < count && !graph->status; i++)
    grads[i] = walk.grad[wrt[i]];
  return graph->status;
}

/* A parameter's gradient lives in the flat gradient buffer, so it must be a tensor with bytes of its own: no
 * view, not read by other nodes, not the gradient of two parameters at once. */
static bool own_bytes(const ls_graph_t *graph, ls_tensor_id_t grad) {
  const ls_graph_tensor_t *t = &graph->tensors[grad];
  return t->role == LS_ROLE_GRAD && t->alias_of < 0 && t->use_count == 0;
}

static void name_gradient(ls_graph_t *graph, ls_tensor_id_t param, ls_tensor_id_t grad) {
  if (!own_bytes(graph, grad)) grad = ls_graph_op(graph, &ls_op_copy, NULL, 1, &grad, NULL);
  if (graph->status) return;
  const char *name = ls_arena_printf(&graph->arena, "grad.%s", graph->tensors[param].name);
  if (!name) {
    graph->status = LS_ERR_MEMORY;
    return;
  }
  ls_graph_name(graph, grad, name);
  graph->tensors[grad].role = LS_ROLE_PARAM_GRAD;
  graph->tensors[param].grad = grad;
}

ls_status_t ls_graph_backward(ls_graph_t *graph, ls_tensor_id_t loss, ls_tensor_id_t seed) {
  if (graph->status) return graph->status;
  int count = 0;
  size_t room = (size_t)graph->tensor_count + 1;
  ls_tensor_id_t *params = ls_arena_array(&graph->arena, room, sizeof *params);
  ls_tensor_id_t *grads = ls_arena_array(&graph->arena, room, sizeof *grads);
  if (!params || !grads) return graph->status = LS_ERR_MEMORY;
  for (int id = 0; id < graph->tensor_count; id++) {
    if (graph->tensors[id].trainable) params[count++] = id;
    if (graph->tensors[id].grad >= 0)
      return graph->status =
                 ls_fail(graph->ctx, LS_ERR_ARGUMENT, "backward: the graph has gradients already");
  }
  if (ls_graph_gradients(graph, loss, seed, count, params, grads)) return graph->status;
  ls_graph_phase_t phase = graph->phase;
  graph->phase = LS_PHASE_BACKWARD;
  for (int i = 0; i < count && !graph->status; i++)
    if (grads[i] >= 0) name_gradient(graph, params[i], grads[i]);
  graph->phase = phase;
  return graph->status;
}
