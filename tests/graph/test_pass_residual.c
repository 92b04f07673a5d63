/* The pass that fuses residual sums with what stands around them: what it finds and leaves, and that the numbers stay. */
#include "graph/ops/ops.h"
#include "graph/pass/pass.h"

#include <string.h>

#include "unit.h"

#include "fixture.h"
#include "run_graph.h"

enum { ROWS = 3, WIDTH = 6, BLOCKS = 2 };

static bool has_all(const void *backend, const char *op, ls_dtype_t low) {
  (void)backend, (void)op, (void)low;
  return true;
}

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

static int count_ops(const ls_graph_t *g, const ls_op_t *op) {
  int count = 0;
  for (int n = 0; n < g->node_count; n++)
    count += g->nodes[n].op == op;
  return count;
}

/* Every parameter's gradient and the loss, one behind the other. */
static int values(ls_ctx_t *ctx, double rate, bool post, const ls_pass_context_t *context, float *to) {
  ls_graph_t *g;
  int count = 0;
  assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
  network(g, rate, post);
  if (context) assert_int_equal(ls_graph_run_passes(g, context), LS_OK);
  void **memory = graph_memory(g);
  for (int id = 0; id < g->tensor_count; id++) {
    if (g->tensors[id].producer >= 0) continue;
    if (g->tensors[id].shape.dtype == LS_U8)
      memcpy(memory[id], &(ls_step_params_t){.seed = 5, .position = 11}, sizeof(ls_step_params_t));
    else
      for (int64_t k = 0; k < ls_shape_count(&g->tensors[id].shape); k++)
        ((float *)memory[id])[k] = 0.3f * (float)((k * 7 + id * 5) % 11 - 5);
  }
  for (int n = 0; n < g->node_count; n++)
    run_node(g, n, memory);
  for (int id = 0; id < g->tensor_count; id++) {
    const ls_graph_tensor_t *t = &g->tensors[id];
    if (t->role != LS_ROLE_PARAM_GRAD && strcmp(t->name, "loss") != 0) continue;
    memcpy(to + count, memory[id], ls_shape_bytes(&t->shape));
    count += (int)ls_shape_count(&t->shape);
  }
  graph_memory_free(g, memory);
  ls_graph_destroy(g);
  return count;
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
    ls_ctx_t *ctx = ((fixture_t *)*state)->ctx;
    float apart[400], fused[400];
    bool post = i % 2;
    int count = values(ctx, rates[i / 2], post, NULL, apart);
    assert_int_equal(count, BLOCKS * (WIDTH * WIDTH + 3 * WIDTH) + (post ? 0 : 2 * WIDTH) + 1);
    assert_int_equal(values(ctx, rates[i / 2], post, &all, fused), count);
    assert_memory_equal(apart, fused, (size_t)count * sizeof *apart);
    assert_true(apart[0] != 0);
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

/* Where the backend has no op for all of a norm's gradient, dx and what it is added to still become one. */
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

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_residual_sums_and_norms_become_one_op),
      TEST(test_fused_bits_are_those_of_single_ops),
      TEST(test_a_dropout_that_others_read_is_left),
      TEST(test_a_product_adds_the_gradient_that_goes_past_it),
      TEST(test_gradients_apart_where_the_backend_has_none_together),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
