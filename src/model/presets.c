/* The networks of the study, by name: dense layers with ReLU between them. The widths give the published
 * parameter counts exactly: medium 258,432, large 6,885,376, extreme 120 million. */
#include "model/layer.h"

#include <string.h>

enum { WIDTHS_MAX = 8 };

typedef struct {
  const char *name;
  int64_t width[WIDTHS_MAX]; /* inputs, hidden layers, outputs; 0 ends */
  double dropout;            /* after every hidden layer */
} preset_t;

static const preset_t presets[] = {
    {"mlp-medium", {799, 256, 128, 64, 192}, 0.2},
    {"mlp-large", {4608, 1024, 1024, 512, 512, 256, 768}, 0.3},
    {"mlp-extreme", {4096, 8192, 6144, 4096, 2048, 1024, 512}, 0},
};
const char *const ls_preset_names[] = {"mlp-medium", "mlp-large", "mlp-extreme", NULL};
_Static_assert(LS_COUNT(presets) + 1 == LS_COUNT(ls_preset_names), "every preset has a name");

static ls_status_t fill(ls_arena_t *arena, const preset_t *preset, ls_model_config_t *model) {
  int layers = 0;
  while (layers + 1 < WIDTHS_MAX && preset->width[layers + 1] != 0)
    layers++;
  ls_layer_t *layer = ls_arena_array(arena, (size_t)layers, sizeof *layer);
  if (!layer) return LS_ERR_MEMORY;
  for (int i = 0; i < layers; i++) {
    bool hidden = i < layers - 1;
    ls_layer_dense_fill(&layer[i], preset->width[i + 1], hidden, hidden ? preset->dropout : 0);
    layer[i].from[0] = i - 1;
    layer[i].from_count = 1;
    layer[i].owner = i;
  }
  model->preset = preset->name;
  model->input = (ls_ints_t){.count = 1, .v = {preset->width[0]}};
  model->layer_count = layers;
  model->layer = layer;
  return LS_OK;
}

bool ls_preset_fill(ls_arena_t *arena, const char *name, ls_model_config_t *model, ls_status_t *status) {
  for (int i = 0; i < LS_COUNT(presets); i++) {
    if (strcmp(presets[i].name, name) != 0) continue;
    *status = fill(arena, &presets[i], model);
    return true;
  }
  return false;
}
