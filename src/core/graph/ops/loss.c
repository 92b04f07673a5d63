/* Losses of classes: sums over samples of weight times the sample's loss. Weights carry 1 / samples of the global batch
 * and 0 for padding rows, so that partial sums over micro-batches and ranks just add up.
 * Nothing here hides a NaN: the guard of the step (optim) looks for them. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>

static ls_status_t xent_inputs(ls_ctx_t *ctx, const char *op, const char *what, const ls_shape_t *logits,
                               const ls_shape_t *target, const ls_shape_t *weight, int64_t classes) {
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, op, what, logits, LS_F32, 2, 2))) return status;
  if (classes > logits->dim[1])
    return ls_fail(ctx, LS_ERR_SHAPE, "%s: %s have %lld columns, not %lld classes", op, what,
                   (long long)logits->dim[1], (long long)classes);
  ls_shape_t rows = LS_SHAPE(LS_I32, logits->dim[0]);
  if ((status = ls_rule_equal(ctx, op, "target", target, "one class a row", &rows))) return status;
  return ls_rule_vector(ctx, op, "weight", weight, logits->dim[0]);
}

static ls_status_t xent_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = xent_inputs(ctx, "softmax_xent", "logits", &in[0], &in[1], &in[2], attrs->i[0]);
  if (status) return status;
  out[0] = out[1] = LS_SHAPE(LS_F32, 1);
  out[2] = in[0];
  return LS_OK;
}

/* Loss of a row: log(sum of exp(x - max)) - (x[target] - max), which cannot overflow. Smoothing replaces that share
 * of the target's logit by the mean of all. A target outside [0, c) makes the loss NaN instead of reading other
 * memory. */
static ls_status_t xent_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *weight = ls_in_f32(args, 2);
  const int32_t *target = args->in[1].data;
  float *p = ls_out_f32(args, 2);
  int64_t rows = ls_in_shape(args, 0)->dim[0], width = ls_in_shape(args, 0)->dim[1], correct = 0;
  int64_t classes = ls_attrs_classes(args->attrs, width);
  double loss = 0, smoothing = args->attrs->f[0];
  for (int64_t r = 0; r < rows; r++, x += width, p += width) {
    int64_t best = 0, t = target[r];
    for (int64_t c = 1; c < classes; c++)
      if (x[c] > x[best]) best = c;
    double sum = 0, all = 0, max = x[best];
    for (int64_t c = 0; c < classes; c++) {
      sum += exp(x[c] - max);
      all += x[c] - max;
    }
    double mean = smoothing > 0 ? smoothing * all / (double)classes : 0;
    for (int64_t c = 0; c < width; c++)
      p[c] = c < classes ? (float)(exp(x[c] - max) / sum) : 0;
    loss += weight[r] * (t >= 0 && t < classes ? log(sum) - (1 - smoothing) * (x[t] - max) - mean : NAN);
    correct += weight[r] > 0 && best == t;
  }
  ls_out_f32(args, 0)[0] = (float)loss;
  ls_out_f32(args, 1)[0] = (float)correct;
  return LS_OK;
}

/* The correct count is piecewise constant, so its gradient is zero. */
static ls_status_t xent_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  if (grad_out[2] >= 0 || wanted[2])
    return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: probabilities and weights take no gradient",
                   node->name);
  if (grad_out[0] < 0) return LS_OK;
  ls_tensor_id_t in[] = {grad_out[0], node->out[2], node->in[1], node->in[2]};
  if (wanted[0]) grad_in[0] = ls_graph_op(graph, &ls_op_softmax_xent_dx, &node->attrs, 4, in, NULL);
  return graph->status;
}

static ls_status_t xent_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  ls_status_t status;
  if ((status = ls_rule_vector(ctx, "softmax_xent_dx", "dloss", &in[0], 1))) return status;
  if ((status = xent_inputs(ctx, "softmax_xent_dx", "prob", &in[1], &in[2], &in[3], attrs->i[0])))
    return status;
  out[0] = in[1];
  return LS_OK;
}

/* dlogits = dloss * weight * (prob - the target's probability of the class) */
static ls_status_t xent_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *p = ls_in_f32(args, 1), *weight = ls_in_f32(args, 3);
  const int32_t *target = args->in[2].data;
  float *dx = ls_out_f32(args, 0), dloss = ls_in_f32(args, 0)[0];
  int64_t rows = ls_in_shape(args, 1)->dim[0], width = ls_in_shape(args, 1)->dim[1];
  int64_t classes = ls_attrs_classes(args->attrs, width);
  float each = (float)(args->attrs->f[0] / (double)classes), hit = (float)(1 - args->attrs->f[0]) + each;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < width; c++)
      dx[r * width + c] =
          c < classes ? dloss * weight[r] * (p[r * width + c] - (c == target[r] ? hit : each)) : 0;
  return LS_OK;
}

static ls_status_t positions_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                   ls_shape_t *out) {
  (void)attrs;
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "position_weights", "target", &in[0], LS_I32, 2, 2))) return status;
  if ((status = ls_rule_vector(ctx, "position_weights", "weight", &in[1], in[0].dim[0]))) return status;
  out[0] = LS_SHAPE(LS_F32, ls_shape_count(&in[0]));
  out[1] = LS_SHAPE(LS_I32, ls_shape_count(&in[0]));
  return LS_OK;
}

static ls_status_t positions_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const int32_t *target = args->in[0].data, ignored = (int32_t)args->attrs->i[0];
  const float *weight = ls_in_f32(args, 1);
  float *each = ls_out_f32(args, 0);
  int32_t *to = args->out[1].data;
  int64_t rows = ls_in_shape(args, 0)->dim[0], positions = ls_in_shape(args, 0)->dim[1];
  for (int64_t r = 0; r < rows; r++, target += positions, each += positions, to += positions) {
    int64_t count = 0;
    for (int64_t k = 0; k < positions; k++)
      count += target[k] != ignored;
    for (int64_t k = 0; k < positions; k++) {
      bool counts = target[k] != ignored;
      each[k] = counts ? weight[r] / (float)count : 0;
      to[k] = counts ? target[k] : 0;
    }
  }
  return LS_OK;
}

const ls_op_t ls_op_softmax_xent = {LS_OP("softmax_xent", LS_OP_REDUCTION, 3, 3, xent_shape, xent_forward),
                                    .backward = xent_backward, .flops_each = 8, .low_in = 1, .low_out = 4};

const ls_op_t ls_op_softmax_xent_dx = {
    .name = "softmax_xent_dx",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 4,
    .out_count = 1,
    .shape = xent_dx_shape,
    .forward = xent_dx_forward,
    .flops_each = 2,
    .inplace = 2, /* over the probabilities */
    .low_in = 2,
    .low_out = 1,
};

const ls_op_t ls_op_position_weights = {
    LS_OP("position_weights", LS_OP_ELEMENTWISE, 2, 2, positions_shape, positions_forward), .flops_each = 1};
