/* Proves from scratch that a schedule is right; nothing here trusts what finish derived. Walks the tasks in
 * list order over a shadow of the memory, as a race detector does (vector clocks: Flanagan and Freund,
 * "FastTrack", PLDI 2009). For every byte that a task touches:
 *
 *   - it must be ordered, by lane order and waits alone, after the byte's last writer, and a writer also
 *     after those who read it since: then the lanes, however they run, compute what the list computes;
 *   - a transient read must find what its own tensor wrote: then no two live tensors share bytes;
 *   - a read of a row that steps do not carry over must not come before the step's first write: then it is
 *     not last step's value;
 *   - nothing writes a constant.
 *
 * Collectives must be ordered among each other as in the list. A collective whose result no task of the step reads is in the
 * wrong place, unless the host reads it (stats) or the next step (carried rows). */
#include "graph/low.h"
#include "schedule/shadow.h"

#include <string.h>

typedef struct {
  const ls_schedule_t *s;
  ls_arena_t work;
  ls_lane_clock_t *clock; /* per task */
  bool *used;             /* per task: a later task reads what it wrote */
  ls_shadow_t *now;       /* per region: as the walk goes */
  ls_shadow_t *whole;     /* per region: after the whole step: everything that is written */
} check_t;

static ls_status_t fault(const check_t *c, const char *what, int task, int other, int tensor) {
  const ls_schedule_t *s = c->s;
  return ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: task %d '%s' %s task %d '%s' (tensor '%s')", task,
                 s->tasks[task].name, what, other, s->tasks[other].name, s->tensors[tensor].name);
}

static bool ordered(const check_t *c, int before, int after) {
  return before < 0 || c->clock[after].newest[c->s->tasks[before].lane] >= before;
}

/* Tensors lie inside their regions, transient ones aligned. */
static ls_status_t check_places(const ls_schedule_t *s) {
  for (int i = 0; i < s->tensor_count; i++) {
    const ls_sched_tensor_t *t = &s->tensors[i];
    size_t room = ls_schedule_region_bytes(s, t->region);
    if (t->offset_bytes > room || t->size_bytes > room - t->offset_bytes)
      return ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: tensor %d '%s' lies outside of its region", i,
                     t->name);
    if (t->region == LS_REGION_TRANSIENT && t->alias_of < 0 && t->offset_bytes % LS_ALIGN_BYTES)
      return ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: tensor %d '%s' is not aligned", i, t->name);
    const ls_sched_tensor_t *of = t->alias_of >= 0 ? &s->tensors[t->alias_of] : t;
    size_t place = of->offset_bytes + t->part_bytes;
    if (t->size_bytes != ls_shape_bytes(&t->shape) || of->region != t->region || place != t->offset_bytes ||
        t->part_bytes + t->size_bytes > of->size_bytes)
      return ls_fail(s->ctx, LS_ERR_INTERNAL,
                     "schedule: tensor %d '%s' is not the size of its shape or not where "
                     "the tensor it views is",
                     i, t->name);
  }
  return LS_OK;
}

/* The op's own shape rule, applied to the tensors of the task. */
static ls_status_t check_shapes(const ls_schedule_t *s, int t) {
  const ls_task_t *task = &s->tasks[t];
  if (task->kind != LS_TASK_OP) return LS_OK;
  const ls_op_t *op = task->op;
  if (task->in_count != op->in_count || task->out_count != op->out_count)
    return ls_fail(s->ctx, LS_ERR_INTERNAL,
                   "schedule: task %d '%s' does not have the inputs and outputs of op %s", t, task->name,
                   op->name);
  ls_shape_t in[LS_TASK_TENSOR_MAX], out[LS_TASK_TENSOR_MAX];
  for (int i = 0; i < task->in_count; i++)
    in[i] = s->tensors[task->in[i]].shape;
  ls_status_t status = ls_op_shape(s->ctx, op, &task->attrs, in, out);
  if (status) return status;
  for (int i = 0; i < task->out_count; i++) {
    const ls_sched_tensor_t *has = &s->tensors[task->out[i]];
    char a[LS_SHAPE_TEXT_BYTES], b[LS_SHAPE_TEXT_BYTES];
    if (!ls_shape_equal(&out[i], &has->shape))
      return ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: task %d '%s' writes %s into tensor '%s' of %s", t,
                     task->name, ls_shape_text(&out[i], a), has->name, ls_shape_text(&has->shape, b));
  }
  return LS_OK;
}

/* The tasks that are over before each task, by lane order and waits. Waits look back, so the list is an order
 * that can run. */
static ls_status_t find_clocks(check_t *c) {
  const ls_schedule_t *s = c->s;
  ls_lane_clock_t lane_clock[LS_LANE_COUNT];
  for (int lane = 0; lane < LS_LANE_COUNT; lane++)
    lane_clock[lane] = ls_lane_clock_none;
  for (int t = 0; t < s->task_count; t++) {
    const ls_task_t *task = &s->tasks[t];
    c->clock[t] = lane_clock[task->lane];
    for (int i = 0; i < task->wait_count; i++) {
      if (task->wait[i] < 0 || task->wait[i] >= t)
        return ls_fail(s->ctx, LS_ERR_INTERNAL,
                       "schedule: task %d '%s' waits for task %d, which is not before it", t, task->name,
                       task->wait[i]);
      ls_lane_clock_join(&c->clock[t], &c->clock[task->wait[i]]);
    }
    c->clock[t].newest[task->lane] = t;
    lane_clock[task->lane] = c->clock[t];
  }
  return LS_OK;
}

/* An in-out task reads what it writes, so the value does not come from here. */
static bool is_update(const ls_access_t *list, int n, int write) {
  for (int i = 0; i < n; i++)
    if (!list[i].write && list[i].region == list[write].region && list[i].begin <= list[write].begin &&
        list[i].end >= list[write].end)
      return true;
  return false;
}

/* First walk: finds what the step writes, to know where values come from. */
static ls_status_t find_written(check_t *c) {
  ls_access_t list[LS_ACCESS_MAX];
  for (int t = c->s->task_count - 1; t >= 0; t--) { /* backwards: the first writer of a byte remains */
    int n = ls_task_access(c->s, &c->s->tasks[t], list);
    for (int i = 0; i < n; i++) {
      if (!list[i].write || is_update(list, n, i)) continue;
      int first, last;
      ls_shadow_t *shadow = &c->whole[list[i].region];
      ls_status_t status = ls_shadow_range(shadow, list[i].begin, list[i].end, &first, &last);
      if (status) return status;
      ls_shadow_write(shadow, first, last, t, ls_tensor_root(c->s, list[i].tensor));
    }
  }
  return LS_OK;
}

/* The lifetime of the state's row; regions of the run live for a step. */
static ls_state_life_t life_of(const ls_schedule_t *s, ls_region_t region) {
  return region < LS_REGION_STATE ? LS_STATE_STEP : s->state->row[region - LS_REGION_STATE].life;
}

/* A read of bytes that no task has written yet in this step. */
static ls_status_t check_unwritten(check_t *c, int t, const ls_access_t *a, size_t begin, size_t end) {
  if (a->region == LS_REGION_TRANSIENT)
    return ls_fail(c->s->ctx, LS_ERR_INTERNAL,
                   "schedule: task %d '%s' reads tensor '%s' before anything wrote it", t,
                   c->s->tasks[t].name, c->s->tensors[a->tensor].name);
  /* An earlier member may have written it: ls_program_check knows. */
  if (life_of(c->s, a->region) == LS_STATE_CARRIED || c->s->name) return LS_OK;
  if (ls_is_padding(c->s, a->region, begin, end)) return LS_OK;
  int first, last;
  ls_shadow_t *whole = &c->whole[a->region];
  ls_status_t status = ls_shadow_range(whole, begin, end, &first, &last);
  for (int i = first; !status && i < last; i++)
    if (whole->segment[i].writer >= 0 && whole->segment[i].writer != t) /* itself: it works in place */
      status = fault(c, "reads what is written only later by", t, whole->segment[i].writer, a->tensor);
  return status;
}

static ls_status_t check_read(check_t *c, int t, const ls_access_t *a) {
  int first, last;
  ls_shadow_t *now = &c->now[a->region];
  ls_status_t status = ls_shadow_range(now, a->begin, a->end, &first, &last);
  for (int i = first; !status && i < last; i++) {
    ls_shadow_segment_t *seg = &now->segment[i];
    if (seg->writer < 0) {
      status = check_unwritten(c, t, a, seg->begin, seg->end);
    } else if (a->region == LS_REGION_TRANSIENT && seg->root != ls_tensor_root(c->s, a->tensor)) {
      status = fault(c, "reads bytes that were overwritten by", t, seg->writer, a->tensor);
    } else if (!ordered(c, seg->writer, t)) {
      status = fault(c, "reads, without waiting, what is written by", t, seg->writer, a->tensor);
    } else {
      c->used[seg->writer] = true;
    }
    seg->reader[c->s->tasks[t].lane] = t;
  }
  return status;
}

static ls_status_t check_write(check_t *c, int t, const ls_access_t *a) {
  int first, last;
  ls_shadow_t *now = &c->now[a->region];
  if (life_of(c->s, a->region) == LS_STATE_CONSTANT)
    return ls_fail(c->s->ctx, LS_ERR_INTERNAL,
                   "schedule: task %d '%s' writes over constant data (tensor '%s')", t, c->s->tasks[t].name,
                   c->s->tensors[a->tensor].name);
  ls_status_t status = ls_shadow_range(now, a->begin, a->end, &first, &last);
  if (status) return status;
  for (int i = first; i < last; i++) {
    const ls_shadow_segment_t *seg = &now->segment[i];
    if (!ordered(c, seg->writer, t))
      return fault(c, "writes, without waiting, over", t, seg->writer, a->tensor);
    for (int lane = 0; lane < LS_LANE_COUNT; lane++)
      if (!ordered(c, seg->reader[lane], t))
        return fault(c, "writes, without waiting, what is read by", t, seg->reader[lane], a->tensor);
  }
  ls_shadow_write(now, first, last, t, ls_tensor_root(c->s, a->tensor));
  return LS_OK;
}

/* True if a task that writes `w` may read the same bytes as `a`: the output is in-out, or works in place. A
 * collective works in place of the same tensor, or of this rank's part of the larger one. */
static bool may_share(const ls_schedule_t *s, const ls_task_t *task, const ls_access_t *w,
                      const ls_access_t *a) {
  if (a->write) return false;
  if (task->kind == LS_TASK_COLLECTIVE) {
    const ls_access_t *large = task->collective == LS_REDUCE_SCATTER ? a : w, *small = large == a ? w : a;
    size_t part = small->end - small->begin,
           own = large->end - large->begin > part ? (size_t)s->groups[task->group].own * part : 0;
    return small->begin == large->begin + own;
  }
  if (w->begin != a->begin) return false;
  if (task->kind == LS_TASK_COPY) return false;
  for (int i = 0; i < task->out_count; i++)
    if ((task->op->inout >> i & 1) && task->out[i] == w->tensor && a->tensor == w->tensor) return true;
  for (int i = 0; i < task->in_count; i++)
    if ((task->op->inplace >> i & 1) && task->in[i] == a->tensor && task->out[0] == w->tensor) return true;
  return false;
}

static ls_status_t check_own_overlap(const check_t *c, int t, int n, const ls_access_t *list) {
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      const ls_access_t *w = &list[i], *a = &list[k];
      if (i == k || !w->write || w->region != a->region || w->begin >= a->end || a->begin >= w->end) continue;
      if (!may_share(c->s, &c->s->tasks[t], w, a))
        return fault(c, "writes over a tensor of the same", t, t, a->tensor);
    }
  return LS_OK;
}

static ls_status_t walk(check_t *c) {
  ls_access_t list[LS_ACCESS_MAX];
  ls_status_t status = LS_OK;
  int collective = -1;
  for (int t = 0; !status && t < c->s->task_count; t++) {
    status = check_shapes(c->s, t);
    if (!status && c->s->tasks[t].kind == LS_TASK_COLLECTIVE) {
      const ls_task_t *task = &c->s->tasks[t];
      if (!ordered(c, collective, t))
        status = fault(c, "may run before, without waiting,", t, collective,
                       task->out_count ? task->out[0] : task->in[0]);
      collective = t;
    }
    int n = ls_task_access(c->s, &c->s->tasks[t], list);
    if (!status) status = check_own_overlap(c, t, n, list);
    for (int i = 0; !status && i < n; i++)
      status = list[i].write ? check_write(c, t, &list[i]) : check_read(c, t, &list[i]);
  }
  for (int t = 0; !status && t < c->s->task_count; t++) {
    const ls_task_t *task = &c->s->tasks[t];
    const ls_region_t region = task->out_count ? c->s->tensors[task->out[0]].region : LS_REGION_STAT;
    const bool later = region == LS_REGION_STAT || life_of(c->s, region) == LS_STATE_CARRIED;
    if (task->kind == LS_TASK_COLLECTIVE && !c->used[t] && !later)
      status = ls_fail(c->s->ctx, LS_ERR_INTERNAL,
                       "schedule: nothing reads the result of task %d '%s' after it", t, task->name);
  }
  return status;
}

ls_status_t ls_schedule_check(const ls_schedule_t *s) {
  if (!s->finished) return ls_fail(s->ctx, LS_ERR_INTERNAL, "schedule: checked before it was finished");
  ls_status_t status = check_places(s);
  if (status || !s->task_count) return status;

  check_t c = {.s = s};
  ls_arena_init(&c.work, s->ctx);
  c.clock = ls_arena_array(&c.work, (size_t)s->task_count, sizeof(*c.clock));
  c.used = ls_arena_array(&c.work, (size_t)s->task_count, sizeof(*c.used));
  int regions = ls_region_count(s);
  c.now = ls_arena_array(&c.work, (size_t)regions, sizeof(*c.now));
  c.whole = ls_arena_array(&c.work, (size_t)regions, sizeof(*c.whole));
  if (!c.clock || !c.used || !c.now || !c.whole) status = LS_ERR_MEMORY;
  for (int r = 0; !status && r < regions; r++) {
    size_t region_bytes = ls_schedule_region_bytes(s, r);
    status = ls_shadow_create(s->ctx, region_bytes, &c.now[r]);
    if (!status) status = ls_shadow_create(s->ctx, region_bytes, &c.whole[r]);
  }
  if (!status) status = find_clocks(&c);
  if (!status) status = find_written(&c);
  if (!status) status = walk(&c);
  for (int r = 0; c.now && c.whole && r < regions; r++) {
    ls_shadow_release(&c.now[r]);
    ls_shadow_release(&c.whole[r]);
  }
  ls_arena_release(&c.work);
  return status;
}
