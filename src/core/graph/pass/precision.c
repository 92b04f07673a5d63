/* Mixed precision (Micikevicius et al. 2018). The graph was built and differentiated in f32. Ops that gain by it
 * (low_wants: products and the like) get casts of their inputs, other ops run low where an input is low already, and
 * whatever takes f32 alone gets a cast back: the op rows say which tensors of an op may be low (graph/low.h).
 * Parameters, their gradients, states, losses and, where nothing is trained, values that are looked up by name stay
 * f32. With f16 the backward pass begins with the loss scale instead of 1, because small gradients would become 0. */
#include "graph/low.h"
#include "graph/ops/ops.h"
#include "graph/pass/pass.h"

typedef struct {
  ls_graph_t *graph;
  ls_dtype_t low;
  bool trains;
  ls_tensor_id_t *other; /* per tensor: the same value in the other of f32 and low, -1 = not yet */
  int casts;
} precise_t;

/* The tensor with this value in that dtype, cast in the scope and phase of the node that reads it. */
static ls_tensor_id_t value_in(precise_t *p, const ls_graph_node_t *reader, ls_tensor_id_t id,
                               ls_dtype_t dtype) {
  ls_graph_t *graph = p->graph;
  if (graph->tensors[id].shape.dtype == dtype) return id;
  if (p->other[id] >= 0) return p->other[id];
  const ls_attrs_t to = {.i = {dtype}};
  ls_graph_scope_like(graph, reader);
  graph->phase = reader->phase;
  p->casts++;
  return p->other[id] = ls_graph_op(graph, &ls_op_cast, &to, 1, &id, NULL);
}

static bool is_low(const precise_t *p, ls_tensor_id_t id) {
  return p->graph->tensors[id].shape.dtype == p->low;
}

/* True if a node expects f32 in this tensor. */
static bool stays(const precise_t *p, ls_tensor_id_t id) {
  const ls_graph_tensor_t *t = &p->graph->tensors[id];
  return t->role == LS_ROLE_PARAM_GRAD || (t->named && !p->trains);
}

static bool runs_low(const precise_t *p, const ls_graph_node_t *node) {
  bool any = false;
  if (node->op->low_wants) return true;
  for (int i = 0; i < node->out_count; i++)
    if (node->op->low_out >> i & 1 && !node->op->view && stays(p, node->out[i])) return false;
  for (int i = 0; i < node->in_count; i++)
    any |= node->op->low_in >> i & 1 && is_low(p, node->in[i]);
  return any;
}

/* Appends the node with inputs of the dtypes that it takes. Where an output must stay f32, the node makes a twin, and
 * a cast makes the tensor itself. */
static void append(precise_t *p, const ls_graph_node_t *old) {
  ls_graph_node_t node = *old;
  const ls_op_t *op = node.op;
  bool low = runs_low(p, old);
  for (int i = 0; i < node.in_count; i++) {
    bool may = op->low_in >> i & 1;
    if (may || is_low(p, node.in[i])) node.in[i] = value_in(p, old, node.in[i], may && low ? p->low : LS_F32);
  }
  if (low && !op->low_in) node.attrs.i[LS_ATTR_LOW] = p->low;
  for (int i = 0; i < node.out_count && low; i++)
    if (op->low_out >> i & 1 && stays(p, old->out[i])) {
      node.out[i] = ls_graph_twin(p->graph, old->out[i], p->low);
      p->other[old->out[i]] = node.out[i];
    }
  if (!p->graph->status) ls_graph_keep(p->graph, &node);
  for (int i = 0; i < node.out_count && !p->graph->status; i++) {
    if (node.out[i] == old->out[i]) continue;
    ls_graph_node_t back = {.op = &ls_op_cast,
                            .name = old->name,
                            .phase = old->phase,
                            .attrs = {.i = {LS_F32}},
                            .in_count = 1,
                            .out_count = 1,
                            .in = {node.out[i]},
                            .out = {old->out[i]}};
    p->graph->tensors[old->out[i]].alias_of = -1;
    ls_graph_keep(p->graph, &back);
    p->casts++;
  }
}

/* The seed of the backward pass: made by `fill` of 1, unless the graph's builder has given one of its own. */
static void append_scale(precise_t *p, const ls_graph_node_t *fill) {
  const ls_tensor_id_t counter =
      ls_graph_input(p->graph, LS_COUNTER_NAME, LS_SHAPE(LS_F32, LS_COUNTER_COUNT));
  ls_graph_node_t scale = *fill;
  scale.op = &ls_op_loss_scale;
  scale.in_count = 1;
  scale.in[0] = counter;
  scale.attrs = (ls_attrs_t){{0}, {0}};
  if (!p->graph->status) ls_graph_keep(p->graph, &scale);
}

static int run(ls_graph_t *graph, const ls_pass_context_t *context) {
  precise_t p = {.graph = graph, .low = context->low};
  const ls_graph_node_t *old;
  int count;
  if (!ls_dtype_is_low(p.low)) return 0;
  size_t room = (size_t)graph->tensor_count + 1;
  p.other = ls_arena_array(&graph->arena, room, sizeof *p.other);
  if (!p.other) {
    graph->status = LS_ERR_MEMORY;
    return 0;
  }
  for (size_t id = 0; id < room; id++)
    p.other[id] = -1;
  const char *scope = graph->scope;
  ls_graph_phase_t phase = graph->phase;
  p.trains = graph->seed >= 0;
  ls_graph_begin_again(graph, &old, &count);
  for (int n = 0; n < count && !graph->status; n++) {
    bool seeds = p.low == LS_F16 && p.trains && old[n].out[0] == graph->seed && old[n].op == &ls_op_fill;
    if (seeds)
      append_scale(&p, &old[n]);
    else
      append(&p, &old[n]);
  }
  graph->scope = scope;
  graph->phase = phase;
  return p.casts;
}

const ls_graph_pass_t ls_pass_precision = {
    .name = "precision",
    .help = "16-bit floats where train.precision asks for them and ops take them",
    .run = run,
};
