/* Sum or mean over trailing dimensions.
 *   i[0] how many (>= 1)   i[1] 0 sum, 1 mean
 * Reducing every dimension gives shape (1): a scalar in this library is always f32 (1). */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

static ls_status_t result_shape(ls_ctx_t *ctx, const char *op, const ls_attrs_t *attrs, const ls_shape_t *x,
                                ls_shape_t *out) {
  ls_status_t status = ls_rule_tensor(ctx, op, "x", x, LS_F32, 1, 0);
  if (status) return status;
  if (attrs->i[0] < 1 || attrs->i[0] > x->rank) {
    char text[LS_SHAPE_TEXT_BYTES];
    return ls_fail(ctx, LS_ERR_SHAPE, "%s: cannot reduce %lld dimensions of x %s", op, (long long)attrs->i[0],
                   ls_shape_text(x, text));
  }
  *out = *x;
  for (int64_t k = 0; k < attrs->i[0]; k++)
    out->dim[--out->rank] = 0;
  if (out->rank == 0) *out = LS_SHAPE(LS_F32, 1);
  return LS_OK;
}

static ls_status_t reduce_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  return result_shape(ctx, "reduce", attrs, &in[0], &out[0]);
}

static ls_status_t reduce_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  float *y = ls_out_f32(args, 0);
  int64_t groups = ls_shape_count(&args->out[0].shape), size = ls_shape_count(ls_in_shape(args, 0)) / groups;
  for (int64_t g = 0; g < groups; g++) {
    double sum = 0;
    for (int64_t k = 0; k < size; k++)
      sum += x[g * size + k];
    y[g] = (float)(args->attrs->i[1] ? sum / (double)size : sum);
  }
  return LS_OK;
}

static ls_status_t reduce_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                   const ls_tensor_id_t *grad_out, const bool *wanted,
                                   ls_tensor_id_t *grad_in) {
  (void)wanted;
  ls_tensor_id_t in[] = {grad_out[0], node->in[0]};
  grad_in[0] = ls_graph_op(graph, &ls_op_reduce_dx, &node->attrs, 2, in, NULL);
  return graph->status;
}

static ls_status_t reduce_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                   ls_shape_t *out) {
  ls_shape_t result;
  ls_status_t status;
  if ((status = result_shape(ctx, "reduce_dx", attrs, &in[1], &result))) return status;
  if ((status = ls_rule_equal(ctx, "reduce_dx", "dy", &in[0], "the reduced x", &result))) return status;
  out[0] = in[1];
  return LS_OK;
}

/* Every element of a group gets the group's dy (divided by the group's size for the mean); x
 * gives the shape. */
static ls_status_t reduce_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0);
  float *dx = ls_out_f32(args, 0);
  int64_t groups = ls_shape_count(ls_in_shape(args, 0)), size = ls_shape_count(ls_in_shape(args, 1)) / groups;
  for (int64_t g = 0; g < groups; g++) {
    float each = args->attrs->i[1] ? dy[g] / (float)size : dy[g];
    for (int64_t k = 0; k < size; k++)
      dx[g * size + k] = each;
  }
  return LS_OK;
}

static int64_t reduce_dx_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)out;
  return attrs->i[1] ? ls_shape_count(&in[0]) : 0;
}

/* x is not read; only its shape counts. */
static int64_t reduce_dx_bytes(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  return (int64_t)ls_shape_bytes(&in[0]) + (int64_t)ls_shape_bytes(&out[0]);
}

const ls_op_t ls_op_reduce = {LS_OP("reduce", LS_OP_REDUCTION, 1, 1, reduce_shape, reduce_forward),
                              .backward = reduce_backward, .flops_each = 1};

const ls_op_t ls_op_reduce_dx = {
    .name = "reduce_dx",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 2,
    .out_count = 1,
    .shape = reduce_dx_shape,
    .forward = reduce_dx_forward,
    .flops = reduce_dx_flops,
    .bytes = reduce_dx_bytes,
    .inplace = 2, /* over x, of which only the shape counts */

};
