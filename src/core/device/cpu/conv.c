/* Convolution. oneDNN has kernels for most (onednn.c); the rest is computed here as matrix products: the windows of a block
 * of positions are laid out as rows (positions, taps x channels) and multiplied with the weights. A window of one element
 * needs no such copy. Depthwise convolution has loops of its own, along the channels. Forward and data pass are cut along
 * positions or images, the weights' gradient along its columns, so no sum depends on the number of threads. oneDNN's
 * gradients of weights are added up over parts of the images; the number of these parts does depend on it. */
#include "device/cpu/cpu.h"

#include <string.h>

typedef struct {
  const ls_simd_t *simd;
  ls_window_t v;
  int64_t in, of, depth; /* of a group: channels, filters, taps x channels */
  bool plain;            /* a window is an element of x, windows are next to each other */
  int64_t block, parts;  /* positions laid out at once; parts of the loop */
  int64_t stride;        /* floats of a part's room: block x depth */
  float *room;           /* depthwise: for weights, tap by tap */
  float *x, *w, *y;      /* values, or gradients; the kind says which one is written */
} conv_t;

enum { BLOCK_FLOATS = 256 << 10, BLOCK_ROWS = 256 };

static int64_t positions(const conv_t *p) {
  return p->v.n * p->v.oh * p->v.ow;
}

static conv_t conv_of(const ls_simd_t *simd, const ls_window_t *v) {
  conv_t p = {.simd = simd, .v = *v, .in = v->c / v->groups, .of = v->o / v->groups};
  p.depth = v->kh * v->kw * p.in;
  p.block = BLOCK_FLOATS / p.depth < BLOCK_ROWS ? BLOCK_ROWS : BLOCK_FLOATS / p.depth;
  if (p.block > positions(&p)) p.block = positions(&p);
  p.plain = v->kh * v->kw == 1 && v->sh == 1 && v->sw == 1 && !v->top && !v->left && !v->bottom && !v->right;
  p.stride = p.plain ? 0 : p.block * p.depth;
  return p;
}

static ls_cpu_work_t work_of(const conv_t *p) {
  return LS_CPU_FLOPS(2 * positions(p) * p->v.o * p->depth);
}

/* The element of x under tap k of position r, channel 0; -1 in the padding. */
static inline int64_t under(const ls_window_t *v, int64_t r, int64_t k) {
  int64_t y = r / v->ow % v->oh * v->sh - v->top + k / v->kw * v->dh;
  int64_t x = r % v->ow * v->sw - v->left + k % v->kw * v->dw;
  if (y < 0 || y >= v->h || x < 0 || x >= v->w) return -1;
  return ((r / (v->oh * v->ow) * v->h + y) * v->w + x) * v->c;
}

/* Lays out columns [first, last) of the windows of group g at positions [begin, end). */
static void lay_out(const conv_t *p, int64_t g, int64_t begin, int64_t end, int64_t first, int64_t last,
                    float *to) {
  for (int64_t r = begin; r < end; r++)
    for (int64_t k = first / p->in; k * p->in < last; k++) {
      int64_t from = k * p->in < first ? first - k * p->in : 0;
      int64_t until = (k + 1) * p->in > last ? last - k * p->in : p->in;
      int64_t at = under(&p->v, r, k);
      if (at < 0)
        memset(to, 0, (size_t)(until - from) * sizeof *to);
      else if (until - from < 8)
        for (int64_t c = from; c < until; c++)
          to[c - from] = p->x[at + g * p->in + c];
      else
        memcpy(to, p->x + at + g * p->in + from, (size_t)(until - from) * sizeof *to);
      to += until - from;
    }
}

/* Adds rows that are laid out like windows to the image. */
static void add_back(const conv_t *p, int64_t g, int64_t begin, int64_t end, const float *from) {
  for (int64_t r = begin; r < end; r++)
    for (int64_t k = 0; k < p->v.kh * p->v.kw; k++, from += p->in) {
      int64_t at = under(&p->v, r, k);
      float *to = p->x + at + g * p->in;
      if (at >= 0) p->simd->add(p->in, to, from, to);
    }
}

static void conv_rows(const void *arg, int64_t part, int64_t parts) {
  const conv_t *p = arg;
  for (; part < parts; part++) {
    float *room = p->room + part * p->stride;
    int64_t begin, end;
    ls_pool_share(positions(p), 16, (int)part, (int)p->parts, &begin, &end);
    for (int64_t g = 0; g < p->v.groups; g++)
      for (int64_t r = begin; r < end; r += p->block) {
        int64_t rows = end - r < p->block ? end - r : p->block;
        const float *a = p->plain ? p->x + r * p->v.c + g * p->in : room;
        if (!p->plain) lay_out(p, g, r, r + rows, 0, p->depth, room);
        ls_cpu_gemm(false, true, rows, p->of, p->depth, a, p->plain ? p->v.c : p->depth,
                    p->w + g * p->of * p->depth, p->depth, 0, p->y + r * p->v.o + g * p->of, p->v.o);
      }
  }
}

static void dx_images(const void *arg, int64_t part, int64_t parts) {
  const conv_t *p = arg;
  int64_t image = p->v.h * p->v.w * p->v.c, each = p->v.oh * p->v.ow;
  for (; part < parts; part++) {
    float *room = p->room + part * p->stride;
    int64_t begin, end;
    ls_pool_share(p->v.n, 1, (int)part, (int)p->parts, &begin, &end);
    if (!p->plain) memset(p->x + begin * image, 0, (size_t)((end - begin) * image) * sizeof(float));
    for (int64_t g = 0; g < p->v.groups; g++)
      for (int64_t r = begin * each; r < end * each; r += p->block) {
        int64_t rows = end * each - r < p->block ? end * each - r : p->block;
        float *to = p->plain ? p->x + r * p->v.c + g * p->in : room;
        ls_cpu_gemm(false, false, rows, p->depth, p->of, p->y + r * p->v.o + g * p->of, p->v.o,
                    p->w + g * p->of * p->depth, p->depth, 0, to, p->plain ? p->v.c : p->depth);
        if (!p->plain) add_back(p, g, r, r + rows, room);
      }
  }
}

static void dw_columns(const void *arg, int64_t part, int64_t parts) {
  const conv_t *p = arg;
  for (; part < parts; part++) {
    float *room = p->room + part * p->stride;
    int64_t begin, end;
    ls_pool_share(p->depth, p->depth < 256 ? 1 : 16, (int)part, (int)p->parts, &begin, &end);
    for (int64_t g = 0; g < p->v.groups && begin < end; g++)
      for (int64_t r = 0; r < positions(p); r += p->block) {
        int64_t rows = positions(p) - r < p->block ? positions(p) - r : p->block, width = end - begin;
        const float *b = p->plain ? p->x + r * p->v.c + g * p->in + begin : room;
        if (!p->plain) lay_out(p, g, r, r + rows, begin, end, room);
        ls_cpu_gemm(true, false, p->of, width, rows, p->y + r * p->v.o + g * p->of, p->v.o, b,
                    p->plain ? p->v.c : width, r > 0, p->w + g * p->of * p->depth + begin, p->depth);
      }
  }
}

/* ---- depthwise: a tap is a row of as many weights as channels ---- */

static void transpose(const float *from, int64_t rows, int64_t columns, float *to) {
  for (int64_t c = 0; c < columns; c++)
    for (int64_t r = 0; r < rows; r++)
      to[c * rows + r] = from[r * columns + c];
}

static void each_y(const void *arg, int64_t begin, int64_t end) {
  const conv_t *p = arg;
  int64_t c = p->v.c;
  for (int64_t r = begin * p->v.ow; r < end * p->v.ow; r++) {
    memset(p->y + r * c, 0, (size_t)c * sizeof(float));
    for (int64_t k = 0; k < p->depth; k++) {
      int64_t at = under(&p->v, r, k);
      if (at >= 0) p->simd->add_product(c, p->x + at, p->room + k * c, p->y + r * c);
    }
  }
}

static void each_dx(const void *arg, int64_t begin, int64_t end) {
  const conv_t *p = arg;
  int64_t c = p->v.c, image = p->v.h * p->v.w * c, each = p->v.oh * p->v.ow;
  memset(p->x + begin * image, 0, (size_t)((end - begin) * image) * sizeof(float));
  for (int64_t r = begin * each; r < end * each; r++)
    for (int64_t k = 0; k < p->depth; k++) {
      int64_t at = under(&p->v, r, k);
      if (at >= 0) p->simd->add_product(c, p->y + r * c, p->room + k * c, p->x + at);
    }
}

/* Sums each image first: fewer terms in one sum, so less is lost. */
static void each_dw(const void *arg, int64_t begin, int64_t end) {
  const conv_t *p = arg;
  int64_t c = p->v.c, each = p->v.oh * p->v.ow, width = end - begin;
  float *sum = p->room, *one = p->room + p->depth * c;
  for (int64_t k = 0; k < p->depth; k++)
    memset(sum + k * c + begin, 0, (size_t)width * sizeof(float));
  for (int64_t i = 0; i < p->v.n; i++) {
    for (int64_t k = 0; k < p->depth; k++)
      memset(one + k * c + begin, 0, (size_t)width * sizeof(float));
    for (int64_t r = i * each; r < (i + 1) * each; r++)
      for (int64_t k = 0; k < p->depth; k++) {
        int64_t at = under(&p->v, r, k);
        if (at >= 0)
          p->simd->add_product(width, p->x + at + begin, p->y + r * c + begin, one + k * c + begin);
      }
    for (int64_t k = 0; k < p->depth; k++)
      p->simd->add(width, sum + k * c + begin, one + k * c + begin, sum + k * c + begin);
  }
  for (int64_t f = begin; f < end; f++)
    for (int64_t k = 0; k < p->depth; k++)
      p->w[f * p->depth + k] = sum[k * c + f];
}

/* ---- kernels ---- */

/* Runs fn with a part's number as begin, and a room for each part. */
static ls_status_t run_parts(ls_stream_t *stream, conv_t *p, ls_cpu_loop_fn fn) {
  p->parts = ls_cpu_parts(stream, work_of(p));
  p->room = ls_cpu_room(stream, (size_t)(p->parts * p->stride + 1) * sizeof(float));
  if (!p->room) return LS_ERR_MEMORY;
  ls_cpu_library_loop(stream, p->parts, 1, work_of(p), fn, p);
  return LS_OK;
}

static ls_status_t run_depthwise(ls_stream_t *stream, conv_t *p, ls_cpu_conv_kind_t kind) {
  static const ls_cpu_loop_fn each[] = {
      [LS_CPU_CONV_Y] = each_y, [LS_CPU_CONV_DX] = each_dx, [LS_CPU_CONV_DW] = each_dw};
  const ls_window_t *v = &p->v;
  const bool dw = kind == LS_CPU_CONV_DW;
  p->room = ls_cpu_room(stream, (size_t)(2 * p->depth * v->c) * sizeof(float));
  if (!p->room) return LS_ERR_MEMORY;
  if (!dw) transpose(p->w, v->c, p->depth, p->room);
  ls_cpu_loop(stream,
              dw                       ? v->c
              : kind == LS_CPU_CONV_DX ? v->n
                                       : v->n * v->oh,
              dw ? 16 : 1, work_of(p), each[kind], p);
  return LS_OK;
}

/* bf16: windows of one element are rows of a product. */
static ls_status_t low_product(ls_stream_t *stream, const conv_t *p, ls_cpu_conv_kind_t kind) {
  const bool y = kind == LS_CPU_CONV_Y, dx = kind == LS_CPU_CONV_DX, dw = kind == LS_CPU_CONV_DW;
  const int64_t rows = p->v.n * p->v.h * p->v.w, c = p->v.c, o = p->v.o;
  const ls_cpu_product_t product = {.m = dw ? o : rows,
                                    .n = y ? o : c,
                                    .k = y    ? c
                                         : dx ? o
                                              : rows,
                                    .lda = y ? c : o,
                                    .ldb = c,
                                    .ldc = y ? o : c,
                                    .transpose_a = dw,
                                    .transpose_b = y,
                                    .low = !dw,
                                    .a = (void *)(y ? p->x : p->y),
                                    .b = (void *)(dw ? p->x : p->w),
                                    .c = y    ? p->y
                                         : dx ? p->x
                                              : p->w};
  return ls_cpu_product_bf16(stream, &product);
}

/* oneDNN computes the convolutions that it has. The others are computed here, bf16 through f32. */
static ls_status_t convolve(ls_stream_t *stream, const ls_kernel_args_t *args, ls_cpu_conv_kind_t kind,
                            const ls_tensor_t *x, const ls_tensor_t *w, const ls_tensor_t *y) {
  static const ls_cpu_loop_fn parts[] = {
      [LS_CPU_CONV_Y] = conv_rows, [LS_CPU_CONV_DX] = dx_images, [LS_CPU_CONV_DW] = dw_columns};
  const ls_window_t v = ls_window_conv(args->attrs, &x->shape, &w->shape, &y->shape);
  const bool low = args->in[0].shape.dtype == LS_BF16;
  conv_t p = conv_of(ls_cpu_simd(stream), &v);
  p.x = x->data;
  p.w = w->data;
  p.y = y->data;
  ls_status_t status = low && p.plain && v.groups == 1
                           ? low_product(stream, &p, kind)
                           : ls_cpu_convolution(stream, kind, &v, low, p.x, p.w, p.y);
  if (status != LS_ERR_UNSUPPORTED) return status;
  if (low) return args->widened(stream, args);
  if (p.in == 1 && p.of == 1 && v.groups > 1) return run_depthwise(stream, &p, kind);
  return run_parts(stream, &p, parts[kind]);
}

static ls_status_t conv2d(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return convolve(stream, args, LS_CPU_CONV_Y, &args->in[0], &args->in[1], &args->out[0]);
}

static ls_status_t conv2d_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return convolve(stream, args, LS_CPU_CONV_DX, &args->out[0], &args->in[1], &args->in[0]);
}

static ls_status_t conv2d_dw(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return convolve(stream, args, LS_CPU_CONV_DW, &args->in[1], &args->out[0], &args->in[0]);
}

const ls_cpu_row_t ls_cpu_conv_rows[] = {
    {"conv2d", conv2d, true}, {"conv2d_dx", conv2d_dx, true}, {"conv2d_dw", conv2d_dw, true}, {0}};
