/* Group norm (Wu and He 2018): a sample's channels in groups; each group, at all positions, has one mean and variance. With
 * h = (x - mean) rstd and g = dy gamma over the m elements of a group:
 *   y = h gamma + beta      dx = rstd (g - sum(g) / m - h sum(g h) / m)      dgamma = sum(dy h)      dbeta = sum(dy) */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>
#include <string.h>

/* Iterates over the elements of a group. */
typedef struct {
  int64_t samples, positions, channels, groups, each; /* channels of a group */
} groups_t;

static groups_t groups_of(const ls_shape_t *x, int64_t groups) {
  groups_t g = {.samples = x->dim[0], .channels = x->dim[x->rank - 1], .groups = groups};
  g.positions = ls_shape_count(x) / g.samples / g.channels;
  g.each = g.channels / groups;
  return g;
}

static ls_status_t check_x(ls_ctx_t *ctx, const char *op, const ls_shape_t *x, int64_t groups) {
  ls_status_t status = ls_rule_tensor(ctx, op, "x", x, LS_F32, 2, 0);
  char text[LS_SHAPE_TEXT_BYTES];
  if (!status && (groups < 1 || x->dim[x->rank - 1] % groups != 0))
    return ls_fail(ctx, LS_ERR_SHAPE, "%s: the channels of x %s are no multiple of %lld groups", op,
                   ls_shape_text(x, text), (long long)groups);
  return status;
}

static ls_status_t norm_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status;
  if ((status = check_x(ctx, "group_norm", &in[0], attrs->i[0]))) return status;
  if ((status = ls_rule_vector(ctx, "group_norm", "gamma", &in[1], in[0].dim[in[0].rank - 1]))) return status;
  if ((status = ls_rule_vector(ctx, "group_norm", "beta", &in[2], in[0].dim[in[0].rank - 1]))) return status;
  out[0] = in[0];
  out[1] = out[2] = LS_SHAPE(LS_F32, in[0].dim[0], attrs->i[0]);
  return LS_OK;
}

static ls_status_t norm_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const groups_t g = groups_of(ls_in_shape(args, 0), args->attrs->i[0]);
  const float *gamma = ls_in_f32(args, 1), *beta = ls_in_f32(args, 2);
  double count = (double)(g.positions * g.each);
  for (int64_t k = 0; k < g.samples * g.groups; k++) {
    int64_t channel = k % g.groups * g.each, first = k / g.groups * g.positions * g.channels + channel;
    const float *x = ls_in_f32(args, 0) + first;
    float *y = ls_out_f32(args, 0) + first;
    double sum = 0, square = 0;
    for (int64_t p = 0; p < g.positions; p++)
      for (int64_t c = 0; c < g.each; c++)
        sum += x[p * g.channels + c];
    double mean = sum / count;
    for (int64_t p = 0; p < g.positions; p++)
      for (int64_t c = 0; c < g.each; c++)
        square += (x[p * g.channels + c] - mean) * (x[p * g.channels + c] - mean);
    double rstd = 1 / sqrt(square / count + args->attrs->f[0]);
    for (int64_t p = 0; p < g.positions; p++)
      for (int64_t c = 0; c < g.each; c++)
        y[p * g.channels + c] =
            (float)((x[p * g.channels + c] - mean) * rstd * gamma[channel + c] + beta[channel + c]);
    ls_out_f32(args, 1)[k] = (float)mean;
    ls_out_f32(args, 2)[k] = (float)rstd;
  }
  return LS_OK;
}

static ls_status_t norm_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  ls_tensor_id_t out[LS_NODE_OUT_MAX] = {-1, -1, -1, -1};
  const ls_tensor_id_t x[] = {grad_out[0], node->in[0], node->in[1], node->out[1], node->out[2]},
                       gb[] = {grad_out[0], node->in[0], node->out[1], node->out[2]};
  if (grad_out[1] >= 0 || grad_out[2] >= 0)
    return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: mean and rstd take no gradient", node->name);
  if (wanted[0]) grad_in[0] = ls_graph_op(graph, &ls_op_group_norm_dx, &node->attrs, 5, x, NULL);
  if (wanted[1] || wanted[2]) {
    ls_graph_op(graph, &ls_op_group_norm_dgb, &node->attrs, 4, gb, out);
    grad_in[1] = wanted[1] ? out[0] : -1;
    grad_in[2] = wanted[2] ? out[1] : -1;
  }
  return graph->status;
}

static ls_status_t dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status;
  if ((status = check_x(ctx, "group_norm_dx", &in[1], attrs->i[0]))) return status;
  if ((status = ls_rule_equal(ctx, "group_norm_dx", "dy", &in[0], "x", &in[1]))) return status;
  out[0] = in[1];
  return ls_rule_vector(ctx, "group_norm_dx", "gamma", &in[2], in[1].dim[in[1].rank - 1]);
}

static ls_status_t dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const groups_t g = groups_of(ls_in_shape(args, 1), args->attrs->i[0]);
  double count = (double)(g.positions * g.each);
  for (int64_t k = 0; k < g.samples * g.groups; k++) {
    int64_t channel = k % g.groups * g.each, first = k / g.groups * g.positions * g.channels + channel;
    const float *dy = ls_in_f32(args, 0) + first, *x = ls_in_f32(args, 1) + first,
                *gamma = ls_in_f32(args, 2) + channel;
    float *dx = ls_out_f32(args, 0) + first;
    double mean = ls_in_f32(args, 3)[k], rstd = ls_in_f32(args, 4)[k], sum = 0, dot = 0;
    for (int64_t p = 0; p < g.positions; p++)
      for (int64_t c = 0; c < g.each; c++) {
        double e = (double)dy[p * g.channels + c] * gamma[c];
        sum += e;
        dot += e * ((x[p * g.channels + c] - mean) * rstd);
      }
    for (int64_t p = 0; p < g.positions; p++)
      for (int64_t c = 0; c < g.each; c++) {
        double e = (double)dy[p * g.channels + c] * gamma[c], h = (x[p * g.channels + c] - mean) * rstd;
        dx[p * g.channels + c] = (float)(rstd * (e - sum / count - h * (dot / count)));
      }
  }
  return LS_OK;
}

static ls_status_t dgb_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status;
  if ((status = check_x(ctx, "group_norm_dgb", &in[1], attrs->i[0]))) return status;
  out[0] = out[1] = LS_SHAPE(LS_F32, in[1].dim[in[1].rank - 1]);
  return ls_rule_equal(ctx, "group_norm_dgb", "dy", &in[0], "x", &in[1]);
}

static ls_status_t dgb_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const groups_t g = groups_of(ls_in_shape(args, 1), args->attrs->i[0]);
  for (int64_t c = 0; c < g.channels; c++) {
    double gamma = 0, beta = 0;
    for (int64_t n = 0; n < g.samples; n++) {
      int64_t k = n * g.groups + c / g.each;
      double mean = ls_in_f32(args, 2)[k], rstd = ls_in_f32(args, 3)[k];
      for (int64_t p = 0; p < g.positions; p++) {
        int64_t at = (n * g.positions + p) * g.channels + c;
        gamma += ls_in_f32(args, 0)[at] * ((ls_in_f32(args, 1)[at] - mean) * rstd);
        beta += ls_in_f32(args, 0)[at];
      }
    }
    ls_out_f32(args, 0)[c] = (float)gamma;
    ls_out_f32(args, 1)[c] = (float)beta;
  }
  return LS_OK;
}

const ls_op_t ls_op_group_norm = {LS_OP("group_norm", LS_OP_REDUCTION, 3, 3, norm_shape, norm_forward),
                                  .flops_each = 8, .backward = norm_backward};
const ls_op_t ls_op_group_norm_dx = {LS_OP("group_norm_dx", LS_OP_REDUCTION, 5, 1, dx_shape, dx_forward),
                                     .flops_each = 8};
const ls_op_t ls_op_group_norm_dgb = {LS_OP("group_norm_dgb", LS_OP_REDUCTION, 4, 2, dgb_shape, dgb_forward),
                                      .flops_each = 5};
