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

/* y = max(x, 0). A NaN stays a NaN, so that the guard of the step can see it. */
static ls_status_t relu_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  float *y = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++)
    y[k] = x[k] < 0 ? 0 : x[k];
  return LS_OK;
}

static ls_status_t relu_dy_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *y = ls_in_f32(args, 1);
  float *dx = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++)
    dx[k] = y[k] > 0 ? dy[k] : 0;
  return LS_OK;
}

static double normal_cdf(double x) {
  return 0.5 * (1 + erf(x * 0.70710678118654752));
}
static double normal_pdf(double x) {
  return 0.39894228040143268 * exp(-0.5 * x * x);
}

/* Hendrycks and Gimpel 2016: x times the standard normal distribution function of x. */
static ls_status_t gelu_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  float *y = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++)
    y[k] = (float)(x[k] * normal_cdf(x[k]));
  return LS_OK;
}

static ls_status_t gelu_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *x = ls_in_f32(args, 1);
  float *dx = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++)
    dx[k] = (float)(dy[k] * (normal_cdf(x[k]) + x[k] * normal_pdf(x[k])));
  return LS_OK;
}

static ls_status_t tanh_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  float *y = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++)
    y[k] = (float)tanh(x[k]);
  return LS_OK;
}

/* dx = dy (1 - y^2) */
static ls_status_t tanh_dy_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *y = ls_in_f32(args, 1);
  float *dx = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++)
    dx[k] = (float)(dy[k] * (1 - (double)y[k] * y[k]));
  return LS_OK;
}

/* y = 1 / (1 + e^-x); e^-x overflows to infinity at worst, which gives the right 0. */
static ls_status_t sigmoid_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  float *y = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++)
    y[k] = (float)(1 / (1 + exp(-(double)x[k])));
  return LS_OK;
}

/* dx = dy y (1 - y) */
static ls_status_t sigmoid_dy_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *y = ls_in_f32(args, 1);
  float *dx = ls_out_f32(args, 0);
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++)
    dx[k] = (float)(dy[k] * (y[k] * (1 - (double)y[k])));
  return LS_OK;
}

static ls_status_t slope(ls_graph_t *graph, const ls_op_t *op, ls_tensor_id_t dy, ls_tensor_id_t value,
                         ls_tensor_id_t *grad_in) {
  grad_in[0] = ls_graph_op(graph, op, NULL, 2, (ls_tensor_id_t[]){dy, value}, NULL);
  return graph->status;
}

static ls_status_t relu_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  (void)wanted;
  return slope(graph, &ls_op_relu_dy, grad_out[0], node->out[0], grad_in);
}

static ls_status_t gelu_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  (void)wanted;
  return slope(graph, &ls_op_gelu_dx, grad_out[0], node->in[0], grad_in);
}

static ls_status_t tanh_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  (void)wanted;
  return slope(graph, &ls_op_tanh_dy, grad_out[0], node->out[0], grad_in);
}

static ls_status_t sigmoid_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                    const ls_tensor_id_t *grad_out, const bool *wanted,
                                    ls_tensor_id_t *grad_in) {
  (void)wanted;
  return slope(graph, &ls_op_sigmoid_dy, grad_out[0], node->out[0], grad_in);
}

/* A function like exp or erf counts as 4 operations. */
static int64_t flops_1(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return ls_flops_each(&in[0], 1);
}

static int64_t flops_8(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return ls_flops_each(&in[0], 8);
}

static const ls_op_case_t unary_cases[] = {
    {"one", 1, {LS_CASE_F32(-1, 1, 1)}, {{0}}, 2e-6, 2e-3},
    {"odd", 1, {LS_CASE_F32(-2, 2, 3, 7)}, {{0}}, 2e-6, 2e-3},
    {"three dimensions", 1, {LS_CASE_F32(-3, 3, 2, 5, 9)}, {{0}}, 2e-6, 2e-3},
    {"beyond a vector", 1, {LS_CASE_F32(-4, 4, 33, 65)}, {{0}}, 3e-6, 2e-3},
    {"saturated", 1, {LS_CASE_F32(-100, 100, 1000)}, {{0}}, 3e-6, 0},
    {"many", 1, {LS_CASE_F32(-4, 4, 131, 1027)}, {{0}}, 3e-6, 0},
};

#define SLOPE_CASE(label, ...)                                                                               \
  { label, 2, {LS_CASE_F32(-2, 2, __VA_ARGS__), LS_CASE_F32(-2, 2, __VA_ARGS__)}, {{0}}, 5e-6, 0 }
static const ls_op_case_t slope_cases[] = {
    SLOPE_CASE("one", 1),
    SLOPE_CASE("odd", 3, 7),
    SLOPE_CASE("three dimensions", 2, 5, 9),
    SLOPE_CASE("beyond a vector", 33, 65),
    SLOPE_CASE("many", 131, 1027),
};

const ls_op_t ls_op_relu = {
    .name = "relu",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 1,
    .out_count = 1,
    .shape = unary_shape,
    .forward = relu_forward,
    .backward = relu_backward,
    .flops = flops_1,
    .inplace = 1,
    LS_CASES(unary_cases),
};

const ls_op_t ls_op_relu_dy = {
    .name = "relu_dy",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 2,
    .out_count = 1,
    .shape = slope_shape,
    .forward = relu_dy_forward,
    .flops = flops_1,
    .inplace = 3,
    LS_CASES(slope_cases),
};

const ls_op_t ls_op_gelu = {
    .name = "gelu",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 1,
    .out_count = 1,
    .shape = unary_shape,
    .forward = gelu_forward,
    .backward = gelu_backward,
    .flops = flops_8,
    .inplace = 1,
    LS_CASES(unary_cases),
};

const ls_op_t ls_op_gelu_dx = {
    .name = "gelu_dx",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 2,
    .out_count = 1,
    .shape = slope_shape,
    .forward = gelu_dx_forward,
    .flops = flops_8,
    .inplace = 3,
    LS_CASES(slope_cases),
};

const ls_op_t ls_op_tanh = {
    .name = "tanh",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 1,
    .out_count = 1,
    .shape = unary_shape,
    .forward = tanh_forward,
    .backward = tanh_backward,
    .flops = flops_8,
    .inplace = 1,
    LS_CASES(unary_cases),
};

const ls_op_t ls_op_tanh_dy = {
    .name = "tanh_dy",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 2,
    .out_count = 1,
    .shape = slope_shape,
    .forward = tanh_dy_forward,
    .flops = flops_1,
    .inplace = 3,
    LS_CASES(slope_cases),
};

const ls_op_t ls_op_sigmoid = {
    .name = "sigmoid",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 1,
    .out_count = 1,
    .shape = unary_shape,
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
    .flops = flops_8,
    .inplace = 1,
    LS_CASES(unary_cases),
};

const ls_op_t ls_op_sigmoid_dy = {
    .name = "sigmoid_dy",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 2,
    .out_count = 1,
    .shape = slope_shape,
    .forward = sigmoid_dy_forward,
    .flops = flops_1,
    .inplace = 3,
    LS_CASES(slope_cases),
};
