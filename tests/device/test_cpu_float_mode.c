/* Denormal numbers: the cpu backend takes them for zero in all of its threads, ref computes with them, and the
 * program that calls finds its floating-point mode as it left it. */
#include "base/float_mode.h"
#include "kernel_test.h"

#include <fenv.h>

enum { COUNT = 1 << 20, THREADS = 3 }; /* so much that every thread takes part */
static const float denormal = 1e-40f;

static bed_t open_on(const ls_backend_t *backend) {
  bed_t bed = {.ctx = ls_ctx_create(NULL, NULL)};
  ls_device_options_t options = {.threads = THREADS};
  assert_int_equal(backend->device->open(bed.ctx, &options, &bed.device), LS_OK);
  assert_int_equal(backend->stream->create(bed.device, LS_STREAM_INLINE, &bed.stream), LS_OK);
  return bed;
}

static ls_status_t add_denormals(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const float *x = args->in[0].data;
  float *y = args->out[0].data;
  (void)stream;
  for (int64_t i = 0; i < ls_shape_count(&args->out[0].shape); i++)
    y[i] = x[i] + x[i];
  return LS_OK;
}

/* How many of the sums of two denormal numbers are zero. */
static int64_t count_zeros(const ls_backend_t *backend) {
  bed_t bed = open_on(backend);
  float *x = guarded(COUNT), *y = guarded(COUNT);
  for (int64_t i = 0; i < COUNT; i++)
    x[i] = denormal;
  ls_tensor_t in[] = {{x, LS_SHAPE(LS_F32, COUNT)}, {x, LS_SHAPE(LS_F32, COUNT)}};
  ls_tensor_t out = {y, LS_SHAPE(LS_F32, COUNT)};
  ls_kernel_args_t args = {.in = in, .in_count = 2, .out = &out, .out_count = 1};
  ls_kernel_fn add = backend->device->kernel ? backend->device->kernel(bed.device, "add") : NULL;
  assert_int_equal(backend->stream->launch(bed.stream, add ? add : add_denormals, &args), LS_OK);
  int64_t zeros = 0;
  for (int64_t i = 0; i < COUNT; i++) {
    uint32_t bits;
    memcpy(&bits, &y[i], sizeof bits);
    zeros += bits == 0;
  }
  guarded_free(y);
  guarded_free(x);
  bed_close(&bed);
  return zeros;
}

static void training_does_not_slow_down_among_denormal_numbers(void **state) {
#if !defined(__x86_64__) && !defined(__aarch64__)
  skip();
#endif
  assert_int_equal(count_zeros(&ls_backend_cpu), COUNT);
  assert_int_equal(count_zeros(&ls_backend_ref), 0);
}

static void the_callers_mode_stays(void **state) {
  assert_int_equal(fesetround(FE_UPWARD), 0);
  ls_float_mode_t before = ls_float_mode();
  count_zeros(&ls_backend_cpu);
  ls_float_mode_t after = ls_float_mode();
  int rounding = fegetround();
  fesetround(FE_TONEAREST);
  assert_int_equal(rounding, FE_UPWARD);
  assert_true(before == after);
  volatile float x = denormal;
  assert_true(x + x > 0);
}

TESTS(NULL, NULL, training_does_not_slow_down_among_denormal_numbers, the_callers_mode_stays)
