/* A run's tasks as Chrome trace events ("Trace Event Format", complete events "X"), which Perfetto opens: a
 * process per rank, a thread per lane. */
#include "schedule/schedule.h"

static ls_status_t append(const ls_schedule_t *s, json_t *events, json_t *event) {
  if (event && json_array_append_new(events, event) == 0) return LS_OK;
  return ls_fail(s->ctx, LS_ERR_MEMORY, "trace: out of memory");
}

/* Names of the rank and its lanes come with the first event of the rank. */
static bool is_named(const ls_schedule_t *s, const json_t *events) {
  size_t i;
  json_t *event;
  json_array_foreach(events, i, event) {
    if (json_integer_value(json_object_get(event, "pid")) == s->rank) return true;
  }
  return false;
}

static ls_status_t append_names(const ls_schedule_t *s, json_t *events) {
  ls_status_t status =
      append(s, events,
             json_pack("{s:s, s:s, s:i, s:{s:o}}", "name", "process_name", "ph", "M", "pid", s->rank, "args",
                       "name", json_sprintf("rank %d of %d", s->rank, s->world_size)));
  for (int lane = 0; lane < LS_LANE_COUNT && !status; lane++)
    status = append(s, events,
                    json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", "thread_name", "ph", "M", "pid",
                              s->rank, "tid", lane, "args", "name", ls_lane_name((ls_lane_t)lane)));
  return status;
}

ls_status_t ls_schedule_trace(const ls_schedule_t *s, const ls_task_time_t *times, int64_t step, int m,
                              int64_t start_ns, json_t *events) {
  ls_status_t status = is_named(s, events) ? LS_OK : append_names(s, events);
  for (int t = 0; t < s->task_count && !status; t++) {
    const ls_task_t *task = &s->tasks[t];
    double start_us = (double)(start_ns + times[t].start_ns) / 1e3;
    double duration_us = (double)(times[t].end_ns - times[t].start_ns) / 1e3;
    json_t *args = json_pack("{s:I, s:i, s:s, s:I, s:I}", "step", (json_int_t)step, "micro_batch", m,
                             "member", s->name ? s->name : "whole", "flops", (json_int_t)task->flops, "bytes",
                             (json_int_t)task->bytes);
    status = append(s, events,
                    json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:o}", "name", task->name, "cat",
                              ls_step_phase_name(task->phase), "ph", "X", "ts", start_us, "dur", duration_us,
                              "pid", s->rank, "tid", (int)task->lane, "args", args));
  }
  return status;
}
