/* What the loop counts beside the engine. */
#include "train/loop.h"

#include "unit.h"

/* A device one micro-batch ahead, two micro-batches a step: the host launches, which waits for samples, then sees a
 * micro-batch end. Of several waits in a step only the last was counted, and one twice where two steps ended together. */
static void each_wait_for_samples_counts_once_in_the_step_that_it_lengthens(void **state) {
  (void)state;
  static const struct {
    int64_t wait_ns; /* of a launch; -1: a micro-batch ends */
    int64_t step_ns; /* waits of the step that ends with it; -1: none does */
  } events[] = {
      {3, -1},  {5, -1},  {-1, -1}, /* the run begins: two launches before anything ends */
      {7, -1},  {-1, 12},           /* step 0 */
      {11, -1}, {-1, -1}, {13, -1},
      {-1, 24}, {-1, -1}, {-1, 0}, /* nothing more is launched: the run stands still after this step */
  };
  ls_loop_t loop = {0};
  ls_engine_t engine = {0};
  for (int i = 0; i < LS_COUNT(events); i++) {
    if (events[i].wait_ns >= 0) {
      engine.waited_ns = events[i].wait_ns;
      engine.unit_launched++;
      continue;
    }
    ls_loop_count_wait(&loop, &engine);
    if (events[i].step_ns < 0) continue;
    assert_int_equal(loop.waited_ns, events[i].step_ns);
    loop.waited_ns = 0;
  }
}

/* By the device's clock where it is known, without pauses and waits for others; else by the host's, which knows no pauses. */
static void own_time_is_the_devices(void **state) {
  (void)state;
  static const struct {
    int64_t device_ns, left_out_ns;
    bool timed, whole;
    int64_t own_ns;
  } rows[] = {{1000, 0, true, true, 900},   {1700, 700, true, true, 900}, {0, 0, true, true, 1400},
              {1000, 0, false, true, 1400}, {9000, 0, true, false, 1400}, {500, 700, true, true, 1400}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_loop_t loop = {.left_out_ns = rows[i].left_out_ns};
    loop.parts_ns[LS_PHASE_STEP_COMM] = 100;
    const ls_step_times_t times = {.timed = true, .device_ns = rows[i].device_ns};
    ls_loop_count_own(&loop, rows[i].timed ? &times : NULL, rows[i].whole, 1500);
    assert_int_equal(loop.own_ns, rows[i].own_ns);
    assert_int_equal(loop.left_out_ns, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_wait_for_samples_counts_once_in_the_step_that_it_lengthens),
      cmocka_unit_test(own_time_is_the_devices)};
  return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
