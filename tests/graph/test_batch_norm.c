/* Batch norm, whose gradient goes through its statistics: against differences of the whole, with samples that are
 * padding and count nowhere. */
#include "graph/ops/ops.h"

#include <math.h>

#include "unit.h"

#include "run_graph.h"

enum { ROWS = 5, POSITIONS = 3, CHANNELS = 2, COUNT = ROWS * POSITIONS * CHANNELS, PADDING = 2 };

typedef struct {
  ls_graph_t *graph;
  void **memory;
  ls_tensor_id_t in[3], grad[3], y, factor, loss; /* in: x, gamma, beta */
  int forward;
} setup_t;

static float number(int k) {
  return (float)((k * 37 + 11) % 29 - 14) / 8;
}

static void make(setup_t *s, ls_ctx_t *ctx, bool ranks) {
  const ls_shape_t x = LS_SHAPE(LS_F32, ROWS, POSITIONS, CHANNELS), c = LS_SHAPE(LS_F32, CHANNELS);
  const ls_attrs_t eps = {.f = {1e-3}}, all = {.i = {3}};
  assert_int_equal(ls_graph_create(ctx, &s->graph), LS_OK);
  ls_graph_t *g = s->graph;
  s->in[0] = ls_graph_input(g, "x", x);
  s->in[1] = ls_graph_input(g, "gamma", c);
  s->in[2] = ls_graph_input(g, "beta", c);
  ls_tensor_id_t weight = ls_graph_input(g, "weight", LS_SHAPE(LS_F32, ROWS)),
                 shift = ls_graph_input(g, "shift", c);
  s->factor = ls_graph_input(g, "factor", x);
  ls_tensor_id_t m[2];
  ls_tensor_id_t sums = ls_graph_op(g, &ls_op_bn_sums, NULL, 3, (int[]){s->in[0], weight, shift}, NULL);
  if (ranks) sums = ls_graph_op(g, &ls_op_sum_ranks, NULL, 1, &sums, NULL);
  ls_graph_op(g, &ls_op_bn_moments, &eps, 2, (int[]){sums, shift}, m);
  s->y = ls_graph_op(g, &ls_op_bn_apply, NULL, 5, (int[]){s->in[0], m[0], m[1], s->in[1], s->in[2]}, NULL);
  ls_tensor_id_t each = ls_graph_op(g, &ls_op_mul, NULL, 2, (int[]){s->y, s->factor}, NULL);
  s->loss = ls_graph_op(g, &ls_op_reduce, &all, 1, &each, NULL);
  s->forward = g->node_count;
  assert_int_equal(ls_graph_gradients(g, s->loss, -1, 3, s->in, s->grad), LS_OK);
  s->memory = graph_memory(g);
  for (int k = 0; k < COUNT; k++) {
    bool padding = k / (POSITIONS * CHANNELS) == PADDING; /* no loss and no gradient from there */
    ((float *)s->memory[s->in[0]])[k] = number(k);
    ((float *)s->memory[s->factor])[k] = padding ? 0 : number(3 * k + 1);
  }
  for (int r = 0; r < ROWS; r++)
    ((float *)s->memory[weight])[r] = r == PADDING ? 0 : 0.25f;
  for (int k = 0; k < CHANNELS; k++) {
    ((float *)s->memory[s->in[1]])[k] = 1.5f - (float)k;
    ((float *)s->memory[s->in[2]])[k] = (float)k;
    ((float *)s->memory[shift])[k] = 0.25f;
  }
}

static double loss_of(const setup_t *s) {
  double sum = 0;
  for (int n = 0; n < s->forward; n++)
    run_node(s->graph, n, s->memory);
  for (int k = 0; k < COUNT; k++)
    sum += (double)((float *)s->memory[s->y])[k] * ((float *)s->memory[s->factor])[k];
  return sum;
}

static void gradients_go_through_the_statistics(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  for (int ranks = 0; ranks < 2; ranks++) {
    setup_t s;
    make(&s, ctx, ranks);
    for (int n = 0; n < s.graph->node_count; n++)
      run_node(s.graph, n, s.memory);
    float grad[3][COUNT];
    for (int i = 0; i < 3; i++)
      memcpy(grad[i], s.memory[s.grad[i]], ls_shape_bytes(&s.graph->tensors[s.in[i]].shape));
    for (int i = 0; i < 3; i++)
      for (int k = 0; k < (i ? CHANNELS : COUNT); k++) {
        float *x = (float *)s.memory[s.in[i]] + k, middle = *x, h = 0x1p-6f;
        *x = middle + h;
        double up = loss_of(&s);
        *x = middle - h;
        double down = loss_of(&s), slope = (up - down) / (2 * (double)h);
        *x = middle;
        if (fabs(grad[i][k] - slope) > 3e-3 * (1 + fabs(slope)))
          fail_msg("input %d, element %d: gradient %g, differences give %g", i, k, (double)grad[i][k], slope);
      }
    graph_memory_free(s.graph, s.memory);
    ls_graph_destroy(s.graph);
  }
  ls_ctx_destroy(ctx);
}

TESTS(NULL, NULL, gradients_go_through_the_statistics)
