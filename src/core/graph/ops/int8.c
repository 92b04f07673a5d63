/* Products of 8-bit integers for inference (device/int8.h): each output is (sum of u8 s8 - zero sum of s8) times a factor,
 * plus a bias. Weights are rounded when they are used, so that parameters stay f32.
 *   f[0] scale of x   f[1] its zero point, a whole number in [0, 255]
 *   value_range       (x) -> (1, 2): the lowest and the highest element; no attributes
 *   linear_int8       (x (n.., i), w (o, i), b (o)) -> (n.., o)
 *   conv2d_int8       (x, w, b (o)) with the attributes i of conv2d, groups 1
 *   conv2d_int8_norm  (x, w, mean, rstd, gamma, beta): conv2d_int8 without bias, then bn_apply, as one factor and bias */
#include "device/int8.h"
#include "device/window.h"
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <stdlib.h>

static ls_status_t range_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)attrs;
  out[0] = LS_SHAPE(LS_F32, 1, 2);
  return ls_rule_tensor(ctx, "value_range", "x", &in[0], LS_F32, 1, 0);
}

static ls_status_t range_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  float *y = ls_out_f32(args, 0);
  y[0] = y[1] = x[0];
  for (int64_t i = 1; i < ls_shape_count(ls_in_shape(args, 0)); i++) {
    y[0] = x[i] < y[0] ? x[i] : y[0];
    y[1] = x[i] > y[1] ? x[i] : y[1];
  }
  return LS_OK;
}

/* The op without integers says what fits. */
static ls_status_t check(ls_ctx_t *ctx, const ls_op_t *like, const ls_attrs_t *attrs, const ls_shape_t *in,
                         ls_shape_t *out, int last) {
  ls_status_t status = like->shape(ctx, attrs, in, out);
  for (int i = 2; i <= last && !status; i++)
    status = ls_rule_vector(ctx, like->name, "an output's input", &in[i], in[1].dim[0]);
  if (status) return status;
  if (ls_shape_inner(&in[1], 1) > LS_INT8_DEPTH_MAX || (like == &ls_op_conv2d && attrs->i[8] != 1))
    return ls_fail(ctx, LS_ERR_SHAPE, "%s of 8-bit integers: one group, and sums of at most %d products",
                   like->name, LS_INT8_DEPTH_MAX);
  return LS_OK;
}
static ls_status_t linear_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  return check(ctx, &ls_op_linear, attrs, in, out, 2);
}
static ls_status_t conv_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  return check(ctx, &ls_op_conv2d, attrs, in, out, 2);
}
static ls_status_t norm_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  return check(ctx, &ls_op_conv2d, attrs, in, out, 5);
}

/* The sum under the window at position r, with the padding at the zero point. */
static int32_t sum_at(const ls_window_t *v, const float *x, const ls_attrs_t *attrs, const int8_t *w,
                      int64_t r) {
  const float inverse = (float)(1 / attrs->f[0]), zero = (float)attrs->f[1];
  int32_t sum = 0;
  for (int64_t k = 0; k < v->kh * v->kw; k++) {
    int64_t y = r / v->ow % v->oh * v->sh - v->top + k / v->kw * v->dh;
    int64_t z = r % v->ow * v->sw - v->left + k % v->kw * v->dw;
    bool in = y >= 0 && y < v->h && z >= 0 && z < v->w;
    const float *at = x + ((r / (v->oh * v->ow) * v->h + (in ? y : 0)) * v->w + (in ? z : 0)) * v->c;
    for (int64_t c = 0; c < v->c; c++)
      sum += ls_int8_value(in ? at[c] : 0, inverse, zero) * w[k * v->c + c];
  }
  return sum;
}

static ls_status_t forward(const ls_kernel_args_t *args, const ls_window_t *v) {
  const ls_attrs_t *a = args->attrs;
  const int64_t depth = v->kh * v->kw * v->c, positions = v->n * v->oh * v->ow;
  const bool norm = args->in_count > 3;
  int8_t *w = args->scratch;
  for (int64_t o = 0; o < v->o; o++) {
    int32_t all;
    float scale = (float)a->f[0] * ls_int8_row(ls_in_f32(args, 1) + o * depth, depth, w, &all);
    float gain = norm ? ls_in_f32(args, 3)[o] * ls_in_f32(args, 4)[o] : 1;
    float shift = norm ? ls_in_f32(args, 5)[o] - ls_in_f32(args, 2)[o] * gain : ls_in_f32(args, 2)[o];
    for (int64_t r = 0; r < positions; r++)
      ls_out_f32(args, 0)[r * v->o + o] =
          (float)(sum_at(v, ls_in_f32(args, 0), a, w, r) - (int32_t)a->f[1] * all) * (scale * gain) + shift;
  }
  return LS_OK;
}

static ls_status_t linear_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_window_t v = ls_window_rows(ls_in_shape(args, 0), ls_in_shape(args, 1));
  return forward(args, &v);
}
static ls_status_t conv_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_window_t v =
      ls_window_conv(args->attrs, ls_in_shape(args, 0), ls_in_shape(args, 1), &args->out[0].shape);
  return forward(args, &v);
}

static size_t one_output(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs, (void)out;
  return (size_t)ls_shape_inner(&in[1], 1);
}
static int64_t flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  return 2 * ls_shape_count(&out[0]) * ls_shape_inner(&in[1], 1);
}

#define PRODUCT .flops = flops, .scratch_bytes = one_output
const ls_op_t ls_op_value_range = {LS_OP("value_range", LS_OP_REDUCTION, 1, 1, range_shape, range_forward),
                                   .host = true};
const ls_op_t ls_op_linear_int8 = {LS_OP("linear_int8", LS_OP_PRODUCT, 3, 1, linear_shape, linear_forward),
                                   .host = true, PRODUCT};
const ls_op_t ls_op_conv2d_int8 = {LS_OP("conv2d_int8", LS_OP_CONVOLUTION, 3, 1, conv_shape, conv_forward),
                                   .host = true, PRODUCT};
const ls_op_t ls_op_conv2d_int8_norm = {
    LS_OP("conv2d_int8_norm", LS_OP_CONVOLUTION, 6, 1, norm_shape, conv_forward), .host = true, PRODUCT};
