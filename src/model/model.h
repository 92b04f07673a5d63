/* The model section of a configuration and the layer builders that turn it into a graph. A layer kind is one
 * row (name, options, build) in a file of model/layers/. */
#ifndef LS_MODEL_MODEL_H
#define LS_MODEL_MODEL_H

#include "graph/graph.h"

typedef struct ls_layer_kind ls_layer_kind_t;
enum { LS_LAYER_MAX = 1024, LS_LAYER_FROM_MAX = 16, LS_LAYER_OPTIONS_BYTES = 128 };
typedef enum { LS_LOSS_CROSS_ENTROPY, LS_LOSS_MSE } ls_loss_kind_t;

/* Options of every layer, as written; the struct of a kind begins with them. Blocks are expanded and names
 * are whole. Values equal to the default are absent, so equal networks have equal options. */
typedef struct {
  const char *name;  /* the layer's, and prefix of its parameters: "NAME.weight"; NULL: "layers.N" */
  ls_strings_t from; /* names of earlier layers, or "input"; empty: the layer before */
  const char *share; /* NULL: parameters of its own */
  bool freeze;
} ls_layer_common_t;

typedef struct {
  const ls_layer_kind_t *kind;
  _Alignas(16) unsigned char options[LS_LAYER_OPTIONS_BYTES]; /* the kind's struct */
  int from[LS_LAYER_FROM_MAX], from_count;                    /* earlier layers, -1 = the model's input */
  int owner;         /* the layer that owns its parameters: an earlier layer, or itself */
  ls_shape_t sample; /* of one sample of its output, without the rows */
} ls_layer_t;

typedef struct {
  ls_ints_t input;    /* shape of one sample */
  ls_dtype_t dtype;   /* of a sample as the data hold it; not in files: found in the data. f32 is 0 */
  const char *preset; /* NULL or its name; layers and input are then filled from it */
  int loss;           /* ls_loss_kind_t */
  double label_smoothing, dropout; /* dropout: of a preset; < 0: its own */
  int64_t width, depth, heads, context, vocabulary, features, classes; /* of a preset; 0: its own */
  int64_t ignore;      /* class of a position that counts nowhere */
  const char *weights; /* a file or run whose tensors a new run begins with; NULL = none */
  int map;             /* how they are called there: index of ls_names_list */
  int layer_count;
  ls_layer_t *layer; /* in the arena, in an order that can run; the last layer's output is the model's */
} ls_model_config_t;
extern const ls_section_t ls_model_section; /* preset, input, loss; "layers" is nested */
/* For the reference page: options of every layer, a section per kind, blocks; NULL behind the last. */
const ls_section_t *ls_layer_section_at(int i);

/* Reads the model section from its map. Reports all errors. */
ls_status_t ls_model_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map,
                           ls_model_config_t *model);
json_t *ls_model_json(const ls_model_config_t *model);

ls_shape_t ls_model_x(const ls_model_config_t *model); /* one sample, as the data hold it */
ls_shape_t
ls_model_target(const ls_model_config_t *model); /* its target: f32 (outputs), i32 () or i32 (positions) */
/* Samples and targets of so many rows, as the data hold them. INT64_MAX when they are too many to count. */
int64_t ls_model_samples_bytes(const ls_model_config_t *model, int64_t rows);
/* The name of a layer, prefix of its parameters; `text` is for one that was given none. Its kind: "dense". */
enum { LS_LAYER_NAME_BYTES = 24 };
const char *ls_model_layer_name(const ls_model_config_t *model, int layer, char text[LS_LAYER_NAME_BYTES]);
const char *ls_model_layer_kind(const ls_model_config_t *model, int layer);
int64_t ls_model_inputs(const ls_model_config_t *model);  /* features of one sample */
int64_t ls_model_outputs(const ls_model_config_t *model); /* of the last layer */
/* Positions of a sample that have a class each: with cross-entropy, all dimensions of the last layer but the last.
 * 0: the sample has one class, or values. */
int64_t ls_model_positions(const ls_model_config_t *model);
int64_t ls_model_classes(const ls_model_config_t *model); /* of a position: ls_model_outputs / positions */
/* Samples are whole numbers (tokens) below this, INT64_MAX: any; 0: they are values. */
int64_t ls_model_ids(const ls_model_config_t *model);

/* The graph of `rows` samples: inputs "x" (rows, ls_model_x), "target" (rows, ls_model_target),
 * "weight" (rows), "step" u8 (64); values "output" (rows, outputs): probabilities with cross-entropy,
 * predictions with mse (with positions (rows positions, classes)); "loss" (1), "correct" (1). Parameters are "layers.N.weight", "layers.N.bias", or
 * begin with the name that their layer was given.
 * training: dropout is active and the backward nodes are there. */
ls_status_t ls_model_build(ls_ctx_t *ctx, const ls_model_config_t *model, int64_t rows, bool training,
                           ls_graph_t **graph);
#endif
