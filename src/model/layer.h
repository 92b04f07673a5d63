/* Inside the model module: what a layer kind is, and the builder that kinds append to. */
#ifndef LS_MODEL_LAYER_H
#define LS_MODEL_LAYER_H

#include "model/model.h"

/* The graph as far as it is built. */
typedef struct {
  ls_graph_t *graph;
  ls_tensor_id_t x;  /* what the layer takes: (rows, elements of `sample`) */
  ls_shape_t sample; /* of one row of x, without the rows; layers see through to it when they need an image */
  ls_tensor_id_t step; /* for dropout */
  int64_t rows;
  bool training;
  int dropouts; /* so far: the ordinal of the next */
} ls_layer_builder_t;

/* A row: a new kind of layer is one of these and its functions. `options` is the struct that the section
 * fills; it fits LS_LAYER_OPTIONS_BYTES. */
struct ls_layer_kind {
  const ls_section_t *section; /* its name is "model.layers.KIND" */
  const char *name;
  bool has_params;
  /* Shape of one sample after the layer. */
  ls_shape_t (*shape)(const void *options, const ls_shape_t *sample);
  /* Appends the layer: reads b->x, sets b->x. Failures are in b->graph->status. */
  void (*build)(ls_layer_builder_t *b, const void *options);
};

extern const ls_layer_kind_t *const ls_layer_kinds[]; /* NULL-terminated */

/* A dense layer with everything else at its default; `activation` as in the configuration. */
void ls_layer_dense_fill(ls_layer_t *layer, int64_t units, bool relu, double dropout);

/* Fills input and layers of a named preset; false and nothing changed when there is none of that name. Memory
 * is the arena's: *status says LS_ERR_MEMORY when it is short. */
bool ls_preset_fill(ls_arena_t *arena, const char *name, ls_model_config_t *model, ls_status_t *status);
extern const char *const ls_preset_names[]; /* NULL-terminated */

#endif
