/* Scaled dot-product attention (Vaswani et al. 2017) of all heads, and its gradient, in one op each: probabilities are
 * never stored, only the logarithm of their sum (lse) of each query (Dao et al. 2022). ops.h has the attributes. With
 * q, k, v of one head, h = d / heads and p = exp(q k^T / sqrt(h) - lse), kept and scaled by the dropout's mask m:
 *   y = (m p) v      dv = (m p)^T dy      ds = p (m (dy v^T) - sum(dy y)) / sqrt(h)      dq = ds k      dk = ds^T q */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>
#include <string.h>

/* One head: rows of q, k, v are 3 d apart, those of y and dy d. */
typedef struct {
  int64_t t, d, heads, size;
  bool causal;
  int64_t length; /* length of the sample: later keys are padding */
  double scale, rate;
  uint64_t seed, counters; /* of a sample's mask */
  uint32_t stream;
} heads_t;

static heads_t heads_of(const ls_attrs_t *attrs, const ls_shape_t *qkv, const void *step_data) {
  ls_step_params_t step;
  memcpy(&step, step_data, sizeof step);
  heads_t a = {.t = qkv->dim[1], .d = qkv->dim[2] / 3, .heads = attrs->i[0], .causal = attrs->i[1] != 0};
  a.size = a.d / a.heads;
  a.length = a.t;
  a.scale = 1 / sqrt((double)a.size);
  a.rate = attrs->f[0];
  a.seed = step.seed;
  a.counters = (uint64_t)(a.heads * a.t * a.t + 3) / 4;
  a.stream = LS_RNG_DROPOUT + (uint32_t)attrs->i[2];
  return a;
}

/* The length of sample n, if there are lengths. */
static int64_t length_of(const ls_kernel_args_t *args, int in, int64_t n, int64_t t) {
  int64_t length = args->in_count > in ? ((const int32_t *)args->in[in].data)[n] : t;
  return length < 0 ? 0 : length > t ? t : length;
}

static int64_t keys_of(const heads_t *a, int64_t query) {
  int64_t seen = a->causal ? query + 1 : a->t;
  return seen < a->length ? seen : a->length;
}

/* The factor of one probability: 0, or that of probabilities that are kept. */
static double mask(const heads_t *a, uint64_t row, int64_t head, int64_t query, int64_t key) {
  if (a->rate == 0) return 1;
  uint64_t e = (uint64_t)((head * a->t + query) * a->t + key);
  ls_rng4_t words = ls_rng(a->seed, a->stream, row * a->counters + e / 4);
  return ls_rng_unit(words.v[e % 4]) >= (float)a->rate ? (float)(1 / (1 - a->rate)) : 0;
}

static double dot(int64_t count, const float *a, const float *b) {
  double sum = 0;
  for (int64_t c = 0; c < count; c++)
    sum += (double)a[c] * b[c];
  return sum;
}

static ls_status_t check_heads(ls_ctx_t *ctx, const char *op, const ls_attrs_t *attrs, const ls_shape_t *qkv,
                               const ls_shape_t *step) {
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, op, "qkv", qkv, LS_F32, 3, 3))) return status;
  if ((status = ls_rule_step(ctx, op, step))) return status;
  char text[LS_SHAPE_TEXT_BYTES];
  if (attrs->i[0] < 1 || qkv->dim[2] % (3 * attrs->i[0]) != 0)
    return ls_fail(ctx, LS_ERR_SHAPE, "%s: qkv %s cannot be cut into queries, keys and values of %lld heads",
                   op, ls_shape_text(qkv, text), (long long)attrs->i[0]);
  if (!(attrs->f[0] >= 0 && attrs->f[0] < 1))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: dropout %g must be in [0, 1)", op, attrs->f[0]);
  return LS_OK;
}

static ls_shape_t y_of(const ls_shape_t *qkv) {
  return LS_SHAPE(LS_F32, qkv->dim[0], qkv->dim[1], qkv->dim[2] / 3);
}
static ls_shape_t lse_of(const ls_attrs_t *attrs, const ls_shape_t *qkv) {
  return LS_SHAPE(LS_F32, qkv->dim[0], attrs->i[0], qkv->dim[1]);
}

static ls_status_t attention_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                   ls_shape_t *out) {
  ls_status_t status = check_heads(ctx, "attention", attrs, &in[0], &in[1]);
  if (status) return status;
  out[0] = y_of(&in[0]);
  out[1] = lse_of(attrs, &in[0]);
  return LS_OK;
}

/* The scores of one query are in scratch, f64 (t), followed by a row of y, f64 (d). */
static void query_forward(const heads_t *a, uint64_t row, int64_t head, int64_t query, const float *q,
                          const float *k, float *y, float *lse, double *score) {
  int64_t keys = keys_of(a, query), stride = 3 * a->d;
  const float *v = k + a->d;
  double max = -INFINITY, sum = 0, *to = score + a->t;
  if (query >= a->length) { /* padding */
    memset(y + query * a->d, 0, (size_t)a->size * sizeof *y);
    lse[query] = 0;
    return;
  }
  for (int64_t j = 0; j < keys; j++) {
    score[j] = a->scale * dot(a->size, q + query * stride, k + j * stride);
    if (score[j] > max) max = score[j];
  }
  for (int64_t j = 0; j < keys; j++)
    sum += exp(score[j] - max);
  memset(to, 0, (size_t)a->size * sizeof *to);
  for (int64_t j = 0; j < keys; j++) {
    double p = exp(score[j] - max) / sum * mask(a, row, head, query, j);
    for (int64_t c = 0; c < a->size; c++)
      to[c] += p * v[j * stride + c];
  }
  for (int64_t c = 0; c < a->size; c++)
    y[query * a->d + c] = (float)to[c];
  lse[query] = (float)(max + log(sum));
}

static ls_status_t attention_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_step_params_t *step = args->in[1].data;
  heads_t a = heads_of(args->attrs, ls_in_shape(args, 0), step);
  for (int64_t n = 0; n < ls_in_shape(args, 0)->dim[0]; n++) {
    a.length = length_of(args, 2, n, a.t);
    for (int64_t h = 0; h < a.heads; h++) {
      const float *q = ls_in_f32(args, 0) + n * a.t * 3 * a.d + h * a.size;
      float *y = ls_out_f32(args, 0) + n * a.t * a.d + h * a.size;
      float *lse = ls_out_f32(args, 1) + (n * a.heads + h) * a.t;
      for (int64_t i = 0; i < a.t; i++)
        query_forward(&a, step->position + (uint64_t)n, h, i, q, q + a.d, y, lse, args->scratch);
    }
  }
  return LS_OK;
}

static size_t attention_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)out;
  return (size_t)(in[0].dim[1] + in[0].dim[2] / 3 / attrs->i[0]) * sizeof(double);
}

/* The number of pairs of a query and a key that it sees, times d: each pair costs 2 FLOPs in a product. */
static int64_t pairs(const ls_attrs_t *attrs, const ls_shape_t *qkv) {
  int64_t t = qkv->dim[1], seen = attrs->i[1] ? t * (t + 1) / 2 : t * t;
  return qkv->dim[0] * seen * (qkv->dim[2] / 3);
}

static int64_t attention_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)out;
  return 4 * pairs(attrs, &in[0]);
}

static ls_status_t attention_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                      const ls_tensor_id_t *grad_out, const bool *wanted,
                                      ls_tensor_id_t *grad_in) {
  (void)wanted;
  if (grad_out[1] >= 0)
    return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: lse takes no gradient", node->name);
  bool padded = node->in_count > 2;
  const ls_tensor_id_t in[] = {grad_out[0],  node->in[0], node->out[0],
                               node->out[1], node->in[1], padded ? node->in[2] : -1};
  const ls_op_t *dx = padded ? &ls_op_attention_padded_dx : &ls_op_attention_dx;
  grad_in[0] = ls_graph_op(graph, dx, &node->attrs, 5 + padded, in, NULL);
  return graph->status;
}

static ls_status_t dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status;
  if ((status = check_heads(ctx, "attention_dx", attrs, &in[1], &in[4]))) return status;
  const ls_shape_t y = y_of(&in[1]), lse = lse_of(attrs, &in[1]);
  if ((status = ls_rule_equal(ctx, "attention_dx", "dy", &in[0], "the result", &y))) return status;
  if ((status = ls_rule_equal(ctx, "attention_dx", "y", &in[2], "the result", &y))) return status;
  if ((status = ls_rule_equal(ctx, "attention_dx", "lse", &in[3], "a query's", &lse))) return status;
  out[0] = in[1];
  return LS_OK;
}

/* One query adds its parts to dq, dk and dv of its head, f64 (t, 3, size). */
static void query_backward(const heads_t *a, uint64_t row, int64_t head, int64_t query, const float *q,
                           const float *k, const float *dy, const float *y, double lse, double *dq,
                           double *dkv) {
  int64_t keys = keys_of(a, query), stride = 3 * a->d;
  const float *v = k + a->d;
  double given = dot(a->size, dy, y);
  for (int64_t j = 0; j < keys; j++) {
    double p = exp(a->scale * dot(a->size, q, k + j * stride) - lse), m = mask(a, row, head, query, j);
    double ds = a->scale * p * (m * dot(a->size, dy, v + j * stride) - given);
    double *dk = dkv + j * 3 * a->size, *dv = dk + a->size;
    for (int64_t c = 0; c < a->size; c++) {
      dq[c] += ds * k[j * stride + c];
      dk[c] += ds * q[c];
      dv[c] += m * p * dy[c];
    }
  }
}

static ls_status_t dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_step_params_t *step = args->in[4].data;
  heads_t a = heads_of(args->attrs, ls_in_shape(args, 1), step);
  double *sum = args->scratch; /* (t, 3, size): dq, dk, dv */
  for (int64_t n = 0; n < ls_in_shape(args, 1)->dim[0]; n++) {
    a.length = length_of(args, 5, n, a.t);
    for (int64_t h = 0; h < a.heads; h++) {
      const float *q = ls_in_f32(args, 1) + n * a.t * 3 * a.d + h * a.size;
      const float *dy = ls_in_f32(args, 0) + n * a.t * a.d + h * a.size;
      const float *y = ls_in_f32(args, 2) + n * a.t * a.d + h * a.size;
      const float *lse = ls_in_f32(args, 3) + (n * a.heads + h) * a.t;
      float *dq = ls_out_f32(args, 0) + n * a.t * 3 * a.d + h * a.size;
      memset(sum, 0, (size_t)(a.t * 3 * a.size) * sizeof *sum);
      for (int64_t i = 0; i < a.length; i++)
        query_backward(&a, step->position + (uint64_t)n, h, i, q + i * 3 * a.d, q + a.d, dy + i * a.d,
                       y + i * a.d, lse[i], sum + i * 3 * a.size, sum + a.size);
      for (int64_t i = 0; i < a.t * 3; i++) /* i counts dq, dk, dv of each place */
        for (int64_t c = 0; c < a.size; c++)
          dq[i * a.d + c] = (float)sum[i * a.size + c];
    }
  }
  return LS_OK;
}

/* dq, dk, dv of a head; or, for tuned versions, two numbers of every query, and a bit for each of its keys (rounded up to
 * 128) that says whether dropout keeps it. */
static size_t dx_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  size_t head = (size_t)(out[0].dim[1] * out[0].dim[2] / attrs->i[0]) * sizeof(double);
  size_t queries = (size_t)ls_shape_count(&in[3]),
         masks = attrs->f[0] > 0 ? (size_t)(in[3].dim[2] + 127) / 128 * 16 : 0;
  size_t tuned = (queries + 1) / 2 * 16 + queries * masks;
  return head > tuned ? head : tuned;
}

static int64_t dx_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)out;
  return 10 * pairs(attrs, &in[1]);
}

const ls_op_t ls_op_attention = {
    LS_OP("attention", LS_OP_ATTENTION, 2, 2, attention_shape, attention_forward),
    .backward = attention_backward,
    .flops = attention_flops,
    .scratch_bytes = attention_scratch,
    .low_in = 1,
    .low_out = 1,
    .low_wants = true};

const ls_op_t ls_op_attention_dx = {LS_OP("attention_dx", LS_OP_ATTENTION, 5, 1, dx_shape, dx_forward),
                                    .flops = dx_flops,
                                    .scratch_bytes = dx_scratch,
                                    .low_in = 7,
                                    .low_out = 1,
                                    .low_wants = true};

/* ---- with lengths ---- */
static ls_status_t check_lengths(ls_ctx_t *ctx, const char *op, const ls_shape_t *lengths, int64_t rows) {
  const ls_shape_t want = LS_SHAPE(LS_I32, rows);
  return ls_rule_equal(ctx, op, "lengths", lengths, "one a row", &want);
}

static ls_status_t padded_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  ls_status_t status = attention_shape(ctx, attrs, in, out);
  return status ? status : check_lengths(ctx, "attention_padded", &in[2], in[0].dim[0]);
}

static ls_status_t padded_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                   ls_shape_t *out) {
  ls_status_t status = dx_shape(ctx, attrs, in, out);
  return status ? status : check_lengths(ctx, "attention_padded_dx", &in[5], in[1].dim[0]);
}

const ls_op_t ls_op_attention_padded = {
    LS_OP("attention_padded", LS_OP_ATTENTION, 3, 2, padded_shape, attention_forward),
    .backward = attention_backward, .flops = attention_flops, .scratch_bytes = attention_scratch};

const ls_op_t ls_op_attention_padded_dx = {
    LS_OP("attention_padded_dx", LS_OP_ATTENTION, 6, 1, padded_dx_shape, dx_forward), .flops = dx_flops,
    .scratch_bytes = dx_scratch};
