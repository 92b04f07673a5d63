/* Networks by name, written as in a configuration; `$size` is a size that the configuration may change. docs/layers.md
 * says where each comes from; tests/model/test_presets.c has their parameter counts. */
#include "model/layer.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL(input, layers)   "input: " input "\nlayers:\n" layers
#define HIDDEN(units, dropout) "  - dense: {units: " #units ", activation: relu, dropout: " #dropout "}\n"
#define OUTPUTS(units)         "  - dense: {units: " units "}\n"
#define RECURRENT(kind)        "  - " kind ": {units: $width, layers: $depth, output: last}\n"

/* Pre-norm: x + attention(norm(x)), then x + mlp(norm(x)). */
#define BLOCK(name, causal, activation)                                                                      \
  "  - repeat:\n"                                                                                            \
  "      times: $depth\n"                                                                                    \
  "      name: " name "\n"                                                                                   \
  "      layers:\n"                                                                                          \
  "        - layer_norm: {name: ln_1, over: last}\n"                                                         \
  "        - attention: {name: attn, heads: $heads, causal: " causal ", dropout: $dropout, init: normal, "   \
  "proj_std: $residual}\n"                                                                                   \
  "        - dropout: {name: attn.drop, rate: $dropout}\n"                                                   \
  "        - add: {name: mid, from: [input, attn.drop]}\n"                                                   \
  "        - layer_norm: {name: ln_2, over: last}\n"                                                         \
  "        - dense: {name: mlp.c_fc, units: $width*4, over: last, activation: " activation                   \
  ", init: normal}\n"                                                                                        \
  "        - dense: {name: mlp.c_proj, units: $width, over: last, init: normal, init_std: $residual, "       \
  "dropout: $dropout}\n"                                                                                     \
  "        - add: {name: out, from: [mid, mlp.c_proj]}\n"                                                    \
  "  - layer_norm: {name: ln_f, over: last}\n"

/* Radford et al. 2019, with the names of Hugging Face. */
static const char gpt[] = "loss: cross-entropy\n" MODEL(
    "[$context]",
    "  - embedding: {name: wte, size: $vocabulary, units: $width}\n"
    "  - positions: {name: wpe}\n"
    "  - dropout: {name: drop, rate: $dropout}\n" BLOCK(
        "h", "true",
        "gelu_tanh") "  - dense: {name: lm_head, units: $vocabulary, over: last, bias: false, share: wte}\n");

static const char encoder[] =
    MODEL("[$context, $features]", "  - dense: {name: embed, units: $width, over: last, init: normal}\n"
                                   "  - positions: {name: wpe}\n"
                                   "  - dropout: {name: drop, rate: $dropout}\n" BLOCK(
                                       "h", "false", "gelu") "  - global_pool: {name: mean}\n"
                                                             "  - dense: {name: head, units: $classes}\n");

/* Devlin et al. 2018, with the names of Hugging Face, without the pooler. Post-norm: norm(x + attention(x)). */
#define BERT_NORM(name) "layer_norm: {name: " name "LayerNorm, over: last, eps: 1e-12}\n"
#define BERT                                                                                                 \
  "  - embedding: {name: embeddings.word_embeddings, size: $vocabulary, units: $width}\n"                    \
  "  - positions: {name: embeddings.position_embeddings, size: 512}\n"                                       \
  "  - embedding: {name: embeddings.token_type_embeddings, from: input, size: 2, units: $width, id: 0, "     \
  "separator: $separator}\n"                                                                                 \
  "  - add: {name: embeddings.sum, from: [embeddings.position_embeddings, "                                  \
  "embeddings.token_type_embeddings]}\n"                                                                     \
  "  - " BERT_NORM(                                                                                          \
      "embeddings.") "  - dropout: {name: embeddings.dropout, rate: $dropout}\n"                             \
                     "  - repeat:\n"                                                                         \
                     "      times: $depth\n"                                                                 \
                     "      name: encoder.layer\n"                                                           \
                     "      layers:\n"                                                                       \
                     "        - attention: {name: attention, heads: $heads, dropout: $dropout, init: "       \
                     "normal}\n"                                                                             \
                     "        - dropout: {name: attention.drop, rate: $dropout}\n"                           \
                     "        - add: {name: attention.sum, from: [input, attention.drop]}\n"                 \
                     "        - " BERT_NORM(                                                                 \
                         "attention.output.") "        - dense: {name: intermediate.dense, units: "          \
                                              "$width*4, over: last, activation: gelu, init: normal}\n"      \
                                              "        - dense: {name: output.dense, units: $width, over: "  \
                                              "last, init: normal, dropout: $dropout}\n"                     \
                                              "        - add: {name: output.sum, from: "                     \
                                              "[attention.output.LayerNorm, output.dense]}\n"                \
                                              "        - " BERT_NORM("output.")
static const char bert[] = MODEL("[$context]", BERT);
/* What was masked: a class for each place, by the rows of the word embeddings. */
static const char bert_mlm[] = "loss: cross-entropy\n" MODEL(
    "[$context]",
    BERT "  - dense: {name: cls.predictions.transform.dense, units: $width, over: last, activation: gelu, "
         "init: normal}\n"
         "  - " BERT_NORM("cls.predictions.transform.") "  - dense: {name: cls.predictions.decoder, units: "
                                                        "$vocabulary, over: last, share: "
                                                        "embeddings.word_embeddings}\n");
/* Classes of a text: of its first token. */
static const char bert_head[] = "  - global_pool: {name: first, kind: first}\n"
                                "  - dense: {name: classifier, units: $classes, init: normal}\n"
                                "loss: cross-entropy\n";

/* He et al. 2015, with the names of torchvision; the stride of a bottleneck is that of its 3 x 3. */
static const char resnet[] =
    MODEL("[$image, $image, $features]",
          "  - conv2d: {name: conv1, filters: $width, kernel: 7, stride: 2, padding: 3, bias: "
          "false, init: kaiming_out}\n"
          "  - batch_norm: {name: bn1}\n"
          "  - activation: {kind: relu}\n"
          "  - pool: {name: maxpool, size: 3, stride: 2, padding: 1}\n");
static const char resnet_head[] = "  - global_pool: {name: avgpool}\n"
                                  "  - dense: {name: fc, units: $classes}\n"
                                  "loss: cross-entropy\n";

/* Tan and Le 2019, with the names of torchvision. */
static const char efficientnet[] = MODEL("[$image, $image, $features]", "");
static const char efficientnet_head[] = "  - global_pool: {name: avgpool}\n"
                                        "  - dropout: {rate: $dropout}\n"
                                        "  - dense: {name: classifier.1, units: $classes}\n"
                                        "loss: cross-entropy\n";

enum { STAGES = 4 /* of a residual network */, EFFICIENT_STAGES = 7 };
typedef struct preset {
  const char *name, *model;
  const char *head;     /* NULL or what follows where there are classes */
  double width;         /* of the layers (of resnet: of the first stage); `factors`: a factor of their own */
  double depth[STAGES]; /* blocks of each stage, where there are several; else the first is the network's */
  bool factors;         /* depth is one of the stages' blocks, too */
  int blocks_max;       /* what LS_LAYER_MAX layers have room for; 0: it has no blocks */
  int64_t heads, context, vocabulary, features, classes, image;
  double dropout;
  /* NULL, or writes what is between both. */
  void (*blocks)(FILE *to, const struct preset *preset, const ls_model_config_t *model);
  int64_t groups, group_width; /* of a bottleneck's 3 x 3 */
  int expansion; /* of a residual network: width of a bottleneck's output; 1: two convolutions */
} preset_t;

static double width_of(const preset_t *preset, const ls_model_config_t *model) {
  return model->width > 0 ? model->width : preset->width;
}

static double depth_of(const preset_t *preset, const ls_model_config_t *model, int stage) {
  const ls_floats_t *depth = &model->depth;
  double given = depth->count > 0 ? depth->v[depth->count > 1 ? stage : 0] : 0;
  return given > 0 ? given : preset->depth[stage];
}

static double dropout_of(const preset_t *preset, const ls_model_config_t *model) {
  return model->dropout >= 0 ? model->dropout : preset->dropout;
}

/* Channels of a bottleneck's 3 x 3 convolution for each of its groups. */
static int64_t group_of(const preset_t *preset, const ls_model_config_t *model, int64_t width) {
  enum { OWN = 64 };
  return width * (model->group_width > 0 ? model->group_width : preset->group_width) / OWN;
}

/* A convolution and its norm, `conv` and `norm` of block `name`. `from` "": the layer before. */
static void with_conv(FILE *to, const char *name, const char *conv, const char *norm, const char *from,
                      int64_t filters, int kernel, int stride, int64_t groups) {
  fprintf(to,
          "  - conv2d: {name: %s.%s, %s%s%sfilters: %lld, kernel: %d, stride: %d, padding: %d, groups: %lld, "
          "bias: false, init: kaiming_out}\n"
          "  - batch_norm: {name: %s.%s}\n",
          name, conv, *from ? "from: " : "", from, *from ? ", " : "", (long long)filters, kernel, stride,
          kernel / 2, (long long)groups, name, norm);
}

static const char relu[] = "  - activation: {kind: relu}\n", silu[] = "  - activation: {kind: silu}\n";

static void residual_blocks(FILE *to, const preset_t *preset, const ls_model_config_t *model) {
  char from[32] = "maxpool", name[24], skip[48];
  const int64_t first = (int64_t)width_of(preset, model);
  const bool deep = preset->expansion > 1;
  const int64_t groups = !deep ? 1 : model->groups > 0 ? model->groups : preset->groups;
  int64_t channels = first;
  for (int stage = 0; stage < STAGES; stage++)
    for (int block = 0; block < (int)depth_of(preset, model, stage); block++) {
      int64_t width = first << stage, outputs = width * preset->expansion,
              inner = deep ? group_of(preset, model, width) * groups : width;
      int stride = block == 0 && stage > 0 ? 2 : 1;
      snprintf(name, sizeof name, "layer%d.%d", stage + 1, block);
      snprintf(skip, sizeof skip, "%s", from);
      if (stride != 1 || channels != outputs) {
        with_conv(to, name, "downsample.0", "downsample.1", from, outputs, 1, stride, 1);
        snprintf(skip, sizeof skip, "%s.downsample.1", name);
      }
      with_conv(to, name, "conv1", "bn1", from, inner, deep ? 1 : 3, deep ? 1 : stride, 1);
      fputs(relu, to);
      with_conv(to, name, "conv2", "bn2", "", inner, 3, deep ? stride : 1, groups);
      if (deep) {
        fputs(relu, to);
        with_conv(to, name, "conv3", "bn3", "", outputs, 1, 1, 1);
      }
      snprintf(from, sizeof from, "%s.out", name);
      fprintf(to, "  - add: {from: [%s, %s.bn%d]}\n  - activation: {name: %s, kind: relu}\n", skip, name,
              deep ? 3 : 2, from);
      channels = outputs;
    }
}

/* Channels times a factor, in eights: rounded, but by no more than a tenth down. */
static int64_t scaled(int channels, double factor) {
  enum { EIGHT = 8 };
  const double wanted = channels * factor;
  int64_t whole = (int64_t)(wanted + EIGHT / 2) / EIGHT * EIGHT;
  if (whole < EIGHT) whole = EIGHT;
  return (double)whole < 0.9 * wanted ? whole + EIGHT : whole;
}

static const struct {
  int expand, kernel, stride, outputs, repeat;
} stages[EFFICIENT_STAGES] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                              {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};

/* Of the whole network. */
static double blocks_of(const preset_t *preset, const ls_model_config_t *model) {
  double blocks = 0;
  for (int i = 0; preset->factors && i < EFFICIENT_STAGES; i++)
    blocks += ceil(stages[i].repeat * depth_of(preset, model, 0));
  for (int i = 0; !preset->factors && i < (preset->depth[1] > 0 ? STAGES : 1); i++)
    blocks += depth_of(preset, model, i);
  return blocks;
}

/* Inverted bottlenecks: expansion, depthwise convolution, squeeze and excitation, projection. */
static void efficient_blocks(FILE *to, const preset_t *preset, const ls_model_config_t *model) {
  enum { STEM = 32, HEAD = 4 /* times the last stage */ };
  const double width = width_of(preset, model), depth = depth_of(preset, model, 0);
  char from[64] = "features.0", block[36], part[60];
  int64_t channels = scaled(STEM, width);
  const int blocks = (int)blocks_of(preset, model);
  int done = 0;
  with_conv(to, "features.0", "0", "1", "", channels, 3, 2, 1);
  fputs("  - activation: {name: features.0, kind: silu}\n", to);
  for (int i = 0; i < EFFICIENT_STAGES; i++)
    for (int k = 0; k < (int)ceil(stages[i].repeat * depth); k++, done++) {
      int64_t hidden = channels * stages[i].expand, outputs = scaled(stages[i].outputs, width);
      int stride = k == 0 ? stages[i].stride : 1, at = 0;
      snprintf(block, sizeof block, "features.%d.%d", i + 1, k);
      if (stages[i].expand > 1) {
        snprintf(part, sizeof part, "%s.block.%d", block, at++);
        with_conv(to, part, "0", "1", from, hidden, 1, 1, 1);
        fputs(silu, to);
      }
      snprintf(part, sizeof part, "%s.block.%d", block, at++);
      with_conv(to, part, "0", "1", at == 1 ? from : "", hidden, stages[i].kernel, stride, hidden);
      fprintf(to,
              "  - activation: {name: %s.act, kind: silu}\n"
              "  - global_pool\n"
              "  - dense: {name: %s.block.%d.fc1, units: %lld, activation: silu}\n"
              "  - dense: {name: %s.block.%d.fc2, units: %lld, activation: sigmoid}\n"
              "  - multiply: {from: [%s.act, %s.block.%d.fc2]}\n",
              part, block, at, (long long)channels / 4, block, at, (long long)hidden, part, block, at);
      snprintf(part, sizeof part, "%s.block.%d", block, at + 1);
      with_conv(to, part, "0", "1", "", outputs, 1, 1, 1);
      if (stride == 1 && channels == outputs) {
        fprintf(to,
                "  - drop_path: {name: %s.drop, rate: %.15g}\n"
                "  - add: {name: %s.out, from: [%s, %s.drop]}\n",
                block, dropout_of(preset, model) * done / blocks, block, from, block);
        snprintf(from, sizeof from, "%s.out", block);
      } else
        snprintf(from, sizeof from, "%s.1", part);
      channels = outputs;
    }
  fprintf(to,
          "  - conv2d: {name: features.8.0, filters: %lld, kernel: 1, bias: false, init: kaiming_out}\n"
          "  - batch_norm: {name: features.8.1}\n%s",
          (long long)(HEAD * channels), silu);
}

static const preset_t presets[] = {
    {"mlp-medium", MODEL("[799]", HIDDEN(256, 0.2) HIDDEN(128, 0.2) HIDDEN(64, 0.2) OUTPUTS("192"))},
    {"mlp-large", MODEL("[4608]", HIDDEN(1024, 0.3) HIDDEN(1024, 0.3) HIDDEN(512, 0.3) HIDDEN(512, 0.3)
                                      HIDDEN(256, 0.3) OUTPUTS("768"))},
    {"mlp-extreme", MODEL("[4096]", HIDDEN(8192, 0) HIDDEN(6144, 0) HIDDEN(4096, 0) HIDDEN(2048, 0)
                                        HIDDEN(1024, 0) OUTPUTS("512"))},
    {"lstm", MODEL("[$context, $features]", RECURRENT("lstm") OUTPUTS("$classes")), .width = 192,
     .depth = {2}, .context = 60, .features = 50, .classes = 3},
    {"gru", MODEL("[$context, $features]", RECURRENT("gru") OUTPUTS("$classes")), .width = 160, .depth = {2},
     .context = 60, .features = 50, .classes = 3},
    {"encoder", encoder, .blocks_max = 127, .width = 192, .depth = {6}, .heads = 6, .context = 64,
     .features = 50, .classes = 3, .dropout = 0.1},
    {"gpt-char", gpt, .blocks_max = 127, .width = 384, .depth = {6}, .heads = 6, .context = 256,
     .vocabulary = 65, .dropout = 0.2},
    {"gpt2", gpt, .blocks_max = 127, .width = 768, .depth = {12}, .heads = 12, .context = 1024,
     .vocabulary = 50257, .dropout = 0.1},
    {"bert-small", bert, bert_head, .blocks_max = 127, .width = 512, .depth = {4}, .heads = 8, .context = 128,
     .vocabulary = 30522, .dropout = 0.1},
    {"bert-base", bert, bert_head, .blocks_max = 127, .width = 768, .depth = {12}, .heads = 12,
     .context = 128, .vocabulary = 30522, .dropout = 0.1},
    {"bert-small-mlm", bert_mlm, .blocks_max = 126, .width = 512, .depth = {4}, .heads = 8, .context = 128,
     .vocabulary = 30522, .dropout = 0.1},
    {"bert-base-mlm", bert_mlm, .blocks_max = 126, .width = 768, .depth = {12}, .heads = 12, .context = 128,
     .vocabulary = 30522, .dropout = 0.1},
    {"resnet18", resnet, resnet_head, .classes = 1000, .image = 224, .features = 3, .blocks = residual_blocks,
     .blocks_max = 144, .width = 64, .depth = {2, 2, 2, 2}, .expansion = 1},
    {"resnet34", resnet, resnet_head, .classes = 1000, .image = 224, .features = 3, .blocks = residual_blocks,
     .blocks_max = 144, .width = 64, .depth = {3, 4, 6, 3}, .expansion = 1},
    {"resnet50", resnet, resnet_head, .classes = 1000, .image = 224, .features = 3, .blocks = residual_blocks,
     .blocks_max = 101, .width = 64, .depth = {3, 4, 6, 3}, .groups = 1, .group_width = 64, .expansion = 4},
    {"efficientnet-b0", efficientnet, efficientnet_head, .classes = 1000, .image = 224, .features = 3,
     .dropout = 0.2, .blocks_max = 74, .width = 1, .depth = {1}, .factors = true, .blocks = efficient_blocks},
};

const char *const ls_preset_names[] = {
    "mlp-medium", "mlp-large",       "mlp-extreme", "lstm",           "gru",           "encoder",  "gpt-char",
    "gpt2",       "bert-small",      "bert-base",   "bert-small-mlm", "bert-base-mlm", "resnet18", "resnet34",
    "resnet50",   "efficientnet-b0", NULL};
_Static_assert(LS_COUNT(presets) + 1 == LS_COUNT(ls_preset_names), "every preset has a name");

#define SIZE(field)                                                                                          \
  { #field, offsetof(ls_model_config_t, field), offsetof(preset_t, field) }
static const struct {
  const char *name;
  size_t given, own;
} sizes[] = {SIZE(heads),   SIZE(context), SIZE(vocabulary), SIZE(features),
             SIZE(classes), SIZE(image),   SIZE(groups),     SIZE(group_width)};

static const preset_t *find(const char *name) {
  for (int i = 0; i < LS_COUNT(presets); i++)
    if (strcmp(presets[i].name, name) == 0) return &presets[i];
  return NULL;
}

static bool names(const char *text, const char *size) {
  const size_t len = strlen(size);
  for (const char *p = text; p && (p = strchr(p, '$')); p++)
    if (strncmp(p + 1, size, len) == 0 && !isalpha((unsigned char)p[1 + len])) return true;
  return false;
}

static int64_t own_size(const preset_t *preset, int i) {
  int64_t own;
  memcpy(&own, (const char *)preset + sizes[i].own, sizeof own);
  return own;
}

/* Whether the network depends on this size: by its text, or because its blocks are made from it. */
static bool reads(const preset_t *preset, const char *size) {
  bool of_blocks = strcmp(size, "width") == 0 || strcmp(size, "depth") == 0;
  for (int i = 0; i < LS_COUNT(sizes); i++)
    of_blocks = of_blocks || (strcmp(size, sizes[i].name) == 0 && own_size(preset, i) > 0);
  return names(preset->model, size) || names(preset->head, size) || (preset->blocks && of_blocks);
}

/* `name`: behind a `$`. */
static double value_of(const preset_t *preset, const ls_model_config_t *model, const char *name, size_t len) {
  const double depth = depth_of(preset, model, 0);
  const struct {
    const char *name;
    double value;
  } others[] = {{"separator", (double)model->separator},
                {"width", width_of(preset, model)},
                {"depth", depth},
                {"dropout", dropout_of(preset, model)},
                {"residual", 0.02 / sqrt(2.0 * depth)} /* of GPT-2 */};
  for (int i = 0; i < LS_COUNT(sizes); i++)
    if (strlen(sizes[i].name) == len && strncmp(name, sizes[i].name, len) == 0) {
      int64_t given;
      memcpy(&given, (const char *)model + sizes[i].given, sizeof given);
      return (double)(given > 0 ? given : own_size(preset, i));
    }
  int i = 0;
  while (strlen(others[i].name) != len || strncmp(name, others[i].name, len) != 0)
    i++;
  return others[i].value;
}

const char *ls_preset_refuses(const ls_model_config_t *model, const char *size,
                              char why[LS_LAYER_WHY_BYTES]) {
  const preset_t *preset = find(model->preset);
  const int own = preset->depth[1] > 0 ? STAGES : 1, given = model->depth.count;
  const int64_t tokens = model->vocabulary > 0 ? model->vocabulary : preset->vocabulary;
  if (!reads(preset, size)) return "has no such size";
  if (strcmp(size, "separator") == 0 && model->separator >= tokens) {
    snprintf(why, LS_LAYER_WHY_BYTES,
             "has the tokens 0 to %lld: give one of them, or a larger model.vocabulary",
             (long long)tokens - 1);
    return why;
  }
  if (strcmp(size, "width") == 0 && !preset->factors && model->width != floor(model->width))
    return "takes whole numbers";
  if (strcmp(size, "group_width") == 0 && group_of(preset, model, (int64_t)width_of(preset, model)) == 0)
    return "has no channel left: the first stage has width * group_width / 64 for each group";
  if (strcmp(size, "depth") != 0) return NULL;
  if (given > 1 && given != own)
    return own > 1 ? "takes one number, or one for each of its 4 stages" : "takes one number";
  for (int i = 0; i < given; i++) {
    if (given > 1 && model->depth.v[i] == 0) return "needs a block in each of its 4 stages";
    if (!preset->factors && model->depth.v[i] != floor(model->depth.v[i])) return "takes whole numbers";
  }
  if (preset->blocks_max == 0 || blocks_of(preset, model) <= preset->blocks_max) return NULL;
  snprintf(why, LS_LAYER_WHY_BYTES, "takes at most %d blocks: a network has at most %d layers",
           preset->blocks_max, LS_LAYER_MAX);
  return why;
}

/* The text with its sizes: `$width*4`. */
static void put(FILE *to, const preset_t *preset, const ls_model_config_t *model, const char *text) {
  while (*text) {
    size_t len = strcspn(text, "$");
    fwrite(text, 1, len, to);
    text += len;
    if (!*text) return;
    for (len = 0; isalpha((unsigned char)text[1 + len]);)
      len++;
    double value = value_of(preset, model, text + 1, len);
    text += 1 + len;
    char *end = NULL;
    if (*text == '*') value *= (double)strtol(text + 1, &end, 10);
    if (end) text = end;
    fprintf(to, "%.15g", value);
  }
}

char *ls_preset_text(ls_arena_t *arena, const ls_model_config_t *model) {
  const preset_t *preset = find(model->preset);
  char *text = NULL;
  size_t size;
  FILE *to = open_memstream(&text, &size);
  if (!to) return NULL;
  put(to, preset, model, preset->model);
  if (preset->blocks) preset->blocks(to, preset, model);
  if (preset->head && (model->classes > 0 || preset->classes > 0)) put(to, preset, model, preset->head);
  char *out = fclose(to) == 0 ? ls_arena_strdup(arena, text) : NULL;
  free(text);
  return out;
}
