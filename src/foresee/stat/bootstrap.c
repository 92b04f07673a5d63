/* Intervals by resampling (Efron 1979), the percentile method (Efron and Tibshirani 1993, chapter 13). Random
 * numbers are a function of seed and position, so an interval can be recomputed. */
#include "stat/stat.h"

#include <math.h>

enum { STREAM_BOOTSTRAP = 0x7000000 };

/* The k-th number of a resample below n; the bias of the product is below n / 2^64. */
static int64_t draw(uint64_t seed, uint64_t counter, int64_t n) {
  ls_rng4_t r = ls_rng(seed, STREAM_BOOTSTRAP, counter);
  uint64_t word = (uint64_t)r.v[0] << 32 | r.v[1];
  uint64_t high = (word >> 32) * (uint64_t)n, low = (word & 0xffffffffu) * (uint64_t)n;
  return (int64_t)((high + (low >> 32)) >> 32);
}

static ls_interval_t percentiles(double *values, int count, double confidence) {
  ls_stat_sort(values, count);
  return (ls_interval_t){ls_stat_quantile(values, count, 0.5 - 0.5 * confidence),
                         ls_stat_quantile(values, count, 0.5 + 0.5 * confidence)};
}

ls_status_t ls_stat_bootstrap(ls_ctx_t *ctx, const double *x, int64_t n, ls_statistic_fn statistic,
                              double confidence, int resamples, uint64_t seed, ls_interval_t *interval) {
  if (n < 2) {
    *interval = (ls_interval_t){NAN, NAN};
    return LS_OK;
  }
  double *sample = ls_alloc_array(ctx, (size_t)n, sizeof *sample);
  double *values = ls_alloc_array(ctx, (size_t)resamples, sizeof *values);
  if (sample && values) {
    uint64_t counter = 0;
    for (int r = 0; r < resamples; r++) {
      for (int64_t i = 0; i < n; i++)
        sample[i] = x[draw(seed, counter++, n)];
      values[r] = statistic(sample, n);
    }
    *interval = percentiles(values, resamples, confidence);
  }
  ls_status_t status = sample && values ? LS_OK : LS_ERR_MEMORY;
  ls_free(values);
  ls_free(sample);
  return status;
}

ls_status_t ls_stat_bootstrap_ratio(ls_ctx_t *ctx, const double *a, int64_t na, const double *b, int64_t nb,
                                    double confidence, int resamples, uint64_t seed,
                                    ls_interval_t *interval) {
  if (na < 2 || nb < 2) {
    *interval = (ls_interval_t){NAN, NAN};
    return LS_OK;
  }
  double *values = ls_alloc_array(ctx, (size_t)resamples, sizeof *values);
  if (!values) return LS_ERR_MEMORY;
  uint64_t counter = 0;
  for (int r = 0; r < resamples; r++) {
    double sum_a = 0, sum_b = 0;
    for (int64_t i = 0; i < na; i++)
      sum_a += a[draw(seed, counter++, na)];
    for (int64_t i = 0; i < nb; i++)
      sum_b += b[draw(seed, counter++, nb)];
    values[r] = sum_a / (double)na / (sum_b / (double)nb);
  }
  *interval = percentiles(values, resamples, confidence);
  ls_free(values);
  return LS_OK;
}
