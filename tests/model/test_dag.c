/* Layers as a graph: what names mean, how blocks are repeated, what is shared and frozen, what is refused. */
#include "parse.h"

#include "graph/graph_text.h"
#include "model/layer.h"

#include <stdlib.h>

#define HEAD "model:\n  input: 4\n  loss: mse\n  layers:\n"

static const char *const residual =
    HEAD "    - dense: {units: 8, name: stem, freeze: true}\n"
         "    - repeat:\n"
         "        times: 2\n"
         "        layers:\n"
         "          - dense: {units: 8, name: fc, activation: relu}\n"
         "          - layer_norm\n"
         "          - dense: {units: 8, share: fc, name: again}\n"
         "          - add: {from: [input, fc, again]}\n"
         "    - dense: {units: 8, name: tied, share: block.1.fc, from: stem}\n"
         "    - concat: {from: [tied, block.1.3, input]}\n"
         "    - dense: {units: 2}\n";

static void parse_good(capture_t *c, const char *text, parsed_t *p) {
  ls_status_t status = parse_model(c, text, p);
  assert_string_equal(c->text, "");
  assert_int_equal(status, LS_OK);
}

static void expect_from(const ls_layer_t *layer, int count, const int *from) {
  assert_int_equal(layer->from_count, count);
  for (int k = 0; k < count; k++)
    assert_int_equal(layer->from[k], from[k]);
}

static void names_and_blocks(void **state) {
  capture_t *c = *state;
  parsed_t p;
  parse_good(c, residual, &p);
  static const struct {
    const char *name;
    int owner, count, from[3];
    int64_t elements;
  } want[] = {
      {"stem", 0, 1, {-1}, 8},         {"block.0.fc", 1, 1, {0}, 8},      {"block.0.1", 2, 1, {1}, 8},
      {"block.0.again", 1, 1, {2}, 8}, {"block.0.3", 4, 3, {0, 1, 3}, 8}, {"block.1.fc", 5, 1, {4}, 8},
      {"block.1.1", 6, 1, {5}, 8},     {"block.1.again", 5, 1, {6}, 8},   {"block.1.3", 8, 3, {4, 5, 7}, 8},
      {"tied", 5, 1, {0}, 8},          {NULL, 10, 3, {9, 8, -1}, 20},     {NULL, 11, 1, {10}, 2}};
  assert_int_equal(p.model.layer_count, LS_COUNT(want));
  for (int i = 0; i < LS_COUNT(want); i++) {
    const ls_layer_t *layer = &p.model.layer[i];
    const char *name = ls_layer_common(layer)->name;
    if (want[i].name)
      assert_string_equal(name, want[i].name);
    else
      assert_null(name);
    assert_int_equal(layer->owner, want[i].owner);
    expect_from(layer, want[i].count, want[i].from);
    assert_int_equal(ls_shape_count(&layer->sample), want[i].elements);
  }
  release_model(&p);
}

static int count_params(const ls_graph_t *graph, bool trainable) {
  int count = 0;
  for (int i = 0; i < graph->tensor_count; i++)
    count += graph->tensors[i].role == LS_ROLE_PARAM && graph->tensors[i].trainable == trainable;
  return count;
}

static void shared_once_and_frozen(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph;
  parse_good(c, residual, &p);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 3, true, &graph), LS_OK);
  assert_int_equal(count_params(graph, false), 2);
  assert_int_equal(count_params(graph, true), 2 + 2 + 2 + 2 + 2); /* two fc, two norms, the last */
  assert_int_equal(graph->tensors[ls_graph_find(graph, "stem.weight")].grad, -1);
  assert_true(graph->tensors[ls_graph_find(graph, "block.1.fc.weight")].grad >= 0);
  assert_int_equal(ls_graph_find(graph, "tied.weight"), -1);
  int uses = 0, shared = ls_graph_find(graph, "block.1.fc.weight");
  for (int n = 0; n < graph->node_count; n++)
    uses += graph->nodes[n].phase == LS_PHASE_FORWARD && graph->nodes[n].in[1] == shared &&
            graph->nodes[n].in_count == 3;
  assert_int_equal(uses, 3);
  ls_graph_destroy(graph);
  release_model(&p);
}

/* The rows of an embedding, and a bias that nobody shares: it is frozen by its own name. */
static void a_bias_beside_shared_rows(void **state) {
  capture_t *c = *state;
  parsed_t p;
  ls_graph_t *graph;
  parse_good(c,
             "model:\n  input: [4]\n  loss: cross-entropy\n  freeze: [out.bias]\n  layers:\n"
             "    - embedding: {name: e, size: 3, units: 5}\n"
             "    - dense: {name: out, units: 3, over: last, share: e}\n",
             &p);
  assert_int_equal(ls_model_build(c->ctx, &p.model, 2, true, &graph), LS_OK);
  assert_int_equal(ls_graph_param_count(graph), 3 * 5 + 3);
  assert_int_equal(count_params(graph, true), 1);
  assert_int_equal(ls_graph_find(graph, "out.weight"), -1);
  const int rows = ls_graph_find(graph, "e.weight"), bias = ls_graph_find(graph, "out.bias");
  int uses = 0;
  for (int n = 0; n < graph->node_count; n++) {
    const ls_graph_node_t *node = &graph->nodes[n];
    uses +=
        node->phase == LS_PHASE_FORWARD && node->in_count == 3 && node->in[1] == rows && node->in[2] == bias;
  }
  assert_true(bias >= 0 && uses == 1);
  assert_true(ls_model_has_param(&p.model, "out.bias") && !ls_model_has_param(&p.model, "out.weight"));
  ls_graph_destroy(graph);
  release_model(&p);
}

/* Names that say the default change nothing: neither the graph nor what is saved. */
static void a_chain_in_other_words(void **state) {
  capture_t *c = *state;
  const char *texts[] = {HEAD "    - dense: {units: 3}\n    - layer_norm\n    - dense: {units: 2}\n",
                         HEAD "    - dense: {units: 3, name: layers.0, from: input}\n"
                              "    - layer_norm: {from: [layers.0]}\n"
                              "    - dense: {units: 2, name: layers.2, from: layers.1, freeze: false}\n"};
  parsed_t p[2];
  json_t *json[2];
  char *graphs[2];
  for (int i = 0; i < 2; i++) {
    ls_graph_t *graph;
    parse_good(c, texts[i], &p[i]);
    json[i] = ls_model_json(&p[i].model);
    assert_int_equal(ls_model_build(c->ctx, &p[i].model, 3, true, &graph), LS_OK);
    graphs[i] = graph_text(graph);
    ls_graph_destroy(graph);
  }
  assert_string_equal(graphs[0], graphs[1]);
  assert_true(json_equal(json[0], json[1]));
  for (int i = 0; i < 2; i++) {
    free(graphs[i]);
    json_decref(json[i]);
    release_model(&p[i]);
  }
}

/* The saved document has no blocks, and reads as the same network. */
static void saved_and_read_again(void **state) {
  capture_t *c = *state;
  parsed_t p, again;
  parse_good(c, residual, &p);
  json_t *object = ls_model_json(&p.model), *root = json_pack("{s:O}", "model", object);
  char *text = json_dumps(root, 0);
  parse_good(c, text, &again);
  json_t *second = ls_model_json(&again.model);
  assert_true(json_equal(object, second));
  assert_int_equal(json_array_size(json_object_get(object, "layers")), 12);
  for (int i = 0; i < p.model.layer_count; i++)
    expect_from(&again.model.layer[i], p.model.layer[i].from_count, p.model.layer[i].from);
  json_decref(second);
  free(text);
  json_decref(root);
  json_decref(object);
  release_model(&again);
  release_model(&p);
}

static const struct {
  const char *layers; /* each line an entry, from line 5 on */
  const char *message;
} refused[] = {
    {"    - dense: {units: 3}\n    - embedding: {size: 3, units: 2}\n",
     "f.yaml:6:7: model.layers.embedding: it takes whole numbers, which only the model's input has: `from: "
     "input`"},
    {"    - embedding: {size: 3, units: 2, name: e}\n    - dense: {units: 3, from: input, name: d}\n"
     "    - concat: {from: [e, d]}\n",
     "f.yaml:6:31: model.layers.dense: it reads the model's input, which an embedding takes as whole "
     "numbers"},
    {"    - embedding: {size: 3, units: 2, id: 3}\n",
     "f.yaml:5:7: model.layers.embedding: id 3 is no row of 3"},
    {"    - dense: {units: 3}\n    - multiply: {from: [input, layers.0]}\n",
     "f.yaml:6:7: model.layers.multiply: all that is multiplied has the size of the first, or is [C] where "
     "that is [.., "
     "C]"},
    {"    - embedding: {size: 3, units: 2, name: e}\n    - dense: {units: 3}\n    - concat: {from: [e, "
     "layers.1], over: last}\n",
     "f.yaml:7:7: model.layers.concat: over: last needs layers that differ in their last dimension alone; "
     "`from` gives (4, 2), (3)"},
    {"    - attention: {heads: 2}\n",
     "f.yaml:5:7: model.layers.attention: a sequence [T, F] is needed, with F a "
     "multiple of the 2 heads; the layer before gives (4)"},
    {"    - embedding: {size: 3, units: 5}\n    - attention: {heads: 2}\n",
     "f.yaml:6:7: model.layers.attention: a sequence [T, F] is needed, with F a multiple of the 2 heads; the "
     "layer "
     "before gives (4, 5)"},
    {"    - embedding: {size: 3, units: 5}\n    - positions: {size: 3}\n",
     "f.yaml:6:7: model.layers.positions: size 3 is less than the sequence's 4 places"},
    {"    - embedding: {size: 3, units: 5, id: 4, separator: 1}\n",
     "f.yaml:5:7: model.layers.embedding: id 4 is no row of 3"},
    {"    - embedding: {name: a, size: 3, units: 5}\n    - embedding: {name: b, from: input, size: 2, units: "
     "5, "
     "separator: 3}\n    - add: {from: [a, b]}\n",
     "f.yaml:6:71: model.layers.embedding.separator: no sample holds it: the tokens of the embedding are 0 "
     "to "
     "2\n"},
    {"    - dense: {units: 3, from: fc}\n", "f.yaml:5:31: model.layers.dense.from: no earlier layer is "
                                            "called `fc`; a layer with `name: fc` would be"},
    {"    - dense: {units: 3, name: body}\n    - dense: {units: 3, from: bodi}\n",
     "f.yaml:6:31: model.layers.dense.from: no earlier layer is called `bodi`; did you mean `body`?"},
    {"    - dense: {units: 3, from: inputs}\n",
     "f.yaml:5:31: model.layers.dense.from: no earlier layer is called `inputs`; did you mean `input`?"},
    {"    - dense: {units: 3}\n    - dense: {units: 3, from: b}\n    - dense: {units: 3, name: b}\n",
     "f.yaml:6:31: model.layers.dense.from: `b` is not before this layer in the list; move it up"},
    {"    - dense: {units: 3, name: a, from: a}\n",
     "f.yaml:5:40: model.layers.dense.from: `a` is not before this layer in the list; move it up"},
    {"    - dense: {units: 3, name: a}\n    - layer_norm: {name: a}\n",
     "f.yaml:6:26: model.layers: the name `a` is used twice, first in line 5; give each layer"},
    {"    - dense: {units: 3, name: layers.1}\n    - layer_norm\n",
     "f.yaml:6:7: model.layers: the name `layers.1` is used twice, first in line 5"},
    {"    - dense: {units: 3, name: input}\n", "f.yaml:5:31: model.layers.dense.name: `input` is what the "
                                               "model, or a block, reads; choose another name"},
    {"    - dense: {units: 3, name: a b}\n", "f.yaml:5:31: model.layers.dense.name: `a b` is no name: "
                                             "letters, digits and `_-.` are possible, at most 64"},
    {"    - dense: {units: 3, name: \"\"}\n", "f.yaml:5:31: model.layers.dense.name: `` is no name"},
    {"    - dense: {units: 3, name: a}\n    - dense: {units: 5, name: b}\n    - add: {from: [a, b]}\n",
     "f.yaml:7:23: model.layers.add.from: `a` gives (3), but `b` (5); all that is joined here has one size"},
    {"    - dense: {units: 3}\n    - add\n",
     "f.yaml:6:7: model.layers.add.from: 0 given, 2 to 16 layers are joined: `from: [a, b]`"},
    {"    - dense: {units: 3, name: a}\n    - concat: {from: a}\n",
     "f.yaml:6:22: model.layers.concat.from: 1 given, 2 to 16 layers are joined"},
    {"    - dense: {units: 3, name: a}\n    - dense: {units: 3, from: [a, input]}\n",
     "f.yaml:6:31: model.layers.dense.from: 2 layers are named, dense reads one; join them with add, "
     "multiply or "
     "concat"},
    {"    - dense: {units: 3, name: a}\n    - dense: {units: 3, from: input}\n",
     "f.yaml:5:7: model.layers: no layer reads the output of `a`; name it in the `from` of a later one"},
    {"    - dense: {units: 3, name: a}\n    - layer_norm: {share: a}\n",
     "f.yaml:6:27: model.layers.layer_norm.share: `a` is of kind dense; parameters are shared by layers of "
     "one"},
    {"    - dense: {units: 3, name: a}\n    - dense: {units: 3, share: a}\n",
     "f.yaml:6:32: model.layers.dense.share: weight of `a` is (3, 4), but this layer needs (3, 3)"},
    {"    - dense: {units: 4, name: a}\n    - dense: {units: 4, share: a, bias: false}\n",
     "f.yaml:6:32: model.layers.dense.share: `a` has 2 parameters, but this layer needs 1"},
    {"    - dense: {units: 4, name: a}\n    - dense: {units: 4, share: b}\n",
     "f.yaml:6:32: model.layers.dense.share: no earlier layer is called `b`; a layer with `name: b` would "
     "be"},
    {"    - dense: {units: 4, share: input}\n",
     "f.yaml:5:32: model.layers.dense.share: the input has no parameters; name a layer"},
    {"    - dense: {units: 4, name: a}\n    - dense: {units: 4, share: a, freeze: true}\n",
     "f.yaml:6:43: model.layers.dense.freeze: the parameters are those of `a`; freeze that layer"},
    {"    - dense: {units: 4}\n    - activation: {kind: relu, freeze: true}\n",
     "f.yaml:6:40: model.layers.activation.freeze: activation has no parameters"},
    {"    - dense: {units: 4, freeze: true}\n",
     "f.yaml:5:5: model.layers: every layer that learns is frozen; leave one without `freeze`"},
    {"    - dense: {units: 4, nam: a}\n",
     "f.yaml:5:25: unknown option `nam` in model.layers.dense; did you mean `name`?"},
    {"    - repeat: {layers: [layer_norm]}\n",
     "f.yaml:5:7: model.layers.repeat.times is missing: Number of repetitions"},
    {"    - repeat: {times: 2}\n",
     "f.yaml:5:7: model.layers.repeat.layers: a list of at least one layer was"},
    {"    - repeat: {times: 2, layers: []}\n",
     "f.yaml:5:34: model.layers.repeat.layers: a list of at least one"},
    {"    - repeat: {times: 0, layers: [layer_norm]}\n",
     "f.yaml:5:23: model.layers.repeat.times: `0` must be in [1, 1024]"},
    {"    - repeat: {times: 513, layers: [layer_norm, layer_norm]}\n",
     "f.yaml:5:37: model.layers: with blocks repeated there are more than 1024 layers\n"},
    {"    - repeat: {times: 1024, layers: [repeat: {times: 1024, layers: [layer_norm]}]}\n",
     "f.yaml:5:69: model.layers: with blocks repeated there are more than 1024 layers\n"},
    {"    - repeat: {times: 3, layers: [dense: {units: 4, from: nowhere}]}\n", /* once, not three times */
     "f.yaml:5:59: model.layers.dense.from: no earlier layer is called `nowhere`; a layer with"},
    {"    - repeat: {times: 2, layers: [layer_norm, layer_norm: {from: input}]}\n",
     "f.yaml:5:35: model.layers: no layer reads the output of `block.0.0`"},
    {"    - repeat: {times: 1, layers: [layer_norm]}\n    - repeat: {times: 1, layers: [layer_norm]}\n",
     "f.yaml:6:35: model.layers: the name `block.0.0` is used twice, first in line 5; give each layer, and "
     "each"},
    {"    - repeat: {times: 1, name: a/b, layers: [layer_norm]}\n",
     "f.yaml:5:32: model.layers.repeat.name: `a/b` is no name"},
    {"    - repeat: {times: 1, from: fc, layers: [layer_norm]}\n",
     "f.yaml:5:32: model.layers.repeat.from: no earlier layer is called `fc`"},
    {"    - dense: {units: 4, name: a}\n    - dense: {units: 4, name: b}\n"
     "    - repeat: {times: 1, from: a, layers: [layer_norm: {from: b}]}\n",
     "f.yaml:7:32: model.layers.repeat.from: no layer of the block reads it; `from: input` does"},
    {"    - repeat: {times: 2, layers: [dense: {unit: 4}]}\n    - dense: {units: 1, from: block.1.0}\n",
     "f.yaml:5:35: model.layers.dense.units is missing"}, /* not also block.1.0 */
    {"    - dens: {units: 4, name: a}\n    - dense: {units: 1, from: a}\n",
     "f.yaml:5:7: unknown layer `dens`"},
    {"    - concat: {from: [input, input, input, input, input, input, input, input, input, input, input, "
     "input, "
     "input, input, input, input, input]}\n",
     "f.yaml:5:22: model.layers.concat.from: 17 given, 2 to 16 layers are joined"},
};

static void refusals(void **state) {
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(refused); i++) {
    char text[1024];
    parsed_t p;
    snprintf(text, sizeof text, HEAD "%s", refused[i].layers);
    capture_clear(c);
    assert_int_equal(parse_model(c, text, &p), LS_ERR_CONFIG);
    if (strncmp(c->text, refused[i].message, strlen(refused[i].message)) != 0)
      fail_msg("case %d: got \"%s\", expected \"%s\"", i, c->text, refused[i].message);
    if (c->count != 1 + (strstr(refused[i].layers, "unit:") != NULL)) fail_msg("case %d: %s", i, c->text);
    release_model(&p);
  }
}

/* Each join is as large as 16 of the one before: sizes end before they overflow. */
static void sizes_are_bounded(void **state) {
  capture_t *c = *state;
  char text[4096] = HEAD "    - dense: {units: 1048576, name: a0}\n";
  parsed_t p;
  for (int i = 1; i <= 3; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "    - concat: {name: a%d, from: [a%d", i, i - 1);
    for (int k = 1; k < LS_LAYER_FROM_MAX; k++)
      snprintf(text + strlen(text), sizeof text - strlen(text), ", a%d", i - 1);
    strcat(text, "]}\n");
  }
  assert_int_equal(parse_model(c, text, &p), LS_ERR_CONFIG);
  assert_non_null(
      strstr(c->text, "f.yaml:8:7: model.layers: a sample of more than 268435456 elements behind `a3`"));
  release_model(&p);
}

static ls_status_t parse_all(capture_t *c) {
  ls_doc_t doc;
  ls_arena_t arena;
  ls_model_config_t model;
  ls_graph_t *graph;
  ls_status_t status = ls_doc_parse(c->ctx, "f.yaml", residual, strlen(residual), &doc);
  if (status != LS_OK) return status;
  ls_arena_init(&arena, c->ctx);
  status = ls_model_parse(c->ctx, &arena, ls_doc_get(doc.root, "model"), &model);
  if (status == LS_OK) status = ls_model_build(c->ctx, &model, 3, true, &graph);
  if (status == LS_OK) ls_graph_destroy(graph);
  ls_arena_release(&arena);
  ls_doc_release(&doc);
  return status;
}

static void allocation_failures(void **state) {
  assert_true(capture_fail_each_alloc(*state, parse_all) >= 2);
}

TESTS(capture_setup, capture_teardown, names_and_blocks, shared_once_and_frozen, a_bias_beside_shared_rows,
      a_chain_in_other_words, saved_and_read_again, refusals, sizes_are_bounded, allocation_failures)
