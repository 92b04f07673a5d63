/* dropout, of elements and of whole samples, and activation on their own. */
#include "graph/ops/ops.h"
#include "model/layers/kind.h"

typedef struct {
  ls_layer_common_t common;
  double rate;
} dropout_t;
LS_LAYER_FITS(dropout_t);

static const ls_option_t dropout_rows[] = {
    LS_OPTION(dropout_t, rate, .max = 0.99,
              .help = "Share of elements set to zero in training; the others are divided by 1 - share."),
};
static const ls_section_t dropout_section =
    LS_LAYER_SECTION("dropout", dropout_rows, "Dropout between layers; evaluation leaves values unchanged.");

static ls_tensor_id_t dropout_build(ls_layer_builder_t *b, const void *options) {
  const dropout_t *o = options;
  return ls_layer_dropout(b, b->in[0], o->rate);
}

const ls_layer_kind_t ls_kind_dropout = {
    .section = &dropout_section, .name = "dropout", .shape = ls_layer_same_shape, .build = dropout_build};

/* drop_path */
static const ls_option_t drop_path_rows[] = {
    LS_OPTION(
        dropout_t, rate, .max = 0.99,
        .help =
            "Share of samples whose values are all set to zero in training; the others are divided by 1 - "
            "share."),
};
static const ls_section_t drop_path_section = LS_LAYER_SECTION(
    "drop_path", drop_path_rows,
    "Stochastic depth (Huang et al. 2016), at the end of a branch that `add` joins to its input; "
    "evaluation leaves values unchanged.");

static ls_tensor_id_t drop_path_build(ls_layer_builder_t *b, const void *options) {
  const dropout_t *o = options;
  if (!b->training || o->rate == 0) return b->in[0];
  const ls_attrs_t attrs = {.i = {b->dropouts++}, .f = {o->rate}};
  return ls_graph_op(b->graph, &ls_op_drop_rows, &attrs, 2, (ls_tensor_id_t[]){b->in[0], b->step}, NULL);
}

const ls_layer_kind_t ls_kind_drop_path = {.section = &drop_path_section,
                                           .name = "drop_path",
                                           .shape = ls_layer_same_shape,
                                           .build = drop_path_build};

typedef struct {
  ls_layer_common_t common;
  int kind;
} activation_t;
LS_LAYER_FITS(activation_t);

static const ls_option_t activation_rows[] = {
    LS_OPTION(activation_t, kind, .change = LS_CHANGE_MODEL, .choices = ls_activation_names,
              .help = "The function applied to every element. " LS_ACTIVATION_HELP),
};
static const ls_section_t activation_section =
    LS_LAYER_SECTION("activation", activation_rows, "An activation between layers.");

static ls_tensor_id_t activation_build(ls_layer_builder_t *b, const void *options) {
  const activation_t *o = options;
  return ls_layer_activation(b, b->in[0], o->kind);
}

const ls_layer_kind_t ls_kind_activation = {.section = &activation_section,
                                            .name = "activation",
                                            .shape = ls_layer_same_shape,
                                            .build = activation_build};
