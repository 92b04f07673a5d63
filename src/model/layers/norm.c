/* layer_norm: over all elements of a sample, or its last dimension (Ba, Kiros, Hinton 2016). */
#include "graph/ops/ops.h"
#include "model/layers/kind.h"

typedef struct {
  ls_layer_common_t common;
  double eps;
  int over;
} layer_norm_t;
LS_LAYER_FITS(layer_norm_t);

static const ls_option_t layer_norm_rows[] = {
    LS_OPTION(layer_norm_t, eps, .change = LS_CHANGE_MODEL, .min = 1e-12, .max = 1, .initial = "1e-5",
              .help = "Added to the variance, inside of the root: (x - mean) / sqrt(variance + eps)."),
    LS_OPTION(layer_norm_t, over, .change = LS_CHANGE_MODEL, .initial = "all", .choices = ls_over_names,
              .help =
                  "What has one mean and variance. all: the elements of a sample. last: those of its last "
                  "dimension, at every position of the others."),
};
static const ls_section_t layer_norm_section = LS_LAYER_SECTION(
    "layer_norm", layer_norm_rows, "Normalises each sample, then scales and shifts by learned values.");

static int layer_norm_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  const layer_norm_t *o = options;
  const ls_shape_t x = ls_layer_over(o->over, sample), width = LS_SHAPE(LS_F32, x.dim[x.rank - 1]);
  param[0] = (ls_layer_param_t){"weight", width, {.kind = LS_INIT_ONES}};
  param[1] = (ls_layer_param_t){"bias", width, {.kind = LS_INIT_ZEROS}};
  return 2;
}

static ls_tensor_id_t layer_norm_build(ls_layer_builder_t *b, const void *options) {
  const layer_norm_t *o = options;
  const ls_attrs_t attrs = {.f = {o->eps}};
  const ls_shape_t x = ls_layer_over(o->over, b->sample);
  const ls_tensor_id_t in[] = {ls_layer_as(b, b->in[0], &x), b->param[0], b->param[1]};
  return ls_layer_as(b, ls_graph_op(b->graph, &ls_op_layer_norm, &attrs, 3, in, NULL), b->sample);
}

const ls_layer_kind_t ls_kind_layer_norm = {.section = &layer_norm_section,
                                            .name = "layer_norm",
                                            .params = layer_norm_params,
                                            .shape = ls_layer_same_shape,
                                            .build = layer_norm_build};
