/* Ops that move numbers or combine them elementwise: add, mul, reshape, fill, accumulate, copy. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <string.h>

static ls_status_t pair_shape(ls_ctx_t *ctx, const char *op, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, op, "a", &in[0], LS_F32, 1, 0))) return status;
  if ((status = ls_rule_equal(ctx, op, "a", &in[0], "b", &in[1]))) return status;
  out[0] = in[0];
  return LS_OK;
}

static ls_status_t add_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  return pair_shape(ctx, "add", in, out);
}

static ls_status_t mul_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  return pair_shape(ctx, "mul", in, out);
}

LS_ZIP(add_forward, a + b)
LS_ZIP(mul_forward, (a * b))

static ls_status_t add_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                const ls_tensor_id_t *grad_out, const bool *wanted, ls_tensor_id_t *grad_in) {
  (void)node;
  (void)wanted;
  grad_in[0] = grad_in[1] = grad_out[0];
  return graph->status;
}

static ls_status_t mul_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                const ls_tensor_id_t *grad_out, const bool *wanted, ls_tensor_id_t *grad_in) {
  for (int i = 0; i < 2; i++) {
    ls_tensor_id_t in[] = {grad_out[0], node->in[1 - i]};
    if (wanted[i]) grad_in[i] = ls_graph_op(graph, &ls_op_mul, NULL, 2, in, NULL);
  }
  return graph->status;
}

/* i[0] rank, i[1..] dimensions. */
static ls_status_t reshape_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  const ls_shape_t *x = &in[0];
  ls_status_t status = ls_rule_tensor(ctx, "reshape", "x", x, x->dtype, 1, 0);
  if (status) return status;
  ls_shape_t shape = {.dtype = x->dtype, .rank = (int)attrs->i[0]};
  char from[LS_SHAPE_TEXT_BYTES], to[LS_SHAPE_TEXT_BYTES];
  if (attrs->i[0] < 1 || attrs->i[0] > LS_DIMS_MAX)
    return ls_fail(ctx, LS_ERR_SHAPE, "reshape: x %s cannot get %lld dimensions, 1 to %d are possible",
                   ls_shape_text(x, from), (long long)attrs->i[0], LS_DIMS_MAX);
  int64_t left = ls_shape_count(x); /* dividing avoids the overflow of a product */
  bool fits = true;
  for (int k = 0; k < shape.rank; k++) {
    shape.dim[k] = attrs->i[k + 1];
    if (shape.dim[k] < 1 || left % shape.dim[k] != 0)
      fits = false;
    else
      left /= shape.dim[k];
  }
  if (!fits || left != 1)
    return ls_fail(ctx, LS_ERR_SHAPE, "reshape: x %s does not have the elements of %s",
                   ls_shape_text(x, from), ls_shape_text(&shape, to));
  out[0] = shape;
  return LS_OK;
}

/* Copies the bytes, unless input and output are the same memory, as they are if the caller honours views. */
static ls_status_t copy_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  if (args->out[0].data != args->in[0].data)
    memcpy(args->out[0].data, args->in[0].data, ls_shape_bytes(ls_in_shape(args, 0)));
  return LS_OK;
}

static ls_status_t reshape_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                    const ls_tensor_id_t *grad_out, const bool *wanted,
                                    ls_tensor_id_t *grad_in) {
  (void)wanted;
  const ls_shape_t *x = &graph->tensors[node->in[0]].shape;
  ls_attrs_t attrs = {.i = {x->rank}};
  memcpy(attrs.i + 1, x->dim, sizeof x->dim);
  grad_in[0] = ls_graph_op(graph, &ls_op_reshape, &attrs, 1, grad_out, NULL);
  return graph->status;
}

/* i[0] elements, f[0] value */
static ls_status_t fill_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)in;
  if (attrs->i[0] < 1)
    return ls_fail(ctx, LS_ERR_SHAPE, "fill: %lld elements, must be at least 1", (long long)attrs->i[0]);
  out[0] = LS_SHAPE(LS_F32, attrs->i[0]);
  return LS_OK;
}

static ls_status_t fill_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  float *y = ls_out_f32(args, 0);
  for (int64_t k = 0; k < args->attrs->i[0]; k++)
    y[k] = (float)args->attrs->f[0];
  return LS_OK;
}

static ls_status_t same_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = ls_rule_tensor(ctx, "copy or accumulate", "x", &in[0], LS_F32, 1, 0);
  if (!status) out[0] = in[0];
  return status;
}

static ls_status_t accumulate_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  float *acc = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++)
    acc[k] += x[k];
  return LS_OK;
}

static ls_status_t copy_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  (void)node;
  (void)wanted;
  grad_in[0] = grad_out[0];
  return graph->status;
}

static int64_t no_bytes(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)in;
  (void)out;
  return 0;
}

const ls_op_t ls_op_add = {LS_OP("add", LS_OP_ELEMENTWISE, 2, 1, add_shape, add_forward),
                           .backward = add_backward,
                           .flops_each = 1,
                           .inplace = 3,
                           .low_in = 3,
                           .low_out = 1};

const ls_op_t ls_op_mul = {LS_OP("mul", LS_OP_ELEMENTWISE, 2, 1, mul_shape, mul_forward),
                           .backward = mul_backward,
                           .flops_each = 1,
                           .inplace = 3,
                           .low_in = 3,
                           .low_out = 1};

const ls_op_t ls_op_reshape = {LS_OP("reshape", LS_OP_ELEMENTWISE, 1, 1, reshape_shape, copy_forward),
                               .backward = reshape_backward,
                               .bytes = no_bytes,
                               .view = true,
                               .low_in = 1,
                               .low_out = 1};

const ls_op_t ls_op_fill = {LS_OP("fill", LS_OP_ELEMENTWISE, 0, 1, fill_shape, fill_forward)};

const ls_op_t ls_op_accumulate = {
    LS_OP("accumulate", LS_OP_ELEMENTWISE, 1, 1, same_shape, accumulate_forward), .flops_each = 1,
    .inout = 1};

const ls_op_t ls_op_copy = {LS_OP("copy", LS_OP_ELEMENTWISE, 1, 1, same_shape, copy_forward),
                            .backward = copy_backward, .low_in = 1, .low_out = 1};
