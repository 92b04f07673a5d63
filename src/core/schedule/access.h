/* The bytes that a task touches, as ranges: one interpretation of in, out, scratch, inout and views for the
 * memory layout, the waits and the proof. Inside the schedule module. */
#ifndef LS_SCHEDULE_ACCESS_H
#define LS_SCHEDULE_ACCESS_H

#include "schedule/schedule.h"

enum { LS_ACCESS_MAX = 3 * LS_TASK_TENSOR_MAX + 1 };

typedef struct {
  int tensor;
  ls_region_t region;
  size_t begin, end; /* bytes in the region, end excluded; never empty */
  bool write;
} ls_access_t;

/* The run's own regions. */
typedef struct {
  const char *part; /* of the memory report, on a device; NULL: another region's bytes */
  ls_mem_t memory;
  bool per_slot;
  ls_region_t same; /* the region whose memory it uses */
  bool next;        /* in a step on one slot it means the slot after it */
} ls_region_row_t;
extern const ls_region_row_t ls_region_rows[LS_REGION_STATE];

/* Regions of the run and of the state. */
static inline int ls_region_count(const ls_schedule_t *s) {
  return LS_REGION_STATE + (s->state ? s->state->count : 0);
}

/* True if the first `count` groups of both are the same. */
bool ls_groups_agree(const ls_schedule_t *a, const ls_schedule_t *b, int count);

/* True if these bytes are padding of the state's layout: zeros that no task has to write. */
bool ls_is_padding(const ls_schedule_t *s, ls_region_t region, size_t begin, size_t end);

/* Reads first, then writes; in-out tensors, and what a collective works on, appear as both. */
int ls_task_access(const ls_schedule_t *s, const ls_task_t *task, ls_access_t list[LS_ACCESS_MAX]);

/* The tensor that owns the bytes of `tensor`: itself, or the tensor of which it is a view. */
static inline int ls_tensor_root(const ls_schedule_t *s, int tensor) {
  while (s->tensors[tensor].alias_of >= 0)
    tensor = s->tensors[tensor].alias_of;
  return tensor;
}

/* The tasks known to be over before a task: the newest such task of every lane, -1 = none. A task counts as
 * over for those after it, so clock[t.lane] of task t itself is t. */
typedef struct {
  int newest[LS_LANE_COUNT];
} ls_lane_clock_t;

static const ls_lane_clock_t ls_lane_clock_none = {{-1, -1, -1, -1, -1}};
_Static_assert(LS_LANE_COUNT == 5, "names every lane");

static inline void ls_lane_clock_join(ls_lane_clock_t *clock, const ls_lane_clock_t *other) {
  for (int lane = 0; lane < LS_LANE_COUNT; lane++)
    if (other->newest[lane] > clock->newest[lane]) clock->newest[lane] = other->newest[lane];
}

/* The steps of finish. */
ls_status_t ls_schedule_layout(ls_schedule_t *s); /* places transient tensors */
/* Derives waits, and the tasks that are over before each task: clock (task_count). */
ls_status_t ls_schedule_order(ls_schedule_t *s, ls_lane_clock_t *clock);

#endif
