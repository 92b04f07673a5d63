/* Convolution. oneDNN has kernels for most (onednn.c); the others are computed here. As matrix products: the windows of
 * a block of positions are laid out as rows (positions, taps x channels) and multiplied with the weights. A window of one
 * element needs no such copy. Depthwise convolution has loops of its own, along the channels. Forward and data pass are
 * cut along positions or images, the weights' gradient along its columns, so no sum depends on the number of threads;
 * oneDNN's gradients of weights are added up over parts of the images, whose number does depend on it. */
#include "device/cpu/cpu.h"

#include <string.h>

typedef struct {
  const ls_simd_t *simd;
  ls_window_t v;
  int64_t in, of, depth; /* of a group: channels, filters, taps x channels */
  bool plain;            /* a window is an element of x, windows are next to each other */
  int64_t block, parts;  /* positions laid out at once; parts of the loop */
  int64_t stride;        /* of the room: block x depth for each part */
  float *room;           /* depthwise: for weights, tap by tap */
  const float *x, *w, *dy;
  float *y, *dx, *dw;
} conv_t;

enum { BLOCK_FLOATS = 256 << 10, BLOCK_ROWS = 256 };

static int64_t positions(const conv_t *p) {
  return p->v.n * p->v.oh * p->v.ow;
}

static int64_t block_rows(int64_t depth, int64_t all) {
  int64_t rows = BLOCK_FLOATS / depth;
  if (rows < BLOCK_ROWS) rows = BLOCK_ROWS;
  return rows < all ? rows : all;
}

static bool is_plain(const ls_window_t *v) {
  return v->kh * v->kw == 1 && v->sh == 1 && v->sw == 1 && !v->top && !v->left && !v->bottom && !v->right;
}

static conv_t conv_of(const ls_simd_t *simd, const ls_window_t *v) {
  conv_t p = {.simd = simd, .v = *v, .in = v->c / v->groups, .of = v->o / v->groups};
  p.depth = v->kh * v->kw * p.in;
  p.block = block_rows(p.depth, v->n * v->oh * v->ow);
  p.plain = is_plain(v);
  p.stride = p.plain ? 0 : p.block * p.depth;
  return p;
}

static bool is_depthwise(const conv_t *p) {
  return p->in == 1 && p->of == 1 && p->v.groups > 1;
}

static ls_cpu_work_t work_of(const conv_t *p) {
  return LS_CPU_FLOPS(2 * positions(p) * p->v.o * p->depth);
}

/* Of windows laid out by so many parts; of depthwise weights, and their gradients. */
static size_t room_bytes(const conv_t *p, int64_t parts) {
  int64_t floats = is_depthwise(p) ? 2 * p->depth * p->v.c : parts * p->stride + 1;
  return (size_t)floats * sizeof(float);
}

static ls_window_t window_of(ls_cpu_conv_kind_t kind, const ls_kernel_args_t *args) {
  const ls_shape_t *a = &args->in[0].shape, *b = &args->in[1].shape, *c = &args->out[0].shape;
  return kind == LS_CPU_CONV_Y    ? ls_window_conv(args->attrs, a, b, c)
         : kind == LS_CPU_CONV_DX ? ls_window_conv(args->attrs, c, b, a)
                                  : ls_window_conv(args->attrs, b, c, a);
}

/* In bf16 windows of one element are rows of a product. */
static ls_cpu_product_t low_product(ls_cpu_conv_kind_t kind, const ls_window_t *v, void *x, void *w,
                                    void *y) {
  const int64_t rows = v->n * v->h * v->w;
  if (kind == LS_CPU_CONV_DX)
    return (ls_cpu_product_t){.m = rows,
                              .n = v->c,
                              .k = v->o,
                              .lda = v->o,
                              .ldb = v->c,
                              .ldc = v->c,
                              .low = true,
                              .a = y,
                              .b = w,
                              .c = x};
  if (kind == LS_CPU_CONV_DW)
    return (ls_cpu_product_t){.m = v->o,
                              .n = v->c,
                              .k = rows,
                              .lda = v->o,
                              .ldb = v->c,
                              .ldc = v->c,
                              .transpose_a = true,
                              .a = y,
                              .b = x,
                              .c = w};
  return (ls_cpu_product_t){.m = rows,
                            .n = v->o,
                            .k = v->c,
                            .lda = v->c,
                            .ldb = v->c,
                            .ldc = v->o,
                            .transpose_b = true,
                            .low = true,
                            .a = x,
                            .b = w,
                            .c = y};
}

static bool is_low_product(const ls_window_t *v, bool low) {
  return low && is_plain(v) && v->groups == 1;
}

/* Calls fn for every part of the loop: begin is the part's number. */
static ls_status_t run_parts(ls_stream_t *stream, conv_t *p, ls_cpu_loop_fn fn) {
  p->parts = ls_cpu_parts(stream, work_of(p));
  p->room = ls_cpu_room(stream, room_bytes(p, p->parts));
  if (!p->room) return LS_ERR_MEMORY;
  ls_cpu_library_loop(stream, p->parts, 1, work_of(p), fn, p);
  return LS_OK;
}

static void part_of(const conv_t *p, int64_t count, int64_t grain, int64_t part, int64_t *begin,
                    int64_t *end) {
  ls_pool_share(count, grain, (int)part, (int)p->parts, begin, end);
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

/* Adds what was laid out like windows to the image. */
static void add_back(const conv_t *p, int64_t g, int64_t begin, int64_t end, const float *from) {
  for (int64_t r = begin; r < end; r++)
    for (int64_t k = 0; k < p->v.kh * p->v.kw; k++, from += p->in) {
      int64_t at = under(&p->v, r, k);
      float *to = p->dx + at + g * p->in;
      if (at >= 0) p->simd->add(p->in, to, from, to);
    }
}

static void conv_rows(const void *arg, int64_t part, int64_t parts) {
  const conv_t *p = arg;
  for (; part < parts; part++) {
    float *room = p->room + part * p->stride;
    int64_t begin, end;
    part_of(p, positions(p), 16, part, &begin, &end);
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
    part_of(p, p->v.n, 1, part, &begin, &end);
    if (!p->plain) memset(p->dx + begin * image, 0, (size_t)((end - begin) * image) * sizeof(float));
    for (int64_t g = 0; g < p->v.groups; g++)
      for (int64_t r = begin * each; r < end * each; r += p->block) {
        int64_t rows = end * each - r < p->block ? end * each - r : p->block;
        float *to = p->plain ? p->dx + r * p->v.c + g * p->in : room;
        ls_cpu_gemm(false, false, rows, p->depth, p->of, p->dy + r * p->v.o + g * p->of, p->v.o,
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
    part_of(p, p->depth, p->depth < 256 ? 1 : 16, part, &begin, &end);
    for (int64_t g = 0; g < p->v.groups && begin < end; g++)
      for (int64_t r = 0; r < positions(p); r += p->block) {
        int64_t rows = positions(p) - r < p->block ? positions(p) - r : p->block, width = end - begin;
        const float *b = p->plain ? p->x + r * p->v.c + g * p->in + begin : room;
        if (!p->plain) lay_out(p, g, r, r + rows, begin, end, room);
        ls_cpu_gemm(true, false, p->of, width, rows, p->dy + r * p->v.o + g * p->of, p->v.o, b,
                    p->plain ? p->v.c : width, r > 0, p->dw + g * p->of * p->depth + begin, p->depth);
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
  memset(p->dx + begin * image, 0, (size_t)((end - begin) * image) * sizeof(float));
  for (int64_t r = begin * each; r < end * each; r++)
    for (int64_t k = 0; k < p->depth; k++) {
      int64_t at = under(&p->v, r, k);
      if (at >= 0) p->simd->add_product(c, p->dy + r * c, p->room + k * c, p->dx + at);
    }
}

/* A sum for each image first: fewer terms in one sum, so less is lost. */
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
          p->simd->add_product(width, p->x + at + begin, p->dy + r * c + begin, one + k * c + begin);
      }
    for (int64_t k = 0; k < p->depth; k++)
      p->simd->add(width, sum + k * c + begin, one + k * c + begin, sum + k * c + begin);
  }
  for (int64_t f = begin; f < end; f++)
    for (int64_t k = 0; k < p->depth; k++)
      p->dw[f * p->depth + k] = sum[k * c + f];
}

/* Cut into `count` pieces. */
static ls_status_t run_depthwise(ls_stream_t *stream, conv_t *p, int64_t count, int64_t grain,
                                 ls_cpu_loop_fn fn) {
  p->room = ls_cpu_room(stream, room_bytes(p, 1));
  if (!p->room) return LS_ERR_MEMORY;
  if (p->w) transpose(p->w, p->v.c, p->depth, p->room);
  ls_cpu_loop(stream, count, grain, work_of(p), fn, p);
  return LS_OK;
}

/* ---- kernels ---- */

/* By oneDNN, where it has this convolution; bf16 else through f32. */
static ls_status_t by_library(ls_stream_t *stream, const ls_kernel_args_t *args, ls_cpu_conv_kind_t kind,
                              const ls_window_t *v, void *x, void *w, void *y) {
  bool low = args->in[0].shape.dtype == LS_BF16;
  const ls_cpu_product_t product = low_product(kind, v, x, w, y);
  ls_status_t status = is_low_product(v, low) ? ls_cpu_product_bf16(stream, &product)
                                              : ls_cpu_convolution(stream, kind, v, low, x, w, y);
  return status == LS_ERR_UNSUPPORTED && low ? args->widened(stream, args) : status;
}

static ls_status_t conv2d(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_window_t v = window_of(LS_CPU_CONV_Y, args);
  ls_status_t status =
      by_library(stream, args, LS_CPU_CONV_Y, &v, args->in[0].data, args->in[1].data, args->out[0].data);
  if (status != LS_ERR_UNSUPPORTED) return status;
  conv_t p = conv_of(ls_cpu_simd(stream), &v);
  p.x = args->in[0].data;
  p.w = args->in[1].data;
  p.y = args->out[0].data;
  if (is_depthwise(&p)) return run_depthwise(stream, &p, v.n * v.oh, 1, each_y);
  return run_parts(stream, &p, conv_rows);
}

static ls_status_t conv2d_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_window_t v = window_of(LS_CPU_CONV_DX, args);
  ls_status_t status =
      by_library(stream, args, LS_CPU_CONV_DX, &v, args->out[0].data, args->in[1].data, args->in[0].data);
  if (status != LS_ERR_UNSUPPORTED) return status;
  conv_t p = conv_of(ls_cpu_simd(stream), &v);
  p.dy = args->in[0].data;
  p.w = args->in[1].data;
  p.dx = args->out[0].data;
  if (is_depthwise(&p)) return run_depthwise(stream, &p, v.n, 1, each_dx);
  return run_parts(stream, &p, dx_images);
}

static ls_status_t conv2d_dw(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_window_t v = window_of(LS_CPU_CONV_DW, args);
  ls_status_t status =
      by_library(stream, args, LS_CPU_CONV_DW, &v, args->in[1].data, args->out[0].data, args->in[0].data);
  if (status != LS_ERR_UNSUPPORTED) return status;
  conv_t p = conv_of(ls_cpu_simd(stream), &v);
  p.dy = args->in[0].data;
  p.x = args->in[1].data;
  p.dw = args->out[0].data;
  if (is_depthwise(&p)) return run_depthwise(stream, &p, v.c, 16, each_dw);
  return run_parts(stream, &p, dw_columns);
}

const ls_cpu_row_t ls_cpu_conv_rows[] = {
    {"conv2d", conv2d, true}, {"conv2d_dx", conv2d_dx, true}, {"conv2d_dw", conv2d_dw, true}, {0}};
