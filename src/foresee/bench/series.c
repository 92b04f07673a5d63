/* Numbers out of documents, and what is said about a series of them. */
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

const char *ls_bench_word(const json_t *object, const char *path) {
  const char *text = json_string_value(ls_bench_at(object, path));
  return text ? text : "";
}

const json_t *ls_bench_variant(const json_t *document, const char *name) {
  const json_t *variant;
  size_t i;
  json_array_foreach(json_object_get(document, "variants"), i, variant) {
    if (!strcmp(ls_bench_word(variant, "name"), name)) return variant;
  }
  return NULL;
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

static const ls_field_t summary_rows[] = {
    LS_FIELD(ls_bench_summary_t, count),         LS_FIELD(ls_bench_summary_t, mean),
    LS_FIELD(ls_bench_summary_t, median),        LS_FIELD(ls_bench_summary_t, sd),
    LS_FIELD(ls_bench_summary_t, low),           LS_FIELD(ls_bench_summary_t, high),
    LS_FIELD(ls_bench_summary_t, bootstrap_low), LS_FIELD(ls_bench_summary_t, bootstrap_high),
    LS_FIELD(ls_bench_summary_t, min),           LS_FIELD(ls_bench_summary_t, max),
};
const ls_record_t ls_bench_summary_record = LS_RECORD(summary_rows);

ls_status_t ls_bench_summarise(ls_ctx_t *ctx, const double *values, int64_t count, uint64_t seed,
                               ls_bench_summary_t *s) {
  ls_interval_t t = ls_stat_mean_interval(values, count, LS_BENCH_CONFIDENCE), bootstrap;
  double *sorted = ls_alloc_array(ctx, (size_t)count + 1, sizeof *sorted);
  if (!sorted) return LS_ERR_MEMORY;
  memcpy(sorted, values, (size_t)count * sizeof *sorted);
  ls_status_t status = ls_stat_bootstrap(ctx, values, count, mean_of, LS_BENCH_CONFIDENCE, LS_BENCH_RESAMPLES,
                                         seed, &bootstrap);
  if (status == LS_OK) {
    double median = ls_stat_median(sorted, count); /* and sorts them */
    *s = (ls_bench_summary_t){.count = count,
                              .mean = ls_stat_mean(values, count),
                              .median = median,
                              .sd = ls_stat_sd(values, count),
                              .low = t.low,
                              .high = t.high,
                              .bootstrap_low = bootstrap.low,
                              .bootstrap_high = bootstrap.high,
                              .min = ls_stat_quantile(sorted, count, 0),
                              .max = ls_stat_quantile(sorted, count, 1)};
  }
  ls_free(sorted);
  return status;
}
