/* The model section of a configuration and the layer builders that turn it into a graph. A layer kind is one
 * row (name, options, build) in a file of model/layers/. */
#ifndef LS_MODEL_MODEL_H
#define LS_MODEL_MODEL_H

#include "graph/graph.h"
#include <lockstep/train.h>

typedef struct ls_layer_kind ls_layer_kind_t;
enum { LS_LAYER_MAX = 1024, LS_LAYER_FROM_MAX = 16, LS_LAYER_OPTIONS_BYTES = 128 };
typedef enum { LS_LOSS_CROSS_ENTROPY, LS_LOSS_MSE, LS_LOSS_L1, LS_LOSS_HUBER, LS_LOSS_BCE } ls_loss_kind_t;
typedef struct {
  const ls_op_t
      *op;      /* (predictions, targets, weights) -> loss, correct; and probabilities where it says so */
  bool classes; /* targets are numbers of classes */
  bool labels;  /* targets are in [0, 1], each for itself, and are never normalised */
  bool probabilities; /* the model's output is the loss's third one, else the last layer's */
} ls_loss_t;
extern const ls_loss_t ls_losses[];       /* by ls_loss_kind_t */
extern const char *const ls_loss_names[]; /* NULL-terminated */

/* Inference by products of 8-bit integers: the range, lowest and highest, of the input of each product of f32 weights, in
 * the order of the graph. count 0: the graph stays f32 and measures them, value "ranges" f32 (1, 2 products). */
typedef struct {
  int count;
  const float *range; /* (count, 2) */
} ls_int8_t;

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
  ls_ints_t input;       /* shape of one sample */
  ls_dtype_t dtype;      /* of a sample as the data hold it; not in files: found in the data. f32 is 0 */
  const ls_int8_t *int8; /* not in files; of graphs that do not train. NULL: f32 */
  const char *preset;    /* NULL or its name; layers and input are then filled from it */
  int loss;              /* ls_loss_kind_t */
  double label_smoothing, huber_delta;
  int64_t separator;                                            /* of a preset of texts; -1: there is none */
  double dropout;                                               /* of a preset; < 0: its own */
  double width;                                                 /* .. 0: its own */
  ls_floats_t depth;                                            /* .. empty, 0: its own */
  int64_t heads, context, vocabulary, features, classes, image; /* .. 0: its own */
  int64_t groups, group_width; /* .. of its middle convolutions; 0: its own */
  ls_strings_t freeze;         /* patterns of parameters' names: ls_patterns_choose */
  int64_t ignore;              /* class of a position that counts nowhere */
  int64_t pad;                 /* token that fills the ends of samples; -1: there is none */
  const char *weights;         /* a file or run whose tensors a new run begins with; NULL = none */
  int map;                     /* how they are called there: index of ls_names_list */
  uint32_t scores; /* bit i: an evaluation makes the sums of ls_scores[i]; of train.metrics, train.best */
  int layer_count;
  ls_layer_t *layer; /* in the arena, in an order that can run; the last layer's output is the model's */
} ls_model_config_t;
extern const ls_section_t ls_model_section; /* preset, input, loss; "layers" is nested */
/* For the reference page: options of every layer, a section per kind, blocks; NULL after the last. */
const ls_section_t *ls_layer_section_at(int i);

/* Reads the model section from its map. Reports all errors. */
ls_status_t ls_model_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map,
                           ls_model_config_t *model);
json_t *ls_model_json(const ls_model_config_t *model);

const ls_loss_t *ls_model_loss(const ls_model_config_t *model);
/* Whether `is` holds for any parameter: its name, and whether it is trained. */
bool ls_model_any_param(const ls_model_config_t *model,
                        bool (*is)(const void *user, const char *name, bool trained), const void *user);
bool ls_model_has_param(const ls_model_config_t *model, const char *pattern); /* .. its name matches */
bool ls_model_trains(const ls_model_config_t *model);  /* not all of its parameters are frozen */
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

/* score.c. The sums of an evaluation, of all ranks. */
typedef struct {
  double loss, correct;        /* its mean over the samples; a count */
  int64_t samples, classified; /* what has a class each: samples, positions or labels */
  int64_t width;               /* classes, labels or values */
  const float *target_scale;   /* (width): by which the data multiply targets; NULL: by 1 */
} ls_evaluated_t;
/* A figure of an evaluation. */
typedef struct {
  const char *name;
  unsigned losses;   /* bits of the ls_loss_kind_t with which it can be had */
  bool positions;    /* .. and only where positions have a class each */
  const ls_op_t *op; /* (output, targets, weights) -> sums of this rank; NULL: loss and correct are enough */
  ls_attrs_t attrs;
  bool counts; /* the sums are whole numbers; else pairs of f32 (high, low) */
  bool rises;  /* more is better */
  bool share;  /* shown in per cent */
  double (*figure)(const ls_evaluated_t *e, const double *sum); /* NaN: the samples have none */
  double (*of)(const ls_evaluated_t *e, const double *sum,
               int64_t output); /* the same of one value; NULL: no value has one */
} ls_score_t;
enum { LS_SCORE_NAME_BYTES = 64, LS_SCORES_MAX = LS_EVAL_METRICS_MAX };
extern const ls_score_t ls_scores[]; /* ended by a row without a name; at most LS_SCORES_MAX */
/* Its index for the model's loss; -1: there is none of that name. */
int ls_score_find(const ls_model_config_t *model, const char *name);
/* Names of all that the model can have, NULL-terminated; their number. */
int ls_score_names(const ls_model_config_t *model, const char *names[LS_SCORES_MAX + 1]);
/* The name of a metric's sums in the graph of an evaluation. */
const char *ls_score_tensor(int metric, char text[LS_SCORE_NAME_BYTES]);

/* The graph of `rows` samples: inputs "x" (rows, ls_model_x), "target" (rows, ls_model_target),
 * "weight" (rows), "step" u8 (64); values "output" (rows, outputs): probabilities, or predictions, as the loss says (with
 * positions (rows positions, classes)); "loss" (1), "correct" (1). Parameters are "layers.N.weight", "layers.N.bias", or
 * begin with the name that their layer was given.
 * training: dropout is active and the backward nodes are there. */
ls_status_t ls_model_build(ls_ctx_t *ctx, const ls_model_config_t *model, int64_t rows, bool training,
                           ls_graph_t **graph);
#endif
