/* Watching GPUs, played by a double of NVML: a short throttle between two looks at the end is seen, sums
 * belong to the window, and what is refused stays unknown. */
#include "base/capture.h"
#include "machine/watch.h"

#include <math.h>
#include <stdlib.h>

static ls_watch_t *start(const char *scene, int count) {
  static const int gpus[] = {0, 1};
  ls_watch_t *watch = NULL;
  setenv("FAKE_NVML", scene, 1);
  assert_int_equal(ls_watch_start(NULL, gpus, count, &watch), LS_OK);
  return watch;
}

/* "pulse": heat acts in a few answers only, long before the last one. */
static void test_short_throttle(void **state) {
  (void)state;
  ls_watch_t *watch = start("pulse", 2);
  ls_watch_report_t r;
  ls_watch_begin(watch);
  for (int i = 0; i < 1100; i++)
    ls_watch_sample(watch);
  ls_watch_end(watch, &r);
  assert_true(r.samples >= 1100);
  assert_int_equal(r.throttle_reasons, 0x20);
  assert_true(isfinite(r.energy_j) && r.energy_j > 0);
  assert_true(r.memory_used_bytes == 3e9);
  assert_true(isnan(r.busy_percent) || r.window_s >= 1); /* NVML averages over up to a second itself */
  ls_watch_begin(watch);                                 /* the next window knows nothing of it */
  ls_watch_sample(watch);
  ls_watch_end(watch, &r);
  assert_int_equal(r.throttle_reasons, 0);
  ls_watch_stop(watch);
}

static void test_refusals(void **state) {
  (void)state;
  ls_watch_report_t r;
  ls_watch_t *watch = start("half", 2);
  ls_watch_begin(watch);
  ls_watch_end(watch, &r);
  assert_true(r.samples >= 1 && isnan(r.energy_j));
  ls_watch_stop(watch);
  watch = start("pulse", 0); /* all: whose energy and memory it is, is not known */
  ls_watch_begin(watch);
  ls_watch_end(watch, &r);
  assert_true(isnan(r.energy_j) && isnan(r.memory_used_bytes));
  assert_true(r.throttle_reasons >= 0);
  ls_watch_stop(watch);
  watch = NULL;
  setenv("FAKE_NVML", "broken", 1);
  assert_int_equal(ls_watch_start(NULL, NULL, 0, &watch), LS_ERR_UNSUPPORTED);
  ls_watch_begin(NULL);
  ls_watch_end(NULL, &r);
  assert_int_equal(r.throttle_reasons, -1);
  ls_watch_stop(NULL);
}

static void test_visible(void **state) {
  (void)state;
  int gpus[4] = {9, 9, 9, 9};
  assert_int_equal(ls_watch_visible(NULL, 2, gpus), 2);
  assert_true(gpus[0] == 0 && gpus[1] == 1);
  assert_int_equal(ls_watch_visible("3,1,2", 2, gpus), 2);
  assert_true(gpus[0] == 3 && gpus[1] == 1);
  assert_int_equal(ls_watch_visible("5", 1, gpus), 1);
  assert_int_equal(gpus[0], 5);
  assert_int_equal(ls_watch_visible("5", 2, gpus), 0);
  assert_int_equal(ls_watch_visible("GPU-8a1b", 1, gpus), 0);
  assert_int_equal(ls_watch_visible("", 1, gpus), 0);
  assert_int_equal(ls_watch_visible("0,-1", 2, gpus), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_throttle), cmocka_unit_test(test_refusals),
                                     cmocka_unit_test(test_visible)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
