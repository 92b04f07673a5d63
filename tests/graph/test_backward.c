/* Autodiff as a builder of graphs: what is appended, in which order, and under which names. That the numbers
 * are right is the gradient test's matter. */
#include "graph/ops/ops.h"
#include "graph/rewrite.h"

#include <string.h>

#include "unit.h"

#include "fixture.h"
#include "run_graph.h"

static ls_tensor_id_t param(ls_graph_t *g, const char *name) {
  return ls_graph_param(g, name, LS_SHAPE(LS_F32, 2, 3), (ls_init_t){0});
}

static ls_tensor_id_t two(ls_graph_t *g, const ls_op_t *op, ls_tensor_id_t a, ls_tensor_id_t b) {
  return ls_graph_op(g, op, NULL, 2, (ls_tensor_id_t[]){a, b}, NULL);
}

static ls_tensor_id_t sum_all(ls_graph_t *g, ls_tensor_id_t x) {
  return ls_graph_op(g, &ls_op_reduce, &(ls_attrs_t){.i = {g->tensors[x].shape.rank}}, 1, &x, NULL);
}

static int count_ops(const ls_graph_t *g, const ls_op_t *op, ls_graph_phase_t phase) {
  int count = 0;
  for (int n = 0; n < g->node_count; n++)
    count += g->nodes[n].op == op && g->nodes[n].phase == phase;
  return count;
}

/* Every parameter's gradient is a tensor of its own, with role and name, written by a node, read by none. */
static void assert_gradient(const ls_graph_t *g, ls_tensor_id_t p, const char *name) {
  ls_tensor_id_t grad = g->tensors[p].grad;
  assert_true(grad >= 0);
  assert_string_equal(g->tensors[grad].name, name);
  assert_int_equal(g->tensors[grad].role, LS_ROLE_PARAM_GRAD);
  assert_int_equal(g->tensors[grad].alias_of, -1);
  assert_true(g->tensors[grad].producer >= 0);
  assert_true(ls_shape_equal(&g->tensors[grad].shape, &g->tensors[p].shape));
  for (int n = 0; n < g->node_count; n++)
    for (int i = 0; i < g->nodes[n].in_count; i++)
      assert_int_not_equal(g->nodes[n].in[i], grad);
}

static void assert_runnable(const ls_graph_t *g) {
  assert_int_equal(ls_graph_check(g), LS_OK);
}

static void test_used_three_times_is_summed(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p");
  ls_tensor_id_t y = two(g, &ls_op_mul, two(g, &ls_op_mul, p, p), p); /* p^3 */
  assert_int_equal(ls_graph_backward(g, sum_all(g, y), -1), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_add, LS_PHASE_BACKWARD), 2);
  assert_gradient(g, p, "grad.p");
  assert_ptr_equal(g->nodes[g->tensors[g->tensors[p].grad].producer].op, &ls_op_add);
  assert_runnable(g);
}

/* y = p + q: both have the gradient of y, which also is its own tensor. */
static void test_two_parameters_never_share_a_gradient(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p"), q = param(g, "q");
  assert_int_equal(ls_graph_backward(g, sum_all(g, two(g, &ls_op_add, p, q)), -1), LS_OK);
  assert_int_not_equal(g->tensors[p].grad, g->tensors[q].grad);
  assert_gradient(g, q, "grad.q");
  assert_int_equal(count_ops(g, &ls_op_copy, LS_PHASE_BACKWARD), 1);
  assert_runnable(g);
}

static void test_a_view_is_no_gradient(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p");
  ls_tensor_id_t flat = ls_graph_op(g, &ls_op_reshape, &(ls_attrs_t){.i = {1, 6}}, 1, &p, NULL);
  assert_int_equal(ls_graph_backward(g, sum_all(g, two(g, &ls_op_mul, flat, flat)), -1), LS_OK);
  assert_gradient(g, p, "grad.p");
  assert_runnable(g);
}

/* The gradient of each value has the value's dtype. */
static void test_casts_go_back(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p");
  ls_tensor_id_t half = ls_graph_op(g, &ls_op_cast, &(ls_attrs_t){.i = {LS_BF16}}, 1, &p, NULL);
  ls_tensor_id_t again = ls_graph_op(g, &ls_op_cast, &(ls_attrs_t){.i = {LS_F32}}, 1, &half, NULL);
  assert_int_equal(g->tensors[half].shape.dtype, LS_BF16);
  assert_int_equal(ls_graph_backward(g, sum_all(g, two(g, &ls_op_mul, again, again)), -1), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_cast, LS_PHASE_BACKWARD), 2);
  assert_gradient(g, p, "grad.p");
  assert_runnable(g);
  const ls_graph_node_t *last = &g->nodes[g->node_count - 1];
  assert_int_equal(g->tensors[last->in[0]].shape.dtype, LS_BF16);
  assert_int_equal(g->tensors[last->out[0]].shape.dtype, LS_F32);
}

/* Nothing that only inputs need is built, and nothing behind a parameter that the loss does not see. */
static void test_pruning(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 2, 3)), p = param(g, "p"),
                 unused = param(g, "unused");
  ls_tensor_id_t deep = ls_graph_op(g, &ls_op_tanh, NULL, 1, &x, NULL);
  ls_tensor_id_t aside = ls_graph_op(g, &ls_op_tanh, NULL, 1, &unused, NULL);
  assert_true(aside >= 0);
  assert_int_equal(ls_graph_backward(g, sum_all(g, two(g, &ls_op_mul, deep, p)), -1), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_tanh_dy, LS_PHASE_BACKWARD), 0);
  assert_int_equal(count_ops(g, &ls_op_mul, LS_PHASE_BACKWARD), 1);
  assert_int_equal(g->tensors[unused].grad, -1);
  assert_gradient(g, p, "grad.p");
}

/* The first layer's dx is never needed; weights' gradients come before dx, so that they can travel early. */
static void test_linear_order(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 4, 3)), y = x;
  for (int layer = 0; layer < 2; layer++) {
    ls_graph_scope(g, "layers.%d", layer);
    ls_tensor_id_t w = ls_graph_param(g, "weight", LS_SHAPE(LS_F32, 3, 3), (ls_init_t){0});
    ls_tensor_id_t b = ls_graph_param(g, "bias", LS_SHAPE(LS_F32, 3), (ls_init_t){0});
    y = ls_graph_op(g, &ls_op_linear, NULL, 3, (ls_tensor_id_t[]){y, w, b}, NULL);
  }
  ls_graph_scope(g, "top");
  assert_int_equal(ls_graph_backward(g, sum_all(g, y), -1), LS_OK);
  assert_string_equal(g->scope, "top"); /* as it was */
  assert_int_equal(g->phase, LS_PHASE_FORWARD);
  assert_int_equal(count_ops(g, &ls_op_linear_dx, LS_PHASE_BACKWARD), 1);
  const char *want[] = {"fill", "top reduce_dx", "layers.1 linear_dwb", "layers.1 linear_dx",
                        "layers.0 linear_dwb"};
  int first = g->node_count - LS_COUNT(want);
  for (int k = 0; k < LS_COUNT(want); k++)
    assert_string_equal(g->nodes[first + k].name, want[k]);
  assert_runnable(g);
}

static void test_loss_without_parameters(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 2, 3)), p = param(g, "p");
  ls_tensor_id_t loss = sum_all(g, x);
  int nodes = g->node_count;
  assert_int_equal(ls_graph_backward(g, loss, -1), LS_OK);
  assert_int_equal(g->node_count, nodes);
  assert_int_equal(g->tensors[p].grad, -1);
}

/* A parameter that is the loss: its gradient is the seed. */
static void test_loss_is_a_parameter(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = ls_graph_param(g, "p", LS_SHAPE(LS_F32, 1), (ls_init_t){0});
  assert_int_equal(ls_graph_backward(g, p, -1), LS_OK);
  assert_gradient(g, p, "grad.p");
}

static void expect_refusal(void **state, ls_status_t status, const char *part) {
  fixture_t *f = *state;
  assert_int_equal(f->graph->status, status);
  assert_int_equal(ls_ctx_error_count(f->ctx), 1);
  if (!strstr(ls_ctx_error(f->ctx), part)) fail_msg("\"%s\" lacks \"%s\"", ls_ctx_error(f->ctx), part);
}

static void test_loss_must_be_a_scalar(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  assert_int_equal(ls_graph_backward(g, param(g, "p"), -1), LS_ERR_SHAPE);
  expect_refusal(state, LS_ERR_SHAPE, "the loss p is f32 (2, 3), must be f32 (1)");
}

static void test_op_without_gradient(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p");
  ls_graph_scope(g, "here");
  ls_tensor_id_t y = ls_graph_op(g, &ls_op_accumulate, NULL, 1, &p, NULL);
  assert_int_equal(ls_graph_backward(g, sum_all(g, y), -1), LS_ERR_UNSUPPORTED);
  expect_refusal(state, LS_ERR_UNSUPPORTED, "here accumulate: accumulate is not differentiable");
}

static void test_gradient_through_probabilities(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p"), out[3];
  ls_tensor_id_t in[] = {p, ls_graph_input(g, "target", LS_SHAPE(LS_I32, 2)),
                         ls_graph_input(g, "weight", LS_SHAPE(LS_F32, 2))};
  ls_graph_op(g, &ls_op_softmax_xent, NULL, 3, in, out);
  assert_int_equal(ls_graph_backward(g, sum_all(g, out[2]), -1), LS_ERR_UNSUPPORTED);
  expect_refusal(state, LS_ERR_UNSUPPORTED, "take no gradient");
}

static void test_twice(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t loss = sum_all(g, param(g, "p"));
  assert_int_equal(ls_graph_backward(g, loss, -1), LS_OK);
  assert_int_equal(ls_graph_backward(g, loss, -1), LS_ERR_ARGUMENT);
  expect_refusal(state, LS_ERR_ARGUMENT, "has gradients already");
}

/* sum(p * p) at p = 0.5, 1, 1.5, ..: the gradient, by the plain C ops, under a given seed. */
static void gradient_of_squares(ls_ctx_t *ctx, const float *seed, float gradient[6]) {
  ls_graph_t *g;
  assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
  ls_tensor_id_t p = param(g, "p"), scale = seed ? ls_graph_input(g, "loss scale", LS_SHAPE(LS_F32, 1)) : -1;
  assert_int_equal(ls_graph_backward(g, sum_all(g, two(g, &ls_op_mul, p, p)), scale), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_fill, LS_PHASE_BACKWARD), seed ? 0 : 1);
  assert_runnable(g);
  void **memory = graph_memory(g);
  for (int k = 0; k < 6; k++)
    ((float *)memory[p])[k] = 0.5f * (float)(k + 1);
  if (seed) *(float *)memory[scale] = *seed;
  for (int n = 0; n < g->node_count; n++)
    run_node(g, n, memory);
  memcpy(gradient, memory[g->tensors[p].grad], 6 * sizeof *gradient);
  graph_memory_free(g, memory);
  ls_graph_destroy(g);
}

static void test_seed_scales_gradients(void **state) {
  ls_ctx_t *ctx = ((fixture_t *)*state)->ctx;
  float plain[6], one[6], scaled[6];
  gradient_of_squares(ctx, NULL, plain);
  gradient_of_squares(ctx, &(float){1}, one);
  gradient_of_squares(ctx, &(float){1024}, scaled);
  assert_memory_equal(plain, one, sizeof plain);
  for (int k = 0; k < 6; k++) {
    assert_true(plain[k] == (float)(k + 1));
    assert_true(scaled[k] == 1024 * plain[k]);
  }
}

/* The seed itself is no gradient: a parameter that is the loss gets a copy. */
static void test_seed_is_not_taken_for_a_gradient(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = ls_graph_param(g, "p", LS_SHAPE(LS_F32, 1), (ls_init_t){0});
  ls_tensor_id_t seed = ls_graph_input(g, "seed", LS_SHAPE(LS_F32, 1));
  assert_int_equal(ls_graph_backward(g, p, seed), LS_OK);
  assert_int_not_equal(g->tensors[p].grad, seed);
  assert_int_equal(g->tensors[seed].role, LS_ROLE_INPUT);
  assert_runnable(g);
}

static void test_seed_must_be_a_scalar(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t p = param(g, "p");
  assert_int_equal(ls_graph_backward(g, sum_all(g, p), p), LS_ERR_SHAPE);
  expect_refusal(state, LS_ERR_SHAPE, "the seed p is f32 (2, 3), must be f32 (1)");
}

TESTS(set_up, tear_down, test_used_three_times_is_summed, test_two_parameters_never_share_a_gradient,
      test_a_view_is_no_gradient, test_casts_go_back, test_pruning, test_linear_order,
      test_loss_without_parameters, test_loss_is_a_parameter, test_loss_must_be_a_scalar,
      test_op_without_gradient, test_gradient_through_probabilities, test_twice, test_seed_scales_gradients,
      test_seed_is_not_taken_for_a_gradient, test_seed_must_be_a_scalar)
