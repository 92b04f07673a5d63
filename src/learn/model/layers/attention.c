/* attention: queries, keys and values of every place, attention of all heads, and a product that joins the heads. */
#include "graph/ops/ops.h"
#include "model/layers/kind.h"

#include <stdio.h>

typedef struct {
  ls_layer_common_t common;
  int64_t heads;
  double dropout, init_std, proj_std;
  int init;
  bool causal, bias;
} attention_t;
LS_LAYER_FITS(attention_t);

static const ls_option_t attention_rows[] = {
    LS_OPTION(attention_t, heads, .change = LS_CHANGE_MODEL, .min = 1, .max = 4096,
              .help = "Number of heads; it divides the width F of the sequence [T, F]."),
    LS_OPTION(attention_t, causal, .change = LS_CHANGE_MODEL, .initial = "false",
              .help = "Whether a place sees only itself and those before it."),
    LS_OPTION(attention_t, dropout, .max = 0.99, .initial = "0",
              .help =
                  "Share of attention's probabilities set to zero in training; the others are divided by 1 - "
                  "share."),
    LS_OPTION(attention_t, bias, .change = LS_CHANGE_MODEL, .initial = "true",
              .help = "Whether both products add a learned bias."),
    LS_OPTION(attention_t, init, .change = LS_CHANGE_IGNORED, .initial = "auto",
              .choices = ls_layer_init_names, .help = LS_LAYER_INIT_HELP),
    LS_OPTION(attention_t, init_std, .change = LS_CHANGE_IGNORED, .max = 100, .initial = "0.02",
              .help = "Standard deviation of the weights with init: normal."),
    LS_OPTION(attention_t, proj_std, .change = LS_CHANGE_IGNORED, .max = 100, .initial = "0",
              .help = "The same of proj.weight; 0: init_std."),
};
static const ls_section_t attention_section = LS_LAYER_SECTION(
    "attention", attention_rows,
    "Multi-head attention of a sequence [T, F] with itself. Parameters: qkv.weight (3 F, F): rows of "
    "queries, then keys, then values; qkv.bias; proj.weight (F, F), proj.bias.");

static bool attention_takes(const void *options, const ls_shape_t *sample, int count,
                            char why[LS_LAYER_WHY_BYTES]) {
  (void)count;
  const attention_t *o = options;
  snprintf(why, LS_LAYER_WHY_BYTES, "a sequence [T, F] is needed, with F a multiple of the %lld heads",
           (long long)o->heads);
  return sample->rank == 2 && sample->dim[1] % o->heads == 0;
}

static int attention_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  const attention_t *o = options;
  int64_t width = sample->dim[1];
  const ls_init_t zeros = {.kind = LS_INIT_ZEROS};
  param[0] = (ls_layer_param_t){"qkv.weight", LS_SHAPE(LS_F32, 3 * width, width),
                                ls_layer_init(o->init, o->init_std, LS_ACTIVATION_NONE), false};
  param[1] = (ls_layer_param_t){
      "proj.weight", LS_SHAPE(LS_F32, width, width),
      ls_layer_init(o->init, o->proj_std > 0 ? o->proj_std : o->init_std, LS_ACTIVATION_NONE), false};
  param[2] = (ls_layer_param_t){"qkv.bias", LS_SHAPE(LS_F32, 3 * width), zeros, false};
  param[3] = (ls_layer_param_t){"proj.bias", LS_SHAPE(LS_F32, width), zeros, false};
  return o->bias ? 4 : 2;
}

static ls_tensor_id_t attention_build(ls_layer_builder_t *b, const void *options) {
  const attention_t *o = options;
  int64_t width = b->sample->dim[1];
  double rate = b->training ? o->dropout : 0;
  const ls_attrs_t attrs = {.i = {o->heads, o->causal, rate > 0 ? b->dropouts++ : 0}, .f = {rate}};
  ls_tensor_id_t qkv = ls_layer_linear(b, b->in[0], b->param[0], o->bias ? b->param[2] : -1, 3 * width);
  const ls_tensor_id_t in[] = {qkv, b->step, ls_layer_lengths(b)};
  bool padded = in[2] >= 0;
  ls_tensor_id_t y = ls_graph_op(b->graph, padded ? &ls_op_attention_padded : &ls_op_attention, &attrs,
                                 2 + padded, in, NULL);
  return ls_layer_linear(b, y, b->param[1], o->bias ? b->param[3] : -1, width);
}

const ls_layer_kind_t ls_kind_attention = {.section = &attention_section,
                                           .name = "attention",
                                           .params = attention_params,
                                           .takes = attention_takes,
                                           .shape = ls_layer_same_shape,
                                           .build = attention_build};
