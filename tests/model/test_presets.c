/* The presets have exactly the published sizes. */
#include "graph/ops/ops.h"
#include "graph/pass/pass.h"
#include "parse.h"

#include "base/file.h"
#include <unistd.h>

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
    {"encoder", 64 * 50, 3, 2692227, 6 * 4 + 2, 0, 1 + 6 * 2, 0},
    {"gpt-char", 256, 256 * 65, 10770816, 6 * 4 + 1, 0, 1 + 6 * 2, 0},
    {"gpt2", 1024, 1024 * 50257, 124439808, 12 * 4 + 1, 0, 1 + 12 * 2, 0},
    {"bert-small", 128, 128 * 512, 28500992, 4 * 4, 0, 1 + 4 * 2, 0},
    {"bert-base", 128, 128 * 768, 108891648, 12 * 4, 0, 1 + 12 * 2, 0},
    {"bert-small-mlm", 128, 128 * 30522, 28500992 + 512 * 512 + 3 * 512 + 30522, 4 * 4 + 2, 0, 1 + 4 * 2, 0},
    {"bert-base-mlm", 128, 128 * 30522, 109514298, 12 * 4 + 2, 0, 1 + 12 * 2, 0},
    {"resnet18", 224 * 224 * 3, 1000, 11689512, 1, 17, 0, 0},
    {"resnet34", 224 * 224 * 3, 1000, 21797672, 1, 33, 0, 0},
    {"resnet50", 224 * 224 * 3, 1000, 25557032, 1, 49, 0, 0},
    {"efficientnet-b0", 224 * 224 * 3, 1000, 5288548, 2 * 16 + 1, 0, 1, 0},
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
    assert_int_equal(p.model.loss, strncmp(presets[i].name, "gpt", 3) == 0 ||
                                           strstr(presets[i].name, "mlm") || presets[i].outputs == 1000
                                       ? LS_LOSS_CROSS_ENTROPY
                                       : LS_LOSS_MSE);
    assert_int_equal(ls_model_inputs(&p.model), presets[i].inputs);
    assert_int_equal(ls_model_outputs(&p.model), presets[i].outputs);
    assert_int_equal(ls_model_build(c->ctx, &p.model, 2, true, &graph), LS_OK);
    assert_int_equal(ls_graph_param_count(graph), presets[i].params);
    assert_int_equal(count_ops(graph, "linear"), presets[i].linear);
    assert_int_equal(count_ops(graph, "relu"), presets[i].relu);
    assert_int_equal(count_ops(graph, "dropout"), presets[i].dropout);
    assert_int_equal(count_ops(graph, "_chain"), presets[i].chains);
    ls_graph_destroy(graph);
    release_model(&p);
  }
}

static bool has_all(const void *backend, const char *op, ls_dtype_t low) {
  (void)backend;
  (void)op;
  (void)low;
  return true;
}

/* In 16 bits every product is low. Few casts remain apart from those of parameters: of samples, of values before a
 * loss in f32 and of its gradient. */
static void few_casts_in_16_bits(void **state) {
  capture_t *c = *state;
  enum { CASTS_MOST = 4 };
  for (int i = 0; i < 2 * LS_COUNT(presets); i++) {
    char text[64];
    parsed_t p;
    ls_graph_t *graph;
    const ls_pass_context_t passes = {.has = has_all, .low = i % 2 ? LS_F16 : LS_BF16, .fuse = true};
    snprintf(text, sizeof text, "model: {preset: %s}\n", presets[i / 2].name);
    assert_int_equal(parse_model(c, text, &p), LS_OK);
    assert_int_equal(ls_model_build(c->ctx, &p.model, 2, true, &graph), LS_OK);
    assert_int_equal(ls_graph_run_passes(graph, &passes), LS_OK);
    int casts = 0, wide = 0;
    for (int n = 0; n < graph->node_count; n++) {
      const ls_graph_node_t *node = &graph->nodes[n];
      casts += node->op == &ls_op_cast && graph->tensors[node->in[0]].role != LS_ROLE_PARAM;
      wide +=
          node->op->low_wants && node->op->low_in && graph->tensors[node->in[0]].shape.dtype != passes.low;
    }
    assert_int_equal(wide, 0);
    assert_in_range(casts, 0, CASTS_MOST);
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

/* Other sizes, by their formulas: a block of width w has 12 w^2 + 13 w parameters. */
static void of_other_sizes(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *text;
    int64_t params;
    int loss, dropout;
  } others[] = {
      {"{preset: gpt-char, width: 128, depth: 4, heads: 4, context: 64, dropout: 0}", 809856,
       LS_LOSS_CROSS_ENTROPY, 0},
      {"{preset: gpt2, vocabulary: 50304}", 124475904, LS_LOSS_CROSS_ENTROPY, 25},
      {"{preset: gpt2, width: 1024, depth: 24, heads: 16}", 354823168, LS_LOSS_CROSS_ENTROPY, 49},
      {"{preset: bert-base, classes: 2}", 108891648 + 2 * 768 + 2, LS_LOSS_CROSS_ENTROPY, 25},
      {"{preset: encoder, width: 64, heads: 2, depth: 1, features: 7, context: 5, classes: 4, loss: "
       "cross-entropy}",
       8 * 64 + 5 * 64 + 12 * 64 * 64 + 13 * 64 + 2 * 64 + 4 * 64 + 4, LS_LOSS_CROSS_ENTROPY, 3},
      {"{preset: lstm, width: 8, depth: 1, features: 3, classes: 2}", 4 * 8 * (3 + 8 + 1) + 2 * 8 + 2,
       LS_LOSS_MSE, 0},
      {"{preset: resnet18, image: 32, features: 1, classes: 10}", 11689512 - 990 * 513 - 64 * 49 * 2,
       LS_LOSS_CROSS_ENTROPY, 0},
      /* torchvision's resnet101 and 152, and efficientnet_b1 to b3 */
      {"{preset: resnet50, depth: [3, 4, 23, 3]}", 44549160, LS_LOSS_CROSS_ENTROPY, 0},
      {"{preset: resnet50, depth: [3, 8, 36, 3]}", 60192808, LS_LOSS_CROSS_ENTROPY, 0},
      /* wide_resnet50_2 and 101_2, resnext50_32x4d and 101_32x8d */
      {"{preset: resnet50, group_width: 128}", 68883240, LS_LOSS_CROSS_ENTROPY, 0},
      {"{preset: resnet50, group_width: 128, depth: [3, 4, 23, 3]}", 126886696, LS_LOSS_CROSS_ENTROPY, 0},
      {"{preset: resnet50, groups: 32, group_width: 4}", 25028904, LS_LOSS_CROSS_ENTROPY, 0},
      {"{preset: resnet50, groups: 32, group_width: 8, depth: [3, 4, 23, 3]}", 88791336,
       LS_LOSS_CROSS_ENTROPY, 0},
      {"{preset: resnet34, depth: 2}", 11689512, LS_LOSS_CROSS_ENTROPY, 0},
      {"{preset: resnet18, width: 8, depth: 1, classes: 10}", 78962, LS_LOSS_CROSS_ENTROPY, 0},
      {"{preset: efficientnet-b0, width: 1.0, depth: 1.1}", 7794184, LS_LOSS_CROSS_ENTROPY, 1},
      {"{preset: efficientnet-b0, width: 1.1, depth: 1.2, image: 260, dropout: 0.3}", 9109994,
       LS_LOSS_CROSS_ENTROPY, 1},
      {"{preset: efficientnet-b0, width: 1.2, depth: 1.4, image: 300, dropout: 0.3}", 12233232,
       LS_LOSS_CROSS_ENTROPY, 1},
      {"{preset: efficientnet-b0, image: 64, classes: 10}", 5288548 - 990 * 1281, LS_LOSS_CROSS_ENTROPY, 1},
  };
  for (int i = 0; i < LS_COUNT(others); i++) {
    char text[160];
    parsed_t p;
    ls_graph_t *graph;
    snprintf(text, sizeof text, "model: %s\n", others[i].text);
    assert_int_equal(parse_model(c, text, &p), LS_OK);
    assert_int_equal(p.model.loss, others[i].loss);
    assert_int_equal(ls_model_build(c->ctx, &p.model, 1, true, &graph), LS_OK);
    assert_int_equal(ls_graph_param_count(graph), others[i].params);
    assert_int_equal(count_ops(graph, "dropout"), others[i].dropout);
    json_t *json = ls_model_json(&p.model);
    assert_null(json_object_get(json, "width"));
    assert_null(json_object_get(json, "image"));
    assert_null(json_object_get(json, "group_width"));
    assert_null(json_object_get(json, "preset"));
    json_decref(json);
    ls_graph_destroy(graph);
    release_model(&p);
  }
}

/* A separator changes no parameters: the rows of both types are there in any case. */
static void two_texts_of_bert(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *text;
    int segments;
  } rows[] = {{"model: {preset: bert-small}\n", 0}, {"model: {preset: bert-small, separator: 102}\n", 1}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    parsed_t p;
    ls_graph_t *graph;
    assert_int_equal(parse_model(c, rows[i].text, &p), LS_OK);
    assert_int_equal(ls_model_build(c->ctx, &p.model, 1, true, &graph), LS_OK);
    assert_int_equal(count_ops(graph, "segments"), rows[i].segments);
    assert_int_equal(ls_graph_param_count(graph), 28500992);
    assert_int_equal(ls_model_ids(&p.model), 30522);
    ls_graph_destroy(graph);
    release_model(&p);
  }
}

static void dropout_0_ends_stochastic_depth(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *text;
    int dropped;
  } rows[] = {{"model: {preset: efficientnet-b0}\n", 9 + 1},
              {"model: {preset: efficientnet-b0, dropout: 0}\n", 0}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    parsed_t p;
    ls_graph_t *graph;
    assert_int_equal(parse_model(c, rows[i].text, &p), LS_OK);
    assert_int_equal(ls_model_build(c->ctx, &p.model, 1, true, &graph), LS_OK);
    assert_int_equal(count_ops(graph, "drop_rows") + count_ops(graph, "dropout"), rows[i].dropped);
    ls_graph_destroy(graph);
    release_model(&p);
  }
}

static void sizes_that_do_not_fit(void **state) {
  capture_t *c = *state;
  static const char *const texts[][2] = {
      {"model: {preset: mlp-large, width: 3}\n", "f.yaml:1:28: model.width: mlp-large has no such size"},
      {"model: {preset: lstm, heads: 3}\n", "f.yaml:1:23: model.heads: lstm has no such size"},
      {"model: {input: 4, loss: mse, depth: 2, layers: [dense: {units: 2}]}\n",
       "f.yaml:1:30: model.depth: it changes a preset; the layers below have their own sizes"},
      {"model: {preset: gpt2, heads: 7}\n", "f.yaml:1:23: preset gpt2: model.layers.attention:"},
      {"model: {preset: gpt2, separator: 7}\n", "f.yaml:1:23: model.separator: gpt2 has no such size"},
      {"model: {preset: gpt2, width: 76.5}\n", "f.yaml:1:23: model.width: gpt2 takes whole numbers"},
      {"model: {preset: lstm, depth: [2, 2]}\n", "f.yaml:1:23: model.depth: lstm takes one number"},
      {"model: {preset: resnet18, depth: [2, 2.5, 2, 2]}\n",
       "f.yaml:1:27: model.depth: resnet18 takes whole numbers"},
      {"model: {preset: resnet50, depth: [3, 4]}\n",
       "f.yaml:1:27: model.depth: resnet50 takes one number, or one for each of its 4 stages"},
      {"model: {preset: efficientnet-b0, depth: [1, 2]}\n",
       "f.yaml:1:34: model.depth: efficientnet-b0 takes one number"},
      {"model: {preset: resnet18, depth: 37}\n",
       "f.yaml:1:27: model.depth: resnet18 takes at most 144 blocks: a network has at most 1024 layers\n"},
      {"model: {preset: resnet34, depth: [200, 1, 1, 1]}\n",
       "f.yaml:1:27: model.depth: resnet34 takes at most 144 blocks: a network has at most 1024 layers\n"},
      {"model: {preset: resnet50, depth: [26, 26, 25, 25]}\n",
       "f.yaml:1:27: model.depth: resnet50 takes at most 101 blocks: a network has at most 1024 layers\n"},
      {"model: {preset: efficientnet-b0, depth: 4.6}\n",
       "f.yaml:1:34: model.depth: efficientnet-b0 takes at most 74 blocks: a network has at most 1024 "
       "layers\n"},
      {"model: {preset: resnet34, groups: 2}\n", "f.yaml:1:27: model.groups: resnet34 has no such size"},
      {"model: {preset: resnet50, width: 8, group_width: 7}\n",
       "f.yaml:1:37: model.group_width: resnet50 has no channel left: the first stage has width * "
       "group_width / 64 "
       "for each group\n"},
      {"model: {preset: gpt2, depth: 128}\n",
       "f.yaml:1:23: model.depth: gpt2 takes at most 127 blocks: a network has at most 1024 layers\n"},
      {"model: {preset: encoder, depth: 128}\n",
       "f.yaml:1:26: model.depth: encoder takes at most 127 blocks: a network has at most 1024 layers\n"},
      {"model: {preset: bert-base, depth: 128}\n",
       "f.yaml:1:28: model.depth: bert-base takes at most 127 blocks: a network has at most 1024 layers\n"},
      {"model: {preset: bert-small-mlm, depth: 127}\n",
       "f.yaml:1:33: model.depth: bert-small-mlm takes at most 126 blocks: a network has at most 1024 "
       "layers\n"},
      {"model: {preset: resnet18, depth: [1, 0, 1, 1]}\n",
       "f.yaml:1:27: model.depth: resnet18 needs a block in each of its 4 stages\n"},
      {"model: {preset: bert-small, vocabulary: 50, separator: 50}\n",
       "f.yaml:1:45: model.separator: bert-small has the tokens 0 to 49: give one of them, or a larger "
       "model.vocabulary\n"},
      {"model: {preset: bert-base-mlm, separator: 40000}\n",
       "f.yaml:1:32: model.separator: bert-base-mlm has the tokens 0 to 30521: give"},
      {"model: {preset: efficientnet-b0, width: 1e6}\n",
       "f.yaml:1:34: preset efficientnet-b0: model.layers."},
      /* an error of the preset's own text: at the only size that is given, or at the preset */
      {"model: {preset: bert-small, context: 513}\n",
       "f.yaml:1:29: preset bert-small: model.layers.positions: size 512"},
      {"model: {preset: lstm, depth: 9}\n",
       "f.yaml:1:23: preset lstm: model.layers.lstm.layers: `9` must be in [1, 8]"},
      {"model: {preset: encoder, width: 64, heads: 3}\n",
       "f.yaml:1:17: preset encoder: model.layers.attention: a sequence [T, F] is needed, with F a multiple "
       "of the 3 heads"},
  };
  for (int i = 0; i < LS_COUNT(texts); i++) {
    parsed_t p;
    assert_int_equal(parse_model(c, texts[i][0], &p), LS_ERR_CONFIG);
    if (strncmp(c->text, texts[i][1], strlen(texts[i][1])) != 0) fail_msg("case %d: got \"%s\"", i, c->text);
    release_model(&p);
    capture_clear(c);
  }
}

/* With one block more each is refused, at model.depth. */
static void as_deep_as_layers_allow(void **state) {
  capture_t *c = *state;
  static const char *const texts[] = {
      "model: {preset: resnet18, width: 1, depth: 36}\n",
      "model: {preset: resnet34, width: 1, depth: [141, 1, 1, 1]}\n",
      "model: {preset: resnet50, width: 1, depth: [26, 25, 25, 25]}\n",
      "model: {preset: efficientnet-b0, width: 0.01, depth: 4.5}\n",
      "model: {preset: gpt2, depth: 127}\n",
      "model: {preset: encoder, depth: 127}\n",
      "model: {preset: bert-base, classes: 2, depth: 127}\n",
      "model: {preset: bert-small-mlm, depth: 126}\n",
      "model: {preset: bert-small, vocabulary: 50, separator: 49}\n",
  };
  for (int i = 0; i < LS_COUNT(texts); i++) {
    parsed_t p;
    if (parse_model(c, texts[i], &p) != LS_OK) fail_msg("%s: %s", texts[i], c->text);
    release_model(&p);
  }
}

/* One fault, one message. */
static void a_depth_that_is_no_depth(void **state) {
  capture_t *c = *state;
  static const char *const depths[] = {"-1", ".nan", "1e300", "[1000, -1, 1, 1]"};
  for (int i = 0; i < LS_COUNT(depths); i++) {
    char text[80];
    parsed_t p;
    snprintf(text, sizeof text, "model: {preset: resnet18, depth: %s}\n", depths[i]);
    assert_int_equal(parse_model(c, text, &p), LS_ERR_CONFIG);
    if (strstr(c->text, "model.depth") != c->text + strlen("f.yaml:1:34: ") ||
        strstr(c->text, "resnet18 takes"))
      fail_msg("%s: %s", depths[i], c->text);
    release_model(&p);
    capture_clear(c);
  }
}

/* A preset in a file of the user: its sizes with the network of another, or a network of its own. */
static void from_a_file(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *preset, *text;
    int64_t params; /* 0: refused, as `said` */
    const char *said;
  } cases[] = {
      {"own.yaml", "network: gpt2\nwidth: 128\ndepth: 4\nheads: 4\ncontext: 64\nvocabulary: 65\ndropout: 0\n",
       809856, NULL},
      {"./own.yaml", "width: 5\n---\ninput: [4]\nloss: mse\nlayers:\n  - dense: {units: ${width}}\n", 25,
       NULL},
      {"own.yaml", "width: 5\n", 0, "own.yaml: a preset has a line `---`"},
      {"own.yaml", "wdth: 5\n---\n", 0, "own.yaml:1:1: unknown option `wdth`; did you mean `width`?"},
      {"own.yaml", "network: gpt3\n", 0, "own.yaml: network: there is no preset `gpt3`"},
      {"own.yaml", "network: resnet18\nblocks: residual\ndepth: 2\n", 0, "depth has 1 of the 4 numbers"},
      {"own.yaml", "width: 5\n---\ninput: [4]\nlayers: [dense: {units: ${wdth}}]\n", 0,
       "own.yaml:4: there is no value for the placeholder `wdth`"},
      {"own.yaml", "width: 5\n---\nloss: mse\nlayers: [dense: {units: 3}]\n", 0, "model.input is missing"},
      {"own.yaml", "width: 5\n---\ninput: [4]\nlayers:\n  - dense: {unit: 3}\n", 0, "own.yaml:5:"},
      {"none.yaml", "", 0, "none.yaml: cannot be opened"},
  };
  char *folder = NULL;
  assert_int_equal(ls_dir_temporary(c->ctx, "presets", &folder), LS_OK);
  assert_int_equal(chdir(folder), 0);
  for (int i = 0; i < LS_COUNT(cases); i++) {
    char text[80];
    parsed_t p;
    ls_graph_t *graph;
    assert_int_equal(ls_file_write(c->ctx, "own.yaml", cases[i].text, strlen(cases[i].text)), LS_OK);
    snprintf(text, sizeof text, "model: {preset: %s}\n", cases[i].preset);
    const ls_status_t status = parse_model(c, text, &p);
    if ((status == LS_OK) != (cases[i].params > 0)) fail_msg("case %d: %s", i, c->text);
    if (cases[i].said && !strstr(c->text, cases[i].said)) fail_msg("case %d: %s", i, c->text);
    if (status == LS_OK) {
      assert_int_equal(ls_model_build(c->ctx, &p.model, 2, true, &graph), LS_OK);
      assert_int_equal(ls_graph_param_count(graph), cases[i].params);
      ls_graph_destroy(graph);
    }
    release_model(&p);
    capture_clear(c);
  }
  assert_int_equal(ls_dir_remove(c->ctx, folder), LS_OK);
  ls_free(folder);
}

TESTS(capture_setup, capture_teardown, sizes, few_casts_in_16_bits, with_another_loss, of_other_sizes,
      two_texts_of_bert, dropout_0_ends_stochastic_depth, sizes_that_do_not_fit, as_deep_as_layers_allow,
      a_depth_that_is_no_depth, from_a_file)
