/* Batch norm and the function that follows it, as one op: the value between them is neither written nor read, and
 * the gradient computes it again from x. Passes make these ops. i[0] is the function: LS_BEHIND_NONE, _RELU or
 * _SILU. The other inputs are those of the ops in batch_norm.c.
 *   bn_act            (x, mean, rstd, gamma, beta) -> f(z), z being the norm
 *   bn_add_act        (x, mean, rstd, gamma, beta, r like x) -> f(z + r)
 *   bn_act_back_sums  (dy, x, mean, rstd, weight, gamma, beta) -> the outputs of bn_back_sums, for the gradient through f
 *   bn_add_act_back_sums  (a, b, y, x, mean, rstd, weight) -> dz: the gradient a + b of y = f(z + r) through f, the relu;
 *                     and the outputs of bn_back_sums for dz
 *   bn_act_dx         (dy, x, gamma, mean, rstd, weight, sums over the ranks (2c), count, beta) -> dx
 * Each gives the bits of the ops that it replaces. */
#include "device/mean.h"
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>

static ls_status_t check_function(ls_ctx_t *ctx, const char *op, const ls_attrs_t *attrs) {
  if (attrs->i[0] >= 0 && attrs->i[0] < LS_BEHIND_COUNT) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: there is no function %lld", op, (long long)attrs->i[0]);
}

static float function(int64_t which, float z) {
  double s = 1 / (1 + exp(-(double)z));
  return which == LS_BEHIND_SILU ? (float)(z * s) : which == LS_BEHIND_RELU && z < 0 ? 0 : z;
}

static float gradient(int64_t which, float dy, float z) {
  double s = 1 / (1 + exp(-(double)z));
  if (which == LS_BEHIND_SILU) return (float)(dy * (s * (1 + z * (1 - s))));
  return which == LS_BEHIND_RELU && !(z > 0) ? 0 : dy;
}

/* One channel's numbers, from input `first` on: mean, rstd, gamma, beta. */
typedef struct {
  double mean, rstd, gamma, beta;
} channel_t;
static channel_t channel(const ls_kernel_args_t *args, const int input[4], int64_t c) {
  const float *rest = ls_mean_rest(&args->in[input[0]]);
  return (channel_t){(double)ls_in_f32(args, input[0])[c] + (rest ? rest[c] : 0),
                     ls_in_f32(args, input[1])[c], ls_in_f32(args, input[2])[c],
                     ls_in_f32(args, input[3])[c]};
}

static float norm(const channel_t *k, float x) {
  return (float)((x - k->mean) * k->rstd * k->gamma + k->beta);
}

static ls_status_t act_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = check_function(ctx, "bn_act", attrs);
  return status ? status : ls_op_bn_apply.shape(ctx, attrs, in, out);
}

static ls_status_t add_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = act_shape(ctx, attrs, in, out);
  return status ? status : ls_rule_equal(ctx, "bn_add_act", "r", &in[5], "x", &in[0]);
}

static ls_status_t act_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  static const int inputs[] = {1, 2, 3, 4};
  int64_t c = ls_shape_count(ls_in_shape(args, 2));
  for (int64_t e = 0; e < ls_shape_count(ls_in_shape(args, 0)); e++) {
    const channel_t k = channel(args, inputs, e % c);
    float z = norm(&k, ls_in_f32(args, 0)[e]);
    if (args->in_count > 5) z += ls_in_f32(args, 5)[e];
    ls_out_f32(args, 0)[e] = function(args->attrs->i[0], z);
  }
  return LS_OK;
}

static ls_status_t sums_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = check_function(ctx, "bn_act_back_sums", attrs);
  if (!status) status = ls_op_bn_back_sums.shape(ctx, attrs, in, out);
  for (int i = 5; i < 7 && !status; i++)
    status = ls_rule_equal(ctx, "bn_act_back_sums", "a channel's input", &in[i], "rstd", &in[3]);
  return status;
}

static ls_status_t sums_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  static const int inputs[] = {2, 3, 5, 6};
  const ls_shape_t *x = ls_in_shape(args, 1);
  int64_t c = ls_shape_count(ls_in_shape(args, 3)), rows = ls_shape_count(x) / c, each = rows / x->dim[0];
  for (int64_t n = 0; n < c; n++) {
    const channel_t k = channel(args, inputs, n);
    double s1 = 0, s2 = 0;
    for (int64_t r = 0; r < rows; r++) {
      float v = ls_in_f32(args, 1)[r * c + n];
      double g = gradient(args->attrs->i[0], ls_in_f32(args, 0)[r * c + n], norm(&k, v));
      if (!(ls_in_f32(args, 4)[r / each] > 0)) g = 0;
      s1 += g;
      s2 += g * ((v - k.mean) * k.rstd);
    }
    ls_out_f32(args, 0)[n] = ls_out_f32(args, 1)[n] = (float)s1;
    ls_out_f32(args, 0)[c + n] = ls_out_f32(args, 2)[n] = (float)s2;
  }
  return LS_OK;
}

static ls_status_t residual_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                  ls_shape_t *out) {
  const ls_shape_t sums_in[] = {in[0], in[3], in[4], in[5], in[6]};
  ls_status_t status = ls_op_bn_back_sums.shape(ctx, attrs, sums_in, out + 1);
  for (int i = 1; i < 3 && !status; i++)
    status = ls_rule_equal(ctx, "bn_add_act_back_sums", "an input", &in[i], "a", &in[0]);
  out[0] = in[0];
  return status;
}

static ls_status_t residual_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  float *dz = ls_out_f32(args, 0);
  for (int64_t e = 0; e < ls_shape_count(ls_in_shape(args, 0)); e++)
    dz[e] = gradient(LS_BEHIND_RELU, ls_in_f32(args, 0)[e] + ls_in_f32(args, 1)[e], ls_in_f32(args, 2)[e]);
  const ls_tensor_t in[] = {args->out[0], args->in[3], args->in[4], args->in[5], args->in[6]};
  const ls_kernel_args_t sums = {.in = in, .in_count = 5, .out = args->out + 1, .out_count = 3};
  return ls_op_bn_back_sums.forward(stream, &sums);
}

static ls_status_t dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = check_function(ctx, "bn_act_dx", attrs);
  if (!status) status = ls_op_bn_dx.shape(ctx, attrs, in, out);
  return status ? status : ls_rule_equal(ctx, "bn_act_dx", "beta", &in[8], "gamma", &in[2]);
}

static ls_status_t dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  static const int inputs[] = {3, 4, 2, 8};
  const ls_shape_t *x = ls_in_shape(args, 1);
  int64_t c = ls_shape_count(ls_in_shape(args, 2)), each = ls_shape_count(x) / c / x->dim[0];
  double count = *(const double *)args->in[7].data;
  for (int64_t e = 0; e < ls_shape_count(x); e++) {
    const channel_t k = channel(args, inputs, e % c);
    float v = ls_in_f32(args, 1)[e], g = gradient(args->attrs->i[0], ls_in_f32(args, 0)[e], norm(&k, v));
    double h = (v - k.mean) * k.rstd, s1 = ls_in_f32(args, 6)[e % c], s2 = ls_in_f32(args, 6)[c + e % c];
    double dx = k.gamma * k.rstd * (g - s1 / count - h * (s2 / count));
    ls_out_f32(args, 0)[e] = ls_in_f32(args, 5)[e / c / each] > 0 ? (float)dx : 0;
  }
  return LS_OK;
}

const ls_op_t ls_op_bn_act = {LS_OP("bn_act", LS_OP_ELEMENTWISE, 5, 1, act_shape, act_forward),
                              .flops_each = 6, .inplace = 1, .low_in = 1, .low_out = 1};
const ls_op_t ls_op_bn_add_act = {LS_OP("bn_add_act", LS_OP_ELEMENTWISE, 6, 1, add_shape, act_forward),
                                  .flops_each = 6, .inplace = 1 | 1 << 5, .low_in = 1 | 1 << 5, .low_out = 1};
const ls_op_t ls_op_bn_act_back_sums = {
    LS_OP("bn_act_back_sums", LS_OP_REDUCTION, 7, 3, sums_shape, sums_forward), .flops_each = 9, .low_in = 3};
const ls_op_t ls_op_bn_add_act_back_sums = {
    LS_OP("bn_add_act_back_sums", LS_OP_REDUCTION, 7, 4, residual_shape, residual_forward), .flops_each = 7,
    .inplace = 7, .low_in = 15, .low_out = 1};
const ls_op_t ls_op_bn_act_dx = {LS_OP("bn_act_dx", LS_OP_ELEMENTWISE, 9, 1, dx_shape, dx_forward),
                                 .flops_each = 12, .inplace = 3, .low_in = 3, .low_out = 1};
