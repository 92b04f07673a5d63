/* Ops that accompany the update: the rate of a group of parameters, and the moving mean of all. */
#include "graph/ops/row.h"
#include "optim/optim.h"

#include <string.h>

static ls_status_t rate_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  out[0] = in[0];
  return ls_rule_vector(ctx, "rate_scale", "ctrl", &in[0], LS_CTRL_COUNT);
}

static ls_status_t rate_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  float *ctrl = ls_out_f32(args, 0);
  memcpy(ctrl, args->in[0].data, LS_CTRL_COUNT * sizeof *ctrl);
  ctrl[LS_CTRL_LR] = (float)(ctrl[LS_CTRL_LR] * args->attrs->f[0]);
  return LS_OK;
}

static ls_status_t ema_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "ema", "param", &in[0], LS_F32, 1, 1))) return status;
  if ((status = ls_rule_vector(ctx, "ema", "ctrl", &in[1], LS_CTRL_COUNT))) return status;
  out[0] = in[0];
  return ls_rule_vector(ctx, "ema", "counter", &in[2], LS_COUNTER_COUNT);
}

/* The counter counts the step that is being applied. */
static ls_status_t ema_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *p = ls_in_f32(args, 0);
  float *mean = ls_out_f32(args, 0);
  double before = (double)ls_in_f32(args, 2)[LS_COUNTER_APPLIED] - 1, keep = (1 + before) / (10 + before);
  float rest = (float)(1 - (keep < args->attrs->f[0] ? keep : args->attrs->f[0]));
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  if (ls_in_f32(args, 1)[LS_CTRL_APPLY] == 0) return LS_OK;
  for (int64_t k = 0; k < count; k++)
    mean[k] = mean[k] + rest * (p[k] - mean[k]);
  return LS_OK;
}

const ls_op_t ls_op_rate_scale = {LS_OP("rate_scale", LS_OP_OPTIMIZER, 1, 1, rate_shape, rate_forward),
                                  .flops_each = 1};

const ls_op_t ls_op_ema = {LS_OP("ema", LS_OP_OPTIMIZER, 3, 1, ema_shape, ema_forward), .flops_each = 3,
                           .inout = 1};
