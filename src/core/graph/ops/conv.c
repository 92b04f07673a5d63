/* Convolution of images (n, h, w, c) with weights (o, kh, kw, c / groups), and its two gradients as ops of their own.
 * Sums are in f64.
 *   i[0..1] stride   i[2..5] padding top left bottom right   i[6..7] dilation   i[8] groups
 *   conv2d_dx: i[9..10] height and width of x      conv2d_dw: i[9..10] those of the weights */
#include "device/window.h"
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

static ls_status_t check_attrs(ls_ctx_t *ctx, const char *op, const ls_attrs_t *attrs) {
  const int64_t most = 1 << 20;
  for (int k = 0; k < 9; k++) {
    bool padding = k >= 2 && k < 6;
    if (attrs->i[k] < (padding ? 0 : 1) || attrs->i[k] > most)
      return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: attribute %d is %lld, must be in [%d, %lld]", op, k,
                     (long long)attrs->i[k], padding ? 0 : 1, (long long)most);
  }
  return LS_OK;
}

/* Checks that x, w and y belong together. y is checked if it is `made`, else written. */
static ls_status_t check(ls_ctx_t *ctx, const char *op, const ls_attrs_t *attrs, const ls_shape_t *x,
                         const ls_shape_t *w, ls_shape_t *y, bool made) {
  const int64_t *i = attrs->i;
  int64_t oh = ls_window_count(x->dim[1], w->dim[1], i[0], i[2] + i[4], i[6]);
  int64_t ow = ls_window_count(x->dim[2], w->dim[2], i[1], i[3] + i[5], i[7]);
  ls_shape_t want = LS_SHAPE(LS_F32, x->dim[0], oh, ow, w->dim[0]);
  char tx[LS_SHAPE_TEXT_BYTES], tw[LS_SHAPE_TEXT_BYTES];
  if (oh < 1 || ow < 1 || w->dim[0] % i[8] || w->dim[3] * i[8] != x->dim[3])
    return ls_fail(ctx, LS_ERR_SHAPE, "%s: x %s and w %s in %lld groups do not fit", op, ls_shape_text(x, tx),
                   ls_shape_text(w, tw), (long long)i[8]);
  if (made) return ls_rule_equal(ctx, op, "dy", y, "the convolution's", &want);
  *y = want;
  return LS_OK;
}

static ls_status_t conv_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = check_attrs(ctx, "conv2d", attrs);
  if (!status) status = ls_rule_tensor(ctx, "conv2d", "x", &in[0], LS_F32, 4, 4);
  if (!status) status = ls_rule_tensor(ctx, "conv2d", "w", &in[1], LS_F32, 4, 4);
  return status ? status : check(ctx, "conv2d", attrs, &in[0], &in[1], &out[0], false);
}

static ls_status_t dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = check_attrs(ctx, "conv2d_dx", attrs);
  if (!status) status = ls_rule_tensor(ctx, "conv2d_dx", "dy", &in[0], LS_F32, 4, 4);
  if (!status) status = ls_rule_tensor(ctx, "conv2d_dx", "w", &in[1], LS_F32, 4, 4);
  if (status) return status;
  ls_shape_t dy = in[0];
  out[0] = LS_SHAPE(LS_F32, dy.dim[0], attrs->i[9], attrs->i[10], in[1].dim[3] * attrs->i[8]);
  return check(ctx, "conv2d_dx", attrs, &out[0], &in[1], &dy, true);
}

static ls_status_t dw_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = check_attrs(ctx, "conv2d_dw", attrs);
  if (!status) status = ls_rule_tensor(ctx, "conv2d_dw", "dy", &in[0], LS_F32, 4, 4);
  if (!status) status = ls_rule_tensor(ctx, "conv2d_dw", "x", &in[1], LS_F32, 4, 4);
  if (status) return status;
  ls_shape_t dy = in[0];
  out[0] = LS_SHAPE(LS_F32, dy.dim[3], attrs->i[9], attrs->i[10], in[1].dim[3] / attrs->i[8]);
  return check(ctx, "conv2d_dw", attrs, &in[1], &out[0], &dy, true);
}

/* The element of x under tap (ky, kx) of the window at (oy, ox), channel 0; -1 in the padding. */
static int64_t under(const ls_window_t *v, int64_t r, int64_t oy, int64_t ox, int64_t ky, int64_t kx) {
  int64_t y = oy * v->sh - v->top + ky * v->dh, x = ox * v->sw - v->left + kx * v->dw;
  if (y < 0 || y >= v->h || x < 0 || x >= v->w) return -1;
  return ((r * v->h + y) * v->w + x) * v->c;
}

static ls_status_t conv_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_window_t v =
      ls_window_conv(args->attrs, ls_in_shape(args, 0), ls_in_shape(args, 1), &args->out[0].shape);
  const float *x = ls_in_f32(args, 0), *w = ls_in_f32(args, 1);
  int64_t in = v.c / v.groups, of = v.o / v.groups, taps = v.kh * v.kw;
  for (int64_t p = 0; p < v.n * v.oh * v.ow; p++)
    for (int64_t f = 0; f < v.o; f++) {
      double sum = 0;
      for (int64_t k = 0; k < taps; k++) {
        int64_t at = under(&v, p / (v.oh * v.ow), p / v.ow % v.oh, p % v.ow, k / v.kw, k % v.kw);
        for (int64_t c = 0; at >= 0 && c < in; c++)
          sum += (double)x[at + f / of * in + c] * w[(f * taps + k) * in + c];
      }
      ls_out_f32(args, 0)[p * v.o + f] = (float)sum;
    }
  return LS_OK;
}

/* The position of the window whose tap `k` lies over `at`; -1 = none. */
static int64_t over(int64_t at, int64_t padding, int64_t k, int64_t dilation, int64_t stride, int64_t count) {
  int64_t from = at + padding - k * dilation;
  return from >= 0 && from % stride == 0 && from / stride < count ? from / stride : -1;
}

static ls_status_t dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_window_t v =
      ls_window_conv(args->attrs, &args->out[0].shape, ls_in_shape(args, 1), ls_in_shape(args, 0));
  const float *dy = ls_in_f32(args, 0), *w = ls_in_f32(args, 1);
  int64_t in = v.c / v.groups, of = v.o / v.groups, taps = v.kh * v.kw;
  for (int64_t p = 0; p < v.n * v.h * v.w; p++)
    for (int64_t c = 0; c < v.c; c++) {
      double sum = 0;
      for (int64_t k = 0; k < taps; k++) {
        int64_t oy = over(p / v.w % v.h, v.top, k / v.kw, v.dh, v.sh, v.oh);
        int64_t ox = over(p % v.w, v.left, k % v.kw, v.dw, v.sw, v.ow);
        const float *from = dy + ((p / (v.h * v.w) * v.oh + oy) * v.ow + ox) * v.o;
        int64_t first = c / in * of;
        for (int64_t f = first; oy >= 0 && ox >= 0 && f < first + of; f++)
          sum += (double)from[f] * w[(f * taps + k) * in + c % in];
      }
      ls_out_f32(args, 0)[p * v.c + c] = (float)sum;
    }
  return LS_OK;
}

static ls_status_t dw_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_window_t v =
      ls_window_conv(args->attrs, ls_in_shape(args, 1), &args->out[0].shape, ls_in_shape(args, 0));
  const float *dy = ls_in_f32(args, 0), *x = ls_in_f32(args, 1);
  int64_t in = v.c / v.groups, of = v.o / v.groups, taps = v.kh * v.kw;
  for (int64_t e = 0; e < v.o * taps * in; e++) {
    int64_t f = e / (taps * in), k = e / in % taps;
    double sum = 0;
    for (int64_t p = 0; p < v.n * v.oh * v.ow; p++) {
      int64_t at = under(&v, p / (v.oh * v.ow), p / v.ow % v.oh, p % v.ow, k / v.kw, k % v.kw);
      if (at >= 0) sum += (double)dy[p * v.o + f] * x[at + f / of * in + e % in];
    }
    ls_out_f32(args, 0)[e] = (float)sum;
  }
  return LS_OK;
}

/* The weights' gradient first, so that it can be exchanged while dx is computed. */
static ls_status_t conv_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  ls_tensor_id_t x = node->in[0], w = node->in[1], dy = grad_out[0];
  const ls_op_t *op[] = {&ls_op_conv2d_dx, &ls_op_conv2d_dw};
  for (int k = 1; k >= 0 && !graph->status; k--) {
    const ls_shape_t *like = &graph->tensors[node->in[k]].shape;
    ls_attrs_t attrs = node->attrs;
    attrs.i[9] = like->dim[1];
    attrs.i[10] = like->dim[2];
    if (wanted[k]) grad_in[k] = ls_graph_op(graph, op[k], &attrs, 2, (ls_tensor_id_t[]){dy, k ? x : w}, NULL);
  }
  return graph->status;
}

/* Taps in the padding count, as they do in published figures. */
static int64_t conv_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  return 2 * ls_shape_count(&out[0]) * ls_shape_inner(&in[1], 1);
}
static int64_t dx_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs, (void)out;
  return 2 * ls_shape_count(&in[0]) * ls_shape_inner(&in[1], 1);
}
static int64_t dw_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  return 2 * ls_shape_count(&in[0]) * ls_shape_inner(&out[0], 1);
}

const ls_op_t ls_op_conv2d = {LS_OP("conv2d", LS_OP_CONVOLUTION, 2, 1, conv_shape, conv_forward),
                              .flops = conv_flops,
                              .backward = conv_backward,
                              .low_in = 3,
                              .low_out = 1,
                              .low_wants = true};
const ls_op_t ls_op_conv2d_dx = {LS_OP("conv2d_dx", LS_OP_CONVOLUTION, 2, 1, dx_shape, dx_forward),
                                 .flops = dx_flops, .low_in = 3, .low_out = 1, .low_wants = true};
const ls_op_t ls_op_conv2d_dw = {LS_OP("conv2d_dw", LS_OP_CONVOLUTION, 2, 1, dw_shape, dw_forward),
                                 .flops = dw_flops, .low_in = 3, .low_wants = true};
