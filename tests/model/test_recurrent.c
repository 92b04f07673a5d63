/* Layers lstm and gru: parameters by name, shapes of what they give, what they refuse, and samples that end in padding. */
#include "parse.h"

#include <math.h>

#include "graph/run_graph.h"

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

enum { SAMPLES = 5, PLACES = 6, OUTPUTS = 2, PADDING = 0 };

/* The network's outputs for `rows` samples, and what they add to the gradients of its parameters, in their order. */
static void run_samples(capture_t *c, const char *layers, int rows, int places, const float *ids,
                        const float *target, float *outputs, double *gradient) {
  char text[512];
  parsed_t p;
  ls_graph_t *graph;
  snprintf(text, sizeof text,
           "model: {input: [%d], pad: 0, loss: mse, layers: [embedding: {size: 9, units: 4}, %s]}", places,
           layers);
  assert_int_equal(parse_model(c, text, &p), LS_OK);
  assert_int_equal(ls_model_build(c->ctx, &p.model, rows, true, &graph), LS_OK);
  void **memory = graph_memory(graph);
  memcpy(memory[ls_graph_find(graph, "x")], ids, (size_t)(rows * places) * sizeof *ids);
  memcpy(memory[ls_graph_find(graph, "target")], target, (size_t)(rows * OUTPUTS) * sizeof *target);
  for (int r = 0; r < rows; r++)
    ((float *)memory[ls_graph_find(graph, "weight")])[r] = 1;
  int64_t drawn = 0;
  for (int id = 0; id < graph->tensor_count; id++)
    for (int64_t k = 0;
         graph->tensors[id].role == LS_ROLE_PARAM && k < ls_shape_count(&graph->tensors[id].shape); k++)
      ((float *)memory[id])[k] = ls_rng_unit(ls_rng(1, 0, (uint64_t)drawn++).v[0]) * 2 - 1;
  for (int n = 0; n < graph->node_count; n++)
    run_node(graph, n, memory);
  memcpy(outputs, memory[ls_graph_find(graph, "output")], (size_t)(rows * OUTPUTS) * sizeof *outputs);
  for (int id = 0; id < graph->tensor_count; id++)
    for (int64_t k = 0;
         graph->tensors[id].role == LS_ROLE_PARAM && k < ls_shape_count(&graph->tensors[id].shape); k++)
      *gradient++ += ((float *)memory[graph->tensors[id].grad])[k];
  graph_memory_free(graph, memory);
  ls_graph_destroy(graph);
  release_model(&p);
}

/* Samples of all lengths in one batch give what each of them gives alone, without its padding: to the bit, and gradients but
 * for the order of sums. Padding within a sample is a token like others. */
static void padded_samples_are_as_if_cut(void **state) {
  static const char *const nets[] = {
      "lstm: {units: 3, bidirectional: true, layers: 2, output: last}, dense: {units: 2}",
      "gru: {units: 3, bidirectional: true, layers: 2, output: last}, dense: {units: 2}",
      "lstm: {units: 3, bidirectional: true}, global_pool: {kind: mean}, dense: {units: 2}",
      "gru: {units: 3, bidirectional: true}, global_pool: {kind: max}, dense: {units: 2}",
      "global_pool: {kind: max}, dense: {units: 2}",
  };
  capture_t *c = *state;
  for (int n = 0; n < LS_COUNT(nets); n++) {
    enum { GRADIENTS_MAX = 1024 };
    static double whole[GRADIENTS_MAX], parts[GRADIENTS_MAX];
    float ids[SAMPLES * PLACES] = {PADDING}, target[SAMPLES * OUTPUTS], y[SAMPLES * OUTPUTS], one[OUTPUTS];
    memset(whole, 0, sizeof whole);
    memset(parts, 0, sizeof parts);
    for (int i = 0; i < SAMPLES; i++) /* 2 to 6 tokens, of samples 0 and 3 one is PADDING */
      for (int t = 0; t < i + 2; t++)
        ids[i * PLACES + t] = (float)((i * 4 + t * 3) % 9);
    for (int i = 0; i < SAMPLES * OUTPUTS; i++)
      target[i] = (float)(i % 3 - 1);
    run_samples(c, nets[n], SAMPLES, PLACES, ids, target, y, whole);
    for (int i = 0; i < SAMPLES; i++) {
      run_samples(c, nets[n], 1, i + 2, ids + i * PLACES, target + i * OUTPUTS, one, parts);
      assert_memory_equal(one, y + i * OUTPUTS, sizeof one);
    }
    double most = 0;
    for (int k = 0; k < GRADIENTS_MAX; k++) {
      if (!(fabs(whole[k] - parts[k]) <= 1e-6 * (1 + fabs(parts[k]))))
        fail_msg("net %d, gradient %d: %.9g padded, %.9g cut", n, k, whole[k], parts[k]);
      most = fmax(most, fabs(parts[k]));
    }
    assert_true(most > 0.1);
  }
}

/* A sample of padding alone gives what the mean of no places gives, 0, and no gradient but that of the bias behind it. */
static void padding_alone_gives_zeros(void **state) {
  static const char *const nets[] = {
      "lstm: {units: 3, bidirectional: true, output: last}, dense: {units: 2}",
      "gru: {units: 3, bidirectional: true, output: last}, dense: {units: 2}",
      "global_pool: {kind: mean}, dense: {units: 2}",
      "global_pool: {kind: max}, dense: {units: 2}",
  };
  for (int n = 0; n < LS_COUNT(nets); n++) {
    static double gradient[1024];
    const float ids[PLACES] = {PADDING}, target[OUTPUTS] = {9, -9};
    float y[OUTPUTS];
    int changed = 0;
    memset(gradient, 0, sizeof gradient);
    run_samples(*state, nets[n], 1, PLACES, ids, target, y, gradient);
    for (int k = 0; k < LS_COUNT(gradient); k++)
      changed += fabs(gradient[k]) > 0; /* false of NaN */
    assert_int_equal(changed, OUTPUTS);
    assert_true(fabsf(y[0]) <= 1 && fabsf(y[1]) <= 1); /* the bias, in [-1, 1) */
  }
}

/* Without model.pad a network has no node for it. */
static void whole_samples_need_no_mask(void **state) {
  for (int pad = -1; pad <= 0; pad++) {
    char text[256];
    parsed_t p;
    ls_graph_t *graph;
    snprintf(text, sizeof text,
             "model: {input: [6], pad: %d, loss: mse, layers: [embedding: {size: 9, units: 4}, gru: {units: "
             "3, bidirectional: true}, global_pool: {kind: max}, dense: {units: 2}]}",
             pad);
    assert_int_equal(parse_model(*state, text, &p), LS_OK);
    assert_int_equal(ls_model_build(((capture_t *)*state)->ctx, &p.model, 7, true, &graph), LS_OK);
    assert_int_equal(count_ops(graph, "mask_places", LS_PHASE_FORWARD), pad < 0 ? 0 : 3);
    assert_int_equal(count_ops(graph, "mask_places", LS_PHASE_BACKWARD), pad < 0 ? 0 : 3);
    ls_graph_destroy(graph);
    release_model(&p);
  }
}

TESTS(capture_setup, capture_teardown, names_and_shapes, refusals, padded_samples_are_as_if_cut,
      padding_alone_gives_zeros, whole_samples_need_no_mask)
