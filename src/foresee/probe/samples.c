/* Median of the undisturbed measurements, and the spread of all. */
#include "probe/samples.h"

#include "stat/stat.h"

#include <math.h>
#include <string.h>

/* Other programs only ever make a measurement longer, and those of tiny things many times longer. A sample that is
 * longer than the quickest tenth by this factor was disturbed. */
static const double disturbed = 2, quickest = 0.1;

void ls_samples_add(ls_samples_t *samples, double ns) {
  samples->ns[samples->count++ % LS_SAMPLES_MAX] = ns;
}

bool ls_samples_time(const ls_samples_t *samples, ls_time_t *time) {
  double sorted[LS_SAMPLES_MAX];
  int64_t n = samples->count < LS_SAMPLES_MAX ? samples->count : LS_SAMPLES_MAX;
  if (n == 0) return false;
  memcpy(sorted, samples->ns, (size_t)n * sizeof *sorted);
  ls_stat_sort(sorted, n);
  int64_t quiet = 1;
  const double most = disturbed * ls_stat_quantile(sorted, n, quickest);
  while (quiet < n && sorted[quiet] <= most)
    quiet++;
  time->ns = ls_stat_quantile(sorted, quiet, 0.5);
  time->low_ns = fmin(ls_stat_quantile(sorted, n, 0.05), time->ns);
  time->high_ns = ls_stat_quantile(sorted, n, 0.95);
  return true;
}
