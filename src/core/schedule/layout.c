/* The memory layout: places transient tensors. A tensor lives from the task that writes it to its last
 * readers, in the order that lanes and waits imply. Tensors that never live at the same time may share bytes,
 * and an op that can work in place takes over the bytes of an input that nobody reads afterwards. Placement
 * is greedy by size, each tensor into the smallest gap that holds it (Pisarchyk and Lee, "Efficient Memory
 * Management for Deep Neural Net Inference", 2020, section 5).
 *
 * The order is derived first, from tensors that share nothing. So sharing adds no wait: tensors that are not
 * ordered anyway keep bytes of their own. */
#include "schedule/access.h"

#include <stdlib.h>

typedef struct {
  int first;            /* the task that touches it first and thus writes it; task_count = never used */
  int end;              /* the last task that touches it */
  ls_lane_clock_t last; /* the newest task of each lane that touches it, -1 = none */
  size_t size_bytes;
  size_t offset_bytes;
} block_t;

typedef struct {
  ls_schedule_t *s;
  const ls_lane_clock_t *clock; /* per task */
  block_t *block;               /* per tensor; used where block_of says so */
  int *block_of;                /* per root tensor: itself, or the tensor whose bytes it took over */
  int *order;                   /* blocks: placed ones by offset, then those to place */
  int count;
} layout_t;

static void touch(layout_t *layout, int tensor, int task) {
  int root = ls_tensor_root(layout->s, tensor);
  if (layout->s->tensors[root].region != LS_REGION_TRANSIENT) return;
  block_t *b = &layout->block[root];
  if (task < b->first) b->first = task;
  b->end = task;
  b->last.newest[layout->s->tasks[task].lane] = task;
}

static void find_lives(layout_t *layout) {
  const ls_schedule_t *s = layout->s;
  for (int i = 0; i < s->tensor_count; i++) {
    layout->block[i] = (block_t){.first = s->task_count,
                                 .end = s->task_count,
                                 .last = ls_lane_clock_none,
                                 .size_bytes = s->tensors[i].size_bytes};
    layout->block_of[i] = i;
  }
  for (int t = 0; t < s->task_count; t++) {
    const ls_task_t *task = &s->tasks[t];
    for (int i = 0; i < task->in_count; i++)
      touch(layout, task->in[i], t);
    for (int i = 0; i < task->out_count; i++)
      touch(layout, task->out[i], t);
    if (task->scratch >= 0) touch(layout, task->scratch, t);
  }
}

/* True if all tasks that touch the block have ended before task t ends: on each lane t comes after them, or
 * is one of them. */
static bool over_with(const layout_t *layout, const block_t *b, int t) {
  for (int lane = 0; lane < LS_LANE_COUNT; lane++)
    if (b->last.newest[lane] > layout->clock[t].newest[lane]) return false;
  return true;
}

/* True if a is over before b begins. A block that is not over in the order of the list is not over on the
 * lanes. */
static bool before(const layout_t *layout, const block_t *a, const block_t *b) {
  return a->end < b->first && b->first < layout->s->task_count && over_with(layout, a, b->first);
}

static int times_named(const ls_schedule_t *s, const ls_task_t *task, int root) {
  int n = 0;
  for (int i = 0; i < task->in_count; i++)
    n += ls_tensor_root(s, task->in[i]) == root;
  for (int i = 0; i < task->out_count; i++)
    n += ls_tensor_root(s, task->out[i]) == root;
  return n;
}

/* True if output 0 of task t may take over the bytes of input i: the op allows it, the task names the input
 * nowhere else, no later task reads the input, the output begins here and fits. */
static bool may_take_over(const layout_t *layout, int t, int i) {
  const ls_schedule_t *s = layout->s;
  const ls_task_t *task = &s->tasks[t];
  int from = ls_tensor_root(s, task->in[i]), to = task->out[0];
  if (!(task->op->inplace >> i & 1) || s->tensors[from].region != LS_REGION_TRANSIENT) return false;
  return over_with(layout, &layout->block[layout->block_of[from]], t) && times_named(s, task, from) == 1 &&
         s->tensors[task->in[i]].size_bytes == s->tensors[from].size_bytes &&
         layout->block[to].size_bytes <= s->tensors[from].size_bytes;
}

static void share_in_place(layout_t *layout) {
  const ls_schedule_t *s = layout->s;
  for (int t = 0; t < s->task_count; t++) {
    const ls_task_t *task = &s->tasks[t];
    if (task->kind != LS_TASK_OP || !task->out_count || !task->op->inplace) continue;
    int to = task->out[0];
    const ls_sched_tensor_t *out = &s->tensors[to];
    if (out->region != LS_REGION_TRANSIENT || out->alias_of >= 0 || !out->size_bytes) continue;
    if (layout->block[to].first != t || times_named(s, task, to) != 1) continue;
    for (int i = 0; i < task->in_count; i++) {
      if (!may_take_over(layout, t, i)) continue;
      int block = layout->block_of[ls_tensor_root(s, task->in[i])];
      layout->block_of[to] = block;
      block_t *b = &layout->block[block];
      ls_lane_clock_join(&b->last, &layout->block[to].last);
      if (layout->block[to].end > b->end) b->end = layout->block[to].end;
      break;
    }
  }
}

/* The smallest gap between blocks that live at the same time, or the place after them. The first `placed`
 * blocks have their places and are in the order of these. */
static size_t find_place(const layout_t *layout, const block_t *b, int placed) {
  size_t end = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
  for (int i = 0; i < placed; i++) {
    const block_t *other = &layout->block[layout->order[i]];
    if (before(layout, other, b) || before(layout, b, other)) continue;
    if (other->offset_bytes > end) {
      size_t gap = other->offset_bytes - end;
      if (gap >= b->size_bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
    }
    size_t other_end = ls_align_up(other->offset_bytes + other->size_bytes);
    if (other_end > end) end = other_end;
  }
  return best == SIZE_MAX ? end : best;
}

/* Largest first; equal sizes in the order of their lives, so that the layout is the same everywhere. */
static int by_size(const void *a, const void *b, void *blocks) {
  const block_t *x = (const block_t *)blocks + *(const int *)a,
                *y = (const block_t *)blocks + *(const int *)b;
  if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? 1 : -1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static void place(layout_t *layout) {
  ls_schedule_t *s = layout->s;
  for (int i = 0; i < s->tensor_count; i++) {
    const ls_sched_tensor_t *t = &s->tensors[i];
    if (t->region == LS_REGION_TRANSIENT && t->alias_of < 0 && layout->block_of[i] == i)
      layout->order[layout->count++] = i;
  }
  qsort_r(layout->order, (size_t)layout->count, sizeof(int), by_size, layout->block);
  for (int i = 0; i < layout->count; i++) {
    int next = layout->order[i], at = i;
    size_t offset_bytes = find_place(layout, &layout->block[next], i);
    layout->block[next].offset_bytes = offset_bytes;
    for (; at > 0 && layout->block[layout->order[at - 1]].offset_bytes > offset_bytes; at--)
      layout->order[at] = layout->order[at - 1];
    layout->order[at] = next;
  }
  for (int i = 0; i < s->tensor_count; i++) {
    ls_sched_tensor_t *t = &s->tensors[i];
    if (t->region != LS_REGION_TRANSIENT) continue;
    t->offset_bytes = t->alias_of >= 0 ? s->tensors[t->alias_of].offset_bytes + t->part_bytes
                                       : layout->block[layout->block_of[i]].offset_bytes;
  }
}

/* Every transient tensor in bytes of its own. */
static void spread(ls_schedule_t *s) {
  size_t end = 0;
  for (int i = 0; i < s->tensor_count; i++) {
    ls_sched_tensor_t *t = &s->tensors[i];
    if (t->region != LS_REGION_TRANSIENT) continue;
    if (t->alias_of >= 0) { /* comes after what it is a part of */
      t->offset_bytes = s->tensors[t->alias_of].offset_bytes + t->part_bytes;
      continue;
    }
    t->offset_bytes = end;
    end += ls_align_up(t->size_bytes);
  }
}

ls_status_t ls_schedule_layout(ls_schedule_t *s) {
  if (!s->tensor_count) return LS_OK;
  size_t count = (size_t)s->tensor_count;
  ls_arena_t work;
  ls_arena_init(&work, s->ctx);
  layout_t layout = {.s = s};
  ls_lane_clock_t *clock = ls_arena_array(&work, (size_t)s->task_count + 1, sizeof(*clock));
  layout.clock = clock;
  layout.block = ls_arena_array(&work, count, sizeof(*layout.block));
  layout.block_of = ls_arena_array(&work, count, sizeof(int));
  layout.order = ls_arena_array(&work, count, sizeof(int));
  ls_status_t status = LS_ERR_MEMORY;
  if (clock && layout.block && layout.block_of && layout.order) {
    spread(s);
    status = ls_schedule_order(s, clock);
  }
  if (!status) {
    find_lives(&layout);
    share_in_place(&layout);
    place(&layout);
  }
  ls_arena_release(&work);
  return status;
}
