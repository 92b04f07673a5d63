/* Makes the expectation of a run from timed blocks of steps. */
#include "plan/timing.h"

#include "stat/stat.h"

#include <math.h>

/* The median of all blocks together, because a run has quick and slow times as well. */
static double pooled_median(const ls_timing_block_t *block, int blocks, double *work) {
  int64_t n = 0;
  for (int b = 0; b < blocks; b++)
    for (int k = 0; k < block[b].kept; k++)
      work[n++] = block[b].step_ns[k];
  return ls_stat_median(work, n);
}

/* Blocks differ in steps and in time, so their mean is a ratio of two sums: total time over total steps. */
static ls_time_t mean_of(const ls_timing_block_t *block, int blocks) {
  double ns = 0, steps = 0, squares = 0;
  for (int b = 0; b < blocks; b++) {
    ns += (double)block[b].ns;
    steps += (double)block[b].steps;
  }
  const double mean = ns / steps;
  for (int b = 0; b < blocks; b++) {
    const double off = (double)block[b].ns - mean * (double)block[b].steps;
    squares += off * off;
  }
  if (blocks < 2) return (ls_time_t){mean, mean, mean};
  const double error = sqrt(squares * blocks / (blocks - 1)) / steps * ls_stat_t_quantile(0.95, blocks - 1);
  return (ls_time_t){mean, fmax(mean - error, 0), mean + error};
}

ls_status_t ls_timing_summary(ls_ctx_t *ctx, const ls_timing_block_t *block, int blocks, ls_time_t *median,
                              ls_time_t *mean) {
  double *work = ls_alloc_array(ctx, (size_t)blocks * LS_TIMING_KEPT, sizeof *work);
  if (!work) return LS_ERR_MEMORY;
  median->ns = pooled_median(block, blocks, work);
  for (int b = 0; b < blocks; b++) {
    ls_timing_block_t one = block[b];
    work[b] = ls_stat_median(one.step_ns, one.kept);
  }
  ls_stat_sort(work, blocks);
  median->low_ns = fmin(ls_stat_quantile(work, blocks, 0.05), median->ns);
  median->high_ns = fmax(ls_stat_quantile(work, blocks, 0.95), median->ns);
  *mean = mean_of(block, blocks);
  ls_free(work);
  return LS_OK;
}
