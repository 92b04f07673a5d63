/* Graphs from models: names, shapes, roles, what training adds, and unusual orders of layers. */
#include "parse.h"

#include "graph/op.h"
#include "graph/rewrite.h"

#include <string.h>

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

/* The network of two convolutions that others are measured with: 421,642 parameters. */
static void two_convolutions(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph;
  const char *text =
      "model: {input: [28, 28], loss: cross-entropy, layers: [conv2d: {filters: 32, activation: relu}, "
      "pool, conv2d: {filters: 64, activation: relu}, pool, dense: {units: 128, activation: relu}, "
      "dense: {units: 10}]}\n";
  assert_int_equal(parse_model(c, text, &p), LS_OK);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 5, true, &graph), LS_OK);
  expect(graph, "layers.0.weight", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 32, 3, 3, 1));
  expect(graph, "layers.0.relu", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 5, 28, 28, 32));
  expect(graph, "layers.2.weight", LS_ROLE_PARAM, LS_SHAPE(LS_F32, 64, 3, 3, 32));
  expect(graph, "layers.3.max_pool", LS_ROLE_VALUE, LS_SHAPE(LS_F32, 5, 7, 7, 64));
  assert_int_equal(ls_graph_param_count(graph), 421642);
  for (int i = 0; i < graph->node_count; i++) /* nobody needs the images' gradient */
    if (strcmp(graph->nodes[i].op->name, "conv2d_dx") == 0)
      assert_int_equal(graph->tensors[graph->nodes[i].in[1]].shape.dim[0], 64);
  ls_graph_destroy(graph);
  release_model(&p);
}

/* Shapes of windows' outputs; what does not fit is refused by name. */
static void windows(void **state) {
  static const struct {
    const char *layers, *shape;
  } good[] = {
      {"conv2d: {filters: 4, stride: 2}", "f32 (5, 4, 4)"},
      {"conv2d: {filters: 4, padding: valid}", "f32 (7, 5, 4)"},
      {"conv2d: {filters: 6, kernel: 7, stride: 2, padding: 3, groups: 3}", "f32 (5, 4, 6)"},
      {"conv2d: {filters: 4, kernel: 2, dilation: 3, padding: valid}", "f32 (6, 4, 4)"},
      {"pool: {size: 3, stride: 2, padding: 1}", "f32 (5, 4, 3)"},
      {"pool: {kind: average, padding: same}", "f32 (5, 4, 3)"},
      {"global_pool: {kind: max}", "f32 (3)"},
  };
  static const struct {
    const char *layers, *message;
  } bad[] = {
      {"conv2d: {filters: 4, kernel: 9, padding: valid}",
       "model.layers.conv2d: a window of 9 with padding valid is larger than the image; the layer before "
       "gives (9, 7, 3)"},
      {"conv2d: {filters: 4, groups: 2}",
       "model.layers.conv2d: groups: 3 channels and 4 filters cannot be cut into 2 parts"},
      {"conv2d: {filters: 4, padding: wide}",
       "model.layers.conv2d: padding: `wide` must be same, valid or a number"},
      {"conv2d: {filters: 4, padding: -1}",
       "model.layers.conv2d: padding: `-1` must be same, valid or a number"},
      {"pool: {size: 2, padding: 2}", "model.layers.pool: padding must be less than the window's size, 2"},
      {"pool: {size: 17, padding: 16}", "model.layers.pool: size: 17, at most 16 for max"},
      {"dense: {units: 4}, conv2d: {filters: 4}",
       "model.layers.conv2d: reads images, [height, width, channels]"},
      {"dense: {units: 4}, global_pool",
       "model.layers.global_pool: reads images [height, width, channels] or sequences"},
  };
  capture_t *c = *state;
  parsed_t p;
  char text[512], shape[LS_SHAPE_TEXT_BYTES];
  for (int i = 0; i < LS_COUNT(good); i++) {
    snprintf(text, sizeof text, "model: {input: [9, 7, 3], loss: mse, layers: [%s, dense: {units: 1}]}\n",
             good[i].layers);
    assert_int_equal(parse_model(c, text, &p), LS_OK);
    assert_string_equal(ls_shape_text(&p.model.layer[0].sample, shape), good[i].shape);
    release_model(&p);
  }
  for (int i = 0; i < LS_COUNT(bad); i++) {
    snprintf(text, sizeof text, "model: {input: [9, 7, 3], loss: mse, layers: [%s, dense: {units: 1}]}\n",
             bad[i].layers);
    assert_int_equal(parse_model(c, text, &p), LS_ERR_CONFIG);
    if (!strstr(c->text, bad[i].message)) fail_msg("%s\nsays\n%s", bad[i].layers, c->text);
    capture_clear(c);
    release_model(&p);
  }
}

static int count(const ls_graph_t *graph, const char *op) {
  int found = 0;
  for (int i = 0; i < graph->node_count; i++)
    found += strcmp(graph->nodes[i].op->name, op) == 0;
  return found;
}

/* A batch norm joins the convolution that it alone reads. Groups stay f32. */
static void products_of_integers(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph;
  const char *text = "model:\n"
                     "  input: [4, 4, 2]\n"
                     "  loss: cross-entropy\n"
                     "  layers:\n"
                     "    - conv2d: {name: a, filters: 4, bias: false}\n"
                     "    - batch_norm: {name: na}\n"
                     "    - conv2d: {name: b, filters: 4, bias: false}\n"
                     "    - batch_norm: {name: nb}\n"
                     "    - conv2d: {name: c, filters: 4}\n"
                     "    - batch_norm: {name: nc}\n"
                     "    - conv2d: {name: d, filters: 4, groups: 2}\n"
                     "    - add: {from: [b, d]}\n"
                     "    - dense: {units: 3}\n";
  const float range[] = {-1, 3, 0, 2, -1, 1, 1, 4};
  ls_int8_t int8 = {0, NULL};
  assert_int_equal(parse_model(c, text, &p), LS_OK);
  p.model.int8 = &int8;
  assert_int_equal(ls_model_build(c->ctx, &p.model, 5, false, &graph), LS_OK);
  assert_true(ls_shape_equal(&tensor(graph, "ranges")->shape, &LS_SHAPE(LS_F32, 1, LS_COUNT(range))));
  assert_int_equal(count(graph, "conv2d"), 4);
  ls_graph_destroy(graph);
  int8 = (ls_int8_t){LS_COUNT(range) / 2, range};
  assert_int_equal(ls_model_build(c->ctx, &p.model, 5, false, &graph), LS_OK);
  assert_int_equal(ls_graph_check(graph), LS_OK);
  assert_int_equal(count(graph, "conv2d_int8_norm"), 1); /* b is read by add, c has a bias */
  assert_int_equal(count(graph, "conv2d_int8"), 2);
  assert_int_equal(count(graph, "bn_apply"), 2);
  assert_int_equal(count(graph, "conv2d"), 1);
  assert_int_equal(count(graph, "linear_int8"), 1);
  for (int i = 0; i < graph->node_count; i++) { /* 0 is a value, even where nothing came near it */
    const ls_graph_node_t *n = &graph->nodes[i];
    if (strcmp(n->op->name, "linear_int8") == 0)
      assert_true(n->attrs.f[0] == 4.0 / 255 && n->attrs.f[1] == 0);
    if (strcmp(n->op->name, "conv2d_int8_norm") == 0)
      assert_true(n->attrs.f[0] == 4.0 / 255 && n->attrs.f[1] == 64);
  }
  ls_graph_destroy(graph);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 5, true, &graph),
                   LS_OK); /* training does not know them */
  assert_int_equal(count(graph, "conv2d_int8") + count(graph, "value_range"), 0);
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

TESTS(capture_setup, capture_teardown, names_shapes_roles, dropouts_have_ordinals, evaluation_is_forward_only,
      products_of_integers, numbers_as_targets, over_the_last_dimension, two_convolutions, windows,
      impossible_rows, allocation_failures)
