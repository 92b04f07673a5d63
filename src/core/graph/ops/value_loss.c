/* Losses of values: sums over samples of weight times the mean over a sample's outputs, with weights as in loss.c.
 * Each loss and its slope are functions of d = prediction - target:
 *   mse    d^2
 *   l1     |d|
 *   huber  d^2 / 2 up to |d| = delta, beyond it delta (|d| - delta / 2) (Huber 1964)
 *   bce    of a logit x and a target in [0, 1]: log(1 + exp(x)) - target x; its slope is sigmoid(x) - target
 * If d is NaN, the loss and the slope are NaN. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>

static ls_status_t values_shape(ls_ctx_t *ctx, const char *op, const ls_shape_t *prediction,
                                const ls_shape_t *target, const ls_shape_t *weight) {
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, op, "prediction", prediction, LS_F32, 2, 0))) return status;
  if ((status = ls_rule_equal(ctx, op, "prediction", prediction, "target", target))) return status;
  return ls_rule_vector(ctx, op, "weight", weight, prediction->dim[0]);
}

/* `from`: the tensor from which the slope is computed. */
static ls_status_t values_backward(ls_graph_t *graph, const ls_graph_node_t *node, const ls_op_t *dx,
                                   ls_tensor_id_t from, const ls_tensor_id_t *grad_out, const bool *wanted,
                                   ls_tensor_id_t *grad_in) {
  if (wanted[1] || wanted[2] || (node->out_count > 2 && grad_out[2] >= 0))
    return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: targets, weights and probabilities take no gradient",
                   node->name);
  if (grad_out[0] < 0) return LS_OK;
  ls_tensor_id_t in[] = {grad_out[0], from, node->in[1], node->in[2]};
  grad_in[0] = ls_graph_op(graph, dx, &node->attrs, 4, in, NULL);
  return graph->status;
}

/* dx = dloss * weight * factor / outputs * slope(d) */
#define SLOPE_ROW(loss, factor, slope_, name_dx)                                                             \
  static ls_status_t loss##_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,           \
                                     ls_shape_t *out) {                                                      \
    (void)attrs;                                                                                             \
    ls_status_t status;                                                                                      \
    if ((status = ls_rule_vector(ctx, name_dx, "dloss", &in[0], 1))) return status;                          \
    if ((status = values_shape(ctx, name_dx, &in[1], &in[2], &in[3]))) return status;                        \
    out[0] = in[1];                                                                                          \
    return LS_OK;                                                                                            \
  }                                                                                                          \
  static ls_status_t loss##_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {                  \
    (void)stream;                                                                                            \
    const float *p = ls_in_f32(args, 1), *target = ls_in_f32(args, 2), *weight = ls_in_f32(args, 3);         \
    float *dx = ls_out_f32(args, 0), dloss = ls_in_f32(args, 0)[0], delta = (float)args->attrs->f[0];        \
    int64_t rows = ls_in_shape(args, 1)->dim[0], outputs = ls_shape_inner(ls_in_shape(args, 1), 1);          \
    (void)delta;                                                                                             \
    for (int64_t r = 0; r < rows; r++) {                                                                     \
      float scale = dloss * weight[r] * ((factor) / (float)outputs);                                         \
      for (int64_t o = 0; o < outputs; o++) {                                                                \
        float d = p[r * outputs + o] - target[r * outputs + o];                                              \
        dx[r * outputs + o] = scale * (slope_);                                                              \
      }                                                                                                      \
    }                                                                                                        \
    return LS_OK;                                                                                            \
  }                                                                                                          \
  const ls_op_t ls_op_##loss##_dx = {                                                                        \
      LS_OP(name_dx, LS_OP_ELEMENTWISE, 4, 1, loss##_dx_shape, loss##_dx_forward), .flops_each = 2,          \
      .inplace = 2, /* over the prediction */                                                                \
  };

/* A loss of d alone. */
#define LOSS_ROW(loss, name_, value)                                                                         \
  static ls_status_t loss##_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,              \
                                  ls_shape_t *out) {                                                         \
    (void)attrs;                                                                                             \
    out[0] = out[1] = LS_SHAPE(LS_F32, 1);                                                                   \
    return values_shape(ctx, name_, &in[0], &in[1], &in[2]);                                                 \
  }                                                                                                          \
  static ls_status_t loss##_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {                     \
    (void)stream;                                                                                            \
    const float *p = ls_in_f32(args, 0), *target = ls_in_f32(args, 1), *weight = ls_in_f32(args, 2);         \
    int64_t rows = ls_in_shape(args, 0)->dim[0], outputs = ls_shape_inner(ls_in_shape(args, 0), 1);          \
    double sum = 0, delta = args->attrs->f[0];                                                               \
    (void)delta;                                                                                             \
    for (int64_t r = 0; r < rows; r++) {                                                                     \
      double one = 0;                                                                                        \
      for (int64_t o = 0; o < outputs; o++) {                                                                \
        double d = (double)p[r * outputs + o] - target[r * outputs + o];                                     \
        one += (value);                                                                                      \
      }                                                                                                      \
      sum += weight[r] * (one / (double)outputs);                                                            \
    }                                                                                                        \
    ls_out_f32(args, 0)[0] = (float)sum;                                                                     \
    ls_out_f32(args, 1)[0] = 0;                                                                              \
    return LS_OK;                                                                                            \
  }                                                                                                          \
  static ls_status_t loss##_backward(ls_graph_t *graph, const ls_graph_node_t *node,                         \
                                     const ls_tensor_id_t *grad_out, const bool *wanted,                     \
                                     ls_tensor_id_t *grad_in) {                                              \
    return values_backward(graph, node, &ls_op_##loss##_dx, node->in[0], grad_out, wanted, grad_in);         \
  }                                                                                                          \
  const ls_op_t ls_op_##loss = {LS_OP(name_, LS_OP_REDUCTION, 3, 2, loss##_shape, loss##_forward),           \
                                .backward = loss##_backward, .flops_each = 3};

SLOPE_ROW(mse, 2.0f, d, "mse_dx")
SLOPE_ROW(l1, 1.0f, d > 0 ? 1 : d < 0 ? -1 : d, "l1_dx")
SLOPE_ROW(huber, 1.0f, d > delta ? delta : d < -delta ? -delta : d, "huber_dx")
SLOPE_ROW(bce, 1.0f, d, "bce_dx")

LOSS_ROW(mse, "mse", d *d)
LOSS_ROW(l1, "l1", fabs(d))
LOSS_ROW(huber, "huber", fabs(d) > delta ? delta * (fabs(d) - 0.5 * delta) : 0.5 * d * d)

static ls_status_t bce_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  out[0] = out[1] = LS_SHAPE(LS_F32, 1);
  out[2] = in[0];
  return values_shape(ctx, "bce", &in[0], &in[1], &in[2]);
}

/* Nothing overflows: log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)). */
static ls_status_t bce_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *logit = ls_in_f32(args, 0), *target = ls_in_f32(args, 1), *weight = ls_in_f32(args, 2);
  float *p = ls_out_f32(args, 2);
  int64_t rows = ls_in_shape(args, 0)->dim[0], outputs = ls_shape_inner(ls_in_shape(args, 0), 1), correct = 0;
  double sum = 0;
  for (int64_t r = 0; r < rows; r++) {
    double one = 0;
    for (int64_t o = r * outputs; o < (r + 1) * outputs; o++) {
      double x = logit[o], e = exp(-fabs(x));
      one += (x > 0 ? x : 0) - x * target[o] + log1p(e);
      p[o] = (float)((x >= 0 ? 1 : e) / (1 + e));
      correct += weight[r] > 0 && (logit[o] > 0) == (target[o] > 0.5f);
    }
    sum += weight[r] * (one / (double)outputs);
  }
  ls_out_f32(args, 0)[0] = (float)sum;
  ls_out_f32(args, 1)[0] = (float)correct;
  return LS_OK;
}

static ls_status_t bce_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                const ls_tensor_id_t *grad_out, const bool *wanted, ls_tensor_id_t *grad_in) {
  return values_backward(graph, node, &ls_op_bce_dx, node->out[2], grad_out, wanted, grad_in);
}

const ls_op_t ls_op_bce = {LS_OP("bce", LS_OP_REDUCTION, 3, 3, bce_shape, bce_forward),
                           .backward = bce_backward, .flops_each = 16};
