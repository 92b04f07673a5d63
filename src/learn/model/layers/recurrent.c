/* lstm and gru: recurrent layers over the positions of a sequence, stacked, in one direction or both. A gate has one
 * bias vector; PyTorch and cuDNN count two, which only ever act as their sum (but for b_hn of a GRU). */
#include "graph/ops/ops.h"
#include "model/layers/kind.h"

#include <math.h>
#include <stdio.h>

enum { STACK_MAX = 8, EACH_MAX = 4 };
_Static_assert(STACK_MAX * 2 * EACH_MAX <= LS_LAYER_PARAM_MAX, "parameters of a whole stack");

typedef struct {
  ls_layer_common_t common;
  int64_t units, layers;
  double dropout;
  int output;
  bool bidirectional;
} recurrent_t;
LS_LAYER_FITS(recurrent_t);

/* The differences between the two. */
typedef struct {
  const ls_op_t *chain;
  int gates, params; /* params: of one chain */
  double shut;       /* gates_x that keep a state of 0: i = f = o = 0 of an LSTM, z = 1 of a GRU */
} cell_t;
static const cell_t lstm_cell = {&ls_op_lstm_chain, 4, 3, -1e4}, gru_cell = {&ls_op_gru_chain, 3, 4, 1e4};

static const char *const output_names[] = {"all", "last", NULL};
enum { OUTPUT_ALL, OUTPUT_LAST };

static const ls_option_t recurrent_rows[] = {
    LS_OPTION(recurrent_t, units, .change = LS_CHANGE_MODEL, .min = 1, .max = LS_LAYER_UNITS_MAX,
              .help = "Width of the state: outputs of one position and direction."),
    LS_OPTION(recurrent_t, layers, .change = LS_CHANGE_MODEL, .min = 1, .max = STACK_MAX, .initial = "1",
              .help =
                  "Number of layers, each of which reads the outputs of the one before at every position."),
    LS_OPTION(
        recurrent_t, bidirectional, .change = LS_CHANGE_MODEL, .initial = "false",
        .help =
            "Whether every layer also runs from the last position to the first, with parameters of its own; "
            "outputs are 2 * units wide."),
    LS_OPTION(recurrent_t, dropout, .max = 0.99, .initial = "0",
              .help = "Share of a layer's outputs set to zero in training before the next layer reads them."),
    LS_OPTION(
        recurrent_t, output, .change = LS_CHANGE_MODEL, .initial = "all", .choices = output_names,
        .help =
            "all: the outputs of every position, [T, units]. last: those after the last position that was "
            "read, [units]; backwards in time that is the first."),
};
#define HELP                                                                                                 \
  " over a sequence [T, F]. Parameters are named as in PyTorch, weight_ih_l0, weight_hh_l0 and so on, "
static const ls_section_t lstm_section = LS_LAYER_SECTION(
    "lstm", recurrent_rows,
    "LSTM layers" HELP "but there is one bias vector, bias_l0 = bias_ih_l0 + bias_hh_l0 (4 units "
    "elements less for each layer and direction). All begin uniform, up to 1 / sqrt(units).");
static const ls_section_t gru_section = LS_LAYER_SECTION(
    "gru", recurrent_rows,
    "GRU layers" HELP "in the form of PyTorch and cuDNN, whose reset gate multiplies the product. "
    "There is one bias vector, bias_l0 = bias_ih_l0 + bias_hh_l0, but for the part of the new state: "
    "there bias_hn_l0 is added within the reset gate (2 units elements less for each layer and "
    "direction). All begin uniform, up to 1 / sqrt(units).");

#define NAMES(layer, direction)                                                                              \
  {                                                                                                          \
    "weight_ih_l" #layer direction, "weight_hh_l" #layer direction, "bias_l" #layer direction,               \
        "bias_hn_l" #layer direction                                                                         \
  }
#define NAMES_OF(layer)                                                                                      \
  { NAMES(layer, ""), NAMES(layer, "_reverse") }
static const char *const names[STACK_MAX][2][EACH_MAX] = {NAMES_OF(0), NAMES_OF(1), NAMES_OF(2), NAMES_OF(3),
                                                          NAMES_OF(4), NAMES_OF(5), NAMES_OF(6), NAMES_OF(7)};

static int directions_of(const recurrent_t *o) {
  return o->bidirectional ? 2 : 1;
}

static bool takes_sequence(const void *options, const ls_shape_t *sample, int count,
                           char why[LS_LAYER_WHY_BYTES]) {
  (void)options;
  (void)count;
  if (sample->rank == 2) return true;
  snprintf(why, LS_LAYER_WHY_BYTES, "a sequence [positions, features] is needed");
  return false;
}

static ls_shape_t recurrent_shape(const void *options, const ls_shape_t *sample, int count) {
  (void)count;
  const recurrent_t *o = options;
  int64_t width = o->units * directions_of(o);
  return o->output == OUTPUT_ALL ? LS_SHAPE(LS_F32, sample->dim[0], width) : LS_SHAPE(LS_F32, width);
}

static int add_params(const recurrent_t *o, const cell_t *cell, int64_t features, ls_layer_param_t *param) {
  const ls_init_t init = {.kind = LS_INIT_UNIFORM, .gain = 1 / sqrt((double)o->units)};
  const int64_t h = o->units, width = cell->gates * h, directions = directions_of(o);
  int count = 0;
  for (int l = 0; l < o->layers; l++, features = directions * h)
    for (int d = 0; d < directions; d++) {
      const ls_shape_t shapes[EACH_MAX] = {LS_SHAPE(LS_F32, width, features), LS_SHAPE(LS_F32, width, h),
                                           LS_SHAPE(LS_F32, width), LS_SHAPE(LS_F32, h)};
      for (int p = 0; p < cell->params; p++)
        param[count++] = (ls_layer_param_t){names[l][d][p], shapes[p], init};
    }
  return count;
}

static int lstm_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  return add_params(options, &lstm_cell, sample->dim[1], param);
}

static int gru_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  return add_params(options, &gru_cell, sample->dim[1], param);
}

/* x (rows, t, f) -> (rows, t, units). Backwards in time the state stays 0 through the padding at the end. */
static ls_tensor_id_t add_chain(ls_layer_builder_t *b, const cell_t *cell, ls_tensor_id_t x,
                                const ls_tensor_id_t *param, int direction) {
  const ls_attrs_t attrs = {.i = {direction}}, shut = {.f = {cell->shut}};
  const ls_tensor_id_t in[] = {x, param[0], param[2]}, lengths = ls_layer_lengths(b);
  ls_tensor_id_t gates = ls_graph_op(b->graph, &ls_op_linear, NULL, 3, in, NULL);
  if (direction == 1 && lengths >= 0)
    gates = ls_graph_op(b->graph, &ls_op_mask_places, &shut, 2, (ls_tensor_id_t[]){gates, lengths}, NULL);
  const ls_tensor_id_t chain[] = {gates, param[1], param[cell->params - 1]};
  return ls_graph_op(b->graph, cell->chain, &attrs, cell->params - 1, chain, NULL);
}

/* Joins both directions, (.., units) each, side by side. */
static ls_tensor_id_t join(ls_layer_builder_t *b, const recurrent_t *o, ls_tensor_id_t y[2],
                           int64_t positions) {
  if (!o->bidirectional) return y[0];
  const ls_attrs_t rows = {.i = {2, b->rows * positions, o->units}};
  const ls_attrs_t sequence = {.i = {3, b->rows, positions, 2 * o->units}};
  for (int d = 0; d < 2; d++)
    y[d] = ls_graph_op(b->graph, &ls_op_reshape, &rows, 1, &y[d], NULL);
  ls_tensor_id_t both = ls_graph_op(b->graph, &ls_op_concat, NULL, 2, y, NULL);
  return ls_graph_op(b->graph, &ls_op_reshape, &sequence, 1, &both, NULL);
}

static ls_tensor_id_t add_stack(ls_layer_builder_t *b, const recurrent_t *o, const cell_t *cell) {
  const ls_tensor_id_t *param = b->param;
  const int64_t t = b->sample->dim[0];
  ls_tensor_id_t x = ls_layer_as(b, b->in[0], b->sample), y[2] = {-1, -1}, lengths = ls_layer_lengths(b);
  for (int l = 0; l < o->layers; l++) {
    for (int d = 0; d < directions_of(o); d++, param += cell->params)
      y[d] = add_chain(b, cell, x, param, d);
    if (l + 1 < o->layers) x = ls_layer_dropout(b, join(b, o, y, t), o->dropout);
  }
  if (o->output == OUTPUT_ALL) return join(b, o, y, t);
  for (int d = 0; d < directions_of(o); d++) {
    const ls_attrs_t end = {.i = {1}}, last = {.i = {d == 0 ? -1 : 0}};
    const ls_tensor_id_t padded[] = {y[d], lengths};
    y[d] = d == 0 && lengths >= 0 ? ls_graph_op(b->graph, &ls_op_pool_valid, &end, 2, padded, NULL)
                                  : ls_graph_op(b->graph, &ls_op_take_position, &last, 1, &y[d], NULL);
  }
  return o->bidirectional ? ls_graph_op(b->graph, &ls_op_concat, NULL, 2, y, NULL) : y[0];
}

static ls_tensor_id_t lstm_build(ls_layer_builder_t *b, const void *options) {
  return add_stack(b, options, &lstm_cell);
}

static ls_tensor_id_t gru_build(ls_layer_builder_t *b, const void *options) {
  return add_stack(b, options, &gru_cell);
}

const ls_layer_kind_t ls_kind_lstm = {.section = &lstm_section,
                                      .name = "lstm",
                                      .params = lstm_params,
                                      .takes = takes_sequence,
                                      .shape = recurrent_shape,
                                      .build = lstm_build};

const ls_layer_kind_t ls_kind_gru = {.section = &gru_section,
                                     .name = "gru",
                                     .params = gru_params,
                                     .takes = takes_sequence,
                                     .shape = recurrent_shape,
                                     .build = gru_build};
