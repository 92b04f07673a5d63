/* Comparisons of the same work on two occasions. */
#include "bench/pairs.h"

#include <stdlib.h>
#include <string.h>

/* Steps with different work take different times: if both documents state their work and it differs, a
 * message says so. */
static void warn_pair(ls_ctx_t *ctx, const json_t *a, const json_t *b, const char *name_a,
                      const char *name_b) {
  static const char *const keys[] = {"global_batch", "model", "params", "precision"};
  const json_t *of_a = ls_bench_variant(a, name_a), *of_b = ls_bench_variant(b, name_b);
  for (int i = 0; i < LS_COUNT(keys); i++) {
    const json_t *x = json_object_get(of_a, keys[i]), *y = json_object_get(of_b, keys[i]);
    if (!x || !y || json_equal(x, y)) continue;
    char *text_x = json_dumps(x, JSON_ENCODE_ANY), *text_y = json_dumps(y, JSON_ENCODE_ANY);
    ls_log(ctx, LS_LOG_WARN, "\"%s\" and \"%s\" differ in %s: %s and %s", name_a, name_b, keys[i],
           text_x ? text_x : "?", text_y ? text_y : "?");
    free(text_y);
    free(text_x);
  }
}

static const ls_field_t pair_rows[] = {
    LS_FIELD(ls_bench_pair_t, a),
    LS_FIELD(ls_bench_pair_t, b),
    LS_FIELD_AS(ls_bench_pair_t, a_us, "a_step_time_us"),
    LS_FIELD_AS(ls_bench_pair_t, b_us, "b_step_time_us"),
    LS_FIELD_AS(ls_bench_pair_t, all, "all", .record = &ls_bench_comparison_record),
    LS_FIELD_AS(ls_bench_pair_t, kept, "without_outliers", .record = &ls_bench_comparison_record),
};
static const ls_record_t pair_record = LS_RECORD(pair_rows);
static const ls_field_t pair_each = LS_FIELD_EACH(ls_bench_pair_t, pair_record);
static const ls_field_t pairs_rows[] = {LS_FIELD_OF(ls_bench_pairs_t, pair, LS_FIELD_LIST_AT, "comparisons",
                                                    .each = &pair_each,
                                                    .count_offset = offsetof(ls_bench_pairs_t, count))};
static const ls_record_t pairs_record = LS_RECORD(pairs_rows);

static ls_status_t compare_pair(ls_ctx_t *ctx, const json_t *a, const json_t *b, const char *name_a,
                                const char *name_b, double margin, ls_bench_pairs_t *pairs) {
  ls_bench_pair_t *p = &pairs->pair[pairs->count];
  double *x = NULL, *y = NULL;
  int64_t n, m;
  ls_status_t status = ls_bench_document_series(ctx, a, name_a, &p->a, &x, &n);
  if (status == LS_OK) status = ls_bench_document_series(ctx, b, name_b, &p->b, &y, &m);
  if (status == LS_OK) {
    p->a_us = ls_stat_mean(x, n);
    p->b_us = ls_stat_mean(y, m);
    status = ls_bench_compare_both(ctx, x, n, y, m, margin, &p->all, &p->kept);
  }
  if (status == LS_OK) {
    warn_pair(ctx, a, b, p->a, p->b);
    pairs->count++;
  }
  ls_free(y);
  ls_free(x);
  return status;
}

static ls_status_t compare_common(ls_ctx_t *ctx, const json_t *a, const json_t *b, double margin,
                                  ls_bench_pairs_t *pairs) {
  const json_t *v;
  size_t i;
  json_array_foreach(json_object_get(a, "variants"), i, v) {
    const char *name = ls_bench_word(v, "name");
    const json_t *other = ls_bench_variant(b, name);
    if (json_object_get(v, "failed") || !other || json_object_get(other, "failed")) continue;
    ls_status_t status = compare_pair(ctx, a, b, name, name, margin, pairs);
    if (status != LS_OK) return status;
  }
  if (pairs->count > 0) return LS_OK;
  return ls_fail(ctx, LS_ERR_NOT_FOUND,
                 "A and B have no variant in common; name them with --variant-a and --variant-b");
}

/* Says what makes a comparison doubtful before printing it. */
static void warn(ls_ctx_t *ctx, const json_t *a, const json_t *b) {
  const json_t *x = json_object_get(a, "machine_fingerprint"), *y = json_object_get(b, "machine_fingerprint");
  if (x && y && !json_equal(x, y)) ls_log(ctx, LS_LOG_WARN, "A and B were measured on different machines");
  if (json_is_true(json_object_get(a, "void")) || json_is_true(json_object_get(b, "void")))
    ls_log(ctx, LS_LOG_WARN, "a run is void: a clock or heat limit acted while it was measured");
  if (json_object_get(a, "incomplete") || json_object_get(b, "incomplete"))
    ls_log(ctx, LS_LOG_WARN, "a run is incomplete: measuring it ended early");
  static const char *const same[] = {"method.steps", "method.warmup_steps"};
  for (int i = 0; i < LS_COUNT(same); i++) {
    double of_a = ls_bench_number(a, same[i]), of_b = ls_bench_number(b, same[i]); /* NANs where not said */
    if (of_a < of_b || of_a > of_b)
      ls_log(ctx, LS_LOG_WARN, "A and B differ in %s: %g and %g", same[i], of_a, of_b);
  }
}

ls_status_t ls_bench_compare_documents(ls_ctx_t *ctx, const json_t *a, const json_t *b, const char *name_a,
                                       const char *name_b, double margin, ls_bench_pairs_t *pairs) {
  *pairs = (ls_bench_pairs_t){.count = 0};
  pairs->pair = ls_alloc_array(ctx, json_array_size(json_object_get(a, "variants")), sizeof *pairs->pair);
  if (!pairs->pair) return LS_ERR_MEMORY;
  warn(ctx, a, b);
  if (!name_a && !name_b) return compare_common(ctx, a, b, margin, pairs);
  return compare_pair(ctx, a, b, name_a ? name_a : name_b, name_b ? name_b : name_a, margin, pairs);
}

json_t *ls_bench_pairs_json(const ls_bench_pairs_t *pairs) {
  json_t *document = json_pack("{s:s}", "command", "compare");
  if (ls_record_put(document, &pairs_record, pairs)) return document;
  json_decref(document);
  return NULL;
}
