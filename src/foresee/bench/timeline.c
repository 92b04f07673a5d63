/* A step's timeline: when each lane did what. */
#include "bench/bench.h"

#define VISIBLE_GAP 0.01 /* of the step */

typedef struct {
  json_t *list, *last[LS_LANE_COUNT];
  int part[LS_LANE_COUNT];
  double gap_us; /* that could be seen */
} timeline_t;

/* Appends a member that begins at begin_us; when it ends. */
static double append(timeline_t *line, const ls_schedule_t *s, const ls_task_time_t *sums, double count,
                     double begin_us) {
  double end_us = begin_us;
  for (int i = 0; i < s->task_count; i++) {
    const ls_task_t *task = &s->tasks[i];
    double from_us = begin_us + (double)sums[i].start_ns * 1e-3 / count,
           until_us = begin_us + (double)sums[i].end_ns * 1e-3 / count;
    json_t **before = &line->last[task->lane];
    if (until_us > end_us) end_us = until_us;
    if (!line->list) continue;
    if (*before && line->part[task->lane] == (int)task->phase &&
        from_us - ls_bench_number(*before, "end_us") < line->gap_us) {
      json_object_set_new(*before, "end_us", json_real(until_us));
      continue;
    }
    *before = json_pack("{s:s, s:s, s:f, s:f}", "lane", ls_lane_name(task->lane), "part",
                        ls_step_phase_name(task->phase), "start_us", from_us, "end_us", until_us);
    line->part[task->lane] = (int)task->phase;
    json_array_append_new(line->list, *before);
  }
  return end_us;
}

/* The last step of a period. Where micro-batches are too short to be seen, those of one member that follow each other are as one. */
static double append_all(timeline_t *line, const ls_program_t *p, const ls_task_time_t *sums, int64_t steps) {
  bool short_ones = p->micro_batches * VISIBLE_GAP > 1;
  double end_us = 0;
  for (int m = 0, next; m < p->micro_batches; m = next) {
    int k = p->rule(p, p->period - 1, m);
    for (next = m + 1; short_ones && next < p->micro_batches && p->rule(p, p->period - 1, next) == k;)
      next++;
    double count = (double)steps * ls_program_times(p, k) / (next - m);
    end_us = append(line, p->member[k], sums + ls_program_task(p, k, 0), count, end_us);
  }
  return end_us;
}

json_t *ls_bench_timeline(const ls_program_t *p, const ls_task_time_t *sums, int64_t steps) {
  timeline_t line = {0};
  if (steps > 0) line.gap_us = VISIBLE_GAP * append_all(&line, p, sums, steps); /* how long it takes */
  line.list = json_array();
  if (steps > 0) append_all(&line, p, sums, steps);
  return line.list;
}
