/* Between gradients and update: computes the norm of all gradients, decides whether the step counts, and
 * prepares the numbers for the update. All of it runs on the device, so the host need not look. */
#include "graph/ops/row.h"
#include "optim/optim.h"

#include <math.h>
#include <string.h>

static ls_status_t sumsq_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = ls_rule_tensor(ctx, "sumsq", "x", &in[0], LS_F32, 1, 0);
  if (!status) out[0] = LS_SHAPE(LS_F32, 1);
  return status;
}

/* A sum beyond f32 (a norm above 1.8e19) becomes infinite and counts as not finite. */
static ls_status_t sumsq_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  double sum = 0;
  for (int64_t k = 0; k < count; k++)
    sum += (double)x[k] * x[k];
  ls_out_f32(args, 0)[0] = (float)sum;
  return LS_OK;
}

static ls_status_t control_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  (void)attrs;
  ls_status_t status;
  if ((status = ls_rule_vector(ctx, "step_control", "head", &in[0], LS_HEAD_COUNT))) return status;
  if ((status = ls_rule_tensor(ctx, "step_control", "partials", &in[1], LS_F32, 1, 1))) return status;
  if ((status = ls_rule_step(ctx, "step_control", &in[2]))) return status;
  out[0] = LS_SHAPE(LS_F32, LS_CTRL_COUNT);
  out[1] = LS_SHAPE(LS_F32, LS_STAT_COUNT);
  out[2] = LS_SHAPE(LS_F32, 16);
  return LS_OK;
}

/* The scale is doubled after 2000 good steps, and halved after a step whose gradients overflowed. */
static float next_scale(const ls_attrs_t *attrs, bool apply, float scale, float *good) {
  *good = apply ? *good + 1 : 0;
  if (apply && *good < (float)attrs->i[0]) return scale;
  *good = 0;
  return fminf(fmaxf(scale + (apply ? 1 : -1), LS_SCALE_MIN), LS_SCALE_MAX);
}

/* f[0] clip_norm, f[1] beta1, f[2] beta2; i[0] good steps after which the loss scale is doubled, 0: gradients are not
 * scaled. Every comparison with a NaN is false, hence isfinite for the decision; the gradients' factor only matters
 * when the norm is finite. The bias terms are those of the step that is about to be applied, number t = applied + 1. */
static ls_status_t control_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  enum { APPLIED_MAX = 1 << 24 }; /* whole numbers are exact in f32 up to here */
  const float *head = ls_in_f32(args, 0), *partial = ls_in_f32(args, 1);
  float *ctrl = ls_out_f32(args, 0), *stats = ls_out_f32(args, 1), *counter = ls_out_f32(args, 2);
  ls_step_params_t step;
  memcpy(&step, args->in[2].data, sizeof step);
  const bool scaled = args->attrs->i[0] > 0;
  double scale = scaled ? ldexp(1, LS_SCALE_EXPONENT + (int)counter[LS_COUNTER_SCALE]) : 1;
  double sum = 0, clip = args->attrs->f[0], t = (double)counter[LS_COUNTER_APPLIED] + 1;
  for (int64_t k = 0; k < ls_in_shape(args, 1)->dim[0]; k++)
    sum += partial[k];
  double norm = sqrt(sum) / scale;
  bool apply = isfinite(head[LS_HEAD_LOSS]) && isfinite(norm);

  memset(ctrl, 0, LS_CTRL_COUNT * sizeof *ctrl);
  ctrl[LS_CTRL_APPLY] = apply;
  ctrl[LS_CTRL_GRAD_SCALE] = !apply ? 0 : (float)((clip > 0 && norm > clip ? clip / norm : 1) / scale);
  ctrl[LS_CTRL_LR] = step.lr;
  ctrl[LS_CTRL_BIAS1] = (float)(1 - pow(args->attrs->f[1], t));
  ctrl[LS_CTRL_BIAS2] = (float)(1 - pow(args->attrs->f[2], t));

  if (apply && counter[LS_COUNTER_APPLIED] < APPLIED_MAX) counter[LS_COUNTER_APPLIED] += 1;
  counter[LS_COUNTER_SKIPPED] += !apply;
  counter[LS_COUNTER_SKIPPED_ROW] = apply ? 0 : counter[LS_COUNTER_SKIPPED_ROW] + 1;
  if (scaled)
    counter[LS_COUNTER_SCALE] =
        next_scale(args->attrs, apply, counter[LS_COUNTER_SCALE], &counter[LS_COUNTER_GOOD]);

  memset(stats, 0, LS_STAT_COUNT * sizeof *stats);
  stats[LS_STAT_LOSS] = head[LS_HEAD_LOSS];
  stats[LS_STAT_CORRECT] = head[LS_HEAD_CORRECT];
  stats[LS_STAT_GRAD_NORM] = (float)norm;
  stats[LS_STAT_APPLIED] = apply;
  stats[LS_STAT_SKIPPED] = counter[LS_COUNTER_SKIPPED];
  stats[LS_STAT_SKIPPED_ROW] = counter[LS_COUNTER_SKIPPED_ROW];
  stats[LS_STAT_LOSS_SCALE] = scaled ? (float)scale : 0;
  return LS_OK;
}

static int64_t control_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return ls_shape_count(&in[1]) + 32;
}

const ls_op_t ls_op_sumsq = {LS_OP("sumsq", LS_OP_REDUCTION, 1, 1, sumsq_shape, sumsq_forward),
                             .flops_each = 2};

const ls_op_t ls_op_step_control = {
    .name = "step_control",
    .class = LS_OP_OPTIMIZER,
    .in_count = 3,
    .out_count = 3,
    .shape = control_shape,
    .forward = control_forward,
    .flops = control_flops,
    .inout = 4, /* counter */

};
