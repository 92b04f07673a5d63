/* Chooses the lane of every node. A side node is one that the compute lane can do without. It belongs to the backward pass,
 * only side nodes read its results, and it
 *
 *   - makes a parameter's gradient, or a term of one (a matrix may be used twice), or
 *   - prepares operands for side nodes, and depends on no gradient itself.
 *
 * Side nodes run on the side lane. After the last node that needs the compute lane, both lanes share them. A node that
 * makes only gradients of values stays on the compute lane, even if only side nodes read it: it is part of the chain for
 * which everything waits. */
#include "strategy/lowering.h"

#include <math.h>

typedef struct {
  const ls_lowering_t *l;
  const ls_graph_t *graph;
  bool *of_loss; /* per tensor: depends on the gradient of the loss */
  bool *term;    /* per tensor: nothing but a term of a parameter's gradient */
  bool *side;    /* per node */
} sides_t;

static void find_of_loss(sides_t *x) {
  const ls_graph_t *g = x->graph;
  if (g->seed >= 0) x->of_loss[g->seed] = true;
  for (int n = 0; n < g->node_count; n++) {
    const ls_graph_node_t *node = &g->nodes[n];
    bool of_loss = false;
    for (int i = 0; i < node->in_count; i++)
      of_loss |= x->of_loss[node->in[i]];
    for (int i = 0; of_loss && i < node->out_count; i++)
      x->of_loss[node->out[i]] = true;
  }
}

static bool read_by_sides(const sides_t *x, ls_tensor_id_t id) {
  const ls_graph_tensor_t *t = &x->graph->tensors[id];
  bool only = true;
  for (int i = 0; i < t->use_count; i++)
    only &= x->side[t->uses[i]];
  return only;
}

/* True if nothing else takes the tensor: no node of the compute lane, no state, no destination but the
 * gradients'. */
static bool made_for_sides(const sides_t *x, ls_tensor_id_t id) {
  const ls_graph_tensor_t *t = &x->graph->tensors[id];
  bool delivered = t->use_count == 0 && t->role != LS_ROLE_PARAM_GRAD && x->l->destination[id].tensor >= 0;
  return t->alias_of < 0 && !delivered && read_by_sides(x, id);
}

static bool is_side(const sides_t *x, const ls_graph_node_t *node) {
  if (node->phase != LS_PHASE_BACKWARD) return false;
  if (node->op->view) return read_by_sides(x, node->out[0]); /* no task */
  bool spared = true, gradient = false, prepares = false;
  for (int i = 0; i < node->out_count; i++) {
    const ls_tensor_id_t id = node->out[i];
    const ls_graph_tensor_t *t = &x->graph->tensors[id];
    spared &= made_for_sides(x, id);
    gradient |= t->use_count > 0 ? x->term[id] : t->role == LS_ROLE_PARAM_GRAD;
    prepares |= t->use_count > 0 && !x->of_loss[id];
  }
  return spared && (gradient || prepares);
}

/* Marks the inputs of a sum, or of another function of each element, that makes a term of a parameter's
 * gradient. */
static void mark_terms(const sides_t *x, const ls_graph_node_t *node) {
  const ls_graph_tensor_t *tensors = x->graph->tensors, *out = &tensors[node->out[0]];
  bool sum = node->op->view || node->op->class == LS_OP_ELEMENTWISE;
  bool of_gradient = out->role == LS_ROLE_PARAM_GRAD || x->term[node->out[0]];
  for (int i = 0; i < node->in_count && sum && of_gradient; i++) {
    const ls_graph_tensor_t *in = &tensors[node->in[i]];
    if (in->use_count == 1 && ls_shape_count(&in->shape) == ls_shape_count(&out->shape))
      x->term[node->in[i]] = true;
  }
}

/* The last side node that this one reads; -1 = none. */
static int reads_side(const sides_t *x, const ls_graph_node_t *node) {
  int last = -1;
  for (int i = 0; i < node->in_count; i++) {
    int producer = x->graph->tensors[node->in[i]].producer;
    if (producer > last && x->side[producer]) last = producer;
  }
  return last;
}

/* The lane of a side node after the last node that needs the compute lane: the one where its operands are
 * made, else the one that is expected to be free first. */
static ls_lane_t shared_lane(const sides_t *x, const ls_graph_node_t *node, const double *left) {
  const int after = reads_side(x, node);
  if (after >= 0 && x->of_loss[x->graph->nodes[after].out[0]]) return x->l->lane[after];
  return left[LS_LANE_SIDE] <= left[LS_LANE_COMPUTE] ? LS_LANE_SIDE : LS_LANE_COMPUTE;
}

/* Work is counted in FLOPs: products are most of it. Gradients that memory bounds (of embeddings, norms, sums) count as
 * nearly nothing; the gains that docs/results.md reports were measured with this. */
static void assign(ls_lowering_t *l, const sides_t *x) {
  const ls_graph_t *g = x->graph;
  double left[LS_LANE_COUNT] = {
      0}; /* work of side nodes that a lane still has to do when node n is reached */
  for (int n = 0; n < g->node_count; n++) {
    const ls_graph_node_t *node = &g->nodes[n];
    const double work = (double)ls_graph_node_flops(g, node);
    if (x->side[n]) {
      bool shared = n > l->last_compute && x->of_loss[node->out[0]];
      l->lane[n] = shared ? shared_lane(x, node, left) : LS_LANE_SIDE;
      left[l->lane[n]] += work;
    } else if (node->phase == LS_PHASE_BACKWARD) {
      left[LS_LANE_SIDE] = fmax(left[LS_LANE_SIDE] - work, 0);
    }
  }
}

ls_status_t ls_lowering_lanes(ls_lowering_t *l) {
  const ls_graph_t *g = l->in->graph;
  const size_t nodes = (size_t)g->node_count + 1, tensors = (size_t)g->tensor_count + 1;
  sides_t x = {.l = l,
               .graph = g,
               .of_loss = ls_arena_array(&l->work, tensors, sizeof(bool)),
               .term = ls_arena_array(&l->work, tensors, sizeof(bool)),
               .side = ls_arena_array(&l->work, nodes, sizeof(bool))};
  l->lane = ls_arena_array(&l->work, nodes, sizeof(*l->lane)); /* zero: compute */
  l->last_compute = -1;
  if (!x.of_loss || !x.term || !x.side || !l->lane) return LS_ERR_MEMORY;
  if (l->in->options.side_lane != LS_SIDE_ON || !l->in->optim) return LS_OK;
  find_of_loss(&x);
  for (int n = g->node_count - 1; n >= 0; n--) { /* readers of a node's tensors are decided before the node */
    const ls_graph_node_t *node = &g->nodes[n];
    x.side[n] = is_side(&x, node);
    if (x.side[n]) mark_terms(&x, node);
    if (!x.side[n] && !node->op->view && l->last_compute < 0 && node->phase == LS_PHASE_BACKWARD)
      l->last_compute = n;
  }
  assign(l, &x);
  return LS_OK;
}
_Static_assert(LS_LANE_COMPUTE == 0, "where nothing is chosen");

const char *ls_strategy_settle(ls_strategy_options_t *options, const ls_backend_t *backend) {
  const bool asked = options->side_lane == LS_SIDE_ON, has = !backend || backend->side_bytes > 0;
  options->side_lane = asked && has ? LS_SIDE_ON : LS_SIDE_OFF;
  return asked && !has ? "parallel.side_lane" : NULL;
}

/* The gain of a second lane depends on how much of the device each kernel fills, so it is proposed where
 * steps are timed. */
ls_status_t ls_strategy_propose(const ls_strategy_t *strategy, const ls_proposal_t *proposal) {
  ls_strategy_options_t options = *proposal->configured;
  const ls_proposal_t each = {proposal->ranks, proposal->timed, proposal->backend, &options,
                              proposal->arena, proposal->emit,  proposal->user};
  const bool open = options.side_lane == LS_SIDE_AUTO && proposal->timed && proposal->backend->side_bytes > 0;
  ls_strategy_settle(&options, proposal->backend);
  ls_status_t status = LS_OK;
  for (int lanes = 0; lanes <= open && status == LS_OK; lanes++) {
    if (lanes) options.side_lane = LS_SIDE_ON;
    status = proposal->emit(proposal->user, &options);
    if (status == LS_OK && strategy->propose) status = strategy->propose(&each);
  }
  return status;
}
