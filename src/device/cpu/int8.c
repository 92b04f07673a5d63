/* Products of 8-bit integers: weights and values are rounded into the room, windows are laid out as bytes, and a block of
 * positions is one product of u8 by s8. Sums of integers are exact, so nothing depends on the cuts. */
#include "device/int8.h"
#include "device/cpu/cpu.h"
#include "device/window.h"

#include <string.h>

enum { BLOCK_BYTES = 256 << 10, BLOCK_ROWS = 128, ALIGN = 64 };

typedef struct {
  ls_window_t v;
  int64_t depth, block, parts, positions;
  bool plain; /* a window is an element of x */
  const ls_kernel_args_t *args;
  float scale;
  int zero;
  int8_t *w;             /* (o, depth) */
  float *factor, *shift; /* (o) */
  int32_t *sum;          /* (o) of its weights */
  uint8_t *x;            /* like x */
  char *room;            /* of the parts */
  size_t each;           /* .. of one */
} product_t;

static size_t aligned(size_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static ls_cpu_work_t work_of(const product_t *p) {
  return LS_CPU_FLOPS(p->positions * p->v.o * p->depth / 2); /* four times as fast as f32 */
}

static void round_weights(const void *arg, int64_t begin, int64_t end) {
  const product_t *p = arg;
  const ls_tensor_t *in = p->args->in;
  for (int64_t o = begin; o < end; o++) {
    const float *w = (const float *)in[1].data + o * p->depth;
    const bool norm = p->args->in_count > 3;
    float scale = p->scale * ls_int8_row(w, p->depth, p->w + o * p->depth, &p->sum[o]);
    float gain = norm ? ((const float *)in[3].data)[o] * ((const float *)in[4].data)[o] : 1;
    p->factor[o] = scale * gain;
    p->shift[o] = norm ? ((const float *)in[5].data)[o] - ((const float *)in[2].data)[o] * gain
                       : ((const float *)in[2].data)[o];
  }
}

static void round_values(const void *arg, int64_t begin, int64_t end) {
  const product_t *p = arg;
  const float *x = p->args->in[0].data, inverse = 1 / p->scale, zero = (float)p->zero;
  for (int64_t i = begin; i < end; i++)
    p->x[i] = ls_int8_value(x[i], inverse, zero);
}

static void lay_out(const product_t *p, int64_t begin, int64_t end, uint8_t *to) {
  const ls_window_t *v = &p->v;
  for (int64_t r = begin; r < end; r++)
    for (int64_t k = 0; k < v->kh * v->kw; k++, to += v->c) {
      int64_t y = r / v->ow % v->oh * v->sh - v->top + k / v->kw * v->dh;
      int64_t z = r % v->ow * v->sw - v->left + k % v->kw * v->dw;
      if (y < 0 || y >= v->h || z < 0 || z >= v->w)
        memset(to, p->zero, (size_t)v->c);
      else
        memcpy(to, p->x + ((r / (v->oh * v->ow) * v->h + y) * v->w + z) * v->c, (size_t)v->c);
    }
}

static void products(const void *arg, int64_t part, int64_t parts) {
  const product_t *p = arg;
  for (; part < parts; part++) {
    int32_t *acc = (int32_t *)(p->room + (size_t)part * p->each);
    uint8_t *laid = (uint8_t *)acc + aligned((size_t)(p->block * p->v.o) * sizeof *acc);
    int64_t begin, end;
    ls_pool_share(p->positions, 16, (int)part, (int)p->parts, &begin, &end);
    for (int64_t r = begin; r < end; r += p->block) {
      int64_t rows = end - r < p->block ? end - r : p->block;
      if (!p->plain) lay_out(p, r, r + rows, laid);
      ls_cpu_gemm_int8(rows, p->v.o, p->depth, p->plain ? p->x + r * p->depth : laid, p->w, acc);
      float *y = (float *)p->args->out[0].data + r * p->v.o;
      for (int64_t i = 0; i < rows; i++)
        for (int64_t o = 0; o < p->v.o; o++)
          y[i * p->v.o + o] = (float)(acc[i * p->v.o + o] - p->zero * p->sum[o]) * p->factor[o] + p->shift[o];
    }
  }
}

static ls_status_t run(ls_stream_t *stream, const ls_kernel_args_t *args, const ls_window_t *v) {
  product_t p = {.v = *v, .args = args, .depth = v->kh * v->kw * v->c, .positions = v->n * v->oh * v->ow};
  p.scale = (float)args->attrs->f[0];
  p.zero = (int)args->attrs->f[1];
  p.plain = v->kh * v->kw == 1 && v->sh == 1 && v->sw == 1 && !v->top && !v->left && !v->bottom && !v->right;
  p.block = BLOCK_BYTES / p.depth < BLOCK_ROWS ? BLOCK_ROWS : BLOCK_BYTES / p.depth;
  if (p.block > p.positions) p.block = p.positions;
  p.parts = ls_cpu_parts(stream, work_of(&p));
  const size_t outputs = (size_t)v->o, values = (size_t)ls_shape_count(&args->in[0].shape);
  const size_t weights = aligned(outputs * (size_t)p.depth), vector = aligned(outputs * sizeof(float));
  p.each = aligned((size_t)(p.block * v->o) * sizeof(int32_t)) +
           (p.plain ? 0 : aligned((size_t)(p.block * p.depth)));
  char *room = ls_cpu_room(stream, weights + 3 * vector + aligned(values) + (size_t)p.parts * p.each);
  if (!room) return LS_ERR_MEMORY;
  p.w = (int8_t *)room;
  p.factor = (float *)(room += weights);
  p.shift = (float *)(room += vector);
  p.sum = (int32_t *)(room += vector);
  p.x = (uint8_t *)(room += vector);
  p.room = room + aligned(values);
  ls_cpu_loop(stream, v->o, 1, LS_CPU_BYTES(v->o * p.depth * 12), round_weights, &p);
  ls_cpu_loop(stream, (int64_t)values, ALIGN, LS_CPU_BYTES((int64_t)values * 8), round_values, &p);
  ls_cpu_library_loop(stream, p.parts, 1, work_of(&p), products, &p);
  return LS_OK;
}

static ls_status_t linear_int8(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_window_t v = ls_window_rows(&args->in[0].shape, &args->in[1].shape);
  return run(stream, args, &v);
}
static ls_status_t conv2d_int8(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_window_t v =
      ls_window_conv(args->attrs, &args->in[0].shape, &args->in[1].shape, &args->out[0].shape);
  return run(stream, args, &v);
}

const ls_cpu_row_t ls_cpu_int8_rows[] = {
    {"linear_int8", linear_int8}, {"conv2d_int8", conv2d_int8}, {"conv2d_int8_norm", conv2d_int8}, {0}};
