/* Two series of step times against each other: Welch's test says whether they differ, the equivalence test
 * whether they are close enough not to matter. Neither alone decides. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

void ls_bench_compare(const double *a, int64_t na, const double *b, int64_t nb, double margin_percent,
                      ls_bench_comparison_t *c) {
  double base = ls_stat_mean(b, nb), percent = 100 / base;
  *c = (ls_bench_comparison_t){.welch = ls_stat_welch(a, na, b, nb, LS_BENCH_ALPHA),
                               .margin_percent = margin_percent};
  c->difference_percent = c->welch.difference * percent;
  c->low_percent = c->welch.interval.low * percent;
  c->high_percent = c->welch.interval.high * percent;
  c->equivalence_p = ls_stat_equivalence(a, na, b, nb, base * margin_percent / 100);
  if (c->equivalence_p < LS_BENCH_ALPHA)
    c->verdict = LS_BENCH_EQUIVALENT;
  else if (c->welch.p < LS_BENCH_ALPHA)
    c->verdict = c->welch.difference < 0 ? LS_BENCH_FASTER : LS_BENCH_SLOWER;
  else
    c->verdict = LS_BENCH_UNDECIDED;
}

static const char *const verdict_words[] = {"faster", "slower", "equivalent", "undecided", NULL};
const char *ls_bench_verdict_word(ls_bench_verdict_t verdict) {
  return verdict_words[verdict];
}

#define REAL(field, name) LS_FIELD_AS(ls_bench_comparison_t, field, name)
static const ls_field_t rows[] = {
    LS_FIELD_OF(ls_bench_comparison_t, verdict, LS_FIELD_CHOICE, "verdict", .choices = verdict_words),
    REAL(welch.difference, "difference_us"),
    REAL(welch.interval.low, "difference_low_us"),
    REAL(welch.interval.high, "difference_high_us"),
    REAL(difference_percent, "difference_percent"),
    REAL(low_percent, "difference_low_percent"),
    REAL(high_percent, "difference_high_percent"),
    REAL(welch.t, "welch_t"),
    REAL(welch.df, "welch_df"),
    REAL(welch.p, "welch_p"),
    REAL(margin_percent, "margin_percent"),
    REAL(equivalence_p, "equivalence_p"),
};
const ls_record_t ls_bench_comparison_record = LS_RECORD(rows);

static ls_status_t drop_outliers(ls_ctx_t *ctx, double *values, int64_t *count) {
  bool *flags = ls_alloc_array(ctx, (size_t)*count + 1, sizeof *flags);
  if (!flags) return LS_ERR_MEMORY;
  int64_t flagged = ls_stat_outliers(ctx, values, *count, LS_BENCH_OUTLIER_LIMIT, flags);
  if (flagged > 0) *count = ls_bench_keep(values, *count, flags);
  ls_free(flags);
  return flagged < 0 ? LS_ERR_MEMORY : LS_OK;
}

ls_status_t ls_bench_compare_both(ls_ctx_t *ctx, double *a, int64_t na, double *b, int64_t nb,
                                  double margin_percent, ls_bench_comparison_t *all,
                                  ls_bench_comparison_t *kept) {
  ls_bench_compare(a, na, b, nb, margin_percent, all);
  ls_status_t status = drop_outliers(ctx, a, &na);
  if (status == LS_OK) status = drop_outliers(ctx, b, &nb);
  if (status == LS_OK) ls_bench_compare(a, na, b, nb, margin_percent, kept);
  return status;
}

ls_status_t ls_bench_document_series(ls_ctx_t *ctx, const json_t *document, const char *name,
                                     const char **found, double **values, int64_t *count) {
  const json_t *variants = json_object_get(document, "variants"),
               *variant = name ? ls_bench_variant(document, name) : json_array_get(variants, 0);
  char names[1024] = "";
  size_t i, used = 0;
  if (variant) {
    *found = ls_bench_word(variant, "name");
    return ls_bench_step_times(ctx, variant, values, count);
  }
  json_array_foreach(variants, i, variant) {
    if (used < sizeof names)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s\"%s\"", used ? ", " : "",
                               ls_bench_word(variant, "name"));
  }
  return ls_fail(ctx, LS_ERR_NOT_FOUND, "no variant \"%s\"; there are: %s", name, names);
}

enum { DOCUMENT_BYTES_MAX = 256 << 20 };

/* Members that a document may lack, and their types. A number or text may be null: unknown. */
static const struct {
  const char *path, *expected;
  int type; /* a json_type; JSON_REAL: any number */
} members[] = {
    {"method", "an object", JSON_OBJECT},
    {"method.repetitions", "a number from 0", JSON_REAL},
    {"method.repetitions_per_process", "a number from 0", JSON_REAL},
    {"method.steps", "a number from 0", JSON_REAL},
    {"method.warmup_steps", "a number from 0", JSON_REAL},
    {"method.order_seed", "a number from 0", JSON_REAL},
    {"method.confidence", "a number from 0", JSON_REAL},
    {"method.alpha", "a number from 0", JSON_REAL},
    {"method.margin_percent", "a number from 0", JSON_REAL},
    {"method.outlier_limit", "a number from 0", JSON_REAL},
    {"method.bootstrap_resamples", "a number from 0", JSON_REAL},
    {"method.order", "a text", JSON_STRING},
    {"control", "an object", JSON_OBJECT},
    {"control.pairs", "a number from 0", JSON_REAL},
    {"control.false_alarms", "a number from 0", JSON_REAL},
    {"control.false_alarm_rate", "a number from 0", JSON_REAL},
    {"control.p_values", "a list", JSON_ARRAY},
    {"machine", "an object", JSON_OBJECT},
    {"limits", "an object", JSON_OBJECT},
    {"limits.cpu", "a text", JSON_STRING},
    {"limits.gpu", "a text", JSON_STRING},
    {"run", "an object", JSON_OBJECT},
    {"run.processors", "a number from 0", JSON_REAL},
    {"run.load_before", "a number from 0", JSON_REAL},
    {"run.load_after", "a number from 0", JSON_REAL},
    {"answers", "a list", JSON_ARRAY},
};

static ls_status_t check_members(ls_ctx_t *ctx, const char *path, const json_t *document) {
  for (int i = 0; i < LS_COUNT(members); i++) {
    const json_t *value = ls_bench_at(document, members[i].path);
    bool value_like = members[i].type == JSON_REAL || members[i].type == JSON_STRING;
    bool good = !value || (value_like && json_is_null(value)) ||
                (members[i].type == JSON_REAL ? json_is_number(value) && json_number_value(value) >= 0
                                              : (int)json_typeof(value) == members[i].type);
    if (!good)
      return ls_fail(ctx, LS_ERR_DATA, "%s: damaged: %s is not %s", path, members[i].path,
                     members[i].expected);
  }
  return LS_OK;
}

static ls_status_t check_document(ls_ctx_t *ctx, const char *path, const json_t *document) {
  if (strcmp(ls_bench_word(document, "command"), "bench") != 0)
    return ls_fail(ctx, LS_ERR_DATA, "%s: not a document of lockstep bench --json", path);
  if (json_integer_value(json_object_get(document, "version")) != LS_BENCH_VERSION)
    return ls_fail(ctx, LS_ERR_DATA, "%s: version %lld, this program reads %d", path,
                   (long long)json_integer_value(json_object_get(document, "version")), LS_BENCH_VERSION);
  const json_t *variants = json_object_get(document, "variants"), *variant;
  bool searched = json_array_size(json_object_get(document, "crossovers")) > 0; /* perhaps in vain */
  if (!json_is_array(variants) || (json_array_size(variants) == 0 && !searched))
    return ls_fail(ctx, LS_ERR_DATA, "%s: no variants", path);
  size_t i;
  json_array_foreach(variants, i, variant) {
    if (!json_is_string(json_object_get(variant, "name")))
      return ls_fail(ctx, LS_ERR_DATA, "%s: variant %zu has no name", path, i);
    if (!json_is_array(json_object_get(variant, "repetitions")))
      return ls_fail(ctx, LS_ERR_DATA, "%s: variant %zu has no repetitions", path, i);
  }
  return check_members(ctx, path, document);
}

ls_status_t ls_bench_document_read(ls_ctx_t *ctx, const char *path, json_t **out) {
  json_t *document;
  ls_status_t status = ls_json_read(ctx, path, DOCUMENT_BYTES_MAX, LS_ERR_DATA, "", &document);
  if (status != LS_OK) return status;
  status = check_document(ctx, path, document);
  if (status != LS_OK)
    json_decref(document);
  else
    *out = document;
  return status;
}

void ls_bench_speedup_interval(const json_t *v, double *low, double *high) {
  double shortest = 1 + 0.01 * ls_bench_number(v, "against_reference.difference_low_percent"),
         longest = 1 + 0.01 * ls_bench_number(v, "against_reference.difference_high_percent");
  double most = shortest > 0 ? 1 / shortest : isnan(shortest) ? NAN : INFINITY;
  *low = ls_bench_number(v, "scaling.speedup_low");
  *high = ls_bench_number(v, "scaling.speedup_high");
  if (!(*low <= 1 / longest)) *low = 1 / longest;
  if (!(*high >= most)) *high = most;
}

ls_text_t ls_bench_speedup_text(const json_t *v) {
  double low, high;
  ls_bench_speedup_interval(v, &low, &high);
  return ls_text_ratio(ls_bench_number(v, "scaling.speedup"), low, high);
}
