/* group_norm: over groups of a sample's channels. layer_norm: over all elements of a sample, or its last dimension (Ba, Kiros, Hinton 2016). batch_norm: each channel over
 * the samples of a step (Ioffe and Szegedy 2015). */
#include "graph/ops/ops.h"
#include "model/layers/kind.h"

#include <stdio.h>

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

typedef struct {
  ls_layer_common_t common;
  double eps, momentum;
  int statistics;
} batch_norm_t;
LS_LAYER_FITS(batch_norm_t);

static const char *const statistics_names[] = {"global", "local", NULL};
enum { STATISTICS_GLOBAL };

static const ls_option_t batch_norm_rows[] = {
    LS_OPTION(batch_norm_t, eps, .change = LS_CHANGE_MODEL, .min = 1e-12, .max = 1, .initial = "1e-5",
              .help = "Added to the variance, inside of the root: (x - mean) / sqrt(variance + eps)."),
    LS_OPTION(batch_norm_t, momentum, .min = 0, .max = 1, .initial = "0.1",
              .help =
                  "Share of a micro-batch in the running mean and variance, with which evaluation works."),
    LS_OPTION(
        batch_norm_t, statistics, .change = LS_CHANGE_RUN, .initial = "global", .choices = statistics_names,
        .help = "global: mean and variance over all ranks' samples of a micro-batch, at the price of two "
                "small exchanges per layer. local: over a rank's own. Running ones are always of all ranks."),
};
static const ls_section_t batch_norm_section = LS_LAYER_SECTION(
    "batch_norm", batch_norm_rows,
    "Normalises each channel (the last dimension) over the samples and positions of a micro-batch, "
    "then scales and shifts by learned values.");

static int batch_norm_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  (void)options;
  const ls_shape_t channels = LS_SHAPE(LS_F32, sample->dim[sample->rank - 1]);
  param[0] = (ls_layer_param_t){"weight", channels, {.kind = LS_INIT_ONES}, false};
  param[1] = (ls_layer_param_t){"bias", channels, {.kind = LS_INIT_ZEROS}, false};
  param[2] = (ls_layer_param_t){"running_mean", channels, {.kind = LS_INIT_ZEROS}, true};
  param[3] = (ls_layer_param_t){"running_var", channels, {.kind = LS_INIT_ONES}, true};
  return 4;
}

/* Ranks add up sums around what they have in common, the running mean. In f64 they lose nothing where it is far away. */
static ls_tensor_id_t batch_norm_build(ls_layer_builder_t *b, const void *options) {
  const batch_norm_t *o = options;
  const ls_attrs_t eps = {.f = {o->eps}};
  const ls_tensor_id_t *p = b->param, x = b->in[0], shift = p[2];
  ls_graph_t *g = b->graph;
  if (!b->training) {
    ls_tensor_id_t rstd = ls_graph_op(g, &ls_op_rsqrt_eps, &eps, 1, &p[3], NULL);
    return ls_graph_op(g, &ls_op_bn_apply, NULL, 5, (ls_tensor_id_t[]){x, p[2], rstd, p[0], p[1]}, NULL);
  }
  ls_tensor_id_t own[2] = {-1, -1}, all[4] = {-1, -1, -1, -1};
  ls_tensor_id_t sums =
      ls_graph_op(g, &ls_op_bn_sums, NULL, 3, (ls_tensor_id_t[]){x, b->weight, shift}, NULL);
  ls_tensor_id_t total = ls_graph_op(g, &ls_op_sum_ranks, NULL, 1, &sums, NULL);
  const ls_tensor_id_t *used = all;
  if (o->statistics != STATISTICS_GLOBAL) {
    ls_graph_op(g, &ls_op_bn_moments, &eps, 2, (ls_tensor_id_t[]){sums, shift}, own);
    used = own;
  }
  ls_graph_op(g, &ls_op_bn_track, &(ls_attrs_t){.f = {o->eps, o->momentum}}, 1, &total, all);
  for (int k = 0; k < 2; k++)
    ls_graph_update(g, all[2 + k], p[2 + k]);
  const ls_tensor_id_t in[] = {x, used[0], used[1], p[0], p[1]};
  ls_tensor_id_t y = ls_graph_op(g, &ls_op_bn_apply, NULL, 5, in, NULL);
  return y;
}

const ls_layer_kind_t ls_kind_batch_norm = {.section = &batch_norm_section,
                                            .name = "batch_norm",
                                            .params = batch_norm_params,
                                            .shape = ls_layer_same_shape,
                                            .build = batch_norm_build};

typedef struct {
  ls_layer_common_t common;
  int64_t groups;
  double eps;
} group_norm_t;
LS_LAYER_FITS(group_norm_t);

static const ls_option_t group_norm_rows[] = {
    LS_OPTION(group_norm_t, groups, .change = LS_CHANGE_MODEL, .min = 1, .max = 1 << 20, .initial = "32",
              .help = "Number of groups; it divides the channels (the last dimension)."),
    LS_OPTION(group_norm_t, eps, .change = LS_CHANGE_MODEL, .min = 1e-12, .max = 1, .initial = "1e-5",
              .help = "Added to the variance, inside of the root: (x - mean) / sqrt(variance + eps)."),
};
static const ls_section_t group_norm_section = LS_LAYER_SECTION(
    "group_norm", group_norm_rows,
    "Normalises groups of a sample's channels over all positions, then scales and shifts by learned values.");

static bool group_norm_takes(const void *options, const ls_shape_t *sample, int count,
                             char why[LS_LAYER_WHY_BYTES]) {
  (void)count;
  const group_norm_t *o = options;
  int64_t channels = sample->dim[sample->rank - 1];
  snprintf(why, LS_LAYER_WHY_BYTES, "%lld groups do not divide the %lld channels", (long long)o->groups,
           (long long)channels);
  return channels % o->groups == 0;
}

static ls_tensor_id_t group_norm_build(ls_layer_builder_t *b, const void *options) {
  const group_norm_t *o = options;
  const ls_attrs_t attrs = {.i = {o->groups}, .f = {o->eps}};
  const ls_tensor_id_t in[] = {b->in[0], b->param[0], b->param[1]};
  return ls_graph_op(b->graph, &ls_op_group_norm, &attrs, 3, in, NULL);
}

static int group_norm_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  batch_norm_params(options, sample, param);
  return 2; /* without running statistics */
}

const ls_layer_kind_t ls_kind_group_norm = {.section = &group_norm_section,
                                            .name = "group_norm",
                                            .params = group_norm_params,
                                            .takes = group_norm_takes,
                                            .shape = ls_layer_same_shape,
                                            .build = group_norm_build};
