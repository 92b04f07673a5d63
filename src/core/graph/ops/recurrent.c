/* Shared by the chains of LSTM and GRU, and the shift by one position that the gradient of their weights needs. */
#include "graph/ops/recurrent.h"

#include "device/chain.h"

ls_status_t ls_chain_check(ls_ctx_t *ctx, const char *op, const ls_attrs_t *attrs, const ls_shape_t *gates,
                           const ls_shape_t *w, int count) {
  ls_status_t status = ls_rule_tensor(ctx, op, "gates", gates, LS_F32, 3, 3);
  if (!status) status = ls_rule_tensor(ctx, op, "w_hh", w, LS_F32, 2, 2);
  if (status) return status;
  char tg[LS_SHAPE_TEXT_BYTES], tw[LS_SHAPE_TEXT_BYTES];
  if (gates->dim[2] != w->dim[0] || w->dim[0] != count * w->dim[1])
    return ls_fail(ctx, LS_ERR_SHAPE, "%s: gates %s and w_hh %s must be (n, t, %d h) and (%d h, h)", op,
                   ls_shape_text(gates, tg), ls_shape_text(w, tw), count, count);
  if (attrs->i[0] != 0 && attrs->i[0] != 1)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: direction %lld is not 0 or 1", op, (long long)attrs->i[0]);
  return LS_OK;
}

ls_tensor_id_t ls_chain_dw(ls_graph_t *graph, const ls_graph_node_t *node, ls_tensor_id_t dgates,
                           ls_tensor_id_t *db) {
  const ls_attrs_t shift = {.i = {node->attrs.i[0] == 1 ? -1 : 1}};
  ls_tensor_id_t dwb[2] = {-1, -1};
  ls_tensor_id_t before = ls_graph_op(graph, &ls_op_shift_positions, &shift, 1, node->out, NULL);
  ls_graph_op(graph, db ? &ls_op_linear_dwb : &ls_op_linear_dw, NULL, 2, (ls_tensor_id_t[]){dgates, before},
              dwb);
  if (db) *db = dwb[1];
  return dwb[0];
}

int64_t ls_chain_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return ls_shape_count(&in[0]) * (2 * in[1].dim[1] + 8);
}

int64_t ls_chain_dx_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return ls_shape_count(&in[2]) * (2 * in[0].dim[2] + 8);
}

size_t ls_chain_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return (size_t)ls_chain_packed_floats(in[1].dim[0] / in[1].dim[1], in[1].dim[1]) * sizeof(float);
}

size_t ls_chain_dx_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  int64_t n = in[0].dim[0], h = in[0].dim[2];
  return (size_t)(ls_chain_packed_floats(in[2].dim[2] / h, h) + ls_chain_carried_floats(n, h)) *
         sizeof(float);
}

/* ---- shift_positions ---- */

static ls_status_t shift_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  ls_status_t status = ls_rule_tensor(ctx, "shift_positions", "x", &in[0], LS_F32, 3, 3);
  if (status) return status;
  if (attrs->i[0] != 1 && attrs->i[0] != -1)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "shift_positions: a shift by %lld, 1 and -1 are possible",
                   (long long)attrs->i[0]);
  out[0] = in[0];
  return LS_OK;
}

static ls_status_t shift_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *x = ls_in_shape(args, 0);
  const float *from = ls_in_f32(args, 0);
  float *to = ls_out_f32(args, 0);
  int64_t h = x->dim[2], all = x->dim[1] * h, kept = all - h, later = args->attrs->i[0] == 1;
  for (int64_t r = 0; r < x->dim[0]; r++, from += all, to += all) {
    memcpy(to + later * h, from + !later * h, (size_t)kept * sizeof *to);
    memset(to + !later * kept, 0, (size_t)h * sizeof *to);
  }
  return LS_OK;
}

static ls_status_t shift_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                  const ls_tensor_id_t *grad_out, const bool *wanted,
                                  ls_tensor_id_t *grad_in) {
  (void)wanted;
  const ls_attrs_t back = {.i = {-node->attrs.i[0]}};
  grad_in[0] = ls_graph_op(graph, &ls_op_shift_positions, &back, 1, grad_out, NULL);
  return graph->status;
}

const ls_op_t ls_op_shift_positions = {
    LS_OP("shift_positions", LS_OP_ELEMENTWISE, 1, 1, shift_shape, shift_forward), .backward = shift_backward,
    .low_in = 1, .low_out = 1};
