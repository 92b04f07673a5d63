/* Activations and their gradients. No attributes; any f32 shape. A gradient takes (dy, y) where the result
 * alone tells the slope (the input's bytes are then free during the forward pass), else (dy, x). Values are
 * computed in f64 and rounded once. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>

static ls_status_t unary_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = ls_rule_tensor(ctx, "activation", "x", &in[0], LS_F32, 1, 0);
  if (!status) out[0] = in[0];
  return status;
}

static ls_status_t slope_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)attrs;
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "activation gradient", "dy", &in[0], LS_F32, 1, 0))) return status;
  if ((status = ls_rule_equal(ctx, "activation gradient", "dy", &in[0], "its value", &in[1]))) return status;
  out[0] = in[0];
  return LS_OK;
}

static double normal_cdf(double x) {
  return 0.5 * (1 + erf(x * 0.70710678118654752));
}
static double normal_pdf(double x) {
  return 0.39894228040143268 * exp(-0.5 * x * x);
}

static double logistic(double x) {
  return 1 / (1 + exp(-x));
}

/* The tanh form of GELU: x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3). */
static double bent(double x) {
  return tanh(0.79788456080286536 * (x + 0.044715 * x * x * x));
}
static double bent_slope(double x) {
  double t = bent(x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286536 * (1 + 0.134145 * x * x);
}

/* The rows of an activation, y = value(x), and of its gradient, dx = slope(dy, y) or slope(dy, x), written with a for
 * dy and b for the other. `reads`: the node's tensor that is b, its `out` or its `in`. */
#define ACTIVATION(activation, flops, value, gradient, reads, gradient_flops, slope)                         \
  LS_MAP(activation##_forward, value)                                                                        \
  LS_ZIP(gradient##_forward, slope)                                                                          \
  static ls_status_t activation##_backward(ls_graph_t *graph, const ls_graph_node_t *node,                   \
                                           const ls_tensor_id_t *grad_out, const bool *wanted,               \
                                           ls_tensor_id_t *grad_in) {                                        \
    (void)wanted;                                                                                            \
    const ls_tensor_id_t in[] = {grad_out[0], node->reads[0]};                                               \
    grad_in[0] = ls_graph_op(graph, &ls_op_##gradient, NULL, 2, in, NULL);                                   \
    return graph->status;                                                                                    \
  }                                                                                                          \
  const ls_op_t ls_op_##activation = {                                                                       \
      LS_OP(#activation, LS_OP_ELEMENTWISE, 1, 1, unary_shape, activation##_forward),                        \
      .backward = activation##_backward,                                                                     \
      .flops_each = (flops),                                                                                 \
      .inplace = 1,                                                                                          \
      .low_in = 1,                                                                                           \
      .low_out = 1};                                                                                         \
  const ls_op_t ls_op_##gradient = {                                                                         \
      LS_OP(#gradient, LS_OP_ELEMENTWISE, 2, 1, slope_shape, gradient##_forward),                            \
      .flops_each = (gradient_flops), .inplace = 3, .low_in = 3, .low_out = 1};

/* A NaN stays a NaN, so that the guard of the step can see it. */
ACTIVATION(relu, 1, (x < 0 ? 0 : x), relu_dy, out, 1, (b > 0 ? a : 0))

/* Hendrycks and Gimpel 2016: x times the standard normal distribution function of x. */
ACTIVATION(gelu, 8, (x * normal_cdf(x)), gelu_dx, in, 8, (a * (normal_cdf(b) + b * normal_pdf(b))))

/* The form of GPT-2. */
ACTIVATION(gelu_tanh, 8, (0.5 * x * (1 + bent(x))), gelu_tanh_dx, in, 8, (a * bent_slope(b)))

ACTIVATION(tanh, 8, tanh(x), tanh_dy, out, 1, (a * (1 - (double)b * b)))

/* e^-x may overflow to infinity, and the result is then the right 0. */
ACTIVATION(sigmoid, 8, (1 / (1 + exp(-(double)x))), sigmoid_dy, out, 1, (a * (b * (1 - (double)b))))

/* x times sigmoid(x) (Elfwing et al. 2017; swish). */
ACTIVATION(silu, 8, (x * logistic(x)), silu_dx, in, 8, (a * (logistic(b) * (1 + b * (1 - logistic(b))))))
