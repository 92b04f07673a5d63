/* Elementwise ops: the loops of simd_elementwise.h over equal parts. */
#include "device/cpu/cpu.h"

enum { GRAIN = 64 };

typedef struct {
  void (*map1)(int64_t count, const float *x, float *y);
  void (*map2)(int64_t count, const float *a, const float *b, float *y);
  const float *a, *b;
  float *y;
} map_t;

static void run_map1(const void *arg, int64_t begin, int64_t end) {
  const map_t *m = arg;
  m->map1(end - begin, m->a + begin, m->y + begin);
}

static void run_map2(const void *arg, int64_t begin, int64_t end) {
  const map_t *m = arg;
  m->map2(end - begin, m->a + begin, m->b + begin, m->y + begin);
}

/* `weight`: how many times the cost of moving the bytes. */
static ls_status_t map1(ls_stream_t *stream, const ls_kernel_args_t *args, int weight,
                        void (*fn)(int64_t, const float *, float *)) {
  map_t m = {.map1 = fn, .a = args->in[0].data, .y = args->out[0].data};
  int64_t count = ls_shape_count(&args->out[0].shape);
  ls_cpu_loop(stream, count, GRAIN, count * 8 * weight, run_map1, &m);
  return LS_OK;
}

static ls_status_t map2(ls_stream_t *stream, const ls_kernel_args_t *args, int weight,
                        void (*fn)(int64_t, const float *, const float *, float *)) {
  map_t m = {.map2 = fn, .a = args->in[0].data, .b = args->in[1].data, .y = args->out[0].data};
  int64_t count = ls_shape_count(&args->out[0].shape);
  ls_cpu_loop(stream, count, GRAIN, count * 12 * weight, run_map2, &m);
  return LS_OK;
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
KERNEL(relu_dy, map2, LIGHT, relu_dy)
KERNEL(tanh_dy, map2, LIGHT, tanh_dy)
KERNEL(sigmoid_dy, map2, LIGHT, sigmoid_dy)
KERNEL(gelu_dx, map2, HEAVY, gelu_dx)
KERNEL(add, map2, LIGHT, add)
KERNEL(mul, map2, LIGHT, mul)
#undef KERNEL

/* acc += x: (x) -> acc (inout). */
static ls_status_t accumulate(ls_stream_t *stream, const ls_kernel_args_t *args) {
  map_t m = {.map2 = ls_cpu_simd(stream)->add,
             .a = args->out[0].data,
             .b = args->in[0].data,
             .y = args->out[0].data};
  int64_t count = ls_shape_count(&args->out[0].shape);
  ls_cpu_loop(stream, count, GRAIN, count * 12, run_map2, &m);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_elementwise_rows[] = {
    {"relu", relu},       {"relu_dy", relu_dy},       {"tanh", hyperbolic_tangent},
    {"tanh_dy", tanh_dy}, {"sigmoid", sigmoid},       {"sigmoid_dy", sigmoid_dy},
    {"gelu", gelu},       {"gelu_dx", gelu_dx},       {"add", add},
    {"mul", mul},         {"accumulate", accumulate}, {0}};
