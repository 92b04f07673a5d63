/* Values that do not belong to the rest. */
#include "stat/stat.h"

#include <math.h>
#include <string.h>

int64_t ls_stat_outliers(ls_ctx_t *ctx, const double *x, int64_t n, double limit, bool *flags) {
  double *copy = ls_alloc_array(ctx, n > 0 ? (size_t)n : 1, sizeof *copy);
  if (!copy) return -1;
  memcpy(copy, x, (size_t)n * sizeof *copy);
  double median = ls_stat_median(copy, n), mad = ls_stat_mad(copy, n);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) {
    flags[i] = mad > 0 && fabs(0.6745 * (x[i] - median) / mad) > limit;
    count += flags[i];
  }
  ls_free(copy);
  return count;
}
