/* Pooling of images (n, h, w, c), and means and choices of positions.
 *   i[0..1] size   i[2..3] stride   i[4..7] padding top left bottom right   i[8..9] height and width of x (gradients)
 *   i[10] average: 1 = padding counts as zeros, 0 = only what lies in the image counts
 * The largest of a window is the first of equals; NaN is larger than all. */
#include "device/window.h"
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>
#include <string.h>

enum { WINDOW_MAX = 256 }; /* a place is a byte */

/* Writes the output's shape. Padding narrower than the window: none lies in the padding alone. */
static ls_status_t pooled(ls_ctx_t *ctx, const char *op, const ls_attrs_t *attrs, const ls_shape_t *x,
                          ls_shape_t *y) {
  const int64_t *i = attrs->i;
  bool fits = true;
  for (int k = 0; k < 2; k++)
    fits = fits && i[k] >= 1 && i[k] <= 1 << 20 && i[2 + k] >= 1 && i[4 + k] >= 0 && i[4 + k] < i[k] &&
           i[6 + k] >= 0 && i[6 + k] < i[k];
  *y = *x;
  for (int k = 0; fits && k < 2; k++) {
    y->dim[1 + k] = ls_window_count(x->dim[1 + k], i[k], i[2 + k], i[4 + k] + i[6 + k], 1);
    fits = y->dim[1 + k] > 0;
  }
  if (fits) return LS_OK;
  char text[LS_SHAPE_TEXT_BYTES];
  return ls_fail(ctx, LS_ERR_SHAPE, "%s: windows of %lld x %lld with such stride and padding do not fit x %s",
                 op, (long long)i[0], (long long)i[1], ls_shape_text(x, text));
}

static ls_status_t max_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = ls_rule_tensor(ctx, "max_pool", "x", &in[0], LS_F32, 4, 4);
  if (!status) status = pooled(ctx, "max_pool", attrs, &in[0], &out[0]);
  if (!status && attrs->i[0] * attrs->i[1] > WINDOW_MAX)
    return ls_fail(ctx, LS_ERR_SHAPE, "max_pool: a window of more than %d elements", WINDOW_MAX);
  out[1] = out[0];
  out[1].dtype = LS_U8;
  return status;
}

static ls_status_t avg_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = ls_rule_tensor(ctx, "avg_pool", "x", &in[0], LS_F32, 4, 4);
  return status ? status : pooled(ctx, "avg_pool", attrs, &in[0], &out[0]);
}

static ls_status_t gradient_shape(ls_ctx_t *ctx, const char *op, const ls_attrs_t *attrs,
                                  const ls_shape_t *dy, ls_shape_t *dx) {
  ls_status_t status = ls_rule_tensor(ctx, op, "dy", dy, LS_F32, 4, 4);
  if (status) return status;
  ls_shape_t want;
  *dx = *dy;
  dx->dim[1] = attrs->i[8];
  dx->dim[2] = attrs->i[9];
  status = pooled(ctx, op, attrs, dx, &want);
  return status ? status : ls_rule_equal(ctx, op, "dy", dy, "the pooled", &want);
}

static ls_status_t max_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  ls_status_t status = gradient_shape(ctx, "max_pool_dx", attrs, &in[0], &out[0]);
  ls_shape_t place = in[0];
  place.dtype = LS_U8;
  return status ? status : ls_rule_equal(ctx, "max_pool_dx", "place", &in[1], "a place for each dy", &place);
}

static ls_status_t avg_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  return gradient_shape(ctx, "avg_pool_dx", attrs, &in[0], &out[0]);
}

/* The element of x under place k of window p, channel 0; -1 in the padding. */
static int64_t under(const ls_window_t *v, int64_t p, int64_t k) {
  int64_t y = p / v->ow % v->oh * v->sh - v->top + k / v->kw, x = p % v->ow * v->sw - v->left + k % v->kw;
  if (y < 0 || y >= v->h || x < 0 || x >= v->w) return -1;
  return ((p / (v->oh * v->ow) * v->h + y) * v->w + x) * v->c;
}

static ls_status_t max_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_window_t v = ls_window_pool(args->attrs, ls_in_shape(args, 0), &args->out[0].shape);
  const float *x = ls_in_f32(args, 0);
  uint8_t *place = args->out[1].data;
  for (int64_t e = 0; e < v.n * v.oh * v.ow * v.c; e++) {
    int64_t best = -1;
    float most = 0;
    for (int64_t k = 0; k < v.kh * v.kw; k++) {
      int64_t at = under(&v, e / v.c, k);
      if (at < 0) continue;
      float value = x[at + e % v.c];
      if (best >= 0 && !(value > most) && !(isnan(value) && !isnan(most))) continue;
      best = k;
      most = value;
    }
    ls_out_f32(args, 0)[e] = most;
    place[e] = (uint8_t)best;
  }
  return LS_OK;
}

static ls_status_t max_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_window_t v = ls_window_pool(args->attrs, &args->out[0].shape, ls_in_shape(args, 0));
  const float *dy = ls_in_f32(args, 0);
  const uint8_t *place = args->in[1].data;
  float *dx = ls_out_f32(args, 0);
  memset(dx, 0, ls_shape_bytes(&args->out[0].shape));
  for (int64_t e = 0; e < v.n * v.oh * v.ow * v.c; e++) {
    int64_t at = place[e] < v.kh * v.kw ? under(&v, e / v.c, place[e]) : -1;
    if (at >= 0) dx[at + e % v.c] += dy[e];
  }
  return LS_OK;
}

/* The number of elements by which the sum of window p is divided. */
static double divisor(const ls_window_t *v, const ls_attrs_t *attrs, int64_t p) {
  int64_t count = 0;
  for (int64_t k = 0; k < v->kh * v->kw; k++)
    count += attrs->i[10] || under(v, p, k) >= 0;
  return (double)count;
}

static ls_status_t avg_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_window_t v = ls_window_pool(args->attrs, ls_in_shape(args, 0), &args->out[0].shape);
  const float *x = ls_in_f32(args, 0);
  for (int64_t e = 0; e < v.n * v.oh * v.ow * v.c; e++) {
    double sum = 0;
    for (int64_t k = 0; k < v.kh * v.kw; k++) {
      int64_t at = under(&v, e / v.c, k);
      if (at >= 0) sum += x[at + e % v.c];
    }
    ls_out_f32(args, 0)[e] = (float)(sum / divisor(&v, args->attrs, e / v.c));
  }
  return LS_OK;
}

static ls_status_t avg_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_window_t v = ls_window_pool(args->attrs, &args->out[0].shape, ls_in_shape(args, 0));
  const float *dy = ls_in_f32(args, 0);
  float *dx = ls_out_f32(args, 0);
  memset(dx, 0, ls_shape_bytes(&args->out[0].shape));
  for (int64_t p = 0; p < v.n * v.oh * v.ow; p++) {
    float share = (float)(1 / divisor(&v, args->attrs, p));
    for (int64_t k = 0; k < v.kh * v.kw; k++) {
      int64_t at = under(&v, p, k);
      for (int64_t c = 0; at >= 0 && c < v.c; c++)
        dx[at + c] += dy[p * v.c + c] * share;
    }
  }
  return LS_OK;
}

static ls_attrs_t of_x(const ls_graph_t *graph, const ls_graph_node_t *node) {
  ls_attrs_t attrs = node->attrs;
  const ls_shape_t *x = &graph->tensors[node->in[0]].shape;
  attrs.i[8] = x->dim[1];
  attrs.i[9] = x->dim[2];
  return attrs;
}

static ls_status_t max_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                const ls_tensor_id_t *grad_out, const bool *wanted, ls_tensor_id_t *grad_in) {
  (void)wanted;
  const ls_attrs_t attrs = of_x(graph, node);
  const ls_tensor_id_t in[] = {grad_out[0], node->out[1]};
  grad_in[0] = ls_graph_op(graph, &ls_op_max_pool_dx, &attrs, 2, in, NULL);
  return graph->status;
}

static ls_status_t avg_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                const ls_tensor_id_t *grad_out, const bool *wanted, ls_tensor_id_t *grad_in) {
  (void)wanted;
  const ls_attrs_t attrs = of_x(graph, node);
  grad_in[0] = ls_graph_op(graph, &ls_op_avg_pool_dx, &attrs, 1, grad_out, NULL);
  return graph->status;
}

static int64_t window_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)in;
  return ls_shape_count(&out[0]) * attrs->i[0] * attrs->i[1];
}

/* Positions: x (n, t, c). */
static ls_status_t mean_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = ls_rule_tensor(ctx, "mean_positions", "x", &in[0], LS_F32, 3, 3);
  out[0] = LS_SHAPE(LS_F32, in[0].dim[0], in[0].dim[2]);
  return status;
}

static ls_status_t mean_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  ls_status_t status = ls_rule_tensor(ctx, "mean_positions_dx", "dy", &in[0], LS_F32, 2, 2);
  if (!status && attrs->i[0] < 1)
    return ls_fail(ctx, LS_ERR_SHAPE, "mean_positions_dx: %lld positions", (long long)attrs->i[0]);
  out[0] = LS_SHAPE(LS_F32, in[0].dim[0], attrs->i[0], in[0].dim[1]);
  return status;
}

static ls_status_t mean_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *x = ls_in_shape(args, 0);
  int64_t t = x->dim[1], c = x->dim[2];
  for (int64_t e = 0; e < x->dim[0] * c; e++) {
    double sum = 0;
    for (int64_t k = 0; k < t; k++)
      sum += ls_in_f32(args, 0)[(e / c * t + k) * c + e % c];
    ls_out_f32(args, 0)[e] = (float)(sum / (double)t);
  }
  return LS_OK;
}

static ls_status_t mean_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *dx = &args->out[0].shape;
  int64_t t = dx->dim[1], c = dx->dim[2];
  for (int64_t e = 0; e < dx->dim[0] * t * c; e++)
    ls_out_f32(args, 0)[e] = ls_in_f32(args, 0)[e / (t * c) * c + e % c] / (float)t;
  return LS_OK;
}

static ls_status_t mean_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  (void)wanted;
  const ls_attrs_t attrs = {.i = {graph->tensors[node->in[0]].shape.dim[1]}};
  grad_in[0] = ls_graph_op(graph, &ls_op_mean_positions_dx, &attrs, 1, grad_out, NULL);
  return graph->status;
}

static ls_status_t check_position(ls_ctx_t *ctx, const char *op, int64_t position, int64_t count) {
  if (position >= -1 && position < count) return LS_OK;
  return ls_fail(ctx, LS_ERR_SHAPE, "%s: there is no position %lld of %lld", op, (long long)position,
                 (long long)count);
}

static ls_status_t take_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = ls_rule_tensor(ctx, "take_position", "x", &in[0], LS_F32, 3, 3);
  if (!status) status = check_position(ctx, "take_position", attrs->i[0], in[0].dim[1]);
  out[0] = LS_SHAPE(LS_F32, in[0].dim[0], in[0].dim[2]);
  return status;
}

static ls_status_t take_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  ls_status_t status = ls_rule_tensor(ctx, "take_position_dx", "dy", &in[0], LS_F32, 2, 2);
  if (!status) status = check_position(ctx, "take_position_dx", attrs->i[0], attrs->i[1]);
  if (!status && attrs->i[1] < 1) status = check_position(ctx, "take_position_dx", 0, attrs->i[1]);
  out[0] = LS_SHAPE(LS_F32, in[0].dim[0], attrs->i[1], in[0].dim[1]);
  return status;
}

static ls_status_t take_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *x = ls_in_shape(args, 0);
  int64_t t = x->dim[1], c = x->dim[2], at = args->attrs->i[0] < 0 ? t - 1 : args->attrs->i[0];
  for (int64_t r = 0; r < x->dim[0]; r++)
    memcpy(ls_out_f32(args, 0) + r * c, ls_in_f32(args, 0) + (r * t + at) * c, (size_t)c * sizeof(float));
  return LS_OK;
}

static ls_status_t take_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *dx = &args->out[0].shape;
  int64_t t = dx->dim[1], c = dx->dim[2], at = args->attrs->i[0] < 0 ? t - 1 : args->attrs->i[0];
  memset(args->out[0].data, 0, ls_shape_bytes(dx));
  for (int64_t r = 0; r < dx->dim[0]; r++)
    memcpy(ls_out_f32(args, 0) + (r * t + at) * c, ls_in_f32(args, 0) + r * c, (size_t)c * sizeof(float));
  return LS_OK;
}

static ls_status_t take_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  (void)wanted;
  const ls_attrs_t attrs = {.i = {node->attrs.i[0], graph->tensors[node->in[0]].shape.dim[1]}};
  grad_in[0] = ls_graph_op(graph, &ls_op_take_position_dx, &attrs, 1, grad_out, NULL);
  return graph->status;
}

const ls_op_t ls_op_max_pool = {LS_OP("max_pool", LS_OP_REDUCTION, 1, 2, max_shape, max_forward),
                                .backward = max_backward, .flops = window_flops, .low_in = 1, .low_out = 1};
const ls_op_t ls_op_max_pool_dx = {LS_OP("max_pool_dx", LS_OP_REDUCTION, 2, 1, max_dx_shape, max_dx_forward),
                                   .flops_each = 1, .low_in = 1, .low_out = 1};
const ls_op_t ls_op_avg_pool = {LS_OP("avg_pool", LS_OP_REDUCTION, 1, 1, avg_shape, avg_forward),
                                .backward = avg_backward, .flops = window_flops, .low_in = 1, .low_out = 1};
const ls_op_t ls_op_avg_pool_dx = {LS_OP("avg_pool_dx", LS_OP_REDUCTION, 1, 1, avg_dx_shape, avg_dx_forward),
                                   .flops_each = 1, .low_in = 1, .low_out = 1};
const ls_op_t ls_op_mean_positions = {
    LS_OP("mean_positions", LS_OP_REDUCTION, 1, 1, mean_shape, mean_forward), .backward = mean_backward,
    .flops_each = 1, .low_in = 1, .low_out = 1};
const ls_op_t ls_op_mean_positions_dx = {
    LS_OP("mean_positions_dx", LS_OP_ELEMENTWISE, 1, 1, mean_dx_shape, mean_dx_forward), .flops_each = 1,
    .low_in = 1, .low_out = 1};
const ls_op_t ls_op_take_position = {LS_OP("take_position", LS_OP_GATHER, 1, 1, take_shape, take_forward),
                                     .backward = take_backward, .low_in = 1, .low_out = 1};
const ls_op_t ls_op_take_position_dx = {
    LS_OP("take_position_dx", LS_OP_ELEMENTWISE, 1, 1, take_dx_shape, take_dx_forward), .low_in = 1,
    .low_out = 1};
