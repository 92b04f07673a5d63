/* What the kernels of the cpu backend reach, beside the library's product in one call:
 *   bench_cpu_kernels [threads] [rounds]
 * Each line: op, shape, median time, GFLOP/s or GB/s. Median of `rounds` runs after a warm-up. */
#include "device/cpu/cpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  ls_device_t *device;
  ls_stream_t *stream;
  int rounds;
  int64_t *time_ns;
} bench_t;

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static double median_us(bench_t *b, ls_kernel_fn fn, const ls_kernel_args_t *args) {
  for (int r = -2; r < b->rounds; r++) {
    int64_t start_ns = ls_clock_ns();
    fn(b->stream, args);
    if (r >= 0) b->time_ns[r] = ls_clock_ns() - start_ns;
  }
  qsort(b->time_ns, (size_t)b->rounds, sizeof *b->time_ns, by_value);
  return (double)b->time_ns[b->rounds / 2] / 1e3;
}

static float *numbers(int64_t count) {
  float *p = aligned_alloc(256, ((size_t)count * 4 + 255) / 256 * 256);
  if (!p) exit(1);
  for (int64_t k = 0; k < count; k++)
    p[k] = (float)(k % 251) / 251.0f + 0.1f;
  return p;
}

/* The library alone, as kernels of the same shape: what we would have without our own. */
static ls_status_t library_y(ls_stream_t *stream, const ls_kernel_args_t *a) {
  (void)stream;
  int64_t o = a->in[1].shape.dim[0], i = a->in[1].shape.dim[1], n = a->in[0].shape.dim[0];
  ls_cpu_gemm(false, true, n, o, i, a->in[0].data, i, a->in[1].data, i, 0, a->out[0].data, o);
  return LS_OK;
}
static ls_status_t library_dx(ls_stream_t *stream, const ls_kernel_args_t *a) {
  (void)stream;
  int64_t o = a->in[1].shape.dim[0], i = a->in[1].shape.dim[1], n = a->in[0].shape.dim[0];
  ls_cpu_gemm(false, false, n, i, o, a->in[0].data, o, a->in[1].data, i, 0, a->out[0].data, i);
  return LS_OK;
}
static ls_status_t library_dw(ls_stream_t *stream, const ls_kernel_args_t *a) {
  (void)stream;
  int64_t o = a->out[0].shape.dim[0], i = a->out[0].shape.dim[1], n = a->in[0].shape.dim[0];
  ls_cpu_gemm(true, false, o, i, n, a->in[0].data, o, a->in[1].data, i, 0, a->out[0].data, i);
  return LS_OK;
}

static void products(bench_t *b, int64_t n, int64_t i, int64_t o) {
  ls_tensor_t x = {numbers(n * i), LS_SHAPE(LS_F32, n, i)}, w = {numbers(o * i), LS_SHAPE(LS_F32, o, i)},
              bias = {numbers(o), LS_SHAPE(LS_F32, o)}, dy = {numbers(n * o), LS_SHAPE(LS_F32, n, o)};
  ls_tensor_t y_in[] = {x, w, bias}, dx_in[] = {dy, w}, dwb_in[] = {dy, x}, dwb[] = {w, bias};
  const struct {
    const char *op;
    ls_kernel_fn library;
    ls_kernel_args_t args;
  } rows[] = {{"linear", library_y, {.in = y_in, .in_count = 3, .out = &dy, .out_count = 1}},
              {"linear_dx", library_dx, {.in = dx_in, .in_count = 2, .out = &x, .out_count = 1}},
              {"linear_dwb", library_dw, {.in = dwb_in, .in_count = 2, .out = dwb, .out_count = 2}}};
  for (int k = 0; k < 3; k++) {
    double us = median_us(b, b->device->backend->device->kernel(b->device, rows[k].op), &rows[k].args);
    double library_us = median_us(b, rows[k].library, &rows[k].args);
    double flops = 2.0 * (double)(n * i * o);
    printf(
        "%-11s n %5" PRId64 " i %5" PRId64 " o %5" PRId64 "  %9.1f us %7.1f GFLOP/s   %s, 1 thread %9.1f us "
        "%7.1f GFLOP/s\n",
        rows[k].op, n, i, o, us, flops / us / 1e3, ls_cpu_gemm_name(), library_us, flops / library_us / 1e3);
  }
  free(x.data);
  free(w.data);
  free(bias.data);
  free(dy.data);
}

static void elementwise(bench_t *b, const char *op, int64_t rows, int64_t width, int in_count, int out_count,
                        int arrays) {
  ls_step_params_t step = {.seed = 42, .position = 1000};
  float ctrl[16] = {1, 1, 1e-3f, 0.1f, 0.001f};
  ls_attrs_t attrs = {.f = {0.9, 0.999, 1e-8, 0}};
  if (strcmp(op, "dropout") == 0) attrs.f[0] = 0.2;
  ls_shape_t shape = LS_SHAPE(LS_F32, rows, width);
  ls_tensor_t in[3], out[3];
  for (int k = 0; k < 3; k++) {
    in[k] = (ls_tensor_t){numbers(rows * width), shape};
    out[k] = (ls_tensor_t){numbers(rows * width), shape};
  }
  ls_tensor_t args_in[3] = {in[0], in[1], in[2]};
  if (strcmp(op, "dropout") == 0) args_in[1] = (ls_tensor_t){&step, LS_SHAPE(LS_U8, 64)};
  if (strcmp(op, "adam") == 0) args_in[1] = (ls_tensor_t){ctrl, LS_SHAPE(LS_F32, 16)};
  ls_kernel_args_t args = {
      .attrs = &attrs, .in = args_in, .in_count = in_count, .out = out, .out_count = out_count};
  double us = median_us(b, b->device->backend->device->kernel(b->device, op), &args);
  printf("%-11s %5" PRId64 " x %7" PRId64 "  %9.1f us %7.1f GB/s\n", op, rows, width, us,
         (double)(rows * width * 4 * arrays) / us / 1e3);
  for (int k = 0; k < 3; k++) {
    free(in[k].data);
    free(out[k].data);
  }
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 31;
  if (threads < 1 || rounds < 1) return 2;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  bench_t b = {.rounds = rounds, .time_ns = calloc((size_t)rounds, sizeof(int64_t))};
  const ls_backend_t *cpu = &ls_backend_cpu;
  if (!ctx || !b.time_ns || cpu->device->open(ctx, &(ls_device_options_t){.threads = threads}, &b.device) ||
      cpu->stream->create(b.device, LS_STREAM_INLINE, &b.stream))
    return 1;
  printf("%s, %s\n", b.device->name, ls_cpu_simd(b.stream)->name);
  const int64_t medium[][2] = {{799, 256}, {256, 128}, {128, 64}, {64, 192}};
  const int64_t large[][2] = {{4608, 1024}, {1024, 1024}, {1024, 512}, {512, 256}, {256, 768}};
  for (int k = 0; k < 4; k++)
    products(&b, 16, medium[k][0], medium[k][1]);
  products(&b, 128, 799, 256);
  products(&b, 1024, 799, 256);
  for (int k = 0; k < 5; k++)
    products(&b, 8, large[k][0], large[k][1]);
  for (int64_t n = 4; n <= 512; n *= 2)
    products(&b, n, 1024, 1024);
  products(&b, 64, 4608, 1024);
  products(&b, 512, 4608, 1024);
  const int64_t sizes[][2] = {{16, 256}, {1024, 256}, {512, 1024}};
  for (int k = 0; k < 3; k++) {
    elementwise(&b, "relu", sizes[k][0], sizes[k][1], 1, 1, 2);
    elementwise(&b, "relu_dy", sizes[k][0], sizes[k][1], 2, 1, 3);
    elementwise(&b, "gelu", sizes[k][0], sizes[k][1], 1, 1, 2);
    elementwise(&b, "tanh", sizes[k][0], sizes[k][1], 1, 1, 2);
    elementwise(&b, "dropout", sizes[k][0], sizes[k][1], 2, 1, 2);
  }
  for (int64_t count = 258432; count <= 6885376; count = count == 258432 ? 6885376 : count + 1) {
    elementwise(&b, "sumsq", 1, count, 1, 1, 1);
    elementwise(&b, "accumulate", 1, count, 1, 1, 3);
    elementwise(&b, "adam", 1, count, 2, 3, 7);
  }
  cpu->stream->destroy(b.stream);
  cpu->device->close(b.device);
  ls_ctx_destroy(ctx);
  free(b.time_ns);
  return 0;
}
