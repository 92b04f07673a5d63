/* A rank's measurements: the numbers that its loop shows, its host, its GPU. */
#ifndef LS_MONITOR_MEASURE_H
#define LS_MONITOR_MEASURE_H

#include "machine/gpu_live.h"
#include "machine/load.h"
#include "machine/processor.h"
#include "monitor/monitor.h"
#include "monitor/straggler.h"

enum { LS_USUAL_RECORDS = 60, LS_USUAL_RECORDS_MIN = 5 };

typedef struct {
  ls_monitor_run_t run;
  char dir[4096]; /* whose file system is watched */
  ls_gpu_live_t *gpu;
  ls_straggler_t *straggler; /* NULL: others are not seen */
  int64_t begin_ns;
  /* as the last record had it */
  int64_t now_ns;
  ls_monitor_state_t state;
  ls_load_t load;
  ls_processor_t processor;
  double ecc_uncorrected;             /* of the GPU */
  double recent_us[LS_USUAL_RECORDS]; /* a ring of step times */
  int64_t recent_count;
} ls_measure_t;

/* Ended by ls_measure_end, also where it fails. */
ls_status_t ls_measure_begin(ls_ctx_t *ctx, ls_measure_t *m, const char *dir, const ls_monitor_run_t *run);
void ls_measure_end(ls_measure_t *m);
/* Rows that another rank speaks for stay unknown. */
void ls_measure_take(ls_measure_t *m, const ls_monitor_state_t *state, ls_monitor_sample_t *sample);
/* The part of it that comes from the loop, for a moment and a time that are given. Pure but for *m. */
void ls_measure_steps(ls_measure_t *m, const ls_monitor_state_t *state, int64_t now_ns,
                      ls_monitor_sample_t *sample);

#endif
