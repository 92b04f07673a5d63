/* dense: x W^T + b, activation, dropout. */
#include "graph/ops/ops.h"
#include "model/layers/kind.h"

#include <string.h>

typedef struct {
  ls_layer_common_t common;
  int64_t units;
  double dropout, init_std;
  int activation, init, over;
  bool bias;
} dense_t;
LS_LAYER_FITS(dense_t);

static const ls_option_t dense_rows[] = {
    LS_OPTION(dense_t, units, .change = LS_CHANGE_MODEL, .min = 1, .max = LS_LAYER_UNITS_MAX,
              .help = "Width of the layer: outputs of one sample."),
    LS_OPTION(dense_t, activation, .change = LS_CHANGE_MODEL, .initial = "none",
              .choices = ls_activation_names, .help = "Applied to the layer's outputs. " LS_ACTIVATION_HELP),
    LS_OPTION(dense_t, dropout, .max = 0.99, .initial = "0",
              .help = "Share of outputs set to zero in training; the others are divided by 1 - share."),
    LS_OPTION(dense_t, init, .change = LS_CHANGE_IGNORED, .initial = "auto", .choices = ls_layer_init_names,
              .help = LS_LAYER_INIT_HELP),
    LS_OPTION(dense_t, init_std, .change = LS_CHANGE_IGNORED, .max = 100, .initial = "0.02",
              .help = "Standard deviation of the weights with init: normal."),
    LS_OPTION(dense_t, bias, .change = LS_CHANGE_MODEL, .initial = "true",
              .help = "Whether the layer adds a learned bias."),
    LS_OPTION(dense_t, over, .change = LS_CHANGE_MODEL, .initial = "all", .choices = ls_over_names,
              .help = "Inputs of one product. all: the dimensions of a sample count as one. last: the last "
                      "one, at every position of the others."),
};
static const ls_section_t dense_section =
    LS_LAYER_SECTION("dense", dense_rows, "A fully connected layer with activation and dropout.");

static ls_shape_t dense_shape(const void *options, const ls_shape_t *sample, int count) {
  (void)count;
  const dense_t *o = options;
  ls_shape_t shape = ls_layer_over(o->over, sample);
  shape.dim[shape.rank - 1] = o->units;
  return shape;
}

static int dense_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  const dense_t *o = options;
  const ls_shape_t x = ls_layer_over(o->over, sample);
  param[0] = (ls_layer_param_t){"weight", LS_SHAPE(LS_F32, o->units, x.dim[x.rank - 1]),
                                ls_layer_init(o->init, o->init_std, o->activation)};
  param[1] = (ls_layer_param_t){"bias", LS_SHAPE(LS_F32, o->units), {.kind = LS_INIT_ZEROS}};
  return o->bias ? 2 : 1;
}

static ls_tensor_id_t dense_build(ls_layer_builder_t *b, const void *options) {
  const dense_t *o = options;
  const ls_shape_t x = ls_layer_over(o->over, b->sample);
  ls_tensor_id_t bias = o->bias ? b->param[1] : -1;
  ls_tensor_id_t y = ls_layer_linear(b, ls_layer_as(b, b->in[0], &x), b->param[0], bias, o->units);
  return ls_layer_dropout(b, ls_layer_activation(b, y, o->activation), o->dropout);
}

const ls_layer_kind_t ls_kind_dense = {.section = &dense_section,
                                       .name = "dense",
                                       .shares = "embedding",
                                       .params = dense_params,
                                       .shape = dense_shape,
                                       .build = dense_build};
