/* embedding: numbers of tokens to learned rows; positions: a row for each place of a sequence. */
#include "graph/ops/ops.h"
#include "model/layers/kind.h"

#include <stdio.h>

typedef struct {
  ls_layer_common_t common;
  int64_t size, units, id, separator;
  double init_std;
} embedding_t;
LS_LAYER_FITS(embedding_t);

static const ls_option_t embedding_rows[] = {
    LS_OPTION(embedding_t, size, .change = LS_CHANGE_MODEL, .min = 1, .max = 1 << 24,
              .help = "Number of rows: samples hold whole numbers from 0 to size - 1."),
    LS_OPTION(embedding_t, units, .change = LS_CHANGE_MODEL, .min = 1, .max = LS_LAYER_UNITS_MAX,
              .help = "Width of a row: a sample [T] becomes [T, units]."),
    LS_OPTION(
        embedding_t, id, .change = LS_CHANGE_MODEL, .min = -1, .max = 1 << 24, .initial = "-1",
        .help = "Row of every position, whatever the sample holds (BERT's token types, where a sample is one "
                "text); -1: the sample's own numbers."),
    LS_OPTION(
        embedding_t, separator, .change = LS_CHANGE_MODEL, .min = -1, .max = 1 << 24, .initial = "-1",
        .help =
            "Token behind which the next row begins (BERT's token types of two texts, with its [SEP], 102): "
            "row id, or 0, up to the first one, at last the last row; -1: there is none."),
    LS_OPTION(embedding_t, init_std, .change = LS_CHANGE_IGNORED, .max = 100, .initial = "0.02",
              .help = "Standard deviation of the initial rows, which are normal; 0: zeros."),
};
static const ls_section_t embedding_section =
    LS_LAYER_SECTION("embedding", embedding_rows,
                     "Learned rows for whole numbers (tokens). It reads the model's input. A dense layer "
                     "may share its weight.");

static int64_t embedding_ids(const void *options) {
  const embedding_t *o = options;
  return o->id < 0 && o->separator < 0 ? o->size : INT64_MAX;
}

static int64_t embedding_separator(const void *options) {
  return ((const embedding_t *)options)->separator;
}

static bool embedding_takes(const void *options, const ls_shape_t *sample, int count,
                            char why[LS_LAYER_WHY_BYTES]) {
  (void)count;
  const embedding_t *o = options;
  if (o->id >= o->size)
    snprintf(why, LS_LAYER_WHY_BYTES, "id %lld is no row of %lld", (long long)o->id, (long long)o->size);
  else if (o->separator >= 0)
    snprintf(why, LS_LAYER_WHY_BYTES, "separator: a sample [T] is needed");
  else
    snprintf(why, LS_LAYER_WHY_BYTES, "a sample of at most %d dimensions is needed", LS_DIMS_MAX - 2);
  return o->id < o->size && sample->rank <= (o->separator < 0 ? LS_DIMS_MAX - 2 : 1);
}

static ls_shape_t embedding_shape(const void *options, const ls_shape_t *sample, int count) {
  (void)count;
  const embedding_t *o = options;
  ls_shape_t shape = *sample;
  shape.dim[shape.rank++] = o->units;
  return shape;
}

static int embedding_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  (void)sample;
  const embedding_t *o = options;
  param[0] =
      (ls_layer_param_t){"weight",
                         LS_SHAPE(LS_F32, o->size, o->units),
                         {.kind = o->init_std > 0 ? LS_INIT_NORMAL : LS_INIT_ZEROS, .gain = o->init_std}};
  return 1;
}

static ls_tensor_id_t embedding_build(ls_layer_builder_t *b, const void *options) {
  const embedding_t *o = options;
  ls_tensor_id_t in[] = {b->in[0], b->param[0]};
  if (o->separator >= 0) {
    const ls_attrs_t rows = {.i = {o->separator, o->id < 0 ? 0 : o->id, o->size - 1}};
    in[0] = ls_graph_op(b->graph, &ls_op_segments, &rows, 1, in, NULL);
  } else if (o->id >= 0) {
    const ls_attrs_t same = {.i = {b->rows * ls_shape_count(b->sample)}, .f = {(double)o->id}};
    in[0] = ls_layer_as(b, ls_graph_op(b->graph, &ls_op_fill, &same, 0, NULL, NULL), b->sample);
  }
  return ls_graph_op(b->graph, &ls_op_embedding, NULL, 2, in, NULL);
}

const ls_layer_kind_t ls_kind_embedding = {.section = &embedding_section,
                                           .name = "embedding",
                                           .ids = embedding_ids,
                                           .separator = embedding_separator,
                                           .params = embedding_params,
                                           .takes = embedding_takes,
                                           .shape = embedding_shape,
                                           .build = embedding_build};

/* positions */
typedef struct {
  ls_layer_common_t common;
  int64_t size;
  double init_std;
  int kind;
} positions_t;
LS_LAYER_FITS(positions_t);

static const char *const position_names[] = {"learned", "sinusoidal", NULL};
enum { LEARNED, SINUSOIDAL };

static const ls_option_t positions_rows[] = {
    LS_OPTION(
        positions_t, kind, .change = LS_CHANGE_MODEL, .initial = "learned", .choices = position_names,
        .help = "learned: rows that are trained. sinusoidal: sines and cosines of wave lengths from 2 pi to "
                "10000 * 2 pi (Vaswani et al. 2017)."),
    LS_OPTION(positions_t, size, .change = LS_CHANGE_MODEL, .min = 0, .max = 1 << 24, .initial = "0",
              .help = "Number of rows, of which a sequence [T, F] takes the first T; 0: T."),
    LS_OPTION(positions_t, init_std, .change = LS_CHANGE_IGNORED, .max = 100, .initial = "0.02",
              .help =
                  "Standard deviation of the initial rows of learned positions, which are normal; 0: zeros."),
};
static const ls_section_t positions_section =
    LS_LAYER_SECTION("positions", positions_rows, "Adds a row to each place of a sequence.");

static bool positions_takes(const void *options, const ls_shape_t *sample, int count,
                            char why[LS_LAYER_WHY_BYTES]) {
  (void)count;
  const positions_t *o = options;
  bool sequence = sample->rank == 2, fits = o->size == 0 || (sequence && sample->dim[0] <= o->size);
  if (!sequence)
    snprintf(why, LS_LAYER_WHY_BYTES, "a sequence [T, F] is needed");
  else
    snprintf(why, LS_LAYER_WHY_BYTES, "size %lld is less than the sequence's %lld places", (long long)o->size,
             (long long)sample->dim[0]);
  return sequence && fits;
}

static int positions_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  const positions_t *o = options;
  bool learned = o->kind == LEARNED;
  param[0] = (ls_layer_param_t){
      .name = "weight",
      .shape = LS_SHAPE(LS_F32, o->size ? o->size : sample->dim[0], sample->dim[1]),
      .init = {.kind = learned ? (o->init_std > 0 ? LS_INIT_NORMAL : LS_INIT_ZEROS) : LS_INIT_SINUSOIDS,
               .gain = o->init_std},
      .state = !learned};
  return 1;
}

static ls_tensor_id_t positions_build(ls_layer_builder_t *b, const void *options) {
  const positions_t *o = options;
  int64_t t = b->sample->dim[0], width = b->sample->dim[1];
  ls_tensor_id_t table = b->param[0];
  if (o->size > t) { /* the first rows, as columns of all in one row */
    const ls_attrs_t whole = {.i = {2, 1, o->size * width}}, first = {.i = {0, t * width}},
                     rows = {.i = {2, t, width}};
    table = ls_graph_op(b->graph, &ls_op_reshape, &whole, 1, &table, NULL);
    table = ls_graph_op(b->graph, &ls_op_columns, &first, 1, &table, NULL);
    table = ls_graph_op(b->graph, &ls_op_reshape, &rows, 1, &table, NULL);
  }
  return ls_graph_op(b->graph, &ls_op_bias, NULL, 2, (ls_tensor_id_t[]){b->in[0], table}, NULL);
}

const ls_layer_kind_t ls_kind_positions = {.section = &positions_section,
                                           .name = "positions",
                                           .params = positions_params,
                                           .takes = positions_takes,
                                           .shape = ls_layer_same_shape,
                                           .build = positions_build};
