/* The layer kinds. A kind is a section of options, a shape rule and a function that appends ops. The rest of
 * the program sees only the table at the end. */
#include "graph/ops/ops.h"
#include "model/layer.h"

#include <stddef.h>
#include <string.h>

enum { UNITS_MAX = 1 << 20 };

/* Activations: names and ops side by side. */
static const char *const activation_names[] = {"none", "relu", "gelu", "tanh", "sigmoid", NULL};
static const ls_op_t *const activation_ops[] = {NULL, &ls_op_relu, &ls_op_gelu, &ls_op_tanh, &ls_op_sigmoid};
enum { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_GELU };
_Static_assert(LS_COUNT(activation_names) == LS_COUNT(activation_ops) + 1, "one op for every name");

static ls_tensor_id_t add_activation(ls_layer_builder_t *b, ls_tensor_id_t x, int activation) {
  if (activation == ACTIVATION_NONE) return x;
  return ls_graph_op(b->graph, activation_ops[activation], NULL, 1, &x, NULL);
}

/* Evaluation has no dropout op: training scales the kept values instead. */
static ls_tensor_id_t add_dropout(ls_layer_builder_t *b, ls_tensor_id_t x, double rate) {
  if (!b->training || rate == 0) return x;
  const ls_attrs_t attrs = {.i = {b->dropouts++}, .f = {rate}};
  const ls_tensor_id_t in[] = {x, b->step};
  return ls_graph_op(b->graph, &ls_op_dropout, &attrs, 2, in, NULL);
}

static ls_shape_t same_shape(const void *options, const ls_shape_t *sample, int count) {
  (void)options;
  (void)count;
  return *sample;
}

/* Options of every layer. */
static const ls_option_t common_rows[] = {
    LS_OPTION(ls_layer_common_t, name, .change = LS_CHANGE_MODEL, .optional = true,
              .help = "Name of the layer, by which others refer to it; its parameters are NAME.weight, "
                      "NAME.bias. Letters, digits and `_-.`, at most 64. Default: layers.N, counted "
                      "from 0."),
    LS_OPTION(ls_layer_common_t, from, .change = LS_CHANGE_MODEL, .optional = true,
              .help = "Layers that this one reads: names of earlier layers, or input. Default: the "
                      "layer before. add and concat read 2 to 16, others one."),
    LS_OPTION(
        ls_layer_common_t, share, .change = LS_CHANGE_MODEL, .optional = true,
        .help =
            "Name of an earlier layer of the same kind and sizes: both train the parameters of that layer."),
    LS_OPTION(ls_layer_common_t, freeze, .change = LS_CHANGE_RUN, .initial = "false",
              .help = "Keep the initial or loaded values of the layer's parameters: no gradient, no "
                      "exchange, no update."),
};
const ls_section_t ls_layer_section = {
    "model.layers.KIND", common_rows, LS_COUNT(common_rows),
    "An entry of the list is `KIND: {options}`. Every layer has these options, and "
    "those of its kind. Only the last layer's output may go unread."};
#define SECTION(kind, rows, help)                                                                            \
  { "model.layers." kind, rows, LS_COUNT(rows), help, &ls_layer_section }

/* dense: x W^T + b, activation, dropout. Several dimensions of input count as one. */
typedef struct {
  ls_layer_common_t common;
  int64_t units;
  double dropout, init_std;
  int activation, init;
  bool bias;
} dense_t;
_Static_assert(sizeof(dense_t) <= LS_LAYER_OPTIONS_BYTES, "options must fit a layer");

static const char *const init_names[] = {"auto", "kaiming", "xavier", "normal", "zeros", NULL};
enum { INIT_AUTO, INIT_KAIMING, INIT_XAVIER, INIT_NORMAL, INIT_ZEROS };

static const ls_option_t dense_rows[] = {
    LS_OPTION(dense_t, units, .change = LS_CHANGE_MODEL, .min = 1, .max = UNITS_MAX,
              .help = "Width of the layer: outputs of one sample."),
    LS_OPTION(
        dense_t, activation, .change = LS_CHANGE_MODEL, .initial = "none", .choices = activation_names,
        .help =
            "Applied to the layer's outputs. gelu is the exact form with erf: x (1 + erf(x / sqrt(2))) / 2."),
    LS_OPTION(dense_t, dropout, .max = 0.99, .initial = "0",
              .help = "Share of outputs set to zero in training; the others are divided by 1 - share."),
    LS_OPTION(
        dense_t, init, .change = LS_CHANGE_IGNORED, .initial = "auto", .choices = init_names,
        .help =
            "Initial weights. kaiming: normal, standard deviation sqrt(2 / inputs). xavier: uniform, up to "
            "sqrt(6 / (inputs + units)). auto: kaiming for relu and gelu, else xavier. Biases begin at 0."),
    LS_OPTION(dense_t, init_std, .change = LS_CHANGE_IGNORED, .max = 100, .initial = "0.02",
              .help = "Standard deviation of the weights with init: normal."),
    LS_OPTION(dense_t, bias, .change = LS_CHANGE_MODEL, .initial = "true",
              .help = "Whether the layer adds a learned bias."),
};
static const ls_section_t dense_section =
    SECTION("dense", dense_rows, "A fully connected layer with activation and dropout.");

static ls_shape_t dense_shape(const void *options, const ls_shape_t *sample, int count) {
  (void)sample;
  (void)count;
  const dense_t *o = options;
  return LS_SHAPE(LS_F32, o->units);
}

static ls_init_t dense_init(const dense_t *o) {
  bool rectified = o->activation == ACTIVATION_RELU || o->activation == ACTIVATION_GELU;
  switch (o->init) {
  case INIT_KAIMING:
    return (ls_init_t){.kind = LS_INIT_KAIMING};
  case INIT_XAVIER:
    return (ls_init_t){.kind = LS_INIT_XAVIER};
  case INIT_NORMAL:
    return (ls_init_t){.kind = LS_INIT_NORMAL, .gain = o->init_std};
  case INIT_ZEROS:
    return (ls_init_t){.kind = LS_INIT_ZEROS};
  default:
    return (ls_init_t){.kind = rectified ? LS_INIT_KAIMING : LS_INIT_XAVIER};
  }
}

static int dense_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  const dense_t *o = options;
  param[0] = (ls_layer_param_t){"weight", LS_SHAPE(LS_F32, o->units, ls_shape_count(sample)), dense_init(o)};
  param[1] = (ls_layer_param_t){"bias", LS_SHAPE(LS_F32, o->units), {.kind = LS_INIT_ZEROS}};
  return o->bias ? 2 : 1;
}

static ls_tensor_id_t dense_build(ls_layer_builder_t *b, const void *options) {
  const dense_t *o = options;
  const ls_attrs_t zeros = {.i = {o->units}}; /* without a learned bias, zeros are added */
  ls_tensor_id_t bias = o->bias ? b->param[1] : ls_graph_op(b->graph, &ls_op_fill, &zeros, 0, NULL, NULL);
  const ls_tensor_id_t in[] = {b->in[0], b->param[0], bias};
  ls_tensor_id_t y = ls_graph_op(b->graph, &ls_op_linear, NULL, 3, in, NULL);
  return add_dropout(b, add_activation(b, y, o->activation), o->dropout);
}

static const ls_layer_kind_t dense = {.section = &dense_section,
                                      .name = "dense",
                                      .params = dense_params,
                                      .shape = dense_shape,
                                      .build = dense_build};

void ls_layer_dense_fill(ls_layer_t *layer, int64_t units, bool relu, double dropout) {
  const dense_t options = {.units = units,
                           .dropout = dropout,
                           .init_std = 0.02,
                           .activation = relu ? ACTIVATION_RELU : ACTIVATION_NONE,
                           .bias = true};
  layer->kind = &dense;
  layer->sample = LS_SHAPE(LS_F32, units);
  memcpy(layer->options, &options, sizeof options);
}

/* layer_norm: over all elements of a sample (Ba, Kiros, Hinton 2016). */
typedef struct {
  ls_layer_common_t common;
  double eps;
} layer_norm_t;
_Static_assert(sizeof(layer_norm_t) <= LS_LAYER_OPTIONS_BYTES, "options must fit a layer");

static const ls_option_t layer_norm_rows[] = {
    LS_OPTION(layer_norm_t, eps, .change = LS_CHANGE_MODEL, .min = 1e-12, .max = 1, .initial = "1e-5",
              .help = "Added to the variance, inside of the root: (x - mean) / sqrt(variance + eps)."),
};
static const ls_section_t layer_norm_section = SECTION(
    "layer_norm", layer_norm_rows, "Normalises each sample, then scales and shifts by learned values.");

static int layer_norm_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  (void)options;
  const ls_shape_t width = LS_SHAPE(LS_F32, ls_shape_count(sample));
  param[0] = (ls_layer_param_t){"weight", width, {.kind = LS_INIT_ONES}};
  param[1] = (ls_layer_param_t){"bias", width, {.kind = LS_INIT_ZEROS}};
  return 2;
}

static ls_tensor_id_t layer_norm_build(ls_layer_builder_t *b, const void *options) {
  const layer_norm_t *o = options;
  const ls_attrs_t attrs = {.f = {o->eps}};
  const ls_tensor_id_t in[] = {b->in[0], b->param[0], b->param[1]};
  return ls_graph_op(b->graph, &ls_op_layer_norm, &attrs, 3, in, NULL);
}

static const ls_layer_kind_t layer_norm = {.section = &layer_norm_section,
                                           .name = "layer_norm",
                                           .params = layer_norm_params,
                                           .shape = same_shape,
                                           .build = layer_norm_build};

/* dropout and activation on their own. */
typedef struct {
  ls_layer_common_t common;
  double rate;
} dropout_t;
_Static_assert(sizeof(dropout_t) <= LS_LAYER_OPTIONS_BYTES, "options must fit a layer");

static const ls_option_t dropout_rows[] = {
    LS_OPTION(dropout_t, rate, .max = 0.99,
              .help = "Share of elements set to zero in training; the others are divided by 1 - share."),
};
static const ls_section_t dropout_section =
    SECTION("dropout", dropout_rows, "Dropout between layers; evaluation leaves values unchanged.");

static ls_tensor_id_t dropout_build(ls_layer_builder_t *b, const void *options) {
  const dropout_t *o = options;
  return add_dropout(b, b->in[0], o->rate);
}

static const ls_layer_kind_t dropout = {
    .section = &dropout_section, .name = "dropout", .shape = same_shape, .build = dropout_build};

typedef struct {
  ls_layer_common_t common;
  int kind;
} activation_t;
_Static_assert(sizeof(activation_t) <= LS_LAYER_OPTIONS_BYTES, "options must fit a layer");

static const ls_option_t activation_rows[] = {
    LS_OPTION(activation_t, kind, .change = LS_CHANGE_MODEL, .choices = activation_names,
              .help = "The function applied to every element. gelu is the exact form with erf."),
};
static const ls_section_t activation_section =
    SECTION("activation", activation_rows, "An activation between layers.");

static ls_tensor_id_t activation_build(ls_layer_builder_t *b, const void *options) {
  const activation_t *o = options;
  return add_activation(b, b->in[0], o->kind);
}

static const ls_layer_kind_t activation = {
    .section = &activation_section, .name = "activation", .shape = same_shape, .build = activation_build};

/* add and concat: several inputs. */
static ls_tensor_id_t join(ls_layer_builder_t *b, const ls_op_t *op) {
  ls_tensor_id_t y = b->in[0];
  for (int i = 1; i < b->in_count; i++)
    y = ls_graph_op(b->graph, op, NULL, 2, (ls_tensor_id_t[]){y, b->in[i]}, NULL);
  return y;
}

static const ls_section_t add_section = {"model.layers.add", NULL, 0, "Adds several layers of one size.",
                                         &ls_layer_section};

static ls_tensor_id_t add_build(ls_layer_builder_t *b, const void *options) {
  (void)options;
  return join(b, &ls_op_add);
}

static const ls_layer_kind_t add = {.section = &add_section,
                                    .name = "add",
                                    .joins = true,
                                    .alike = true,
                                    .shape = same_shape,
                                    .build = add_build};

static const ls_section_t concat_section = {"model.layers.concat", NULL, 0,
                                            "Joins the elements of several layers.", &ls_layer_section};

static ls_shape_t concat_shape(const void *options, const ls_shape_t *sample, int count) {
  (void)options;
  ls_shape_t shape = LS_SHAPE(LS_F32, 0);
  for (int i = 0; i < count; i++)
    shape.dim[0] += ls_shape_count(&sample[i]);
  return shape;
}

static ls_tensor_id_t concat_build(ls_layer_builder_t *b, const void *options) {
  (void)options;
  return join(b, &ls_op_concat);
}

static const ls_layer_kind_t concat = {.section = &concat_section,
                                       .name = "concat",
                                       .joins = true,
                                       .shape = concat_shape,
                                       .build = concat_build};

const ls_layer_kind_t *const ls_layer_kinds[] = {&dense, &layer_norm, &dropout, &activation,
                                                 &add,   &concat,     NULL};
const ls_section_t *const ls_layer_sections[] = {&ls_layer_section, &dense_section,      &layer_norm_section,
                                                 &dropout_section,  &activation_section, &add_section,
                                                 &concat_section,   &ls_repeat_section,  NULL};
_Static_assert(LS_COUNT(ls_layer_kinds) + 2 == LS_COUNT(ls_layer_sections),
               "every kind has a reference page; so have all kinds, and blocks");
