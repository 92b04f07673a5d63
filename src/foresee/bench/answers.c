/* The answers of a document as sentences: do more ranks pay, by how much, how sure is it? One sentence for each verdict of
 * the same ranks and network. Terminal and reports show the same sentences. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 64, SHOWN_CASES = 3, RANKS_BYTES = 160 };

static const char *verdict_of(const json_t *v) {
  return ls_bench_word(v, "against_reference.verdict");
}

static const json_t *reference_of(const json_t *document, const json_t *v) {
  return ls_bench_variant(document, ls_bench_word(v, "scaling.reference"));
}

static bool same(const json_t *a, const json_t *b, const char *key) {
  return !strcmp(ls_bench_word(a, key), ls_bench_word(b, key));
}

static double ranks_of(const json_t *v) {
  return ls_bench_number(v, "ranks");
}

/* "2 ranks"; with what tells series of so many ranks apart: "2 ranks (ddp, peer access on)". */
static void ranks_text(const json_t *document, const json_t *v, char buf[RANKS_BYTES]) {
  const json_t *other;
  size_t i;
  const char *rest = strstr(ls_bench_word(v, "series"), " x ");
  bool apart = false;
  json_array_foreach(json_object_get(document, "variants"), i, other) {
    if (ranks_of(other) == ranks_of(v) && !same(other, v, "series")) apart = rest != NULL;
  }
  snprintf(buf, RANKS_BYTES, "%.0f rank%s%s%.100s%s", ranks_of(v), ranks_of(v) == 1 ? "" : "s",
           apart ? " (" : "", apart ? rest + 3 : "", apart ? ")" : "");
}

/* Comparisons that one sentence tells: the first one and those like it. */
typedef struct {
  const json_t *document, *of[CASES_MAX];
  int count;
  bool weak;
} cases_t;

static cases_t cases_like(const json_t *document, const json_t *first) {
  cases_t c = {.document = document, .weak = !strcmp(ls_bench_word(first, "scaling.kind"), "weak")};
  const json_t *v;
  size_t i;
  json_array_foreach(json_object_get(document, "variants"), i, v) {
    if (c.count < CASES_MAX && json_object_get(v, "scaling") && same(v, first, "series") &&
        same(v, first, "model") && same(v, first, "against_reference.verdict") &&
        ranks_of(reference_of(document, v)) == ranks_of(reference_of(document, first)))
      c.of[c.count++] = v;
  }
  return c;
}

/* "at global batches of 16 and 1024" */
static void keys_text(FILE *to, const cases_t *c, int from, int count) {
  fprintf(to, "at %s%s%s%s of ", count > 1 ? "" : "a ", c->weak ? "batch" : "global batch",
          count > 1 ? "es" : "", c->weak ? " per rank" : "");
  for (int i = 0; i < count; i++)
    fprintf(to, "%s%.0f", ls_text_between(i, count), ls_bench_number(c->of[from + i], "key"));
}

/* "1.41x (1.28 to 1.56) at a global batch of 1024", each for itself; the range where there are many. */
static void figures(FILE *to, const cases_t *c) {
  double low = INFINITY, high = -INFINITY;
  for (int i = 0; i < c->count && c->count <= SHOWN_CASES; i++) {
    fprintf(to, "%s%s ", i > 0 ? ", " : "", ls_bench_speedup_text(c->of[i]).s);
    keys_text(to, c, i, 1);
  }
  for (int i = 0; i < c->count; i++) {
    low = fmin(low, ls_bench_number(c->of[i], "scaling.speedup"));
    high = fmax(high, ls_bench_number(c->of[i], "scaling.speedup"));
  }
  if (c->count <= SHOWN_CASES) return;
  fprintf(to, "%s to %s ", ls_text_ratio(low, NAN, NAN).s, ls_text_ratio(high, NAN, NAN).s);
  keys_text(to, c, 0, c->count);
}

/* Names a verdict that depends on outliers. */
static void without_outliers(FILE *to, const cases_t *c) {
  for (int i = 0; i < c->count; i++) {
    const char *kept = ls_bench_word(c->of[i], "against_reference_without_outliers.verdict");
    if (!*kept || !strcmp(kept, verdict_of(c->of[i]))) continue;
    fputs(" Without outliers the verdict ", to);
    keys_text(to, c, i, 1);
    fprintf(to, " is \"%s\".", kept);
  }
}

/* Says what a reader cannot see in the figures. */
static void remark(FILE *to, const cases_t *c, ls_bench_verdict_t verdict) {
  double fewest = INFINITY;
  for (int i = 0; i < c->count; i++)
    fewest = fmin(fewest, ls_bench_number(c->of[i], "step_time_us.count"));
  fputs(". ", to);
  if (verdict == LS_BENCH_EQUIVALENT)
    fprintf(to, "The difference is below %g %%.",
            ls_bench_number(c->of[0], "against_reference.margin_percent"));
  else if (fewest < 2)
    fputs("One repetition has no interval; more are needed.", to);
  else
    fprintf(to, "%.0f repetitions spread too much to tell; more are needed.", fewest);
}

static void sentence(FILE *to, const cases_t *c, ls_bench_verdict_t verdict) {
  const char *busy = ls_bench_busy(c->document) ? " (measured on a busy machine)" : "";
  char ranks[RANKS_BYTES], than[RANKS_BYTES];
  const json_t *first = c->of[0], *model = json_object_get(first, "model");
  const json_t *reference = reference_of(c->document, first);
  const bool one = ranks_of(first) == 1;
  ranks_text(c->document, first, ranks);
  ranks_text(c->document, reference, than);
  if (model) fprintf(to, "%s: ", json_string_value(model));
  if (verdict == LS_BENCH_FASTER)
    fprintf(to, "**%s pay%s**%s: ", ranks, one ? "s" : "", busy);
  else if (verdict == LS_BENCH_SLOWER)
    fprintf(to, "**%s %s faster**%s: %s reach%s only ", than, ranks_of(reference) == 1 ? "is" : "are", busy,
            ranks, one ? "es" : "");
  else if (verdict == LS_BENCH_EQUIVALENT)
    fprintf(to, "**%s make%s no difference**%s: ", ranks, one ? "s" : "", busy);
  else
    fprintf(to, "**Not decided** whether %s pay%s%s: ", ranks, one ? "s" : "", busy);
  figures(to, c);
  if (verdict == LS_BENCH_FASTER || verdict == LS_BENCH_SLOWER)
    fputc('.', to);
  else
    remark(to, c, verdict);
  without_outliers(to, c);
}

static void add(json_t *answers, const char *verdict, const char *format, ...) LS_PRINTF(3, 4);
static void add(json_t *answers, const char *verdict, const char *format, ...) {
  va_list args;
  va_start(args, format);
  json_t *text = json_vsprintf(format, args);
  va_end(args);
  if (text) json_array_append_new(answers, json_pack("{s:s, s:o}", "verdict", verdict, "text", text));
}

/* One sentence for all comparisons like `first`, when it is the first of them. */
static void add_cases(json_t *answers, const json_t *d, const json_t *first, ls_bench_verdict_t verdict) {
  cases_t c = cases_like(d, first);
  char *text = NULL;
  size_t size_bytes = 0;
  if (c.count == 0 || c.of[0] != first) return;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return;
  sentence(to, &c, verdict);
  if (fclose(to) == 0) add(answers, ls_bench_verdict_word(verdict), "%s", text);
  free(text);
}

/* Reasons to doubt every number. */
static void add_warnings(json_t *answers, const json_t *d) {
  const json_t *variants = json_object_get(d, "variants"), *v, *reason;
  size_t i;
  if (json_object_get(d, "incomplete"))
    add(answers, "warning",
        "**Incomplete**: measuring ended early, only the complete rounds before are here: %s",
        ls_bench_word(d, "incomplete"));
  if (json_is_true(json_object_get(d, "void")))
    json_array_foreach(json_object_get(d, "void_reasons"), i, reason)
        add(answers, "warning", "**The run is void**: %s.",
            json_string_value(reason) ? json_string_value(reason) : "unknown");
  if (ls_bench_busy(d))
    add(answers, "warning",
        "**The machine was busy** before it was measured (load %.1f on %.0f processors): times may be too "
        "long "
        "and spread. Measure again when it is idle.",
        ls_bench_number(d, "run.load_before"), ls_bench_number(d, "run.processors"));
  json_array_foreach(variants, i, v) {
    const json_t *validation = json_object_get(v, "validation");
    if (!validation) continue;
    const char *verdict = ls_bench_validation_verdict(validation);
    if (!strncmp(verdict, "NOT", 3))
      add(answers, "warning", "**%s**: %s trains something else than one rank.", verdict,
          ls_bench_word(v, "name"));
  }
}

/* Without a comparison the measured time is the answer. */
static void add_plain(json_t *answers, const json_t *variants) {
  const json_t *v, *first = NULL;
  size_t i, measured = 0;
  json_array_foreach(variants, i, v) {
    if (json_object_get(v, "failed")) continue;
    if (!first) first = v;
    measured++;
  }
  if (measured == 0) {
    add(answers, "undecided", "**Nothing was measured.**");
    return;
  }
  double us = ls_bench_number(first, "step_time_us.mean");
  ls_text_unit_t unit = ls_text_unit(us);
  if (measured == 1)
    add(answers, "reference",
        "**%s %s per step**, %s samples/s. One variant was measured, so nothing is compared.",
        ls_text_around(us, ls_bench_number(first, "step_time_us.low"),
                       ls_bench_number(first, "step_time_us.high"), unit.us, "±")
            .s,
        unit.name, ls_text_count(ls_bench_number(first, "samples_per_s.mean"), 0).s);
  else
    add(answers, "reference", "**Nothing is compared**: each batch was measured with one number of ranks.");
}

static json_t *answers_of(const json_t *d) {
  json_t *answers = json_array();
  const json_t *variants = json_object_get(d, "variants"), *v;
  size_t i, failed = 0;
  add_warnings(answers, d);
  size_t warnings = json_array_size(answers);
  for (ls_bench_verdict_t k = LS_BENCH_FASTER; k <= LS_BENCH_UNDECIDED; k++)
    json_array_foreach(variants, i, v) {
      if (json_object_get(v, "scaling") && !strcmp(verdict_of(v), ls_bench_verdict_word(k)))
        add_cases(answers, d, v, k);
    }
  if (json_array_size(answers) == warnings) add_plain(answers, variants);
  json_array_foreach(variants, i, v) failed += json_object_get(v, "failed") != NULL;
  if (failed > 0)
    add(answers, "undecided", "**Not measured**: %zu variant%s; the reason stands below the table.", failed,
        LS_PLURAL(failed));
  return answers;
}

static void set_interval(json_t *variant) {
  json_t *scaling = json_object_get(variant, "scaling");
  double low, high;
  if (!json_is_object(scaling)) return;
  ls_bench_speedup_interval(variant, &low, &high);
  json_object_set_new(scaling, "interval_low", ls_json_number(low));
  json_object_set_new(scaling, "interval_high", ls_json_number(high));
}

void ls_bench_conclude(json_t *document) {
  json_t *variant;
  size_t i;
  json_array_foreach(json_object_get(document, "variants"), i, variant) {
    json_t *validation = json_object_get(variant, "validation");
    if (json_is_object(validation))
      json_object_set_new(validation, "verdict", json_string(ls_bench_validation_verdict(validation)));
    set_interval(variant);
  }
  json_object_set_new(document, "answers", answers_of(document));
}
