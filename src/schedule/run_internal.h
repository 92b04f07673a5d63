/* The inside of a run. run_bind.c fills it, run_issue.c puts a step on the lanes, run.c owns it and waits. */
#ifndef LS_SCHEDULE_RUN_INTERNAL_H
#define LS_SCHEDULE_RUN_INTERNAL_H

#include "schedule/access.h"
#include "schedule/run.h"

/* One task of one slot with its pointers in place, ready to be put on a stream again and again. */
typedef struct {
  ls_kernel_fn kernel; /* op */
  ls_kernel_args_t args;
  ls_collective_t collective; /* collective */
  void *to;                   /* copy */
  const void *from;
  size_t size_bytes;
} ls_bound_task_t;

/* Writes the time since the step's start; put on ASYNC host lanes before and after a task. */
typedef struct {
  const int64_t *step_start_ns;
  int64_t *to;
} ls_stamp_t;

typedef enum {
  LS_TIMING_NONE,
  LS_TIMING_CLOCK, /* host backends: the executing thread reads the clock */
  LS_TIMING_EVENTS /* devices, when traced */
} ls_timing_t;

/* What one input slot has of its own. */
typedef struct {
  float stats[LS_STATS_COUNT]; /* without copies */
  ls_bound_task_t *bound;      /* per task */
  ls_exec_t *exec;             /* the captured step */
  ls_event_t *begin;           /* LS_TIMING_EVENTS: of the step, and per task */
  ls_event_t **from, **until;
  ls_event_t *done;         /* devices: end of the step ... */
  ls_stream_t *done_stream; /* ... and a stream that waits for nothing else, so that the host can */
} ls_run_slot_t;

struct ls_run {
  ls_ctx_t *ctx;
  const ls_schedule_t *s;
  ls_device_t *device;
  ls_comm_t *comm;
  ls_comm_t **group; /* per group of the schedule: comm, then the run's own; NULL: this rank is in another */
  const ls_state_t *state;
  int64_t deadline_ns;
  ls_timing_t timing;
  ls_status_t status; /* sticky: after a failed step nothing is launched any more */
  ls_arena_t arena;

  void *memory[LS_REGION_STATE][LS_SLOT_MAX]; /* regions of the run; those that all slots share stand in 0 */
  bool borrowed;                              /* the transient memory is */
  int slot_count;
  ls_run_slot_t slot[LS_SLOT_MAX];

  ls_stream_t *lane[LS_LANE_COUNT]; /* NULL = not used */
  ls_event_t *fork;                 /* beginning of a step, for lanes that wait for nothing else */
  bool forked[LS_LANE_COUNT];
  int joined[LS_LANE_COUNT]; /* task that compute waits for at the end, -1 = none */
  ls_event_t **event;        /* per task; NULL = nobody waits for it */

  int64_t step_start_ns;
  ls_task_time_t *times;  /* per task */
  ls_stamp_t (*stamp)[2]; /* per task: start, end */
};

/* The stream on which a task runs. */
static inline ls_stream_t *ls_run_stream(const ls_run_t *run, int task) {
  return run->lane[run->s->tasks[task].lane];
}

/* Where tensor `id` is for a step on `slot`. */
void *ls_run_place(const ls_run_t *run, int id, int slot);

/* Regions, streams, events; then kernels and pointers. On failure the caller destroys the run. */
ls_status_t ls_run_allocate(ls_run_t *run);
ls_status_t ls_run_bind(ls_run_t *run);

/* Puts a whole step on the lanes; or captures it once, for devices that can. */
ls_status_t ls_run_issue(ls_run_t *run, int slot);
ls_status_t ls_run_capture(ls_run_t *run, int slot);
/* After the step: fills run->times from events (nothing to do for the clock). */
ls_status_t ls_run_collect_times(ls_run_t *run, int slot);

#endif
