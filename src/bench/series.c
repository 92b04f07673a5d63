/* Numbers out of measurements, and what is said about a series of them. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

const json_t *ls_bench_at(const json_t *object, const char *path) {
  for (; object && *path; path += *path == '.') {
    size_t len = strcspn(path, ".");
    object = json_object_getn(object, path, len);
    path += len;
  }
  return object;
}

double ls_bench_number(const json_t *object, const char *path) {
  const json_t *value = ls_bench_at(object, path);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

json_t *ls_bench_json_number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

ls_status_t ls_bench_series(ls_ctx_t *ctx, const json_t *repetitions, const char *path, double **out,
                            int64_t *count) {
  size_t n = json_array_size(repetitions);
  double *values = ls_alloc_array(ctx, n > 0 ? n : 1, sizeof *values);
  if (!values) return LS_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    values[i] = ls_bench_number(json_array_get(repetitions, i), path);
    if (!isfinite(values[i])) {
      ls_free(values);
      return ls_fail(ctx, LS_ERR_DATA, "repetition %zu has no \"%s\"", i, path);
    }
  }
  *out = values;
  *count = (int64_t)n;
  return LS_OK;
}

int64_t ls_bench_keep(double *values, int64_t count, const bool *flags) {
  int64_t kept = 0;
  for (int64_t i = 0; i < count; i++)
    if (!flags[i]) values[kept++] = values[i];
  return kept;
}

static double mean_of(double *x, int64_t n) {
  return ls_stat_mean(x, n);
}

json_t *ls_bench_summary(ls_ctx_t *ctx, const double *values, int64_t count, uint64_t seed) {
  ls_interval_t t = ls_stat_mean_interval(values, count, LS_BENCH_CONFIDENCE), bootstrap;
  double *sorted = ls_alloc_array(ctx, count > 0 ? (size_t)count : 1, sizeof *sorted);
  if (!sorted) return NULL;
  memcpy(sorted, values, (size_t)count * sizeof *sorted);
  json_t *summary = NULL;
  if (ls_stat_bootstrap(ctx, values, count, mean_of, LS_BENCH_CONFIDENCE, LS_BENCH_RESAMPLES, seed,
                        &bootstrap) != LS_OK)
    goto sorted;
  double median = ls_stat_median(sorted, count);
  summary = json_pack(
      "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "count", (json_int_t)count, "mean",
      ls_bench_json_number(ls_stat_mean(values, count)), "median", ls_bench_json_number(median), "sd",
      ls_bench_json_number(ls_stat_sd(values, count)), "low", ls_bench_json_number(t.low), "high",
      ls_bench_json_number(t.high), "bootstrap_low", ls_bench_json_number(bootstrap.low), "bootstrap_high",
      ls_bench_json_number(bootstrap.high), "min", ls_bench_json_number(ls_stat_quantile(sorted, count, 0)),
      "max", ls_bench_json_number(ls_stat_quantile(sorted, count, 1)));
  if (!summary) ls_fail(ctx, LS_ERR_MEMORY, "out of memory for a summary");
sorted:
  ls_free(sorted);
  return summary;
}
