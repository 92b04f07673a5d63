/* The passes fuse_norm, fuse_scale and align_classes: what they find, and that gradients keep their bits. */
#include <string.h>

#include "unit.h"

#include "fixture.h"
#include "passes.h"

enum { ROWS = 3, POSITIONS = 4, CHANNELS = 5 };

static bool has_all_but_linear_relu(const void *backend, const char *op, ls_dtype_t low) {
  (void)low;
  (void)backend;
  return strcmp(op, "linear_relu") != 0;
}
static const ls_pass_context_t all = {.has = has_all_but_linear_relu, .fuse = true};

/* A product over channels and its batch norm. */
static ls_tensor_id_t norm(ls_graph_t *g, int layer, ls_tensor_id_t x, ls_tensor_id_t weight) {
  const ls_attrs_t eps = {.f = {1e-3}};
  ls_graph_scope(g, "layers.%d", layer);
  ls_tensor_id_t w = ls_graph_param(g, "weight", LS_SHAPE(LS_F32, CHANNELS, CHANNELS), (ls_init_t){0});
  ls_tensor_id_t b = ls_graph_param(g, "bias", LS_SHAPE(LS_F32, CHANNELS), (ls_init_t){0});
  ls_tensor_id_t gamma = ls_graph_param(g, "gamma", LS_SHAPE(LS_F32, CHANNELS), (ls_init_t){0});
  ls_tensor_id_t beta = ls_graph_param(g, "beta", LS_SHAPE(LS_F32, CHANNELS), (ls_init_t){0});
  ls_tensor_id_t out[2], y = ls_graph_op(g, &ls_op_linear, NULL, 3, (ls_tensor_id_t[]){x, w, b}, NULL);
  ls_tensor_id_t sums = ls_graph_op(g, &ls_op_bn_sums, NULL, 3, (ls_tensor_id_t[]){y, weight, beta}, NULL);
  ls_graph_op(g, &ls_op_bn_moments, &eps, 2, (ls_tensor_id_t[]){sums, beta}, out);
  y = ls_graph_op(g, &ls_op_bn_apply, NULL, 5, (ls_tensor_id_t[]){y, out[0], out[1], gamma, beta}, NULL);
  ls_graph_scope(g, "%s", "");
  return y;
}

static ls_tensor_id_t one(ls_graph_t *g, const ls_op_t *op, ls_tensor_id_t x) {
  return ls_graph_op(g, op, NULL, 1, &x, NULL);
}
static ls_tensor_id_t two(ls_graph_t *g, const ls_op_t *op, ls_tensor_id_t a, ls_tensor_id_t b) {
  return ls_graph_op(g, op, NULL, 2, (ls_tensor_id_t[]){a, b}, NULL);
}

/* relu, silu, relu of a sum with the first, a sum with nothing behind it; the loss is the sum of squares. */
static void network(ls_graph_t *g) {
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, ROWS, POSITIONS, CHANNELS));
  ls_tensor_id_t weight = ls_graph_input(g, "weight", LS_SHAPE(LS_F32, ROWS));
  ls_tensor_id_t first = one(g, &ls_op_relu, norm(g, 0, x, weight));
  ls_tensor_id_t y = one(g, &ls_op_silu, norm(g, 1, first, weight));
  y = one(g, &ls_op_relu, two(g, &ls_op_add, norm(g, 2, y, weight), first));
  y = two(g, &ls_op_add, y, norm(g, 3, y, weight));
  y = two(g, &ls_op_mul, y, y);
  ls_tensor_id_t loss = ls_graph_op(g, &ls_op_reduce, &(ls_attrs_t){.i = {3}}, 1, &y, NULL);
  ls_graph_rename(g, loss, "loss");
  assert_int_equal(ls_graph_backward(g, loss, -1), LS_OK);
}

/* Squeeze and excitation of a product over channels. */
static void squeeze(ls_graph_t *g) {
  const ls_attrs_t flat = {.i = {3, ROWS, POSITIONS, CHANNELS}},
                   image = {.i = {4, ROWS, 2, POSITIONS / 2, CHANNELS}};
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, ROWS, POSITIONS, CHANNELS));
  ls_tensor_id_t w = ls_graph_param(g, "w", LS_SHAPE(LS_F32, CHANNELS, CHANNELS), (ls_init_t){0});
  ls_tensor_id_t b = ls_graph_param(g, "b", LS_SHAPE(LS_F32, CHANNELS), (ls_init_t){0});
  ls_tensor_id_t y = ls_graph_op(g, &ls_op_linear, NULL, 3, (ls_tensor_id_t[]){x, w, b}, NULL);
  y = ls_graph_op(g, &ls_op_reshape, &image, 1, &y, NULL);
  ls_tensor_id_t s = ls_graph_op(g, &ls_op_reshape, &flat, 1, &y, NULL);
  y = two(g, &ls_op_scale_channels, y, one(g, &ls_op_sigmoid, one(g, &ls_op_mean_positions, s)));
  y = two(g, &ls_op_mul, y, y);
  ls_tensor_id_t loss = ls_graph_op(g, &ls_op_reduce, &(ls_attrs_t){.i = {4}}, 1, &y, NULL);
  ls_graph_rename(g, loss, "loss");
  assert_int_equal(ls_graph_backward(g, loss, -1), LS_OK);
}

static void test_norms_take_in_what_is_behind_them(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  network(g);
  assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_bn_act), 2);
  assert_int_equal(count_ops(g, &ls_op_bn_add_act), 2);
  assert_int_equal(count_ops(g, &ls_op_bn_apply), 0);
  assert_int_equal(count_ops(g, &ls_op_bn_act_back_sums), 2);
  assert_int_equal(count_ops(g, &ls_op_bn_act_dx), 2);
  assert_int_equal(count_ops(g, &ls_op_relu), 0);
  assert_int_equal(count_ops(g, &ls_op_bn_add_act_back_sums), 1); /* of the sum: two read its relu */
  assert_int_equal(count_ops(g, &ls_op_relu_dy), 0);
  assert_int_equal(count_ops(g, &ls_op_silu_dx), 0);
}

static void test_the_gradients_of_a_value_and_of_its_mean_are_one_op(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  squeeze(g);
  assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_scale_add_mean), 1);
  assert_int_equal(count_ops(g, &ls_op_scale_channels), 1);
  assert_int_equal(count_ops(g, &ls_op_mean_positions_dx), 0);
  assert_int_equal(count_ops(g, &ls_op_add), 1); /* of y y */
}

static void test_no_norm_is_fused_without_leave(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  network(g);
  int nodes = g->node_count;
  assert_int_equal(ls_graph_run_passes(g, &(ls_pass_context_t){.has = has_all_but_linear_relu}), LS_OK);
  assert_int_equal(g->node_count, nodes);
}

static void test_fused_norms_keep_the_bits(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  network(g);
  passes_keep_bits(g, &all, 4 * CHANNELS * (CHANNELS + 3) + 1);
}

static void test_fused_scales_keep_the_bits(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  squeeze(g);
  passes_keep_bits(g, &all, CHANNELS * (CHANNELS + 1) + 1);
}

/* Two layers whose logits have CLASSES columns, seen as positions of samples, as flat samples and as rows on their way
 * to the loss of classes, as a model of positions builds them. */
enum { CLASSES = 67 };
static void classes(ls_graph_t *g) {
  const ls_attrs_t positions = {.i = {3, ROWS, POSITIONS, CLASSES}},
                   sample = {.i = {2, ROWS, POSITIONS * CLASSES}},
                   flat = {.i = {2, ROWS * POSITIONS, CLASSES}}, smoothing = {.f = {0.1}};
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, ROWS * POSITIONS, CHANNELS));
  ls_tensor_id_t target = ls_graph_input(g, "target", LS_SHAPE(LS_I32, ROWS * POSITIONS));
  ls_tensor_id_t weight = ls_graph_input(g, "weight", LS_SHAPE(LS_F32, ROWS * POSITIONS));
  ls_tensor_id_t v = ls_graph_param(g, "v", LS_SHAPE(LS_F32, CHANNELS, CHANNELS), (ls_init_t){0});
  ls_tensor_id_t c = ls_graph_param(g, "c", LS_SHAPE(LS_F32, CHANNELS), (ls_init_t){0});
  ls_tensor_id_t w = ls_graph_param(g, "w", LS_SHAPE(LS_F32, CLASSES, CHANNELS), (ls_init_t){0});
  ls_tensor_id_t b = ls_graph_param(g, "b", LS_SHAPE(LS_F32, CLASSES), (ls_init_t){0});
  ls_tensor_id_t out[3], y = ls_graph_op(g, &ls_op_linear, NULL, 3, (ls_tensor_id_t[]){x, v, c}, NULL);
  y = ls_graph_op(g, &ls_op_linear, NULL, 3, (ls_tensor_id_t[]){y, w, b}, NULL);
  y = ls_graph_op(g, &ls_op_reshape, &positions, 1, &y, NULL);
  y = ls_graph_op(g, &ls_op_reshape, &sample, 1, &y, NULL);
  y = ls_graph_op(g, &ls_op_reshape, &flat, 1, &y, NULL);
  ls_graph_op(g, &ls_op_softmax_xent, &smoothing, 3, (ls_tensor_id_t[]){y, target, weight}, out);
  ls_graph_rename(g, out[0], "loss");
  assert_int_equal(ls_graph_backward(g, out[0], -1), LS_OK);
}

static void test_rows_of_logits_are_whole(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  classes(g);
  assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_resize_rows), 4); /* w and b, and their gradients */
  for (int n = 0; n < g->node_count; n++)
    if (g->nodes[n].op == &ls_op_softmax_xent)
      assert_int_equal(g->tensors[g->nodes[n].in[0]].shape.dim[1], (CLASSES + 7) / 8 * 8);
  int nodes = g->node_count;
  assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
  assert_int_equal(g->node_count, nodes);
}

static void test_whole_rows_of_logits_keep_the_bits(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  classes(g);
  passes_keep_bits(g, &all, (CHANNELS + CLASSES) * (CHANNELS + 1) + 1);
}

/* Another reader of logits expects as many columns as classes. */
static void test_logits_that_others_read_stay(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  classes(g);
  ls_tensor_id_t logits = ls_graph_find(g, "linear");
  for (int n = 0; n < g->node_count; n++)
    if (g->nodes[n].op == &ls_op_linear) logits = g->nodes[n].out[0];
  ls_graph_op(g, &ls_op_tanh, NULL, 1, &logits, NULL);
  assert_int_equal(ls_graph_run_passes(g, &all), LS_OK);
  assert_int_equal(count_ops(g, &ls_op_resize_rows), 0);
}

TESTS(set_up, tear_down, test_norms_take_in_what_is_behind_them, test_no_norm_is_fused_without_leave,
      test_fused_norms_keep_the_bits, test_the_gradients_of_a_value_and_of_its_mean_are_one_op,
      test_fused_scales_keep_the_bits, test_rows_of_logits_are_whole, test_whole_rows_of_logits_keep_the_bits,
      test_logits_that_others_read_stay)
