/* add, multiply and concat: several inputs. */
#include "graph/ops/ops.h"
#include "model/layers/kind.h"

#include <stdio.h>

static const ls_section_t add_section = {"model.layers.add", NULL, 0, "Adds several layers of one size.",
                                         &ls_layer_section};

static ls_tensor_id_t add_build(ls_layer_builder_t *b, const void *options) {
  (void)options;
  ls_tensor_id_t y = b->in[0];
  for (int i = 1; i < b->in_count; i++) {
    const ls_tensor_id_t in[] = {y, ls_layer_as(b, b->in[i], b->sample)};
    y = ls_graph_op(b->graph, &ls_op_add, NULL, 2, in, NULL);
  }
  return y;
}

const ls_layer_kind_t ls_kind_add = {.section = &add_section,
                                     .name = "add",
                                     .joins = true,
                                     .alike = true,
                                     .shape = ls_layer_same_shape,
                                     .build = add_build};

static const ls_section_t multiply_section = {"model.layers.multiply", NULL, 0,
                                              "Multiplies several layers, element by element. Behind the "
                                              "first, one of [C] gives a factor for each channel of "
                                              "[H, W, C] or [T, C], at every position.",
                                              &ls_layer_section};

static bool is_factor(const ls_shape_t *x, const ls_shape_t *s) {
  return x->rank > 1 && s->rank == 1 && s->dim[0] == x->dim[x->rank - 1];
}

static bool multiply_takes(const void *options, const ls_shape_t *sample, int count,
                           char why[LS_LAYER_WHY_BYTES]) {
  (void)options;
  bool good = true;
  for (int i = 1; i < count; i++)
    good = good && (ls_shape_equal(&sample[0], &sample[i]) || is_factor(&sample[0], &sample[i]));
  snprintf(why, LS_LAYER_WHY_BYTES,
           "all that is multiplied has the size of the first, or is [C] where that is [.., C]");
  return good;
}

static ls_tensor_id_t multiply_build(ls_layer_builder_t *b, const void *options) {
  (void)options;
  ls_tensor_id_t y = b->in[0];
  for (int i = 1; i < b->in_count; i++) {
    const ls_op_t *op = is_factor(b->sample, &b->sample[i]) ? &ls_op_scale_channels : &ls_op_mul;
    y = ls_graph_op(b->graph, op, NULL, 2, (ls_tensor_id_t[]){y, b->in[i]}, NULL);
  }
  return y;
}

const ls_layer_kind_t ls_kind_multiply = {.section = &multiply_section,
                                          .name = "multiply",
                                          .joins = true,
                                          .takes = multiply_takes,
                                          .shape = ls_layer_same_shape,
                                          .build = multiply_build};

typedef struct {
  ls_layer_common_t common;
  int over;
} concat_t;
LS_LAYER_FITS(concat_t);

static const ls_option_t concat_rows[] = {
    LS_OPTION(concat_t, over, .change = LS_CHANGE_MODEL, .initial = "all", .choices = ls_over_names,
              .help =
                  "What is joined. all: all elements of each layer, as one row. last: the last dimension, "
                  "such as the channels of images, at every position; all other dimensions are equal."),
};
static const ls_section_t concat_section =
    LS_LAYER_SECTION("concat", concat_rows, "Joins the elements of several layers.");

static bool concat_takes(const void *options, const ls_shape_t *sample, int count,
                         char why[LS_LAYER_WHY_BYTES]) {
  const concat_t *o = options;
  bool good = true;
  for (int i = 1; i < count && o->over == LS_OVER_LAST; i++) {
    ls_shape_t alike = sample[i];
    if (alike.rank == sample->rank) alike.dim[alike.rank - 1] = sample->dim[alike.rank - 1];
    good = good && ls_shape_equal(&alike, sample);
  }
  snprintf(why, LS_LAYER_WHY_BYTES, "over: last needs layers that differ in their last dimension alone");
  return good;
}

static ls_shape_t concat_shape(const void *options, const ls_shape_t *sample, int count) {
  const concat_t *o = options;
  ls_shape_t shape = ls_layer_over(o->over, sample);
  for (int i = 1; i < count; i++) {
    const ls_shape_t x = ls_layer_over(o->over, &sample[i]);
    shape.dim[shape.rank - 1] += x.dim[x.rank - 1];
  }
  return shape;
}

/* The shape (rows x positions, last dimension). */
static ls_tensor_id_t concat_build(ls_layer_builder_t *b, const void *options) {
  const concat_t *o = options;
  const ls_shape_t sample = concat_shape(options, b->sample, b->in_count);
  const int64_t positions = ls_shape_count(&sample) / sample.dim[sample.rank - 1];
  ls_tensor_id_t y = -1;
  for (int i = 0; i < b->in_count; i++) {
    const ls_shape_t x = ls_layer_over(o->over, &b->sample[i]);
    const ls_attrs_t rows = {.i = {2, b->rows * positions, x.dim[x.rank - 1]}};
    const ls_tensor_id_t in[] = {y, x.rank == 1
                                        ? ls_layer_as(b, b->in[i], &x)
                                        : ls_graph_op(b->graph, &ls_op_reshape, &rows, 1, &b->in[i], NULL)};
    y = i == 0 ? in[1] : ls_graph_op(b->graph, &ls_op_concat, NULL, 2, in, NULL);
  }
  return ls_layer_as(b, y, &sample);
}

const ls_layer_kind_t ls_kind_concat = {.section = &concat_section,
                                        .name = "concat",
                                        .joins = true,
                                        .takes = concat_takes,
                                        .shape = concat_shape,
                                        .build = concat_build};
