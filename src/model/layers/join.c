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
  ls_tensor_id_t y = -1;
  for (int i = 0; i < b->in_count; i++) {
    const ls_shape_t flat = ls_layer_over(LS_OVER_ALL, &b->sample[i]);
    const ls_tensor_id_t in[] = {y, ls_layer_as(b, b->in[i], &flat)};
    y = i == 0 ? in[1] : ls_graph_op(b->graph, &ls_op_concat, NULL, 2, in, NULL);
  }
  return y;
}

const ls_layer_kind_t ls_kind_concat = {.section = &concat_section,
                                        .name = "concat",
                                        .joins = true,
                                        .shape = concat_shape,
                                        .build = concat_build};
