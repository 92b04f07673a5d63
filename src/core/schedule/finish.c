/* finish: turns a list of tasks into a schedule that can run. First the memory layout, because reused bytes
 * order tasks too; then the sizes of the regions; then the waits. */
#include "graph/ops/ops.h"
#include "schedule/access.h"

#include <string.h>

static int append(const ls_schedule_t *s, int tensor, bool write, ls_access_t *to) {
  const ls_sched_tensor_t *t = &s->tensors[tensor];
  if (!t->size_bytes) return 0;
  *to = (ls_access_t){.tensor = tensor,
                      .region = t->region,
                      .begin = t->offset_bytes,
                      .end = t->offset_bytes + t->size_bytes,
                      .write = write};
  return 1;
}

int ls_task_access(const ls_schedule_t *s, const ls_task_t *task, ls_access_t list[LS_ACCESS_MAX]) {
  int n = 0;
  for (int i = 0; i < task->in_count; i++)
    n += append(s, task->in[i], false, &list[n]);
  for (int i = 0; i < task->out_count; i++) {
    if (task->op && (task->op->inout >> i & 1)) n += append(s, task->out[i], false, &list[n]);
  }
  for (int i = 0; i < task->out_count; i++)
    n += append(s, task->out[i], true, &list[n]);
  if (task->scratch >= 0) n += append(s, task->scratch, true, &list[n]);
  return n;
}

bool ls_is_padding(const ls_schedule_t *s, ls_region_t region, size_t begin, size_t end) {
  const ls_state_row_t *row = region < LS_REGION_STATE ? NULL : &s->state->row[region - LS_REGION_STATE];
  if (!row || !row->of_layout) return false;
  const int64_t bytes = (int64_t)ls_dtype_bytes(row->shape.dtype);
  const int64_t first = (int64_t)begin / bytes, last = ((int64_t)end + bytes - 1) / bytes;
  if (!row->range_count) return ls_layout_is_padding(s->state->layout, first, last);
  int64_t skipped = 0; /* elements that the row does not hold */
  for (int i = 0; i < row->range_count; i++) {
    const ls_range_t *r = &row->range[i];
    skipped += r->begin - (i > 0 ? r[-1].end : 0);
    if (first + skipped >= r->begin && last + skipped <= r->end)
      return ls_layout_is_padding(s->state->layout, first + skipped, last + skipped);
  }
  return false;
}

const ls_region_row_t ls_region_rows[LS_REGION_STATE] = {
    [LS_REGION_INPUT] = {"inputs", LS_MEM_DEVICE, .per_slot = true, .same = LS_REGION_INPUT},
    [LS_REGION_INPUT_NEXT] = {NULL, LS_MEM_DEVICE, .per_slot = true, .same = LS_REGION_INPUT, .next = true},
    [LS_REGION_HOST_NEXT] = {"inputs", LS_MEM_HOST, .per_slot = true, .same = LS_REGION_HOST_NEXT,
                             .next = true},
    [LS_REGION_STAT] = {"other", LS_MEM_DEVICE, .same = LS_REGION_STAT},
    [LS_REGION_HOST_STAT] = {"other", LS_MEM_HOST, .per_slot = true, .same = LS_REGION_HOST_STAT},
    [LS_REGION_TRANSIENT] = {"activations", LS_MEM_DEVICE, .same = LS_REGION_TRANSIENT},
};

/* A region of the run is as large as the tensors placed in it. */
static void measure_regions(ls_schedule_t *s) {
  memset(s->run_bytes, 0, sizeof(s->run_bytes));
  for (int i = 0; i < s->tensor_count; i++) {
    const ls_sched_tensor_t *t = &s->tensors[i];
    size_t end = t->offset_bytes + t->size_bytes;
    if (t->region < LS_REGION_STATE && end > s->run_bytes[t->region]) s->run_bytes[t->region] = end;
  }
}

size_t ls_schedule_region_bytes(const ls_schedule_t *s, ls_region_t region) {
  return region < LS_REGION_STATE ? s->run_bytes[region]
                                  : ls_state_row_bytes(&s->state->row[region - LS_REGION_STATE]);
}

/* Places tensors and derives waits, for the lanes as they are. */
static ls_status_t arrange(ls_schedule_t *s) {
  ls_status_t status = ls_schedule_layout(s);
  if (status) return status;
  measure_regions(s);
  if (s->run_bytes[LS_REGION_INPUT_NEXT] && s->input_slots < 2)
    return ls_fail(s->ctx, LS_ERR_ARGUMENT, "schedule: copying the next input needs two input slots");
  ls_lane_clock_t *clock = ls_alloc_array(s->ctx, (size_t)s->task_count + 1, sizeof(*clock));
  status = clock ? ls_schedule_order(s, clock) : LS_ERR_MEMORY;
  ls_free(clock);
  return status;
}

/* The first task of the last collective that is still on its lane, with its casts there and back; -1 = none. *last: its last. */
static int last_collective(const ls_schedule_t *s, int *last) {
  for (*last = s->task_count - 1; *last >= 0 && s->tasks[*last].lane != LS_LANE_COMM;)
    --*last;
  if (*last < 0) return -1;
  const int first = s->tasks[*last].op == &ls_op_cast ? *last - 2 : *last;
  return s->tasks[(first + *last) / 2].kind == LS_TASK_COLLECTIVE ? first : -1;
}

/* Moves to the compute lane, from the end of the step on, the collectives for which compute waits next: it need not be
 * woken by another lane. True if any was moved. */
static bool move_collectives(ls_schedule_t *s) {
  int first, last, moved = s->task_count; /* the first task that was moved */
  while ((first = last_collective(s, &last)) >= 0) {
    const ls_task_t *next = last + 1 < s->task_count ? &s->tasks[last + 1] : NULL;
    bool awaited = !next || last + 1 == moved;
    for (int i = 0; next && i < next->wait_count; i++)
      awaited |= next->lane == LS_LANE_COMPUTE && next->wait[i] == last;
    if (!awaited) break;
    for (int t = first; t <= last; t++)
      s->tasks[t].lane = LS_LANE_COMPUTE;
    moved = first;
  }
  return moved < s->task_count;
}

ls_status_t ls_schedule_finish(ls_schedule_t *s) {
  if (s->status) return s->status;
  s->status = arrange(s);
  if (!s->status && s->lanes_are_threads && move_collectives(s)) s->status = arrange(s);
  s->finished = !s->status;
  return s->status;
}
