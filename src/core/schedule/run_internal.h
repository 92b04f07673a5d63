/* The inside of a run. run_bind.c fills it, run_issue.c puts a step on the lanes, run.c owns it and waits. */
#ifndef LS_SCHEDULE_RUN_INTERNAL_H
#define LS_SCHEDULE_RUN_INTERNAL_H

#include "schedule/access.h"
#include "schedule/run.h"

/* One task of one slot with its pointers resolved, ready to be put on a stream repeatedly. */
typedef struct {
  ls_kernel_fn kernel; /* op */
  ls_kernel_args_t args;
  ls_collective_t collective; /* collective */
  void *to;                   /* copy */
  const void *from;
  size_t size_bytes;
} ls_bound_task_t;

/* Writes the time since the launch; put on ASYNC host lanes before and after a task. */
typedef struct {
  const int64_t *start_ns;
  int64_t *to;
} ls_stamp_t;

/* A member's data for an input slot. */
typedef struct {
  ls_bound_task_t *bound; /* per task */
  ls_exec_t *exec[2];     /* captured; the second one with its waits for other ranks timed */
  ls_event_t *begin;      /* a device's LS_TIMED_TASKS: of the member, and per task */
  ls_event_t **from,
      **until; /* LS_TIMED_WAITS: of tasks that wait for other ranks: from when on, and until when */
} ls_run_bound_t;

typedef struct {
  const ls_schedule_t *s;
  ls_run_bound_t slot[LS_SLOT_MAX];
  bool changes;        /* writes rows that are carried from step to step */
  ls_event_t *fork;    /* its beginning, for lanes whose first task waits for nothing else */
  int waits;           /* LS_TIMED_WAITS: tasks that wait for other ranks */
  ls_event_t *watched; /* the end of what the watch has seen of them; NULL: there are none */
  bool timed;          /* they were, in the newest launch that was waited for: */
  int64_t waited_ns;   /* so long */
  bool forked[LS_LANE_COUNT];
  int joined[LS_LANE_COUNT]; /* task for which compute waits at the end, -1 = none */
  ls_event_t **event;        /* per task; NULL: no task waits for it */
  ls_task_time_t *times;     /* per task */
  ls_stamp_t (*stamp)[2];    /* per task: start, end */
} ls_run_member_t;

/* The data of an input slot, whichever member runs on it. */
typedef struct {
  int member;                  /* the member launched most recently */
  bool watched;                /* with its waits for other ranks timed */
  float stats[LS_STATS_COUNT]; /* without copies */
  int64_t launch;              /* the number of that launch */
  /* devices: waits for the end of the launch and for nothing else, so that the host can wait for it */
  ls_stream_t *done_stream;
} ls_run_slot_t;

struct ls_run {
  ls_ctx_t *ctx;
  ls_program_t program;     /* members are borrowed */
  const ls_schedule_t *all; /* the member with all groups of ranks */
  ls_device_t *device;
  ls_comm_t *comm;
  ls_comm_t **group; /* per group of ranks: comm, then the run's own; NULL: this rank is in another */
  const ls_state_t *state;
  bool *written; /* per row of the state: by some member */
  int64_t deadline_ns;
  ls_run_timing_t timed;
  bool clock;         /* a host: the executing thread reads the clock */
  ls_status_t status; /* sticky: after a failed step nothing is launched */
  ls_arena_t arena;

  void *memory[LS_REGION_STATE][LS_SLOT_MAX]; /* regions of the run; those shared by all slots are in 0 */
  bool borrowed;                              /* the transient memory is borrowed */
  int slot_count;
  ls_run_slot_t slot[LS_SLOT_MAX];
  int64_t launches;
  /* devices: the ends of the newest launches, in turn; timed with LS_TIMED_WAITS. One more than slots, so that the end
   * before that of a launch which is waited for is there */
  ls_event_t *done[LS_SLOT_MAX + 1];
  ls_run_member_t member[LS_PROGRAM_MEMBERS_MAX];

  ls_stream_t *lane[LS_LANE_COUNT]; /* NULL = not used */
  int64_t watch_next_ns;            /* a launch from then on (ls_clock_ns) times its waits */
  int64_t start_ns;                 /* of the newest launch */
  int newest;                       /* the member of the most recent wait */
  int64_t since_ns; /* with LS_TIMED_WAITS: from the end of the launch before it to its own; 0: not known */
};

/* The task of the compute lane before task t, if t is one that waits for other ranks and LS_TIMED_WAITS was asked for;
 * else -1. */
int ls_run_watched(const ls_run_t *run, const ls_schedule_t *s, int t);

/* The address of tensor `id` of a member for a launch on `slot`. */
void *ls_run_place(const ls_run_t *run, const ls_schedule_t *s, int id, int slot);

/* Regions, streams, events; then kernels and pointers. On failure the caller destroys the run. */
ls_status_t ls_run_allocate(ls_run_t *run);
ls_status_t ls_run_bind(ls_run_t *run);

/* Puts a whole member on the lanes, with its waits for other ranks timed or not; on devices that can capture, captures
 * both. */
ls_status_t ls_run_issue(ls_run_t *run, ls_run_member_t *member, int slot, bool watched);
ls_status_t ls_run_capture(ls_run_t *run, ls_run_member_t *member, int slot);
/* Fills the times of a member that has run from its events (nothing to do for the clock). */
ls_status_t ls_run_collect_times(ls_run_t *run, ls_run_member_t *member, int slot);

#endif
