/* Inside the model module: a preset, read from a file of share/presets or of the user.
 *
 * A preset's file has its sizes, a line `---` and the network as in a configuration, with placeholders (base/expand.h):
 * `${width}`, `${width*4}`; `${residual}` is GPT-2's deviation of residual layers, `${blocks}` what `blocks` names. In
 * place of a network it may name another preset that has one: `network: gpt2`, or a path from the file's folder. */
#ifndef LS_MODEL_PRESETS_H
#define LS_MODEL_PRESETS_H

#include "model/layer.h"
#include <stdio.h>

enum { LS_STAGES = 4 /* of a residual network */ };
/* Blocks whose numbers change from stage to stage (blocks.c). */
typedef enum { LS_BLOCKS_NONE, LS_BLOCKS_RESIDUAL, LS_BLOCKS_INVERTED } ls_blocks_t;

struct ls_preset {
  ls_model_config_t own; /* its sizes, 0 where it has none */
  const char *network;   /* NULL: its own */
  int blocks;            /* ls_blocks_t */
  int64_t blocks_max;    /* what LS_LAYER_MAX layers have room for; 0: no limit of its own */
  int64_t expansion;     /* residual: width of a bottleneck's output; 1: two convolutions */
  bool shipped;
  const char *file, *text; /* of the network */
};

/* The sizes: the model's where it gives them, else the preset's. */
double ls_preset_width(const ls_preset_t *preset, const ls_model_config_t *model);
double ls_preset_depth(const ls_preset_t *preset, const ls_model_config_t *model, int stage);
double ls_preset_dropout(const ls_preset_t *preset, const ls_model_config_t *model);

/* blocks.c: writes the layers of preset->blocks; how many blocks the network has; channels of a bottleneck's 3 x 3
 * convolution for each of its groups. */
void ls_blocks_write(FILE *to, const ls_preset_t *preset, const ls_model_config_t *model);
double ls_blocks_count(const ls_preset_t *preset, const ls_model_config_t *model);
int64_t ls_blocks_group(const ls_preset_t *preset, const ls_model_config_t *model, int64_t width);

#endif
