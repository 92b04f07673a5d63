/* Fuses batch norm with the function that follows it or with the end of a residual block, if the backend has ops
 * for it. The norm is then written once, and its gradient reads dy itself: the function's gradient is neither
 * written nor read. */
#include "graph/ops/ops.h"
#include "graph/pass/pass.h"

static const struct {
  int64_t which;
  const ls_op_t *function, *gradient;
  int reads; /* the gradient's second input: 0 the function's input, 1 its result */
} rows[] = {{LS_BEHIND_RELU, &ls_op_relu, &ls_op_relu_dy, 1},
            {LS_BEHIND_SILU, &ls_op_silu, &ls_op_silu_dx, 0}};

/* The only node of this op that reads the tensor as input `at`; -1: there is none, or more. */
static int reader(const ls_graph_t *graph, ls_tensor_id_t id, const ls_op_t *op, int at) {
  const ls_graph_tensor_t *t = &graph->tensors[id];
  int found = -1;
  for (int i = 0; i < t->use_count; i++) {
    const ls_graph_node_t *node = &graph->nodes[t->uses[i]];
    if (node->op != op || node->in[at] != id || t->uses[i] == found) continue;
    if (found >= 0) return -1;
    found = t->uses[i];
  }
  return found;
}

static int uses(const ls_graph_t *graph, ls_tensor_id_t id) {
  return graph->tensors[id].use_count;
}

/* Nodes of a norm and of the function after it, by their places. */
typedef struct {
  int row, norm, function, gradient, sums, dx;
} chain_t;

/* Fuses the gradient: sums and dx take dy through the function themselves. */
static int fuse_back(ls_graph_t *graph, const chain_t *c) {
  const ls_graph_node_t norm = graph->nodes[c->norm], gradient = graph->nodes[c->gradient];
  const ls_graph_node_t sums = graph->nodes[c->sums], dx = graph->nodes[c->dx];
  const ls_tensor_id_t *k = norm.in, dy = gradient.in[0];
  const ls_attrs_t attrs = {.i = {rows[c->row].which}};
  const ls_tensor_id_t sums_in[] = {dy, k[0], k[1], k[2], sums.in[4], k[3], k[4]};
  const ls_tensor_id_t dx_in[] = {dy, k[0], k[3], k[1], k[2], dx.in[5], dx.in[6], dx.in[7], k[4]};
  if (!ls_graph_replace(graph, 1, &c->sums, &ls_op_bn_act_back_sums, &attrs, 7, sums_in, sums.out)) return 0;
  const int pair[] = {c->gradient, c->dx};
  return 1 + ls_graph_replace(graph, 2, pair, &ls_op_bn_act_dx, &attrs, 9, dx_in, dx.out);
}

static bool find_back(const ls_graph_t *graph, chain_t *c) {
  const ls_graph_node_t *norm = &graph->nodes[c->norm], *function = &graph->nodes[c->function];
  ls_tensor_id_t read = rows[c->row].reads ? function->out[0] : function->in[0];
  c->gradient = reader(graph, read, rows[c->row].gradient, 1);
  if (c->gradient < 0) return false;
  ls_tensor_id_t dz = graph->nodes[c->gradient].out[0];
  c->sums = reader(graph, dz, &ls_op_bn_back_sums, 0);
  c->dx = reader(graph, dz, &ls_op_bn_dx, 0);
  return uses(graph, dz) == 2 && c->sums >= 0 && c->dx >= 0 && graph->nodes[c->sums].in[1] == norm->in[0] &&
         graph->nodes[c->dx].in[1] == norm->in[0];
}

static int fuse_function(ls_graph_t *graph, chain_t *c) {
  int changes = find_back(graph, c) ? fuse_back(graph, c) : 0;
  const ls_graph_node_t norm = graph->nodes[c->norm], function = graph->nodes[c->function];
  const ls_attrs_t attrs = {.i = {rows[c->row].which}};
  const int pair[] = {c->norm, c->function};
  return changes + ls_graph_replace(graph, 2, pair, &ls_op_bn_act, &attrs, 5, norm.in, function.out);
}

/* Fuses z + r, and max(z + r, 0) if that follows. */
static int fuse_sum(ls_graph_t *graph, int norm, int add) {
  const ls_graph_node_t from = graph->nodes[norm], sum = graph->nodes[add];
  int relu = uses(graph, sum.out[0]) == 1 ? reader(graph, sum.out[0], &ls_op_relu, 0) : -1;
  ls_tensor_id_t z = from.out[0], in[6];
  for (int i = 0; i < 5; i++)
    in[i] = from.in[i];
  in[5] = sum.in[0] == z ? sum.in[1] : sum.in[0];
  const int nodes[] = {norm, add, relu};
  const ls_attrs_t attrs = {.i = {relu < 0 ? LS_BEHIND_NONE : LS_BEHIND_RELU}};
  return ls_graph_replace(graph, relu < 0 ? 2 : 3, nodes, &ls_op_bn_add_act, &attrs, 6, in,
                          relu < 0 ? sum.out : (ls_tensor_id_t[]){graph->nodes[relu].out[0]});
}

static int fuse(ls_graph_t *graph, int n) {
  ls_tensor_id_t z = graph->nodes[n].out[0];
  for (int row = 0; row < LS_COUNT(rows); row++) {
    chain_t c = {.row = row, .norm = n, .function = reader(graph, z, rows[row].function, 0)};
    if (c.function >= 0) return fuse_function(graph, &c);
  }
  for (int i = 0; i < uses(graph, z); i++) {
    int add = graph->tensors[z].uses[i];
    const ls_graph_node_t *node = &graph->nodes[add];
    if (node->op == &ls_op_add && node->in[0] != node->in[1]) return fuse_sum(graph, n, add);
  }
  return 0;
}

/* Fuses the gradients that reach the relu at the end of a residual block with the sums of the norm before it. */
static int fuse_residual(ls_graph_t *graph, int relu) {
  const ls_graph_node_t gradient = graph->nodes[relu];
  const ls_graph_tensor_t *dz = &graph->tensors[gradient.out[0]];
  int add = graph->tensors[gradient.in[0]].producer, at = 0;
  while (at < dz->use_count && graph->nodes[dz->uses[at]].op != &ls_op_bn_back_sums)
    at++;
  if (add < 0 || graph->nodes[add].op != &ls_op_add || at == dz->use_count) return 0;
  const ls_graph_node_t sum = graph->nodes[add], sums = graph->nodes[dz->uses[at]];
  const ls_tensor_id_t in[] = {sum.in[0],  sum.in[1],  gradient.in[1], sums.in[1],
                               sums.in[2], sums.in[3], sums.in[4]};
  const ls_tensor_id_t out[] = {gradient.out[0], sums.out[0], sums.out[1], sums.out[2]};
  const int nodes[] = {add, relu, dz->uses[at]};
  return ls_graph_replace(graph, 3, nodes, &ls_op_bn_add_act_back_sums, NULL, 7, in, out);
}

static int run(ls_graph_t *graph, const ls_pass_context_t *context) {
  static const ls_op_t *const needed[] = {&ls_op_bn_act, &ls_op_bn_add_act, &ls_op_bn_act_back_sums,
                                          &ls_op_bn_add_act_back_sums, &ls_op_bn_act_dx};
  bool has = context->fuse;
  for (int i = 0; i < LS_COUNT(needed); i++)
    has = has && context->has(context->backend, needed[i]->name, context->low);
  int changes = 0;
  for (int n = 0; has && n < graph->node_count; n++)
    if (graph->nodes[n].op == &ls_op_bn_apply) changes += fuse(graph, n);
  for (int n = 0; has && n < graph->node_count; n++)
    if (graph->nodes[n].op == &ls_op_relu_dy) changes += fuse_residual(graph, n);
  return changes;
}

const ls_graph_pass_t ls_pass_fuse_norm = {
    .name = "fuse_norm",
    .help = "batch norm and the function or the sum behind it in one op, where the backend has one",
    .run = run,
};
