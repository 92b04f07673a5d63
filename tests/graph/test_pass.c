/* Passes: what the fusing one finds and leaves, and that the numbers stay. */
#include <string.h>

#include "unit.h"

#include "fixture.h"
#include "passes.h"

static bool has_that(const void *backend, const char *op, ls_dtype_t low) {
  (void)low;
  return strcmp(backend, op) == 0;
}

enum { PRECISION, FUSE }; /* their places in the list */
static const ls_pass_context_t all = {.has = has_all, .fuse = true};

static ls_tensor_id_t dense(ls_graph_t *g, int layer, ls_tensor_id_t x, const ls_op_t *activation) {
  ls_graph_scope(g, "layers.%d", layer);
  ls_tensor_id_t w = ls_graph_param(g, "weight", LS_SHAPE(LS_F32, 5, 5), (ls_init_t){0});
  ls_tensor_id_t b = ls_graph_param(g, "bias", LS_SHAPE(LS_F32, 5), (ls_init_t){0});
  ls_tensor_id_t y = ls_graph_op(g, &ls_op_linear, NULL, 3, (ls_tensor_id_t[]){x, w, b}, NULL);
  if (activation) y = ls_graph_op(g, activation, NULL, 1, &y, NULL);
  ls_graph_scope(g, "%s", "");
  return y;
}

/* linear relu, linear gelu, linear relu, linear, and the gradients of the sum of squares. */
static void network(ls_graph_t *g) {
  static const ls_op_t *const activations[] = {&ls_op_relu, &ls_op_gelu, &ls_op_relu, NULL};
  ls_tensor_id_t y = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 4, 5));
  for (int layer = 0; layer < 4; layer++)
    y = dense(g, layer, y, activations[layer]);
  y = ls_graph_op(g, &ls_op_mul, NULL, 2, (ls_tensor_id_t[]){y, y}, NULL);
  ls_tensor_id_t loss = ls_graph_op(g, &ls_op_reduce, &(ls_attrs_t){.i = {2}}, 1, &y, NULL);
  ls_graph_rename(g, loss, "loss");
  assert_int_equal(ls_graph_backward(g, loss, -1), LS_OK);
}

static void test_linear_and_relu_become_one_op(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  network(g);
  int nodes = g->node_count;
  assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
  assert_string_equal(ls_graph_passes[FUSE]->name, "fuse_activation");
  assert_int_equal(g->pass_changes[FUSE], 2);
  assert_int_equal(g->node_count, nodes - 2);
  assert_int_equal(count_ops(g, &ls_op_linear_relu), 2);
  assert_int_equal(count_ops(g, &ls_op_linear), 2);
  assert_int_equal(count_ops(g, &ls_op_relu), 0);
  assert_int_equal(count_ops(g, &ls_op_relu_dy), 2);
  assert_string_equal(g->nodes[0].name, "layers.0 linear_relu");
  assert_int_equal(g->tensors[ls_graph_find(g, "layers.0.relu")].producer, 0);
  assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
  assert_int_equal(g->pass_changes[FUSE], 0);
}

static void test_fused_bits_are_those_of_two_ops(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  network(g);
  passes_keep_bits(g, &all, 4 * (25 + 5) + 1);
}

static void test_nothing_is_fused_without_a_kernel_or_leave(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  network(g);
  int nodes = g->node_count;
  const ls_pass_context_t contexts[] = {{.has = has_all, .fuse = false},
                                        {.has = has_that, .backend = "relu", .fuse = true}};
  for (int i = 0; i < LS_COUNT(contexts); i++) {
    assert_int_equal(ls_graph_run_passes(g, &contexts[i]), LS_OK);
    assert_int_equal(g->pass_changes[FUSE], 0);
    assert_int_equal(g->node_count, nodes);
  }
}

static void test_what_others_read_is_not_fused_away(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 4, 5));
  ls_tensor_id_t y = dense(g, 0, x, NULL), z = dense(g, 1, x, NULL);
  ls_graph_op(g, &ls_op_relu, NULL, 1, &y, NULL);
  ls_graph_op(g, &ls_op_tanh, NULL, 1, &y, NULL);
  ls_graph_op(g, &ls_op_relu, NULL, 1, &z, NULL);
  ls_graph_rename(g, z, "output");
  assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
  assert_int_equal(g->pass_changes[FUSE], 0);
}

static ls_dtype_t dtype_of(const ls_graph_t *g, const char *name) {
  return g->tensors[ls_graph_find(g, name)].shape.dtype;
}

/* The input and the parameters are cast once, values between ops are low, and what has f32 alone is cast back. The
 * parameters' gradients are f32 whatever computes them. */
static void test_ops_that_can_run_low(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  network(g);
  int params = 0, linear = count_ops(g, &ls_op_linear);
  const ls_pass_context_t context = {.has = has_all, .low = LS_BF16};
  assert_int_equal(ls_graph_run_passes(g, &context), LS_OK);
  for (int id = 0; id < g->tensor_count; id++) {
    const ls_graph_tensor_t *t = &g->tensors[id];
    if (t->role <= LS_ROLE_STATE || t->role == LS_ROLE_PARAM_GRAD) assert_int_equal(t->shape.dtype, LS_F32);
    params += t->role == LS_ROLE_PARAM;
    if (t->role == LS_ROLE_PARAM) assert_int_equal(g->tensors[t->grad].role, LS_ROLE_PARAM_GRAD);
  }
  assert_int_equal(count_ops(g, &ls_op_linear), linear);
  assert_int_equal(dtype_of(g, "layers.1.gelu"), LS_BF16);
  assert_int_equal(dtype_of(g, "layers.3.linear"), LS_BF16);
  assert_int_equal(dtype_of(g, "loss"), LS_F32);
  /* x, the parameters, the product before reduce, and what reduce_dx makes */
  assert_int_equal(count_ops(g, &ls_op_cast), 1 + params + 2);
  assert_int_equal(g->pass_changes[PRECISION], 1 + params + 2);
  assert_int_equal(count_ops(g, &ls_op_fill), 1);
}

static void test_fp16_begins_with_the_loss_scale(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  network(g);
  const ls_pass_context_t context = {.has = has_all, .low = LS_F16, .fuse = true};
  assert_int_equal(ls_graph_run_passes(g, &context), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_fill), 0);
  assert_int_equal(count_ops(g, &ls_op_loss_scale), 1);
  assert_int_equal(count_ops(g, &ls_op_linear_relu), 2);
  assert_int_equal(g->tensors[ls_graph_find(g, LS_COUNTER_NAME)].role, LS_ROLE_INPUT);
  assert_int_equal(dtype_of(g, "layers.0.relu"), LS_F16);
}

/* Without gradients a value that is looked up by name keeps its dtype: a cast makes it, or its op stays f32. */
static void test_looked_up_values_stay_f32(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t y = dense(g, 0, ls_graph_input(g, "x", LS_SHAPE(LS_F32, 4, 5)), NULL);
  ls_tensor_id_t flat = ls_graph_op(g, &ls_op_reshape, &(ls_attrs_t){.i = {1, 20}}, 1, &y, NULL);
  ls_tensor_id_t bent = ls_graph_op(g, &ls_op_tanh, NULL, 1, &y, NULL);
  ls_tensor_id_t wide = ls_graph_op(g, &ls_op_relu, NULL, 1, &bent, NULL);
  ls_graph_rename(g, y, "output");
  ls_graph_rename(g, flat, "flat");
  ls_graph_rename(g, wide, "wide");
  const ls_pass_context_t context = {.has = has_all, .low = LS_F16};
  assert_int_equal(ls_graph_run_passes(g, &context), LS_OK);
  assert_int_equal(dtype_of(g, "output"), LS_F32);
  assert_int_equal(dtype_of(g, "flat"), LS_F32);
  assert_int_equal(dtype_of(g, "wide"), LS_F32);
  assert_ptr_equal(g->nodes[g->tensors[y].producer].op, &ls_op_cast);
  assert_ptr_equal(g->nodes[g->tensors[wide].producer].op, &ls_op_relu);
}

/* Each allocation of building and rewriting fails once; no failure leaves a graph that counts as whole. */
static void test_every_allocation_fails_once(void **state) {
  ls_ctx_t *ctx = ((fixture_t *)*state)->ctx;
  const ls_pass_context_t low = {.has = has_all, .low = LS_F16, .fuse = true};
  bool through = false;
  for (int64_t n = 1; !through; n++) {
    ls_graph_t *g;
    assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
    network(g);
    ls_ctx_clear(ctx);
    ls_ctx_fail_alloc(ctx, n);
    ls_status_t status = ls_graph_run_passes(g, &low);
    ls_ctx_fail_alloc(ctx, 0);
    through = status == LS_OK;
    if (!through) assert_int_equal(status, LS_ERR_MEMORY);
    ls_graph_destroy(g);
    if (!through) assert_true(n < 100);
  }
}

TESTS(set_up, tear_down, test_linear_and_relu_become_one_op, test_fused_bits_are_those_of_two_ops,
      test_nothing_is_fused_without_a_kernel_or_leave, test_what_others_read_is_not_fused_away,
      test_ops_that_can_run_low, test_fp16_begins_with_the_loss_scale, test_looked_up_values_stay_f32,
      test_every_allocation_fails_once)
