/* The builder: names, shapes, sticky errors, counting, text; and every allocation made to fail once. */
#include "graph/ops/ops.h"

#include <string.h>

#include "unit.h"

#include "fixture.h"
#include "graph_text.h"

static const ls_init_t kaiming = {.kind = LS_INIT_KAIMING};

/* A dense layer with relu, as the model module builds it. */
static ls_tensor_id_t dense(ls_graph_t *graph, int layer, ls_tensor_id_t x, int64_t inputs, int64_t outputs) {
  ls_graph_scope(graph, "layers.%d", layer);
  ls_tensor_id_t w = ls_graph_param(graph, "weight", LS_SHAPE(LS_F32, outputs, inputs), kaiming);
  ls_tensor_id_t b = ls_graph_param(graph, "bias", LS_SHAPE(LS_F32, outputs), (ls_init_t){0});
  ls_tensor_id_t y = ls_graph_op(graph, &ls_op_linear, NULL, 3, (ls_tensor_id_t[]){x, w, b}, NULL);
  y = ls_graph_op(graph, &ls_op_relu, NULL, 1, &y, NULL);
  ls_graph_scope(graph, "%s", "");
  return y;
}

/* Two layers and a loss over 4 samples: 5 -> 3 -> 2. */
static ls_tensor_id_t small_network(ls_graph_t *graph) {
  ls_tensor_id_t x = ls_graph_input(graph, "x", LS_SHAPE(LS_F32, 4, 5));
  ls_tensor_id_t target = ls_graph_input(graph, "target", LS_SHAPE(LS_I32, 4));
  ls_tensor_id_t weight = ls_graph_input(graph, "weight", LS_SHAPE(LS_F32, 4));
  ls_tensor_id_t y = dense(graph, 1, dense(graph, 0, x, 5, 3), 3, 2);
  ls_tensor_id_t out[3] = {-1, -1, -1};
  ls_graph_op(graph, &ls_op_softmax_xent, NULL, 3, (ls_tensor_id_t[]){y, target, weight}, out);
  if (out[0] >= 0) ls_graph_rename(graph, out[0], "loss");
  return out[0];
}

static void test_names_roles_and_shapes(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t loss = small_network(g);
  assert_int_equal(g->status, LS_OK);
  assert_int_equal(ls_graph_find(g, "loss"), loss);
  assert_int_equal(ls_graph_find(g, "x"), 0);
  assert_int_equal(ls_graph_find(g, "nothing"), -1);
  ls_tensor_id_t w = ls_graph_find(g, "layers.1.weight"), y = ls_graph_find(g, "layers.1.linear");
  assert_true(w > 0 && y > w);
  assert_int_equal(g->tensors[w].role, LS_ROLE_PARAM);
  assert_int_equal(g->tensors[w].init.kind, LS_INIT_KAIMING);
  assert_int_equal(g->tensors[w].producer, -1);
  assert_int_equal(g->tensors[y].role, LS_ROLE_VALUE);
  assert_true(ls_shape_equal(&g->tensors[y].shape, &LS_SHAPE(LS_F32, 4, 2)));
  const ls_graph_node_t *node = &g->nodes[g->tensors[y].producer];
  assert_string_equal(node->name, "layers.1 linear");
  assert_int_equal(node->phase, LS_PHASE_FORWARD);
  assert_true(ls_graph_find(g, "softmax_xent:2") > 0);
  assert_int_equal(ls_graph_param_count(g), 5 * 3 + 3 + 3 * 2 + 2);
}

/* linear 2 n i o each way, plus n o for the bias in its gradient; relu one an element; the loss as its row
 * says. */
static void test_flops(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t loss = small_network(g);
  assert_int_equal(ls_graph_flops(g, LS_PHASE_FORWARD),
                   2 * 4 * 5 * 3 + 4 * 3 + 2 * 4 * 3 * 2 + 4 * 2 + 8 * 8);
  assert_int_equal(ls_graph_flops(g, LS_PHASE_BACKWARD), 0);
  assert_int_equal(ls_graph_backward(g, loss, -1), LS_OK);
  int64_t first = 2 * 4 * 5 * 3 + 4 * 3, second = 2 * 4 * 3 * 2 * 2 + 4 * 2;
  assert_int_equal(ls_graph_flops(g, LS_PHASE_BACKWARD), 2 * 8 + 4 * 2 + second + 4 * 3 + first);
}

static void test_bytes(void **state) {
  ls_shape_t x = LS_SHAPE(LS_F32, 3, 5);
  assert_int_equal(ls_op_bytes(&ls_op_relu, NULL, &x, &x), 2 * 60);
  assert_int_equal(ls_op_bytes(&ls_op_accumulate, NULL, &x, &x), 3 * 60); /* reads and writes acc */
  assert_int_equal(ls_op_bytes(&ls_op_reshape, NULL, &x, &x), 0);
}

static void test_table(void **state) {
  assert_ptr_equal(ls_op_find("linear_dwb"), &ls_op_linear_dwb);
  assert_null(ls_op_find("linea"));
  for (int i = 0; ls_ops[i]; i++) {
    const ls_op_t *op = ls_ops[i];
    assert_ptr_equal(ls_op_find(op->name), op); /* no name twice */
    assert_non_null(op->forward);
    assert_int_not_equal(op->class, LS_OP_OTHER);
    assert_true(op->in_count <= LS_NODE_IN_MAX && op->out_count <= LS_NODE_OUT_MAX);
  }
}

static void test_reshape_is_a_view(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 2, 6));
  ls_attrs_t three = {.i = {3, 2, 3, 2}}, flat = {.i = {1, 12}};
  ls_tensor_id_t y = ls_graph_op(g, &ls_op_reshape, &three, 1, &x, NULL);
  ls_tensor_id_t z = ls_graph_op(g, &ls_op_reshape, &flat, 1, &y, NULL);
  assert_int_equal(g->tensors[y].alias_of, x);
  assert_int_equal(g->tensors[z].alias_of, x); /* the owner of the bytes, not the view between */
  assert_true(ls_shape_equal(&g->tensors[y].shape, &LS_SHAPE(LS_F32, 2, 3, 2)));
}

static void expect_refusal(void **state, ls_status_t status, const char *part) {
  fixture_t *f = *state;
  assert_int_equal(f->graph->status, status);
  assert_int_equal(ls_ctx_error_count(f->ctx), 1);
  if (!strstr(ls_ctx_error(f->ctx), part)) fail_msg("\"%s\" lacks \"%s\"", ls_ctx_error(f->ctx), part);
}

static void test_shape_error_names_place_op_and_shapes(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 4, 5));
  ls_tensor_id_t y = dense(g, 7, x, 6, 3);
  assert_int_equal(y, -1);
  expect_refusal(state, LS_ERR_SHAPE,
                 "layers.7 linear: x f32 (4, 5) and w f32 (3, 6) must have the same last dimension");
  /* and nothing happens any more, silently */
  int tensors = g->tensor_count;
  assert_int_equal(ls_graph_input(g, "z", LS_SHAPE(LS_F32, 1)), -1);
  assert_int_equal(dense(g, 8, x, 5, 3), -1);
  assert_int_equal(ls_graph_backward(g, x, -1), LS_ERR_SHAPE);
  assert_int_equal(g->tensor_count, tensors);
  assert_int_equal(ls_ctx_error_count(((fixture_t *)*state)->ctx), 1);
}

static void test_two_tensors_of_one_name(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_graph_scope(g, "a");
  ls_graph_input(g, "x", LS_SHAPE(LS_F32, 1));
  ls_graph_scope(g, "%s", "");
  ls_graph_param(g, "a.x", LS_SHAPE(LS_F32, 1), kaiming);
  expect_refusal(state, LS_ERR_ARGUMENT, "two tensors named a.x");
}

static void test_wrong_input_count(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 1));
  assert_int_equal(ls_graph_op(g, &ls_op_add, NULL, 1, &x, NULL), -1);
  expect_refusal(state, LS_ERR_ARGUMENT, "add in the graph: takes 2 inputs, got 1");
}

static void test_input_of_no_graph(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = 3;
  assert_int_equal(ls_graph_op(g, &ls_op_relu, NULL, 1, &x, NULL), -1);
  expect_refusal(state, LS_ERR_ARGUMENT, "input 0 is no tensor");
}

static void test_sizes_that_overflow(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_graph_input(g, "x", LS_SHAPE(LS_F32, INT64_MAX / 2, 4));
  expect_refusal(state, LS_ERR_SHAPE, "tensor x");
}

static void test_empty_dimension(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_graph_input(g, "x", LS_SHAPE(LS_F32, 4, 0));
  expect_refusal(state, LS_ERR_SHAPE, "at least 1");
}

static void test_product_of_outputs_that_overflows(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_attrs_t attrs = {.i = {INT64_MAX}, .f = {1}};
  assert_int_equal(ls_graph_op(g, &ls_op_fill, &attrs, 0, NULL, NULL), -1);
  expect_refusal(state, LS_ERR_SHAPE, "tensor fill");
}

typedef struct {
  const char *part; /* of the message */
  const ls_op_t *op;
  ls_attrs_t attrs;
  int in_count;
  ls_shape_t in[LS_NODE_IN_MAX];
} refusal_t;

#define SHAPE(type, ...)                                                                                     \
  {                                                                                                          \
    .dtype = (type), .rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), .dim = { __VA_ARGS__ }             \
  }

static const refusal_t refusals[] = {
    {"x is i32", &ls_op_relu, {{0}}, 1, {SHAPE(LS_I32, 3)}},
    {"must have the same shape", &ls_op_add, {{0}}, 2, {SHAPE(LS_F32, 3), SHAPE(LS_F32, 4)}},
    {"at least 2 dimensions",
     &ls_op_linear,
     {{0}},
     3,
     {SHAPE(LS_F32, 3), SHAPE(LS_F32, 2, 3), SHAPE(LS_F32, 2)}},
    {"b is f32 (3), must be f32 (2)",
     &ls_op_linear,
     {{0}},
     3,
     {SHAPE(LS_F32, 4, 3), SHAPE(LS_F32, 2, 3), SHAPE(LS_F32, 3)}},
    {"must have the same rows", &ls_op_linear_dwb, {{0}}, 2, {SHAPE(LS_F32, 4, 3), SHAPE(LS_F32, 5, 3)}},
    {"rate 1 must", &ls_op_dropout, {.f = {1}}, 2, {SHAPE(LS_F32, 3), SHAPE(LS_U8, 64)}},
    {"step is u8 (63)", &ls_op_dropout, {.f = {0.5}}, 2, {SHAPE(LS_F32, 3), SHAPE(LS_U8, 63)}},
    {"gamma is", &ls_op_layer_norm, {{0}}, 3, {SHAPE(LS_F32, 4, 3), SHAPE(LS_F32, 4), SHAPE(LS_F32, 3)}},
    {"cannot reduce 3 dimensions", &ls_op_reduce, {.i = {3}}, 1, {SHAPE(LS_F32, 4, 3)}},
    {"cannot reduce 0 dimensions", &ls_op_reduce, {.i = {0}}, 1, {SHAPE(LS_F32, 4, 3)}},
    {"does not have the elements", &ls_op_reshape, {.i = {2, 5, 2}}, 1, {SHAPE(LS_F32, 4, 3)}},
    {"does not have the elements", &ls_op_reshape, {.i = {2, -4, -3}}, 1, {SHAPE(LS_F32, 4, 3)}},
    {"cannot get 7 dimensions", &ls_op_reshape, {.i = {7, 4, 3, 1}}, 1, {SHAPE(LS_F32, 4, 3)}},
    {"target i32 (3)",
     &ls_op_softmax_xent,
     {{0}},
     3,
     {SHAPE(LS_F32, 4, 3), SHAPE(LS_I32, 3), SHAPE(LS_F32, 4)}},
    {"weight is f32 (3)", &ls_op_mse, {{0}}, 3, {SHAPE(LS_F32, 4, 3), SHAPE(LS_F32, 4, 3), SHAPE(LS_F32, 3)}},
    {"at least 1", &ls_op_fill, {.i = {0}}, 0, {SHAPE(LS_F32, 1)}},
};

static void test_every_rule_refuses(void **state) {
  fixture_t *f = *state;
  for (int k = 0; k < LS_COUNT(refusals); k++) {
    const refusal_t *r = &refusals[k];
    ls_shape_t out[LS_NODE_OUT_MAX];
    ls_ctx_clear(f->ctx);
    ls_status_t status = r->op->shape(f->ctx, &r->attrs, r->in, out);
    if (status != LS_ERR_SHAPE && status != LS_ERR_ARGUMENT) fail_msg("row %d is accepted", k);
    assert_int_equal(ls_ctx_error_count(f->ctx), 1);
    if (!strstr(ls_ctx_error(f->ctx), r->part))
      fail_msg("\"%s\" lacks \"%s\"", ls_ctx_error(f->ctx), r->part);
  }
}

static void test_text(void **state) {
  ls_graph_t *g = ((fixture_t *)*state)->graph;
  ls_tensor_id_t x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 4, 5));
  ls_tensor_id_t y = dense(g, 0, x, 5, 3), loss;
  loss = ls_graph_op(g, &ls_op_reduce, &(ls_attrs_t){.i = {2}}, 1, &y, NULL);
  assert_int_equal(ls_graph_backward(g, loss, -1), LS_OK);
  char *text = graph_text(g);
  assert_string_equal(text, "input    x f32 (4, 5)\n"
                            "param    layers.0.weight f32 (3, 5)\n"
                            "param    layers.0.bias f32 (3)\n"
                            "forward  layers.0 linear (x, layers.0.weight, layers.0.bias) -> "
                            "layers.0.linear f32 (4, 3)\n"
                            "forward  layers.0 relu (layers.0.linear) -> layers.0.relu f32 (4, 3)\n"
                            "forward  reduce (layers.0.relu) -> reduce f32 (1)\n"
                            "backward fill () -> fill f32 (1)\n"
                            "backward reduce_dx (fill, layers.0.relu) -> reduce_dx f32 (4, 3)\n"
                            "backward layers.0 relu_dy (reduce_dx, layers.0.relu) -> "
                            "layers.0.relu_dy f32 (4, 3)\n"
                            "backward layers.0 linear_dwb (layers.0.relu_dy, x) -> "
                            "grad.layers.0.weight f32 (3, 5), grad.layers.0.bias f32 (3)\n");
  free(text);
}

/* Everything once, with the n-th allocation failing. True when it got through. */
static bool build_with_failure(ls_ctx_t *ctx, int64_t n) {
  ls_graph_t *g = NULL;
  ls_ctx_clear(ctx);
  ls_ctx_fail_alloc(ctx, n);
  ls_status_t status = ls_graph_create(ctx, &g);
  if (status) {
    assert_null(g);
    assert_int_equal(status, LS_ERR_MEMORY);
    return false;
  }
  ls_tensor_id_t loss = small_network(g);
  for (int layer = 2; layer < 40 && !g->status; layer++) /* several arena blocks and growths */
    dense(g, layer, ls_graph_find(g, "layers.1.relu"), 2, 7);
  status = ls_graph_backward(g, loss, -1);
  bool through = status == LS_OK;
  if (status) assert_int_equal(status, LS_ERR_MEMORY);
  assert_int_equal(ls_ctx_error_count(ctx), through ? 0 : 1);
  ls_ctx_fail_alloc(ctx, 0);
  ls_graph_destroy(g);
  return through;
}

static void test_every_allocation_fails_once(void **state) {
  fixture_t *f = *state;
  int64_t n = 1;
  while (!build_with_failure(f->ctx, n))
    n++;
  assert_true(n > 4);
}

TESTS(set_up, tear_down, test_names_roles_and_shapes, test_flops, test_bytes, test_table,
      test_reshape_is_a_view, test_shape_error_names_place_op_and_shapes, test_two_tensors_of_one_name,
      test_wrong_input_count, test_input_of_no_graph, test_sizes_that_overflow, test_empty_dimension,
      test_product_of_outputs_that_overflows, test_every_rule_refuses, test_text,
      test_every_allocation_fails_once)
