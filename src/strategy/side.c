/* Chooses what runs on the side lane: what the backward pass computes but does not read itself, the gradients of
 * parameters. Only the graph decides:
 *
 *   - a node that makes such a gradient, or a summand of one (a matrix that is used twice), if nobody but nodes of the
 *     side lane reads what else it makes;
 *   - a node that prepares operands for those alone, if it depends on no gradient itself.
 *
 * Nodes that only make gradients of values stay on the compute lane, even where only the side lane reads them: they are
 * the chain along which everything waits. */
#include "strategy/lowering.h"

typedef struct {
  const ls_lowering_t *l;
  const ls_graph_t *graph;
  bool *late;    /* per tensor: depends on the gradient of the loss */
  bool *summand; /* per tensor: nothing but a term of a parameter's gradient */
  bool *aside;   /* per node */
} sides_t;

static void find_late(sides_t *x) {
  const ls_graph_t *g = x->graph;
  if (g->seed >= 0) x->late[g->seed] = true;
  for (int n = 0; n < g->node_count; n++) {
    const ls_graph_node_t *node = &g->nodes[n];
    bool late = false;
    for (int i = 0; i < node->in_count; i++)
      late |= x->late[node->in[i]];
    for (int i = 0; late && i < node->out_count; i++)
      x->late[node->out[i]] = true;
  }
}

static bool all_uses_aside(const sides_t *x, const ls_graph_tensor_t *t) {
  bool all = true;
  for (int i = 0; i < t->use_count; i++)
    all &= x->aside[t->uses[i]];
  return all;
}

static bool goes_aside(const sides_t *x, const ls_graph_node_t *node) {
  bool gradient = false, early = true, read = false;
  if (node->phase != LS_PHASE_BACKWARD) return false;
  if (node->op->view) return all_uses_aside(x, &x->graph->tensors[node->out[0]]); /* no task */
  for (int i = 0; i < node->out_count; i++) {
    const ls_tensor_id_t id = node->out[i];
    const ls_graph_tensor_t *t = &x->graph->tensors[id];
    if (t->alias_of >= 0) return false; /* it changes a state */
    if (t->use_count > 0 && !all_uses_aside(x, t)) return false;
    if (t->use_count == 0 && t->role != LS_ROLE_PARAM_GRAD && x->l->destination[id].tensor >= 0) return false;
    gradient |= t->use_count > 0 ? x->summand[id] : t->role == LS_ROLE_PARAM_GRAD;
    read |= t->use_count > 0;
    early &= !x->late[id];
  }
  return gradient || (read && early);
}

/* What a sum, or another function of each element, takes of a parameter's gradient. */
static void mark_summands(const sides_t *x, const ls_graph_node_t *node) {
  const ls_graph_tensor_t *tensors = x->graph->tensors, *out = &tensors[node->out[0]];
  bool sum = node->op->view || node->op->class == LS_OP_ELEMENTWISE;
  bool of_gradient = out->role == LS_ROLE_PARAM_GRAD || x->summand[node->out[0]];
  for (int i = 0; i < node->in_count && sum && of_gradient; i++) {
    const ls_graph_tensor_t *in = &tensors[node->in[i]];
    if (in->use_count == 1 && ls_shape_count(&in->shape) == ls_shape_count(&out->shape))
      x->summand[node->in[i]] = true;
  }
}

static double work_of(const ls_graph_t *g, const ls_graph_node_t *node) {
  ls_shape_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  for (int i = 0; i < node->in_count; i++)
    in[i] = g->tensors[node->in[i]].shape;
  for (int i = 0; i < node->out_count; i++)
    out[i] = g->tensors[node->out[i]].shape;
  return (double)ls_op_flops(node->op, &node->attrs, in, out);
}

/* The last of the nodes aside that the node reads; -1 = none. */
static int reads_aside(const sides_t *x, const ls_graph_node_t *node) {
  int last = -1;
  for (int i = 0; i < node->in_count; i++) {
    int producer = x->graph->tensors[node->in[i]].producer;
    if (producer > last && x->aside[producer]) last = producer;
  }
  return last;
}

/* Behind the last node that has to be on the compute lane, both lanes share what is left. A node goes where its operands
 * are made, else to the lane that is expected to be free first. */
static void assign(ls_lowering_t *l, const sides_t *x) {
  const ls_graph_t *g = x->graph;
  double side = 0,
         compute = 0; /* work that is left of what came before n; of the compute lane behind its last node */
  for (int n = 0; n < g->node_count; n++) {
    const ls_graph_node_t *node = &g->nodes[n];
    const double work = work_of(g, node);
    if (node->phase == LS_PHASE_BACKWARD && !x->aside[n]) side = side > work ? side - work : 0;
    if (!x->aside[n]) continue;
    const int after = reads_aside(x, node);
    if (n < l->last_compute || !x->late[node->out[0]])
      l->lane[n] = LS_LANE_SIDE;
    else if (after >= 0 && x->late[x->graph->nodes[after].out[0]])
      l->lane[n] = l->lane[after];
    else
      l->lane[n] = side <= compute ? LS_LANE_SIDE : LS_LANE_COMPUTE;
    *(l->lane[n] == LS_LANE_SIDE ? &side : &compute) += work;
  }
}

ls_status_t ls_lowering_lanes(ls_lowering_t *l) {
  const ls_graph_t *g = l->in->graph;
  const size_t nodes = (size_t)g->node_count + 1, tensors = (size_t)g->tensor_count + 1;
  sides_t x = {.l = l,
               .graph = g,
               .late = ls_arena_array(&l->work, tensors, sizeof(bool)),
               .summand = ls_arena_array(&l->work, tensors, sizeof(bool)),
               .aside = ls_arena_array(&l->work, nodes, sizeof(bool))};
  l->lane = ls_arena_array(&l->work, nodes, sizeof(*l->lane)); /* zero: compute */
  l->last_compute = -1;
  if (!x.late || !x.summand || !x.aside || !l->lane) return LS_ERR_MEMORY;
  if (!l->in->options.side_lane || !l->in->optim) return LS_OK;
  find_late(&x);
  for (int n = g->node_count - 1; n >= 0; n--) {
    const ls_graph_node_t *node = &g->nodes[n];
    x.aside[n] = goes_aside(&x, node);
    if (x.aside[n]) mark_summands(&x, node);
    if (!x.aside[n] && !node->op->view && l->last_compute < 0 && node->phase == LS_PHASE_BACKWARD)
      l->last_compute = n;
  }
  assign(l, &x);
  return LS_OK;
}
_Static_assert(LS_LANE_COMPUTE == 0, "where nothing is chosen");
