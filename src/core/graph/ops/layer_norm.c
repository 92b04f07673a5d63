/* Layer norm (Ba, Kiros, Hinton 2016) over the last dimension, d elements:
 *   y = (x - mean) * rstd * gamma + beta,   rstd = 1 / sqrt(variance + f[0]), variance divided by d
 * mean and rstd are outputs because both gradients need them. They take no gradient themselves. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>
#include <string.h>

/* Shape of one number per row of x: x without its last dimension, (1) for a single row. */
static ls_shape_t per_row(const ls_shape_t *x) {
  ls_shape_t shape = *x;
  shape.dim[--shape.rank] = 0;
  return shape.rank > 0 ? shape : LS_SHAPE(LS_F32, 1);
}

static ls_status_t norm_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  const ls_shape_t *x = &in[0];
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "layer_norm", "x", x, LS_F32, 1, 0))) return status;
  int64_t d = x->dim[x->rank - 1];
  if ((status = ls_rule_vector(ctx, "layer_norm", "gamma", &in[1], d))) return status;
  if ((status = ls_rule_vector(ctx, "layer_norm", "beta", &in[2], d))) return status;
  if (!(attrs->f[0] >= 0))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "layer_norm: eps %g must not be negative", attrs->f[0]);
  out[0] = *x;
  out[1] = out[2] = per_row(x);
  return LS_OK;
}

static ls_status_t norm_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *gamma = ls_in_f32(args, 1), *beta = ls_in_f32(args, 2);
  float *y = ls_out_f32(args, 0), *mean = ls_out_f32(args, 1), *rstd = ls_out_f32(args, 2);
  int64_t d = ls_in_shape(args, 1)->dim[0], rows = ls_shape_count(ls_in_shape(args, 0)) / d;
  for (int64_t r = 0; r < rows; r++, x += d, y += d) {
    double sum = 0, square = 0;
    for (int64_t k = 0; k < d; k++)
      sum += x[k];
    double m = sum / (double)d;
    for (int64_t k = 0; k < d; k++)
      square += (x[k] - m) * (x[k] - m);
    double s = 1 / sqrt(square / (double)d + args->attrs->f[0]);
    for (int64_t k = 0; k < d; k++)
      y[k] = (float)((x[k] - m) * s * gamma[k] + beta[k]);
    mean[r] = (float)m;
    rstd[r] = (float)s;
  }
  return LS_OK;
}

static ls_status_t norm_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  if (grad_out[1] >= 0 || grad_out[2] >= 0)
    return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: mean and rstd take no gradient", node->name);
  ls_tensor_id_t dy = grad_out[0], x = node->in[0], gamma = node->in[1];
  ls_tensor_id_t mean = node->out[1], rstd = node->out[2];
  if (dy < 0) return LS_OK;
  if (wanted[1] || wanted[2]) {
    ls_tensor_id_t in[] = {dy, x, mean, rstd}, out[2] = {-1, -1};
    ls_graph_op(graph, &ls_op_layer_norm_dgb, &node->attrs, 4, in, out);
    grad_in[1] = out[0];
    grad_in[2] = out[1];
  }
  if (wanted[0]) {
    ls_tensor_id_t in[] = {dy, x, gamma, mean, rstd};
    grad_in[0] = ls_graph_op(graph, &ls_op_layer_norm_dx, &node->attrs, 5, in, NULL);
  }
  return graph->status;
}

/* Checks of both gradients: dy like x, one mean and one rstd per row. */
static ls_status_t gradient_inputs(ls_ctx_t *ctx, const char *op, const ls_shape_t *dy, const ls_shape_t *x,
                                   const ls_shape_t *mean, const ls_shape_t *rstd) {
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, op, "x", x, LS_F32, 1, 0))) return status;
  if ((status = ls_rule_equal(ctx, op, "dy", dy, "x", x))) return status;
  ls_shape_t row = per_row(x);
  if ((status = ls_rule_equal(ctx, op, "mean", mean, "a row's", &row))) return status;
  return ls_rule_equal(ctx, op, "rstd", rstd, "a row's", &row);
}

static ls_status_t dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = gradient_inputs(ctx, "layer_norm_dx", &in[0], &in[1], &in[3], &in[4]);
  if (status) return status;
  if ((status = ls_rule_vector(ctx, "layer_norm_dx", "gamma", &in[2], in[1].dim[in[1].rank - 1])))
    return status;
  out[0] = in[1];
  return LS_OK;
}

/* dx = rstd (g - average(g) - h average(g h)), with h = (x - mean) rstd and g = dy gamma, averages over the row. */
static ls_status_t dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *x = ls_in_f32(args, 1), *gamma = ls_in_f32(args, 2);
  const float *mean = ls_in_f32(args, 3), *rstd = ls_in_f32(args, 4);
  float *dx = ls_out_f32(args, 0);
  int64_t d = ls_in_shape(args, 2)->dim[0], rows = ls_shape_count(ls_in_shape(args, 0)) / d;
  for (int64_t r = 0; r < rows; r++, dy += d, x += d, dx += d) {
    double g_sum = 0, gh_sum = 0, m = mean[r], s = rstd[r];
    for (int64_t k = 0; k < d; k++) {
      double g = (double)dy[k] * gamma[k];
      g_sum += g;
      gh_sum += g * ((x[k] - m) * s);
    }
    for (int64_t k = 0; k < d; k++) {
      double g = (double)dy[k] * gamma[k], h = (x[k] - m) * s;
      dx[k] = (float)(s * (g - g_sum / (double)d - h * (gh_sum / (double)d)));
    }
  }
  return LS_OK;
}

static ls_status_t dgb_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = gradient_inputs(ctx, "layer_norm_dgb", &in[0], &in[1], &in[2], &in[3]);
  if (status) return status;
  out[0] = out[1] = LS_SHAPE(LS_F32, in[1].dim[in[1].rank - 1]);
  return LS_OK;
}

/* dgamma = sum over rows of dy h, dbeta = sum over rows of dy. Both are summed in scratch, f64 (2, d). */
static ls_status_t dgb_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *x = ls_in_f32(args, 1);
  const float *mean = ls_in_f32(args, 2), *rstd = ls_in_f32(args, 3);
  float *dgamma = ls_out_f32(args, 0), *dbeta = ls_out_f32(args, 1);
  int64_t d = args->out[0].shape.dim[0], rows = ls_shape_count(ls_in_shape(args, 0)) / d;
  double *gamma_sum = args->scratch, *beta_sum = gamma_sum + d;
  memset(args->scratch, 0, (size_t)d * 2 * sizeof(double));
  for (int64_t r = 0; r < rows; r++, dy += d, x += d)
    for (int64_t k = 0; k < d; k++) {
      gamma_sum[k] += dy[k] * (((double)x[k] - mean[r]) * rstd[r]);
      beta_sum[k] += dy[k];
    }
  for (int64_t k = 0; k < d; k++) {
    dgamma[k] = (float)gamma_sum[k];
    dbeta[k] = (float)beta_sum[k];
  }
  return LS_OK;
}

static size_t dgb_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)in;
  return (size_t)out[0].dim[0] * 2 * sizeof(double);
}

const ls_op_t ls_op_layer_norm = {LS_OP("layer_norm", LS_OP_REDUCTION, 3, 3, norm_shape, norm_forward),
                                  .backward = norm_backward, .flops_each = 8, .low_in = 1, .low_out = 1};

const ls_op_t ls_op_layer_norm_dx = {LS_OP("layer_norm_dx", LS_OP_REDUCTION, 5, 1, dx_shape, dx_forward),
                                     .flops_each = 8, .low_in = 3, .low_out = 1};

const ls_op_t ls_op_layer_norm_dgb = {LS_OP("layer_norm_dgb", LS_OP_REDUCTION, 4, 2, dgb_shape, dgb_forward),
                                      .flops_each = 5, .scratch_bytes = dgb_scratch, .low_in = 3};
