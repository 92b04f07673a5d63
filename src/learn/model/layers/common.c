/* Shared by all layer kinds: the options of every layer, activations, initial weights, views of samples. */
#include "device/int8.h"
#include "graph/ops/ops.h"
#include "model/layers/kind.h"

#include <math.h>
#include <string.h>

/* Activations: names and ops side by side. */
const char *const ls_activation_names[] = {"none",    "relu",      "gelu", "tanh",
                                           "sigmoid", "gelu_tanh", "silu", NULL};
static const ls_op_t *const activation_ops[] = {NULL,           &ls_op_relu,      &ls_op_gelu, &ls_op_tanh,
                                                &ls_op_sigmoid, &ls_op_gelu_tanh, &ls_op_silu};
_Static_assert(LS_COUNT(ls_activation_names) == LS_COUNT(activation_ops) + 1, "one op for every name");

ls_tensor_id_t ls_layer_activation(ls_layer_builder_t *b, ls_tensor_id_t x, int activation) {
  if (activation == LS_ACTIVATION_NONE) return x;
  return ls_graph_op(b->graph, activation_ops[activation], NULL, 1, &x, NULL);
}

ls_tensor_id_t ls_layer_linear(ls_layer_builder_t *b, ls_tensor_id_t x, ls_tensor_id_t weight,
                               ls_tensor_id_t bias, int64_t units) {
  const ls_attrs_t zeros = {.i = {units}};
  ls_attrs_t attrs = {.i = {0}};
  if (bias < 0) bias = ls_graph_op(b->graph, &ls_op_fill, &zeros, 0, NULL, NULL);
  const ls_op_t *op =
      weight >= 0 && ls_layer_int8(b, x, ls_shape_inner(&b->graph->tensors[weight].shape, 1), &attrs)
          ? &ls_op_linear_int8
          : &ls_op_linear;
  return ls_graph_op(b->graph, op, &attrs, 3, (ls_tensor_id_t[]){x, weight, bias}, NULL);
}

/* The zero point has to be a value: padding is 0. */
bool ls_layer_int8(ls_layer_builder_t *b, ls_tensor_id_t x, int64_t depth, ls_attrs_t *attrs) {
  if (!b->int8 || x < 0 || depth > LS_INT8_DEPTH_MAX) return false;
  const int n = b->products++;
  if (b->int8->count == 0) {
    ls_tensor_id_t range = ls_graph_op(b->graph, &ls_op_value_range, NULL, 1, &x, NULL);
    const ls_tensor_id_t both[] = {b->ranges, range};
    b->ranges = n == 0 ? range : ls_graph_op(b->graph, &ls_op_concat, NULL, 2, both, NULL);
    return false;
  }
  if (n >= b->int8->count) return false; /* of another network: the caller compares the counts */
  const double low = fmin(0, (double)b->int8->range[2 * n]),
               high = fmax(0, (double)b->int8->range[2 * n + 1]);
  attrs->f[0] = high > low ? (high - low) / 255 : 1;
  attrs->f[1] = rint(-low / attrs->f[0]);
  return true;
}

/* Evaluation has no dropout op: training scales the kept values instead. */
ls_tensor_id_t ls_layer_dropout(ls_layer_builder_t *b, ls_tensor_id_t x, double rate) {
  if (!b->training || rate == 0) return x;
  const ls_attrs_t attrs = {.i = {b->dropouts++}, .f = {rate}};
  const ls_tensor_id_t in[] = {x, b->step};
  return ls_graph_op(b->graph, &ls_op_dropout, &attrs, 2, in, NULL);
}

const char *const ls_layer_init_names[] = {"auto", "kaiming", "xavier", "normal", "zeros", NULL};
enum { INIT_AUTO, INIT_KAIMING, INIT_XAVIER, INIT_NORMAL, INIT_ZEROS };

ls_init_t ls_layer_init(int init, double std, int activation) {
  bool rectified = activation == LS_ACTIVATION_RELU || activation == LS_ACTIVATION_GELU;
  switch (init) {
  case INIT_KAIMING:
    return (ls_init_t){.kind = LS_INIT_KAIMING};
  case INIT_XAVIER:
    return (ls_init_t){.kind = LS_INIT_XAVIER};
  case INIT_NORMAL:
    return (ls_init_t){.kind = LS_INIT_NORMAL, .gain = std};
  case INIT_ZEROS:
    return (ls_init_t){.kind = LS_INIT_ZEROS};
  default:
    return (ls_init_t){.kind = rectified ? LS_INIT_KAIMING : LS_INIT_XAVIER};
  }
}

const char *const ls_over_names[] = {"all", "last", NULL};

ls_shape_t ls_layer_over(int over, const ls_shape_t *sample) {
  return over == LS_OVER_LAST ? *sample : LS_SHAPE(LS_F32, ls_shape_count(sample));
}

ls_tensor_id_t ls_layer_as(ls_layer_builder_t *b, ls_tensor_id_t x, const ls_shape_t *sample) {
  if (b->graph->status) return -1;
  const ls_shape_t want = ls_model_rows(b->rows, *sample);
  if (ls_shape_equal(&b->graph->tensors[x].shape, &want)) return x;
  ls_attrs_t attrs = {.i = {want.rank}};
  memcpy(attrs.i + 1, want.dim, sizeof want.dim);
  return ls_graph_op(b->graph, &ls_op_reshape, &attrs, 1, &x, NULL);
}

ls_shape_t ls_layer_same_shape(const void *options, const ls_shape_t *sample, int count) {
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
                      "layer before. add, multiply and concat read 2 to 16, others one."),
    LS_OPTION(
        ls_layer_common_t, share, .change = LS_CHANGE_MODEL, .optional = true,
        .help =
            "Name of an earlier layer of the same kind and sizes: both train the parameters of that layer. A "
            "dense layer may share the rows of an embedding; a bias is its own."),
    LS_OPTION(ls_layer_common_t, freeze, .change = LS_CHANGE_RUN, .initial = "false",
              .help = "Keep the initial or loaded values of the layer's parameters: no gradient, no "
                      "exchange, no update."),
};
const ls_section_t ls_layer_section = {
    "model.layers.KIND", common_rows, LS_COUNT(common_rows),
    "An entry of the list is `KIND: {options}`. Every layer has these options, and "
    "those of its kind. Only the last layer's output may go unread."};
