/* Inside the model module: the row of a layer kind, and the builder to which kinds append. */
#ifndef LS_MODEL_LAYER_H
#define LS_MODEL_LAYER_H

#include "model/model.h"

/* The graph built so far, at one layer. */
enum { LS_LAYER_PARAM_MAX = 64, LS_LAYER_WHY_BYTES = 256 };
typedef struct {
  ls_graph_t *graph;
  int in_count;
  const ls_tensor_id_t *in;    /* (rows, dimensions of `sample`) each */
  const ls_shape_t *sample;    /* of one row of each, without the rows */
  const ls_tensor_id_t *param; /* as the kind lists them */
  ls_tensor_id_t step;         /* for dropout */
  ls_tensor_id_t weight;       /* of samples: 0 = padding */
  ls_tensor_id_t lengths;      /* of samples whose ends may be padding; -1: they are whole */
  int64_t places;              /* of the model's input */
  int64_t rows;
  bool training;
  int dropouts; /* so far: the ordinal of the next */
  const ls_int8_t *int8;
  int products;          /* so far, that could be of 8-bit integers */
  ls_tensor_id_t ranges; /* of their inputs, while they are measured; -1: none yet */
} ls_layer_builder_t;

typedef struct {
  const char *name; /* "weight" */
  ls_shape_t shape;
  ls_init_t init;
  bool state; /* a running statistic: nodes change it, and nothing trains it */
} ls_layer_param_t;

/* A row of a layer kind. A new kind is one row and its functions. `options` is the struct that the section
 * fills; it begins with ls_layer_common_t and fits LS_LAYER_OPTIONS_BYTES. `sample`: shapes of one sample of
 * the layer's inputs. */
struct ls_layer_kind {
  const ls_section_t *section; /* its name is "model.layers.KIND" */
  const char *name;
  bool joins;         /* takes 2 to LS_LAYER_FROM_MAX inputs; others take one */
  bool alike;         /* .. of equally many elements */
  const char *shares; /* another kind, whose parameters are like this one's first: `share` may name it */
  /* Reads the model's input alone, as whole numbers from 0 on; how many there may be. NULL: takes f32. */
  int64_t (*ids)(const void *options);
  int64_t (*separator)(const void *options); /* NULL, or a token that it looks for; -1: none */
  /* Lists the parameters and states, at most LS_LAYER_PARAM_MAX; their number. NULL: none. */
  int (*params)(const void *options, const ls_shape_t *sample, ls_layer_param_t *param);
  /* Whether it takes such samples; else `why` says what it needs: "an image [H, W, C]". NULL: any. */
  bool (*takes)(const void *options, const ls_shape_t *sample, int count, char why[LS_LAYER_WHY_BYTES]);
  /* Shape of one sample of the layer's output, which `build` gives the same dimensions. */
  ls_shape_t (*shape)(const void *options, const ls_shape_t *sample, int count);
  /* Appends the layer and returns its output. Failures are in b->graph->status. */
  ls_tensor_id_t (*build)(ls_layer_builder_t *b, const void *options);
};

extern const ls_layer_kind_t *const ls_layer_kinds[]; /* NULL-terminated */

extern const ls_section_t ls_layer_section, ls_repeat_section; /* of every layer; of a block */

/* The lengths of the layer's first input, if it is a sequence of the model's places, the ends of which may be padding; else
 * -1. */
static inline ls_tensor_id_t ls_layer_lengths(const ls_layer_builder_t *b) {
  return b->sample->rank == 2 && b->sample->dim[0] == b->places ? b->lengths : -1;
}
static inline const ls_layer_common_t *ls_layer_common(const ls_layer_t *layer) {
  return (const ls_layer_common_t *)layer->options;
}
ls_shape_t ls_model_sample(const ls_model_config_t *model, int layer); /* of its output; -1: of the model's
                                                                        * input */

/* loss.c: appends the loss of predictions y (rows, outputs) and returns it; names it, "correct" and "output", what the model
 * gives its user. */
ls_tensor_id_t ls_model_add_loss(const ls_layer_builder_t *b, const ls_model_config_t *model,
                                 ls_tensor_id_t y, ls_tensor_id_t target, ls_tensor_id_t weight);

/* score.c: appends the ops of model->scores, which take (output, targets, weights). */
void ls_model_add_scores(ls_graph_t *graph, const ls_model_config_t *model, const ls_tensor_id_t in[3]);

/* `rows` of one. */
ls_shape_t ls_model_rows(int64_t rows, ls_shape_t one);

#define LS_SAMPLE_MAX ((int64_t)1 << 28) /* limit on the elements of one sample anywhere in a model */

/* dag.c: reads the list of layers into model->layer. `sized`: the shape of the input is known, so sizes can
 * be compared. Reports all errors. */
ls_status_t ls_layers_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *list, bool sized,
                            ls_model_config_t *model);

/* presets.c: a network by name or from a file. `node`: the option's value. Lives in the arena. Reports all errors. */
typedef struct ls_preset ls_preset_t;
ls_status_t ls_preset_load(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *node,
                           const ls_preset_t **preset);
/* Its input, layers and perhaps loss as a document, with the model's sizes where those are given. *text: ls_free. */
ls_status_t ls_preset_text(ls_ctx_t *ctx, const ls_preset_t *preset, const ls_model_config_t *model,
                           char **text);
/* Why the preset refuses the `size` that the model gives it: "has no such size", or a text written to `why`; NULL:
 * it does not. */
const char *ls_preset_refuses(const ls_preset_t *preset, const ls_model_config_t *model, const char *size,
                              char why[LS_LAYER_WHY_BYTES]);
extern const char *const ls_preset_names[]; /* of the shipped ones, NULL-terminated */
extern const ls_section_t ls_model_sizes;   /* the sizes that change a preset: rows of the model section */

#endif
