/* Floats of another dtype, rounded to nearest, ties to even (base/half.h).
 *   i[0] the dtype of y: f32, bf16 or f16
 * The gradient is cast back to the dtype of x. */
#include "base/half.h"
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

static bool is_float(int64_t dtype) {
  return dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16;
}

static ls_status_t cast_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  if (!is_float(attrs->i[0]) || !is_float(in[0].dtype)) {
    char text[LS_SHAPE_TEXT_BYTES];
    return ls_fail(ctx, LS_ERR_SHAPE, "cast: x %s to dtype %lld is no cast between f32, bf16 and f16",
                   ls_shape_text(&in[0], text), (long long)attrs->i[0]);
  }
  out[0] = in[0];
  out[0].dtype = (ls_dtype_t)attrs->i[0];
  return LS_OK;
}

static float load(const ls_tensor_t *x, int64_t k) {
  if (x->shape.dtype == LS_F32) return ((const float *)x->data)[k];
  uint16_t bits = ((const uint16_t *)x->data)[k];
  return x->shape.dtype == LS_BF16 ? ls_f32_of_bf16(bits) : ls_f32_of_f16(bits);
}

static ls_status_t cast_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_tensor_t *y = &args->out[0];
  for (int64_t k = 0; k < ls_shape_count(&y->shape); k++) {
    float value = load(&args->in[0], k);
    if (y->shape.dtype == LS_F32)
      ((float *)y->data)[k] = value;
    else
      ((uint16_t *)y->data)[k] = y->shape.dtype == LS_BF16 ? ls_bf16_of_f32(value) : ls_f16_of_f32(value);
  }
  return LS_OK;
}

static ls_status_t cast_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  (void)wanted;
  ls_attrs_t back = {.i = {graph->tensors[node->in[0]].shape.dtype}};
  grad_in[0] = ls_graph_op(graph, &ls_op_cast, &back, 1, grad_out, NULL);
  return graph->status;
}

const ls_op_t ls_op_cast = {LS_OP("cast", LS_OP_ELEMENTWISE, 1, 1, cast_shape, cast_forward),
                            .backward = cast_backward, .flops_each = 1};
