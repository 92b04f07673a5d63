/* Layers lstm and gru: parameters by name, shapes of what they give, and what they refuse. */
#include "parse.h"

#include "graph/op.h"

static const char *const both =
    "model:\n"
    "  input: [6, 5]\n"
    "  loss: mse\n"
    "  layers:\n"
    "    - lstm: {name: a, units: 8, layers: 2, bidirectional: true, dropout: 0.2}\n"
    "    - gru: {name: b, units: 3, output: last, bidirectional: true}\n"
    "    - dense: {units: 4}\n";

static void expect(const ls_graph_t *graph, const char *name, ls_shape_t shape) {
  ls_tensor_id_t id = ls_graph_find(graph, name);
  if (id < 0) fail_msg("the graph has no tensor %s", name);
  if (!ls_shape_equal(&graph->tensors[id].shape, &shape)) fail_msg("%s has another shape", name);
  assert_true(graph->tensors[id].grad >= 0);
}

static int count_ops(const ls_graph_t *graph, const char *name, ls_graph_phase_t phase) {
  int count = 0;
  for (int i = 0; i < graph->node_count; i++)
    count += strcmp(graph->nodes[i].op->name, name) == 0 && graph->nodes[i].phase == phase;
  return count;
}

static void names_and_shapes(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph;
  assert_int_equal(parse_model(c, both, &p), LS_OK);
  assert_true(ls_shape_equal(&p.model.layer[0].sample, &LS_SHAPE(LS_F32, 6, 16)));
  assert_true(ls_shape_equal(&p.model.layer[1].sample, &LS_SHAPE(LS_F32, 6)));
  assert_int_equal(ls_model_build(c->ctx, &p.model, 7, true, &graph), LS_OK);
  expect(graph, "a.weight_ih_l0", LS_SHAPE(LS_F32, 32, 5));
  expect(graph, "a.weight_hh_l0_reverse", LS_SHAPE(LS_F32, 32, 8));
  expect(graph, "a.weight_ih_l1", LS_SHAPE(LS_F32, 32, 16));
  expect(graph, "a.bias_l1_reverse", LS_SHAPE(LS_F32, 32));
  assert_int_equal(ls_graph_find(graph, "a.bias_hn_l0"), -1);
  expect(graph, "b.weight_ih_l0", LS_SHAPE(LS_F32, 9, 16));
  expect(graph, "b.weight_hh_l0", LS_SHAPE(LS_F32, 9, 3));
  expect(graph, "b.bias_hn_l0_reverse", LS_SHAPE(LS_F32, 3));
  assert_int_equal(count_ops(graph, "lstm_chain", LS_PHASE_FORWARD), 4);
  assert_int_equal(count_ops(graph, "lstm_chain_dx", LS_PHASE_BACKWARD), 4);
  assert_int_equal(count_ops(graph, "gru_chain", LS_PHASE_FORWARD), 2);
  assert_int_equal(count_ops(graph, "dropout", LS_PHASE_FORWARD),
                   1); /* between layers, not behind the last */
  const ls_graph_tensor_t *w = &graph->tensors[ls_graph_find(graph, "a.weight_hh_l0")];
  assert_int_equal(w->init.kind, LS_INIT_UNIFORM);
  assert_true(w->init.gain * w->init.gain * 8 < 1 + 1e-9 && w->init.gain * w->init.gain * 8 > 1 - 1e-9);
  ls_graph_destroy(graph);
  release_model(&p);
}

static void refusals(void **state) {
  static const char *const texts[][2] = {
      {"[12]", "a sequence [positions, features] is needed; the layer before gives (12)"},
      {"[4, 4, 3]", "a sequence [positions, features] is needed; the layer before gives (4, 4, 3)"}};
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(texts); i++) {
    char text[160];
    parsed_t p;
    snprintf(text, sizeof text, "model: {input: %s, loss: mse, layers: [gru: {units: 2}]}\n", texts[i][0]);
    assert_int_equal(parse_model(c, text, &p), LS_ERR_CONFIG);
    if (!strstr(c->text, texts[i][1])) fail_msg("%s", c->text);
    release_model(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(names_and_shapes), TEST(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
