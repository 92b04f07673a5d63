/* Replacing and removing nodes, and the proof that what remains is a graph. */
#include "graph/rewrite.h"

#include "graph/inside.h"
#include "graph/low.h"

#include <string.h>

static bool among(int value, int count, const int *list) {
  for (int i = 0; i < count; i++)
    if (list[i] == value) return true;
  return false;
}

/* True if no other node needs tensor `id`; if it is kept: if all others still find it in time. */
static bool may_move(const ls_graph_t *graph, ls_tensor_id_t id, bool keep, int count, const int *old) {
  const ls_graph_tensor_t *t = &graph->tensors[id];
  if (!keep && (t->named || t->role == LS_ROLE_PARAM_GRAD)) return false;
  for (int i = 0; i < t->use_count; i++)
    if (!among(t->uses[i], count, old) && !(keep && t->uses[i] > old[count - 1])) return false;
  return true;
}

static bool is_source(const ls_graph_tensor_t *t) {
  return t->role <= LS_ROLE_STATE;
}

/* True if the value in this tensor's bytes depends on the time of reading. */
static bool changes(const ls_graph_t *graph, ls_tensor_id_t id) {
  ls_tensor_id_t owner = graph->tensors[id].alias_of;
  return graph->tensors[owner < 0 ? id : owner].role == LS_ROLE_STATE;
}

static bool may_replace(const ls_graph_t *graph, int count, const int *old, int out_count,
                        const ls_tensor_id_t *out) {
  int made = 0;
  for (int k = 0; k < count; k++) {
    const ls_graph_node_t *node = &graph->nodes[old[k]];
    if (!node->op || (node->op->view && out_count > 0) || node->phase != graph->nodes[old[0]].phase)
      return false;
    for (int i = 0; i < node->in_count; i++)
      if (old[k] != old[count - 1] && changes(graph, node->in[i])) return false;
    for (int i = 0; i < node->out_count; i++) {
      bool keep = among(node->out[i], out_count, out);
      if (changes(graph, node->out[i])) return false;
      made += keep;
      if (!may_move(graph, node->out[i], keep, count, old)) return false;
    }
  }
  return made == out_count;
}

static void drop_use(ls_graph_tensor_t *t, int node) {
  int at = 0;
  while (t->uses[at] != node)
    at++;
  memmove(t->uses + at, t->uses + at + 1, (size_t)(--t->use_count - at) * sizeof *t->uses);
}

static void take_out(ls_graph_t *graph, int n) {
  ls_graph_node_t *node = &graph->nodes[n];
  for (int i = 0; i < node->in_count; i++)
    drop_use(&graph->tensors[node->in[i]], n);
  for (int i = 0; i < node->out_count; i++)
    graph->tensors[node->out[i]].producer = -1;
  *node = (ls_graph_node_t){.op = NULL};
}

/* Describes the new node, in the scope and phase of the old one. */
static bool describe(ls_graph_t *graph, const ls_graph_node_t *like, const ls_op_t *op,
                     const ls_attrs_t *attrs, int in_count, const ls_tensor_id_t *in,
                     const ls_tensor_id_t *out, ls_graph_node_t *node) {
  ls_shape_t shape[LS_NODE_OUT_MAX];
  const char *scope = graph->scope;
  ls_graph_phase_t phase = graph->phase;
  ls_graph_scope_like(graph, like);
  graph->phase = like->phase;
  ls_status_t status = ls_graph_describe(graph, op, attrs, in_count, in, node, shape);
  graph->scope = scope;
  graph->phase = phase;
  for (int i = 0; i < op->out_count && !status; i++) {
    node->out[i] = out[i];
    if (!ls_shape_equal(&shape[i], &graph->tensors[out[i]].shape))
      status = graph->status = ls_fail(graph->ctx, LS_ERR_SHAPE, "%s: its output %d has not the shape of %s",
                                       node->name, i, graph->tensors[out[i]].name);
  }
  return status == LS_OK;
}

bool ls_graph_replace(ls_graph_t *graph, int count, const int *old, const ls_op_t *op,
                      const ls_attrs_t *attrs, int in_count, const ls_tensor_id_t *in,
                      const ls_tensor_id_t *out) {
  int last = old[count - 1];
  ls_graph_node_t node;
  if (graph->status || !may_replace(graph, count, old, op ? op->out_count : 0, out)) return false;
  if (op && !describe(graph, &graph->nodes[last], op, attrs, in_count, in, out, &node)) return false;
  for (int k = 0; k < count; k++)
    take_out(graph, old[k]);
  if (!op) return true;
  graph->nodes[last] = node;
  for (int i = 0; i < node.out_count; i++)
    graph->tensors[node.out[i]].producer = last;
  for (int i = 0; i < in_count; i++)
    ls_graph_use(graph, in[i], last);
  return graph->status == LS_OK;
}

bool ls_graph_remove(ls_graph_t *graph, int node) {
  return ls_graph_replace(graph, 1, &node, NULL, NULL, 0, NULL, NULL);
}

/* Nodes only move to the front, so a use can be renumbered together with its node: it is the first entry not
 * yet renumbered. */
void ls_graph_sweep(ls_graph_t *graph) {
  int kept = 0;
  for (int n = 0; n < graph->node_count; n++) {
    ls_graph_node_t *node = &graph->nodes[n];
    if (!node->op) continue;
    for (int i = 0; i < node->in_count; i++) {
      ls_graph_tensor_t *t = &graph->tensors[node->in[i]];
      int at = 0;
      while (at < t->use_count && t->uses[at] != n)
        at++;
      if (at < t->use_count) t->uses[at] = kept;
    }
    for (int i = 0; i < node->out_count; i++)
      graph->tensors[node->out[i]].producer = kept;
    graph->nodes[kept++] = *node;
  }
  graph->node_count = kept;
}

void ls_graph_begin_again(ls_graph_t *graph, const ls_graph_node_t **old, int *count) {
  *old = graph->nodes;
  *count = graph->node_count;
  graph->nodes = NULL;
  graph->node_count = graph->node_capacity = 0;
  for (int id = 0; id < graph->tensor_count; id++) {
    graph->tensors[id].producer = -1;
    graph->tensors[id].use_count = 0;
  }
}

void ls_graph_keep(ls_graph_t *graph, const ls_graph_node_t *node) {
  ls_shape_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  for (int i = 0; i < node->in_count; i++)
    in[i] = graph->tensors[node->in[i]].shape;
  if (!graph->status) graph->status = ls_op_shape(graph->ctx, node->op, &node->attrs, in, out);
  ls_graph_append(graph, node);
  for (int i = 0; i < node->out_count && !graph->status; i++) {
    ls_graph_tensor_t *t = &graph->tensors[node->out[i]];
    t->shape = out[i];
    if (node->op->view) t->alias_of = ls_graph_owner(graph, node->in[0]);
  }
}

ls_tensor_id_t ls_graph_twin(ls_graph_t *graph, ls_tensor_id_t id, ls_dtype_t dtype) {
  ls_shape_t shape = graph->tensors[id].shape;
  ls_role_t role = graph->tensors[id].role;
  shape.dtype = dtype;
  return ls_graph_append_tensor(graph, graph->tensors[id].name, shape,
                                role == LS_ROLE_PARAM_GRAD ? LS_ROLE_GRAD : role);
}

/* ---- the proof ---- */

static ls_status_t fault(const ls_graph_t *graph, int n, const char *what, ls_tensor_id_t id) {
  return ls_fail(graph->ctx, LS_ERR_INTERNAL, "graph: node %d '%s' %s '%s'", n,
                 n < 0 ? "" : graph->nodes[n].name, what, graph->tensors[id].name);
}

/* seen: per tensor, the number of its uses seen so far. */
static ls_status_t check_node(const ls_graph_t *graph, int n, int *seen) {
  const ls_graph_node_t *node = &graph->nodes[n];
  ls_shape_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  if (!node->op || node->in_count != node->op->in_count || node->out_count != node->op->out_count)
    return ls_fail(graph->ctx, LS_ERR_INTERNAL, "graph: node %d is no whole node", n);
  for (int i = 0; i < node->in_count; i++) {
    ls_tensor_id_t id = node->in[i];
    const ls_graph_tensor_t *t = &graph->tensors[id];
    if (t->producer >= n || (t->producer < 0 && !is_source(t)))
      return fault(graph, n, "reads before it is made", id);
    if (seen[id] >= t->use_count || t->uses[seen[id]++] != n)
      return fault(graph, n, "is not where it should be among the uses of", id);
    in[i] = t->shape;
  }
  ls_status_t status = ls_op_shape(graph->ctx, node->op, &node->attrs, in, out);
  for (int i = 0; i < node->out_count && !status; i++) {
    const ls_graph_tensor_t *t = &graph->tensors[node->out[i]];
    if (t->producer != n) status = fault(graph, n, "is not the producer of", node->out[i]);
    if (!status && !ls_shape_equal(&out[i], &t->shape))
      status = fault(graph, n, "gives another shape than that of", node->out[i]);
  }
  return status;
}

static ls_status_t check_tensor(const ls_graph_t *graph, ls_tensor_id_t id, int seen) {
  const ls_graph_tensor_t *t = &graph->tensors[id];
  const ls_graph_node_t *maker = t->producer < 0 ? NULL : &graph->nodes[t->producer];
  if (seen != t->use_count) return fault(graph, t->uses[seen], "does not read, but is a use of", id);
  if (t->producer >= graph->node_count || (maker && !among(id, maker->out_count, maker->out)))
    return fault(graph, -1, "does not make", id);
  if (t->alias_of < 0) return LS_OK;
  const ls_graph_tensor_t *owner = &graph->tensors[t->alias_of];
  bool gone = owner->producer < 0 && !is_source(owner);
  bool shares = maker && (maker->op->view || (maker->op->inout && owner->role == LS_ROLE_STATE));
  if (owner->alias_of >= 0 || (maker && (!shares || gone)))
    return fault(graph, t->producer, "is no view that makes", id);
  return LS_OK;
}

ls_status_t ls_graph_check(const ls_graph_t *graph) {
  if (graph->status) return graph->status;
  int *seen = ls_alloc_array(graph->ctx, (size_t)graph->tensor_count + 1, sizeof *seen);
  ls_status_t status = seen ? LS_OK : LS_ERR_MEMORY;
  for (int n = 0; n < graph->node_count && !status; n++)
    status = check_node(graph, n, seen);
  for (int id = 0; id < graph->tensor_count && !status; id++)
    status = check_tensor(graph, id, seen[id]);
  ls_free(seen);
  return status;
}
