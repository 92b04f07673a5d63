/* Recurrent chains: what one layer of an LSTM or GRU does along time, once the products with its inputs are done
 * (those of all positions are one product, op linear). Gates keep their values after their functions, because the
 * gradients need nothing else. Samples are independent. i[0] = 1: from the last position to the first.
 *   LSTM (Hochreiter and Schmidhuber 1997), gates in the order i, f, g, o, h and c of the position before:
 *     a = gates_x + w_hh h;  i, f, o = sigmoid, g = tanh;  c' = f c + i g;  h' = o tanh(c')
 *   GRU (Cho et al. 2014; the form of cuDNN and PyTorch, the reset gate behind the product), order r, z, n:
 *     r, z = sigmoid(gates_x + w_hh h);  m = w_hn h + b_hn;  n = tanh(gates_x + r m);  h' = (1 - z) n + z h */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>
#include <string.h>

enum { LSTM_GATES = 4, GRU_GATES = 3 };

/* Sizes of a chain, and its order in time. */
typedef struct {
  int64_t n, t, h;
  bool back;
} chain_t;

/* From a (n, t, h) tensor. */
static chain_t chain_of(const ls_shape_t *y, const ls_attrs_t *attrs) {
  return (chain_t){y->dim[0], y->dim[1], y->dim[2], attrs->i[0] == 1};
}

/* The s-th position in the chain's order, and the one before it; -1: there is none. */
static int64_t position(const chain_t *c, int64_t s) {
  return s < 0 ? -1 : c->back ? c->t - 1 - s : s;
}

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double dot(int64_t count, const float *a, const float *b) {
  double sum = 0;
  for (int64_t k = 0; k < count; k++)
    sum += (double)a[k] * b[k];
  return sum;
}

/* The row of position t of sample r, of `width` numbers; NULL when t is -1. */
static const float *at(const float *x, const chain_t *c, int64_t r, int64_t t, int64_t width) {
  return t < 0 ? NULL : x + (r * c->t + t) * width;
}

static ls_status_t check_weights(ls_ctx_t *ctx, const char *op, const ls_attrs_t *attrs,
                                 const ls_shape_t *gates, const ls_shape_t *w, int count) {
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

static ls_shape_t states_of(const ls_shape_t *gates, const ls_shape_t *w) {
  return LS_SHAPE(LS_F32, gates->dim[0], gates->dim[1], w->dim[1]);
}

/* ---- LSTM ---- */

static ls_status_t lstm_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = check_weights(ctx, "lstm_chain", attrs, &in[0], &in[1], LSTM_GATES);
  if (status) return status;
  out[0] = out[1] = states_of(&in[0], &in[1]);
  out[2] = in[0];
  return LS_OK;
}

static ls_status_t lstm_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *w = ls_in_f32(args, 1);
  float *y = ls_out_f32(args, 0), *c = ls_out_f32(args, 1), *gates = ls_out_f32(args, 2);
  const chain_t k = chain_of(&args->out[0].shape, args->attrs);
  for (int64_t r = 0; r < k.n; r++)
    for (int64_t s = 0; s < k.t; s++) {
      int64_t t = position(&k, s), before = position(&k, s - 1), row = r * k.t + t;
      const float *h0 = at(y, &k, r, before, k.h), *c0 = at(c, &k, r, before, k.h);
      for (int64_t e = 0; e < k.h; e++) {
        double a[LSTM_GATES];
        for (int g = 0; g < LSTM_GATES; g++) {
          int64_t unit = g * k.h + e, place = row * LSTM_GATES * k.h + unit;
          a[g] = x[place] + (h0 ? dot(k.h, w + unit * k.h, h0) : 0);
          a[g] = g == 2 ? tanh(a[g]) : sigmoid(a[g]);
          gates[place] = (float)a[g];
        }
        double state = a[1] * (c0 ? c0[e] : 0) + a[0] * a[2];
        c[row * k.h + e] = (float)state;
        y[row * k.h + e] = (float)(a[3] * tanh(state));
      }
    }
  return LS_OK;
}

/* The weights' gradient is one product over all positions: of the gates' gradients and the outputs of the
 * position before. */
static ls_tensor_id_t weights_gradient(ls_graph_t *graph, const ls_graph_node_t *node, ls_tensor_id_t dgates,
                                       ls_tensor_id_t *db) {
  const ls_attrs_t shift = {.i = {node->attrs.i[0] == 1 ? -1 : 1}};
  ls_tensor_id_t dwb[2] = {-1, -1};
  ls_tensor_id_t before = ls_graph_op(graph, &ls_op_shift_positions, &shift, 1, node->out, NULL);
  ls_graph_op(graph, &ls_op_linear_dwb, NULL, 2, (ls_tensor_id_t[]){dgates, before}, dwb);
  *db = dwb[1];
  return dwb[0];
}

static ls_status_t lstm_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  if (grad_out[1] >= 0 || grad_out[2] >= 0)
    return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: c and gates take no gradient", node->name);
  if (grad_out[0] < 0) return LS_OK;
  ls_tensor_id_t in[] = {grad_out[0], node->out[1], node->out[2], node->in[1]}, unused;
  grad_in[0] = ls_graph_op(graph, &ls_op_lstm_chain_dx, &node->attrs, 4, in, NULL);
  if (wanted[1]) grad_in[1] = weights_gradient(graph, node, grad_in[0], &unused);
  return graph->status;
}

static ls_status_t lstm_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  ls_status_t status = check_weights(ctx, "lstm_chain_dx", attrs, &in[2], &in[3], LSTM_GATES);
  if (status) return status;
  const ls_shape_t y = states_of(&in[2], &in[3]);
  if ((status = ls_rule_equal(ctx, "lstm_chain_dx", "dy", &in[0], "y", &y))) return status;
  if ((status = ls_rule_equal(ctx, "lstm_chain_dx", "c", &in[1], "y", &y))) return status;
  out[0] = in[2];
  return LS_OK;
}

/* dh and dc of the position behind are in scratch, f64 (h) each. */
static ls_status_t lstm_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *c = ls_in_f32(args, 1), *gates = ls_in_f32(args, 2),
              *w = ls_in_f32(args, 3);
  float *dgates = ls_out_f32(args, 0);
  const chain_t k = chain_of(ls_in_shape(args, 0), args->attrs);
  double *dh = args->scratch, *dc = dh + k.h;
  for (int64_t r = 0; r < k.n; r++) {
    memset(dh, 0, 2 * (size_t)k.h * sizeof *dh);
    for (int64_t s = k.t - 1; s >= 0; s--) {
      int64_t row = r * k.t + position(&k, s);
      const float *v = gates + row * LSTM_GATES * k.h, *c0 = at(c, &k, r, position(&k, s - 1), k.h);
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

/* ---- GRU ---- */

static ls_status_t gru_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = check_weights(ctx, "gru_chain", attrs, &in[0], &in[1], GRU_GATES);
  if (!status) status = ls_rule_vector(ctx, "gru_chain", "b_hn", &in[2], in[1].dim[1]);
  if (status) return status;
  out[0] = out[2] = states_of(&in[0], &in[1]);
  out[1] = in[0];
  return LS_OK;
}

static ls_status_t gru_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *w = ls_in_f32(args, 1), *b = ls_in_f32(args, 2);
  float *y = ls_out_f32(args, 0), *gates = ls_out_f32(args, 1), *m = ls_out_f32(args, 2);
  const chain_t k = chain_of(&args->out[0].shape, args->attrs);
  for (int64_t r = 0; r < k.n; r++)
    for (int64_t s = 0; s < k.t; s++) {
      int64_t row = r * k.t + position(&k, s);
      const float *h0 = at(y, &k, r, position(&k, s - 1), k.h), *in = x + row * GRU_GATES * k.h;
      float *v = gates + row * GRU_GATES * k.h;
      for (int64_t e = 0; e < k.h; e++) {
        double a[GRU_GATES], h = h0 ? h0[e] : 0;
        for (int g = 0; g < GRU_GATES; g++)
          a[g] = h0 ? dot(k.h, w + (g * k.h + e) * k.h, h0) : 0;
        double reset = sigmoid(in[e] + a[0]), update = sigmoid(in[k.h + e] + a[1]), inner = a[2] + b[e];
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
  grad_in[1] = weights_gradient(graph, node, out[1], &db);
  if (wanted[2]) grad_in[2] = last_third(graph, db, graph->tensors[node->in[1]].shape.dim[1]);
  return graph->status;
}

static ls_status_t gru_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  ls_status_t status = check_weights(ctx, "gru_chain_dx", attrs, &in[2], &in[4], GRU_GATES);
  if (status) return status;
  const ls_shape_t y = states_of(&in[2], &in[4]);
  static const char *const names[] = {"dy", "y", NULL, "m"};
  for (int i = 0; i < LS_COUNT(names); i++)
    if (names[i] && (status = ls_rule_equal(ctx, "gru_chain_dx", names[i], &in[i], "states", &y)))
      return status;
  out[0] = out[1] = in[2];
  return LS_OK;
}

/* The two outputs differ in n alone: with respect to gates_x, and to w_hh h, which r multiplies. dh of the position
 * behind is in scratch, f64 (h). */
static ls_status_t gru_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *y = ls_in_f32(args, 1), *gates = ls_in_f32(args, 2),
              *m = ls_in_f32(args, 3), *w = ls_in_f32(args, 4);
  float *dx = ls_out_f32(args, 0), *dhidden = ls_out_f32(args, 1);
  const chain_t k = chain_of(ls_in_shape(args, 0), args->attrs);
  double *dh = args->scratch;
  for (int64_t r = 0; r < k.n; r++) {
    memset(dh, 0, (size_t)k.h * sizeof *dh);
    for (int64_t s = k.t - 1; s >= 0; s--) {
      int64_t row = r * k.t + position(&k, s);
      const float *v = gates + row * GRU_GATES * k.h, *h0 = at(y, &k, r, position(&k, s - 1), k.h);
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

/* ---- costs: the products of all positions, and about 4 for each function of a gate ---- */

static int64_t chain_flops(const ls_shape_t *gates, const ls_shape_t *w) {
  return ls_shape_count(gates) * (2 * w->dim[1] + 8);
}

static int64_t lstm_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return chain_flops(&in[0], &in[1]);
}

static int64_t lstm_dx_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return chain_flops(&in[2], &in[3]);
}

static int64_t gru_dx_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return chain_flops(&in[2], &in[4]);
}

/* Room for the weights in another order, and for the gates of one position of all samples: for tuned versions. */
static size_t forward_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return (size_t)(ls_shape_count(&in[1]) + in[0].dim[0] * in[0].dim[2]) * sizeof(float);
}

/* Two states of every sample, and one more; at least two of f64. */
static size_t dx_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  int64_t states = 2 * in[0].dim[0] + 2;
  return (size_t)(states * in[0].dim[2]) * sizeof(float);
}

#define LSTM_CASE(label, n, t, h, back, tol, grad_tol)                                                       \
  {                                                                                                          \
    label, 2, {LS_CASE_F32(-2, 2, n, t, 4 * (h)), LS_CASE_F32(-1, 1, 4 * (h), h)}, {.i = {back}}, tol,       \
        grad_tol                                                                                             \
  }
static const ls_op_case_t lstm_cases[] = {
    LSTM_CASE("one", 1, 1, 1, 0, 2e-6, 2e-3),
    LSTM_CASE("odd", 3, 4, 5, 0, 5e-6, 4e-3),
    LSTM_CASE("backwards in time", 2, 5, 3, 1, 5e-6, 4e-3),
    LSTM_CASE("one sample", 1, 6, 7, 0, 5e-6, 4e-3),
    LSTM_CASE("beyond a vector", 9, 3, 19, 1, 1e-5, 4e-3),
    {"medium", 2, {LS_CASE_F32(-2, 2, 33, 6, 260), LS_CASE_F32(-0.2f, 0.2f, 260, 65)}, {{0}}, 2e-5, 0},
    {"many samples", 2, {LS_CASE_F32(-2, 2, 83, 3, 148), LS_CASE_F32(-0.2f, 0.2f, 148, 37)}, {{0}}, 2e-5, 0},
    {"most samples", 2, {LS_CASE_F32(-2, 2, 83, 3, 660), LS_CASE_F32(-0.1f, 0.1f, 660, 165)}, {{0}}, 2e-5, 0},
    {"widest at once",
     2,
     {LS_CASE_F32(-2, 2, 3, 3, 1016), LS_CASE_F32(-0.1f, 0.1f, 1016, 254)},
     {{0}},
     2e-5,
     0},
    {"wide", 2, {LS_CASE_F32(-2, 2, 3, 3, 1036), LS_CASE_F32(-0.1f, 0.1f, 1036, 259)}, {{0}}, 2e-5, 0},
};

/* dy, c, gates, w_hh: any numbers in the ranges of their functions. */
#define LSTM_DX_CASE(label, n, t, h, back, tol)                                                              \
  {                                                                                                          \
    label, 4,                                                                                                \
        {LS_CASE_F32(-1, 1, n, t, h), LS_CASE_F32(-2, 2, n, t, h), LS_CASE_F32(0.1f, 0.9f, n, t, 4 * (h)),   \
         LS_CASE_F32(-0.2f, 0.2f, 4 * (h), h)},                                                              \
        {.i = {back}}, tol, 0                                                                                \
  }
static const ls_op_case_t lstm_dx_cases[] = {
    LSTM_DX_CASE("one", 1, 1, 1, 0, 2e-6),
    LSTM_DX_CASE("odd", 3, 4, 5, 0, 5e-6),
    LSTM_DX_CASE("backwards in time", 9, 5, 19, 1, 1e-5),
    LSTM_DX_CASE("medium", 33, 6, 65, 0, 2e-5),
    LSTM_DX_CASE("many samples", 83, 3, 37, 1, 2e-5),
    LSTM_DX_CASE("most samples", 83, 3, 165, 0, 5e-5),
    LSTM_DX_CASE("widest at once", 3, 3, 254, 0, 5e-5),
    LSTM_DX_CASE("wide", 3, 3, 259, 0, 5e-5),
};

#define GRU_CASE(label, n, t, h, back, tol, grad_tol)                                                        \
  {                                                                                                          \
    label, 3, {LS_CASE_F32(-2, 2, n, t, 3 * (h)), LS_CASE_F32(-1, 1, 3 * (h), h), LS_CASE_F32(-1, 1, h)},    \
        {.i = {back}}, tol, grad_tol                                                                         \
  }
static const ls_op_case_t gru_cases[] = {
    GRU_CASE("one", 1, 1, 1, 0, 2e-6, 2e-3),
    GRU_CASE("odd", 3, 4, 5, 0, 5e-6, 4e-3),
    GRU_CASE("backwards in time", 2, 5, 3, 1, 5e-6, 4e-3),
    GRU_CASE("one sample", 1, 6, 7, 0, 5e-6, 4e-3),
    GRU_CASE("beyond a vector", 9, 3, 19, 1, 1e-5, 4e-3),
    {"medium",
     3,
     {LS_CASE_F32(-2, 2, 33, 6, 195), LS_CASE_F32(-0.2f, 0.2f, 195, 65), LS_CASE_F32(-1, 1, 65)},
     {{0}},
     2e-5,
     0},
    {"many samples",
     3,
     {LS_CASE_F32(-2, 2, 83, 3, 111), LS_CASE_F32(-0.2f, 0.2f, 111, 37), LS_CASE_F32(-1, 1, 37)},
     {{0}},
     2e-5,
     0},
    {"most samples",
     3,
     {LS_CASE_F32(-2, 2, 83, 3, 495), LS_CASE_F32(-0.1f, 0.1f, 495, 165), LS_CASE_F32(-1, 1, 165)},
     {{0}},
     2e-5,
     0},
    {"widest at once",
     3,
     {LS_CASE_F32(-2, 2, 3, 3, 762), LS_CASE_F32(-0.1f, 0.1f, 762, 254), LS_CASE_F32(-1, 1, 254)},
     {{0}},
     2e-5,
     0},
    {"wide",
     3,
     {LS_CASE_F32(-2, 2, 3, 3, 777), LS_CASE_F32(-0.1f, 0.1f, 777, 259), LS_CASE_F32(-1, 1, 259)},
     {{0}},
     2e-5,
     0},
};

/* dy, y, gates, m, w_hh. */
#define GRU_DX_CASE(label, n, t, h, back, tol)                                                               \
  {                                                                                                          \
    label, 5,                                                                                                \
        {LS_CASE_F32(-1, 1, n, t, h), LS_CASE_F32(-1, 1, n, t, h), LS_CASE_F32(0.1f, 0.9f, n, t, 3 * (h)),   \
         LS_CASE_F32(-2, 2, n, t, h), LS_CASE_F32(-0.2f, 0.2f, 3 * (h), h)},                                 \
        {.i = {back}}, tol, 0                                                                                \
  }
static const ls_op_case_t gru_dx_cases[] = {
    GRU_DX_CASE("one", 1, 1, 1, 0, 2e-6),
    GRU_DX_CASE("odd", 3, 4, 5, 0, 5e-6),
    GRU_DX_CASE("backwards in time", 9, 5, 19, 1, 1e-5),
    GRU_DX_CASE("medium", 33, 6, 65, 0, 2e-5),
    GRU_DX_CASE("many samples", 83, 3, 37, 1, 2e-5),
    GRU_DX_CASE("most samples", 83, 3, 165, 0, 5e-5),
    GRU_DX_CASE("widest at once", 3, 3, 254, 0, 5e-5),
    GRU_DX_CASE("wide", 3, 3, 259, 0, 5e-5),
};

#define SHIFT_CASE(label, by, n, t, h)                                                                       \
  { label, 1, {LS_CASE_F32(-1, 1, n, t, h)}, {.i = {by}}, 0, 2e-3 }
static const ls_op_case_t shift_cases[] = {
    SHIFT_CASE("one", 1, 1, 1, 1),
    SHIFT_CASE("later", 1, 3, 5, 7),
    SHIFT_CASE("earlier", -1, 2, 4, 33),
    SHIFT_CASE("vectors", 1, 3, 5, 40),
};

const ls_op_t ls_op_lstm_chain = {
    .name = "lstm_chain",
    .class = LS_OP_RECURRENT,
    .in_count = 2,
    .out_count = 3,
    .shape = lstm_shape,
    .forward = lstm_forward,
    .backward = lstm_backward,
    .flops = lstm_flops,
    .scratch_bytes = forward_scratch,
    .low_in = 3,
    .low_out = 5,
    .low_wants = true,
    LS_CASES(lstm_cases),
};

const ls_op_t ls_op_lstm_chain_dx = {
    .name = "lstm_chain_dx",
    .class = LS_OP_RECURRENT,
    .in_count = 4,
    .out_count = 1,
    .shape = lstm_dx_shape,
    .forward = lstm_dx_forward,
    .flops = lstm_dx_flops,
    .scratch_bytes = dx_scratch,
    .low_in = 13,
    .low_out = 1,
    .low_wants = true,
    LS_CASES(lstm_dx_cases),
};

const ls_op_t ls_op_gru_chain = {
    .name = "gru_chain",
    .class = LS_OP_RECURRENT,
    .in_count = 3,
    .out_count = 3,
    .shape = gru_shape,
    .forward = gru_forward,
    .backward = gru_backward,
    .flops = lstm_flops,
    .scratch_bytes = forward_scratch,
    .low_in = 3,
    .low_out = 7,
    .low_wants = true,
    LS_CASES(gru_cases),
};

const ls_op_t ls_op_gru_chain_dx = {
    .name = "gru_chain_dx",
    .class = LS_OP_RECURRENT,
    .in_count = 5,
    .out_count = 2,
    .shape = gru_dx_shape,
    .forward = gru_dx_forward,
    .flops = gru_dx_flops,
    .scratch_bytes = dx_scratch,
    .low_in = 31,
    .low_out = 3,
    .low_wants = true,
    LS_CASES(gru_dx_cases),
};

const ls_op_t ls_op_shift_positions = {
    .name = "shift_positions",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 1,
    .out_count = 1,
    .shape = shift_shape,
    .forward = shift_forward,
    .backward = shift_backward,
    .low_in = 1,
    .low_out = 1,
    LS_CASES(shift_cases),
};
