/* Prepares everything that a run needs before its first step: memory of the regions, streams of the lanes,
 * events, kernels, and the pointers of every task of every member and slot. */
#include "graph/low.h"
#include "schedule/run_internal.h"

#include <string.h>

void *ls_run_place(const ls_run_t *run, const ls_schedule_t *s, int id, int slot) {
  const ls_sched_tensor_t *t = &s->tensors[id];
  void *base;
  if (t->region < LS_REGION_STATE) {
    const ls_region_row_t *row = &ls_region_rows[t->region];
    int of = row->next ? (slot + 1) % run->slot_count : slot;
    base = run->memory[row->same][row->per_slot ? of : 0];
  } else {
    base = run->state->data[t->region - LS_REGION_STATE];
  }
  return base ? (char *)base + t->offset_bytes : NULL;
}

static ls_status_t allocate_regions(ls_run_t *run) {
  ls_status_t status = LS_OK;
  for (int r = 0; r < LS_REGION_STATE; r++) {
    const ls_region_row_t *row = &ls_region_rows[r];
    size_t size_bytes = ls_program_bytes(&run->program, r);
    int copies = size_bytes == 0 || row->same != r ? 0 : row->per_slot ? run->slot_count : 1;
    if (r == LS_REGION_TRANSIENT && run->borrowed) copies = 0;
    for (int i = 0; i < copies && !status; i++)
      status = run->device->backend->buffer->alloc(run->device, row->memory, size_bytes, &run->memory[r][i]);
  }
  return status;
}

int ls_run_watched(const ls_run_t *run, const ls_schedule_t *s, int t) {
  bool others = false;
  if (run->timed != LS_TIMED_WAITS || s->tasks[t].lane != LS_LANE_COMPUTE) return -1;
  for (int i = 0; i < s->tasks[t].wait_count; i++)
    others |= s->tasks[s->tasks[t].wait[i]].phase == LS_PHASE_STEP_COMM;
  int before = others ? t - 1 : -1;
  while (before >= 0 && s->tasks[before].lane != LS_LANE_COMPUTE)
    before--;
  return before;
}

/* A lane whose first task waits for nothing is forked from compute; a lane for which compute does not wait is
 * joined at the end. */
static ls_status_t find_fork_and_join(ls_run_t *run, ls_run_member_t *m, bool *awaited) {
  const ls_schedule_t *s = m->s;
  bool fork = false;
  for (int lane = 0; lane < LS_LANE_COUNT; lane++) {
    int first = -1, last = -1;
    for (int t = 0; t < s->task_count; t++) {
      if ((int)s->tasks[t].lane != lane) continue;
      if (first < 0) first = t;
      last = t;
    }
    m->joined[lane] = -1;
    if (lane == LS_LANE_COMPUTE || first < 0) continue;
    m->forked[lane] = s->tasks[first].wait_count == 0;
    fork |= m->forked[lane];
    bool joined = false;
    for (int t = last + 1; t < s->task_count && !joined; t++)
      for (int i = 0; i < s->tasks[t].wait_count; i++)
        joined |= s->tasks[t].lane == LS_LANE_COMPUTE && s->tasks[t].wait[i] == last;
    if (joined) continue;
    m->joined[lane] = last;
    awaited[last] = true;
  }
  return fork ? run->device->backend->stream->event_create(run->device, false, &m->fork) : LS_OK;
}

static ls_status_t create_lanes(ls_run_t *run, const ls_schedule_t *s) {
  const ls_stream_ops_t *stream = run->device->backend->stream;
  ls_status_t status = LS_OK;
  for (int t = 0; t < s->task_count && !status; t++) {
    ls_lane_t lane = s->tasks[t].lane;
    ls_stream_kind_t kind = lane == LS_LANE_SIDE ? LS_STREAM_SIDE : LS_STREAM_ASYNC;
    if (!run->lane[lane]) status = stream->create(run->device, kind, &run->lane[lane]);
  }
  return status;
}

static ls_status_t create_events(ls_run_t *run, ls_run_member_t *m) {
  const ls_schedule_t *s = m->s;
  const ls_stream_ops_t *stream = run->device->backend->stream;
  size_t count = (size_t)s->task_count;
  m->event = ls_arena_array(&run->arena, count, sizeof(ls_event_t *));
  bool *awaited = ls_arena_array(&run->arena, count, sizeof(bool));
  if (!m->event || !awaited) return LS_ERR_MEMORY;
  for (int t = 0; t < s->task_count; t++)
    for (int i = 0; i < s->tasks[t].wait_count; i++)
      awaited[s->tasks[t].wait[i]] = true;
  for (int t = 0; t < s->task_count; t++) {
    int before = ls_run_watched(run, s, t);
    m->waits += before >= 0;
    if (before >= 0) awaited[before] = true;
  }
  ls_status_t status = find_fork_and_join(run, m, awaited);
  if (!status && m->waits) status = stream->event_create(run->device, false, &m->watched);
  for (int t = 0; t < s->task_count && !status; t++)
    if (awaited[t]) status = stream->event_create(run->device, false, &m->event[t]);
  return status;
}

/* Devices continue to work while the host goes ahead, so each slot gets a stream for which the host can
 * wait. */
static ls_status_t create_done_streams(ls_run_t *run) {
  const ls_stream_ops_t *stream = run->device->backend->stream;
  ls_status_t status = LS_OK;
  if (run->device->backend->synchronous) return LS_OK;
  for (int i = 0; i < run->slot_count && !status; i++)
    status = stream->create(run->device, LS_STREAM_ASYNC, &run->slot[i].done_stream);
  for (int i = 0; i <= run->slot_count && !status; i++)
    status = stream->event_create(run->device, run->timed == LS_TIMED_WAITS, &run->done[i]);
  return status;
}

static ls_status_t create_clocks(ls_run_t *run, ls_run_member_t *m) {
  size_t count = (size_t)m->s->task_count;
  m->times = ls_arena_array(&run->arena, count, sizeof(*m->times));
  m->stamp = ls_arena_array(&run->arena, count, sizeof(*m->stamp));
  if (!m->times || !m->stamp) return LS_ERR_MEMORY;
  for (size_t t = 0; t < count; t++) {
    m->stamp[t][0] = (ls_stamp_t){&run->start_ns, &m->times[t].start_ns};
    m->stamp[t][1] = (ls_stamp_t){&run->start_ns, &m->times[t].end_ns};
  }
  return LS_OK;
}

/* Makes events for every task, or for those that wait for other ranks. */
static ls_status_t create_timed_events(ls_run_t *run, const ls_run_member_t *m, ls_run_bound_t *slot) {
  const ls_stream_ops_t *stream = run->device->backend->stream;
  size_t count = (size_t)m->s->task_count;
  slot->from = ls_arena_array(&run->arena, count, sizeof(ls_event_t *));
  slot->until = ls_arena_array(&run->arena, count, sizeof(ls_event_t *));
  if (!slot->from || !slot->until) return LS_ERR_MEMORY;
  const bool all = run->timed == LS_TIMED_TASKS;
  ls_status_t status = all ? stream->event_create(run->device, true, &slot->begin) : LS_OK;
  for (int t = 0; t < m->s->task_count && !status; t++) {
    if (!all && ls_run_watched(run, m->s, t) < 0) continue;
    status = stream->event_create(run->device, true, &slot->from[t]);
    if (!status) status = stream->event_create(run->device, true, &slot->until[t]);
  }
  return status;
}

ls_status_t ls_run_allocate(ls_run_t *run) {
  ls_status_t status = allocate_regions(run);
  if (!status)
    status = run->device->backend->stream->create(run->device, LS_STREAM_INLINE, &run->lane[LS_LANE_COMPUTE]);
  if (!status) status = create_done_streams(run);
  for (int k = 0; k < run->program.count && !status; k++) {
    ls_run_member_t *m = &run->member[k];
    status = create_lanes(run, m->s);
    if (!status) status = create_events(run, m);
    if (!status) status = create_clocks(run, m);
    for (int i = 0; i < run->slot_count && !status && run->timed != LS_TIMED_NOTHING && !run->clock; i++)
      status = create_timed_events(run, m, &m->slot[i]);
  }
  return status;
}

static ls_status_t bind_tensors(ls_run_t *run, const ls_schedule_t *s, int slot, int count, const int *ids,
                                const ls_tensor_t **list) {
  ls_tensor_t *t = ls_arena_array(&run->arena, count ? (size_t)count : 1, sizeof(*t));
  if (!t) return LS_ERR_MEMORY;
  for (int i = 0; i < count; i++)
    t[i] = (ls_tensor_t){.data = ls_run_place(run, s, ids[i], slot), .shape = s->tensors[ids[i]].shape};
  *list = t;
  return LS_OK;
}

/* Which rows of the state some member writes, and which members. */
static ls_status_t find_written(ls_run_t *run) {
  const size_t rows = run->state ? (size_t)run->state->count : 0;
  run->written = ls_arena_array(&run->arena, rows + 1, sizeof *run->written);
  if (!run->written) return LS_ERR_MEMORY;
  for (int k = 0; k < run->program.count; k++) {
    const ls_schedule_t *s = run->member[k].s;
    for (int t = 0; t < s->task_count; t++)
      for (int i = 0; i < s->tasks[t].out_count; i++) {
        const int row = s->tensors[s->tasks[t].out[i]].region - LS_REGION_STATE;
        if (row < 0) continue;
        run->written[row] = true;
        run->member[k].changes |= run->state->table->row[row].life == LS_STATE_CARRIED;
      }
  }
  return LS_OK;
}

/* Inputs in rows of the state that no member writes. */
static uint32_t find_stable(const ls_run_t *run, const ls_schedule_t *s, const ls_task_t *task) {
  uint32_t stable = 0;
  for (int i = 0; i < task->in_count; i++) {
    const int row = s->tensors[task->in[i]].region - LS_REGION_STATE;
    if (row >= 0 && !run->written[row]) stable |= UINT32_C(1) << i;
  }
  return stable;
}

static ls_status_t find_kernel(const ls_run_t *run, const ls_task_t *task, ls_bound_task_t *b) {
  char lacks[LS_KERNEL_TEXT_BYTES];
  b->kernel = ls_op_kernel(run->device, task->op, &b->args, lacks);
  if (b->kernel) return LS_OK;
  return ls_fail(run->ctx, LS_ERR_UNSUPPORTED, "run: backend %s has no %s (task '%s')",
                 run->device->backend->name, lacks, task->name);
}

static ls_status_t bind_op(ls_run_t *run, const ls_schedule_t *s, int slot, const ls_task_t *task,
                           ls_bound_task_t *b) {
  b->args.attrs = &task->attrs;
  b->args.in_count = task->in_count;
  b->args.out_count = task->out_count;
  b->args.stable = find_stable(run, s, task);
  if (task->scratch >= 0) {
    b->args.scratch = ls_run_place(run, s, task->scratch, slot);
    b->args.scratch_bytes = s->tensors[task->scratch].size_bytes;
  }
  ls_status_t status = bind_tensors(run, s, slot, task->in_count, task->in, &b->args.in);
  if (!status) status = bind_tensors(run, s, slot, task->out_count, task->out, &b->args.out);
  return status ? status : find_kernel(run, task, b);
}

static ls_status_t bind_collective(ls_run_t *run, const ls_schedule_t *s, int slot, const ls_task_t *task,
                                   ls_bound_task_t *b) {
  const ls_shape_t *in = &s->tensors[task->in[0]].shape, *out = &s->tensors[task->out[0]].shape;
  const ls_shape_t *part = task->collective == LS_ALL_GATHER ? in : out; /* of a message both are the same */
  b->collective = (ls_collective_t){.kind = task->collective,
                                    .name = task->name,
                                    .send = ls_run_place(run, s, task->in[0], slot),
                                    .recv = ls_run_place(run, s, task->out[0], slot),
                                    .count = ls_shape_count(part),
                                    .dtype = part->dtype};
  return ls_comm_bind(run->group[task->group], &b->collective);
}

static void bind_copy(ls_run_t *run, const ls_schedule_t *s, int slot, const ls_task_t *task,
                      ls_bound_task_t *b) {
  b->from = ls_run_place(run, s, task->in[0], slot);
  b->to = ls_run_place(run, s, task->out[0], slot);
  b->size_bytes = s->tensors[task->in[0]].size_bytes;
}

static size_t member_book_bytes(const ls_schedule_t *s) {
  size_t each = sizeof(ls_task_time_t) + 2 * sizeof(ls_stamp_t) + sizeof(ls_event_t *);
  size_t bytes = ls_arena_bytes(&s->arena) + (size_t)s->task_count * each;
  for (int t = 0; t < s->task_count; t++) {
    size_t tensors = (size_t)(s->tasks[t].in_count + s->tasks[t].out_count);
    bytes += (size_t)s->input_slots * (sizeof(ls_bound_task_t) + tensors * sizeof(ls_tensor_t));
  }
  return bytes;
}

int64_t ls_run_book_bytes(const ls_program_t *program) {
  size_t bytes = program->graph_bytes;
  for (int i = 0; i < program->count; i++)
    bytes += member_book_bytes(program->member[i]);
  return (int64_t)bytes;
}

static ls_status_t bind_member(ls_run_t *run, ls_run_member_t *m, int slot) {
  const ls_schedule_t *s = m->s;
  ls_status_t status = LS_OK;
  ls_bound_task_t *bound = ls_arena_array(&run->arena, (size_t)s->task_count, sizeof(*bound));
  if (!bound) return LS_ERR_MEMORY;
  m->slot[slot].bound = bound;
  for (int t = 0; t < s->task_count && !status; t++) {
    const ls_task_t *task = &s->tasks[t];
    if (task->kind == LS_TASK_OP) status = bind_op(run, s, slot, task, &bound[t]);
    if (task->kind == LS_TASK_COLLECTIVE) status = bind_collective(run, s, slot, task, &bound[t]);
    if (task->kind == LS_TASK_COPY) bind_copy(run, s, slot, task, &bound[t]);
  }
  return status;
}

ls_status_t ls_run_bind(ls_run_t *run) {
  ls_status_t status = find_written(run);
  for (int k = 0; k < run->program.count; k++)
    for (int i = 0; i < run->slot_count && !status; i++)
      status = bind_member(run, &run->member[k], i);
  return status;
}
