/* Puts a member on the lanes, in list order: waits, the task, and a mark for those who wait for it. A host
 * runs this walk; CUDA captures it. */
#include "schedule/run_internal.h"

static ls_status_t write_stamp(void *arg) {
  const ls_stamp_t *stamp = arg;
  *stamp->to = ls_clock_ns() - *stamp->start_ns;
  return LS_OK;
}

/* Marks the start (which = 0) or end (1) of a task. The compute lane of a host runs in this thread, so the
 * clock is read directly, once between tasks that follow each other; other lanes read it when they get there. */
static ls_status_t mark_time(ls_run_t *run, ls_run_member_t *m, int slot, int t, int which) {
  ls_stream_t *on = run->lane[m->s->tasks[t].lane];
  const ls_stream_ops_t *stream = run->device->backend->stream;
  if (run->timed != LS_TIMED_TASKS) return LS_OK;
  if (!run->clock) return stream->record(on, which ? m->slot[slot].until[t] : m->slot[slot].from[t]);
  if (on != run->lane[LS_LANE_COMPUTE]) return stream->call(on, write_stamp, &m->stamp[t][which]);
  if (which || t == 0 || m->s->tasks[t - 1].lane != LS_LANE_COMPUTE || m->s->tasks[t].wait_count)
    return write_stamp(&m->stamp[t][which]);
  m->times[t].start_ns = m->times[t - 1].end_ns;
  return LS_OK;
}

static ls_status_t wait_for_all(ls_run_t *run, ls_run_member_t *m, ls_stream_t *on, const ls_task_t *task) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < task->wait_count && !status; i++)
    status = run->device->backend->stream->wait(on, m->event[task->wait[i]]);
  return status;
}

/* A wait for other ranks begins when compute, and what they get of this rank, is done; it ends with what compute waits
 * for. The events stand on the stream that tells the host when the slot is done: no task runs later because of them, and no
 * further stream takes memory of the device. */
static ls_status_t watch_wait(ls_run_t *run, ls_run_member_t *m, int slot, int t) {
  const int before = ls_run_watched(run, m->s, t);
  const ls_task_t *task = &m->s->tasks[t];
  const ls_stream_ops_t *stream = run->device->backend->stream;
  ls_stream_t *watch = run->slot[slot].done_stream;
  if (before < 0) return LS_OK;
  ls_status_t status = stream->wait(watch, m->event[before]);
  for (int i = 0; i < task->wait_count && !status; i++)
    status = wait_for_all(run, m, watch, &m->s->tasks[task->wait[i]]);
  if (!status) status = stream->record(watch, m->slot[slot].from[t]);
  if (!status) status = wait_for_all(run, m, watch, task);
  return status ? status : stream->record(watch, m->slot[slot].until[t]);
}

static ls_status_t put(ls_run_t *run, ls_run_member_t *m, int slot, int t) {
  const ls_task_t *task = &m->s->tasks[t];
  ls_bound_task_t *b = &m->slot[slot].bound[t];
  const ls_stream_ops_t *stream = run->device->backend->stream;
  ls_stream_t *on = run->lane[m->s->tasks[t].lane];
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

static ls_status_t issue_task(ls_run_t *run, ls_run_member_t *m, int slot, int t, bool watched) {
  const ls_task_t *task = &m->s->tasks[t];
  const ls_stream_ops_t *stream = run->device->backend->stream;
  ls_stream_t *on = run->lane[m->s->tasks[t].lane];
  ls_status_t status = watched ? watch_wait(run, m, slot, t) : LS_OK;
  if (!status) status = wait_for_all(run, m, on, task);
  if (!status) status = mark_time(run, m, slot, t, 0);
  if (!status) status = put(run, m, slot, t);
  if (!status) status = mark_time(run, m, slot, t, 1);
  if (!status && m->event[t]) status = stream->record(on, m->event[t]);
  return status;
}

/* A member begins on the compute lane; the other lanes start after it, so never before the previous member is
 * over. */
static ls_status_t fork_lanes(ls_run_t *run, const ls_run_member_t *m) {
  const ls_stream_ops_t *stream = run->device->backend->stream;
  if (!m->fork) return LS_OK;
  ls_status_t status = stream->record(run->lane[LS_LANE_COMPUTE], m->fork);
  for (int lane = 0; lane < LS_LANE_COUNT && !status; lane++)
    if (m->forked[lane]) status = stream->wait(run->lane[lane], m->fork);
  return status;
}

/* It also ends there: after this, compute has waited for every lane. */
static ls_status_t join_lanes(ls_run_t *run, const ls_run_member_t *m, int slot, bool watched) {
  const ls_stream_ops_t *stream = run->device->backend->stream;
  ls_stream_t *compute = run->lane[LS_LANE_COMPUTE];
  ls_status_t status = LS_OK;
  for (int lane = 0; lane < LS_LANE_COUNT && !status; lane++)
    if (m->joined[lane] >= 0) status = stream->wait(compute, m->event[m->joined[lane]]);
  if (!status && watched) status = stream->record(run->slot[slot].done_stream, m->watched);
  if (!status && watched) status = stream->wait(compute, m->watched);
  return status;
}

ls_status_t ls_run_issue(ls_run_t *run, ls_run_member_t *m, int slot, bool watched) {
  ls_status_t status = LS_OK;
  if (m->slot[slot].begin)
    status = run->device->backend->stream->record(run->lane[LS_LANE_COMPUTE], m->slot[slot].begin);
  if (!status) status = fork_lanes(run, m);
  for (int t = 0; t < m->s->task_count && !status; t++)
    status = issue_task(run, m, slot, t, watched);
  if (!status) status = join_lanes(run, m, slot, watched);
  return status;
}

static ls_status_t capture_once(ls_run_t *run, ls_run_member_t *m, int slot, bool watched) {
  const ls_capture_ops_t *capture = run->device->backend->capture;
  ls_status_t status = capture->begin(run->lane[LS_LANE_COMPUTE]);
  if (status) return status;
  status = ls_run_issue(run, m, slot, watched);
  ls_exec_t *exec = NULL;
  ls_status_t end =
      capture->end(run->lane[LS_LANE_COMPUTE], &exec); /* in any case: a capture must not stay open */
  m->slot[slot].exec[watched] = exec;
  return status ? status : end;
}

ls_status_t ls_run_capture(ls_run_t *run, ls_run_member_t *m, int slot) {
  ls_status_t status = capture_once(run, m, slot, false);
  return !status && m->waits ? capture_once(run, m, slot, true) : status;
}

ls_status_t ls_run_collect_times(ls_run_t *run, ls_run_member_t *m, int slot) {
  const ls_stream_ops_t *stream = run->device->backend->stream;
  const ls_run_bound_t *of = &m->slot[slot];
  const bool watched = run->slot[slot].watched;
  ls_status_t status = LS_OK;
  m->timed = watched;
  m->waited_ns = 0;
  for (int t = 0; t < m->s->task_count && watched && !status; t++) {
    int64_t ns = 0;
    if (of->from[t]) status = stream->elapsed(of->from[t], of->until[t], &ns);
    m->waited_ns += ns;
  }
  for (int t = 0; t < m->s->task_count && of->begin && !status; t++) {
    status = stream->elapsed(of->begin, of->from[t], &m->times[t].start_ns);
    if (!status) status = stream->elapsed(of->begin, of->until[t], &m->times[t].end_ns);
  }
  return status;
}
