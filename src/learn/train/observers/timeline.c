/* The tasks of one step for the event log, once a minute, where tasks are timed. */
#include "train/observers/observers.h"

typedef struct {
  ls_trainer_t *t;
  json_t *tasks; /* of the step under way; NULL: it is not shown */
  int64_t steps, begin_ns, next_ns;
} own_t;

static bool wanted(const ls_trainer_t *t) {
  return t->training && t->config->monitor.dir;
}

static void at_end(void *own, ls_status_t status) {
  (void)status;
  own_t *line = own;
  json_decref(line->tasks);
  *line = (own_t){.t = line->t};
}

/* Name, lane, phase, begin and duration (us) of each task of micro-batch m. */
static void add_tasks(const ls_engine_t *e, int64_t step, int m, int64_t after_ns, json_t *tasks) {
  enum { TASKS_MAX = 4000 };
  const ls_step_t *train = &e->step[LS_STEP_TRAIN];
  const ls_schedule_t *s = train->program.member[ls_program_at(&train->program, step, m)];
  const ls_task_time_t *times = ls_run_times(train->run);
  for (int i = 0; i < s->task_count && json_array_size(tasks) < TASKS_MAX; i++) {
    const ls_task_t *task = &s->tasks[i];
    json_array_append_new(tasks, json_pack("[s, i, i, f, f]", task->name, (int)task->lane, (int)task->phase,
                                           1e-3 * (double)(after_ns + times[i].start_ns),
                                           1e-3 * (double)(times[i].end_ns - times[i].start_ns)));
  }
}

static void unit(void *own, const ls_loop_t *loop, int64_t step, int m) {
  enum { STEPS_FIRST = 8 }; /* caches are cold before */
  const int64_t every_ns = INT64_C(60) * 1000000000;
  own_t *line = own;
  const ls_engine_t *e = &loop->t->engine;
  const int count = e->share.micro_batches;
  if (!ls_run_times(e->step[LS_STEP_TRAIN].run)) return;
  const int64_t begin_ns = e->launched_ns[(step * count + m) % LS_ENGINE_SLOTS];
  if (m == 0 && line->steps++ >= STEPS_FIRST && begin_ns >= line->next_ns) {
    line->tasks = json_array();
    line->begin_ns = begin_ns;
    line->next_ns = begin_ns + every_ns;
  }
  if (!line->tasks) return;
  add_tasks(e, step, m, begin_ns - line->begin_ns, line->tasks);
  if (m + 1 < count) return;
  json_t *lanes = json_array();
  for (int i = 0; i < LS_LANE_COUNT; i++)
    json_array_append_new(lanes, json_string(ls_lane_name((ls_lane_t)i)));
  ls_trainer_tell(loop->t, "timeline",
                  json_pack("{s:I, s:f, s:o, s:o}", "step", (json_int_t)step + 1, "step_time_us",
                            1e-3 * (double)(e->done_ns - line->begin_ns), "lanes", lanes, "tasks",
                            line->tasks));
  line->tasks = NULL;
}

const ls_observer_t ls_observer_timeline = {
    .name = "timeline", .own_bytes = sizeof(own_t), .wanted = wanted, .unit = unit, .at_end = at_end};
