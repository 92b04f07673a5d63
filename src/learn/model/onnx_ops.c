/* A node of the graph becomes ONNX nodes: a row for each op. Source: "Operators" of onnx 1.12 (opset 17). */
#include "model/onnx_write.h"

#include "graph/ops/ops.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef void (*emit_fn)(ls_onnx_t *o, const ls_graph_node_t *n, const char *out);

static void emit_linear(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  if (ls_onnx_tensor(o, n, 0)->shape.rank == 2) {
    ls_onnx_attr_int(o, "transB", 1);
    ls_onnx_node(o, "Gemm", 3,
                 (const char *const[]){ls_onnx_in(o, n, 0), ls_onnx_in(o, n, 1), ls_onnx_in(o, n, 2)}, out);
    return;
  }
  const char *product = ls_onnx_op2(o, "MatMul", ls_onnx_in(o, n, 0),
                                    ls_onnx_in_layout(o, n, 1, LS_WEIGHT_SWAPPED), ls_onnx_temp(o));
  ls_onnx_op2(o, "Add", product, ls_onnx_in(o, n, 2), out);
}

#define EMIT1(function, op)                                                                                  \
  static void function(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {                            \
    ls_onnx_op1(o, op, ls_onnx_in(o, n, 0), out);                                                            \
  }
#define EMIT2(function, op)                                                                                  \
  static void function(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {                            \
    ls_onnx_op2(o, op, ls_onnx_in(o, n, 0), ls_onnx_in(o, n, 1), out);                                       \
  }
EMIT1(emit_relu, "Relu")
EMIT1(emit_tanh, "Tanh")
EMIT1(emit_sigmoid, "Sigmoid")
EMIT1(emit_copy, "Identity")
EMIT2(emit_add, "Add")
EMIT2(emit_mul, "Mul")

/* x / 2 (1 + f) */
static void half_x_1_plus(ls_onnx_t *o, const char *x, const char *f, const char *out) {
  const char *half = ls_onnx_op2(o, "Mul", x, ls_onnx_scalar(o, 0.5), ls_onnx_temp(o));
  ls_onnx_op2(o, "Mul", half, ls_onnx_op2(o, "Add", f, ls_onnx_scalar(o, 1), ls_onnx_temp(o)), out);
}

static void emit_gelu(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const char *x = ls_onnx_in(o, n, 0),
             *scaled = ls_onnx_op2(o, "Mul", x, ls_onnx_scalar(o, sqrt(0.5)), ls_onnx_temp(o));
  half_x_1_plus(o, x, ls_onnx_op1(o, "Erf", scaled, ls_onnx_temp(o)), out);
}

/* tanh(sqrt(2 / pi) (x + 0.044715 x^3)) */
static void emit_gelu_tanh(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const char *x = ls_onnx_in(o, n, 0), *square = ls_onnx_op2(o, "Mul", x, x, ls_onnx_temp(o));
  const char *cube = ls_onnx_op2(o, "Mul", ls_onnx_op2(o, "Mul", square, x, ls_onnx_temp(o)),
                                 ls_onnx_scalar(o, 0.044715), ls_onnx_temp(o));
  const char *sum = ls_onnx_op2(o, "Mul", ls_onnx_op2(o, "Add", x, cube, ls_onnx_temp(o)),
                                ls_onnx_scalar(o, sqrt(2 / acos(-1))), ls_onnx_temp(o));
  half_x_1_plus(o, x, ls_onnx_op1(o, "Tanh", sum, ls_onnx_temp(o)), out);
}

static void emit_silu(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const char *x = ls_onnx_in(o, n, 0);
  ls_onnx_op2(o, "Mul", x, ls_onnx_op1(o, "Sigmoid", x, ls_onnx_temp(o)), out);
}

static const char *row_means(ls_onnx_t *o, const char *in) {
  const int64_t axis = -1;
  ls_onnx_attr_ints(o, "axes", 1, &axis);
  return ls_onnx_op1(o, "ReduceMean", in, ls_onnx_temp(o));
}

/* onnxruntime takes the variance from the mean of squares, which loses its digits far from 0: the mean is subtracted before. */
static void emit_layer_norm(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const char *x = ls_onnx_in(o, n, 0), *apart = ls_onnx_op2(o, "Sub", x, row_means(o, x), ls_onnx_temp(o));
  ls_onnx_attr_int(o, "axis", -1);
  ls_onnx_attr_float(o, "epsilon", n->attrs.f[0]);
  ls_onnx_node(o, "LayerNormalization", 3,
               (const char *const[]){apart, ls_onnx_in(o, n, 1), ls_onnx_in(o, n, 2)}, out);
}

static void emit_softmax(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  ls_onnx_attr_int(o, "axis", -1);
  ls_onnx_op1(o, "Softmax", ls_onnx_in(o, n, 0), out);
}

/* The first dimension grows with the samples. */
static void emit_reshape(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  int64_t dim[LS_DIMS_MAX];
  int rank = (int)n->attrs.i[0];
  for (int i = 0; i < rank; i++)
    dim[i] = i == 0 ? -1 : n->attrs.i[1 + i];
  ls_onnx_reshape(o, ls_onnx_in(o, n, 0), rank, dim, out);
}

static void emit_concat(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  ls_onnx_attr_int(o, "axis", -1);
  ls_onnx_op2(o, "Concat", ls_onnx_in(o, n, 0), ls_onnx_in(o, n, 1), out);
}

static void emit_columns(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const int64_t begin = n->attrs.i[0], end = begin + n->attrs.i[1], last = -1;
  ls_onnx_node(o, "Slice", 4,
               (const char *const[]){ls_onnx_in(o, n, 0), ls_onnx_ints(o, 1, &begin),
                                     ls_onnx_ints(o, 1, &end), ls_onnx_ints(o, 1, &last)},
               out);
}

static void reduce(ls_onnx_t *o, const char *in, int rank, int trailing, bool mean, const char *out) {
  int64_t axes[LS_DIMS_MAX];
  for (int i = 0; i < trailing; i++)
    axes[i] = rank - trailing + i;
  ls_onnx_attr_int(o, "keepdims", 0);
  if (mean) ls_onnx_attr_ints(o, "axes", trailing, axes);
  if (mean)
    ls_onnx_op1(o, "ReduceMean", in, out);
  else
    ls_onnx_op2(o, "ReduceSum", in, ls_onnx_ints(o, trailing, axes), out);
}

static void emit_reduce(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  reduce(o, ls_onnx_in(o, n, 0), ls_onnx_tensor(o, n, 0)->shape.rank, (int)n->attrs.i[0], n->attrs.i[1] == 1,
         out);
}

static void emit_mean_positions(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const int64_t axis = 1;
  ls_onnx_attr_int(o, "keepdims", 0);
  ls_onnx_attr_ints(o, "axes", 1, &axis);
  ls_onnx_op1(o, "ReduceMean", ls_onnx_in(o, n, 0), out);
}

static void emit_take_position(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  ls_onnx_attr_int(o, "axis", 1);
  const char *index =
      ls_onnx_initializer(o, ls_onnx_temp(o), LS_ONNX_INT64, 0, NULL, &n->attrs.i[0], sizeof(int64_t));
  ls_onnx_op2(o, "Gather", ls_onnx_in(o, n, 0), index, out);
}

static void emit_embedding(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  ls_onnx_attr_int(o, "to", LS_ONNX_INT64);
  const char *ids = ls_onnx_op1(o, "Cast", ls_onnx_in(o, n, 0), ls_onnx_temp(o));
  ls_onnx_op2(o, "Gather", ls_onnx_in(o, n, 1), ids, out);
}

/* 0 .. places - 1, and `shift` to each. */
static const char *places_from(ls_onnx_t *o, int64_t places, int64_t shift) {
  int64_t *place = ls_alloc_array(o->ctx, (size_t)places, sizeof *place);
  if (!place) {
    o->status = LS_ERR_MEMORY;
    return "";
  }
  for (int64_t i = 0; i < places; i++)
    place[i] = i + shift;
  const char *name = ls_onnx_named(o, "places %lld from %lld", (long long)places, (long long)shift);
  ls_onnx_initializer(o, name, LS_ONNX_INT64, 1, &places, place, sizeof *place);
  ls_free(place);
  return name;
}

/* The largest place, counted from 1, whose token is no padding. */
static void emit_lengths(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const int64_t axis = 1;
  ls_onnx_attr_int(o, "to", LS_ONNX_INT64);
  const char *ids = ls_onnx_op1(o, "Cast", ls_onnx_in(o, n, 0), ls_onnx_temp(o));
  const char *same = ls_onnx_op2(o, "Equal", ids, ls_onnx_ints(o, 1, &n->attrs.i[0]), ls_onnx_temp(o));
  const char *other = ls_onnx_op1(o, "Not", same, ls_onnx_temp(o));
  ls_onnx_attr_int(o, "to", LS_ONNX_INT64);
  other = ls_onnx_op1(o, "Cast", other, ls_onnx_temp(o));
  const char *places = places_from(o, ls_onnx_tensor(o, n, 0)->shape.dim[1], 1);
  other = ls_onnx_op2(o, "Mul", other, places, ls_onnx_temp(o));
  ls_onnx_attr_int(o, "keepdims", 0);
  ls_onnx_attr_ints(o, "axes", 1, &axis);
  ls_onnx_op1(o, "ReduceMax", other, out);
}

/* Whether place + shift `op` length, as bool (n, dim[1], ..) of `rank` dimensions. */
static const char *places_where(ls_onnx_t *o, const char *op, const char *lengths, int64_t places,
                                int64_t shift, int rank, const int64_t *dim) {
  const int64_t column[] = {-1, 1};
  const char *length = ls_onnx_reshape(o, lengths, 2, column, ls_onnx_temp(o));
  const char *is = ls_onnx_op2(o, op, places_from(o, places, shift), length, ls_onnx_temp(o));
  return ls_onnx_reshape(o, is, rank, dim, ls_onnx_temp(o));
}

static const char *where(ls_onnx_t *o, const char *is, const char *x, double otherwise, const char *out) {
  return ls_onnx_node(o, "Where", 3, (const char *const[]){is, x, ls_onnx_scalar(o, otherwise)}, out);
}

static void emit_mask_places(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const int64_t places = ls_onnx_tensor(o, n, 0)->shape.dim[1], each[] = {-1, places, 1};
  const char *taken = places_where(o, "Less", ls_onnx_in(o, n, 1), places, 0, 3, each);
  where(o, taken, ls_onnx_in(o, n, 0), n->attrs.f[0], out);
}

/* The sum of the places before the length by their number, at least 1; or of the one that ends there. */
static void emit_pool_valid(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const bool last = n->attrs.i[0] == 1;
  const int64_t axis = 1, places = ls_onnx_tensor(o, n, 0)->shape.dim[1], each[] = {-1, places, 1},
                column[] = {-1, 1};
  const char *lengths = ls_onnx_in(o, n, 1);
  const char *taken = places_where(o, last ? "Equal" : "Less", lengths, places, last, 3, each);
  const char *x = where(o, taken, ls_onnx_in(o, n, 0), 0, ls_onnx_temp(o));
  ls_onnx_attr_int(o, "keepdims", 0);
  const char *sum = ls_onnx_op2(o, "ReduceSum", x, ls_onnx_ints(o, 1, &axis), last ? out : ls_onnx_temp(o));
  if (last) return;
  ls_onnx_attr_int(o, "to", LS_ONNX_FLOAT);
  const char *count = ls_onnx_op1(o, "Cast", lengths, ls_onnx_temp(o));
  count = ls_onnx_op2(o, "Max", count, ls_onnx_scalar(o, 1), ls_onnx_temp(o));
  ls_onnx_op2(o, "Div", sum, ls_onnx_reshape(o, count, 2, column, ls_onnx_temp(o)), out);
}

/* How often the separator stands before a place, from the first row on to the last. */
static void emit_segments(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const int64_t axis = 1;
  ls_onnx_attr_int(o, "to", LS_ONNX_INT64);
  const char *ids = ls_onnx_op1(o, "Cast", ls_onnx_in(o, n, 0), ls_onnx_temp(o));
  const char *same = ls_onnx_op2(o, "Equal", ids, ls_onnx_ints(o, 1, &n->attrs.i[0]), ls_onnx_temp(o));
  ls_onnx_attr_int(o, "to", LS_ONNX_INT64);
  same = ls_onnx_op1(o, "Cast", same, ls_onnx_temp(o));
  ls_onnx_attr_int(o, "exclusive", 1);
  const char *before = ls_onnx_op2(o, "CumSum", same, ls_onnx_ints(o, 1, &axis), ls_onnx_temp(o));
  before = ls_onnx_op2(o, "Add", before, ls_onnx_ints(o, 1, &n->attrs.i[1]), ls_onnx_temp(o));
  ls_onnx_op2(o, "Min", before, ls_onnx_ints(o, 1, &n->attrs.i[2]), out);
}

/* Images have their channels last here, first there. */
static const int64_t to_first[] = {0, 3, 1, 2}, to_last[] = {0, 2, 3, 1};

static void emit_conv2d(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const int64_t *i = n->attrs.i;
  const char *x = ls_onnx_transpose(o, ls_onnx_in(o, n, 0), 4, to_first, ls_onnx_temp(o));
  const char *w = ls_onnx_in_layout(o, n, 1, LS_WEIGHT_CHANNELS_FIRST);
  ls_onnx_attr_ints(o, "strides", 2, i);
  ls_onnx_attr_ints(o, "pads", 4, i + 2);
  ls_onnx_attr_ints(o, "dilations", 2, i + 6);
  ls_onnx_attr_int(o, "group", i[8]);
  ls_onnx_transpose(o, ls_onnx_op2(o, "Conv", x, w, ls_onnx_temp(o)), 4, to_last, out);
}

static void pool(ls_onnx_t *o, const ls_graph_node_t *n, const char *op, const char *out) {
  const int64_t *i = n->attrs.i;
  const char *x = ls_onnx_transpose(o, ls_onnx_in(o, n, 0), 4, to_first, ls_onnx_temp(o));
  ls_onnx_attr_ints(o, "kernel_shape", 2, i);
  ls_onnx_attr_ints(o, "strides", 2, i + 2);
  ls_onnx_attr_ints(o, "pads", 4, i + 4);
  if (!strcmp(op, "AveragePool")) ls_onnx_attr_int(o, "count_include_pad", i[10]);
  ls_onnx_transpose(o, ls_onnx_op1(o, op, x, ls_onnx_temp(o)), 4, to_last, out);
}
static void emit_max_pool(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  pool(o, n, "MaxPool", out);
}
static void emit_avg_pool(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  pool(o, n, "AveragePool", out);
}

/* Batch norm with running statistics: mean, rstd = 1 / sqrt(variance + eps). The operator takes the variance itself, so
 * rsqrt_eps writes nothing. */
static void emit_nothing(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  (void)o, (void)n, (void)out;
}

/* Orders that move the channels, the last of `rank` dimensions, to the place after the samples, and back. */
static void channel_orders(int rank, int64_t *first, int64_t *last) {
  first[0] = last[0] = 0;
  for (int i = 1; i < rank; i++) {
    first[i] = i == 1 ? rank - 1 : i - 1;
    last[i] = i == rank - 1 ? 1 : i + 1;
  }
}

static void emit_bn_apply(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const int rank = ls_onnx_tensor(o, n, 0)->shape.rank;
  const ls_graph_node_t *rstd = &o->graph->nodes[ls_onnx_tensor(o, n, 2)->producer];
  int64_t first[LS_DIMS_MAX], last[LS_DIMS_MAX];
  channel_orders(rank, first, last);
  const char *x = ls_onnx_in(o, n, 0);
  if (rank > 2) x = ls_onnx_transpose(o, x, rank, first, ls_onnx_temp(o));
  const char *in[] = {x, ls_onnx_in(o, n, 3), ls_onnx_in(o, n, 4), ls_onnx_in(o, n, 1),
                      ls_onnx_in(o, rstd, 0)};
  ls_onnx_attr_float(o, "epsilon", rstd->attrs.f[0]);
  const char *y = ls_onnx_node(o, "BatchNormalization", 5, in, rank > 2 ? ls_onnx_temp(o) : out);
  if (rank > 2) ls_onnx_transpose(o, y, rank, last, out);
}

static const char *constants(ls_onnx_t *o, const char *name, int64_t count, float value) {
  const ls_shape_t shape = LS_SHAPE(LS_F32, count);
  float *values = ls_alloc_array(o->ctx, (size_t)count, sizeof *values);
  if (!values) o->status = LS_ERR_MEMORY;
  for (int64_t i = 0; values && i < count; i++)
    values[i] = value;
  if (values) ls_onnx_floats(o, name, &shape, values);
  ls_free(values);
  return name;
}

static void emit_fill(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  constants(o, out, n->attrs.i[0], (float)n->attrs.f[0]);
}

/* All elements of a sample are one row. */
static void emit_group_norm(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const ls_shape_t *x = &ls_onnx_tensor(o, n, 0)->shape;
  const int64_t groups = n->attrs.i[0], rows[] = {-1, groups, ls_shape_count(x) / x->dim[0] / groups};
  int64_t first[LS_DIMS_MAX], last[LS_DIMS_MAX], dim[LS_DIMS_MAX];
  channel_orders(x->rank, first, last);
  for (int i = 0; i < x->rank; i++)
    dim[i] = i == 0 ? -1 : x->dim[first[i]];
  const char *y = ls_onnx_transpose(o, ls_onnx_in(o, n, 0), x->rank, first, ls_onnx_temp(o));
  y = ls_onnx_reshape(o, y, 3, rows, ls_onnx_temp(o));
  const char *apart = ls_onnx_op2(o, "Sub", y, row_means(o, y), ls_onnx_temp(o));
  const char *variance = row_means(o, ls_onnx_op2(o, "Mul", apart, apart, ls_onnx_temp(o)));
  const char *sum = ls_onnx_op2(o, "Add", variance, ls_onnx_scalar(o, n->attrs.f[0]), ls_onnx_temp(o));
  y = ls_onnx_op2(o, "Div", apart, ls_onnx_op1(o, "Sqrt", sum, ls_onnx_temp(o)), ls_onnx_temp(o));
  y = ls_onnx_reshape(o, y, x->rank, dim, ls_onnx_temp(o));
  y = ls_onnx_transpose(o, y, x->rank, last, ls_onnx_temp(o));
  ls_onnx_op2(o, "Add", ls_onnx_op2(o, "Mul", y, ls_onnx_in(o, n, 1), ls_onnx_temp(o)), ls_onnx_in(o, n, 2),
              out);
}

/* A factor for each channel, the last dimension, at all positions between. */
static void emit_scale_channels(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const ls_shape_t *x = &ls_onnx_tensor(o, n, 0)->shape;
  int64_t dim[LS_DIMS_MAX];
  for (int i = 0; i < x->rank; i++)
    dim[i] = i == 0 ? -1 : i == x->rank - 1 ? x->dim[i] : 1;
  const char *s = ls_onnx_reshape(o, ls_onnx_in(o, n, 1), x->rank, dim, ls_onnx_temp(o));
  ls_onnx_op2(o, "Mul", ls_onnx_in(o, n, 0), s, out);
}

/* Queries see the keys up to their own place. */
static const char *causal_mask(ls_onnx_t *o, int64_t positions) {
  const ls_shape_t shape = LS_SHAPE(LS_F32, positions, positions);
  const char *name = ls_onnx_named(o, "causal %lld", (long long)positions);
  float *mask = ls_alloc_array(o->ctx, (size_t)(positions * positions), sizeof *mask);
  if (!mask) o->status = LS_ERR_MEMORY;
  for (int64_t i = 0; mask && i < positions * positions; i++)
    mask[i] = i % positions > i / positions ? -FLT_MAX : 0;
  if (mask) ls_onnx_floats(o, name, &shape, mask);
  ls_free(mask);
  return name;
}

/* With lengths: keys from there on have no weight, and queries there give 0. */
static void emit_attention(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const char *lengths = n->in_count > 2 ? ls_onnx_in(o, n, 2) : NULL;
  const ls_shape_t *qkv = &ls_onnx_tensor(o, n, 0)->shape;
  const int64_t heads = n->attrs.i[0], positions = qkv->dim[1], width = qkv->dim[2] / 3, each = width / heads;
  const int64_t apart[] = {-1, positions, 3 * heads, each}, forward[] = {0, 2, 1, 3},
                keys_last[] = {0, 2, 3, 1};
  const int64_t joined[] = {-1, positions, width}, axis = 2, keys[] = {-1, 1, 1, positions},
                queries[] = {-1, positions, 1};
  const char *all = ls_onnx_reshape(o, ls_onnx_in(o, n, 0), 4, apart, ls_onnx_temp(o)), *part[3];
  for (int64_t i = 0; i < 3; i++) {
    const int64_t begin = i * heads, end = begin + heads;
    part[i] = ls_onnx_node(o, "Slice", 4,
                           (const char *const[]){all, ls_onnx_ints(o, 1, &begin), ls_onnx_ints(o, 1, &end),
                                                 ls_onnx_ints(o, 1, &axis)},
                           ls_onnx_temp(o));
    part[i] = ls_onnx_transpose(o, part[i], 4, i == 1 ? keys_last : forward, ls_onnx_temp(o));
  }
  const char *query =
      ls_onnx_op2(o, "Mul", part[0], ls_onnx_scalar(o, 1 / sqrt((double)each)), ls_onnx_temp(o));
  const char *scores = ls_onnx_op2(o, "MatMul", query, part[1], ls_onnx_temp(o));
  if (n->attrs.i[1]) scores = ls_onnx_op2(o, "Add", scores, causal_mask(o, positions), ls_onnx_temp(o));
  if (lengths)
    scores =
        where(o, places_where(o, "Less", lengths, positions, 0, 4, keys), scores, -FLT_MAX, ls_onnx_temp(o));
  ls_onnx_attr_int(o, "axis", -1);
  const char *mixed =
      ls_onnx_op2(o, "MatMul", ls_onnx_op1(o, "Softmax", scores, ls_onnx_temp(o)), part[2], ls_onnx_temp(o));
  mixed = ls_onnx_transpose(o, mixed, 4, forward, ls_onnx_temp(o));
  mixed = ls_onnx_reshape(o, mixed, 3, joined, lengths ? ls_onnx_temp(o) : out);
  if (lengths) where(o, places_where(o, "Less", lengths, positions, 0, 3, queries), mixed, 0, out);
}

/* Gate k there is gate order[k] here. The gates of the inputs are known, so they are what the operator gets, and its
 * input weights only put them in order. */
static void recurrent(ls_onnx_t *o, const ls_graph_node_t *n, const char *op, int gates, const int *order,
                      bool bias, const char *out) {
  const ls_shape_t *w = &ls_onnx_tensor(o, n, 1)->shape;
  const int64_t h = w->dim[1], all = gates * h;
  const ls_shape_t input = LS_SHAPE(LS_F32, 1, all, all), hidden = LS_SHAPE(LS_F32, 1, all, h),
                   biases = LS_SHAPE(LS_F32, 1, 2 * all);
  const float *own = ls_onnx_param(o, ls_onnx_tensor(o, n, 1)),
              *b = bias ? ls_onnx_param(o, ls_onnx_tensor(o, n, 2)) : NULL;
  float *put = ls_alloc_array(o->ctx, (size_t)(all * all + all * h + 2 * all), sizeof *put);
  if (!put) o->status = LS_ERR_MEMORY;
  if (o->status != LS_OK) {
    ls_free(put);
    return;
  }
  float *r = put + all * all, *rb = r + all * h;
  for (int64_t k = 0; k < all; k++) {
    int64_t from = order[k / h] * h + k % h;
    put[k * all + from] = 1;
    memcpy(r + k * h, own + from * h, (size_t)h * sizeof *r);
  }
  if (bias)
    memcpy(rb + all + 2 * h, b, (size_t)h * sizeof *rb); /* of the last gate, inside of the product with r */
  const int64_t time_first[] = {1, 0, 2}, back[] = {2, 0, 1, 3},
                joined[] = {-1, ls_onnx_tensor(o, n, 0)->shape.dim[1], h};
  const char *x = ls_onnx_transpose(o, ls_onnx_in(o, n, 0), 3, time_first, ls_onnx_temp(o));
  const char *in[] = {x, ls_onnx_floats(o, ls_onnx_temp(o), &input, put),
                      ls_onnx_floats(o, ls_onnx_temp(o), &hidden, r),
                      ls_onnx_floats(o, ls_onnx_temp(o), &biases, rb)};
  ls_onnx_attr_int(o, "hidden_size", h);
  ls_onnx_attr_text(o, "direction", n->attrs.i[0] ? "reverse" : "forward");
  if (bias) ls_onnx_attr_int(o, "linear_before_reset", 1);
  const char *y = ls_onnx_node(o, op, 4, in, ls_onnx_temp(o)); /* (t, 1, n, h) */
  ls_onnx_reshape(o, ls_onnx_transpose(o, y, 4, back, ls_onnx_temp(o)), 3, joined, out);
  ls_free(put);
}
static void emit_lstm(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  static const int iofc[] = {0, 3, 1, 2}; /* of i, f, g, o */
  recurrent(o, n, "LSTM", 4, iofc, false, out);
}
static void emit_gru(ls_onnx_t *o, const ls_graph_node_t *n, const char *out) {
  static const int zrh[] = {1, 0, 2}; /* of r, z, n */
  recurrent(o, n, "GRU", 3, zrh, true, out);
}

static const struct {
  const ls_op_t *op;
  emit_fn emit;
  int out; /* the output that inference reads */
} rows[] = {{&ls_op_linear, emit_linear},
            {&ls_op_relu, emit_relu},
            {&ls_op_gelu, emit_gelu},
            {&ls_op_gelu_tanh, emit_gelu_tanh},
            {&ls_op_silu, emit_silu},
            {&ls_op_tanh, emit_tanh},
            {&ls_op_sigmoid, emit_sigmoid},
            {&ls_op_layer_norm, emit_layer_norm},
            {&ls_op_softmax_xent, emit_softmax, 2},
            {&ls_op_bce, emit_sigmoid, 2},
            {&ls_op_reshape, emit_reshape},
            {&ls_op_copy, emit_copy},
            {&ls_op_add, emit_add},
            {&ls_op_bias, emit_add},
            {&ls_op_mul, emit_mul},
            {&ls_op_concat, emit_concat},
            {&ls_op_columns, emit_columns},
            {&ls_op_fill, emit_fill},
            {&ls_op_reduce, emit_reduce},
            {&ls_op_mean_positions, emit_mean_positions},
            {&ls_op_take_position, emit_take_position},
            {&ls_op_embedding, emit_embedding},
            {&ls_op_segments, emit_segments},
            {&ls_op_lengths, emit_lengths},
            {&ls_op_mask_places, emit_mask_places},
            {&ls_op_pool_valid, emit_pool_valid},
            {&ls_op_conv2d, emit_conv2d},
            {&ls_op_rsqrt_eps, emit_nothing},
            {&ls_op_bn_apply, emit_bn_apply},
            {&ls_op_group_norm, emit_group_norm},
            {&ls_op_scale_channels, emit_scale_channels},
            {&ls_op_max_pool, emit_max_pool},
            {&ls_op_avg_pool, emit_avg_pool},
            {&ls_op_attention, emit_attention},
            {&ls_op_attention_padded, emit_attention},
            {&ls_op_lstm_chain, emit_lstm},
            {&ls_op_gru_chain, emit_gru}};

void ls_onnx_emit(ls_onnx_t *o, const ls_graph_node_t *n, const bool *needed) {
  for (int i = 0; i < LS_COUNT(rows); i++) {
    if (rows[i].op != n->op) continue;
    ls_tensor_id_t id = n->out[rows[i].out];
    bool others = false;
    for (int k = 0; k < n->out_count; k++)
      others = others || (needed[n->out[k]] && k != rows[i].out);
    if (others) break;
    o->name[id] = o->name[id] ? o->name[id] : ls_onnx_named(o, "v%d", id);
    rows[i].emit(o, n, o->name[id]);
    return;
  }
  o->status =
      ls_fail(o->ctx, LS_ERR_UNSUPPORTED, "\"%s\" has no form in ONNX that this program can write", n->name);
}
