/* One repetition's values as a record, which the process that measures writes and the one that compares reads. */
#include "bench/bench.h"

#include <math.h>

#define REAL(field, name) LS_FIELD_AS(ls_bench_repetition_t, field, name, .min = -INFINITY)

static const ls_field_t time_rows[] = {REAL(mean_us, "mean"), REAL(median_us, "median"), REAL(p95_us, "p95")};
static const ls_field_t gpu_rows[] = {
    LS_FIELD(ls_gpu_sampler_report_t, samples),           LS_FIELD(ls_gpu_sampler_report_t, window_s),
    LS_FIELD(ls_gpu_sampler_report_t, busy_percent),      LS_FIELD(ls_gpu_sampler_report_t, energy_j),
    LS_FIELD(ls_gpu_sampler_report_t, memory_used_bytes),
};
static const ls_record_t time_record = LS_RECORD(time_rows), gpu_record = LS_RECORD(gpu_rows);

static const ls_field_t rows[] = {
    LS_FIELD_OBJECT(time_record, "step_time_us"),
    REAL(samples_per_s, "samples_per_s"),
    LS_FIELD_OF(ls_bench_repetition_t, parts_us, LS_FIELD_RECORD, "step_parts_us",
                .record = &ls_train_parts_record, LS_FIELD_IF(ls_bench_repetition_t, parts)),
    REAL(grad_norm, "grad_norm"),
    REAL(loss, "loss"),
    LS_FIELD(ls_bench_repetition_t, params_xxh3),
    LS_FIELD(ls_bench_repetition_t, skipped_steps),
    LS_FIELD_AS(ls_bench_repetition_t, gpu_limit, "gpu_limit", .min = -1),
    LS_FIELD_AS(ls_bench_repetition_t, gpu, "gpu", .record = &gpu_record,
                LS_FIELD_IF(ls_bench_repetition_t, sampled)),
};
static const ls_record_t record = LS_RECORD(rows);

json_t *ls_bench_repetition_json(const ls_bench_repetition_t *repetition) {
  return ls_record_json(&record, repetition);
}

ls_status_t ls_bench_repetitions(ls_ctx_t *ctx, const json_t *variant, ls_bench_repetition_t **out,
                                 int64_t *count) {
  const json_t *json, *list = json_object_get(variant, "repetitions");
  size_t i, n = json_array_size(list);
  ls_bench_repetition_t *r = ls_alloc_array(ctx, n > 0 ? n : 1, sizeof *r);
  const ls_field_source_t source = {.ctx = ctx, .name = "a repetition", .status = LS_ERR_DATA};
  ls_status_t status = r ? LS_OK : LS_ERR_MEMORY;
  json_array_foreach(list, i, json) {
    if (status != LS_OK) break;
    ls_record_clear(&record, &r[i]);
    r[i].gpu_limit = -1;
    status = ls_record_read(&source, &record, json, &r[i]);
    r[i].parts = json_is_object(json_object_get(json, "step_parts_us"));
    if (status == LS_OK && !isfinite(r[i].mean_us))
      status = ls_fail(ctx, LS_ERR_DATA, "repetition %zu has no \"step_time_us.mean\"", i);
  }
  if (status != LS_OK) {
    ls_free(r);
    return status;
  }
  *out = r;
  *count = (int64_t)n;
  return LS_OK;
}

ls_status_t ls_bench_step_times(ls_ctx_t *ctx, const json_t *variant, double **out, int64_t *count) {
  ls_bench_repetition_t *r;
  ls_status_t status = ls_bench_repetitions(ctx, variant, &r, count);
  if (status != LS_OK) return status;
  double *values = ls_alloc_array(ctx, *count > 0 ? (size_t)*count : 1, sizeof *values);
  for (int64_t i = 0; values && i < *count; i++)
    values[i] = r[i].mean_us;
  ls_free(r);
  *out = values;
  return values ? LS_OK : LS_ERR_MEMORY;
}
