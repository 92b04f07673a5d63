/* A residual connection and the layer norm next to it, as passes fuse them (graph/pass/fuse_residual.c): the sum
 * goes through memory once. residual_norm is dropout, add and layer_norm in one, with their meanings:
 *   sum = other + dropout(x),   y, mean, rstd = layer_norm(sum)
 *   f[0] eps of the norm   f[1] rate (0: nothing is dropped), i[0] ordinal of the dropout
 * layer_norm_dx_add is layer_norm_dx and add: dx of the norm, plus the gradient that bypasses it. layer_norm_back
 * is the whole gradient of a layer norm: dx, plus other if i[1] is 1, and layer_norm_dgb. layer_norm_back_drop also
 * gives dropped = dropout(dx), the gradient of the branch; f[1] and i[0] are those of residual_norm. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

static ls_status_t norm_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  const ls_attrs_t drop = {.i = {attrs->i[0]}, .f = {attrs->f[1]}};
  const ls_shape_t dropped[] = {in[0], in[4]}, normed[] = {in[0], in[2], in[3]};
  ls_status_t status = ls_rule_tensor(ctx, "residual_norm", "x", &in[0], LS_F32, 2, 0);
  if (!status) status = ls_op_dropout.shape(ctx, &drop, dropped, out);
  if (!status) status = ls_rule_equal(ctx, "residual_norm", "x", &in[0], "other", &in[1]);
  if (!status) status = ls_op_layer_norm.shape(ctx, attrs, normed, out + 1);
  if (!status) out[0] = in[0];
  return status;
}

static ls_status_t norm_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_attrs_t drop = {.i = {args->attrs->i[0]}, .f = {args->attrs->f[1]}};
  const ls_tensor_t dropped[] = {args->in[0], args->in[4]};
  const ls_tensor_t normed[] = {args->out[0], args->in[2], args->in[3]};
  const ls_kernel_args_t first = {
      .attrs = &drop, .in = dropped, .in_count = 2, .out = args->out, .out_count = 1};
  const ls_kernel_args_t second = {
      .attrs = args->attrs, .in = normed, .in_count = 3, .out = args->out + 1, .out_count = 3};
  ls_status_t status = ls_op_dropout.forward(stream, &first);
  const float *other = ls_in_f32(args, 1);
  float *sum = ls_out_f32(args, 0);
  for (int64_t k = 0; k < ls_shape_count(ls_in_shape(args, 0)); k++)
    sum[k] = other[k] + sum[k];
  return status ? status : ls_op_layer_norm.forward(stream, &second);
}

static ls_status_t dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = ls_op_layer_norm_dx.shape(ctx, attrs, in, out);
  return status ? status : ls_rule_equal(ctx, "layer_norm_dx_add", "other", &in[5], "x", &in[1]);
}

static ls_status_t dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_kernel_args_t norm = *args;
  norm.in_count = 5;
  ls_status_t status = ls_op_layer_norm_dx.forward(stream, &norm);
  const float *other = ls_in_f32(args, 5);
  float *dx = ls_out_f32(args, 0);
  for (int64_t k = 0; k < ls_shape_count(ls_in_shape(args, 0)); k++)
    dx[k] = dx[k] + other[k];
  return status;
}

static ls_status_t back_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  const ls_shape_t sums[] = {in[0], in[1], in[3], in[4]};
  ls_status_t status = dx_shape(ctx, attrs, in, out);
  return status ? status : ls_op_layer_norm_dgb.shape(ctx, attrs, sums, out + 1);
}

static ls_status_t back_drop_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                   ls_shape_t *out) {
  const ls_attrs_t drop = {.i = {attrs->i[0]}, .f = {attrs->f[1]}};
  const ls_shape_t dropped[] = {in[1], in[6]};
  ls_status_t status = ls_rule_tensor(ctx, "layer_norm_back_drop", "x", &in[1], LS_F32, 2, 0);
  if (!status) status = ls_op_dropout.shape(ctx, &drop, dropped, out + 1);
  ls_shape_t rest[3];
  if (!status) status = back_shape(ctx, attrs, in, rest);
  if (status) return status;
  out[0] = rest[0];
  out[2] = rest[1];
  out[3] = rest[2];
  return LS_OK;
}

static size_t back_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)out;
  return ls_op_layer_norm_dgb.scratch_bytes(attrs, NULL, &in[2]); /* gamma, like the sums */
}

/* dx, and its sums to the two outputs from `sums` on. */
static ls_status_t back_to(ls_stream_t *stream, const ls_kernel_args_t *args, int sums) {
  const ls_tensor_t dgb_in[] = {args->in[0], args->in[1], args->in[3], args->in[4]};
  ls_kernel_args_t dx = *args, dgb = *args;
  dgb.in = dgb_in;
  dgb.out = args->out + sums;
  ls_status_t status = ls_op_layer_norm_dgb.forward(stream, &dgb);
  if (status) return status;
  return args->attrs->i[1] ? dx_forward(stream, &dx) : ls_op_layer_norm_dx.forward(stream, &dx);
}

static ls_status_t back_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return back_to(stream, args, 1);
}

static ls_status_t back_drop_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_attrs_t attrs = {.i = {args->attrs->i[0]}, .f = {args->attrs->f[1]}};
  const ls_tensor_t in[] = {args->out[0], args->in[6]};
  ls_kernel_args_t drop = *args;
  drop.attrs = &attrs;
  drop.in = in;
  drop.out = args->out + 1;
  ls_status_t status = back_to(stream, args, 2);
  return status ? status : ls_op_dropout.forward(stream, &drop);
}

const ls_op_t ls_op_residual_norm = {LS_OP("residual_norm", LS_OP_REDUCTION, 5, 4, norm_shape, norm_forward),
                                     .flops_each = 10, .low_in = 3, .low_out = 3};

const ls_op_t ls_op_layer_norm_dx_add = {
    LS_OP("layer_norm_dx_add", LS_OP_REDUCTION, 6, 1, dx_shape, dx_forward), .flops_each = 9, .low_in = 35,
    .low_out = 1};

const ls_op_t ls_op_layer_norm_back = {
    LS_OP("layer_norm_back", LS_OP_REDUCTION, 7, 3, back_shape, back_forward), .flops_each = 12,
    .scratch_bytes = back_scratch, .low_in = 35, .low_out = 1};

const ls_op_t ls_op_layer_norm_back_drop = {
    LS_OP("layer_norm_back_drop", LS_OP_REDUCTION, 7, 4, back_drop_shape, back_drop_forward),
    .flops_each = 13, .scratch_bytes = back_scratch, .low_in = 35, .low_out = 3};
