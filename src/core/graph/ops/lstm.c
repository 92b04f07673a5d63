/* One layer of an LSTM along time (Hochreiter and Schmidhuber 1997). Op linear has multiplied its inputs before:
 * all positions are one product. Gates in the order i, f, g, o; h and c of the previous position:
 *   a = gates_x + w_hh h;  i, f, o = sigmoid, g = tanh;  c' = f c + i g;  h' = o tanh(c') */
#include "graph/ops/recurrent.h"

enum { LSTM_GATES = 4 };

static ls_status_t lstm_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = ls_chain_check(ctx, "lstm_chain", attrs, &in[0], &in[1], LSTM_GATES);
  if (status) return status;
  out[0] = out[1] = ls_chain_states(&in[0], &in[1]);
  out[2] = in[0];
  return LS_OK;
}

static ls_status_t lstm_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *w = ls_in_f32(args, 1);
  float *y = ls_out_f32(args, 0), *c = ls_out_f32(args, 1), *gates = ls_out_f32(args, 2);
  const ls_chain_t k = ls_chain_of(&args->out[0].shape, args->attrs);
  for (int64_t r = 0; r < k.n; r++)
    for (int64_t s = 0; s < k.t; s++) {
      int64_t t = ls_chain_position(&k, s), before = ls_chain_position(&k, s - 1), row = r * k.t + t;
      const float *h0 = ls_chain_at(y, &k, r, before, k.h), *c0 = ls_chain_at(c, &k, r, before, k.h);
      for (int64_t e = 0; e < k.h; e++) {
        double a[LSTM_GATES];
        for (int g = 0; g < LSTM_GATES; g++) {
          int64_t unit = g * k.h + e, place = row * LSTM_GATES * k.h + unit;
          a[g] = x[place] + (h0 ? ls_chain_dot(k.h, w + unit * k.h, h0) : 0);
          a[g] = g == 2 ? tanh(a[g]) : ls_sigmoid(a[g]);
          gates[place] = (float)a[g];
        }
        double state = a[1] * (c0 ? c0[e] : 0) + a[0] * a[2];
        c[row * k.h + e] = (float)state;
        y[row * k.h + e] = (float)(a[3] * tanh(state));
      }
    }
  return LS_OK;
}

static ls_status_t lstm_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  if (grad_out[1] >= 0 || grad_out[2] >= 0)
    return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: c and gates take no gradient", node->name);
  if (grad_out[0] < 0) return LS_OK;
  ls_tensor_id_t in[] = {grad_out[0], node->out[1], node->out[2], node->in[1]};
  grad_in[0] = ls_graph_op(graph, &ls_op_lstm_chain_dx, &node->attrs, 4, in, NULL);
  if (wanted[1]) grad_in[1] = ls_chain_dw(graph, node, grad_in[0], NULL);
  return graph->status;
}

static ls_status_t lstm_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  ls_status_t status = ls_chain_check(ctx, "lstm_chain_dx", attrs, &in[2], &in[3], LSTM_GATES);
  if (status) return status;
  const ls_shape_t y = ls_chain_states(&in[2], &in[3]);
  if ((status = ls_rule_equal(ctx, "lstm_chain_dx", "dy", &in[0], "y", &y))) return status;
  if ((status = ls_rule_equal(ctx, "lstm_chain_dx", "c", &in[1], "y", &y))) return status;
  out[0] = in[2];
  return LS_OK;
}

/* The next position's dh and dc are in scratch, f64 (h) each. */
static ls_status_t lstm_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *c = ls_in_f32(args, 1), *gates = ls_in_f32(args, 2),
              *w = ls_in_f32(args, 3);
  float *dgates = ls_out_f32(args, 0);
  const ls_chain_t k = ls_chain_of(ls_in_shape(args, 0), args->attrs);
  double *dh = args->scratch, *dc = dh + k.h;
  for (int64_t r = 0; r < k.n; r++) {
    memset(dh, 0, 2 * (size_t)k.h * sizeof *dh);
    for (int64_t s = k.t - 1; s >= 0; s--) {
      int64_t row = r * k.t + ls_chain_position(&k, s);
      const float *v = gates + row * LSTM_GATES * k.h,
                  *c0 = ls_chain_at(c, &k, r, ls_chain_position(&k, s - 1), k.h);
      float *d = dgates + row * LSTM_GATES * k.h;
      for (int64_t e = 0; e < k.h; e++) {
        double i = v[e], f = v[k.h + e], g = v[2 * k.h + e], o = v[3 * k.h + e], q = tanh(c[row * k.h + e]);
        double up = dy[row * k.h + e] + dh[e], state = dc[e] + up * o * (1 - q * q);
        d[e] = (float)(state * g * i * (1 - i));
        d[k.h + e] = (float)(state * (c0 ? c0[e] : 0) * f * (1 - f));
        d[2 * k.h + e] = (float)(state * i * (1 - g * g));
        d[3 * k.h + e] = (float)(up * q * o * (1 - o));
        dc[e] = state * f;
        dh[e] = 0;
      }
      for (int64_t u = 0; u < LSTM_GATES * k.h; u++)
        for (int64_t e = 0; e < k.h; e++)
          dh[e] += (double)d[u] * w[u * k.h + e];
    }
  }
  return LS_OK;
}

const ls_op_t ls_op_lstm_chain = {
    .name = "lstm_chain",
    .class = LS_OP_RECURRENT,
    .in_count = 2,
    .out_count = 3,
    .shape = lstm_shape,
    .forward = lstm_forward,
    .backward = lstm_backward,
    .flops = ls_chain_flops,
    .scratch_bytes = ls_chain_scratch,
    .low_in = 3,
    .low_out = 1 | 4, /* all but c */
    .low_wants = true,
};

const ls_op_t ls_op_lstm_chain_dx = {
    .name = "lstm_chain_dx",
    .class = LS_OP_RECURRENT,
    .in_count = 4,
    .out_count = 1,
    .shape = lstm_dx_shape,
    .forward = lstm_dx_forward,
    .flops = ls_chain_dx_flops,
    .scratch_bytes = ls_chain_dx_scratch,
    .low_in = 1 | 4 | 8, /* all but c */
    .low_out = 1,
    .low_wants = true,
};
