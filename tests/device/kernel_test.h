/* Running one kernel of the cpu backend on guarded memory: outputs are poisoned before and fenced by
 * sentinels that must be untouched after. */
#ifndef LS_TESTS_DEVICE_KERNEL_TEST_H
#define LS_TESTS_DEVICE_KERNEL_TEST_H

#include "device/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

enum { FENCE = 64 };
static const float FENCE_VALUE = -12345.625f;

/* `count` floats between two fences, all poisoned. Offset by one float, so nothing is aligned by luck. */
static inline float *guarded(int64_t count) {
  if (count < 0) fail_msg("%lld floats", (long long)count); /* gcc 14 would follow such a path */
  float *block = malloc((size_t)(count + 2 * FENCE + 1) * sizeof(float));
  assert_non_null(block);
  for (int64_t k = 0; k < count + 2 * FENCE + 1; k++)
    block[k] = FENCE_VALUE;
  for (int64_t k = 0; k < count; k++)
    block[FENCE + 1 + k] = NAN;
  return block + FENCE + 1;
}

static inline void guarded_check(const float *p, int64_t count) {
  for (int64_t k = 1; k <= FENCE; k++)
    if (p[-k] != FENCE_VALUE) fail_msg("%lld elements before the output were written", (long long)k);
  for (int64_t k = 0; k < FENCE; k++)
    if (p[count + k] != FENCE_VALUE) fail_msg("element %lld after the output was written", (long long)k);
}

static inline void guarded_free(float *p) {
  free(p - FENCE - 1);
}

/* Uniform in [lo, hi), a pure function of (seed, index). */
static inline float *random_floats(int64_t count, uint64_t seed, float lo, float hi) {
  float *p = guarded(count);
  for (int64_t k = 0; k < count; k++)
    p[k] = lo + (hi - lo) * ls_rng_unit(ls_rng(seed, 1, (uint64_t)k / 4).v[k % 4]);
  return p;
}

typedef struct {
  ls_ctx_t *ctx;
  ls_device_t *device;
  ls_stream_t *stream;
} bed_t;

static inline bed_t bed_open(int threads) {
  bed_t bed = {.ctx = ls_ctx_create(NULL, NULL)};
  assert_non_null(bed.ctx);
  assert_int_equal(
      ls_backend_cpu.device->open(bed.ctx, &(ls_device_options_t){.threads = threads}, &bed.device), LS_OK);
  assert_int_equal(ls_backend_cpu.stream->create(bed.device, LS_STREAM_INLINE, &bed.stream), LS_OK);
  return bed;
}

static inline void bed_close(bed_t *bed) {
  ls_backend_cpu.stream->destroy(bed->stream);
  bed->device->backend->device->close(bed->device);
  ls_ctx_destroy(bed->ctx);
}

static inline void bed_run(bed_t *bed, const char *op, const ls_kernel_args_t *args) {
  ls_kernel_fn kernel = ls_backend_cpu.device->kernel(bed->device, op);
  if (!kernel) fail_msg("no kernel for %s", op);
  const ls_attrs_t none = {{0}, {0}};
  ls_kernel_args_t own = *args;
  if (!own.attrs) own.attrs = &none;
  size_t room_bytes;
  void *room = ls_backend_cpu.device->room(bed->stream, 0, &room_bytes);
  if (room) memset(room, 0xff, room_bytes);
  assert_int_equal(ls_backend_cpu.stream->launch(bed->stream, kernel, &own), LS_OK);
}

static inline void assert_close(const char *what, int64_t index, double got, double want, double tolerance) {
  if (isnan(want) && isnan(got)) return;
  if (!(fabs(got - want) <= tolerance * (1 + fabs(want))))
    fail_msg("%s[%lld] is %.9g, expected %.9g", what, (long long)index, got, want);
}

#endif
