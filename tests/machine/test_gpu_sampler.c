/* Watching GPUs, played by a double of NVML: a short throttle between two looks at the end is seen, sums
 * belong to the window, and what is refused stays unknown. */
#include "base/capture.h"
#include "machine/gpu_sampler.h"

#include <math.h>
#include <stdlib.h>

static ls_gpu_sampler_t *start(const char *scene, int count) {
  static const int gpus[] = {0, 1};
  ls_gpu_sampler_t *sampler = NULL;
  setenv("FAKE_NVML", scene, 1);
  assert_int_equal(ls_gpu_sampler_start(NULL, gpus, count, &sampler), LS_OK);
  return sampler;
}

/* "pulse": heat acts in a few answers only, long before the last one. */
static void test_short_throttle(void **state) {
  ls_gpu_sampler_t *sampler = start("pulse", 2);
  ls_gpu_sampler_report_t r;
  ls_gpu_sampler_begin(sampler);
  for (int i = 0; i < 1100; i++)
    ls_gpu_sampler_sample(sampler);
  ls_gpu_sampler_end(sampler, &r);
  assert_true(r.samples >= 1100);
  assert_int_equal(r.throttle_reasons, 0x20);
  assert_true(isfinite(r.energy_j) && r.energy_j > 0);
  assert_true(r.memory_used_bytes == 3e9);
  assert_true(isnan(r.busy_percent) || r.window_s >= 1); /* NVML averages over up to a second itself */
  ls_gpu_sampler_begin(sampler);                         /* the next window knows nothing of it */
  ls_gpu_sampler_sample(sampler);
  ls_gpu_sampler_end(sampler, &r);
  assert_int_equal(r.throttle_reasons, 0);
  ls_gpu_sampler_stop(sampler);
}

static void test_refusals(void **state) {
  ls_gpu_sampler_report_t r;
  ls_gpu_sampler_t *sampler = start("half", 2);
  ls_gpu_sampler_begin(sampler);
  ls_gpu_sampler_end(sampler, &r);
  assert_true(r.samples >= 1 && isnan(r.energy_j));
  ls_gpu_sampler_stop(sampler);
  sampler = start("pulse", 0); /* all: whose energy and memory it is, is not known */
  ls_gpu_sampler_begin(sampler);
  ls_gpu_sampler_end(sampler, &r);
  assert_true(isnan(r.energy_j) && isnan(r.memory_used_bytes));
  assert_true(r.throttle_reasons >= 0);
  ls_gpu_sampler_stop(sampler);
  sampler = NULL;
  setenv("FAKE_NVML", "broken", 1);
  assert_int_equal(ls_gpu_sampler_start(NULL, NULL, 0, &sampler), LS_ERR_UNSUPPORTED);
  ls_gpu_sampler_begin(NULL);
  ls_gpu_sampler_end(NULL, &r);
  assert_int_equal(r.throttle_reasons, -1);
  ls_gpu_sampler_stop(NULL);
}

static void test_visible(void **state) {
  int gpus[4] = {9, 9, 9, 9};
  assert_int_equal(ls_gpu_sampler_visible(NULL, 2, gpus), 2);
  assert_true(gpus[0] == 0 && gpus[1] == 1);
  assert_int_equal(ls_gpu_sampler_visible("3,1,2", 2, gpus), 2);
  assert_true(gpus[0] == 3 && gpus[1] == 1);
  assert_int_equal(ls_gpu_sampler_visible("5", 1, gpus), 1);
  assert_int_equal(gpus[0], 5);
  assert_int_equal(ls_gpu_sampler_visible("5", 2, gpus), 0);
  assert_int_equal(ls_gpu_sampler_visible("GPU-8a1b", 1, gpus), 0);
  assert_int_equal(ls_gpu_sampler_visible("", 1, gpus), 0);
  assert_int_equal(ls_gpu_sampler_visible("0,-1", 2, gpus), 0);
}

TESTS(NULL, NULL, test_short_throttle, test_refusals, test_visible)
