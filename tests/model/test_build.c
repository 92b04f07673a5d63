/* Graphs from models: names, shapes, roles, what training adds, and unusual orders of layers. */
#include "parse.h"

#include "graph/op.h"

static const char *const deep = "model:\n"
                                "  input: [2, 3, 2]\n"
                                "  loss: cross-entropy\n"
                                "  layers:\n"
                                "    - layer_norm\n"
                                "    - dense: {units: 8, activation: gelu, dropout: 0.25}\n"
                                "    - dropout: {rate: 0.5}\n"
                                "    - activation: {kind: tanh}\n"
                                "    - dense: {units: 4, bias: false, init: normal, init_std: 0.5}\n";

static const ls_graph_tensor_t *tensor(const ls_graph_t *graph, const char *name) {
  ls_tensor_id_t id = ls_graph_find(graph, name);
  if (id < 0) fail_msg("the graph has no tensor %s", name);
  return &graph->tensors[id];
}

static void expect(const ls_graph_t *graph, const char *name, ls_role_t role, ls_shape_t shape) {
  const ls_graph_tensor_t *t = tensor(graph, name);
  assert_int_equal(t->role, role);
  if (!ls_shape_equal(&t->shape, &shape)) fail_msg("%s has another shape", name);
}

static void names_shapes_roles(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph;
  assert_int_equal(parse_model(c, deep, &p), LS_OK);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 5, true, &graph), LS_OK);
  expect(graph, "x", LS_ROLE_INPUT, LS_SHAPE(LS_F32, 5, 2, 3, 2));
  expect(graph, "target", LS_ROLE_INPUT, LS_SHAPE(LS_I32, 5));
  expect(graph, "weight", LS_ROLE_INPUT, LS_SHAPE(LS_F32, 5));
  expect(graph, "step", LS_ROLE_INPUT, LS_SHAPE(LS_U8, 64));
  expect(graph, "output", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 5, 4));
  expect(graph, "loss", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 1));
  expect(graph, "correct", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 1));
  expect(graph, "layers.0.weight", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 12));
  expect(graph, "layers.0.bias", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 12));
  expect(graph, "layers.1.weight", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 8, 12));
  expect(graph, "layers.1.bias", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 8));
  expect(graph, "layers.4.weight", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 4, 8));
  assert_int_equal(ls_graph_find(graph, "layers.4.bias"), -1);
  assert_int_equal(ls_graph_param_count(graph), 12 + 12 + 8 * 12 + 8 + 4 * 8);
  assert_int_equal(tensor(graph, "layers.0.weight")->init.kind, LS_INIT_ONES);
  assert_int_equal(tensor(graph, "layers.1.weight")->init.kind, LS_INIT_KAIMING);
  assert_int_equal(tensor(graph, "layers.1.bias")->init.kind, LS_INIT_ZEROS);
  assert_int_equal(tensor(graph, "layers.4.weight")->init.kind, LS_INIT_NORMAL);
  assert_true(tensor(graph, "layers.4.weight")->init.gain == 0.5);
  for (int i = 0; i < graph->tensor_count; i++) /* every parameter learns */
    if (graph->tensors[i].role == LS_ROLE_PARAM) {
      ls_tensor_id_t grad = graph->tensors[i].grad;
      assert_true(grad >= 0);
      assert_true(ls_shape_equal(&graph->tensors[grad].shape, &graph->tensors[i].shape));
      assert_int_equal(graph->tensors[grad].role, LS_ROLE_PARAM_GRAD);
    }
  ls_graph_destroy(graph);
  release_model(&p);
}

static void dropouts_have_ordinals(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph;
  assert_int_equal(parse_model(c, deep, &p), LS_OK);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 5, true, &graph), LS_OK);
  int seen = 0;
  for (int i = 0; i < graph->node_count; i++) {
    const ls_graph_node_t *node = &graph->nodes[i];
    if (node->phase != LS_PHASE_FORWARD || strcmp(node->op->name, "dropout") != 0) continue;
    assert_int_equal(node->attrs.i[0], seen);
    assert_true(node->attrs.f[0] == (seen ? 0.5 : 0.25));
    seen++;
  }
  assert_int_equal(seen, 2);
  ls_graph_destroy(graph);
  release_model(&p);
}

static void evaluation_is_forward_only(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph;
  assert_int_equal(parse_model(c, deep, &p), LS_OK);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 7, false, &graph), LS_OK);
  for (int i = 0; i < graph->node_count; i++) {
    assert_int_equal(graph->nodes[i].phase, LS_PHASE_FORWARD);
    assert_string_not_equal(graph->nodes[i].op->name, "dropout");
  }
  expect(graph, "output", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 7, 4));
  assert_int_equal(ls_graph_param_count(graph), 12 + 12 + 8 * 12 + 8 + 4 * 8);
  ls_graph_destroy(graph);
  release_model(&p);
}

/* A value between layers keeps the dimensions of its sample. */
static void over_the_last_dimension(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph;
  const char *text =
      "model: {input: [5, 3], loss: mse, layers: [dense: {units: 4, over: last, name: a}, "
      "layer_norm: {over: last, name: b}, layer_norm: {name: c}, dense: {units: 2, name: d}]}\n";
  assert_int_equal(parse_model(c, text, &p), LS_OK);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 7, true, &graph), LS_OK);
  expect(graph, "a.weight", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 4, 3));
  expect(graph, "a.linear", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 7, 5, 4));
  expect(graph, "b.weight", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 4));
  expect(graph, "b.layer_norm", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 7, 5, 4));
  expect(graph, "c.weight", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 20));
  expect(graph, "c.layer_norm", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 7, 20));
  expect(graph, "d.weight", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 2, 20));
  expect(graph, "output", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 7, 2));
  ls_graph_destroy(graph);
  release_model(&p);
}

static void numbers_as_targets(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph;
  const char *text =
      "model: {input: 3, loss: mse, layers: [dense: {units: 2, activation: sigmoid}, layer_norm]}\n";
  assert_int_equal(parse_model(c, text, &p), LS_OK);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 1, true, &graph), LS_OK);
  expect(graph, "target", LS_ROLE_INPUT, LS_SHAPE(LS_F32, 1, 2));
  expect(graph, "output", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 1, 2));
  assert_int_equal(tensor(graph, "layers.0.weight")->init.kind, LS_INIT_XAVIER);
  ls_graph_destroy(graph);
  release_model(&p);
}

static void impossible_rows(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph = NULL;
  assert_int_equal(parse_model(c, deep, &p), LS_OK);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 0, true, &graph), LS_ERR_ARGUMENT);
  assert_int_equal(ls_model_build(c->ctx, &p.model, INT64_MAX, true, &graph), LS_ERR_ARGUMENT);
  assert_null(graph);
  release_model(&p);
}

static ls_status_t build_all(capture_t *c) {
  parsed_t p;
  ls_graph_t *graph;
  ls_ctx_t *outer = c->ctx;
  capture_t quiet = {.ctx = ls_ctx_create(NULL, NULL)}; /* only the building is to fail */
  assert_int_equal(parse_model(&quiet, deep, &p), LS_OK);
  ls_status_t status = ls_model_build(outer, &p.model, 5, true, &graph);
  if (status == LS_OK) ls_graph_destroy(graph);
  release_model(&p);
  ls_ctx_destroy(quiet.ctx);
  return status;
}

static void allocation_failures(void **state) {
  assert_true(capture_fail_each_alloc(*state, build_all) >= 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(names_shapes_roles),  TEST(dropouts_have_ordinals),  TEST(evaluation_is_forward_only),
      TEST(numbers_as_targets),  TEST(over_the_last_dimension), TEST(impossible_rows),
      TEST(allocation_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
