/* Elementwise ops: the loops of simd_elementwise.h over equal parts. */
#include "device/cpu/cpu.h"

#include <string.h>

enum { GRAIN = 64 };

enum { BLOCK = 1024 }; /* 16-bit floats are widened in blocks that stay in the nearest cache */

typedef void map1_fn(int64_t count, const float *x, float *y);
typedef void map2_fn(int64_t count, const float *a, const float *b, float *y);

/* y = map1(a), or map2(a, b). */
typedef struct {
  const ls_simd_t *simd;
  map1_fn *map1;
  map2_fn *map2;
  const ls_tensor_t *a, *b, *y;
} map_t;

static void run_map(const void *arg, int64_t begin, int64_t end) {
  const map_t *m = arg;
  const bool low = m->y->shape.dtype != LS_F32;
  float wide_a[BLOCK], wide_b[BLOCK];
  for (int64_t at = begin, count; at < end; at += count) {
    count = low && end - at > BLOCK ? BLOCK : end - at;
    const float *a = ls_cpu_f32(m->simd, m->a, at, count, wide_a);
    float *y = low ? wide_a : (float *)m->y->data + at;
    if (m->map2)
      m->map2(count, a, ls_cpu_f32(m->simd, m->b, at, count, wide_b), y);
    else
      m->map1(count, a, y);
    if (low) m->simd->to_bf16(count, y, (uint16_t *)m->y->data + at);
  }
}

/* weight: the cost in units of moving the bytes. */
static ls_status_t map(ls_stream_t *stream, int weight, const map_t *m) {
  const ls_shape_t *y = &m->y->shape;
  const int64_t count = ls_shape_count(y), bytes = m->map2 || y->dtype != LS_F32 ? 12 : 8;
  ls_cpu_loop(stream, count, GRAIN, LS_CPU_BYTES(count * bytes * weight), run_map, m);
  return LS_OK;
}

static ls_status_t map1(ls_stream_t *stream, const ls_kernel_args_t *args, int weight, map1_fn *fn) {
  return map(stream, weight, &(map_t){ls_cpu_simd(stream), fn, NULL, &args->in[0], NULL, &args->out[0]});
}

static ls_status_t map2(ls_stream_t *stream, const ls_kernel_args_t *args, int weight, map2_fn *fn) {
  return map(stream, weight,
             &(map_t){ls_cpu_simd(stream), NULL, fn, &args->in[0], &args->in[1], &args->out[0]});
}

enum { LIGHT = 1, HEAVY = 4 };
#define KERNEL(op, map, weight, slot)                                                                        \
  static ls_status_t op(ls_stream_t *stream, const ls_kernel_args_t *args) {                                 \
    return map(stream, args, weight, ls_cpu_simd(stream)->slot);                                             \
  }
KERNEL(relu, map1, LIGHT, relu)
KERNEL(hyperbolic_tangent, map1, HEAVY, tanh)
KERNEL(sigmoid, map1, HEAVY, sigmoid)
KERNEL(gelu, map1, HEAVY, gelu)
KERNEL(gelu_tanh, map1, HEAVY, gelu_tanh)
KERNEL(silu, map1, HEAVY, silu)
KERNEL(relu_dy, map2, LIGHT, relu_dy)
KERNEL(tanh_dy, map2, LIGHT, tanh_dy)
KERNEL(sigmoid_dy, map2, LIGHT, sigmoid_dy)
KERNEL(gelu_dx, map2, HEAVY, gelu_dx)
KERNEL(gelu_tanh_dx, map2, HEAVY, gelu_tanh_dx)
KERNEL(silu_dx, map2, HEAVY, silu_dx)
KERNEL(add, map2, LIGHT, add)
KERNEL(mul, map2, LIGHT, mul)
#undef KERNEL

/* acc += x: (x) -> acc (inout). */
static ls_status_t accumulate(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_simd_t *simd = ls_cpu_simd(stream);
  return map(stream, LIGHT, &(map_t){simd, NULL, simd->add, &args->out[0], &args->in[0], &args->out[0]});
}

/* ---- normalize ---- */

enum { PERIOD = 12 /* every number of channels divides it */ };

typedef struct {
  const ls_simd_t *simd;
  const ls_tensor_t *x;
  const ls_step_params_t *step;
  int channels; /* with values of their own; 0: one for all */
  double mean, scale;
  float *y;
} normalize_t;

#define BY_CHANNEL(type)                                                                                     \
  {                                                                                                          \
    const type *x = (const type *)n->x->data + begin;                                                        \
    for (; count >= PERIOD; count -= PERIOD, x += PERIOD, y += PERIOD)                                       \
      for (int k = 0; k < PERIOD; k++)                                                                       \
        y[k] = (float)(((double)x[k] - mean[k]) * scale[k]);                                                 \
    for (int k = 0; k < count; k++)                                                                          \
      y[k] = (float)(((double)x[k] - mean[k]) * scale[k]);                                                   \
    break;                                                                                                   \
  }

static void run_by_channel(const normalize_t *n, int64_t begin, int64_t count) {
  float *y = n->y + begin;
  double mean[PERIOD], scale[PERIOD];
  for (int k = 0; k < PERIOD; k++) {
    mean[k] = n->step->mean[(begin + k) % n->channels];
    scale[k] = n->step->scale[(begin + k) % n->channels];
  }
  switch (n->x->shape.dtype) {
  case LS_U8:
    BY_CHANNEL(uint8_t)
  case LS_U16:
    BY_CHANNEL(uint16_t)
  default:
    BY_CHANNEL(int32_t)
  }
}
#undef BY_CHANNEL

static void run_normalize(const void *arg, int64_t begin, int64_t end) {
  const normalize_t *n = arg;
  int64_t count = end - begin;
  float *y = n->y + begin;
  if (n->channels > 0) {
    run_by_channel(n, begin, count);
    return;
  }
  switch (n->x->shape.dtype) {
  case LS_U8:
    n->simd->from_u8(count, (const uint8_t *)n->x->data + begin, n->mean, n->scale, y);
    break;
  case LS_U16:
    n->simd->from_u16(count, (const uint16_t *)n->x->data + begin, n->mean, n->scale, y);
    break;
  default:
    n->simd->from_i32(count, (const int32_t *)n->x->data + begin, n->mean, n->scale, y);
  }
}

static ls_status_t normalize(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_step_params_t *step = args->in[1].data;
  normalize_t n = {.simd = ls_cpu_simd(stream),
                   .x = &args->in[0],
                   .step = step,
                   .channels = (int)args->attrs->i[0],
                   .mean = step->mean[0],
                   .scale = step->scale[0],
                   .y = args->out[0].data};
  int64_t count = ls_shape_count(&args->out[0].shape);
  ls_cpu_loop(stream, count, GRAIN, LS_CPU_BYTES(count * 8), run_normalize, &n);
  return LS_OK;
}

/* ---- cast ---- */

typedef struct {
  const ls_simd_t *simd;
  const ls_tensor_t *x, *y;
} cast_t;

/* Converts directly between f32 and 16 bits, else through f32, block by block. */
static void run_cast(const void *arg, int64_t begin, int64_t end) {
  const cast_t *c = arg;
  ls_dtype_t to = c->y->shape.dtype;
  if (to == LS_F32) {
    float *y = (float *)c->y->data + begin;
    const float *x = ls_cpu_f32(c->simd, c->x, begin, end - begin, y);
    if (x != y) memcpy(y, x, (size_t)(end - begin) * sizeof *y);
    return;
  }
  float room[BLOCK];
  for (int64_t at = begin; at < end; at += BLOCK) {
    int64_t count = end - at < BLOCK ? end - at : BLOCK;
    (to == LS_BF16 ? c->simd->to_bf16 : c->simd->to_f16)(count, ls_cpu_f32(c->simd, c->x, at, count, room),
                                                         (uint16_t *)c->y->data + at);
  }
}

static ls_status_t cast(ls_stream_t *stream, const ls_kernel_args_t *args) {
  cast_t c = {ls_cpu_simd(stream), &args->in[0], &args->out[0]};
  int64_t count = ls_shape_count(&args->out[0].shape);
  ls_cpu_loop(stream, count, GRAIN, LS_CPU_BYTES(count * 6), run_cast, &c);
  return LS_OK;
}

/* ---- tree_sum ---- */

enum { TREE_BLOCK = 1024, TREE_LEVELS = 10 }; /* a block of every level stays in the caches; 2^10 parts */

typedef struct {
  void (*add)(int64_t count, const float *a, const float *b, float *y);
  const float *parts;
  float *sum;
  int64_t part_count, stride;
} tree_t;

/* Returns elements [at, at + count) of the sum over parts [first, first + n); the sum is in room[level] if n > 1. */
static const float *add_parts(const tree_t *t, int64_t first, int64_t n, int64_t at, int64_t count, int level,
                              float room[][TREE_BLOCK]) {
  int64_t half = 1;
  if (n == 1) return t->parts + first * t->stride + at;
  while (2 * half < n)
    half *= 2;
  const float *a = add_parts(t, first, half, at, count, level, room);
  const float *b = add_parts(t, first + half, n - half, at, count, level + 1, room);
  t->add(count, a, b, room[level]);
  return room[level];
}

static void run_tree(const void *arg, int64_t begin, int64_t end) {
  const tree_t *t = arg;
  float room[TREE_LEVELS + 1][TREE_BLOCK];
  for (int64_t at = begin; at < end; at += TREE_BLOCK) {
    int64_t count = end - at < TREE_BLOCK ? end - at : TREE_BLOCK;
    memcpy(t->sum + at, add_parts(t, 0, t->part_count, at, count, 0, room), (size_t)count * sizeof(float));
  }
}

static ls_status_t tree_sum(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *shape = &args->in[0].shape;
  tree_t t = {.add = ls_cpu_simd(stream)->add,
              .parts = args->in[0].data,
              .sum = args->out[0].data,
              .part_count = shape->dim[0],
              .stride = shape->dim[1]};
  ls_cpu_loop(stream, t.stride, GRAIN, LS_CPU_BYTES(t.stride * 4 * (t.part_count + 1)), run_tree, &t);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_elementwise_rows[] = {{"relu", relu, true},
                                                {"relu_dy", relu_dy, true},
                                                {"tanh", hyperbolic_tangent, true},
                                                {"tanh_dy", tanh_dy, true},
                                                {"sigmoid", sigmoid, true},
                                                {"sigmoid_dy", sigmoid_dy, true},
                                                {"gelu", gelu, true},
                                                {"gelu_dx", gelu_dx, true},
                                                {"gelu_tanh", gelu_tanh, true},
                                                {"gelu_tanh_dx", gelu_tanh_dx, true},
                                                {"silu", silu, true},
                                                {"silu_dx", silu_dx, true},
                                                {"add", add, true},
                                                {"mul", mul, true},
                                                {"normalize", normalize},
                                                {"cast", cast},
                                                {"accumulate", accumulate},
                                                {"tree_sum", tree_sum},
                                                {0}};
