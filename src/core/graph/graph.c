/* Builds a graph: tensors and nodes are appended to arrays in the graph's arena. The first failure is
 * reported, kept in `status`, and turns every later builder call into a no-op, so that model code needs one
 * check. */
#include "graph/inside.h"
#include "graph/low.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SCOPE_MAX = 256, ARRAY_FIRST = 32, USES_FIRST = 4 };

ls_status_t ls_graph_create(ls_ctx_t *ctx, ls_graph_t **graph) {
  ls_graph_t *g = ls_alloc(ctx, sizeof *g);
  if (!g) return LS_ERR_MEMORY;
  ls_arena_init(&g->arena, ctx);
  g->ctx = ctx;
  g->phase = LS_PHASE_FORWARD;
  g->seed = -1;
  g->scope = "";
  *graph = g;
  return LS_OK;
}

void ls_graph_destroy(ls_graph_t *graph) {
  if (!graph) return;
  ls_arena_release(&graph->arena);
  ls_free(graph);
}

void ls_graph_scope(ls_graph_t *graph, const char *fmt, ...) {
  char text[SCOPE_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  const char *scope = text[0] ? ls_arena_strdup(&graph->arena, text) : "";
  if (scope)
    graph->scope = scope;
  else
    graph->status = LS_ERR_MEMORY;
}

void ls_graph_scope_like(ls_graph_t *graph, const ls_graph_node_t *node) {
  const char *space = strrchr(node->name, ' ');
  ls_graph_scope(graph, "%.*s", space ? (int)(space - node->name) : 0, node->name);
}

/* Makes room for one more element. Arrays double; the old one stays in the arena as long as the graph. */
static bool grow(ls_graph_t *graph, void **array, int count, int *capacity, int first, size_t size_bytes) {
  if (count < *capacity) return true;
  int wider = *capacity ? *capacity * 2 : first;
  void *memory = ls_arena_array(&graph->arena, (size_t)wider, size_bytes);
  if (!memory) {
    graph->status = LS_ERR_MEMORY;
    return false;
  }
  if (count > 0) memcpy(memory, *array, (size_t)count * size_bytes);
  *array = memory;
  *capacity = wider;
  return true;
}

void ls_graph_use(ls_graph_t *graph, ls_tensor_id_t id, int node) {
  ls_graph_tensor_t *t = &graph->tensors[id];
  void *uses = t->uses;
  if (!grow(graph, &uses, t->use_count, &t->use_capacity, USES_FIRST, sizeof *t->uses)) return;
  t->uses = uses;
  int at = t->use_count++;
  for (; at > 0 && t->uses[at - 1] > node; at--)
    t->uses[at] = t->uses[at - 1];
  t->uses[at] = node;
}

/* Checks that every dimension is at least 1 and that the bytes can be counted. */
static bool countable(const ls_shape_t *shape) {
  if (shape->rank < 0 || shape->rank > LS_DIMS_MAX || (int)shape->dtype < 0 || shape->dtype >= LS_DTYPE_COUNT)
    return false;
  int64_t bytes = (int64_t)ls_dtype_bytes(shape->dtype);
  for (int k = 0; k < shape->rank; k++)
    if (shape->dim[k] < 1 || __builtin_mul_overflow(bytes, shape->dim[k], &bytes)) return false;
  return bytes <= INT64_MAX / 4;
}

ls_tensor_id_t ls_graph_append_tensor(ls_graph_t *graph, const char *name, ls_shape_t shape, ls_role_t role) {
  if (graph->status) return -1;
  if (!countable(&shape)) {
    graph->status =
        ls_fail(graph->ctx, LS_ERR_SHAPE,
                "tensor %s: every dimension must be at least 1 and the size must fit 61 bits", name);
    return -1;
  }
  void *tensors = graph->tensors;
  if (!grow(graph, &tensors, graph->tensor_count, &graph->tensor_capacity, ARRAY_FIRST,
            sizeof *graph->tensors))
    return -1;
  graph->tensors = tensors;
  for (int k = shape.rank; k < LS_DIMS_MAX; k++)
    shape.dim[k] = 0;
  graph->tensors[graph->tensor_count] = (ls_graph_tensor_t){
      .name = name, .shape = shape, .role = role, .producer = -1, .alias_of = -1, .grad = -1};
  ls_graph_name(graph, graph->tensor_count++, name);
  return graph->status ? -1 : graph->tensor_count - 1;
}

/* "<scope>.<name>", bare at the top; NULL after the status is set. */
static const char *scoped(ls_graph_t *graph, const char *name) {
  const char *text = graph->scope[0] ? ls_arena_printf(&graph->arena, "%s.%s", graph->scope, name)
                                     : ls_arena_strdup(&graph->arena, name);
  if (!text) graph->status = LS_ERR_MEMORY;
  return text;
}

/* Inputs and parameters are looked up by name from outside (loader, checkpoints), so their names must be
 * unique. */
static ls_tensor_id_t append_source(ls_graph_t *graph, const char *name, ls_shape_t shape, ls_role_t role) {
  if (graph->status) return -1;
  const char *full = scoped(graph, name);
  if (!full) return -1;
  if (ls_graph_find(graph, full) >= 0) {
    graph->status = ls_fail(graph->ctx, LS_ERR_ARGUMENT, "the graph has two tensors named %s", full);
    return -1;
  }
  return ls_graph_append_tensor(graph, full, shape, role);
}

ls_tensor_id_t ls_graph_input(ls_graph_t *graph, const char *name, ls_shape_t shape) {
  return append_source(graph, name, shape, LS_ROLE_INPUT);
}

static ls_tensor_id_t append_kept(ls_graph_t *graph, const char *name, ls_shape_t shape, ls_role_t role,
                                  ls_init_t init) {
  if (!graph->status && shape.dtype != LS_F32)
    graph->status = ls_fail(graph->ctx, LS_ERR_SHAPE, "parameter %s: must be f32", name);
  ls_tensor_id_t id = append_source(graph, name, shape, role);
  if (id < 0) return id;
  graph->tensors[id].init = init;
  graph->tensors[id].trainable = role == LS_ROLE_PARAM;
  return id;
}

ls_tensor_id_t ls_graph_param(ls_graph_t *graph, const char *name, ls_shape_t shape, ls_init_t init) {
  return append_kept(graph, name, shape, LS_ROLE_PARAM, init);
}

ls_tensor_id_t ls_graph_state(ls_graph_t *graph, const char *name, ls_shape_t shape, ls_init_t init) {
  return append_kept(graph, name, shape, LS_ROLE_STATE, init);
}

static bool may_update(const ls_graph_t *graph, ls_tensor_id_t value, ls_tensor_id_t state) {
  const ls_graph_tensor_t *v = &graph->tensors[value], *s = &graph->tensors[state];
  if (v->producer < 0 || s->role != LS_ROLE_STATE || !ls_shape_equal(&v->shape, &s->shape)) return false;
  const ls_graph_node_t *node = &graph->nodes[v->producer];
  for (int i = 0; i < node->out_count; i++)
    if (node->out[i] == value) return node->op->inout >> i & 1;
  return false;
}

void ls_graph_update(ls_graph_t *graph, ls_tensor_id_t value, ls_tensor_id_t state) {
  if (graph->status) return;
  if (may_update(graph, value, state))
    graph->tensors[value].alias_of = state;
  else
    graph->status = ls_fail(graph->ctx, LS_ERR_ARGUMENT, "%s is no in-out output that can be the state %s",
                            graph->tensors[value].name, graph->tensors[state].name);
}

void ls_graph_rename(ls_graph_t *graph, ls_tensor_id_t id, const char *name) {
  if (graph->status) return;
  const char *copy = ls_arena_strdup(&graph->arena, name);
  graph->tensors[id].named = true;
  if (!copy)
    graph->status = LS_ERR_MEMORY;
  else
    ls_graph_name(graph, id, copy);
}

/* Checks count and ids of a node's inputs and collects their shapes. */
static ls_status_t input_shapes(ls_graph_t *graph, const ls_op_t *op, int in_count, const ls_tensor_id_t *in,
                                ls_shape_t *shapes) {
  if (in_count != op->in_count)
    return ls_fail(graph->ctx, LS_ERR_ARGUMENT, "%s in %s: takes %d inputs, got %d", op->name,
                   graph->scope[0] ? graph->scope : "the graph", op->in_count, in_count);
  for (int i = 0; i < in_count; i++) {
    if (in[i] < 0 || in[i] >= graph->tensor_count)
      return ls_fail(graph->ctx, LS_ERR_ARGUMENT, "%s in %s: input %d is no tensor of this graph", op->name,
                     graph->scope[0] ? graph->scope : "the graph", i);
    shapes[i] = graph->tensors[in[i]].shape;
  }
  return LS_OK;
}

/* Runs the op's shape rule. The rule words a refusal, but does not know the node. So it runs again with a context
 * of its own, and the report adds the node's name. */
static ls_status_t output_shapes(ls_graph_t *graph, const ls_op_t *op, const char *node_name,
                                 const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = ls_op_shape(NULL, op, attrs, in, out);
  if (!status) return LS_OK;
  ls_ctx_t *aside = ls_ctx_create(NULL, NULL);
  if (aside) ls_op_shape(aside, op, attrs, in, out);
  const char *reason = aside ? ls_ctx_error(aside) : ls_status_text(status);
  size_t prefix = strlen(op->name);
  if (strncmp(reason, op->name, prefix) == 0 && strncmp(reason + prefix, ": ", 2) == 0) reason += prefix + 2;
  ls_fail(graph->ctx, status, "%s: %s", node_name, reason);
  ls_ctx_destroy(aside);
  return status;
}

/* One tensor per output, named after the node. */
static void append_outputs(ls_graph_t *graph, ls_graph_node_t *node, const ls_shape_t *shapes) {
  ls_role_t role = graph->phase == LS_PHASE_FORWARD ? LS_ROLE_VALUE : LS_ROLE_GRAD;
  for (int i = 0; i < node->out_count; i++) {
    const char *name = scoped(graph, node->op->name);
    if (name && i > 0 && !(name = ls_arena_printf(&graph->arena, "%s:%d", name, i)))
      graph->status = LS_ERR_MEMORY;
    node->out[i] = ls_graph_append_tensor(graph, name, shapes[i], role);
    if (graph->status) return;
  }
  if (node->op->view) graph->tensors[node->out[0]].alias_of = ls_graph_owner(graph, node->in[0]);
}

ls_tensor_id_t ls_graph_owner(const ls_graph_t *graph, ls_tensor_id_t id) {
  while (graph->tensors[id].alias_of >= 0)
    id = graph->tensors[id].alias_of;
  return id;
}

void ls_graph_append(ls_graph_t *graph, const ls_graph_node_t *node) {
  void *nodes = graph->nodes;
  if (graph->status ||
      !grow(graph, &nodes, graph->node_count, &graph->node_capacity, ARRAY_FIRST, sizeof *graph->nodes))
    return;
  graph->nodes = nodes;
  for (int i = 0; i < node->in_count && !graph->status; i++)
    ls_graph_use(graph, node->in[i], graph->node_count);
  for (int i = 0; i < node->out_count; i++)
    graph->tensors[node->out[i]].producer = graph->node_count;
  graph->nodes[graph->node_count++] = *node;
}

ls_status_t ls_graph_describe(ls_graph_t *graph, const ls_op_t *op, const ls_attrs_t *attrs, int in_count,
                              const ls_tensor_id_t *in, ls_graph_node_t *node, ls_shape_t *out_shape) {
  ls_shape_t in_shape[LS_NODE_IN_MAX];
  if (graph->status) return graph->status;
  *node =
      (ls_graph_node_t){.op = op, .phase = graph->phase, .in_count = in_count, .out_count = op->out_count};
  if (attrs) node->attrs = *attrs;
  if ((graph->status = input_shapes(graph, op, in_count, in, in_shape))) return graph->status;
  for (int i = 0; i < in_count; i++)
    node->in[i] = in[i];
  node->name = graph->scope[0] ? ls_arena_printf(&graph->arena, "%s %s", graph->scope, op->name) : op->name;
  if (!node->name) return graph->status = LS_ERR_MEMORY;
  return graph->status = output_shapes(graph, op, node->name, &node->attrs, in_shape, out_shape);
}

ls_tensor_id_t ls_graph_op(ls_graph_t *graph, const ls_op_t *op, const ls_attrs_t *attrs, int in_count,
                           const ls_tensor_id_t *in, ls_tensor_id_t *out) {
  ls_shape_t out_shape[LS_NODE_OUT_MAX];
  ls_graph_node_t node;
  if (ls_graph_describe(graph, op, attrs, in_count, in, &node, out_shape)) return -1;
  append_outputs(graph, &node, out_shape);
  ls_graph_append(graph, &node);
  if (graph->status) return -1;
  for (int i = 0; out && i < node.out_count; i++)
    out[i] = node.out[i];
  return node.out[0];
}

int64_t ls_graph_param_count(const ls_graph_t *graph) {
  int64_t count = 0;
  for (int id = 0; id < graph->tensor_count; id++)
    if (graph->tensors[id].role == LS_ROLE_PARAM) count += ls_shape_count(&graph->tensors[id].shape);
  return count;
}
