/* The graph of one sample becomes a list of ONNX nodes: a row for each op. Sources: onnx.proto and "Operators" of
 * onnx 1.12 (opset 17). */
#include "model/onnx.h"

#include "graph/ops/ops.h"
#include "model/names.h"
#include "model/proto.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Fields of the messages. */
enum {
  MODEL_IR = 1,
  MODEL_PRODUCER = 2,
  MODEL_GRAPH = 7,
  MODEL_OPSET = 8,
  OPSET_DOMAIN = 1,
  OPSET_VERSION = 2
};
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, ELEM_FLOAT = 1, ELEM_INT64 = 7 };
enum { IR_VERSION = 8, OPSET = 17, INPUTS_MAX = 8, ROWS = 1 };
static const size_t file_max = ((size_t)1 << 31) - 1;

typedef struct {
  ls_ctx_t *ctx;
  ls_arena_t arena;
  const ls_graph_t *graph;
  const ls_onnx_source_t *source;
  ls_proto_t out, inits, node, inner; /* of the graph; of its initializers; being written */
  const char **name;                  /* per tensor; NULL: has none yet */
  const char **made;                  /* names of initializers */
  int made_count, made_capacity, temps;
  ls_status_t status;
} onnx_t;

/* ---- names ---- */

static const char *named(onnx_t *o, const char *fmt, ...) LS_PRINTF(2, 3);
static const char *named(onnx_t *o, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  const char *name = ls_arena_strdup(&o->arena, text);
  if (!name) o->status = LS_ERR_MEMORY;
  return name ? name : "";
}

static const char *temp(onnx_t *o) {
  return named(o, "t%d", o->temps++);
}

/* ---- initializers ---- */

/* Whether this is the first of that name. */
static bool is_new(onnx_t *o, const char *name) {
  for (int i = 0; i < o->made_count; i++)
    if (!strcmp(o->made[i], name)) return false;
  if (o->made_count == o->made_capacity) {
    int capacity = o->made_capacity ? 2 * o->made_capacity : 64;
    const char **grown = ls_realloc_array(o->ctx, o->made, (size_t)capacity, sizeof *grown);
    if (!grown) {
      o->status = LS_ERR_MEMORY;
      return false;
    }
    o->made = grown;
    o->made_capacity = capacity;
  }
  o->made[o->made_count++] = name;
  return true;
}

static const char *initializer(onnx_t *o, const char *name, int type, int rank, const int64_t *dim,
                               const void *data, size_t each) {
  size_t count = 1;
  for (int i = 0; i < rank; i++)
    count *= (size_t)dim[i];
  if (o->status != LS_OK || !is_new(o, name)) return name;
  if (count * each > file_max - o->inits.used) {
    o->status = ls_fail(o->ctx, LS_ERR_UNSUPPORTED, "the network is larger than the 2 GiB of an ONNX file");
    return name;
  }
  for (int i = 0; i < rank; i++)
    ls_proto_int(&o->inner, TENSOR_DIMS, dim[i]);
  ls_proto_int(&o->inner, TENSOR_TYPE, type);
  ls_proto_text(&o->inner, TENSOR_NAME, name);
  ls_proto_bytes(&o->inner, TENSOR_RAW, data, count * each);
  ls_proto_put(&o->inits, GRAPH_INITIALIZER, &o->inner);
  return name;
}

static const char *floats(onnx_t *o, const char *name, const ls_shape_t *shape, const float *data) {
  return initializer(o, name, ELEM_FLOAT, shape->rank, shape->dim, data, sizeof *data);
}

static const char *scalar(onnx_t *o, double value) {
  const float v = (float)value;
  return initializer(o, named(o, "c %.9g", (double)v), ELEM_FLOAT, 0, NULL, &v, sizeof v);
}

static const char *whole(onnx_t *o, int count, const int64_t *value) {
  const int64_t dim = count;
  return initializer(o, named(o, "i%d", o->temps++), ELEM_INT64, 1, &dim, value, sizeof *value);
}

static const ls_graph_tensor_t *tensor(const onnx_t *o, const ls_graph_node_t *n, int in) {
  return &o->graph->tensors[n->in[in]];
}

static const float *param_data(onnx_t *o, const ls_graph_tensor_t *t) {
  const float *data = o->source->param(o->source->user, t->name);
  if (!data && o->status == LS_OK)
    o->status = ls_fail(o->ctx, LS_ERR_INTERNAL, "the model has no tensor \"%s\"", t->name);
  return data;
}

/* The name of a node's input. Parameters become initializers when they are first read. */
static const char *in_name(onnx_t *o, const ls_graph_node_t *n, int in) {
  const ls_graph_tensor_t *t = tensor(o, n, in);
  const char **name = &o->name[n->in[in]];
  if (*name) return *name;
  *name = t->name;
  if (t->role == LS_ROLE_PARAM || t->role == LS_ROLE_STATE) {
    const float *data = param_data(o, t);
    if (data) floats(o, t->name, &t->shape, data);
  }
  return *name;
}

/* A parameter in another layout. */
static const char *in_layout(onnx_t *o, const ls_graph_node_t *n, int in, ls_weight_layout_t layout) {
  const ls_graph_tensor_t *t = tensor(o, n, in);
  const ls_shape_t shape = ls_weight_shape(layout, &t->shape);
  const float *data = param_data(o, t);
  float *copy = ls_alloc_array(o->ctx, (size_t)ls_shape_count(&shape), sizeof *copy);
  const char *name = named(o, "%s other", t->name);
  if (!copy) o->status = LS_ERR_MEMORY;
  if (copy && data) {
    ls_weight_copy(layout, &t->shape, false, data, copy);
    floats(o, name, &shape, copy);
  }
  ls_free(copy);
  return name;
}

/* ---- nodes ---- */

static void attribute(onnx_t *o, const char *name, int type) {
  ls_proto_text(&o->inner, ATTR_NAME, name);
  ls_proto_int(&o->inner, ATTR_TYPE, type);
}
static void attr_int(onnx_t *o, const char *name, int64_t value) {
  attribute(o, name, TYPE_INT);
  ls_proto_int(&o->inner, ATTR_I, value);
  ls_proto_put(&o->node, NODE_ATTRIBUTE, &o->inner);
}
static void attr_float(onnx_t *o, const char *name, double value) {
  attribute(o, name, TYPE_FLOAT);
  ls_proto_float(&o->inner, ATTR_F, (float)value);
  ls_proto_put(&o->node, NODE_ATTRIBUTE, &o->inner);
}
static void attr_text(onnx_t *o, const char *name, const char *value) {
  attribute(o, name, TYPE_STRING);
  ls_proto_text(&o->inner, ATTR_S, value);
  ls_proto_put(&o->node, NODE_ATTRIBUTE, &o->inner);
}
static void attr_ints(onnx_t *o, const char *name, int count, const int64_t *value) {
  attribute(o, name, TYPE_INTS);
  for (int i = 0; i < count; i++)
    ls_proto_int(&o->inner, ATTR_INTS, value[i]);
  ls_proto_put(&o->node, NODE_ATTRIBUTE, &o->inner);
}

/* op(in..) -> out. Attributes were written before. An input "" is left out. */
static const char *put_node(onnx_t *o, const char *op, int count, const char *const *in, const char *out) {
  for (int i = 0; i < count; i++)
    ls_proto_text(&o->node, NODE_INPUT, in[i]);
  ls_proto_text(&o->node, NODE_OUTPUT, out);
  ls_proto_text(&o->node, NODE_NAME, out);
  ls_proto_text(&o->node, NODE_OP, op);
  ls_proto_put(&o->out, GRAPH_NODE, &o->node);
  return out;
}
static const char *op1(onnx_t *o, const char *op, const char *a, const char *out) {
  return put_node(o, op, 1, &a, out);
}
static const char *op2(onnx_t *o, const char *op, const char *a, const char *b, const char *out) {
  return put_node(o, op, 2, (const char *const[]){a, b}, out);
}

static const char *transpose(onnx_t *o, const char *in, int rank, const int64_t *order, const char *out) {
  attr_ints(o, "perm", rank, order);
  return op1(o, "Transpose", in, out);
}
static const char *reshape(onnx_t *o, const char *in, int rank, const int64_t *dim, const char *out) {
  return op2(o, "Reshape", in, whole(o, rank, dim), out);
}

/* ---- ops ---- */

typedef void (*emit_fn)(onnx_t *o, const ls_graph_node_t *n, const char *out);

static void emit_linear(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  if (tensor(o, n, 0)->shape.rank == 2) {
    attr_int(o, "transB", 1);
    put_node(o, "Gemm", 3, (const char *const[]){in_name(o, n, 0), in_name(o, n, 1), in_name(o, n, 2)}, out);
    return;
  }
  const char *product = op2(o, "MatMul", in_name(o, n, 0), in_layout(o, n, 1, LS_WEIGHT_SWAPPED), temp(o));
  op2(o, "Add", product, in_name(o, n, 2), out);
}

#define EMIT1(function, op)                                                                                  \
  static void function(onnx_t *o, const ls_graph_node_t *n, const char *out) {                               \
    op1(o, op, in_name(o, n, 0), out);                                                                       \
  }
#define EMIT2(function, op)                                                                                  \
  static void function(onnx_t *o, const ls_graph_node_t *n, const char *out) {                               \
    op2(o, op, in_name(o, n, 0), in_name(o, n, 1), out);                                                     \
  }
EMIT1(emit_relu, "Relu")
EMIT1(emit_tanh, "Tanh")
EMIT1(emit_sigmoid, "Sigmoid")
EMIT1(emit_copy, "Identity")
EMIT2(emit_add, "Add")
EMIT2(emit_mul, "Mul")

/* x / 2 (1 + f) */
static void half_x_1_plus(onnx_t *o, const char *x, const char *f, const char *out) {
  const char *half = op2(o, "Mul", x, scalar(o, 0.5), temp(o));
  op2(o, "Mul", half, op2(o, "Add", f, scalar(o, 1), temp(o)), out);
}

static void emit_gelu(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const char *x = in_name(o, n, 0), *scaled = op2(o, "Mul", x, scalar(o, sqrt(0.5)), temp(o));
  half_x_1_plus(o, x, op1(o, "Erf", scaled, temp(o)), out);
}

/* tanh(sqrt(2 / pi) (x + 0.044715 x^3)) */
static void emit_gelu_tanh(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const char *x = in_name(o, n, 0), *square = op2(o, "Mul", x, x, temp(o));
  const char *cube = op2(o, "Mul", op2(o, "Mul", square, x, temp(o)), scalar(o, 0.044715), temp(o));
  const char *sum = op2(o, "Mul", op2(o, "Add", x, cube, temp(o)), scalar(o, sqrt(2 / acos(-1))), temp(o));
  half_x_1_plus(o, x, op1(o, "Tanh", sum, temp(o)), out);
}

static void emit_silu(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const char *x = in_name(o, n, 0);
  op2(o, "Mul", x, op1(o, "Sigmoid", x, temp(o)), out);
}

static void emit_layer_norm(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  attr_int(o, "axis", -1);
  attr_float(o, "epsilon", n->attrs.f[0]);
  put_node(o, "LayerNormalization", 3,
           (const char *const[]){in_name(o, n, 0), in_name(o, n, 1), in_name(o, n, 2)}, out);
}

static void emit_softmax(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  attr_int(o, "axis", -1);
  op1(o, "Softmax", in_name(o, n, 0), out);
}

/* The first dimension grows with the samples. */
static void emit_reshape(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  int64_t dim[LS_DIMS_MAX];
  int rank = (int)n->attrs.i[0];
  for (int i = 0; i < rank; i++)
    dim[i] = i == 0 ? -1 : n->attrs.i[1 + i];
  reshape(o, in_name(o, n, 0), rank, dim, out);
}

static void emit_concat(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  attr_int(o, "axis", -1);
  op2(o, "Concat", in_name(o, n, 0), in_name(o, n, 1), out);
}

static void emit_columns(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const int64_t begin = n->attrs.i[0], end = begin + n->attrs.i[1], last = -1;
  put_node(
      o, "Slice", 4,
      (const char *const[]){in_name(o, n, 0), whole(o, 1, &begin), whole(o, 1, &end), whole(o, 1, &last)},
      out);
}

static void emit_fill(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const ls_shape_t shape = LS_SHAPE(LS_F32, n->attrs.i[0]);
  float *values = ls_alloc_array(o->ctx, (size_t)shape.dim[0], sizeof *values);
  if (!values) o->status = LS_ERR_MEMORY;
  for (int64_t i = 0; values && i < shape.dim[0]; i++)
    values[i] = (float)n->attrs.f[0];
  if (values) floats(o, out, &shape, values);
  ls_free(values);
}

static void reduce(onnx_t *o, const char *in, int rank, int trailing, bool mean, const char *out) {
  int64_t axes[LS_DIMS_MAX];
  for (int i = 0; i < trailing; i++)
    axes[i] = rank - trailing + i;
  attr_int(o, "keepdims", 0);
  if (mean) attr_ints(o, "axes", trailing, axes);
  if (mean)
    op1(o, "ReduceMean", in, out);
  else
    op2(o, "ReduceSum", in, whole(o, trailing, axes), out);
}

static void emit_reduce(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  reduce(o, in_name(o, n, 0), tensor(o, n, 0)->shape.rank, (int)n->attrs.i[0], n->attrs.i[1] == 1, out);
}

static void emit_mean_positions(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const int64_t axis = 1;
  attr_int(o, "keepdims", 0);
  attr_ints(o, "axes", 1, &axis);
  op1(o, "ReduceMean", in_name(o, n, 0), out);
}

static void emit_take_position(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  attr_int(o, "axis", 1);
  const char *index = initializer(o, temp(o), ELEM_INT64, 0, NULL, &n->attrs.i[0], sizeof(int64_t));
  op2(o, "Gather", in_name(o, n, 0), index, out);
}

static void emit_embedding(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  attr_int(o, "to", ELEM_INT64);
  const char *ids = op1(o, "Cast", in_name(o, n, 0), temp(o));
  op2(o, "Gather", in_name(o, n, 1), ids, out);
}

/* Images have their channels last here, first there. */
static const int64_t to_first[] = {0, 3, 1, 2}, to_last[] = {0, 2, 3, 1};

static void emit_conv2d(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const int64_t *i = n->attrs.i;
  const char *x = transpose(o, in_name(o, n, 0), 4, to_first, temp(o));
  const char *w = in_layout(o, n, 1, LS_WEIGHT_CHANNELS_FIRST);
  attr_ints(o, "strides", 2, i);
  attr_ints(o, "pads", 4, i + 2);
  attr_ints(o, "dilations", 2, i + 6);
  attr_int(o, "group", i[8]);
  transpose(o, op2(o, "Conv", x, w, temp(o)), 4, to_last, out);
}

static void pool(onnx_t *o, const ls_graph_node_t *n, const char *op, const char *out) {
  const int64_t *i = n->attrs.i;
  const char *x = transpose(o, in_name(o, n, 0), 4, to_first, temp(o));
  attr_ints(o, "kernel_shape", 2, i);
  attr_ints(o, "strides", 2, i + 2);
  attr_ints(o, "pads", 4, i + 4);
  if (!strcmp(op, "AveragePool")) attr_int(o, "count_include_pad", i[10]);
  transpose(o, op1(o, op, x, temp(o)), 4, to_last, out);
}
static void emit_max_pool(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  pool(o, n, "MaxPool", out);
}
static void emit_avg_pool(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  pool(o, n, "AveragePool", out);
}

/* Queries see the keys up to their own place. */
static const char *causal_mask(onnx_t *o, int64_t positions) {
  const ls_shape_t shape = LS_SHAPE(LS_F32, positions, positions);
  const char *name = named(o, "causal %lld", (long long)positions);
  float *mask = ls_alloc_array(o->ctx, (size_t)(positions * positions), sizeof *mask);
  if (!mask) o->status = LS_ERR_MEMORY;
  for (int64_t i = 0; mask && i < positions * positions; i++)
    mask[i] = i % positions > i / positions ? -FLT_MAX : 0;
  if (mask) floats(o, name, &shape, mask);
  ls_free(mask);
  return name;
}

static void emit_attention(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  const ls_shape_t *qkv = &tensor(o, n, 0)->shape;
  const int64_t heads = n->attrs.i[0], positions = qkv->dim[1], width = qkv->dim[2] / 3, each = width / heads;
  const int64_t apart[] = {-1, positions, 3 * heads, each}, forward[] = {0, 2, 1, 3},
                keys_last[] = {0, 2, 3, 1};
  const int64_t joined[] = {-1, positions, width}, axis = 2;
  const char *all = reshape(o, in_name(o, n, 0), 4, apart, temp(o)), *part[3];
  for (int64_t i = 0; i < 3; i++) {
    const int64_t begin = i * heads, end = begin + heads;
    part[i] = put_node(o, "Slice", 4,
                       (const char *const[]){all, whole(o, 1, &begin), whole(o, 1, &end), whole(o, 1, &axis)},
                       temp(o));
    part[i] = transpose(o, part[i], 4, i == 1 ? keys_last : forward, temp(o));
  }
  const char *query = op2(o, "Mul", part[0], scalar(o, 1 / sqrt((double)each)), temp(o));
  const char *scores = op2(o, "MatMul", query, part[1], temp(o));
  if (n->attrs.i[1]) scores = op2(o, "Add", scores, causal_mask(o, positions), temp(o));
  attr_int(o, "axis", -1);
  const char *mixed = op2(o, "MatMul", op1(o, "Softmax", scores, temp(o)), part[2], temp(o));
  reshape(o, transpose(o, mixed, 4, forward, temp(o)), 3, joined, out);
}

/* Gate k there is gate order[k] here. The gates of the inputs are known, so they are what the operator gets, and its
 * input weights only put them in order. */
static void recurrent(onnx_t *o, const ls_graph_node_t *n, const char *op, int gates, const int *order,
                      bool bias, const char *out) {
  const ls_shape_t *w = &tensor(o, n, 1)->shape;
  const int64_t h = w->dim[1], all = gates * h;
  const ls_shape_t input = LS_SHAPE(LS_F32, 1, all, all), hidden = LS_SHAPE(LS_F32, 1, all, h),
                   biases = LS_SHAPE(LS_F32, 1, 2 * all);
  const float *own = param_data(o, tensor(o, n, 1)), *b = bias ? param_data(o, tensor(o, n, 2)) : NULL;
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
                joined[] = {-1, tensor(o, n, 0)->shape.dim[1], h};
  const char *x = transpose(o, in_name(o, n, 0), 3, time_first, temp(o));
  const char *in[] = {x, floats(o, temp(o), &input, put), floats(o, temp(o), &hidden, r),
                      floats(o, temp(o), &biases, rb)};
  attr_int(o, "hidden_size", h);
  attr_text(o, "direction", n->attrs.i[0] ? "reverse" : "forward");
  if (bias) attr_int(o, "linear_before_reset", 1);
  const char *y = put_node(o, op, 4, in, temp(o)); /* (t, 1, n, h) */
  reshape(o, transpose(o, y, 4, back, temp(o)), 3, joined, out);
  ls_free(put);
}
static void emit_lstm(onnx_t *o, const ls_graph_node_t *n, const char *out) {
  static const int iofc[] = {0, 3, 1, 2}; /* of i, f, g, o */
  recurrent(o, n, "LSTM", 4, iofc, false, out);
}
static void emit_gru(onnx_t *o, const ls_graph_node_t *n, const char *out) {
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
            {&ls_op_conv2d, emit_conv2d},
            {&ls_op_max_pool, emit_max_pool},
            {&ls_op_avg_pool, emit_avg_pool},
            {&ls_op_attention, emit_attention},
            {&ls_op_lstm_chain, emit_lstm},
            {&ls_op_gru_chain, emit_gru}};

static void emit(onnx_t *o, const ls_graph_node_t *n, const bool *needed) {
  for (int i = 0; i < LS_COUNT(rows); i++) {
    if (rows[i].op != n->op) continue;
    ls_tensor_id_t id = n->out[rows[i].out];
    bool others = false;
    for (int k = 0; k < n->out_count; k++)
      others = others || (needed[n->out[k]] && k != rows[i].out);
    if (others) break;
    o->name[id] = o->name[id] ? o->name[id] : named(o, "v%d", id);
    rows[i].emit(o, n, o->name[id]);
    return;
  }
  o->status =
      ls_fail(o->ctx, LS_ERR_UNSUPPORTED, "\"%s\" has no form in ONNX that this program can write", n->name);
}

/* ---- the whole ---- */

/* What `output` depends on. */
static void mark(const ls_graph_t *g, ls_tensor_id_t output, bool *needed) {
  needed[output] = true;
  for (int i = g->node_count - 1; i >= 0; i--) {
    bool any = false;
    for (int k = 0; k < g->nodes[i].out_count; k++)
      any = any || needed[g->nodes[i].out[k]];
    int reads = g->nodes[i].op == &ls_op_softmax_xent ? 1 : g->nodes[i].in_count; /* no targets */
    for (int k = 0; k < reads && any; k++)
      needed[g->nodes[i].in[k]] = true;
  }
}

static bool is_read(const ls_graph_node_t *n, const bool *needed) {
  bool any = false;
  for (int k = 0; k < n->out_count; k++)
    any = any || needed[n->out[k]];
  return any;
}

/* x (or y) of the data's units. */
static const char *shifted(onnx_t *o, const char *in, const char *what, const ls_shape_t *one,
                           const double *mean, const float *scale, bool back, const char *out) {
  int64_t count = ls_shape_count(one);
  float *shift = ls_alloc_array(o->ctx, (size_t)count, sizeof *shift);
  if (!shift) {
    o->status = LS_ERR_MEMORY;
    return in;
  }
  for (int64_t i = 0; i < count; i++)
    shift[i] = (float)mean[i];
  const char *m = floats(o, named(o, "%s mean", what), one, shift),
             *s = floats(o, named(o, "%s scale", what), one, scale);
  ls_free(shift);
  if (back) return op2(o, "Add", op2(o, "Div", in, s, temp(o)), m, out);
  return op2(o, "Mul", op2(o, "Sub", in, m, temp(o)), s, out);
}

/* {name, type {tensor_type {elem_type, shape {dim ..}}}} */
static void put_value(onnx_t *o, int field, const char *name, const ls_shape_t *one) {
  enum { TYPE = 2, TENSOR_TYPE_ = 1, ELEM = 1, SHAPE = 2, DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };
  ls_proto_t dim = {.ctx = o->ctx}, shape = {.ctx = o->ctx}, type = {.ctx = o->ctx};
  for (int i = -1; i < one->rank; i++) {
    if (i < 0)
      ls_proto_text(&dim, DIM_PARAM, "N");
    else
      ls_proto_int(&dim, DIM_VALUE, one->dim[i]);
    ls_proto_put(&shape, DIM, &dim);
  }
  ls_proto_int(&o->inner, ELEM, ELEM_FLOAT);
  ls_proto_put(&o->inner, SHAPE, &shape);
  ls_proto_put(&type, TENSOR_TYPE_, &o->inner);
  ls_proto_text(&o->node, 1, name);
  ls_proto_put(&o->node, TYPE, &type);
  ls_proto_put(&o->out, field, &o->node);
  ls_proto_release(&dim);
  ls_proto_release(&shape);
  ls_proto_release(&type);
}

static ls_status_t put_graph(onnx_t *o, const ls_model_config_t *model) {
  const ls_graph_t *g = o->graph;
  const ls_onnx_source_t *s = o->source;
  const ls_shape_t x = ls_model_x(model);
  const int64_t positions = ls_model_positions(model), each[] = {-1, positions, ls_model_classes(model)};
  const ls_shape_t y =
      positions ? LS_SHAPE(LS_F32, positions, each[2]) : LS_SHAPE(LS_F32, ls_model_outputs(model));
  ls_tensor_id_t in = ls_graph_find(g, "x"), out = ls_graph_find(g, "output");
  bool *needed = ls_arena_array(&o->arena, (size_t)g->tensor_count, sizeof *needed);
  o->name = ls_arena_array(&o->arena, (size_t)g->tensor_count, sizeof *o->name);
  if (!needed || !o->name) return LS_ERR_MEMORY;
  bool values = model->loss == LS_LOSS_MSE;
  const char *result = values ? "values" : "probabilities";
  mark(g, out, needed);
  ls_proto_text(&o->out, GRAPH_NAME, "lockstep");
  put_value(o, GRAPH_INPUT, "x", &x);
  put_value(o, GRAPH_OUTPUT, result, &y);
  o->name[in] = shifted(o, "x", "x", &x, s->mean, s->scale, false, "x normalised");
  if (!values && !positions) o->name[out] = result;
  for (int i = 0; i < g->node_count && o->status == LS_OK; i++)
    if (is_read(&g->nodes[i], needed)) emit(o, &g->nodes[i], needed);
  if (positions && o->status == LS_OK) reshape(o, o->name[out], 3, each, result);
  if (values && o->status == LS_OK)
    shifted(o, o->name[out], "y", &y, s->target_mean, s->target_scale, true, result);
  return o->status;
}

ls_status_t ls_onnx_make(ls_ctx_t *ctx, const ls_model_config_t *given, const ls_onnx_source_t *source,
                         char **bytes, size_t *size) {
  ls_graph_t *graph;
  ls_model_config_t model = *given;
  model.dtype = LS_F32;
  ls_status_t status = ls_model_build(ctx, &model, ROWS, false, &graph);
  if (status != LS_OK) return status;
  onnx_t o = {.ctx = ctx, .graph = graph, .source = source};
  ls_proto_t whole_file = {.ctx = ctx}, opset = {.ctx = ctx};
  ls_proto_t *parts[] = {&o.out, &o.inits, &o.node, &o.inner};
  for (int i = 0; i < LS_COUNT(parts); i++)
    parts[i]->ctx = ctx;
  ls_arena_init(&o.arena, ctx);
  status = put_graph(&o, &model);
  if (status != LS_OK) goto release;
  ls_proto_int(&whole_file, MODEL_IR, IR_VERSION);
  ls_proto_text(&whole_file, MODEL_PRODUCER, "lockstep");
  ls_proto_text(&opset, OPSET_DOMAIN, "");
  ls_proto_int(&opset, OPSET_VERSION, OPSET);
  ls_proto_put(&whole_file, MODEL_OPSET, &opset);
  ls_proto_join(&o.out, &o.inits); /* both are fields of the graph */
  ls_proto_put(&whole_file, MODEL_GRAPH, &o.out);
  status = whole_file.status;
  if (status == LS_OK && whole_file.used > file_max)
    status = ls_fail(ctx, LS_ERR_UNSUPPORTED, "the network is larger than the 2 GiB of an ONNX file");
  if (status != LS_OK) goto release;
  *bytes = whole_file.bytes;
  *size = whole_file.used;
  whole_file = (ls_proto_t){0};
release:
  ls_proto_release(&whole_file);
  ls_proto_release(&opset);
  for (int i = 0; i < LS_COUNT(parts); i++)
    ls_proto_release(parts[i]);
  ls_free(o.made);
  ls_arena_release(&o.arena);
  ls_graph_destroy(graph);
  return status;
}
