/* The presets have exactly the published sizes. */
#include "parse.h"

static const struct {
  const char *name;
  int64_t inputs, outputs, params;
  int linear, relu, dropout, chains;
} presets[] = {
    {"mlp-medium", 799, 192, 258432, 4, 3, 3, 0},
    {"mlp-large", 4608, 768, 6885376, 6, 5, 5, 0},
    {"mlp-extreme", 4096, 512, 120083968, 6, 5, 0, 0},
    /* PyTorch's 484,419 and 256,803, which count a second bias vector: 2 layers of 4 * 192, and of 2 * 160 */
    {"lstm", 3000, 3, 484419 - 2 * 4 * 192, 3, 0, 0, 2},
    {"gru", 3000, 3, 256803 - 2 * 2 * 160, 3, 0, 0, 2},
};

static int count_ops(const ls_graph_t *graph, const char *name) {
  int count = 0;
  for (int i = 0; i < graph->node_count; i++)
    count += strstr(graph->nodes[i].name, name) && graph->nodes[i].phase == LS_PHASE_FORWARD;
  return count;
}

static void sizes(void **state) {
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(presets); i++) {
    char text[64];
    parsed_t p;
    ls_graph_t *graph;
    snprintf(text, sizeof text, "model: {preset: %s}\n", presets[i].name);
    assert_int_equal(parse_model(c, text, &p), LS_OK);
    assert_string_equal(p.model.preset, presets[i].name);
    assert_int_equal(p.model.loss, LS_LOSS_MSE);
    assert_int_equal(ls_model_inputs(&p.model), presets[i].inputs);
    assert_int_equal(ls_model_outputs(&p.model), presets[i].outputs);
    assert_int_equal(ls_model_build(c->ctx, &p.model, 16, true, &graph), LS_OK);
    assert_int_equal(ls_graph_param_count(graph), presets[i].params);
    assert_int_equal(count_ops(graph, "linear"), presets[i].linear);
    assert_int_equal(count_ops(graph, "relu"), presets[i].relu);
    assert_int_equal(count_ops(graph, "dropout"), presets[i].dropout);
    assert_int_equal(count_ops(graph, "_chain"), presets[i].chains);
    ls_graph_destroy(graph);
    release_model(&p);
  }
}

static void with_another_loss(void **state) {
  capture_t *c = *state;
  parsed_t p;
  assert_int_equal(parse_model(c, "model: {preset: mlp-medium, loss: cross-entropy}\n", &p), LS_OK);
  assert_int_equal(p.model.loss, LS_LOSS_CROSS_ENTROPY);
  release_model(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(sizes), TEST(with_another_loss)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
