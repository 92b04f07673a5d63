/* Shared by the files of layer kinds. A kind is `const ls_layer_kind_t ls_kind_NAME` in the file of its family, and a
 * line of list.c. */
#ifndef LS_MODEL_LAYERS_KIND_H
#define LS_MODEL_LAYERS_KIND_H

#include "model/layer.h"

#include <stddef.h>

#define LS_LAYER_SECTION(kind, rows, help)                                                                   \
  { "model.layers." kind, rows, LS_COUNT(rows), help, &ls_layer_section }
#define LS_LAYER_FITS(struct_)                                                                               \
  _Static_assert(sizeof(struct_) <= LS_LAYER_OPTIONS_BYTES, "options must fit a layer")

enum { LS_LAYER_UNITS_MAX = 1 << 20 };

/* Activations, by their index in the list of names. */
enum { LS_ACTIVATION_NONE, LS_ACTIVATION_RELU, LS_ACTIVATION_GELU };
#define LS_ACTIVATION_HELP                                                                                   \
  "gelu is the exact form with erf: x (1 + erf(x / sqrt(2))) / 2; gelu_tanh is GPT-2's, with tanh; silu is " \
  "x sigmoid(x)."
extern const char *const ls_activation_names[];
ls_tensor_id_t ls_layer_activation(ls_layer_builder_t *b, ls_tensor_id_t x, int activation);
/* x weight^T + bias (-1: zeros, `units` of them). */
ls_tensor_id_t ls_layer_linear(ls_layer_builder_t *b, ls_tensor_id_t x, ls_tensor_id_t weight,
                               ls_tensor_id_t bias, int64_t units);
/* Whether the product of x with weights, `depth` in each sum, is to be one of 8-bit integers; f[0..1] of its attributes
 * are then written. */
bool ls_layer_int8(ls_layer_builder_t *b, ls_tensor_id_t x, int64_t depth, ls_attrs_t *attrs);
ls_tensor_id_t ls_layer_dropout(ls_layer_builder_t *b, ls_tensor_id_t x, double rate);

/* Initial weights: options `init` and `init_std` of a kind. */
extern const char *const ls_layer_init_names[];
ls_init_t ls_layer_init(int init, double std, int activation);
#define LS_LAYER_INIT_HELP                                                                                   \
  "Initial weights. kaiming: normal, standard deviation sqrt(2 / inputs). xavier: uniform, up to "           \
  "sqrt(6 / (inputs + units)). auto: kaiming for relu and gelu, else xavier. Biases begin at 0."

/* Which dimensions of a sample a kind takes together: option `over`. */
enum { LS_OVER_ALL, LS_OVER_LAST };
extern const char *const ls_over_names[];
/* The sample as the kind sees it: one dimension, or all of them. */
ls_shape_t ls_layer_over(int over, const ls_shape_t *sample);

/* (rows, dimensions of `sample`); a view of x, or x itself if it is so already. */
ls_tensor_id_t ls_layer_as(ls_layer_builder_t *b, ls_tensor_id_t x, const ls_shape_t *sample);
/* A kind's `shape`: that of the first input. */
ls_shape_t ls_layer_same_shape(const void *options, const ls_shape_t *sample, int count);

#endif
