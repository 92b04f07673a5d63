/* One rank of a timing: opened, run step by step, closed. Inside of the plan module. */
#ifndef LS_PLAN_TIMING_RANK_H
#define LS_PLAN_TIMING_RANK_H

#include "plan/timing.h"

enum { LS_TIMING_STEPS = LS_TIMING_BLOCKS * LS_TIMING_KEPT, LS_TIMING_NOISE = 1 << 16 };

typedef struct {
  ls_ctx_t *ctx;
  const ls_timing_job_t *job;
  const ls_dataset_t *dataset; /* borrowed, shared; with data on the device only its number of rows is used */
  int64_t data_rows;           /* on the device; 0 = the loader gathers */
  const float *noise;          /* LS_TIMING_NOISE values around 0, borrowed */
  int rank;
  ls_config_t config;  /* shallow copy */
  ls_comm_t alone;     /* its collectives do nothing */
  ls_comm_t *exchange; /* its end of the collectives; NULL: alone is used */
  ls_engine_t engine;
  double *task_ns;          /* (task, LS_TIMING_STEPS) of the steps that are kept */
  ls_timing_block_t *block; /* [LS_TIMING_BLOCKS]; NULL: nothing is kept */
  int blocks;               /* that are full */
  bool warm;                /* steps count */
  int64_t kept;             /* steps in all blocks */
  int64_t last_ns;          /* when the newest step ended */
  int64_t period_ns;  /* of the steps of the program's period so far: they differ, and their mean counts */
  ls_status_t status; /* of a run in a thread of its own */
} ls_timing_rank_t;

/* How long a rank waits for the others, and for its device: parallel.deadline_s, and no less than its default, because the
 * ranks are threads of one process: on a starved machine each waits for its turn, and none can be lost unnoticed. */
int64_t ls_timing_deadline_ns(const ls_config_t *config);
/* An engine as training opens it. On failure the caller closes. */
ls_status_t ls_timing_rank_open(ls_timing_rank_t *r);
void ls_timing_rank_close(ls_timing_rank_t *r); /* A second call does nothing. */
/* Steps until rank 0's window is full. Ranks that exchange do it together, each in a thread of its own. */
ls_status_t ls_timing_rank_measure(ls_timing_rank_t *r, bool trace);

#endif
