/* The model section: what is read, what is refused and where, what is saved. */
#include "parse.h"

#include "model/layer.h"

#include <stdlib.h>

static const char *const mnist = "model:\n"
                                 "  input: [28, 28]\n"
                                 "  layers:\n"
                                 "    - dense: {units: 128, activation: relu, dropout: 0.1}\n"
                                 "    - dense: {units: 10}\n"
                                 "  loss: cross-entropy\n";

static void reads_layers(void **state) {
  capture_t *c = *state;
  parsed_t p;
  assert_int_equal(parse_model(c, mnist, &p), LS_OK);
  assert_string_equal(c->text, "");
  assert_null(p.model.preset);
  assert_int_equal(p.model.loss, LS_LOSS_CROSS_ENTROPY);
  assert_int_equal(p.model.layer_count, 2);
  assert_int_equal(ls_model_inputs(&p.model), 784);
  assert_int_equal(ls_model_outputs(&p.model), 10);
  release_model(&p);
}

static void every_kind(void **state) {
  capture_t *c = *state;
  parsed_t p;
  const char *text =
      "model:\n  input: 12\n  loss: mse\n  layers:\n    - layer_norm\n    - dense: {units: 8, bias: false}\n"
      "    - activation: {kind: gelu}\n    - dropout: {rate: 0.5}\n    - layer_norm: {eps: 1e-6}\n"
      "    - layer_norm:\n";
  assert_int_equal(parse_model(c, text, &p), LS_OK);
  assert_int_equal(p.model.layer_count, 6);
  assert_int_equal(ls_model_inputs(&p.model), 12);
  assert_int_equal(ls_model_outputs(&p.model), 8);
  release_model(&p);
}

/* Single errors: the text below `model:`, and the report. */
static const struct {
  const char *text;
  const char *message;
} refused[] = {
    {"  input: 3\n  loss: mse\n", "f.yaml:1:1: model.layers is missing: a list of layers, or preset"},
    {"  input: 3\n  loss: mse\n  layers:\n", "f.yaml:1:1: model.layers is missing"},
    {"  loss: mse\n  layers: [dense: {units: 1}]\n", "f.yaml:1:1: model.input is missing: the shape"},
    {"  input: []\n  loss: mse\n  layers: [dense: {units: 1}]\n", "f.yaml:1:1: model.input is missing"},
    {"  input: 3\n  layers: [dense: {units: 1}]\n",
     "f.yaml:1:1: model.loss is missing: cross-entropy for classes, mse for numbers"},
    {"  input: 0\n  loss: mse\n  layers: [dense: {units: 1}]\n",
     "f.yaml:2:10: model.input: `0` must be in [1, "},
    {"  input: [65536, 65536]\n  loss: mse\n  layers: [dense: {units: 1}]\n",
     "f.yaml:2:10: model.input: a sample of more than 268435456 elements"},
    {"  input: [1, 1, 1, 1, 1, 1]\n  loss: mse\n  layers: [dense: {units: 1}]\n",
     "f.yaml:2:10: model.input: 6 dimensions, at most 5"},
    {"  input: 3\n  loss: mes\n  layers: [dense: {units: 1}]\n",
     "f.yaml:3:9: model.loss: `mes` is not one of cross-entropy, mse, l1, huber, binary-cross-entropy; did "
     "you mean `mse`?"},
    {"  input: 3\n  loss: mse\n  layers: []\n",
     "f.yaml:4:11: model.layers: a list of 1 to 1024 layers was expected"},
    {"  input: 3\n  loss: mse\n  layers: {dense: {units: 1}}\n",
     "f.yaml:4:11: model.layers: a list of 1 to 1024"},
    {"  input: 3\n  loss: mse\n  layers: [denes: {units: 1}]\n",
     "f.yaml:4:12: unknown layer `denes`; did you mean `dense`?"},
    {"  input: 3\n  loss: mse\n  layers: [quantum: {units: 1}]\n",
     "f.yaml:4:12: unknown layer `quantum`; possible: dense, layer_norm, dropout, activation"},
    {"  input: 3\n  loss: mse\n  layers: [{dense: {units: 1}, dropout: {rate: 0.1}}]\n",
     "f.yaml:4:12: a layer was expected, one kind and its options"},
    {"  input: 3\n  loss: mse\n  layers: [[dense]]\n", "f.yaml:4:12: a layer was expected"},
    {"  input: 3\n  loss: mse\n  layers: [~]\n", "f.yaml:4:12: a layer was expected"},
    {"  input: 3\n  loss: mse\n  layers: [dense: 3]\n",
     "f.yaml:4:19: model.layers.dense: a value is given, a map of options was expected"},
    {"  input: 3\n  loss: mse\n  layers: [dense]\n", "f.yaml:4:12: model.layers.dense.units is missing"},
    {"  input: 3\n  loss: mse\n  layers: [dense: {units: 0}]\n",
     "f.yaml:4:27: model.layers.dense.units: `0` must be in [1, 1048576]"},
    {"  input: 3\n  loss: mse\n  layers: [dense: {units: 1, dropout: 1}]\n",
     "f.yaml:4:39: model.layers.dense.dropout: `1` must be in [0, 0.99]"},
    {"  input: 3\n  loss: mse\n  layers: [dense: {units: 1, activation: relo}]\n",
     "f.yaml:4:42: model.layers.dense.activation: `relo` is not one of none, relu, "}, /* the list grows */
    {"  input: 3\n  loss: mse\n  layers: [dense: {unit: 1}]\n",
     "f.yaml:4:12: model.layers.dense.units is missing"},
    {"  input: 3\n  loss: mse\n  layers: [dropout: {rate: 0.1}]\n",
     "f.yaml:4:11: model.layers: none of the layers learns anything"},
    {"  input: 3\n  loss: mse\n  layers: [activation: {kind: relu}, dense: {units: 1}]\n  layer: 3\n",
     "f.yaml:5:3: unknown option `layer` in model; did you mean `layers`?"},
    {"  preset: mlp-medum\n",
     "f.yaml:2:11: model.preset: `mlp-medum` is not one of mlp-medium, mlp-large, mlp-extreme, "},
    {"  preset: 3\n", "f.yaml:2:11: model.preset: `3` is not one of mlp-medium, mlp-large, mlp-extreme, "},
    {"  preset: [a]\n", "f.yaml:2:11: model.preset: a list is given, a text was expected"},
    {"  preset: mlp-large\n  input: 3\n", "f.yaml:3:3: model.input cannot be combined with model.preset"},
    {"  preset: mlp-large\n  layers: [dense: {units: 1}]\n",
     "f.yaml:3:3: model.layers cannot be combined with"},
    {"  input: 3\n  loss: mse\n  layers: [dense: {units: 1}]\n  label_smoothing: 0.1\n",
     "f.yaml:5:20: model.label_smoothing has no effect without loss: cross-entropy"},
    {"  input: 3\n  loss: mse\n  layers: [dense: {units: 1}]\n  huber_delta: 2\n",
     "f.yaml:5:16: model.huber_delta has no effect without loss: huber"},
    {"  input: 3\n  loss: cross-entropy\n  layers: [dense: {units: 2}]\n  ignore: 1\n",
     "f.yaml:5:11: model.ignore has no effect without loss: cross-entropy and a last layer [T, classes]"},
    {"  - 3\n", "f.yaml:2:3: model: a list is given, a map of options was expected"},
};

static void refusals(void **state) {
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(refused); i++) {
    char text[1024];
    parsed_t p;
    unsigned char before[sizeof p.model];
    snprintf(text, sizeof text, "model:\n%s", refused[i].text);
    capture_clear(c);
    assert_int_equal(parse_model(c, text, &p), LS_ERR_CONFIG);
    if (strncmp(c->text, refused[i].message, strlen(refused[i].message)) != 0)
      fail_msg("case %d: got \"%s\", expected \"%s\"", i, c->text, refused[i].message);
    memset(before, 0xA5, sizeof before);
    assert_memory_equal(&p.model, before, sizeof before); /* written on success only */
    release_model(&p);
  }
}

static void all_errors_at_once(void **state) {
  capture_t *c = *state;
  parsed_t p;
  const char *text = "model:\n  input: [0, x]\n  loss: l2\n  layers:\n    - dens: {units: 1}\n    - dense: "
                     "{units: x, dropout: "
                     "2}\n    - 7\n  presets: a\n";
  assert_int_equal(parse_model(c, text, &p), LS_ERR_CONFIG);
  assert_int_equal(c->count, 8);
  release_model(&p);
}

static void nothing_at_all(void **state) {
  capture_t *c = *state;
  parsed_t p;
  assert_int_equal(parse_model(c, "data: {}\n", &p), LS_ERR_CONFIG);
  assert_string_equal(c->text, "model.input is missing: the shape of one sample, as [28, 28]\n"
                               "model.loss is missing: cross-entropy for classes, mse for numbers\n"
                               "model.layers is missing: a list of layers, or preset: NAME in their place\n");
  release_model(&p);
}

static void too_many_layers(void **state) {
  capture_t *c = *state;
  static char text[65536] = "model:\n  input: 3\n  loss: mse\n  layers:\n";
  parsed_t p;
  for (int i = 0; i < LS_LAYER_MAX; i++)
    strcat(text, "    - dense: {units: 1}\n");
  assert_int_equal(parse_model(c, text, &p), LS_OK);
  assert_int_equal(p.model.layer_count, LS_LAYER_MAX);
  release_model(&p);
  strcat(text, "    - dense: {units: 1}\n");
  assert_int_equal(parse_model(c, text, &p), LS_ERR_CONFIG);
  release_model(&p);
}

/* The saved document of a run is the whole model, and reads as the same model. */
static void saved_and_read_again(void **state) {
  capture_t *c = *state;
  static const char *const texts[] = {"model: {preset: mlp-large}\n", NULL};
  for (int i = 0; i < 2; i++) {
    parsed_t p, again;
    assert_int_equal(parse_model(c, texts[i] ? texts[i] : mnist, &p), LS_OK);
    json_t *object = ls_model_json(&p.model), *root = json_pack("{s:O}", "model", object);
    char *text = json_dumps(root, JSON_COMPACT);
    assert_int_equal(parse_model(c, text, &again), LS_OK);
    json_t *second = ls_model_json(&again.model);
    assert_true(json_equal(object, second));
    assert_int_equal(json_array_size(json_object_get(object, "layers")), p.model.layer_count);
    free(text);
    json_decref(second);
    json_decref(root);
    json_decref(object);
    release_model(&again);
    release_model(&p);
  }
}

static void reference_pages(void **state) {
  capture_t *c = *state;
  ls_arena_t arena;
  ls_arena_init(&arena, c->ctx);
  assert_non_null(strstr(ls_option_help(&arena, &ls_model_section), "preset"));
  int count = 0;
  for (; ls_layer_section_at(count); count++)
    assert_non_null(strstr(ls_option_help(&arena, ls_layer_section_at(count)), "model.layers."));
  int kinds = 0;
  while (ls_layer_kinds[kinds])
    kinds++;
  assert_int_equal(count, kinds + 2); /* of every layer, of each kind, of blocks */
  ls_arena_release(&arena);
}

static ls_status_t parse_all(capture_t *c) {
  ls_doc_t doc;
  ls_arena_t arena;
  ls_model_config_t model;
  ls_status_t status = ls_doc_parse(c->ctx, "f.yaml", mnist, strlen(mnist), &doc);
  if (status != LS_OK) return status;
  ls_arena_init(&arena, c->ctx);
  status = ls_model_parse(c->ctx, &arena, ls_doc_get(doc.root, "model"), &model);
  ls_arena_release(&arena);
  ls_doc_release(&doc);
  return status;
}

static void allocation_failures(void **state) {
  assert_true(capture_fail_each_alloc(*state, parse_all) >= 2);
}

TESTS(capture_setup, capture_teardown, reads_layers, every_kind, refusals, all_errors_at_once, nothing_at_all,
      too_many_layers, saved_and_read_again, reference_pages, allocation_failures)
