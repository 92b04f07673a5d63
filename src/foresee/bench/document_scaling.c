/* Every variant of a document against its reference: speed-up, efficiency and tests on step times. */
#include "bench/document.h"

static bool same_member(const json_t *a, const json_t *b, const char *key) {
  const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
  return x && y ? json_equal(x, y) : x == y;
}

const json_t *ls_bench_reference(const ls_bench_build_t *b, const json_t *variant) {
  const json_t *other, *best = NULL;
  size_t i;
  json_array_foreach(b->variants, i, other) {
    if (ls_bench_failed(other) || !same_member(other, variant, "key") ||
        !same_member(other, variant, "model") || !same_member(other, variant, "precision"))
      continue;
    if (!best || ls_bench_number(other, "ranks") < ls_bench_number(best, "ranks")) best = other;
  }
  return best;
}

static json_t *scaling_json(const ls_bench_build_t *b, const json_t *variant, const json_t *reference,
                            double speedup, ls_interval_t interval) {
  double ranks = ls_bench_number(variant, "ranks") / ls_bench_number(reference, "ranks");
  return json_pack("{s:s, s:O, s:o, s:o, s:o, s:o}", "kind", b->method->weak ? "weak" : "strong", "reference",
                   json_object_get(reference, "name"), "speedup", ls_json_number(speedup), "speedup_low",
                   ls_json_number(interval.low), "speedup_high", ls_json_number(interval.high), "efficiency",
                   ls_json_number(speedup / ranks));
}

bool ls_bench_busy(const json_t *document) {
  return ls_bench_number(document, "run.load_before") >
         LS_BENCH_BUSY * ls_bench_number(document, "run.processors");
}

void ls_bench_add_run(json_t *document, json_t *run) {
  json_t *variant;
  size_t i;
  json_object_set_new(document, "run", run);
  json_array_foreach(json_object_get(document, "variants"), i, variant) {
    if (ls_bench_busy(document) && ls_bench_number(variant, "scaling.efficiency") > 1)
      json_object_set_new(json_object_get(variant, "scaling"), "efficiency", json_null());
  }
}

ls_status_t ls_bench_against_reference(ls_bench_build_t *b, json_t *variant, const json_t *reference) {
  double *own = NULL, *theirs = NULL;
  int64_t n, m;
  ls_interval_t speedup;
  ls_bench_comparison_t all, kept;
  ls_status_t status = ls_bench_step_times(b->ctx, variant, &own, &n);
  if (status == LS_OK) status = ls_bench_step_times(b->ctx, reference, &theirs, &m);
  if (status != LS_OK) goto done;
  double scale = ls_bench_number(reference, "global_batch") / ls_bench_number(variant, "global_batch");
  for (int64_t i = 0; i < n; i++)
    own[i] *= scale;
  double ratio = ls_stat_mean(theirs, m) / ls_stat_mean(own, n);
  status = ls_stat_bootstrap_ratio(b->ctx, theirs, m, own, n, LS_BENCH_CONFIDENCE, LS_BENCH_RESAMPLES,
                                   b->seed++, &speedup);
  if (status == LS_OK)
    status = ls_bench_compare_both(b->ctx, own, n, theirs, m, b->method->margin_percent, &all, &kept);
  if (status != LS_OK) goto done;
  json_object_set_new(variant, "scaling", scaling_json(b, variant, reference, ratio, speedup));
  json_object_set_new(variant, "against_reference", ls_record_json(&ls_bench_comparison_record, &all));
  json_object_set_new(variant, "against_reference_without_outliers",
                      ls_record_json(&ls_bench_comparison_record, &kept));
done:
  ls_free(theirs);
  ls_free(own);
  return status;
}
