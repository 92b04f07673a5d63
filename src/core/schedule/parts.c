/* parts: where a step's time went, seen from the compute lane. A gap before a task is charged to the task for
 * which it waited, and as long as that one waited for the side lane itself, to the side lane's task; any other gap
 * counts as rest. */
#include "schedule/schedule.h"

static int64_t earlier(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* The task, among those for which it waited, that ended last; -1 = none. */
static int last_awaited(const ls_task_time_t *times, const ls_task_t *task) {
  int last = -1;
  for (int i = 0; i < task->wait_count; i++)
    if (last < 0 || times[task->wait[i]].end_ns > times[last].end_ns) last = task->wait[i];
  return last;
}

static int last_of_all(const ls_schedule_t *s, const ls_task_time_t *times) {
  int last = -1;
  for (int t = 0; t < s->task_count; t++)
    if (last < 0 || times[t].end_ns > times[last].end_ns) last = t;
  return last;
}

/* Charges compute's wait for a task, from *now until the task's end, but not beyond `limit`. */
static void charge_wait(const ls_schedule_t *s, const ls_task_time_t *times, int awaited, int64_t limit,
                        int64_t *now, int64_t parts_ns[LS_PHASE_STEP_COUNT]) {
  const ls_task_t *task = &s->tasks[awaited];
  int before = last_awaited(times, task);
  if (before >= 0 && s->tasks[before].lane == LS_LANE_SIDE && times[before].end_ns > *now)
    charge_wait(s, times, before, limit, now, parts_ns);
  int64_t until = earlier(times[awaited].end_ns, limit);
  if (until <= *now) return;
  parts_ns[task->phase] += until - *now;
  *now = until;
}

void ls_schedule_parts(const ls_schedule_t *s, const ls_task_time_t *times,
                       int64_t parts_ns[LS_PHASE_STEP_COUNT]) {
  for (int p = 0; p < LS_PHASE_STEP_COUNT; p++)
    parts_ns[p] = 0;
  int64_t now = 0;
  for (int t = 0; t < s->task_count; t++) {
    const ls_task_t *task = &s->tasks[t];
    if (task->lane != LS_LANE_COMPUTE) continue;
    int awaited = last_awaited(times, task);
    if (awaited >= 0) charge_wait(s, times, awaited, times[t].start_ns, &now, parts_ns);
    if (times[t].start_ns > now) {
      parts_ns[LS_PHASE_STEP_REST] += times[t].start_ns - now;
      now = times[t].start_ns;
    }
    if (times[t].end_ns > now) {
      parts_ns[task->phase] += times[t].end_ns - now;
      now = times[t].end_ns;
    }
  }
  int last = last_of_all(s, times);
  if (last >= 0 && times[last].end_ns > now) parts_ns[s->tasks[last].phase] += times[last].end_ns - now;
}

const char *ls_lane_name(ls_lane_t lane) {
  static const char *const names[LS_LANE_COUNT] = {"compute", "side", "comm", "copy in", "copy out"};
  return names[lane];
}

const char *ls_step_phase_name(ls_step_phase_t phase) {
  static const char *const names[LS_PHASE_STEP_COUNT] = {"input",         "forward",   "backward",
                                                         "communication", "optimizer", "rest"};
  return names[phase];
}
