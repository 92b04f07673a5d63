/* Changes the number of rows: missing rows are 0, surplus rows are left out.
 *   resize_rows  (x (r, ..)) -> y (i[0], ..) */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <string.h>

static ls_status_t resize_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  ls_status_t status = ls_rule_tensor(ctx, "resize_rows", "x", &in[0], LS_F32, 1, 0);
  if (status) return status;
  if (attrs->i[0] < 1)
    return ls_fail(ctx, LS_ERR_SHAPE, "resize_rows: %lld rows, must be at least 1", (long long)attrs->i[0]);
  out[0] = in[0];
  out[0].dim[0] = attrs->i[0];
  return LS_OK;
}

static ls_status_t resize_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  size_t from_bytes = ls_shape_bytes(ls_in_shape(args, 0)), to_bytes = ls_shape_bytes(&args->out[0].shape);
  size_t both_bytes = from_bytes < to_bytes ? from_bytes : to_bytes;
  memcpy(args->out[0].data, args->in[0].data, both_bytes);
  memset((char *)args->out[0].data + both_bytes, 0, to_bytes - both_bytes);
  return LS_OK;
}

static ls_status_t resize_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                   const ls_tensor_id_t *grad_out, const bool *wanted,
                                   ls_tensor_id_t *grad_in) {
  (void)wanted;
  const ls_attrs_t attrs = {.i = {graph->tensors[node->in[0]].shape.dim[0]}};
  grad_in[0] = ls_graph_op(graph, &ls_op_resize_rows, &attrs, 1, grad_out, NULL);
  return graph->status;
}

const ls_op_t ls_op_resize_rows = {
    LS_OP("resize_rows", LS_OP_ELEMENTWISE, 1, 1, resize_shape, resize_forward), .backward = resize_backward,
    .low_in = 1, .low_out = 1};
