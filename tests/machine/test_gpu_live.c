/* One GPU of a double of NVML, as it is now. */
#include "machine/gpu_live.h"

#include "unit.h"

#include <math.h>
#include <stdlib.h>

static ls_gpu_live_t *open_in(const char *scene, int index) {
  setenv("FAKE_NVML", scene, 1);
  return ls_gpu_live_open(index);
}

static void every_answer_in_its_unit(void **state) {
  (void)state;
  ls_gpu_now_t now, later;
  ls_gpu_live_t *live = open_in("direct", 1);
  assert_non_null(live);
  ls_gpu_live_read(live, &now);
  ls_gpu_live_read(live, &later);
  assert_true(now.busy_ratio == 0.4 && now.memory_used_bytes == 3e9 && now.memory_bytes == 17179869184.0);
  assert_true(now.temperature_c == 61 && fabs(now.power_w - 200.5) < 1e-9 && now.clock_mhz == 2610);
  assert_true(fabs(later.energy_j - now.energy_j - 0.01) < 1e-9);
  assert_true(now.power_limited == 1 && now.heat_limited == 0 && now.brake_limited == 0);
  ls_gpu_live_close(live);
}

static void what_is_refused_is_not_known(void **state) {
  (void)state;
  ls_gpu_now_t now;
  ls_gpu_live_t *live = open_in("half", 0);
  assert_non_null(live);
  ls_gpu_live_read(live, &now);
  assert_true(isnan(now.power_w) && isnan(now.energy_j) && isnan(now.clock_mhz) && isnan(now.power_limited));
  assert_true(now.busy_ratio == 0.4 && now.temperature_c == 60);
  ls_gpu_live_close(live);
  ls_gpu_live_read(NULL, &now);
  assert_true(isnan(now.busy_ratio) && isnan(now.memory_bytes) && isnan(now.heat_limited));
}

static void no_gpu_is_no_reader(void **state) {
  (void)state;
  assert_null(open_in("broken", 0));
  assert_null(open_in("lost", 0));
  assert_null(open_in("direct", 7));
  ls_gpu_live_close(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_answer_in_its_unit),
      cmocka_unit_test(what_is_refused_is_not_known),
      cmocka_unit_test(no_gpu_is_no_reader),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
