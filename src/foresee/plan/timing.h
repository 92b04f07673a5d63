/* The times of a configuration's step on this machine. Runs its own training step, in the order of training
 * and with its loader, so that the caches are in the state of training.
 *
 * A GPU is timed alone, and its collectives do nothing. On a host the ranks share one machine: its memory,
 * caches, clock and cores. Up to LS_TIMING_TOGETHER_MAX of them step together, in threads of this process, and
 * exchange as in training: a step then contains what its ranks wait for each other. For more ranks, one is timed
 * alone, and the contention factors of the profile stand for the others. Inside the plan module. */
#ifndef LS_PLAN_TIMING_H
#define LS_PLAN_TIMING_H

#include "machine/profile.h"
#include "train/train.h"

enum { LS_TIMING_TOGETHER_MAX = 8, LS_TIMING_BLOCKS = 8, LS_TIMING_KEPT = 256 };

/* One rank's part of a step. */
typedef struct {
  const ls_config_t *config; /* strategy, batch and options as the candidate has them; borrowed */
  const ls_backend_t *backend;
  int ranks, threads;
  bool together;     /* the other ranks step too, and exchange */
  int64_t data_rows; /* samples that stay on the device; 0 = the loader gathers */
  int64_t eval_rows; /* evaluate so many once, for the process's memory; 0 = do not */
  int64_t window_ns; /* how long to measure, about */
} ls_timing_job_t;

/* Steps that follow each other, for about an eighth of the window. */
typedef struct ls_timing_block {
  int64_t steps, ns; /* all of them */
  int kept;
  double step_ns[LS_TIMING_KEPT]; /* evenly chosen ones, from the end of the step before to the own end */
} ls_timing_block_t;

typedef struct {
  ls_arena_t arena;
  ls_program_t program; /* that was run */
  int64_t rows;         /* of one micro-batch */
  bool whole;           /* a step contains all that training's has: there is one rank, or they exchanged */
  ls_math_t math;
  ls_time_t *
      task; /* per task of the program's members (ls_program_task), with the interval that holds 90 % of single
                    * measurements; of collectives that were made with the waits for other ranks, else 0 */
  ls_time_t step;           /* median of whole steps, including loader and launch, and the same interval */
  ls_timing_block_t *block; /* in the order in which they ran */
  int blocks;
  int64_t
      process_bytes; /* of a host: the peak of this process beyond what lockstep allocated in it; 0 = not known */
} ls_timing_t;

ls_status_t ls_timing_run(ls_ctx_t *ctx, const ls_timing_job_t *job, ls_timing_t *timing);
void ls_timing_release(ls_timing_t *timing);

/* The expectation of a run of the step, from all blocks that a plan has timed, each of which has kept a step.
 *   median: of all steps. The interval holds 90 % of the blocks' medians.
 *   mean:   a run lasts as many means as it has steps, tails included. The interval is the mean's own, at 90 %, from the
 *           spread of the blocks (ratio estimator: Cochran 1977, section 6.3). */
ls_status_t ls_timing_summary(ls_ctx_t *ctx, const ls_timing_block_t *block, int blocks, ls_time_t *median,
                              ls_time_t *mean);

#endif
