/* Shared by the tests of passes. Include after cmocka.h. */
#ifndef TESTS_GRAPH_PASSES_H
#define TESTS_GRAPH_PASSES_H

#include "graph/ops/ops.h"
#include "graph/pass/pass.h"
#include "run_graph.h"

enum { GRAPH_VALUES_MAX = 1000 };

/* A backend with a kernel for each op. */
static inline bool has_all(const void *backend, const char *op, ls_dtype_t low) {
  (void)backend, (void)op, (void)low;
  return true;
}

static inline int count_ops(const ls_graph_t *g, const ls_op_t *op) {
  int count = 0;
  for (int n = 0; n < g->node_count; n++)
    count += g->nodes[n].op == op;
  return count;
}

/* Numbers that are the same for each graph with these tensors. */
static inline void fill_source(const ls_graph_t *g, ls_tensor_id_t id, void *to) {
  const ls_shape_t *shape = &g->tensors[id].shape;
  if (shape->dtype == LS_U8)
    memcpy(to, &(ls_step_params_t){.seed = 5, .position = 11}, sizeof(ls_step_params_t));
  for (int64_t k = 0; k < ls_shape_count(shape); k++)
    if (shape->dtype == LS_I32)
      ((int32_t *)to)[k] = (int32_t)k;
    else if (shape->dtype == LS_F32)
      ((float *)to)[k] = 0.3f * (float)((k * 7 + id * 5) % 11 - 5);
}

/* Every parameter's gradient and the loss, one behind the other. Returns their number. */
static inline int graph_values(const ls_graph_t *g, float to[GRAPH_VALUES_MAX]) {
  int count = 0;
  void **memory = graph_memory(g);
  for (int id = 0; id < g->tensor_count; id++)
    if (g->tensors[id].producer < 0) fill_source(g, id, memory[id]);
  for (int n = 0; n < g->node_count; n++)
    run_node(g, n, memory);
  for (int id = 0; id < g->tensor_count; id++) {
    const ls_graph_tensor_t *t = &g->tensors[id];
    if (t->role != LS_ROLE_PARAM_GRAD && strcmp(t->name, "loss") != 0) continue;
    assert_true(count + ls_shape_count(&t->shape) <= GRAPH_VALUES_MAX);
    memcpy(to + count, memory[id], ls_shape_bytes(&t->shape));
    count += (int)ls_shape_count(&t->shape);
  }
  graph_memory_free(g, memory);
  return count;
}

/* The passes change `g` without changing a bit of its `expected` values. */
static inline void passes_keep_bits(ls_graph_t *g, const ls_pass_context_t *context, int expected) {
  static float apart[GRAPH_VALUES_MAX], fused[GRAPH_VALUES_MAX];
  const int nodes = g->node_count;
  assert_int_equal(graph_values(g, apart), expected);
  assert_int_equal(ls_graph_run_passes(g, context), LS_OK);
  assert_int_not_equal(g->node_count, nodes);
  assert_int_equal(graph_values(g, fused), expected);
  assert_true(apart[0] != 0);
  for (int k = 0; k < expected; k++)
    if (memcmp(&apart[k], &fused[k], sizeof *apart) != 0)
      fail_msg("value %d: %g apart, %g fused", k, (double)apart[k], (double)fused[k]);
}

#endif
