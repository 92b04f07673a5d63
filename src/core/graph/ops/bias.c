/* A value for each of the trailing dimensions, added at every position of the others: a convolution's bias, a table
 * of positions. Its gradient is a sum over the leading dimensions, in f64.
 *   bias         (x (n.., d..), b (d..)) -> x + b
 *   sum_leading  (dy (n.., d..)) -> (d..), the i[0] trailing dimensions */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

/* The trailing dimensions. */
static ls_shape_t trailing(const ls_shape_t *x, int64_t count) {
  ls_shape_t shape = {.dtype = LS_F32, .rank = (int)count};
  for (int k = 0; k < shape.rank; k++)
    shape.dim[k] = x->dim[x->rank - shape.rank + k];
  return shape;
}

static ls_status_t bias_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = ls_rule_tensor(ctx, "bias", "x", &in[0], LS_F32, 2, 0);
  if (!status) status = ls_rule_tensor(ctx, "bias", "b", &in[1], LS_F32, 1, in[0].rank - 1);
  if (status) return status;
  ls_shape_t want = trailing(&in[0], in[1].rank);
  out[0] = in[0];
  return ls_rule_equal(ctx, "bias", "b", &in[1], "x's last dimensions", &want);
}

static ls_status_t bias_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *b = ls_in_f32(args, 1);
  int64_t width = ls_shape_count(ls_in_shape(args, 1));
  for (int64_t e = 0; e < ls_shape_count(ls_in_shape(args, 0)); e++)
    ls_out_f32(args, 0)[e] = x[e] + b[e % width];
  return LS_OK;
}

static ls_status_t bias_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  const ls_attrs_t attrs = {.i = {graph->tensors[node->in[1]].shape.rank}};
  grad_in[0] = grad_out[0];
  if (wanted[1]) grad_in[1] = ls_graph_op(graph, &ls_op_sum_leading, &attrs, 1, grad_out, NULL);
  return graph->status;
}

static ls_status_t sum_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = ls_rule_tensor(ctx, "sum_leading", "dy", &in[0], LS_F32, 2, 0);
  if (status) return status;
  if (attrs->i[0] < 1 || attrs->i[0] >= in[0].rank)
    return ls_fail(ctx, LS_ERR_SHAPE, "sum_leading: %lld of %d dimensions cannot be kept",
                   (long long)attrs->i[0], in[0].rank);
  out[0] = trailing(&in[0], attrs->i[0]);
  return LS_OK;
}

static ls_status_t sum_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0);
  int64_t width = ls_shape_count(&args->out[0].shape), count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t c = 0; c < width; c++) {
    double sum = 0;
    for (int64_t e = c; e < count; e += width)
      sum += dy[e];
    ls_out_f32(args, 0)[c] = (float)sum;
  }
  return LS_OK;
}

const ls_op_t ls_op_bias = {LS_OP("bias", LS_OP_ELEMENTWISE, 2, 1, bias_shape, bias_forward),
                            .backward = bias_backward,
                            .flops_each = 1,
                            .inplace = 1,
                            .low_in = 3,
                            .low_out = 1};
const ls_op_t ls_op_sum_leading = {LS_OP("sum_leading", LS_OP_REDUCTION, 1, 1, sum_shape, sum_forward),
                                   .flops_each = 1, .low_in = 1};
