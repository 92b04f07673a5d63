/* finish: from a list of tasks to a schedule that can run. First the memory plan, because reused bytes order
 * tasks too; then the sizes of the regions; then the waits. */
#include "schedule/access.h"

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
    bool also_read = task->kind == LS_TASK_COLLECTIVE || (task->op && (task->op->inout >> i & 1));
    if (also_read) n += append(s, task->out[i], false, &list[n]);
  }
  for (int i = 0; i < task->out_count; i++)
    n += append(s, task->out[i], true, &list[n]);
  if (task->scratch >= 0) n += append(s, task->scratch, true, &list[n]);
  return n;
}

/* A region is as large as what was placed in it. */
static void measure_regions(ls_schedule_t *s) {
  for (int r = 0; r < LS_REGION_COUNT; r++)
    s->region_bytes[r] = 0;
  for (int i = 0; i < s->tensor_count; i++) {
    const ls_sched_tensor_t *t = &s->tensors[i];
    size_t end = t->offset_bytes + t->size_bytes;
    if (end > s->region_bytes[t->region]) s->region_bytes[t->region] = end;
  }
}

ls_status_t ls_schedule_finish(ls_schedule_t *s) {
  if (s->status) return s->status;
  ls_status_t status = ls_schedule_plan(s);
  if (status) return s->status = status;
  measure_regions(s);
  if (s->region_bytes[LS_REGION_INPUT_NEXT] && s->input_slots < 2)
    return s->status =
               ls_fail(s->ctx, LS_ERR_ARGUMENT, "schedule: copying the next input needs two input slots");
  status = ls_schedule_order(s);
  if (status) return s->status = status;
  s->finished = true;
  return LS_OK;
}
