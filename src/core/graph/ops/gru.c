/* One layer of a GRU along time (Cho et al. 2014; the form of cuDNN and PyTorch: the reset gate follows the
 * product). Op linear has multiplied its inputs before: all positions are one product. Gates in the order r, z, n;
 * h of the previous position:
 *   r, z = sigmoid(gates_x + w_hh h);  m = w_hn h + b_hn;  n = tanh(gates_x + r m);  h' = (1 - z) n + z h */
#include "graph/ops/recurrent.h"

enum { GRU_GATES = 3 };

static ls_status_t gru_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = ls_chain_check(ctx, "gru_chain", attrs, &in[0], &in[1], GRU_GATES);
  if (!status) status = ls_rule_vector(ctx, "gru_chain", "b_hn", &in[2], in[1].dim[1]);
  if (status) return status;
  out[0] = out[2] = ls_chain_states(&in[0], &in[1]);
  out[1] = in[0];
  return LS_OK;
}

static ls_status_t gru_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *w = ls_in_f32(args, 1), *b = ls_in_f32(args, 2);
  float *y = ls_out_f32(args, 0), *gates = ls_out_f32(args, 1), *m = ls_out_f32(args, 2);
  const ls_chain_t k = ls_chain_of(&args->out[0].shape, args->attrs);
  for (int64_t r = 0; r < k.n; r++)
    for (int64_t s = 0; s < k.t; s++) {
      int64_t row = r * k.t + ls_chain_position(&k, s);
      const float *h0 = ls_chain_at(y, &k, r, ls_chain_position(&k, s - 1), k.h),
                  *in = x + row * GRU_GATES * k.h;
      float *v = gates + row * GRU_GATES * k.h;
      for (int64_t e = 0; e < k.h; e++) {
        double a[GRU_GATES], h = h0 ? h0[e] : 0;
        for (int g = 0; g < GRU_GATES; g++)
          a[g] = h0 ? ls_chain_dot(k.h, w + (g * k.h + e) * k.h, h0) : 0;
        double reset = ls_sigmoid(in[e] + a[0]), update = ls_sigmoid(in[k.h + e] + a[1]), inner = a[2] + b[e];
        double fresh = tanh(in[2 * k.h + e] + reset * inner);
        v[e] = (float)reset;
        v[k.h + e] = (float)update;
        v[2 * k.h + e] = (float)fresh;
        m[row * k.h + e] = (float)inner;
        y[row * k.h + e] = (float)((1 - update) * fresh + update * h);
      }
    }
  return LS_OK;
}

/* b_hn's gradient is the last third of the bias' that belongs to w_hh's product. */
static ls_tensor_id_t last_third(ls_graph_t *graph, ls_tensor_id_t db, int64_t h) {
  const ls_attrs_t row = {.i = {2, 1, GRU_GATES * h}}, third = {.i = {2 * h, h}}, flat = {.i = {1, h}};
  ls_tensor_id_t x = ls_graph_op(graph, &ls_op_reshape, &row, 1, &db, NULL);
  x = ls_graph_op(graph, &ls_op_columns, &third, 1, &x, NULL);
  return ls_graph_op(graph, &ls_op_reshape, &flat, 1, &x, NULL);
}

static ls_status_t gru_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                const ls_tensor_id_t *grad_out, const bool *wanted, ls_tensor_id_t *grad_in) {
  if (grad_out[1] >= 0 || grad_out[2] >= 0)
    return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: gates and m take no gradient", node->name);
  if (grad_out[0] < 0) return LS_OK;
  ls_tensor_id_t in[] = {grad_out[0], node->out[0], node->out[1], node->out[2], node->in[1]};
  ls_tensor_id_t out[2] = {-1, -1}, db;
  grad_in[0] = ls_graph_op(graph, &ls_op_gru_chain_dx, &node->attrs, 5, in, out);
  if (!wanted[1] && !wanted[2]) return graph->status;
  grad_in[1] = ls_chain_dw(graph, node, out[1], &db);
  if (wanted[2]) grad_in[2] = last_third(graph, db, graph->tensors[node->in[1]].shape.dim[1]);
  return graph->status;
}

static ls_status_t gru_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  ls_status_t status = ls_chain_check(ctx, "gru_chain_dx", attrs, &in[2], &in[4], GRU_GATES);
  if (status) return status;
  const ls_shape_t y = ls_chain_states(&in[2], &in[4]);
  static const char *const names[] = {"dy", "y", NULL, "m"};
  for (int i = 0; i < LS_COUNT(names); i++)
    if (names[i] && (status = ls_rule_equal(ctx, "gru_chain_dx", names[i], &in[i], "states", &y)))
      return status;
  out[0] = out[1] = in[2];
  return LS_OK;
}

/* The two outputs differ in n alone: one is the gradient of gates_x, the other that of w_hh h, which r multiplies.
 * Scratch has dh of the position that was computed last, f64 (h). */
static ls_status_t gru_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *y = ls_in_f32(args, 1), *gates = ls_in_f32(args, 2),
              *m = ls_in_f32(args, 3), *w = ls_in_f32(args, 4);
  float *dx = ls_out_f32(args, 0), *dhidden = ls_out_f32(args, 1);
  const ls_chain_t k = ls_chain_of(ls_in_shape(args, 0), args->attrs);
  double *dh = args->scratch;
  for (int64_t r = 0; r < k.n; r++) {
    memset(dh, 0, (size_t)k.h * sizeof *dh);
    for (int64_t s = k.t - 1; s >= 0; s--) {
      int64_t row = r * k.t + ls_chain_position(&k, s);
      const float *v = gates + row * GRU_GATES * k.h,
                  *h0 = ls_chain_at(y, &k, r, ls_chain_position(&k, s - 1), k.h);
      float *a = dx + row * GRU_GATES * k.h, *d = dhidden + row * GRU_GATES * k.h;
      for (int64_t e = 0; e < k.h; e++) {
        double reset = v[e], update = v[k.h + e], fresh = v[2 * k.h + e], up = dy[row * k.h + e] + dh[e];
        double inner = up * (1 - update) * (1 - fresh * fresh);
        a[e] = d[e] = (float)(inner * m[row * k.h + e] * reset * (1 - reset));
        a[k.h + e] = d[k.h + e] = (float)(up * ((h0 ? h0[e] : 0) - fresh) * update * (1 - update));
        a[2 * k.h + e] = (float)inner;
        d[2 * k.h + e] = (float)(inner * reset);
        dh[e] = up * update;
      }
      for (int64_t u = 0; u < GRU_GATES * k.h; u++)
        for (int64_t e = 0; e < k.h; e++)
          dh[e] += (double)d[u] * w[u * k.h + e];
    }
  }
  return LS_OK;
}

const ls_op_t ls_op_gru_chain = {LS_OP("gru_chain", LS_OP_RECURRENT, 3, 3, gru_shape, gru_forward),
                                 .backward = gru_backward,
                                 .flops = ls_chain_flops,
                                 .scratch_bytes = ls_chain_scratch,
                                 .low_in = 3,
                                 .low_out = 7,
                                 .low_wants = true};

const ls_op_t ls_op_gru_chain_dx = {
    LS_OP("gru_chain_dx", LS_OP_RECURRENT, 5, 2, gru_dx_shape, gru_dx_forward),
    .flops = ls_chain_dx_flops,
    .scratch_bytes = ls_chain_dx_scratch,
    .low_in = 31,
    .low_out = 3,
    .low_wants = true};
