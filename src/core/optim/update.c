/* Update ops: one pass over a flat range of parameters, their gradients and their state. f32 arithmetic per
 * element, in the order written here; another version may fuse a multiplication with an addition, nothing
 * else. All begin with g = grad * grad_scale and return at once when the step is not to be applied. */
#include "graph/ops/row.h"
#include "optim/optim.h"

#include <math.h>

/* (grad (p), ctrl (16)) -> `outputs` times f32 (p) */
static ls_status_t update_shape(ls_ctx_t *ctx, const char *op, const ls_shape_t *in, int outputs,
                                ls_shape_t *out) {
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, op, "grad", &in[0], LS_F32, 1, 1))) return status;
  if ((status = ls_rule_vector(ctx, op, "ctrl", &in[1], LS_CTRL_COUNT))) return status;
  for (int i = 0; i < outputs; i++)
    out[i] = in[0];
  return LS_OK;
}

static ls_status_t sgd_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  return update_shape(ctx, "sgd", in, 1, out);
}

static ls_status_t momentum_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                  ls_shape_t *out) {
  (void)attrs;
  return update_shape(ctx, "sgd_momentum", in, 2, out);
}

static ls_status_t adam_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  return update_shape(ctx, "adam", in, 3, out);
}

/* f[1] weight decay wd
 *   g = grad * scale + wd * p
 *   p = p - lr * g */
static ls_status_t sgd_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *grad = ls_in_f32(args, 0), *ctrl = ls_in_f32(args, 1);
  float *p = ls_out_f32(args, 0), decay = (float)args->attrs->f[1];
  float scale = ctrl[LS_CTRL_GRAD_SCALE], lr = ctrl[LS_CTRL_LR];
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  if (ctrl[LS_CTRL_APPLY] == 0) return LS_OK;
  for (int64_t k = 0; k < count; k++) {
    float g = grad[k] * scale + decay * p[k];
    p[k] = p[k] - lr * g;
  }
  return LS_OK;
}

/* f[0] momentum mu, f[1] weight decay wd, i[0] nesterov. As PyTorch's SGD without dampening; its first step,
 * buf = g, comes out of buf = 0.
 *   g = grad * scale + wd * p
 *   buf = mu * buf + g
 *   p = p - lr * (nesterov ? g + mu * buf : buf) */
static ls_status_t momentum_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *grad = ls_in_f32(args, 0), *ctrl = ls_in_f32(args, 1);
  float *p = ls_out_f32(args, 0), *buf = ls_out_f32(args, 1);
  float mu = (float)args->attrs->f[0], decay = (float)args->attrs->f[1];
  float scale = ctrl[LS_CTRL_GRAD_SCALE], lr = ctrl[LS_CTRL_LR];
  bool nesterov = args->attrs->i[0] != 0;
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  if (ctrl[LS_CTRL_APPLY] == 0) return LS_OK;
  for (int64_t k = 0; k < count; k++) {
    float g = grad[k] * scale + decay * p[k];
    buf[k] = mu * buf[k] + g;
    p[k] = p[k] - lr * (nesterov ? g + mu * buf[k] : buf[k]);
  }
  return LS_OK;
}

/* Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019, algorithm 2).
 * f[0] beta1, f[1] beta2, f[2] eps, f[3] weight decay wd
 *   adam: g = grad * scale + wd * p          adamw: g = grad * scale, p = p - lr * wd * p
 *   m = beta1 * m + (1 - beta1) * g
 *   v = beta2 * v + (1 - beta2) * g * g
 *   p = p - (lr / bias1) * m / (sqrt(v) * (1 / sqrt(bias2)) + eps)
 * where everything that does not depend on the element is computed once, 1 - beta in f64. */
static void adam(const ls_kernel_args_t *args, bool decoupled) {
  const float *grad = ls_in_f32(args, 0), *ctrl = ls_in_f32(args, 1);
  float *p = ls_out_f32(args, 0), *m = ls_out_f32(args, 1), *v = ls_out_f32(args, 2);
  const double *f = args->attrs->f;
  float beta1 = (float)f[0], rest1 = (float)(1 - f[0]), beta2 = (float)f[1], rest2 = (float)(1 - f[1]);
  float scale = ctrl[LS_CTRL_GRAD_SCALE], lr = ctrl[LS_CTRL_LR], eps = (float)f[2];
  float size = lr / ctrl[LS_CTRL_BIAS1], widen = 1.0f / sqrtf(ctrl[LS_CTRL_BIAS2]);
  float pull = decoupled ? 0 : (float)f[3], shrink = decoupled ? lr * (float)f[3] : 0;
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++) {
    float g = grad[k] * scale + pull * p[k];
    float kept = p[k] - shrink * p[k];
    m[k] = beta1 * m[k] + rest1 * g;
    v[k] = beta2 * v[k] + rest2 * g * g;
    p[k] = kept - size * m[k] / (sqrtf(v[k]) * widen + eps);
  }
}

static ls_status_t adam_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  if (ls_in_f32(args, 1)[LS_CTRL_APPLY] != 0) adam(args, false);
  return LS_OK;
}

static ls_status_t adamw_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  if (ls_in_f32(args, 1)[LS_CTRL_APPLY] != 0) adam(args, true);
  return LS_OK;
}

const ls_op_t ls_op_sgd = {LS_OP("sgd", LS_OP_OPTIMIZER, 2, 1, sgd_shape, sgd_forward), .flops_each = 4,
                           .inout = 1};

const ls_op_t ls_op_sgd_momentum = {
    LS_OP("sgd_momentum", LS_OP_OPTIMIZER, 2, 2, momentum_shape, momentum_forward), .flops_each = 8,
    .inout = 3};

const ls_op_t ls_op_adam = {LS_OP("adam", LS_OP_OPTIMIZER, 2, 3, adam_shape, adam_forward), .flops_each = 16,
                            .inout = 7};

const ls_op_t ls_op_adamw = {LS_OP("adamw", LS_OP_OPTIMIZER, 2, 3, adam_shape, adamw_forward),
                             .flops_each = 16, .inout = 7};

const ls_op_t *const ls_optim_ops[] = {
    &ls_op_sumsq,      &ls_op_step_control, &ls_op_sgd, &ls_op_sgd_momentum, &ls_op_adam, &ls_op_adamw,
    &ls_op_rate_scale, &ls_op_ema,          NULL,
};
