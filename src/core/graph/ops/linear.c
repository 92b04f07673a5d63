/* The linear layer: y = x w^T + b, and its two gradients as ops of their own, so that weights' gradients can
 * be ready (and travel) before the input's gradient is. No attributes. Sums are in f64. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>
#include <string.h>

static ls_status_t linear_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)attrs;
  const ls_shape_t *x = &in[0], *w = &in[1];
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "linear", "x", x, LS_F32, 2, 0))) return status;
  if ((status = ls_rule_tensor(ctx, "linear", "w", w, LS_F32, 2, 2))) return status;
  if (x->dim[x->rank - 1] != w->dim[1]) {
    char tx[LS_SHAPE_TEXT_BYTES], tw[LS_SHAPE_TEXT_BYTES];
    return ls_fail(ctx, LS_ERR_SHAPE, "linear: x %s and w %s must have the same last dimension",
                   ls_shape_text(x, tx), ls_shape_text(w, tw));
  }
  if ((status = ls_rule_vector(ctx, "linear", "b", &in[2], w->dim[0]))) return status;
  out[0] = *x;
  out[0].dim[x->rank - 1] = w->dim[0];
  return LS_OK;
}

static ls_status_t linear_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *w = ls_in_f32(args, 1), *b = ls_in_f32(args, 2);
  float *y = ls_out_f32(args, 0);
  int64_t outputs = ls_in_shape(args, 1)->dim[0], inputs = ls_in_shape(args, 1)->dim[1];
  int64_t rows = ls_shape_count(ls_in_shape(args, 0)) / inputs;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t o = 0; o < outputs; o++) {
      double sum = b[o];
      for (int64_t i = 0; i < inputs; i++)
        sum += (double)x[r * inputs + i] * w[o * inputs + i];
      y[r * outputs + o] = (float)sum;
    }
  return LS_OK;
}

static int64_t linear_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return 2 * ls_shape_count(&in[0]) * in[1].dim[0];
}

static ls_status_t linear_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                   const ls_tensor_id_t *grad_out, const bool *wanted,
                                   ls_tensor_id_t *grad_in) {
  ls_tensor_id_t x = node->in[0], w = node->in[1], dy = grad_out[0];
  if (wanted[1] || wanted[2]) { /* first, so that parameters' gradients can be exchanged while dx is
                                 * computed */
    ls_tensor_id_t dwb[2] = {-1, -1};
    ls_graph_op(graph, wanted[2] ? &ls_op_linear_dwb : &ls_op_linear_dw, NULL, 2, (ls_tensor_id_t[]){dy, x},
                dwb);
    grad_in[1] = dwb[0];
    grad_in[2] = dwb[1];
  }
  if (wanted[0]) grad_in[0] = ls_graph_op(graph, &ls_op_linear_dx, NULL, 2, (ls_tensor_id_t[]){dy, w}, NULL);
  return graph->status;
}

/* A NaN stays a NaN, as in relu. */
static ls_status_t linear_relu_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  float *y = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(&args->out[0].shape);
  ls_status_t status = linear_forward(stream, args);
  for (int64_t k = 0; k < count; k++)
    y[k] = y[k] < 0 ? 0 : y[k];
  return status;
}

static ls_status_t linear_relu_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                        const ls_tensor_id_t *grad_out, const bool *wanted,
                                        ls_tensor_id_t *grad_in) {
  const ls_tensor_id_t in[] = {grad_out[0], node->out[0]};
  ls_tensor_id_t dy = ls_graph_op(graph, &ls_op_relu_dy, NULL, 2, in, NULL);
  return dy < 0 ? graph->status : linear_backward(graph, node, &dy, wanted, grad_in);
}

static int64_t linear_relu_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  return linear_flops(attrs, in, out) + ls_shape_count(&in[0]) / in[1].dim[1] * in[1].dim[0];
}

static ls_status_t dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  const ls_shape_t *dy = &in[0], *w = &in[1];
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "linear_dx", "dy", dy, LS_F32, 2, 0))) return status;
  if ((status = ls_rule_tensor(ctx, "linear_dx", "w", w, LS_F32, 2, 2))) return status;
  if (dy->dim[dy->rank - 1] != w->dim[0]) {
    char td[LS_SHAPE_TEXT_BYTES], tw[LS_SHAPE_TEXT_BYTES];
    return ls_fail(ctx, LS_ERR_SHAPE, "linear_dx: dy's last dimension %s must be w's first %s",
                   ls_shape_text(dy, td), ls_shape_text(w, tw));
  }
  out[0] = *dy;
  out[0].dim[dy->rank - 1] = w->dim[1];
  return LS_OK;
}

/* dx = dy w. One row is summed in scratch, f64 (i). */
static ls_status_t dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *w = ls_in_f32(args, 1);
  float *dx = ls_out_f32(args, 0);
  double *sum = args->scratch;
  int64_t outputs = ls_in_shape(args, 1)->dim[0], inputs = ls_in_shape(args, 1)->dim[1];
  int64_t rows = ls_shape_count(ls_in_shape(args, 0)) / outputs;
  for (int64_t r = 0; r < rows; r++) {
    memset(sum, 0, (size_t)inputs * sizeof *sum);
    for (int64_t o = 0; o < outputs; o++)
      for (int64_t i = 0; i < inputs; i++)
        sum[i] += (double)dy[r * outputs + o] * w[o * inputs + i];
    for (int64_t i = 0; i < inputs; i++)
      dx[r * inputs + i] = (float)sum[i];
  }
  return LS_OK;
}

static int64_t dx_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return 2 * ls_shape_count(&in[0]) * in[1].dim[1];
}

static size_t dx_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return (size_t)in[1].dim[1] * sizeof(double);
}

static ls_status_t dx_add_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  ls_status_t status = dx_shape(ctx, attrs, in, out);
  return status ? status : ls_rule_equal(ctx, "linear_dx_add", "other", &in[2], "dx", &out[0]);
}

static ls_status_t dx_add_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_status_t status = dx_forward(stream, args);
  const float *other = ls_in_f32(args, 2);
  float *dx = ls_out_f32(args, 0);
  for (int64_t k = 0; k < ls_shape_count(&args->out[0].shape); k++)
    dx[k] = dx[k] + other[k];
  return status;
}

static ls_status_t dwb_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  const ls_shape_t *dy = &in[0], *x = &in[1];
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "linear_dwb", "dy", dy, LS_F32, 2, 0))) return status;
  if ((status = ls_rule_tensor(ctx, "linear_dwb", "x", x, LS_F32, 2, 0))) return status;
  int64_t outputs = dy->dim[dy->rank - 1], inputs = x->dim[x->rank - 1];
  if (ls_shape_count(dy) / outputs != ls_shape_count(x) / inputs) {
    char td[LS_SHAPE_TEXT_BYTES], tx[LS_SHAPE_TEXT_BYTES];
    return ls_fail(ctx, LS_ERR_SHAPE, "linear_dwb: dy %s and x %s must have the same rows",
                   ls_shape_text(dy, td), ls_shape_text(x, tx));
  }
  out[0] = LS_SHAPE(LS_F32, outputs, inputs);
  out[1] = LS_SHAPE(LS_F32, outputs);
  return LS_OK;
}

static ls_status_t dw_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_shape_t both[2];
  ls_status_t status = dwb_shape(ctx, attrs, in, both);
  if (!status) out[0] = both[0];
  return status;
}

/* dw = dy^T x, db = column sums of dy, unless there is none. One row of dw is summed in scratch, f64 (i). */
static ls_status_t dwb_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *x = ls_in_f32(args, 1);
  float *dw = ls_out_f32(args, 0), *db = args->out_count > 1 ? ls_out_f32(args, 1) : NULL;
  double *sum = args->scratch;
  int64_t outputs = args->out[0].shape.dim[0], inputs = args->out[0].shape.dim[1];
  int64_t rows = ls_shape_count(ls_in_shape(args, 0)) / outputs;
  for (int64_t o = 0; o < outputs; o++) {
    double bias = 0;
    memset(sum, 0, (size_t)inputs * sizeof *sum);
    for (int64_t r = 0; r < rows; r++) {
      double d = dy[r * outputs + o];
      bias += d;
      for (int64_t i = 0; i < inputs; i++)
        sum[i] += d * x[r * inputs + i];
    }
    for (int64_t i = 0; i < inputs; i++)
      dw[o * inputs + i] = (float)sum[i];
    if (db) db[o] = (float)bias;
  }
  return LS_OK;
}

static int64_t dw_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return 2 * ls_shape_count(&in[0]) * in[1].dim[in[1].rank - 1];
}

static int64_t dwb_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  return dw_flops(attrs, in, out) + ls_shape_count(&in[0]);
}

static size_t dwb_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return (size_t)in[1].dim[in[1].rank - 1] * sizeof(double);
}

const ls_op_t ls_op_linear = {LS_OP("linear", LS_OP_PRODUCT, 3, 1, linear_shape, linear_forward),
                              .backward = linear_backward,
                              .flops = linear_flops,
                              .low_in = 7,
                              .low_out = 1,
                              .low_wants = true};

const ls_op_t ls_op_linear_relu = {
    LS_OP("linear_relu", LS_OP_PRODUCT, 3, 1, linear_shape, linear_relu_forward),
    .backward = linear_relu_backward,
    .flops = linear_relu_flops,
    .low_in = 7,
    .low_out = 1,
    .low_wants = true};

const ls_op_t ls_op_linear_dx = {LS_OP("linear_dx", LS_OP_PRODUCT, 2, 1, dx_shape, dx_forward),
                                 .flops = dx_flops,
                                 .scratch_bytes = dx_scratch,
                                 .low_in = 3,
                                 .low_out = 1,
                                 .low_wants = true};

const ls_op_t ls_op_linear_dx_add = {
    LS_OP("linear_dx_add", LS_OP_PRODUCT, 3, 1, dx_add_shape, dx_add_forward),
    .flops = dx_flops,
    .scratch_bytes = dx_scratch,
    .low_in = 7,
    .low_out = 1,
    .low_wants = true};

const ls_op_t ls_op_linear_dwb = {LS_OP("linear_dwb", LS_OP_PRODUCT, 2, 2, dwb_shape, dwb_forward),
                                  .flops = dwb_flops, .scratch_bytes = dwb_scratch, .low_in = 3,
                                  .low_wants = true};

const ls_op_t ls_op_linear_dw = {LS_OP("linear_dw", LS_OP_PRODUCT, 2, 1, dw_shape, dwb_forward),
                                 .flops = dw_flops, .scratch_bytes = dwb_scratch, .low_in = 3,
                                 .low_wants = true};
