/* Timing: medians and intervals are right, keys are the planner's, what can be captured is captured, and a
 * set of measurements ends up in the profile as times and curves. */
#include "probe/meter.h"
#include "probe/probe.h"
#include "support.h"

#include <stdlib.h>

static void samples(void **state) {
  ls_samples_t s = {.count = 0};
  ls_time_t t = {-7, -7, -7};
  assert_false(ls_samples_time(&s, &t));
  assert_true(t.ns == -7);
  ls_samples_add(&s, 5);
  assert_true(ls_samples_time(&s, &t) && t.ns == 5 && t.low_ns == 5 && t.high_ns == 5);
  s.count = 0;
  for (int i = 200; i >= 100; i--)
    ls_samples_add(&s, i);
  assert_true(ls_samples_time(&s, &t) && t.ns == 150 && t.low_ns == 105 && t.high_ns == 195);
  assert_true(s.ns[0] == 200); /* not sorted in place: more may come */
  for (int i = 0; i < 1000; i++)
    ls_samples_add(&s, 7); /* the newest count */
  assert_true(ls_samples_time(&s, &t) && t.ns == 7 && t.low_ns == 7 && t.high_ns == 7);
}

/* The median of a tiny exchange on a busy machine was 40 times what it takes: most samples contained another
 * program's turn. */
static void disturbed_samples_do_not_count(void **state) {
  ls_samples_t s = {.count = 0};
  ls_time_t t;
  for (int i = 0; i < 100; i++)
    ls_samples_add(&s, i % 5 == 0 ? 400 + i : 10000 + 1000 * i);
  assert_true(ls_samples_time(&s, &t));
  assert_true(t.ns >= 400 && t.ns <= 500);
  assert_true(t.high_ns > 10000); /* the interval says how much they were disturbed */
  s.count = 0;
  for (int i = 0; i < 3; i++) /* few: the interval holds the time */
    ls_samples_add(&s, i == 1 ? 1 : 1000);
  assert_true(ls_samples_time(&s, &t) && t.ns == 1 && t.low_ns == 1);
}

static ls_meter_t *meter_of(capture_t *c, const ls_backend_t *backend, ls_device_t **device) {
  ls_meter_t *meter = NULL;
  assert_int_equal(backend->device->open(c->ctx, &(ls_device_options_t){.threads = 1}, device), LS_OK);
  assert_int_equal(ls_meter_create(c->ctx, *device, 1, &meter), LS_OK);
  return meter;
}

static void keys_and_curves(void **state) {
  capture_t *c = *state;
  ls_device_t *device;
  ls_meter_t *meter = meter_of(c, &ls_backend_cpu, &device);
  const ls_shape_t in[] = {LS_SHAPE(LS_F32, 4, 8), LS_SHAPE(LS_F32, 16, 8), LS_SHAPE(LS_F32, 16)};
  assert_int_equal(ls_meter_add_op(meter, "linear", in, NULL, -1, NULL), LS_OK);
  assert_int_equal(ls_meter_add_op(meter, "accumulate", &LS_SHAPE(LS_F32, 16), "memory x", 192, NULL), LS_OK);
  assert_int_equal(ls_meter_add_op(meter, "accumulate", &LS_SHAPE(LS_F32, 64), "memory x", 768, NULL), LS_OK);
  assert_int_equal(ls_meter_add_op(meter, "accumulate", &LS_SHAPE(LS_F32, 64), "memory y", 768, NULL), LS_OK);
  assert_int_equal(ls_meter_add_hand_over(meter), LS_OK);
  assert_int_equal(ls_meter_run(meter, 1000000), LS_OK);
  ls_profile_t *profile = profile_of(c);
  assert_int_equal(ls_meter_report(meter, profile), LS_OK);
  ls_time_t t;
  const ls_curve_point_t *points;
  assert_true(ls_profile_get(profile, "op cpu t1 linear f32 (4, 8) f32 (16, 8) f32 (16) -> f32 (4, 16)", &t));
  assert_true(t.ns > 0);
  assert_true(ls_profile_get(profile, "hand-over cpu t1", &t));
  assert_int_equal(ls_profile_time_count(profile), 2);
  assert_int_equal(ls_profile_curve(profile, "memory x", &points), 2);
  assert_true(points[0].bytes == 192 && points[1].bytes == 768);
  assert_int_equal(ls_profile_curve(profile, "memory y", &points), 1);
  assert_true(meter->items[0].repeats > 1); /* short ones are repeated within a sample */
  ls_profile_destroy(profile);
  ls_meter_destroy(meter);
  device->backend->device->close(device);
}

static void refuses(void **state) {
  capture_t *c = *state;
  ls_device_t *device;
  ls_meter_t *meter = meter_of(c, &ls_backend_cpu, &device);
  const ls_shape_t wrong[] = {LS_SHAPE(LS_F32, 4, 8), LS_SHAPE(LS_F32, 16, 9), LS_SHAPE(LS_F32, 16)};
  assert_int_equal(ls_meter_add_op(meter, "linear", wrong, NULL, -1, NULL), LS_ERR_SHAPE);
  assert_int_equal(ls_meter_add_op(meter, "no such op", wrong, NULL, -1, NULL), LS_ERR_INTERNAL);
  assert_int_equal(meter->count, 0);
  assert_int_equal(ls_meter_run(meter, 1000), LS_OK); /* nothing to do is no loop */
  ls_meter_destroy(meter);
  device->backend->device->close(device);
}

/* A backend that "captures": what is issued between begin and end is counted, and a launch is one. */
static int begun, ended, launched, destroyed;
struct ls_exec {
  int unused;
};
static struct ls_exec the_exec;
static ls_status_t fake_begin(ls_stream_t *stream) {
  (void)stream;
  begun++;
  return LS_OK;
}
static ls_status_t fake_end(ls_stream_t *stream, ls_exec_t **exec) {
  (void)stream;
  ended++;
  *exec = &the_exec;
  return LS_OK;
}
static ls_status_t fake_launch(ls_exec_t *exec, ls_stream_t *stream) {
  (void)stream;
  assert_ptr_equal(exec, &the_exec);
  launched++;
  return LS_OK;
}
static void fake_destroy(ls_exec_t *exec) {
  assert_ptr_equal(exec, &the_exec);
  destroyed++;
}

static void captures(void **state) {
  capture_t *c = *state;
  static const ls_capture_ops_t ops = {fake_begin, fake_end, fake_launch, fake_destroy};
  ls_backend_t backend = ls_backend_cpu;
  backend.capture = &ops;
  backend.host_memory = backend.plain_c =
      false; /* copies are measured, and every op needs a kernel of the backend's own */
  ls_device_t *device;
  assert_int_equal(ls_backend_cpu.device->open(c->ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
  device->backend = &backend;
  ls_meter_t *meter;
  assert_int_equal(ls_meter_create(c->ctx, device, 1, &meter), LS_OK);
  ls_meter_item_t *eager;
  assert_int_equal(ls_meter_add_op(meter, "accumulate", &LS_SHAPE(LS_F32, 4), "eager", -1, &eager), LS_OK);
  eager->eager = true;
  assert_int_equal(ls_meter_add_copy(meter, true, 4096), LS_OK);
  assert_int_equal(ls_meter_add_copy(meter, false, 4096), LS_OK);
  assert_int_equal(ls_meter_run(meter, 1), LS_OK);
  assert_int_equal(begun, 2);
  assert_int_equal(ended, 2);
  assert_true(launched >= 4); /* warm-up and at least one sample of each copy */
  assert_null(eager->exec);
  ls_profile_t *profile = profile_of(c);
  const ls_curve_point_t *points;
  assert_int_equal(ls_meter_report(meter, profile), LS_OK);
  assert_int_equal(ls_profile_curve(profile, "copy-in cpu t1", &points), 1);
  assert_int_equal(ls_profile_curve(profile, "copy-out cpu t1", &points), 1);
  ls_meter_destroy(meter);
  assert_int_equal(destroyed, 2);
  ls_profile_destroy(profile);
  ls_backend_cpu.device->close(device);
}

/* A failing kernel ends the measurement with its status; nothing is made up. */
static ls_status_t broken(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)args;
  return ls_fail(stream->device->ctx, LS_ERR_DEVICE, "broken on purpose");
}
static ls_kernel_fn broken_kernel(const ls_device_t *device, const char *op) {
  (void)device;
  (void)op;
  return broken;
}

static void a_failure_is_passed_up(void **state) {
  capture_t *c = *state;
  ls_device_ops_t ops = *ls_backend_null.device;
  ops.kernel = broken_kernel;
  ls_backend_t backend = ls_backend_null;
  backend.device = &ops;
  ls_device_t *device;
  assert_int_equal(ls_backend_null.device->open(c->ctx, &(ls_device_options_t){.threads = 1}, &device),
                   LS_OK);
  device->backend = &backend;
  ls_meter_t *meter;
  assert_int_equal(ls_meter_create(c->ctx, device, 1, &meter), LS_OK);
  assert_int_equal(ls_meter_add_op(meter, "accumulate", &LS_SHAPE(LS_F32, 4), "x", -1, NULL), LS_OK);
  assert_int_equal(ls_meter_run(meter, 1000), LS_ERR_DEVICE);
  ls_profile_t *profile = profile_of(c);
  assert_int_equal(ls_meter_report(meter, profile), LS_OK);
  assert_int_equal(ls_profile_time_count(profile), 0);
  ls_profile_destroy(profile);
  ls_meter_destroy(meter);
  ls_backend_null.device->close(device);
}

/* A device whose clock says a microsecond for each FLOP. */
static _Atomic int64_t slow_ns, seen_ns, slow_rows;
static ls_status_t slow(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const int64_t *dim = args->in[0].shape.dim;
  slow_ns += 1000 * 2 * dim[0] * dim[1] * dim[1];
  if (dim[0] > slow_rows) slow_rows = dim[0];
  return LS_OK;
}
static ls_kernel_fn slow_kernel(const ls_device_t *device, const char *op) {
  (void)device;
  (void)op;
  return slow;
}
static ls_status_t slow_elapsed(ls_event_t *from, ls_event_t *to, int64_t *ns) {
  (void)from, (void)to;
  *ns = slow_ns - seen_ns;
  seen_ns = slow_ns;
  return LS_OK;
}

/* Products that take minutes each were measured before any budget was looked at. */
static void what_would_take_too_long_is_left_out(void **state) {
  capture_t *c = *state;
  ls_device_ops_t ops = *ls_backend_null.device;
  ops.kernel = slow_kernel;
  ls_stream_ops_t stream = *ls_backend_null.stream;
  stream.elapsed = slow_elapsed;
  ls_backend_t backend = ls_backend_null;
  backend.device = &ops;
  backend.stream = &stream;
  ls_device_t *device;
  ls_meter_t *meter = meter_of(c, &ls_backend_null, &device);
  device->backend = meter->backend = &backend;
  static const int64_t rows[] = {16, 64, 1024};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    const ls_shape_t in[] = {LS_SHAPE(LS_F32, rows[i], 64), LS_SHAPE(LS_F32, 64, 64), LS_SHAPE(LS_F32, 64)};
    assert_int_equal(ls_meter_add_op(meter, "linear", in, NULL, -1, NULL), LS_OK);
  }
  assert_int_equal(ls_meter_run(meter, 1000), LS_OK);
  assert_int_equal(slow_rows, 64); /* one issue of the largest would take 8.4 s */
  assert_int_equal(ls_meter_left_out(meter), 1);
  ls_profile_t *profile = profile_of(c);
  assert_int_equal(ls_meter_report(meter, profile), LS_OK);
  assert_int_equal(ls_profile_time_count(profile), 2);
  ls_profile_destroy(profile);
  ls_meter_destroy(meter);
  ls_backend_null.device->close(device);
}

/* A whole device, computing nothing: everything that belongs to a profile is there. */
static void whole_device(void **state) {
  capture_t *c = *state;
  int left_out;
  ls_profile_t *profile = profile_of(c);
  const ls_curve_point_t *points;
  ls_time_t t;
  assert_int_equal(ls_probe_device(c->ctx, &ls_backend_null, 0, 2, 2000000, profile, &left_out), LS_OK);
  assert_int_equal(left_out, 0);
  assert_int_equal(ls_profile_curve(profile, "memory null t2", &points), 4);
  assert_true(points[3].bytes == 12.0 * (1 << 24));
  assert_true(ls_profile_get(profile, "launch null t2", &t));
  assert_true(ls_profile_get(profile, "hand-over null t2", &t));
  assert_true(ls_profile_get(
      profile, "op null t2 linear f32 (1024, 512) f32 (512, 512) f32 (512) -> f32 (1024, 512)", &t));
  assert_true(ls_profile_get(
      profile, "op null t2 linear_dwb f32 (128, 512) f32 (128, 512) -> f32 (512, 512) f32 (512)", &t));
  assert_int_equal(ls_profile_time_count(profile), 9 + 6 + 2);
  ls_profile_destroy(profile);
}

static bool any_low(const ls_device_t *device, const char *op, ls_dtype_t dtype) {
  (void)device;
  (void)dtype;
  (void)op;
  return true;
}

/* A backend with TF32 and 16-bit products: products in every precision under keys of their own, all else once. */
static ls_status_t open_any_math(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  ls_device_options_t plain = *options;
  plain.math = LS_MATH_FP32;
  ls_status_t status = ls_backend_null.device->open(ctx, &plain, device);
  if (status == LS_OK) (*device)->math = options->math;
  return status;
}

static void every_precision(void **state) {
  capture_t *c = *state;
  int left_out;
  ls_device_ops_t ops = *ls_backend_null.device;
  ops.open = open_any_math;
  ops.low = any_low;
  ls_backend_t backend = ls_backend_null;
  backend.device = &ops;
  backend.tf32 = true;
  ls_profile_t *profile = profile_of(c);
  const ls_curve_point_t *points;
  ls_time_t t;
  assert_int_equal(ls_probe_device(c->ctx, &backend, 0, 1, 2000000, profile, &left_out), LS_OK);
  assert_true(ls_profile_get(
      profile, "op null t1 linear f32 (16, 128) f32 (128, 128) f32 (128) -> f32 (16, 128)", &t));
  assert_true(ls_profile_get(
      profile, "op null tf32 t1 linear f32 (16, 128) f32 (128, 128) f32 (128) -> f32 (16, 128)", &t));
  assert_true(ls_profile_get(
      profile, "op null bf16 t1 linear bf16 (16, 128) bf16 (128, 128) bf16 (128) -> bf16 (16, 128)", &t));
  assert_true(ls_profile_get(
      profile, "op null fp16 t1 linear_dwb f16 (128, 512) f16 (128, 512) -> f32 (512, 512) f32 (512)", &t));
  assert_int_equal(ls_profile_curve(profile, "memory null t1", &points), 4);
  assert_int_equal(ls_profile_curve(profile, "memory null tf32 t1", &points), 0);
  assert_int_equal(ls_profile_time_count(profile), 9 + 6 + 2 + 3 * (9 + 6));
  ls_profile_destroy(profile);
}

static ls_status_t small_life(capture_t *c) {
  ls_device_t *device;
  ls_meter_t *meter = NULL;
  ls_status_t status = ls_backend_cpu.device->open(c->ctx, &(ls_device_options_t){.threads = 1}, &device);
  if (status != LS_OK) return status;
  status = ls_meter_create(c->ctx, device, 1, &meter);
  if (status == LS_OK)
    status = ls_meter_add_op(meter, "accumulate", &LS_SHAPE(LS_F32, 16), "memory", 192, NULL);
  if (status == LS_OK) status = ls_meter_add_copy(meter, true, 64);
  if (status == LS_OK) status = ls_meter_add_hand_over(meter);
  if (status == LS_OK) status = ls_meter_run(meter, 1);
  ls_meter_destroy(meter);
  ls_backend_cpu.device->close(device);
  return status;
}

static void every_allocation_fails_once(void **state) {
  assert_in_range(capture_fail_each_alloc(*state, small_life), 10, 200);
}

TESTS(capture_setup, capture_teardown, samples, disturbed_samples_do_not_count, keys_and_curves, refuses,
      captures, a_failure_is_passed_up, what_would_take_too_long_is_left_out, whole_device, every_precision,
      every_allocation_fails_once)
