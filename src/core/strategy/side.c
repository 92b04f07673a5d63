/* Chooses the lane of every node. A node is beside if the compute lane can do without it: it is of the backward pass,
 * only nodes beside read what it makes, and it
 *
 *   - makes a parameter's gradient, or a term of one (of a matrix that is used twice), or
 *   - prepares operands for nodes beside, and depends on no gradient itself.
 *
 * Nodes beside run on the side lane; those behind the last node that has to be on the compute lane are shared by both.
 * A node that only makes gradients of values stays on the compute lane, even where only nodes beside read it: it is part
 * of the chain along which everything waits. */
#include "strategy/lowering.h"

#include <math.h>

typedef struct {
  const ls_lowering_t *l;
  const ls_graph_t *graph;
  bool *of_loss; /* per tensor: depends on the gradient of the loss */
  bool *term;    /* per tensor: nothing but a term of a parameter's gradient */
  bool *beside;  /* per node */
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

static bool read_beside_only(const sides_t *x, ls_tensor_id_t id) {
  const ls_graph_tensor_t *t = &x->graph->tensors[id];
  bool only = true;
  for (int i = 0; i < t->use_count; i++)
    only &= x->beside[t->uses[i]];
  return only;
}

/* Whether nobody else takes the tensor: no node of the compute lane, no state, no destination but the gradients'. */
static bool made_for_beside(const sides_t *x, ls_tensor_id_t id) {
  const ls_graph_tensor_t *t = &x->graph->tensors[id];
  bool delivered = t->use_count == 0 && t->role != LS_ROLE_PARAM_GRAD && x->l->destination[id].tensor >= 0;
  return t->alias_of < 0 && !delivered && read_beside_only(x, id);
}

static bool is_beside(const sides_t *x, const ls_graph_node_t *node) {
  if (node->phase != LS_PHASE_BACKWARD) return false;
  if (node->op->view) return read_beside_only(x, node->out[0]); /* no task */
  bool spared = true, gradient = false, prepares = false;
  for (int i = 0; i < node->out_count; i++) {
    const ls_tensor_id_t id = node->out[i];
    const ls_graph_tensor_t *t = &x->graph->tensors[id];
    spared &= made_for_beside(x, id);
    gradient |= t->use_count > 0 ? x->term[id] : t->role == LS_ROLE_PARAM_GRAD;
    prepares |= t->use_count > 0 && !x->of_loss[id];
  }
  return spared && (gradient || prepares);
}

/* What a sum, or another function of each element, takes of a parameter's gradient. */
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

/* The last node beside that this one reads; -1 = none. */
static int reads_beside(const sides_t *x, const ls_graph_node_t *node) {
  int last = -1;
  for (int i = 0; i < node->in_count; i++) {
    int producer = x->graph->tensors[node->in[i]].producer;
    if (producer > last && x->beside[producer]) last = producer;
  }
  return last;
}

/* Behind the last node that needs the compute lane: the lane where the node's operands are made, else the one that is
 * expected to be free first. */
static ls_lane_t shared_lane(const sides_t *x, const ls_graph_node_t *node, const double *left) {
  const int after = reads_beside(x, node);
  if (after >= 0 && x->of_loss[x->graph->nodes[after].out[0]]) return x->l->lane[after];
  return left[LS_LANE_SIDE] <= left[LS_LANE_COMPUTE] ? LS_LANE_SIDE : LS_LANE_COMPUTE;
}

/* Work is counted in FLOPs: products are most of it. Gradients that memory bounds (of embeddings, norms, sums) count as
 * nearly nothing; the gains that docs/results.md reports were measured with this. */
static void assign(ls_lowering_t *l, const sides_t *x) {
  const ls_graph_t *g = x->graph;
  double left[LS_LANE_COUNT] = {
      0}; /* work of nodes beside that a lane still has to do when node n is reached */
  for (int n = 0; n < g->node_count; n++) {
    const ls_graph_node_t *node = &g->nodes[n];
    const double work = (double)ls_graph_node_flops(g, node);
    if (x->beside[n]) {
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
               .beside = ls_arena_array(&l->work, nodes, sizeof(bool))};
  l->lane = ls_arena_array(&l->work, nodes, sizeof(*l->lane)); /* zero: compute */
  l->last_compute = -1;
  if (!x.of_loss || !x.term || !x.beside || !l->lane) return LS_ERR_MEMORY;
  if (l->in->options.side_lane != LS_SIDE_ON || !l->in->optim) return LS_OK;
  find_of_loss(&x);
  for (int n = g->node_count - 1; n >= 0; n--) { /* whoever reads a node's tensors was decided before */
    const ls_graph_node_t *node = &g->nodes[n];
    x.beside[n] = is_beside(&x, node);
    if (x.beside[n]) mark_terms(&x, node);
    if (!x.beside[n] && !node->op->view && l->last_compute < 0 && node->phase == LS_PHASE_BACKWARD)
      l->last_compute = n;
  }
  assign(l, &x);
  return LS_OK;
}
_Static_assert(LS_LANE_COMPUTE == 0, "where nothing is chosen");

const char *ls_strategy_settle(ls_strategy_options_t *options, const ls_backend_t *backend) {
  const bool asked = options->side_lane == LS_SIDE_ON, has = backend->side_bytes > 0;
  options->side_lane = asked && has ? LS_SIDE_ON : LS_SIDE_OFF;
  return asked && !has ? "parallel.side_lane" : NULL;
}

/* What a second lane brings depends on how much of the device each kernel fills, so it is proposed where steps are timed. */
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
