/* One variant of a document: its step times with and without outliers, where they went, what NVML said, and
 * whether all repetitions trained to the same parameters. */
#include "bench/document.h"

#include <math.h>

#define ENERGY_WINDOW_S 1.0

/* The mean over repetitions of what needs no interval; null when one of them lacks it. */
static json_t *mean_json(const json_t *variant, const char *path) {
  const json_t *repetition;
  size_t i, n = json_array_size(ls_bench_repetitions(variant));
  double sum = 0;
  json_array_foreach(ls_bench_repetitions(variant), i, repetition) sum += ls_bench_number(repetition, path);
  return ls_bench_json_number(sum / (double)n);
}

/* Where a step's time went: from the measured steps themselves, or, where they are captured and hide it, from
 * the traced repetition. What lies between the tasks' parts and the whole step (the host, waiting for a
 * launch) is rest, so that parts add up to their step. */
static void describe_parts(json_t *variant) {
  const json_t *first = json_array_get(ls_bench_repetitions(variant), 0);
  const json_t *traced = json_object_get(json_object_get(variant, "traced"), "step_parts_us");
  bool measured = json_is_object(json_object_get(first, "step_parts_us"));
  json_t *parts = measured || json_is_object(traced) ? json_object() : json_null();
  double total_us = json_is_object(parts) ? 0 : NAN;
  for (int i = 0; i < LS_PHASE_STEP_COUNT && json_is_object(parts); i++) {
    char path[64];
    snprintf(path, sizeof path, "step_parts_us.%s", ls_step_part_keys[i]);
    json_t *part =
        measured ? mean_json(variant, path) : json_copy(json_object_get(traced, ls_step_part_keys[i]));
    total_us += json_number_value(part);
    json_object_set_new(parts, ls_step_part_keys[i], part);
  }
  double step_us = ls_bench_number(variant, measured ? "step_time_us.mean" : "traced.step_time_us"),
         rest_us = ls_bench_number(parts, "rest");
  if (isfinite(rest_us) && isfinite(step_us)) {
    double own_us = fmax(0, rest_us + step_us - total_us);
    json_object_set_new(parts, "rest", json_real(own_us));
    total_us += own_us - rest_us;
  }
  const char *source = measured ? "measured" : json_is_object(parts) ? "traced" : NULL;
  static const char *const of_tasks[] = {"collectives", "timeline"};
  for (int i = 0; i < LS_COUNT(of_tasks) && !measured; i++) {
    const json_t *of_traced = json_object_get(json_object_get(variant, "traced"), of_tasks[i]);
    if (of_traced)
      json_object_set(variant, of_tasks[i], (json_t *)(uintptr_t)of_traced); /* only counted, not changed */
  }
  json_object_set_new(variant, "step_parts_us", parts);
  json_object_set_new(variant, "step_parts_total_us", ls_bench_json_number(total_us));
  json_object_set_new(variant, "step_parts_source", source ? json_string(source) : json_null());
}

/* What NVML said over all repetitions: means and the largest memory; energy only of enough time, because the
 * driver's counter moves in steps. */
static void describe_gpu(const ls_bench_build_t *b, json_t *variant) {
  const json_t *repetition;
  size_t i;
  double window_s = 0, energy_j = 0, memory = NAN, busy = 0;
  json_array_foreach(ls_bench_repetitions(variant), i, repetition) {
    window_s += ls_bench_number(repetition, "gpu.window_s");
    energy_j += ls_bench_number(repetition, "gpu.energy_j");
    busy += ls_bench_number(repetition, "gpu.busy_percent");
    memory = fmax(memory, ls_bench_number(repetition, "gpu.memory_used_bytes"));
  }
  if (i == 0 || !isfinite(window_s)) return;
  double steps = (double)i * (double)b->method->steps;
  json_object_set_new(variant, "gpu",
                      json_pack("{s:f, s:o, s:o, s:o}", "window_s", window_s, "busy_percent",
                                ls_bench_json_number(busy / (double)i), "energy_j_per_step",
                                ls_bench_json_number(window_s >= ENERGY_WINDOW_S ? energy_j / steps : NAN),
                                "memory_used_bytes", ls_bench_json_number(memory)));
}

/* Whether every repetition ended with the same parameters, to the bit. */
static json_t *identical_json(const json_t *variant) {
  const json_t *repetition, *first = NULL;
  size_t i;
  json_array_foreach(ls_bench_repetitions(variant), i, repetition) {
    const json_t *hash = json_object_get(repetition, "params_xxh3");
    if (!hash) return json_null();
    if (first && !json_equal(first, hash)) return json_false();
    first = hash;
  }
  return json_true();
}

/* The step times of all repetitions, and of those that are not flagged. */
static ls_status_t summarise(ls_bench_build_t *b, json_t *variant) {
  double *values;
  int64_t count;
  ls_status_t status =
      ls_bench_series(b->ctx, ls_bench_repetitions(variant), "step_time_us.mean", &values, &count);
  if (status != LS_OK) return status;
  bool *flags = ls_alloc_array(b->ctx, count > 0 ? (size_t)count : 1, sizeof *flags);
  int64_t outliers = flags ? ls_stat_outliers(b->ctx, values, count, LS_BENCH_OUTLIER_LIMIT, flags) : -1;
  json_t *with = outliers >= 0 ? ls_bench_summary(b->ctx, values, count, b->seed++) : NULL;
  json_t *flagged = json_array(), *without = NULL;
  for (int64_t i = 0; with && i < count; i++)
    if (flags[i]) json_array_append_new(flagged, json_integer(i));
  if (with) without = ls_bench_summary(b->ctx, values, ls_bench_keep(values, count, flags), b->seed++);
  if (with && without) {
    json_object_set(variant, "step_time_us", with);
    json_object_set(variant, "step_time_us_without_outliers", without);
    json_object_set(variant, "outliers", flagged);
  } else {
    status = LS_ERR_MEMORY;
  }
  json_decref(without);
  json_decref(with);
  json_decref(flagged);
  ls_free(flags);
  ls_free(values);
  return status;
}

/* Samples per second from a summary of step times, so that ratios of either agree: all samples over all time.
 */
static json_t *rate_json(const json_t *variant, const char *key) {
  const json_t *times = json_object_get(variant, key);
  double samples = ls_bench_number(variant, "global_batch") * 1e6, low = ls_bench_number(times, "low");
  return json_pack("{s:o, s:o, s:o, s:o}", "mean",
                   ls_bench_json_number(samples / ls_bench_number(times, "mean")), "median",
                   ls_bench_json_number(samples / ls_bench_number(times, "median")), "low",
                   ls_bench_json_number(samples / ls_bench_number(times, "high")), "high",
                   ls_bench_json_number(low > 0 ? samples / low : NAN));
}

ls_status_t ls_bench_describe_variant(ls_bench_build_t *b, json_t *variant) {
  ls_status_t status = summarise(b, variant);
  if (status != LS_OK) return status;
  json_object_set_new(variant, "samples_per_s", rate_json(variant, "step_time_us"));
  json_object_set_new(variant, "samples_per_s_without_outliers",
                      rate_json(variant, "step_time_us_without_outliers"));
  json_object_set_new(variant, "step_time_median_us", mean_json(variant, "step_time_us.median"));
  json_object_set_new(variant, "step_time_p95_us", mean_json(variant, "step_time_us.p95"));
  describe_parts(variant);
  describe_gpu(b, variant);
  json_object_set_new(variant, "grad_norm", mean_json(variant, "grad_norm"));
  json_object_set_new(variant, "loss", mean_json(variant, "loss"));
  json_object_set_new(variant, "identical_parameters", identical_json(variant));
  double flops = ls_bench_number(variant, "flops_per_step"),
         us = ls_bench_number(variant, "step_time_us.mean");
  json_object_set_new(variant, "flops_per_s_per_rank", ls_bench_json_number(flops * 1e6 / us));
  return LS_OK;
}
