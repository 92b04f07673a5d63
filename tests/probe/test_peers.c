/* Copies between devices: every pair has its curve, and one byte that arrives wrong is counted. The devices
 * are host ones; a double of the stream table spoils bytes. */
#include "probe/probe.h"
#include "support.h"

#include <stdlib.h>

enum { CHECKED_BYTES = 8 << 20, LARGEST_BYTES = 64 << 20 };

static void right(void **state) {
  capture_t *c = *state;
  ls_profile_t *profile = profile_of(c);
  const ls_curve_point_t *points;
  ls_time_t t;
  int wrong = -7, staged = -7;
  assert_int_equal(ls_probe_peers(c->ctx, &ls_backend_cpu, 2, 1, profile, &wrong, &staged), LS_OK);
  assert_int_equal(wrong, 0);
  assert_int_equal(staged, 0); /* one memory */
  assert_int_equal(ls_profile_curve(profile, "device-copy cpu 0-1", &points), 3);
  assert_int_equal(ls_profile_curve(profile, "device-copy cpu 1-0", &points), 3);
  assert_true(points[2].bytes == LARGEST_BYTES && points[2].time.ns > 0);
  assert_int_equal(ls_profile_curve_count(profile), 2);
  assert_true(ls_profile_get(profile, "device-copy cpu all", &t));
  ls_profile_destroy(profile);
}

static int checked_copies;
static ls_status_t spoil(ls_stream_t *stream, void *to, const void *from, size_t size_bytes) {
  ls_status_t status = ls_backend_cpu.stream->copy(stream, to, from, size_bytes);
  /* The second copy of a check is the one between the devices. */
  if (status != LS_OK || size_bytes != CHECKED_BYTES || checked_copies++ != 1) return status;
  status = ls_backend_cpu.stream->sync(stream, 0);
  ((char *)to)[CHECKED_BYTES - 1] ^= 1;
  return status;
}

static ls_stream_ops_t spoiling;
static ls_backend_t backend;
static ls_status_t open_spoiled(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  ls_status_t status = ls_backend_cpu.device->open(ctx, options, device);
  if (status == LS_OK) (*device)->backend = &backend;
  return status;
}

static void one_wrong_byte(void **state) {
  capture_t *c = *state;
  static ls_device_ops_t device;
  device = *ls_backend_cpu.device;
  device.open = open_spoiled;
  spoiling = *ls_backend_cpu.stream;
  spoiling.copy = spoil;
  backend = ls_backend_cpu;
  backend.stream = &spoiling;
  backend.device = &device;
  ls_profile_t *profile = profile_of(c);
  int wrong = -7, staged = -7;
  assert_int_equal(ls_probe_peers(c->ctx, &backend, 2, 1, profile, &wrong, &staged), LS_OK);
  assert_int_equal(wrong, 1);
  ls_profile_destroy(profile);
}

/* Of three devices 0 and 1 reach each other. */
static int asked;
static ls_status_t reach(ls_device_t *device, int index, bool *direct) {
  (void)device;
  asked |= 1 << index;
  *direct = index < 2;
  return LS_OK;
}
static void counts_copies_through_the_host(void **state) {
  capture_t *c = *state;
  static ls_device_ops_t device;
  device = *ls_backend_cpu.device;
  device.open = open_spoiled;
  device.reach = reach;
  backend = ls_backend_cpu;
  backend.device = &device;
  ls_profile_t *profile = profile_of(c);
  int wrong = -7, staged = -7;
  assert_int_equal(ls_probe_peers(c->ctx, &backend, 3, 1, profile, &wrong, &staged), LS_OK);
  assert_int_equal(wrong, 0);
  assert_int_equal(asked, 7);
  assert_int_equal(staged, 2); /* 0 and 1 to 2 */
  ls_profile_destroy(profile);
}

static void refuses(void **state) {
  capture_t *c = *state;
  ls_profile_t *profile = profile_of(c);
  int wrong = -7, staged = -7;
  assert_int_equal(ls_probe_peers(c->ctx, &ls_backend_cpu, 1, 1, profile, &wrong, &staged), LS_ERR_ARGUMENT);
  assert_int_equal(ls_probe_peers(c->ctx, &ls_backend_cpu, LS_GPU_MAX + 1, 1, profile, &wrong, &staged),
                   LS_ERR_ARGUMENT);
  assert_int_equal(wrong, -7);
  ls_profile_destroy(profile);
}

static ls_status_t life(capture_t *c) {
  static ls_machine_t machine;
  ls_profile_t *profile;
  int wrong, staged;
  ls_machine_clear(&machine);
  ls_status_t status = ls_profile_create(c->ctx, &machine, &profile);
  if (status != LS_OK) return status;
  status = ls_probe_peers(c->ctx, &ls_backend_cpu, 2, 1, profile, &wrong, &staged);
  ls_profile_destroy(profile);
  return status;
}

static void every_allocation_fails_once(void **state) {
  assert_in_range(capture_fail_each_alloc(*state, life), 10, 100);
}

TESTS(capture_setup, capture_teardown, right, one_wrong_byte, counts_copies_through_the_host, refuses,
      every_allocation_fails_once)
