/* The pass that fuses residual sums with what stands around them: what it finds and leaves, and that the numbers stay. */
#include <string.h>

#include "unit.h"

#include "fixture.h"
#include "passes.h"

enum { ROWS = 3, WIDTH = 6, BLOCKS = 2 };

static ls_tensor_id_t vector(ls_graph_t *g, const char *name) {
  return ls_graph_param(g, name, LS_SHAPE(LS_F32, WIDTH), (ls_init_t){0});
}

static ls_tensor_id_t norm(ls_graph_t *g, ls_tensor_id_t x) {
  const ls_tensor_id_t in[] = {x, vector(g, "gamma"), vector(g, "beta")};
  ls_tensor_id_t out[3] = {-1, -1, -1};
  return ls_graph_op(g, &ls_op_layer_norm, &(ls_attrs_t){.f = {1e-5}}, 3, in, out);
}

/* x += dropout(linear(norm(x))) in every block, or without the dropout, and a norm; or x = norm(x + dropout(linear(x))), which
 * is post-norm; the sum of squares and its gradients. */
static void network(ls_graph_t *g, double rate, bool post) {
  ls_tensor_id_t step = ls_graph_input(g, "step", LS_SHAPE(LS_U8, (int64_t)sizeof(ls_step_params_t)));
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, ROWS, WIDTH));
  for (int block = 0; block <= BLOCKS - post; block++) {
    ls_graph_scope(g, "blocks.%d", block);
    ls_tensor_id_t y = post ? x : norm(g, x);
    if (block < BLOCKS) {
      ls_tensor_id_t w = ls_graph_param(g, "weight", LS_SHAPE(LS_F32, WIDTH, WIDTH), (ls_init_t){0});
      const ls_tensor_id_t in[] = {y, w, vector(g, "bias")};
      y = ls_graph_op(g, &ls_op_linear, NULL, 3, in, NULL);
      const ls_attrs_t drop = {.i = {block}, .f = {rate}};
      if (rate > 0) y = ls_graph_op(g, &ls_op_dropout, &drop, 2, (ls_tensor_id_t[]){y, step}, NULL);
      y = ls_graph_op(g, &ls_op_add, NULL, 2, (ls_tensor_id_t[]){x, y}, NULL);
    }
    x = post ? norm(g, y) : y;
  }
  ls_graph_scope(g, "%s", "");
  x = ls_graph_op(g, &ls_op_mul, NULL, 2, (ls_tensor_id_t[]){x, x}, NULL);
  ls_tensor_id_t loss = ls_graph_op(g, &ls_op_reduce, &(ls_attrs_t){.i = {2}}, 1, &x, NULL);
  ls_graph_rename(g, loss, "loss");
  assert_int_equal(ls_graph_backward(g, loss, -1), LS_OK);
}

static const ls_pass_context_t all = {.has = has_all, .fuse = true};

static void test_residual_sums_and_norms_become_one_op(void **state) {
  static const double rates[] = {0, 0.25};
  for (int i = 0; i < LS_COUNT(rates); i++) {
    ls_graph_t *g;
    assert_int_equal(ls_graph_create(((fixture_t *)*state)->ctx, &g), LS_OK);
    network(g, rates[i], false);
    assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
    assert_int_equal(count_ops(g, &ls_op_residual_norm), BLOCKS);
    assert_int_equal(count_ops(g, &ls_op_layer_norm), 1);
    /* dropout's gradient is a dropout, too; nobody wants the dx of the first norm */
    assert_int_equal(count_ops(g, &ls_op_dropout), 0);
    assert_int_equal(count_ops(g, &ls_op_layer_norm_dx) + count_ops(g, &ls_op_layer_norm_dx_add), 0);
    assert_int_equal(count_ops(g, &ls_op_layer_norm_dgb), 1);
    assert_int_equal(count_ops(g, &ls_op_layer_norm_back), rates[i] > 0 ? 0 : BLOCKS);
    assert_int_equal(count_ops(g, &ls_op_layer_norm_back_drop), rates[i] > 0 ? BLOCKS : 0);
    assert_int_equal(count_ops(g, &ls_op_add), 1); /* of the square's two gradients */
    ls_graph_destroy(g);
  }
}

static void test_fused_bits_are_those_of_single_ops(void **state) {
  static const double rates[] = {0, 0.25};
  for (int i = 0; i < 2 * LS_COUNT(rates); i++) {
    const bool post = i % 2;
    ls_graph_t *g;
    assert_int_equal(ls_graph_create(((fixture_t *)*state)->ctx, &g), LS_OK);
    network(g, rates[i / 2], post);
    passes_keep_bits(g, &all, BLOCKS * (WIDTH * WIDTH + 3 * WIDTH) + (post ? 0 : 2 * WIDTH) + 1);
    ls_graph_destroy(g);
  }
}

/* A dropped summand that others read stays; the sum and the norm are fused all the same. */
static void test_a_dropout_that_others_read_is_left(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t step = ls_graph_input(g, "step", LS_SHAPE(LS_U8, (int64_t)sizeof(ls_step_params_t)));
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, ROWS, WIDTH));
  const ls_attrs_t drop = {.f = {0.5}};
  ls_tensor_id_t y = ls_graph_op(g, &ls_op_dropout, &drop, 2, (ls_tensor_id_t[]){x, step}, NULL);
  ls_tensor_id_t sum = ls_graph_op(g, &ls_op_add, NULL, 2, (ls_tensor_id_t[]){x, y}, NULL);
  ls_graph_op(g, &ls_op_mul, NULL, 2, (ls_tensor_id_t[]){norm(g, sum), y}, NULL);
  assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_dropout), 1);
  assert_int_equal(count_ops(g, &ls_op_residual_norm), 1);
  assert_int_equal(count_ops(g, &ls_op_add), 0);
}

static void test_a_product_adds_the_gradient_that_goes_past_it(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  network(g, 0.25, true);
  assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_linear_dx_add), BLOCKS - 1); /* nobody wants that of the input */
  assert_int_equal(count_ops(g, &ls_op_linear_dx), 0);
  assert_int_equal(count_ops(g, &ls_op_add), 1); /* of the square's two gradients */
}

/* If the backend has no op for all of a norm's gradient, dx and its addend still become one. */
static bool has_no_back(const void *backend, const char *op, ls_dtype_t low) {
  (void)backend, (void)low;
  return strncmp(op, "layer_norm_back", strlen("layer_norm_back")) != 0;
}
static void test_gradients_apart_where_the_backend_has_none_together(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  network(g, 0.25, false);
  assert_int_equal(ls_graph_run_passes(g, &(ls_pass_context_t){.has = has_no_back, .fuse = true}), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_layer_norm_dx_add), BLOCKS - 1);
  assert_int_equal(count_ops(g, &ls_op_layer_norm_dgb), BLOCKS + 1);
  assert_int_equal(count_ops(g, &ls_op_dropout), BLOCKS);
}

TESTS(set_up, tear_down, test_residual_sums_and_norms_become_one_op, test_fused_bits_are_those_of_single_ops,
      test_a_dropout_that_others_read_is_left, test_a_product_adds_the_gradient_that_goes_past_it,
      test_gradients_apart_where_the_backend_has_none_together)
