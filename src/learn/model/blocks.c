/* Blocks of residual networks and of EfficientNet, whose numbers change from stage to stage. */
#include "model/presets.h"

#include <math.h>

/* Channels of a bottleneck's 3 x 3 convolution for each of its groups. */
int64_t ls_blocks_group(const ls_preset_t *preset, const ls_model_config_t *model, int64_t width) {
  enum { OWN = 64 };
  return width * (model->group_width > 0 ? model->group_width : preset->own.group_width) / OWN;
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

static void residual_blocks(FILE *to, const ls_preset_t *preset, const ls_model_config_t *model) {
  char from[32] = "maxpool", name[24], skip[48];
  const int64_t first = (int64_t)ls_preset_width(preset, model);
  const bool deep = preset->expansion > 1;
  const int64_t groups = !deep ? 1 : model->groups > 0 ? model->groups : preset->own.groups;
  int64_t channels = first;
  for (int stage = 0; stage < LS_STAGES; stage++)
    for (int block = 0; block < (int)ls_preset_depth(preset, model, stage); block++) {
      int64_t width = first << stage, outputs = width * preset->expansion,
              inner = deep ? ls_blocks_group(preset, model, width) * groups : width;
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
} stages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
              {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};

/* Blocks of the whole network. */
double ls_blocks_count(const ls_preset_t *preset, const ls_model_config_t *model) {
  double blocks = 0;
  for (int i = 0; preset->blocks == LS_BLOCKS_INVERTED && i < LS_COUNT(stages); i++)
    blocks += ceil(stages[i].repeat * ls_preset_depth(preset, model, 0));
  for (int i = 0; preset->blocks != LS_BLOCKS_INVERTED && i < (preset->own.depth.count > 1 ? LS_STAGES : 1);
       i++)
    blocks += ls_preset_depth(preset, model, i);
  return blocks;
}

/* Inverted bottlenecks: expansion, depthwise convolution, squeeze and excitation, projection. */
static void inverted_blocks(FILE *to, const ls_preset_t *preset, const ls_model_config_t *model) {
  enum { STEM = 32, HEAD = 4 /* times the last stage */ };
  const double width = ls_preset_width(preset, model), depth = ls_preset_depth(preset, model, 0);
  char from[64] = "features.0", block[36], part[60];
  int64_t channels = scaled(STEM, width);
  const int blocks = (int)ls_blocks_count(preset, model);
  int done = 0;
  with_conv(to, "features.0", "0", "1", "", channels, 3, 2, 1);
  fputs("  - activation: {name: features.0, kind: silu}\n", to);
  for (int i = 0; i < LS_COUNT(stages); i++)
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
                block, ls_preset_dropout(preset, model) * done / blocks, block, from, block);
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

void ls_blocks_write(FILE *to, const ls_preset_t *preset, const ls_model_config_t *model) {
  if (preset->blocks == LS_BLOCKS_RESIDUAL) residual_blocks(to, preset, model);
  if (preset->blocks == LS_BLOCKS_INVERTED) inverted_blocks(to, preset, model);
}
