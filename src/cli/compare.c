/* lockstep compare A B: two benchmark documents, or two variants of them, against each other. */
#include "bench/bench.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { COMPARE_VARIANT_A, COMPARE_VARIANT_B, COMPARE_MARGIN, COMPARE_FLAG_COUNT };

static const cli_extra_t flags[] = {
    [COMPARE_VARIANT_A] = {"--variant-a", "NAME", "Variant of A (default: each that B has too)."},
    [COMPARE_VARIANT_B] = {"--variant-b", "NAME", "Variant of B (default: --variant-a)."},
    [COMPARE_MARGIN] = {"--margin", "PERCENT", "Differences below this count as equivalent (default 5).",
                        CLI_SHARE(5)},
    [COMPARE_FLAG_COUNT] = {NULL, NULL, NULL}};

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

/* One comparison: names borrowed from the documents. */
typedef struct {
  const char *a, *b;
  double a_us, b_us;
  ls_bench_comparison_t all, kept;
} pair_t;
typedef struct {
  int count;
  pair_t *pair;
} pairs_t;
static const ls_field_t pair_rows[] = {
    LS_FIELD(pair_t, a),
    LS_FIELD(pair_t, b),
    LS_FIELD_AS(pair_t, a_us, "a_step_time_us"),
    LS_FIELD_AS(pair_t, b_us, "b_step_time_us"),
    LS_FIELD_AS(pair_t, all, "all", .record = &ls_bench_comparison_record),
    LS_FIELD_AS(pair_t, kept, "without_outliers", .record = &ls_bench_comparison_record),
};
static const ls_record_t pair_record = LS_RECORD(pair_rows);
static const ls_field_t pair_each = LS_FIELD_EACH(pair_t, pair_record);
static const ls_field_t pairs_rows[] = {LS_FIELD_OF(pairs_t, pair, LS_FIELD_LIST_AT, "comparisons",
                                                    .each = &pair_each,
                                                    .count_offset = offsetof(pairs_t, count))};
static const ls_record_t pairs_record = LS_RECORD(pairs_rows);

static ls_status_t compare_pair(ls_ctx_t *ctx, const json_t *a, const json_t *b, const char *name_a,
                                const char *name_b, double margin, pairs_t *pairs) {
  pair_t *p = &pairs->pair[pairs->count];
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
                                  pairs_t *pairs) {
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

static void print_pair(const pair_t *p) {
  static const char *const words[] = {[LS_BENCH_FASTER] = "A is faster",
                                      [LS_BENCH_SLOWER] = "A is slower",
                                      [LS_BENCH_EQUIVALENT] = "equivalent",
                                      [LS_BENCH_UNDECIDED] = "undecided: more repetitions are needed"};
  const ls_bench_comparison_t *c = &p->all, *kept = &p->kept;
  const ls_welch_t *w = &c->welch;
  bool other = c->verdict != kept->verdict;
  cli_print("A: %s: %.1f us per step\nB: %s: %.1f us per step\n", p->a, p->a_us, p->b, p->b_us);
  cli_print("  A - B: %+.2f us (95 %% from %+.2f to %+.2f), %+.2f %% (from %+.2f to %+.2f) of B\n",
            w->difference, w->interval.low, w->interval.high, c->difference_percent, c->low_percent,
            c->high_percent);
  cli_print("  Welch p %.3g (without outliers %.3g), equivalence within %g %%: p %.3g (%.3g)\n", w->p,
            kept->welch.p, c->margin_percent, c->equivalence_p, kept->equivalence_p);
  cli_print("  verdict: %s%s%s%s\n", words[c->verdict], other ? " (without outliers: " : "",
            other ? ls_bench_verdict_word(kept->verdict) : "", other ? ")" : "");
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

static void publish(const cli_args_t *args, const pairs_t *pairs) {
  if (args->json) {
    json_t *document = json_pack("{s:s}", "command", "compare");
    cli_print_json(ls_record_put(document, &pairs_record, pairs) ? document : NULL);
    return;
  }
  for (int i = 0; i < pairs->count; i++)
    print_pair(&pairs->pair[i]);
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  json_t *a = NULL, *b = NULL;
  pairs_t pairs = {.count = 0};
  const char *name_a = args->extra[COMPARE_VARIANT_A], *name_b = args->extra[COMPARE_VARIANT_B];
  const double margin = args->percent[COMPARE_MARGIN];
  ls_status_t status = ls_bench_document_read(ctx, args->operand[0], &a);
  if (status == LS_OK) status = ls_bench_document_read(ctx, args->operand[1], &b);
  if (status == LS_OK) {
    size_t most = json_array_size(json_object_get(a, "variants"));
    pairs.pair = ls_alloc_array(ctx, most, sizeof *pairs.pair);
    if (!pairs.pair) status = LS_ERR_MEMORY;
  }
  if (status == LS_OK) {
    warn(ctx, a, b);
    if (name_a || name_b)
      status = compare_pair(ctx, a, b, name_a ? name_a : name_b, name_b ? name_b : name_a, margin, &pairs);
    else
      status = compare_common(ctx, a, b, margin, &pairs);
  }
  if (status == LS_OK) publish(args, &pairs);
  ls_free(pairs.pair);
  json_decref(b);
  json_decref(a);
  return status;
}

static const cli_command_t command = {
    .name = "compare",
    .place = 54,
    .summary = "Compares two benchmarks: difference with interval, tests, verdict.",
    .details =
        "A and B are JSON documents of lockstep bench (the same file twice compares two of its variants).",
    .flags = CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
    .operands = "A B",
    .operand_count = 2,
    .extra = flags,
    .run = run};
CLI_COMMAND(command)
