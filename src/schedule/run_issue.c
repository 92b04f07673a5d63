/* Puts a step on the lanes, in list order: waits, the task, and a mark for those who wait for it. The same
 * walk runs a step on a host, and is what CUDA captures. */
#include "schedule/run_internal.h"

static ls_status_t write_stamp(void *arg) {
  const ls_stamp_t *stamp = arg;
  *stamp->to = ls_clock_ns() - *stamp->step_start_ns;
  return LS_OK;
}

/* Marks the start (which = 0) or end (1) of a task. The compute lane of a host runs in this thread, so the
 * clock is read directly; other lanes read it when they get there. */
static ls_status_t mark_time(ls_run_t *run, int slot, int t, int which) {
  ls_stream_t *on = ls_run_stream(run, t);
  const ls_stream_ops_t *stream = run->device->backend->stream;
  switch (run->timing) {
  case LS_TIMING_CLOCK:
    if (on == run->lane[LS_LANE_COMPUTE]) return write_stamp(&run->stamp[t][which]);
    return stream->call(on, write_stamp, &run->stamp[t][which]);
  case LS_TIMING_EVENTS:
    return stream->record(on, which ? run->slot[slot].until[t] : run->slot[slot].from[t]);
  case LS_TIMING_NONE:
    break;
  }
  return LS_OK;
}

static ls_status_t put(ls_run_t *run, int slot, int t) {
  const ls_task_t *task = &run->s->tasks[t];
  ls_bound_task_t *b = &run->slot[slot].bound[t];
  const ls_stream_ops_t *stream = run->device->backend->stream;
  ls_stream_t *on = ls_run_stream(run, t);
  switch (task->kind) {
  case LS_TASK_OP:
    return stream->launch(on, b->kernel, &b->args);
  case LS_TASK_COLLECTIVE:
    return ls_comm_enqueue(on, &b->collective);
  case LS_TASK_COPY:
    return stream->copy(on, b->to, b->from, b->size_bytes);
  }
  return LS_OK;
}

static ls_status_t issue_task(ls_run_t *run, int slot, int t) {
  const ls_task_t *task = &run->s->tasks[t];
  const ls_stream_ops_t *stream = run->device->backend->stream;
  ls_stream_t *on = ls_run_stream(run, t);
  ls_status_t status = LS_OK;
  for (int i = 0; i < task->wait_count && !status; i++)
    status = stream->wait(on, run->event[task->wait[i]]);
  if (!status) status = mark_time(run, slot, t, 0);
  if (!status) status = put(run, slot, t);
  if (!status) status = mark_time(run, slot, t, 1);
  if (!status && run->event[t]) status = stream->record(on, run->event[t]);
  return status;
}

/* A step begins on the compute lane: the others start after it, so never before the step before is over. */
static ls_status_t fork_lanes(ls_run_t *run) {
  const ls_stream_ops_t *stream = run->device->backend->stream;
  if (!run->fork) return LS_OK;
  ls_status_t status = stream->record(run->lane[LS_LANE_COMPUTE], run->fork);
  for (int lane = 0; lane < LS_LANE_COUNT && !status; lane++)
    if (run->forked[lane]) status = stream->wait(run->lane[lane], run->fork);
  return status;
}

/* And it ends there: after this, compute has waited for every lane. */
static ls_status_t join_lanes(ls_run_t *run) {
  ls_status_t status = LS_OK;
  for (int lane = 0; lane < LS_LANE_COUNT && !status; lane++)
    if (run->joined[lane] >= 0)
      status = run->device->backend->stream->wait(run->lane[LS_LANE_COMPUTE], run->event[run->joined[lane]]);
  return status;
}

ls_status_t ls_run_issue(ls_run_t *run, int slot) {
  ls_status_t status = LS_OK;
  if (run->timing == LS_TIMING_EVENTS)
    status = run->device->backend->stream->record(run->lane[LS_LANE_COMPUTE], run->slot[slot].begin);
  if (!status) status = fork_lanes(run);
  for (int t = 0; t < run->s->task_count && !status; t++)
    status = issue_task(run, slot, t);
  if (!status) status = join_lanes(run);
  return status;
}

ls_status_t ls_run_capture(ls_run_t *run, int slot) {
  const ls_capture_ops_t *capture = run->device->backend->capture;
  ls_status_t status = capture->begin(run->lane[LS_LANE_COMPUTE]);
  if (status) return status;
  status = ls_run_issue(run, slot);
  ls_exec_t *exec = NULL;
  ls_status_t end =
      capture->end(run->lane[LS_LANE_COMPUTE], &exec); /* in any case: a capture must not stay open */
  run->slot[slot].exec = exec;
  return status ? status : end;
}

ls_status_t ls_run_collect_times(ls_run_t *run, int slot) {
  if (run->timing != LS_TIMING_EVENTS) return LS_OK;
  const ls_stream_ops_t *stream = run->device->backend->stream;
  const ls_run_slot_t *of = &run->slot[slot];
  ls_status_t status = LS_OK;
  for (int t = 0; t < run->s->task_count && !status; t++) {
    status = stream->elapsed(of->begin, of->from[t], &run->times[t].start_ns);
    if (!status) status = stream->elapsed(of->begin, of->until[t], &run->times[t].end_ns);
  }
  return status;
}
