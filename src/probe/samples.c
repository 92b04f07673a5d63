/* Median and spread of single measurements. */
#include "probe/samples.h"

#include "stat/stat.h"

#include <string.h>

void ls_samples_add(ls_samples_t *samples, double ns) {
  samples->ns[samples->count++ % LS_SAMPLES_MAX] = ns;
}

bool ls_samples_time(const ls_samples_t *samples, ls_time_t *time) {
  double sorted[LS_SAMPLES_MAX];
  int64_t n = samples->count < LS_SAMPLES_MAX ? samples->count : LS_SAMPLES_MAX;
  if (n == 0) return false;
  memcpy(sorted, samples->ns, (size_t)n * sizeof *sorted);
  ls_stat_sort(sorted, n);
  time->ns = ls_stat_quantile(sorted, n, 0.5);
  time->low_ns = ls_stat_quantile(sorted, n, 0.05);
  time->high_ns = ls_stat_quantile(sorted, n, 0.95);
  return true;
}
