/* lockstep compare A B: two benchmark documents, or two variants of them, against each other. */
#include "bench/bench.h"
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COMPARE_VARIANT_A, COMPARE_VARIANT_B, COMPARE_MARGIN, COMPARE_FLAG_COUNT };

static const cli_extra_t flags[] = {
    [COMPARE_VARIANT_A] = {"--variant-a", "NAME", "Variant of A (default: each that B has too)."},
    [COMPARE_VARIANT_B] = {"--variant-b", "NAME", "Variant of B (default: --variant-a)."},
    [COMPARE_MARGIN] = {"--margin", "PERCENT", "Differences below this do not matter (default 5)."},
    [COMPARE_FLAG_COUNT] = {NULL, NULL, NULL}};

static const json_t *find_variant(const json_t *document, const char *name) {
  const json_t *v;
  size_t i;
  json_array_foreach(json_object_get(document, "variants"), i, v) {
    if (!strcmp(json_string_value(json_object_get(v, "name")), name)) return v;
  }
  return NULL;
}

/* Steps with different work take different times: if both documents state their work and it differs, a
 * message says so. */
static void warn_pair(ls_ctx_t *ctx, const json_t *a, const json_t *b, const char *name_a,
                      const char *name_b) {
  static const char *const keys[] = {"global_batch", "model", "params", "precision"};
  const json_t *of_a = find_variant(a, name_a), *of_b = find_variant(b, name_b);
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

static ls_status_t compare_pair(ls_ctx_t *ctx, const json_t *a, const json_t *b, const char *name_a,
                                const char *name_b, double margin, json_t *rows) {
  double *x = NULL, *y = NULL;
  int64_t n, m;
  const char *found_a, *found_b;
  ls_bench_comparison_t c, kept;
  ls_status_t status = ls_bench_document_series(ctx, a, name_a, &found_a, &x, &n);
  if (status == LS_OK) status = ls_bench_document_series(ctx, b, name_b, &found_b, &y, &m);
  double mean_a = status == LS_OK ? ls_stat_mean(x, n) : NAN,
         mean_b = status == LS_OK ? ls_stat_mean(y, m) : NAN;
  if (status == LS_OK) status = ls_bench_compare_both(ctx, x, n, y, m, margin, &c, &kept);
  if (status == LS_OK) {
    warn_pair(ctx, a, b, found_a, found_b);
    json_array_append_new(rows, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "a", found_a, "b", found_b,
                                          "a_step_time_us", ls_json_number(mean_a), "b_step_time_us",
                                          ls_json_number(mean_b), "all", ls_bench_comparison_json(&c),
                                          "without_outliers", ls_bench_comparison_json(&kept)));
  }
  ls_free(y);
  ls_free(x);
  return status;
}

static bool has_variant(const json_t *document, const char *name) {
  const json_t *v = find_variant(document, name);
  return v && !json_object_get(v, "failed");
}

static ls_status_t compare_common(ls_ctx_t *ctx, const json_t *a, const json_t *b, double margin,
                                  json_t *rows) {
  const json_t *v;
  size_t i;
  json_array_foreach(json_object_get(a, "variants"), i, v) {
    const char *name = json_string_value(json_object_get(v, "name"));
    if (json_object_get(v, "failed") || !has_variant(b, name)) continue;
    ls_status_t status = compare_pair(ctx, a, b, name, name, margin, rows);
    if (status != LS_OK) return status;
  }
  if (json_array_size(rows) > 0) return LS_OK;
  return ls_fail(ctx, LS_ERR_NOT_FOUND,
                 "A and B have no variant in common; name them with --variant-a and --variant-b");
}

static void print_rows(const json_t *rows) {
  const json_t *row;
  size_t i;
  json_array_foreach(rows, i, row) {
    const json_t *c = json_object_get(row, "all"), *kept = json_object_get(row, "without_outliers");
    const char *a = json_string_value(json_object_get(row, "a")),
               *b = json_string_value(json_object_get(row, "b"));
    cli_print("A: %s: %.1f us per step\nB: %s: %.1f us per step\n", a, ls_bench_number(row, "a_step_time_us"),
              b, ls_bench_number(row, "b_step_time_us"));
    cli_print("  A - B: %+.2f us (95 %% from %+.2f to %+.2f), %+.2f %% (from %+.2f to %+.2f) of B\n",
              ls_bench_number(c, "difference_us"), ls_bench_number(c, "difference_low_us"),
              ls_bench_number(c, "difference_high_us"), ls_bench_number(c, "difference_percent"),
              ls_bench_number(c, "difference_low_percent"), ls_bench_number(c, "difference_high_percent"));
    cli_print("  Welch p %.3g (without outliers %.3g), equivalence within %g %%: p %.3g (%.3g)\n",
              ls_bench_number(c, "welch_p"), ls_bench_number(kept, "welch_p"),
              ls_bench_number(c, "margin_percent"), ls_bench_number(c, "equivalence_p"),
              ls_bench_number(kept, "equivalence_p"));
    const char *verdict = json_string_value(json_object_get(c, "verdict"));
    const char *other = json_string_value(json_object_get(kept, "verdict"));
    cli_print("  verdict: %s%s%s%s\n",
              !strcmp(verdict, "faster")       ? "A is faster"
              : !strcmp(verdict, "slower")     ? "A is slower"
              : !strcmp(verdict, "equivalent") ? "equivalent"
                                               : "undecided: more repetitions are needed",
              strcmp(verdict, other) ? " (without outliers: " : "", strcmp(verdict, other) ? other : "",
              strcmp(verdict, other) ? ")" : "");
  }
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

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  json_t *a = NULL, *b = NULL, *rows = json_array();
  const char *name_a = args->extra[COMPARE_VARIANT_A], *name_b = args->extra[COMPARE_VARIANT_B];
  const char *text = args->extra[COMPARE_MARGIN];
  char *end = NULL;
  double margin = text ? strtod(text, &end) : 5;
  ls_status_t status = LS_OK;
  if (text && (*end || end == text || !(margin > 0 && margin < 100)))
    status = ls_fail(ctx, LS_ERR_ARGUMENT, "--margin takes a number between 0 and 100, not \"%s\"", text);
  if (status == LS_OK) status = ls_bench_document_read(ctx, args->operand[0], &a);
  if (status == LS_OK) status = ls_bench_document_read(ctx, args->operand[1], &b);
  if (status == LS_OK) {
    warn(ctx, a, b);
    if (name_a || name_b)
      status = compare_pair(ctx, a, b, name_a ? name_a : name_b, name_b ? name_b : name_a, margin, rows);
    else
      status = compare_common(ctx, a, b, margin, rows);
  }
  if (status == LS_OK && args->json)
    cli_print_json(json_pack("{s:s, s:O}", "command", "compare", "comparisons", rows));
  else if (status == LS_OK)
    print_rows(rows);
  json_decref(rows);
  json_decref(b);
  json_decref(a);
  return status;
}

const cli_command_t cli_compare = {
    .name = "compare",
    .summary = "Compares two benchmarks: difference with interval, tests, verdict.",
    .details =
        "A and B are JSON documents of lockstep bench (the same file twice compares two of its variants).",
    .flags = CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
    .operands = "A B",
    .operand_count = 2,
    .extra = flags,
    .run = run};
