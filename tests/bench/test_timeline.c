/* A step's timeline: its micro-batches one after the other; of very many, those of one member as one. */

#include "bench/bench.h"

#include <string.h>

#include "unit.h"

enum { STEPS = 2 };

/* "first", "middle" and "last" of a forward and a backward task of 10 and 20 us each. */
static json_t *timeline_of(int micro_batches) {
  ls_task_t tasks[] = {{.lane = LS_LANE_COMPUTE, .phase = LS_PHASE_STEP_FORWARD},
                       {.lane = LS_LANE_COMPUTE, .phase = LS_PHASE_STEP_BACKWARD}};
  ls_schedule_t s = {.tasks = tasks, .task_count = 2};
  ls_program_t p = {.micro_batches = micro_batches,
                    .period = 1,
                    .rule = ls_program_chain,
                    .count = 3,
                    .member = {&s, &s, &s},
                    .times = {1, micro_batches - 2, 1}};
  ls_task_time_t sums[6];
  for (int k = 0; k < 3; k++) {
    int64_t count = STEPS * p.times[k];
    sums[2 * k] = (ls_task_time_t){0, 10000 * count};
    sums[2 * k + 1] = (ls_task_time_t){10000 * count, 30000 * count};
  }
  return ls_bench_timeline(&p, sums, STEPS);
}

static void check(const json_t *list, size_t i, const char *part, double start_us, double end_us) {
  const json_t *e = json_array_get(list, i);
  assert_string_equal(json_string_value(json_object_get(e, "part")), part);
  assert_float_equal(json_real_value(json_object_get(e, "start_us")), start_us, 1e-6);
  assert_float_equal(json_real_value(json_object_get(e, "end_us")), end_us, 1e-6);
}

static void micro_batches_follow_each_other(void **state) {
  json_t *list = timeline_of(4);
  assert_int_equal(json_array_size(list), 8);
  for (size_t m = 0; m < 4; m++) {
    check(list, 2 * m, "forward", 30.0 * (double)m, 30.0 * (double)m + 10);
    check(list, 2 * m + 1, "backward", 30.0 * (double)m + 10, 30.0 * (double)m + 30);
  }
  json_decref(list);
}

static void very_many_are_few_bars(void **state) {
  json_t *list = timeline_of(1000);
  assert_int_equal(json_array_size(list), 6);
  check(list, 2, "forward", 30, 30 + 998 * 10);
  check(list, 5, "backward", 999 * 30 + 10, 1000 * 30);
  json_decref(list);
}

TESTS(NULL, NULL, micro_batches_follow_each_other, very_many_are_few_bars)
