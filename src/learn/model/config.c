/* The model section: a preset, or the shape of one sample and a list of layers. All errors are reported at
 * once, each with its place. */
#include "model/names.h"
#include "model/presets.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SIZE(size, most, what)                                                                               \
  LS_OPTION(ls_model_config_t, size, .change = LS_CHANGE_IGNORED, .min = 0, .max = (most), .initial = "0",   \
            .help = "Of a preset: " what "; 0: its own.")
static const ls_option_t model_rows[] = {
    LS_OPTION(ls_model_config_t, preset, .change = LS_CHANGE_IGNORED, .optional = true,
              .help = "mlp-medium, mlp-large, mlp-extreme, lstm, gru, encoder, gpt-char, gpt2, bert-small, "
                      "bert-base, bert-small-mlm, bert-base-mlm, resnet18, resnet34, resnet50, "
                      "efficientnet-b0, or the path of a preset's file, as ./mine.yaml (layers.md); replaces "
                      "input and layers. The sizes below change it."),
    LS_OPTION(ls_model_config_t, width, .change = LS_CHANGE_IGNORED, .min = 0, .max = 1 << 20, .initial = "0",
              .help = "Of a preset: width of its layers; of resnet: of its first stage, which each later one "
                      "doubles; of efficientnet: a factor of all channels, 1 in b0, 1.1 in b2; 0: its own."),
    LS_OPTION(ls_model_config_t, depth, .change = LS_CHANGE_IGNORED, .min = 0, .max = LS_LAYER_MAX,
              .optional = true,
              .help =
                  "Of a preset: number of its layers or blocks; of resnet: blocks of each stage, one number "
                  "or [3, 4, 23, 3] (resnet101); of efficientnet: a factor of all stages' blocks, 1 in b0, "
                  "1.1 in b1."),
    SIZE(heads, 4096, "heads of attention"),
    SIZE(context, 1 << 24, "places of a sequence"),
    SIZE(vocabulary, 1 << 24, "tokens that it knows"),
    SIZE(features, 1 << 20, "values of a place; channels of an image"),
    SIZE(classes, 1 << 20, "outputs; bert has none by itself, and then gives [T, width]"),
    SIZE(image, 1 << 14, "height and width of its images"),
    SIZE(groups, 4096, "groups of resnet50's 3 x 3 convolutions: 32 in resnext50_32x4d"),
    SIZE(group_width, 1 << 16,
         "channels of a group in resnet50's first stage of width 64: 64 in resnet50, 128 in wide_resnet50_2, "
         "4 in "
         "resnext50_32x4d"),
    LS_OPTION(
        ls_model_config_t, separator, .change = LS_CHANGE_IGNORED, .min = -1, .max = 1 << 24, .initial = "-1",
        .help = "Of bert: token that ends a text ([SEP], 102); what follows the first has the second row "
                "of token types; -1: a sample is one text."),
    LS_OPTION(ls_model_config_t, dropout, .change = LS_CHANGE_IGNORED, .min = -1, .apart = true, .max = 0.99,
              .initial = "-1",
              .help = "Of a preset with attention, and of efficientnet: its dropout; -1: its own."),
    LS_OPTION(ls_model_config_t, input, .change = LS_CHANGE_MODEL, .min = 1, .max = 1e9, .optional = true,
              .help = "Shape of one sample, as [28, 28]."),
    LS_OPTION(ls_model_config_t, loss, .change = LS_CHANGE_MODEL, .optional = true, .choices = ls_loss_names,
              .help =
                  "cross-entropy for classes; binary-cross-entropy for several labels of 0 or 1 that a "
                  "sample may have "
                  "together (the last layer gives logits); mse, l1 or huber for numbers. Required, but for "
                  "presets: those of gpt, mlm, resnet and efficientnet and bert with classes have "
                  "cross-entropy, others mse. cross-entropy of a last layer of several dimensions, as [T, "
                  "classes], takes a "
                  "class for every position, and is the mean over them."),
    LS_OPTION(
        ls_model_config_t, label_smoothing, .change = LS_CHANGE_RUN, .max = 0.99, .initial = "0",
        .help =
            "cross-entropy: share s of the target that all classes share alike in training, as s / classes "
            "each; evaluation measures without it."),
    LS_OPTION(ls_model_config_t, huber_delta, .change = LS_CHANGE_RUN, .min = 1e-6, .max = 1e6,
              .initial = "1",
              .help = "huber: difference up to which its square counts, and beyond which its size does."),
    LS_OPTION(
        ls_model_config_t, ignore, .change = LS_CHANGE_RUN, .min = -1000000, .max = 1e9, .initial = "-1",
        .help =
            "cross-entropy of positions: those with this class count nowhere, such as padding; a sample's "
            "loss is the mean over its other positions."),
    LS_OPTION(
        ls_model_config_t, freeze, .change = LS_CHANGE_RUN, .optional = true,
        .help =
            "Patterns of names of parameters that keep their initial or loaded values, such as `conv1.*`: * "
            "is any text, ? one character. `!` before a pattern takes back what the ones before it froze, "
            "as in [\"*\", \"!fc.*\"]."),
    LS_OPTION(
        ls_model_config_t, pad, .change = LS_CHANGE_MODEL, .min = -1, .max = 1 << 24, .initial = "-1",
        .help = "Token that fills the ends of samples shorter than the context; -1: there is none. Its "
                "places take "
                "no part in attention, in global_pool, in an lstm's or gru's last output and in the loss of "
                "positions."),
    LS_OPTION_PATH(
        ls_model_config_t, weights, .change = LS_CHANGE_IGNORED, .optional = true,
        .help = "A new run begins with the tensors of this .safetensors file, checkpoint or run, as far as "
                "they fit; the others begin as without it."),
    LS_OPTION(ls_model_config_t, map, .change = LS_CHANGE_IGNORED, .initial = "names",
              .choices = ls_names_choices,
              .help = "Names and layouts of the tensors in weights: those of this program, of torchvision's "
                      "networks, or "
                      "of Hugging Face's GPT-2 or BERT."),
};
const ls_section_t ls_model_section = {"model", model_rows, LS_COUNT(model_rows),
                                       "The network: a preset, or input and layers; and its loss."};
enum { SIZES_FIRST = 1, SIZES = 12 }; /* rows: width to dropout */
const ls_section_t ls_model_sizes = {"model", model_rows + SIZES_FIRST, SIZES, "Sizes of a preset."};

static bool is_given(const ls_doc_node_t *map, const char *key) {
  const ls_doc_node_t *node = ls_doc_get(map, key);
  return node && node->kind != LS_DOC_NULL;
}

static ls_status_t fail_missing(ls_ctx_t *ctx, const ls_doc_node_t *map, const char *key, const char *what) {
  const char *fmt = "model.%s is missing: %s";
  if (!map) return ls_fail(ctx, LS_ERR_CONFIG, fmt, key, what);
  return ls_fail_at(ctx, LS_ERR_CONFIG, map->key ? &map->key_place : &map->place, fmt, key, what);
}

/* The number of elements of a sample must be small enough for later products. */
static ls_status_t check_input(ls_ctx_t *ctx, const ls_doc_node_t *map, const ls_ints_t *input) {
  const ls_doc_node_t *node = ls_doc_get(map, "input");
  if (!node || input->count == 0)
    return fail_missing(ctx, map, "input", "the shape of one sample, as [28, 28]");
  if (input->count > LS_DIMS_MAX - 1)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place, "model.input: %d dimensions, at most %d are possible",
                      input->count, LS_DIMS_MAX - 1);
  int64_t inputs = 1;
  for (int i = 0; i < input->count; i++)
    if (__builtin_mul_overflow(inputs, input->v[i], &inputs) || inputs > LS_SAMPLE_MAX)
      return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place, "model.input: a sample of more than %lld elements",
                        (long long)LS_SAMPLE_MAX);
  return LS_OK;
}

static ls_status_t parse_own(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map, ls_status_t options,
                             ls_model_config_t *model) {
  ls_status_t status = LS_OK;
  /* An input with a reported error is not reported again as missing. */
  if (options == LS_OK || model->input.count > 0 || !is_given(map, "input"))
    status = check_input(ctx, map, &model->input);
  bool sized = status == LS_OK && model->input.count > 0;
  if (!is_given(map, "loss"))
    status = ls_worse(status, fail_missing(ctx, map, "loss", "cross-entropy for classes, mse for numbers"));
  if (is_given(map, "layers"))
    return ls_worse(status, ls_layers_parse(ctx, arena, ls_doc_get(map, "layers"), sized, model));
  return ls_worse(status,
                  fail_missing(ctx, map, "layers", "a list of layers, or preset: NAME in their place"));
}

/* The place for errors in a preset's document: its name, or the only size that the user changed, which is then the
 * cause of any error. */
static ls_place_t preset_place(ls_arena_t *arena, const ls_doc_node_t *map, const char *preset) {
  const ls_doc_node_t *at = NULL;
  int given = 0;
  for (int i = 0; i < SIZES; i++) {
    const char *size = ls_model_sizes.rows[i].name;
    if (is_given(map, size) && given++ == 0) at = ls_doc_get(map, size);
  }
  ls_place_t place = given == 1 ? at->key_place : ls_doc_get(map, "preset")->place;
  place.about = ls_arena_printf(arena, "preset %s", preset);
  return place;
}

static void move_places(ls_doc_node_t *node, const ls_place_t *place) {
  node->place = node->key_place = *place;
  for (ls_doc_node_t *child = node->child; child; child = child->next)
    move_places(child, place);
}

/* The preset's network. Errors of a shipped one are reported where the user wrote what they come from. */
static ls_status_t read_preset(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map,
                               const ls_preset_t *preset, ls_model_config_t *model) {
  static const char *const nested[] = {"layers", NULL};
  ls_doc_t doc;
  ls_model_config_t own = {0};
  char *text = NULL;
  ls_status_t status = ls_preset_text(ctx, preset, model, &text);
  if (status == LS_OK) status = ls_doc_parse(ctx, preset->file, text, strlen(text), &doc);
  ls_free(text);
  if (status != LS_OK) return status;
  const ls_place_t place = preset_place(arena, map, model->preset);
  if (preset->shipped) move_places(doc.root, &place);
  status = ls_option_parse(ctx, arena, &ls_model_section, doc.root, nested, &own);
  model->input = own.input;
  if (!is_given(map, "loss")) model->loss = is_given(doc.root, "loss") ? own.loss : LS_LOSS_MSE;
  if (status == LS_OK && !preset->shipped) status = check_input(ctx, doc.root, &model->input);
  if (status == LS_OK) status = ls_layers_parse(ctx, arena, ls_doc_get(doc.root, "layers"), true, model);
  ls_doc_release(&doc);
  return status;
}

/* Sizes that the preset, or a list of layers, does not have. */
static ls_status_t check_sizes(ls_ctx_t *ctx, const ls_doc_node_t *map, const ls_preset_t *preset,
                               const ls_model_config_t *model) {
  ls_status_t status = LS_OK;
  char text[LS_LAYER_WHY_BYTES];
  for (int i = 0; i < SIZES; i++) {
    const char *size = ls_model_sizes.rows[i].name;
    if (!is_given(map, size)) continue;
    const char *why =
        preset ? ls_preset_refuses(preset, model, size, text) : "the layers below have their own sizes";
    if (why)
      status = ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_get(map, size)->key_place, "model.%s: %s %s", size,
                          preset ? model->preset : "it changes a preset;", why);
  }
  return status;
}

static ls_status_t parse_preset(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map,
                                ls_model_config_t *model) {
  static const char *const excluded[] = {"input", "layers"};
  const ls_doc_node_t *node = ls_doc_get(map, "preset");
  ls_status_t status = LS_OK;
  for (int i = 0; i < LS_COUNT(excluded); i++)
    if (is_given(map, excluded[i]))
      status = ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_get(map, excluded[i])->key_place,
                          "model.%s cannot be combined with model.preset: `%s` has its own", excluded[i],
                          model->preset);
  const ls_preset_t *preset = NULL;
  ls_status_t loaded = ls_preset_load(ctx, arena, node, &preset);
  if (loaded == LS_OK) loaded = check_sizes(ctx, map, preset, model);
  status = ls_worse(status, loaded);
  return status == LS_OK ? read_preset(ctx, arena, map, preset, model) : status;
}

/* Options that would change nothing, because the loss or the samples are of another kind. */
static ls_status_t check_use(ls_ctx_t *ctx, const ls_doc_node_t *map, const ls_model_config_t *model) {
  const int64_t ids = ls_model_ids(model);
  const struct {
    const char *key, *needs;
    bool useless;
  } rows[] = {
      {"label_smoothing", "loss: cross-entropy",
       model->label_smoothing > 0 && model->loss != LS_LOSS_CROSS_ENTROPY},
      {"huber_delta", "loss: huber", model->huber_delta != 1 && model->loss != LS_LOSS_HUBER},
      {"ignore", "loss: cross-entropy and a last layer [T, classes]",
       model->ignore != -1 && ls_model_positions(model) == 0},
      {"pad", "tokens: only a network that begins with an embedding of samples [T] has padding",
       model->pad >= 0 && (ids == 0 || model->input.count != 1)},
  };
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (rows[i].useless)
      return ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_get(map, rows[i].key)->place,
                        "model.%s has no effect without %s", rows[i].key, rows[i].needs);
  if (model->pad < ids) return LS_OK;
  return ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_get(map, "pad")->place,
                    "model.pad: %" PRId64 " is no token of the embedding, whose rows are 0 to %" PRId64,
                    model->pad, ids - 1);
}

ls_status_t ls_model_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map,
                           ls_model_config_t *out) {
  static const char *const nested[] = {"layers", NULL};
  ls_model_config_t model = {0};
  ls_status_t options = ls_option_parse(ctx, arena, &ls_model_section, map, nested, &model);
  if (map && map->kind != LS_DOC_MAP && map->kind != LS_DOC_NULL) return options;
  ls_status_t status = options;
  if (model.preset)
    status = ls_worse(status, parse_preset(ctx, arena, map, &model));
  else if (!is_given(map, "preset"))
    status = ls_worse(ls_worse(status, check_sizes(ctx, map, NULL, &model)),
                      parse_own(ctx, arena, map, options, &model));
  if (status == LS_OK) status = check_use(ctx, map, &model);
  if (status == LS_OK) *out = model;
  return status;
}

/* One layer as {"dense": {...}}; NULL when memory is short. */
static json_t *layer_json(const ls_layer_t *layer) {
  json_t *object = json_object();
  if (object && json_object_set_new(object, layer->kind->name,
                                    ls_option_json(layer->kind->section, layer->options)) == 0)
    return object;
  json_decref(object);
  return NULL;
}

/* Written out even if it came from a preset, so that a saved configuration stays true when presets change. */
json_t *ls_model_json(const ls_model_config_t *model) {
  json_t *object = ls_option_json(&ls_model_section, model), *layers = json_array();
  bool ok = object && layers;
  for (int i = 0; ok && i < model->layer_count; i++)
    ok = json_array_append_new(layers, layer_json(&model->layer[i])) == 0;
  ok = ok && json_object_set(object, "layers", layers) == 0 && json_object_del(object, "preset") == 0;
  for (int i = 0; ok && i < SIZES; i++)
    ok = json_object_del(object, ls_model_sizes.rows[i].name) == 0;
  json_decref(layers);
  if (ok) return object;
  json_decref(object);
  return NULL;
}
