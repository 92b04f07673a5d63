/* A step's timeline: when each lane did what. */
#include "bench/bench.h"

#define VISIBLE_GAP 0.01 /* of the step */

static double mean_us(int64_t sum_ns, int64_t steps) {
  return (double)sum_ns * 1e-3 / (double)steps;
}

json_t *ls_bench_timeline(const ls_schedule_t *s, const ls_task_time_t *sums, int64_t steps) {
  json_t *list = json_array(), *last[LS_LANE_COUNT] = {NULL};
  int part[LS_LANE_COUNT] = {0};
  double end_us = 0;
  if (steps == 0) return list;
  for (int i = 0; i < s->task_count; i++)
    if (mean_us(sums[i].end_ns, steps) > end_us) end_us = mean_us(sums[i].end_ns, steps);
  for (int i = 0; i < s->task_count; i++) {
    const ls_task_t *task = &s->tasks[i];
    double from_us = mean_us(sums[i].start_ns, steps), until_us = mean_us(sums[i].end_ns, steps);
    json_t **before = &last[task->lane];
    if (*before && part[task->lane] == (int)task->phase &&
        from_us - ls_bench_number(*before, "end_us") < VISIBLE_GAP * end_us) {
      json_object_set_new(*before, "end_us", json_real(until_us));
      continue;
    }
    *before = json_pack("{s:s, s:s, s:f, s:f}", "lane", ls_lane_name(task->lane), "part",
                        ls_step_phase_name(task->phase), "start_us", from_us, "end_us", until_us);
    part[task->lane] = (int)task->phase;
    json_array_append_new(list, *before);
  }
  return list;
}
