/* From measurements to a document: summaries with and without outliers, every variant against its reference,
 * scaling, the control, and whether the run is void. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

#define ENERGY_WINDOW_S 1.0

typedef struct {
  ls_ctx_t *ctx;
  const ls_bench_method_t *method;
  json_t *variants; /* of the document */
  uint64_t seed;    /* of bootstraps */
} build_t;

static const json_t *repetitions_of(const json_t *variant) {
  return json_object_get(variant, "repetitions");
}
static bool failed(const json_t *variant) {
  return json_object_get(variant, "failed") != NULL;
}

/* The mean over repetitions of what needs no interval; null when one of them lacks it. */
static json_t *mean_json(const json_t *variant, const char *path) {
  const json_t *repetition;
  size_t i, n = json_array_size(repetitions_of(variant));
  double sum = 0;
  json_array_foreach(repetitions_of(variant), i, repetition) sum += ls_bench_number(repetition, path);
  return ls_bench_json_number(sum / (double)n);
}

/* Where a step's time went: from the measured steps themselves, or, where they are captured and hide it, from
 * the traced repetition. What lies between the tasks' parts and the whole step (the host, waiting for a
 * launch) is rest, so that parts add up to their step. */
static void describe_parts(json_t *variant) {
  static const char *const keys[] = {"input", "forward", "backward", "exposed_comm", "optimizer", "rest"};
  const json_t *first = json_array_get(repetitions_of(variant), 0);
  const json_t *traced = json_object_get(json_object_get(variant, "traced"), "step_parts_us");
  bool measured = json_is_object(json_object_get(first, "step_parts_us"));
  json_t *parts = measured || json_is_object(traced) ? json_object() : json_null();
  double total_us = json_is_object(parts) ? 0 : NAN;
  for (int i = 0; i < LS_COUNT(keys) && json_is_object(parts); i++) {
    char path[64];
    snprintf(path, sizeof path, "step_parts_us.%s", keys[i]);
    json_t *part = measured ? mean_json(variant, path) : json_copy(json_object_get(traced, keys[i]));
    total_us += json_number_value(part);
    json_object_set_new(parts, keys[i], part);
  }
  double step_us = ls_bench_number(variant, measured ? "step_time_us.mean" : "traced.step_time_us"),
         rest_us = ls_bench_number(parts, "rest");
  if (isfinite(rest_us) && isfinite(step_us)) {
    double own_us = fmax(0, rest_us + step_us - total_us);
    json_object_set_new(parts, "rest", json_real(own_us));
    total_us += own_us - rest_us;
  }
  const char *source = measured ? "measured" : json_is_object(parts) ? "traced" : NULL;
  const json_t *collectives = json_object_get(json_object_get(variant, "traced"), "collectives");
  if (!measured && collectives)
    json_object_set(variant, "collectives", (json_t *)(uintptr_t)collectives); /* only counted, not changed */
  json_object_set_new(variant, "step_parts_us", parts);
  json_object_set_new(variant, "step_parts_total_us", ls_bench_json_number(total_us));
  json_object_set_new(variant, "step_parts_source", source ? json_string(source) : json_null());
}

/* What NVML said over all repetitions: means and the largest memory; energy only of enough time, because the
 * driver's counter moves in steps. */
static void describe_gpu(const build_t *b, json_t *variant) {
  const json_t *repetition;
  size_t i;
  double window_s = 0, energy_j = 0, memory = NAN, busy = 0;
  json_array_foreach(repetitions_of(variant), i, repetition) {
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
  json_array_foreach(repetitions_of(variant), i, repetition) {
    const json_t *hash = json_object_get(repetition, "params_xxh3");
    if (!hash) return json_null();
    if (first && !json_equal(first, hash)) return json_false();
    first = hash;
  }
  return json_true();
}

/* The step times of all repetitions, and of those that are not flagged. */
static ls_status_t summarise(build_t *b, json_t *variant) {
  double *values;
  int64_t count;
  ls_status_t status = ls_bench_series(b->ctx, repetitions_of(variant), "step_time_us.mean", &values, &count);
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

static ls_status_t describe_variant(build_t *b, json_t *variant) {
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

static bool same_member(const json_t *a, const json_t *b, const char *key) {
  const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
  return x && y ? json_equal(x, y) : x == y;
}

/* The variant of the same key, model and precision with the fewest ranks; the first of them. */
static const json_t *reference_of(const build_t *b, const json_t *variant) {
  const json_t *other, *best = NULL;
  size_t i;
  json_array_foreach(b->variants, i, other) {
    if (failed(other) || !same_member(other, variant, "key") || !same_member(other, variant, "model") ||
        !same_member(other, variant, "precision"))
      continue;
    if (!best || ls_bench_number(other, "ranks") < ls_bench_number(best, "ranks")) best = other;
  }
  return best;
}

/* Copies without the flagged ones, in place. */
static ls_status_t drop_outliers(ls_ctx_t *ctx, double *values, int64_t *count) {
  bool *flags = ls_alloc_array(ctx, (size_t)*count + 1, sizeof *flags);
  if (!flags) return LS_ERR_MEMORY;
  int64_t flagged = ls_stat_outliers(ctx, values, *count, LS_BENCH_OUTLIER_LIMIT, flags);
  if (flagged > 0) *count = ls_bench_keep(values, *count, flags);
  ls_free(flags);
  return flagged < 0 ? LS_ERR_MEMORY : LS_OK;
}

static json_t *scaling_json(const build_t *b, const json_t *variant, const json_t *reference, double speedup,
                            ls_interval_t interval) {
  double ranks = ls_bench_number(variant, "ranks") / ls_bench_number(reference, "ranks");
  return json_pack("{s:s, s:O, s:o, s:o, s:o, s:o}", "kind", b->method->weak ? "weak" : "strong", "reference",
                   json_object_get(reference, "name"), "speedup", ls_bench_json_number(speedup),
                   "speedup_low", ls_bench_json_number(interval.low), "speedup_high",
                   ls_bench_json_number(interval.high), "efficiency", ls_bench_json_number(speedup / ranks));
}

/* Speed-up and tests on step times. With weak scaling the batches differ: then the variant's times are those
 * of as many samples as the reference's step has. */
static ls_status_t against_reference(build_t *b, json_t *variant, const json_t *reference) {
  double *own = NULL, *theirs = NULL;
  int64_t n, m;
  ls_interval_t speedup;
  ls_bench_comparison_t all, kept;
  ls_status_t status = ls_bench_series(b->ctx, repetitions_of(variant), "step_time_us.mean", &own, &n);
  if (status == LS_OK)
    status = ls_bench_series(b->ctx, repetitions_of(reference), "step_time_us.mean", &theirs, &m);
  if (status != LS_OK) goto done;
  double scale = ls_bench_number(reference, "global_batch") / ls_bench_number(variant, "global_batch");
  for (int64_t i = 0; i < n; i++)
    own[i] *= scale;
  double ratio = ls_stat_mean(theirs, m) / ls_stat_mean(own, n);
  status = ls_stat_bootstrap_ratio(b->ctx, theirs, m, own, n, LS_BENCH_CONFIDENCE, LS_BENCH_RESAMPLES,
                                   b->seed++, &speedup);
  ls_bench_compare(own, n, theirs, m, b->method->margin_percent, &all);
  if (status == LS_OK) status = drop_outliers(b->ctx, own, &n);
  if (status == LS_OK) status = drop_outliers(b->ctx, theirs, &m);
  if (status != LS_OK) goto done;
  ls_bench_compare(own, n, theirs, m, b->method->margin_percent, &kept);
  json_object_set_new(variant, "scaling", scaling_json(b, variant, reference, ratio, speedup));
  json_object_set_new(variant, "against_reference", ls_bench_comparison_json(&all));
  json_object_set_new(variant, "against_reference_without_outliers", ls_bench_comparison_json(&kept));
done:
  ls_free(theirs);
  ls_free(own);
  return status;
}

static ls_status_t array_values(ls_ctx_t *ctx, const json_t *array, double **values) {
  size_t n = json_array_size(array), i;
  const json_t *value;
  *values = ls_alloc_array(ctx, n > 0 ? n : 1, sizeof **values);
  if (!*values) return LS_ERR_MEMORY;
  json_array_foreach(array, i, value)(*values)[i] = json_number_value(value);
  return LS_OK;
}

/* The same variant twice: how often the test says "different" although nothing is. */
static ls_status_t control_json(build_t *b, const json_t *control, json_t *document) {
  json_t *p_values = json_array();
  const json_t *pair;
  size_t i;
  int64_t alarms = 0, pairs = 0;
  json_array_foreach(control, i, pair) {
    const json_t *ja = json_object_get(pair, "a"), *jb = json_object_get(pair, "b");
    double *a = NULL, *c = NULL;
    ls_status_t status = array_values(b->ctx, ja, &a);
    if (status == LS_OK) status = array_values(b->ctx, jb, &c);
    double p = NAN;
    if (status == LS_OK)
      p = ls_stat_welch(a, (int64_t)json_array_size(ja), c, (int64_t)json_array_size(jb), LS_BENCH_ALPHA).p;
    ls_free(c);
    ls_free(a);
    if (status != LS_OK) {
      json_decref(p_values);
      return status;
    }
    if (!isfinite(p)) continue;
    pairs++;
    alarms += p < LS_BENCH_ALPHA;
    json_array_append_new(p_values, json_real(p));
  }
  json_object_set_new(document, "control",
                      json_pack("{s:I, s:I, s:I, s:o, s:f, s:o}", "pairs", (json_int_t)pairs,
                                "repetitions_per_side", (json_int_t)b->method->control_repetitions,
                                "false_alarms", (json_int_t)alarms, "false_alarm_rate",
                                ls_bench_json_number(pairs > 0 ? (double)alarms / (double)pairs : NAN),
                                "alpha", LS_BENCH_ALPHA, "p_values", p_values));
  return LS_OK;
}

static void void_json(const build_t *b, json_t *document) {
  int64_t gpu = -1, before = b->method->cpu_throttles_before, after = b->method->cpu_throttles_after;
  const json_t *variant, *repetition;
  size_t i, k;
  bool any_gpu = false;
  json_array_foreach(b->variants, i, variant) {
    const char *backend = json_string_value(json_object_get(variant, "backend"));
    if (backend && !strcmp(backend, "cuda")) any_gpu = true;
    json_array_foreach(repetitions_of(variant), k, repetition) {
      double bits = ls_bench_number(repetition, "gpu_limit");
      if (bits >= 0) gpu = (gpu < 0 ? 0 : gpu) | (int64_t)bits;
    }
  }
  bool cpu_known = before >= 0 && after >= 0, cpu_acted = cpu_known && after != before;
  json_t *reasons = json_array();
  char text[64], line[96];
  if (gpu > 0) {
    snprintf(line, sizeof line, "GPU: %s", ls_bench_gpu_limit_text(gpu, text));
    json_array_append_new(reasons, json_string(line));
  }
  if (cpu_acted)
    json_array_append_new(reasons, json_string("CPU: heat (throttle counters rose during the run)"));
  const char *gpu_text = !any_gpu ? "not used" : gpu < 0 ? "unknown" : gpu > 0 ? "acted" : "none";
  json_object_set_new(document, "void", json_boolean(gpu > 0 || cpu_acted));
  json_object_set_new(document, "void_reasons", reasons);
  json_object_set_new(document, "limits",
                      json_pack("{s:s, s:s}", "cpu",
                                !cpu_known  ? "unknown"
                                : cpu_acted ? "acted"
                                            : "none",
                                "gpu", gpu_text));
}

static json_t *method_json(const ls_bench_method_t *m) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:i, s:s, s:b}", "repetitions",
                   (json_int_t)m->repetitions, "repetitions_per_process", (json_int_t)m->per_process, "steps",
                   (json_int_t)m->steps, "warmup_steps", (json_int_t)m->warmup_steps, "order_seed",
                   (json_int_t)m->order_seed, "confidence", LS_BENCH_CONFIDENCE, "alpha", LS_BENCH_ALPHA,
                   "margin_percent", m->margin_percent, "outlier_limit", LS_BENCH_OUTLIER_LIMIT,
                   "bootstrap_resamples", LS_BENCH_RESAMPLES, "order",
                   "randomised blocks: every round measures each variant once", "weak", m->weak);
}

ls_status_t ls_bench_document(ls_ctx_t *ctx, const ls_bench_method_t *method, const json_t *variants,
                              const json_t *control, json_t **out) {
  build_t b = {.ctx = ctx,
               .method = method,
               .variants = json_deep_copy(variants),
               .seed = (uint64_t)method->order_seed};
  json_t *document = json_pack("{s:s, s:i, s:s, s:o}", "command", "bench", "version", LS_BENCH_VERSION,
                               "config", method->config, "method", method_json(method));
  json_t *variant;
  size_t i;
  ls_status_t status =
      b.variants && document ? LS_OK : ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the document");
  json_array_foreach(b.variants, i, variant) {
    if (status == LS_OK && !failed(variant)) status = describe_variant(&b, variant);
  }
  json_array_foreach(b.variants, i, variant) {
    const json_t *reference = status == LS_OK && !failed(variant) ? reference_of(&b, variant) : NULL;
    if (reference && reference != variant) status = against_reference(&b, variant, reference);
  }
  if (status == LS_OK) status = control_json(&b, control, document);
  if (status == LS_OK) {
    void_json(&b, document);
    if (method->incomplete) json_object_set_new(document, "incomplete", json_string(method->incomplete));
    json_object_set(document, "variants", b.variants);
    *out = json_incref(document);
  }
  json_decref(document);
  json_decref(b.variants);
  return status;
}
