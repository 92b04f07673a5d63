/* Batch norm (Ioffe and Szegedy 2015) in parts, so that ranks can share its statistics. The last dimension of x
 * (n, .., c) is the channels; every position of a sample whose weight is above 0 counts.
 *   bn_sums       (x, weight (n), shift (c)) -> f64 (1 + 2c): the count of positions, sums of x - shift, of its square. The
 *                 shift may be far from every x: f64 keeps the digits that then cancel
 *   sum_ranks     (v) -> the sum of v over the ranks of the step; alone: v
 *   bn_moments    (sums (1 + 2c), shift (c)), f[0] eps -> mean (2, c), rstd (c); mean.h says why a mean is two numbers
 *   bn_track      (sums), f[0] eps, f[1] momentum -> mean, rstd, in-out running mean, running variance: bn_moments with the
 *                 running mean as the shift; then (1 - momentum) old + momentum new, of the variance n / (n - 1) times
 *   rsqrt_eps     (x), f[0] eps -> 1 / sqrt(x + eps)
 *   bn_apply      (x, mean, rstd, gamma, beta) -> y = (x - mean) rstd gamma + beta
 *   bn_back_sums  (dy, x, mean, rstd, weight) -> (2c): s1 = sum dy, s2 = sum dy (x - mean) rstd; the same as s1 (c), s2 (c)
 *   bn_dx         (dy, x, gamma, mean, rstd, weight, s1 and s2 of all ranks (2c), sums: the count is read) -> dx
 * The gradient of bn_apply goes through statistics that bn_moments or bn_track computed, whatever ranks took part. */
#include "device/mean.h"
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>
#include <string.h>

static int64_t channels_of(const ls_shape_t *x) {
  return x->dim[x->rank - 1];
}

static ls_status_t check_x(ls_ctx_t *ctx, const char *op, const ls_shape_t *x, const ls_shape_t *weight) {
  ls_status_t status = ls_rule_tensor(ctx, op, "x", x, LS_F32, 2, 0);
  return status || !weight ? status : ls_rule_vector(ctx, op, "weight", weight, x->dim[0]);
}

/* Inputs in[first..last] are f32 (count). */
static ls_status_t check_vectors(ls_ctx_t *ctx, const char *op, const ls_shape_t *in, int first, int last,
                                 int64_t count) {
  ls_status_t status = LS_OK;
  for (int i = first; i <= last && !status; i++)
    status = ls_rule_vector(ctx, op, "a channel's input", &in[i], count);
  return status;
}

static ls_status_t check_sums(ls_ctx_t *ctx, const char *op, const ls_shape_t *sums, int64_t count) {
  const ls_shape_t want = LS_SHAPE(LS_F64, 1 + 2 * count);
  return ls_rule_equal(ctx, op, "sums", sums, "a count and two sums of each channel", &want);
}

static ls_status_t check_mean(ls_ctx_t *ctx, const char *op, const ls_shape_t *mean, int64_t count) {
  const ls_shape_t both = LS_SHAPE(LS_F32, 2, count);
  return mean->rank == 2 ? ls_rule_equal(ctx, op, "the mean", mean, "two of each channel", &both)
                         : ls_rule_vector(ctx, op, "the mean", mean, count);
}

static double mean_of(const ls_tensor_t *mean, int64_t k) {
  const float *rest = ls_mean_rest(mean);
  return (double)((const float *)mean->data)[k] + (rest ? rest[k] : 0);
}

static ls_status_t sums_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = check_x(ctx, "bn_sums", &in[0], &in[1]);
  if (!status) status = check_vectors(ctx, "bn_sums", in, 2, 2, channels_of(&in[0]));
  if (!status) out[0] = LS_SHAPE(LS_F64, 1 + 2 * channels_of(&in[0]));
  return status;
}

static ls_status_t sums_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *x = ls_in_shape(args, 0);
  const float *weight = ls_in_f32(args, 1), *shift = ls_in_f32(args, 2);
  double *sums = args->out[0].data;
  int64_t c = channels_of(x), rows = ls_shape_count(x) / c, each = rows / x->dim[0], count = 0;
  for (int64_t r = 0; r < rows; r++)
    count += weight[r / each] > 0;
  sums[0] = (double)count;
  for (int64_t k = 0; k < c; k++) {
    double sum = 0, square = 0;
    for (int64_t r = 0; r < rows; r++) {
      double d = weight[r / each] > 0 ? (double)ls_in_f32(args, 0)[r * c + k] - shift[k] : 0;
      sum += d;
      square += d * d;
    }
    sums[1 + k] = sum;
    sums[1 + c + k] = square;
  }
  return LS_OK;
}

static ls_status_t ranks_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)attrs;
  out[0] = in[0];
  return ls_rule_tensor(ctx, "sum_ranks", "v", &in[0], in[0].dtype == LS_F64 ? LS_F64 : LS_F32, 1, 1);
}

static ls_status_t ranks_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  memcpy(args->out[0].data, args->in[0].data, ls_shape_bytes(ls_in_shape(args, 0)));
  return LS_OK;
}

static ls_status_t moments_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = ls_rule_tensor(ctx, "bn_moments", "shift", &in[1], LS_F32, 1, 1);
  if (!status) status = check_sums(ctx, "bn_moments", &in[0], in[1].dim[0]);
  out[0] = LS_SHAPE(LS_F32, 2, in[1].dim[0]);
  out[1] = in[1];
  return status;
}

/* Turns channel k's sums around *mean into its mean and returns the variance. If nothing counts, as in a micro-
 * batch without rows, all sums are 0: the mean is the shift, the variance 0. */
static double moments(const ls_kernel_args_t *args, int64_t c, int64_t k, double *mean) {
  const double *sums = args->in[0].data;
  double count = fmax(sums[0], 1), d = sums[1 + k] / count, variance = sums[1 + c + k] / count - d * d;
  if (variance < 0) variance = 0;
  *mean += d;
  ls_out_f32(args, 0)[k] = (float)*mean;
  ls_out_f32(args, 0)[c + k] = (float)(*mean - (float)*mean);
  ls_out_f32(args, 1)[k] = (float)(1 / sqrt(variance + args->attrs->f[0]));
  return variance;
}

static ls_status_t moments_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  int64_t c = ls_in_shape(args, 1)->dim[0];
  for (int64_t k = 0; k < c; k++) {
    double mean = ls_in_f32(args, 1)[k];
    moments(args, c, k, &mean);
  }
  return LS_OK;
}

static ls_status_t track_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)attrs;
  const int64_t c = in[0].dim[0] / 2;
  out[0] = LS_SHAPE(LS_F32, 2, c);
  for (int i = 1; i < 4; i++)
    out[i] = LS_SHAPE(LS_F32, c);
  return check_sums(ctx, "bn_track", &in[0], c);
}

static ls_status_t track_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  double count = *(const double *)args->in[0].data, part = count > 0 ? args->attrs->f[1] : 0;
  double wide = count > 1 ? count / (count - 1) : 1;
  int64_t c = args->out[1].shape.dim[0];
  for (int64_t k = 0; k < c; k++) {
    float *m = &ls_out_f32(args, 2)[k], *v = &ls_out_f32(args, 3)[k];
    double mean = *m, variance = moments(args, c, k, &mean);
    *m = (float)((1 - part) * *m + part * mean);
    *v = (float)((1 - part) * *v + part * (variance * wide));
  }
  return LS_OK;
}

static ls_status_t rsqrt_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)attrs;
  out[0] = in[0];
  return ls_rule_tensor(ctx, "rsqrt_eps", "x", &in[0], LS_F32, 1, 0);
}

LS_MAP(rsqrt_forward, 1 / sqrt((double)x + args->attrs->f[0]))

static ls_status_t apply_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = check_x(ctx, "bn_apply", &in[0], NULL);
  out[0] = in[0];
  if (!status) status = check_mean(ctx, "bn_apply", &in[1], channels_of(&in[0]));
  return status ? status : check_vectors(ctx, "bn_apply", in, 2, 4, channels_of(&in[0]));
}

static ls_status_t apply_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *rstd = ls_in_f32(args, 2);
  const float *gamma = ls_in_f32(args, 3), *beta = ls_in_f32(args, 4);
  int64_t c = channels_of(ls_in_shape(args, 0));
  for (int64_t e = 0; e < ls_shape_count(ls_in_shape(args, 0)); e++) {
    int64_t k = e % c;
    ls_out_f32(args, 0)[e] = (float)((x[e] - mean_of(&args->in[1], k)) * rstd[k] * gamma[k] + beta[k]);
  }
  return LS_OK;
}

static const ls_graph_node_t *maker_of(const ls_graph_t *graph, ls_tensor_id_t id, const ls_op_t *op) {
  int node = graph->tensors[id].producer;
  return node >= 0 && graph->nodes[node].op == op ? &graph->nodes[node] : NULL;
}

static ls_tensor_id_t constant(ls_graph_t *graph, int64_t count, double value) {
  const ls_attrs_t attrs = {.i = {count}, .f = {value}};
  return ls_graph_op(graph, &ls_op_fill, &attrs, 0, NULL, NULL);
}

/* Given statistics, such as running ones, are constants. */
static ls_status_t backward_given(ls_graph_t *graph, const ls_graph_node_t *node, ls_tensor_id_t dy,
                                  const bool *wanted, ls_tensor_id_t *grad_in) {
  const ls_attrs_t one = {.i = {1}};
  int64_t c = channels_of(&graph->tensors[node->in[0]].shape);
  if (wanted[1] || wanted[2])
    return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: given statistics take no gradient", node->name);
  ls_tensor_id_t zeros = constant(graph, c, 0);
  if (wanted[3]) {
    const ls_tensor_id_t in[] = {node->in[0], node->in[1], node->in[2], constant(graph, c, 1), zeros};
    ls_tensor_id_t h = ls_graph_op(graph, &ls_op_bn_apply, NULL, 5, in, NULL);
    h = ls_graph_op(graph, &ls_op_mul, NULL, 2, (ls_tensor_id_t[]){dy, h}, NULL);
    grad_in[3] = ls_graph_op(graph, &ls_op_sum_leading, &one, 1, &h, NULL);
  }
  if (wanted[4]) grad_in[4] = ls_graph_op(graph, &ls_op_sum_leading, &one, 1, &dy, NULL);
  const ls_tensor_id_t in[] = {dy, zeros, node->in[2], node->in[3], zeros};
  if (wanted[0]) grad_in[0] = ls_graph_op(graph, &ls_op_bn_apply, NULL, 5, in, NULL);
  return graph->status;
}

/* dgamma and dbeta are sums of this rank, which join the exchange of gradients like all others. dx needs the sums
 * of all ranks that share the statistics. */
static ls_status_t apply_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                  const ls_tensor_id_t *grad_out, const bool *wanted,
                                  ls_tensor_id_t *grad_in) {
  const ls_graph_node_t *moments = maker_of(graph, node->in[1], &ls_op_bn_moments);
  if (!moments) moments = maker_of(graph, node->in[1], &ls_op_bn_track);
  if (!moments) return backward_given(graph, node, grad_out[0], wanted, grad_in);
  ls_tensor_id_t sums = moments->in[0], x = node->in[0], mean = node->in[1], rstd = node->in[2],
                 gamma = node->in[3];
  const ls_graph_node_t *ranks = maker_of(graph, sums, &ls_op_sum_ranks);
  const ls_graph_node_t *own = maker_of(graph, ranks ? ranks->in[0] : sums, &ls_op_bn_sums);
  if (!own) return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: statistics of unknown samples", node->name);
  ls_tensor_id_t weight = own->in[1];
  ls_tensor_id_t out[3] = {-1, -1, -1};
  ls_tensor_id_t back = ls_graph_op(graph, &ls_op_bn_back_sums, NULL, 5,
                                    (ls_tensor_id_t[]){grad_out[0], x, mean, rstd, weight}, out);
  for (int k = 0; k < 2; k++)
    if (wanted[4 - k]) grad_in[4 - k] = out[1 + k];
  if (!wanted[0]) return graph->status;
  if (ranks) back = ls_graph_op(graph, &ls_op_sum_ranks, NULL, 1, &back, NULL);
  const ls_tensor_id_t in[] = {grad_out[0], x, gamma, mean, rstd, weight, back, sums};
  grad_in[0] = ls_graph_op(graph, &ls_op_bn_dx, NULL, 8, in, NULL);
  return graph->status;
}

static ls_status_t back_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = check_x(ctx, "bn_back_sums", &in[1], &in[4]);
  if (!status) status = ls_rule_equal(ctx, "bn_back_sums", "dy", &in[0], "x", &in[1]);
  if (!status) status = check_mean(ctx, "bn_back_sums", &in[2], channels_of(&in[1]));
  if (!status) status = check_vectors(ctx, "bn_back_sums", in, 3, 3, channels_of(&in[1]));
  out[0] = LS_SHAPE(LS_F32, 2 * channels_of(&in[1]));
  out[1] = out[2] = LS_SHAPE(LS_F32, channels_of(&in[1]));
  return status;
}

static ls_status_t back_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *x = ls_in_shape(args, 1);
  const float *rstd = ls_in_f32(args, 3), *weight = ls_in_f32(args, 4);
  int64_t c = channels_of(x), rows = ls_shape_count(x) / c, each = rows / x->dim[0];
  for (int64_t k = 0; k < c; k++) {
    double s1 = 0, s2 = 0, mean = mean_of(&args->in[2], k);
    for (int64_t r = 0; r < rows; r++) {
      double dy = weight[r / each] > 0 ? ls_in_f32(args, 0)[r * c + k] : 0;
      s1 += dy;
      s2 += dy * ((ls_in_f32(args, 1)[r * c + k] - mean) * rstd[k]);
    }
    ls_out_f32(args, 0)[k] = ls_out_f32(args, 1)[k] = (float)s1;
    ls_out_f32(args, 0)[c + k] = ls_out_f32(args, 2)[k] = (float)s2;
  }
  return LS_OK;
}

static ls_status_t dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = check_x(ctx, "bn_dx", &in[1], &in[5]);
  if (!status) status = ls_rule_equal(ctx, "bn_dx", "dy", &in[0], "x", &in[1]);
  if (status) return status;
  int64_t c = channels_of(&in[1]);
  if (!status) status = check_vectors(ctx, "bn_dx", in, 2, 2, c);
  if (!status) status = check_mean(ctx, "bn_dx", &in[3], c);
  if (!status) status = check_vectors(ctx, "bn_dx", in, 4, 4, c);
  if (!status) status = check_vectors(ctx, "bn_dx", in, 6, 6, 2 * c);
  if (!status) status = check_sums(ctx, "bn_dx", &in[7], c);
  out[0] = in[1];
  return status;
}

static ls_status_t dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *x = ls_in_shape(args, 1);
  const float *gamma = ls_in_f32(args, 2), *rstd = ls_in_f32(args, 4);
  const float *weight = ls_in_f32(args, 5), *back = ls_in_f32(args, 6);
  int64_t c = channels_of(x), each = ls_shape_count(x) / c / x->dim[0];
  double count = *(const double *)args->in[7].data;
  for (int64_t e = 0; e < ls_shape_count(x); e++) {
    int64_t k = e % c;
    double h = (ls_in_f32(args, 1)[e] - mean_of(&args->in[3], k)) * rstd[k];
    double dx =
        (double)gamma[k] * rstd[k] * (ls_in_f32(args, 0)[e] - back[k] / count - h * (back[c + k] / count));
    ls_out_f32(args, 0)[e] = weight[e / c / each] > 0 ? (float)dx : 0;
  }
  return LS_OK;
}

const ls_op_t ls_op_bn_sums = {LS_OP("bn_sums", LS_OP_REDUCTION, 3, 1, sums_shape, sums_forward),
                               .flops_each = 4, .low_in = 1};
const ls_op_t ls_op_sum_ranks = {LS_OP("sum_ranks", LS_OP_ELEMENTWISE, 1, 1, ranks_shape, ranks_forward)};
const ls_op_t ls_op_bn_moments = {
    LS_OP("bn_moments", LS_OP_ELEMENTWISE, 2, 2, moments_shape, moments_forward), .flops_each = 8};
const ls_op_t ls_op_bn_track = {LS_OP("bn_track", LS_OP_ELEMENTWISE, 1, 4, track_shape, track_forward),
                                .flops_each = 14, .inout = 12};
const ls_op_t ls_op_rsqrt_eps = {LS_OP("rsqrt_eps", LS_OP_ELEMENTWISE, 1, 1, rsqrt_shape, rsqrt_forward),
                                 .flops_each = 4};
const ls_op_t ls_op_bn_apply = {LS_OP("bn_apply", LS_OP_ELEMENTWISE, 5, 1, apply_shape, apply_forward),
                                .backward = apply_backward, .flops_each = 4, .low_in = 1, .low_out = 1};
const ls_op_t ls_op_bn_back_sums = {LS_OP("bn_back_sums", LS_OP_REDUCTION, 5, 3, back_shape, back_forward),
                                    .flops_each = 5, .low_in = 3};
const ls_op_t ls_op_bn_dx = {LS_OP("bn_dx", LS_OP_ELEMENTWISE, 8, 1, dx_shape, dx_forward), .flops_each = 8,
                             .low_in = 3, .low_out = 1};
