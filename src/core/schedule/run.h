/* Runs a program on a device, micro-batch after micro-batch. Everything is allocated, resolved and (on CUDA)
 * captured at creation, each member once for each slot; a step allocates, opens and locks nothing. */
#ifndef LS_SCHEDULE_RUN_H
#define LS_SCHEDULE_RUN_H

#include "schedule/program.h"

typedef struct ls_run ls_run_t;

/* The stats that a wait returns are the first floats of region STAT, and of HOST_STAT with copies. */
enum { LS_STATS_COUNT = 16 };

/* Events that are captured with a step time it on a device. A host times every task at all times. */
typedef enum {
  LS_TIMED_NOTHING,
  LS_TIMED_WAITS, /* how long compute waits for other ranks, on each lane once in 0.4 ms */
  LS_TIMED_TASKS  /* every task, on its lane: this lengthens the step */
} ls_run_timing_t;

typedef struct {
  ls_run_timing_t timed;
  int64_t deadline_ns; /* limit of a wait for the device; 0 = the communicator's */
  /* Device memory for the transient tensors of a member, borrowed: programs share it if only one runs at a
   * time. Not used if it is too small; NULL: the run has memory of its own. */
  void *transient;
  size_t transient_bytes;
} ls_run_options_t;

/* Host memory for a program's members, their graph, and the data that their run keeps per task. */
int64_t ls_run_book_bytes(const ls_program_t *program);

/* The program's members, `device`, `comm` and `state` are borrowed until destroy. comm may be NULL without
 * collectives, state if the members name none of its rows; it must have their table. Errors:
 * LS_ERR_UNSUPPORTED names an op without a kernel on this backend; LS_ERR_MEMORY. With groups of ranks in the
 * program, creating and destroying are collective over `comm`: the run splits the groups off, in their order,
 * and destroys them with itself. */
ls_status_t ls_run_create(ls_ctx_t *ctx, const ls_program_t *program, ls_device_t *device, ls_comm_t *comm,
                          const ls_state_t *state, const ls_run_options_t *options, ls_run_t **run);
void ls_run_destroy(ls_run_t *run); /* waits for running steps */

/* Host memory (pinned, with a copy-in lane) of tensor `name` (region INPUT) in `slot`, for the loader to
 * fill; NULL if there is no such tensor. */
void *ls_run_input(ls_run_t *run, const char *name, int slot);
/* Call it before the first micro-batch, and before every one of a program with one slot: copies the filled
 * slot to the device (no-op without copies). */
ls_status_t ls_run_prime(ls_run_t *run, int slot);

/* Starts a micro-batch on the data of `slot`; `unit` is its number, counted from step 0. They are started in turn, and
 * slots are used in turn: 0, 1, .. input_slots - 1, 0. With a copy-in lane the next slot is copied meanwhile,
 * so it must be filled before the call. Host backends return when the compute lane is done. */
ls_status_t ls_run_launch(ls_run_t *run, int slot, int64_t unit);
/* Calls fn(arg) on the host before the first task of the next launch, after all of the launches before. `arg` stays
 * valid until then. */
ls_status_t ls_run_call(ls_run_t *run, ls_host_fn fn, void *arg);
/* Waits until the newest launch of `slot` has finished (deadline: LS_ERR_TIMEOUT names rank, step and the
 * collective that is pending where that can be known). *stats: LS_STAT_COUNT floats, valid until the slot is
 * launched again; NULL for a member without stats. After an error every call returns it again. */
ls_status_t ls_run_wait(ls_run_t *run, int slot, const float **stats);

/* Host copy of a tensor by name after a wait (evaluation outputs, tests). */
ls_status_t ls_run_read(ls_run_t *run, const char *name, int slot, void *to, size_t size_bytes);

/* About the newest launch that was waited for. Was it timed? The number of its member. Times of that
 * member's tasks (NULL without LS_TIMED_TASKS). Its time by phase (ls_schedule_parts): 0 where it is not
 * measured, which with LS_TIMED_WAITS is every phase but COMM. */
bool ls_run_timed(const ls_run_t *run);
int ls_run_member(const ls_run_t *run);
const ls_task_time_t *ls_run_times(const ls_run_t *run);
void ls_run_parts(const ls_run_t *run, int64_t parts_ns[LS_PHASE_STEP_COUNT]);
/* The time that launch took by the device's clock, from the end of the launch before it to its own end, if
 * a device timed it with LS_TIMED_WAITS; 0: not known. The host polls for ends, and so sees them late. */
int64_t ls_run_since_ns(const ls_run_t *run);
int64_t ls_run_start_ns(const ls_run_t *run); /* the host's clock (ls_clock_ns) at the newest launch */

#endif
