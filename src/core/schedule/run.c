/* A run: a program on a device, micro-batch after micro-batch. */
#include "schedule/run_internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
  POLL_NS = 20000000, /* how often a waiting host asks the transport for errors */
  /* Timing a wait costs 0.7 to 1.7 us (measured on two H200: 1 us of a step with one wait, 30 to 67 us of a
   * step with 40). Once in this time that is 0.2 to 0.4 %. */
  WATCH_NS = 400000
};

static ls_status_t check_member(ls_ctx_t *ctx, const ls_schedule_t *s, const ls_device_t *device,
                                const ls_comm_t *comm, const ls_state_t *state) {
  if (!s->finished || !s->task_count)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "run: the schedule is not finished or empty");
  bool collectives = s->group_count > 1;
  for (int t = 0; t < s->task_count; t++)
    collectives |= s->tasks[t].kind == LS_TASK_COLLECTIVE;
  if (collectives && !comm)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "run: the schedule communicates, without a communicator");
  if (collectives && (comm->rank != s->rank || comm->size != s->world_size))
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "run: a schedule for rank %d of %d on a communicator of rank %d of %d", s->rank,
                   s->world_size, comm->rank, comm->size);
  for (int i = 0; i < s->tensor_count; i++) {
    int row = s->tensors[i].region - LS_REGION_STATE;
    if (row >= 0 && (!state || state->table != s->state || row >= state->count))
      return ls_fail(ctx, LS_ERR_ARGUMENT, "run: the state has no memory for '%s'", s->state->row[row].name);
  }
  if (s->run_bytes[LS_REGION_INPUT] && !device->backend->host_memory && !s->run_bytes[LS_REGION_HOST_NEXT])
    return ls_fail(ctx, LS_ERR_ARGUMENT, "run: on %s the schedule must copy its input",
                   device->backend->name);
  return LS_OK;
}

static ls_run_t *allocate(ls_ctx_t *ctx, const ls_program_t *program, ls_device_t *device, ls_comm_t *comm,
                          const ls_state_t *state, const ls_run_options_t *options) {
  ls_run_t *r = ls_alloc(ctx, sizeof(*r));
  if (!r) return NULL;
  ls_arena_init(&r->arena, ctx);
  r->ctx = ctx;
  r->program = *program;
  r->all = ls_program_groups(program);
  for (int k = 0; k < program->count; k++)
    r->member[k].s = program->member[k];
  r->device = device;
  r->comm = comm;
  r->state = state;
  r->slot_count = r->all->input_slots;
  r->deadline_ns = options ? options->deadline_ns : 0;
  if (r->deadline_ns <= 0)
    r->deadline_ns = comm ? comm->deadline_ns : LS_COMM_DEADLINE_S * INT64_C(1000000000);
  r->clock = device->backend->synchronous;
  r->timed = r->clock ? LS_TIMED_TASKS : options ? options->timed : LS_TIMED_NOTHING;
  size_t transient_bytes = ls_program_bytes(program, LS_REGION_TRANSIENT);
  r->borrowed = options && transient_bytes > 0 && transient_bytes <= options->transient_bytes;
  if (r->borrowed) r->memory[LS_REGION_TRANSIENT][0] = options->transient;
  r->group = ls_arena_array(&r->arena, (size_t)r->all->group_count, sizeof(*r->group));
  if (r->group) {
    r->group[LS_GROUP_WORLD] = comm;
    return r;
  }
  ls_free(r);
  return NULL;
}

/* A rank that has failed does not wait for the others when it destroys the groups. */
static void destroy_groups(ls_run_t *run) {
  for (int g = run->all->group_count - 1; g > 0; g--) {
    if (run->status && run->group[g]) atomic_store(&run->group[g]->broken, true);
    ls_comm_destroy(run->group[g]);
  }
}

ls_status_t ls_run_create(ls_ctx_t *ctx, const ls_program_t *program, ls_device_t *device, ls_comm_t *comm,
                          const ls_state_t *state, const ls_run_options_t *options, ls_run_t **run) {
  ls_status_t status = LS_OK;
  for (int k = 0; k < program->count && !status; k++)
    status = check_member(ctx, program->member[k], device, comm, state);
  if (status) return status;
  ls_run_t *r = allocate(ctx, program, device, comm, state, options);
  const ls_schedule_t *s = ls_program_groups(program);
  status = r ? LS_OK : LS_ERR_MEMORY;
  if (s->group_count > 1) status = ls_comm_agree(comm, "groups of a run", status);
  if (!r) return status;
  for (int g = 1; g < s->group_count && !status; g++)
    status = ls_comm_group(comm, s->groups[g].name, s->groups[g].ranks, s->groups[g].count, &r->group[g]);
  if (!status) status = ls_run_allocate(r);
  if (!status) status = ls_run_bind(r);
  for (int k = 0; k < program->count && device->backend->capture; k++)
    for (int i = 0; i < r->slot_count && !status; i++)
      status = ls_run_capture(r, &r->member[k], i);
  if (status) {
    r->status = status;
    ls_run_destroy(r);
    return status;
  }
  *run = r;
  return LS_OK;
}

static void destroy_member(ls_run_t *run, ls_run_member_t *m) {
  const ls_backend_t *backend = run->device->backend;
  for (int i = 0; i < run->slot_count; i++) {
    ls_run_bound_t *slot = &m->slot[i];
    for (int w = 0; w <= 1; w++)
      if (slot->exec[w]) backend->capture->destroy(slot->exec[w]);
    if (slot->begin) backend->stream->event_destroy(slot->begin);
    for (int t = 0; t < m->s->task_count; t++) {
      if (slot->from && slot->from[t]) backend->stream->event_destroy(slot->from[t]);
      if (slot->until && slot->until[t]) backend->stream->event_destroy(slot->until[t]);
    }
  }
  for (int t = 0; m->event && t < m->s->task_count; t++)
    if (m->event[t]) backend->stream->event_destroy(m->event[t]);
  if (m->fork) backend->stream->event_destroy(m->fork);
  if (m->watched) backend->stream->event_destroy(m->watched);
}

void ls_run_destroy(ls_run_t *run) {
  if (!run) return;
  const ls_backend_t *backend = run->device->backend;
  for (int lane = 0; lane < LS_LANE_COUNT; lane++)
    if (run->lane[lane]) backend->stream->sync(run->lane[lane], run->deadline_ns);
  for (int i = 0; i < run->slot_count; i++) {
    if (run->slot[i].done_stream) backend->stream->destroy(run->slot[i].done_stream);
  }
  for (int i = 0; i <= LS_SLOT_MAX; i++)
    if (run->done[i]) backend->stream->event_destroy(run->done[i]);
  for (int k = 0; k < run->program.count; k++)
    destroy_member(run, &run->member[k]);
  for (int lane = 0; lane < LS_LANE_COUNT; lane++)
    if (run->lane[lane]) backend->stream->destroy(run->lane[lane]);
  if (run->borrowed) run->memory[LS_REGION_TRANSIENT][0] = NULL;
  for (int r = 0; r < LS_REGION_STATE; r++)
    for (int i = 0; i < LS_SLOT_MAX; i++)
      backend->buffer->free(run->device, ls_region_rows[r].memory, run->memory[r][i]);
  destroy_groups(run);
  ls_arena_release(&run->arena);
  ls_free(run);
}

static ls_status_t check_slot(const ls_run_t *run, int slot) {
  if (slot >= 0 && slot < run->slot_count) return LS_OK;
  return ls_fail(run->ctx, LS_ERR_ARGUMENT, "run: slot %d of %d", slot, run->slot_count);
}

void *ls_run_input(ls_run_t *run, const char *name, int slot) {
  const ls_schedule_t *s = run->program.member[0]; /* as all the others */
  int id = ls_schedule_find(s, name);
  if (id < 0 || slot < 0 || slot >= run->slot_count) return NULL;
  const ls_sched_tensor_t *t = &s->tensors[id];
  if (t->region != LS_REGION_INPUT) return NULL;
  void *host = run->memory[LS_REGION_HOST_NEXT][slot];
  void *base = host ? host : run->memory[LS_REGION_INPUT][slot];
  return (char *)base + t->offset_bytes;
}

static int64_t step_of(const ls_run_t *run) {
  return run->comm ? atomic_load(&run->comm->step) : -1;
}

/* Names the program's collectives, so that the message says what may be pending. A captured member cannot say
 * more. */
static ls_status_t report_timeout(const ls_run_t *run) {
  char list[256] = "";
  size_t len = 0;
  for (int k = 0; k < run->program.count; k++) {
    const ls_schedule_t *s = run->program.member[k];
    for (int t = 0; t < s->task_count && len < sizeof(list) - 1; t++)
      if (s->tasks[t].kind == LS_TASK_COLLECTIVE) {
        int n = snprintf(list + len, sizeof(list) - len, "%s'%s'",
                         len ? ", " : "; pending among: ", s->tasks[t].name);
        len += n > 0 ? (size_t)n : 0;
      }
  }
  for (int g = 0; g < run->all->group_count; g++)
    if (run->group[g]) atomic_store(&run->group[g]->broken, true);
  return ls_fail(run->ctx, LS_ERR_TIMEOUT, "rank %d: step %lld did not end within %.3f s%s", run->all->rank,
                 (long long)step_of(run), (double)run->deadline_ns / 1e9, list);
}

/* LS_ERR_TIMEOUT: a transport has reported already. */
static ls_status_t poll_groups(const ls_run_t *run) {
  ls_status_t status = LS_OK;
  for (int g = 0; g < run->all->group_count && !status; g++) {
    ls_comm_t *comm = run->group[g];
    if (!comm) continue;
    if (atomic_load(&comm->broken)) return LS_ERR_TIMEOUT;
    if (comm->ops->poll) status = comm->ops->poll(comm);
    if (status == LS_ERR_TIMEOUT) status = LS_OK; /* it is broken now: the next look says so */
  }
  return status;
}

/* Waits for a stream until the deadline, and meanwhile asks the transport whether it has failed. */
static ls_status_t await(ls_run_t *run, ls_stream_t *stream) {
  int64_t begin_ns = ls_clock_ns(), looked_ns = 0;
  for (;;) {
    int64_t left_ns = run->deadline_ns - (ls_clock_look(&looked_ns, &begin_ns) - begin_ns);
    if (left_ns <= 0) return report_timeout(run);
    ls_status_t status = run->device->backend->stream->sync(stream, left_ns < POLL_NS ? left_ns : POLL_NS);
    if (status != LS_ERR_TIMEOUT) return status;
    status = poll_groups(run);
    if (status) return status;
  }
}

ls_status_t ls_run_prime(ls_run_t *run, int slot) {
  ls_status_t status = check_slot(run, slot);
  if (status || !run->memory[LS_REGION_HOST_NEXT][slot]) return status;
  ls_stream_t *compute = run->lane[LS_LANE_COMPUTE];
  status = run->device->backend->stream->copy(compute, run->memory[LS_REGION_INPUT][slot],
                                              run->memory[LS_REGION_HOST_NEXT][slot],
                                              run->all->run_bytes[LS_REGION_INPUT]);
  return status ? status : await(run, compute);
}

static bool has_stats(const ls_run_t *run, const ls_run_member_t *m) {
  return m->s->run_bytes[LS_REGION_STAT] >= sizeof(run->slot[0].stats);
}

/* A host has run the member when it has issued it; the slot keeps its stats. */
static ls_status_t launch_here(ls_run_t *run, ls_run_member_t *m, int slot) {
  ls_status_t status = ls_run_issue(run, m, slot, false);
  if (status) return status;
  if (has_stats(run, m))
    memcpy(run->slot[slot].stats, run->memory[LS_REGION_STAT][0], sizeof(run->slot[slot].stats));
  return LS_OK;
}

static ls_event_t *end_of(const ls_run_t *run, int64_t launch) {
  return run->done[launch % (run->slot_count + 1)];
}

static ls_status_t launch_there(ls_run_t *run, ls_run_member_t *m, int slot) {
  const ls_backend_t *backend = run->device->backend;
  ls_run_slot_t *of = &run->slot[slot];
  ls_exec_t *exec = m->slot[slot].exec[of->watched];
  ls_stream_t *compute = run->lane[LS_LANE_COMPUTE];
  ls_status_t status =
      exec ? backend->capture->launch(exec, compute) : ls_run_issue(run, m, slot, of->watched);
  ls_event_t *done = end_of(run, of->launch);
  if (!status) status = backend->stream->record(compute, done);
  if (!status) status = backend->stream->wait(of->done_stream, done);
  return status;
}

ls_status_t ls_run_launch(ls_run_t *run, int slot, int64_t unit) {
  const ls_program_t *program = &run->program;
  ls_status_t status = check_slot(run, slot);
  if (status) return status;
  if (unit < 0) return ls_fail(run->ctx, LS_ERR_ARGUMENT, "run: micro-batch %lld", (long long)unit);
  if (run->status) return run->status;
  for (int g = 1; g < run->all->group_count; g++)
    if (run->group[g]) ls_comm_set_step(run->group[g], step_of(run));
  int64_t step = unit / program->micro_batches;
  run->slot[slot].member = ls_program_at(program, step, (int)(unit % program->micro_batches));
  ls_run_member_t *member = &run->member[run->slot[slot].member];
  run->slot[slot].launch = run->launches++;
  run->start_ns = ls_clock_ns();
  run->slot[slot].watched = member->waits > 0 && run->start_ns >= run->watch_next_ns;
  if (run->slot[slot].watched) run->watch_next_ns = run->start_ns + member->waits * WATCH_NS;
  status =
      run->device->backend->synchronous ? launch_here(run, member, slot) : launch_there(run, member, slot);
  if (member->changes) ls_state_changed(run->state);
  return run->status = status;
}

ls_status_t ls_run_call(ls_run_t *run, ls_host_fn fn, void *arg) {
  return run->status ? run->status : run->device->backend->stream->call(run->lane[LS_LANE_COMPUTE], fn, arg);
}

ls_status_t ls_run_wait(ls_run_t *run, int slot, const float **stats) {
  ls_status_t status = check_slot(run, slot);
  if (status) return status;
  if (run->status) return run->status;
  ls_run_slot_t *of = &run->slot[slot];
  ls_run_member_t *m = &run->member[run->newest = of->member];
  if (of->done_stream) status = await(run, of->done_stream);
  if (!status) status = ls_run_collect_times(run, m, slot);
  run->since_ns = 0;
  if (!status && run->timed == LS_TIMED_WAITS && ls_run_timed(run) && of->done_stream && of->launch > 0)
    status = run->device->backend->stream->elapsed(end_of(run, of->launch - 1), end_of(run, of->launch),
                                                   &run->since_ns);
  if (status) return run->status = status;
  const float *host = run->memory[LS_REGION_HOST_STAT][slot];
  if (stats) *stats = !has_stats(run, m) ? NULL : host ? host : of->stats;
  return LS_OK;
}

/* The last of the members that has a tensor of this name; NULL = none. */
static const ls_schedule_t *find_tensor(const ls_run_t *run, const char *name, int *id) {
  for (int k = run->program.count - 1; k >= 0; k--)
    if ((*id = ls_schedule_find(run->program.member[k], name)) >= 0) return run->program.member[k];
  return NULL;
}

ls_status_t ls_run_read(ls_run_t *run, const char *name, int slot, void *to, size_t size_bytes) {
  ls_status_t status = check_slot(run, slot);
  if (status) return status;
  int id;
  const ls_schedule_t *s = find_tensor(run, name, &id);
  if (!s) return ls_fail(run->ctx, LS_ERR_NOT_FOUND, "run: the schedule has no tensor '%s'", name);
  if (s->tensors[id].size_bytes != size_bytes)
    return ls_fail(run->ctx, LS_ERR_ARGUMENT, "run: tensor '%s' has %zu bytes, not %zu", name,
                   s->tensors[id].size_bytes, size_bytes);
  if (!size_bytes) return LS_OK;
  ls_stream_t *compute = run->lane[LS_LANE_COMPUTE];
  status = run->device->backend->stream->copy(compute, to, ls_run_place(run, s, id, slot), size_bytes);
  return status ? status : await(run, compute);
}

int ls_run_member(const ls_run_t *run) {
  return run->newest;
}

bool ls_run_timed(const ls_run_t *run) {
  const ls_run_member_t *m = &run->member[run->newest];
  return run->timed == LS_TIMED_TASKS || (run->timed == LS_TIMED_WAITS && (m->waits == 0 || m->timed));
}

const ls_task_time_t *ls_run_times(const ls_run_t *run) {
  return run->timed == LS_TIMED_TASKS ? run->member[run->newest].times : NULL;
}

int64_t ls_run_since_ns(const ls_run_t *run) {
  return run->since_ns;
}

int64_t ls_run_start_ns(const ls_run_t *run) {
  return run->start_ns;
}

void ls_run_parts(const ls_run_t *run, int64_t parts_ns[LS_PHASE_STEP_COUNT]) {
  const ls_run_member_t *m = &run->member[run->newest];
  if (run->timed == LS_TIMED_TASKS) {
    ls_schedule_parts(m->s, m->times, parts_ns);
    return;
  }
  memset(parts_ns, 0, LS_PHASE_STEP_COUNT * sizeof *parts_ns);
  if (ls_run_timed(run)) parts_ns[LS_PHASE_STEP_COMM] = m->waited_ns;
}
