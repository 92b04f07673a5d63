/* One variant of a document: its step times with and without outliers, where they went, what NVML said, and
 * whether all repetitions trained to the same parameters. */
#include "bench/document.h"

#include <math.h>
#include <string.h>

#define ENERGY_WINDOW_S 1.0

/* Samples per second. */
typedef struct {
  double mean, median, low, high;
} rate_t;

/* The figures that follow from a variant's repetitions. */
typedef struct {
  ls_bench_summary_t time, kept; /* step times; without the flagged ones */
  int outlier_count, *outlier;
  rate_t rate, kept_rate;
  double median_us, p95_us, parts_us[LS_PHASE_STEP_COUNT], parts_total_us;
  const char *parts_source; /* "measured", "traced"; NULL: not known */
  bool parts, gpu;
  double window_s, busy_percent, energy_j, memory_used_bytes; /* energy: of a step */
  double grad_norm, loss, flops_per_s;
  int identical;
} described_t;

static const ls_field_t rate_rows[] = {LS_FIELD(rate_t, mean), LS_FIELD(rate_t, median),
                                       LS_FIELD(rate_t, low), LS_FIELD(rate_t, high)};
static const ls_record_t rate_record = LS_RECORD(rate_rows);
static const ls_field_t gpu_rows[] = {
    LS_FIELD(described_t, window_s),
    LS_FIELD(described_t, busy_percent),
    LS_FIELD_AS(described_t, energy_j, "energy_j_per_step"),
    LS_FIELD(described_t, memory_used_bytes),
};
static const ls_record_t gpu_record = LS_RECORD(gpu_rows);
static const ls_field_t outlier_each = {.type = LS_FIELD_INT, .size_bytes = sizeof(int)};
static const ls_field_t rows[] = {
    LS_FIELD_AS(described_t, time, "step_time_us", .record = &ls_bench_summary_record),
    LS_FIELD_AS(described_t, kept, "step_time_us_without_outliers", .record = &ls_bench_summary_record),
    LS_FIELD_OF(described_t, outlier, LS_FIELD_LIST_AT, "outliers", .each = &outlier_each,
                .count_offset = offsetof(described_t, outlier_count)),
    LS_FIELD_AS(described_t, rate, "samples_per_s", .record = &rate_record),
    LS_FIELD_AS(described_t, kept_rate, "samples_per_s_without_outliers", .record = &rate_record),
    LS_FIELD_AS(described_t, median_us, "step_time_median_us"),
    LS_FIELD_AS(described_t, p95_us, "step_time_p95_us"),
    LS_FIELD_OF(described_t, parts_us, LS_FIELD_RECORD, "step_parts_us", .record = &ls_train_parts_record,
                LS_FIELD_IF(described_t, parts)),
    LS_FIELD_AS(described_t, parts_total_us, "step_parts_total_us"),
    LS_FIELD_AS(described_t, parts_source, "step_parts_source"),
    LS_FIELD_OBJECT(gpu_record, "gpu", LS_FIELD_IF(described_t, gpu), .left_out = true),
    LS_FIELD(described_t, grad_norm),
    LS_FIELD(described_t, loss),
    LS_FIELD_OF(described_t, identical, LS_FIELD_MAYBE, "identical_parameters"),
    LS_FIELD_AS(described_t, flops_per_s, "flops_per_s_per_rank"),
};
static const ls_record_t record = LS_RECORD(rows);

/* The mean of a value that needs no interval; NAN when a repetition lacks it. */
static double mean_of(const ls_bench_repetition_t *r, int64_t count, size_t offset) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++)
    sum += *(const double *)(const void *)((const char *)&r[i] + offset);
  return sum / (double)count;
}
#define MEAN(field) mean_of(r, count, offsetof(ls_bench_repetition_t, field))

/* The parts of a step's time. The measured steps tell them; captured steps hide them, then the traced repetition does. Time
 * between the tasks' parts and the whole step (the host, waiting for a launch) is rest, so that parts add up to a step. */
static void describe_parts(json_t *variant, const ls_bench_repetition_t *r, int64_t count, described_t *d) {
  static const char *const of_tasks[] = {"collectives", "timeline"};
  const json_t *traced = json_object_get(variant, "traced"),
               *parts = json_object_get(traced, "step_parts_us");
  const ls_field_source_t source = {.name = "the traced repetition", .status = LS_ERR_DATA};
  bool measured = count > 0 && r[0].parts;
  double *part = d->parts_us, total_us = 0, step_us = d->time.mean;
  d->parts_total_us = NAN;
  d->parts_source = measured ? "measured" : json_is_object(parts) ? "traced" : NULL;
  d->parts = d->parts_source != NULL;
  for (int i = 0; i < LS_COUNT(of_tasks) && !measured; i++) {
    const json_t *of_traced = json_object_get(traced, of_tasks[i]);
    if (of_traced)
      json_object_set(variant, of_tasks[i], (json_t *)(uintptr_t)of_traced); /* only counted, not changed */
  }
  if (!d->parts) return;
  ls_record_clear(&ls_train_parts_record, part);
  if (!measured) {
    ls_record_read(&source, &ls_train_parts_record, parts, part); /* what does not read is unknown */
    step_us = ls_bench_number(traced, "step_time_us");
  }
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++) {
    if (measured)
      part[i] = mean_of(r, count, offsetof(ls_bench_repetition_t, parts_us) + (size_t)i * sizeof *part);
    if (isfinite(part[i])) total_us += part[i];
  }
  double rest_us = part[LS_PHASE_STEP_REST];
  if (isfinite(rest_us) && isfinite(step_us)) {
    part[LS_PHASE_STEP_REST] = fmax(0, rest_us + step_us - total_us);
    total_us += part[LS_PHASE_STEP_REST] - rest_us;
  }
  d->parts_total_us = total_us;
}

/* NVML's figures over all repetitions: means, and the largest memory. Energy needs enough time, because the driver's counter
 * moves in steps. */
static void describe_gpu(const ls_bench_build_t *b, const ls_bench_repetition_t *r, int64_t count,
                         described_t *d) {
  double energy_j = 0, busy = 0, steps = (double)count * (double)b->method->steps;
  d->memory_used_bytes = NAN;
  for (int64_t i = 0; i < count; i++) {
    d->window_s += r[i].gpu.window_s;
    energy_j += r[i].gpu.energy_j;
    busy += r[i].gpu.busy_percent;
    d->memory_used_bytes = fmax(d->memory_used_bytes, r[i].gpu.memory_used_bytes);
  }
  d->gpu = count > 0 && isfinite(d->window_s);
  d->busy_percent = busy / (double)count;
  d->energy_j = d->window_s >= ENERGY_WINDOW_S ? energy_j / steps : NAN;
}

/* Whether every repetition ended with the same parameters, to the bit; -1: one does not say. */
static int identical(const ls_bench_repetition_t *r, int64_t count) {
  int same = 1;
  for (int64_t i = 0; i < count && same == 1; i++)
    same = !r[i].params_xxh3[0] ? -1 : !strcmp(r[i].params_xxh3, r[0].params_xxh3);
  return same;
}

/* From a summary of step times, so that ratios of either agree: all samples over all time. */
static rate_t rate_of(double samples, const ls_bench_summary_t *t) {
  return (rate_t){samples / t->mean, samples / t->median, samples / t->high,
                  t->low > 0 ? samples / t->low : NAN};
}

/* The step times of all repetitions, and of those that are not flagged. */
static ls_status_t summarise(ls_bench_build_t *b, double *values, int64_t count, described_t *d) {
  bool *flags = ls_alloc_array(b->ctx, (size_t)count + 1, sizeof *flags);
  int64_t outliers = flags ? ls_stat_outliers(b->ctx, values, count, LS_BENCH_OUTLIER_LIMIT, flags) : -1;
  ls_status_t status =
      outliers >= 0 ? ls_bench_summarise(b->ctx, values, count, b->seed++, &d->time) : LS_ERR_MEMORY;
  for (int64_t i = 0; i < count && status == LS_OK; i++)
    if (flags[i]) d->outlier[d->outlier_count++] = (int)i;
  if (status == LS_OK)
    status = ls_bench_summarise(b->ctx, values, ls_bench_keep(values, count, flags), b->seed++, &d->kept);
  ls_free(flags);
  return status;
}

ls_status_t ls_bench_describe_variant(ls_bench_build_t *b, json_t *variant) {
  described_t d = {.parts = false};
  ls_bench_repetition_t *r;
  int64_t count;
  ls_status_t status = ls_bench_repetitions(b->ctx, variant, &r, &count);
  if (status != LS_OK) return status;
  double *values = ls_alloc_array(b->ctx, (size_t)count + 1, sizeof *values);
  d.outlier = ls_alloc_array(b->ctx, (size_t)count + 1, sizeof *d.outlier);
  for (int64_t i = 0; i < count && values; i++)
    values[i] = r[i].mean_us;
  status = values && d.outlier ? summarise(b, values, count, &d) : LS_ERR_MEMORY;
  if (status != LS_OK) goto done;
  double samples = ls_bench_number(variant, "global_batch") * 1e6;
  d.rate = rate_of(samples, &d.time);
  d.kept_rate = rate_of(samples, &d.kept);
  d.median_us = MEAN(median_us);
  d.p95_us = MEAN(p95_us);
  describe_parts(variant, r, count, &d);
  describe_gpu(b, r, count, &d);
  d.grad_norm = MEAN(grad_norm);
  d.loss = MEAN(loss);
  d.identical = identical(r, count);
  d.flops_per_s = ls_bench_number(variant, "flops_per_step") * 1e6 / d.time.mean;
  if (!ls_record_put(variant, &record, &d))
    status = ls_fail(b->ctx, LS_ERR_MEMORY, "out of memory for a variant");
done:
  ls_free(d.outlier);
  ls_free(values);
  ls_free(r);
  return status;
}
