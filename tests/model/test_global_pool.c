/* global_pool of kind max: of any number of places, the largest, and its first place gets the gradient. */
#include "parse.h"

#include "graph/run_graph.h"

enum { FEATURES = 4, PLACES_MAX = 1000 };

/* Feature 0 rises, 1 and 2 have equals, 3 is the same everywhere. */
static float value(int place, int feature) {
  const int of[FEATURES] = {place, place * 7 % 5, place * 31 % 300, 1};
  return (float)of[feature];
}

/* The last `pad` places are padding. */
static void check(capture_t *c, const char *input, int places, int pad) {
  char text[256];
  parsed_t p;
  ls_graph_t *graph;
  snprintf(text, sizeof text,
           "model: {input: %s, pad: %d, loss: mse, layers: [embedding: {size: 2, units: %d}, positions: "
           "{name: at}, "
           "global_pool: {kind: max}, dense: {name: out, units: 1}]}",
           input, pad ? 0 : -1, FEATURES);
  assert_int_equal(parse_model(c, text, &p), LS_OK);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 1, true, &graph), LS_OK);
  void **memory = graph_memory(graph);
  const ls_tensor_id_t at = ls_graph_find(graph, "at.weight"), out = ls_graph_find(graph, "out.weight");
  for (int id = 0; id < graph->tensor_count; id++)
    if (graph->tensors[id].role == LS_ROLE_PARAM)
      memset(memory[id], 0, ls_shape_bytes(&graph->tensors[id].shape));
  for (int t = 0; t < places; t++) {
    ((float *)memory[ls_graph_find(graph, "x")])[t] = t < places - pad;
    for (int f = 0; f < FEATURES; f++)
      ((float *)memory[at])[t * FEATURES + f] = value(t, f);
  }
  for (int f = 0; f < FEATURES; f++)
    ((float *)memory[out])[f] = (float)(f + 1);
  *(float *)memory[ls_graph_find(graph, "target")] = 0;
  *(float *)memory[ls_graph_find(graph, "weight")] = 1;
  for (int n = 0; n < graph->node_count; n++)
    run_node(graph, n, memory);
  float y = 0;
  int first[FEATURES] = {0};
  for (int f = 0; f < FEATURES; f++) {
    for (int t = 1; t < places - pad; t++)
      if (value(t, f) > value(first[f], f)) first[f] = t;
    y += value(first[f], f) * (float)(f + 1);
  }
  assert_true(*(float *)memory[ls_graph_find(graph, "output")] == y); /* whole numbers */
  const float *gradient = memory[graph->tensors[at].grad];
  for (int t = 0; t < places; t++)
    for (int f = 0; f < FEATURES; f++)
      if (gradient[t * FEATURES + f] != (t == first[f] ? 2 * y * (float)(f + 1) : 0))
        fail_msg(
            "%d places, %d of padding: gradient %g of feature %d at place %d, the first of the largest is %d",
            places, pad, (double)gradient[t * FEATURES + f], f, t, first[f]);
  graph_memory_free(graph, memory);
  ls_graph_destroy(graph);
  release_model(&p);
}

static void of_any_length(void **state) {
  static const int places[] = {1, 2, 255, 256, 257, 512, PLACES_MAX};
  for (int i = 0; i < LS_COUNT(places); i++) {
    char input[16];
    snprintf(input, sizeof input, "[%d]", places[i]);
    check(*state, input, places[i], 0);
    if (places[i] > 2) check(*state, input, places[i], places[i] / 3);
  }
  check(*state, "[1000]", 1000, 743); /* 257 places */
}

static int count_pools(capture_t *c, const char *input) {
  char text[128];
  parsed_t p;
  ls_graph_t *graph;
  int count = 0;
  snprintf(text, sizeof text,
           "model: {input: %s, loss: mse, layers: [global_pool: {kind: max}, dense: {units: 1}]}", input);
  assert_int_equal(parse_model(c, text, &p), LS_OK);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 1, false, &graph), LS_OK);
  for (int n = 0; n < graph->node_count; n++)
    count += strcmp(graph->nodes[n].op->name, "max_pool") == 0;
  ls_graph_destroy(graph);
  release_model(&p);
  return count;
}

/* A round for each byte of a place's number. */
static void rounds(void **state) {
  assert_int_equal(count_pools(*state, "[1, 2]"), 0);
  assert_int_equal(count_pools(*state, "[7, 7, 2]"), 1);
  assert_int_equal(count_pools(*state, "[256, 2]"), 1);
  assert_int_equal(count_pools(*state, "[257, 2]"), 2);
  assert_int_equal(count_pools(*state, "[300, 200, 2]"), 2);
  assert_int_equal(count_pools(*state, "[65537, 2]"), 3);
}

TESTS(capture_setup, capture_teardown, of_any_length, rounds)
