/* One rank of a timing: opened, run step by step, closed. Inside of the plan module. */
#ifndef LS_PLAN_TIMING_RANK_H
#define LS_PLAN_TIMING_RANK_H

#include "plan/timing.h"

#include <stdatomic.h>

enum { LS_TIMING_STEPS = 2000, LS_TIMING_NOISE = 1 << 16 };

/* Ranks that step together: each step begins when all have ended the one before, as if they had exchanged
 * something that takes no time. Spins: there is a processor for each. */
typedef struct {
  int size;
  _Atomic int arrived, round;
  _Atomic bool stop; /* set by rank 0 before it arrives, or by whoever fails */
} ls_pace_t;

typedef struct {
  ls_ctx_t *ctx;
  const ls_timing_job_t *job;
  const ls_dataset_t *dataset; /* borrowed, shared; with data on the device only its number of rows is used */
  int64_t data_rows;           /* on the device; 0 = the loader gathers */
  const float *noise;          /* LS_TIMING_NOISE values around 0, borrowed */
  ls_pace_t *pace;             /* NULL: alone */
  int rank;
  ls_config_t config;  /* shallow copy */
  ls_comm_t alone;     /* its collectives do nothing */
  ls_comm_t *exchange; /* its end of the collectives; NULL: alone is used */
  ls_engine_t engine;
  double *task_ns;   /* (task, LS_TIMING_STEPS); NULL: nothing is kept */
  double *step_ns;   /* (LS_TIMING_STEPS) */
  double *period_ns; /* (LS_TIMING_STEPS) from the beginning of a step to that of the next, when all have
                        ended it */
  int64_t steps;
  ls_status_t status; /* of a run in a thread of its own */
} ls_timing_rank_t;

/* How long a rank waits for the others, and for its device: parallel.deadline_s, and no less than its default, because the
 * ranks are threads of one process: on a starved machine each waits for its turn, and none can be lost unnoticed. */
int64_t ls_timing_deadline_ns(const ls_config_t *config);
/* An engine as training opens it. On failure the caller closes. */
ls_status_t ls_timing_rank_open(ls_timing_rank_t *r);
void ls_timing_rank_close(ls_timing_rank_t *r); /* A second call does nothing. */
/* Steps until the window is full (alone, or rank 0), or until the pace stops. Ranks that exchange do it
 * together, each in a thread of its own: binding a schedule with groups of ranks is collective. */
ls_status_t ls_timing_rank_measure(ls_timing_rank_t *r, bool trace);

#endif
