/* The times of a configuration's ops on this machine. Runs its own training step, in the order of training
 * and with its loader, so that the caches are in the state of training. Collectives do nothing meanwhile,
 * unless the job says so.
 *
 * A GPU is timed alone. On a host the ranks share one machine: its memory, caches, clock and perhaps
 * cores. Up to LS_TIMING_BESIDE_MAX of them compute at the same time, in threads of this process. For more
 * ranks, one is timed alone, and the contention factors of the profile stand for the others. Inside the
 * plan module. */
#ifndef LS_PLAN_TIMING_H
#define LS_PLAN_TIMING_H

#include "machine/profile.h"
#include "train/train.h"

enum { LS_TIMING_BESIDE_MAX = 8 };

/* One rank's part of a step. */
typedef struct {
  const ls_config_t *config; /* strategy, batch and options as the candidate has them; borrowed */
  const ls_backend_t *backend;
  int ranks, threads;
  bool beside;       /* the other ranks compute too */
  bool exchange;     /* with beside: and collectives are made, between the threads of this process */
  int64_t data_rows; /* samples that stay on the device; 0 = the loader gathers */
  int64_t window_ns; /* how long to measure, about */
} ls_timing_job_t;

/* Measured medians, with the interval that holds 90 % of single measurements. */
typedef struct {
  ls_arena_t arena;
  ls_program_t program; /* that was run */
  int64_t rows;         /* of one micro-batch */
  bool beside;          /* as in the job */
  ls_math_t math;
  ls_time_t *task;  /* per task of the program's members (ls_program_task); collectives 0 */
  ls_time_t step;   /* whole steps, from one end to the next, including loader and launch */
  ls_time_t period; /* of all ranks together, the slowest one's waits included; alone: the step */
  int64_t steps;
} ls_timing_t;

ls_status_t ls_timing_run(ls_ctx_t *ctx, const ls_timing_job_t *job, ls_timing_t *timing);
void ls_timing_release(ls_timing_t *timing);

#endif
