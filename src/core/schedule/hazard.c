/* Derives the waits. Lanes run side by side. Two tasks of different lanes that touch the same bytes, at least
 * one writing, must keep their order in the list (read after write, write after read, write after write). So
 * must two collectives, whatever their lanes, because all ranks issue them in one order. Within a lane order
 * is implied, so of every other lane only the newest such task matters, and not even that one if it is
 * already known to be over. */
#include "schedule/access.h"

typedef struct {
  int count;
  ls_access_t list[LS_ACCESS_MAX];
  bool collective;
} footprint_t;

static bool conflict(const footprint_t *a, const footprint_t *b) {
  if (a->collective && b->collective) return true;
  for (int i = 0; i < a->count; i++)
    for (int k = 0; k < b->count; k++) {
      const ls_access_t *x = &a->list[i], *y = &b->list[k];
      if ((x->write || y->write) && x->region == y->region && x->begin < y->end && y->begin < x->end)
        return true;
    }
  return false;
}

/* The newest task of `lane` before `task` that conflicts with it; -1 = none. `before` links each task to the
 * one before it on its lane, `newest` is where to begin. */
static int newest_conflict(const footprint_t *footprint, const int *before, int newest, int task) {
  while (newest >= 0 && !conflict(&footprint[newest], &footprint[task]))
    newest = before[newest];
  return newest;
}

/* Candidates from the newest to the oldest: a task for which a newer one waited needs no wait of its own. */
static ls_status_t keep_needed(ls_schedule_t *s, ls_task_t *task, int candidate[LS_LANE_COUNT],
                               const ls_lane_clock_t *clock, ls_lane_clock_t *known) {
  int kept[LS_LANE_COUNT], count = 0;
  for (;;) {
    int best = -1;
    for (int lane = 0; lane < LS_LANE_COUNT; lane++)
      if (candidate[lane] >= 0 && (best < 0 || candidate[lane] > candidate[best])) best = lane;
    if (best < 0) break;
    if (known->newest[best] < candidate[best]) {
      kept[count++] = candidate[best];
      ls_lane_clock_join(known, &clock[candidate[best]]);
    }
    candidate[best] = -1;
  }
  task->wait_count = count;
  task->wait = NULL;
  if (!count) return LS_OK;
  task->wait = ls_arena_array(&s->arena, (size_t)count, sizeof(int));
  if (!task->wait) return LS_ERR_MEMORY;
  for (int i = 0; i < count; i++)
    task->wait[i] = kept[i];
  return LS_OK;
}

/* The newest tasks for which the strategy asked to wait. */
static void add_asked(const ls_schedule_t *s, int task, int candidate[LS_LANE_COUNT]) {
  for (int i = 0; i < s->edge_count; i++) {
    const ls_sched_edge_t *e = &s->edges[i];
    ls_lane_t lane = s->tasks[e->after].lane;
    if (e->task == task && lane != s->tasks[task].lane && e->after > candidate[lane])
      candidate[lane] = e->after;
  }
}

ls_status_t ls_schedule_order(ls_schedule_t *s, ls_lane_clock_t *clock) {
  size_t count = (size_t)s->task_count;
  if (!count) return LS_OK;
  ls_arena_t work;
  ls_arena_init(&work, s->ctx);
  footprint_t *footprint = ls_arena_array(&work, count, sizeof(*footprint));
  int *before = ls_arena_array(&work, count, sizeof(*before));
  ls_status_t status = footprint && before ? LS_OK : LS_ERR_MEMORY;

  ls_lane_clock_t latest = ls_lane_clock_none;
  for (int i = 0; i < s->task_count && !status; i++) {
    ls_task_t *task = &s->tasks[i];
    footprint[i].count = ls_task_access(s, task, footprint[i].list);
    footprint[i].collective = task->kind == LS_TASK_COLLECTIVE;
    int candidate[LS_LANE_COUNT];
    for (int lane = 0; lane < LS_LANE_COUNT; lane++)
      candidate[lane] =
          lane == (int)task->lane ? -1 : newest_conflict(footprint, before, latest.newest[lane], i);
    add_asked(s, i, candidate);
    before[i] = latest.newest[task->lane];
    ls_lane_clock_t known = before[i] >= 0 ? clock[before[i]] : ls_lane_clock_none;
    status = keep_needed(s, task, candidate, clock, &known);
    known.newest[task->lane] = i;
    clock[i] = known;
    latest.newest[task->lane] = i;
  }
  ls_arena_release(&work);
  return status;
}
