/* What a reader wants to know first, as sentences: do more ranks pay, by how much, how sure is it? One
 * sentence for each way that comparisons of the same ranks (and network) ended; everything comes from the
 * document. Tables on the terminal and the report tool read the same. */
#include "bench/bench.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 64, SHOWN_CASES = 3 };

static const char *const verdicts[] = {"faster", "slower", "equivalent", "undecided"};

static const char *verdict_of(const json_t *v) {
  return ls_bench_word(v, "against_reference.verdict");
}

static const json_t *reference_of(const json_t *document, const json_t *v) {
  return ls_bench_variant(document, ls_bench_word(v, "scaling.reference"));
}

/* "two ranks"; with what else tells series of so many ranks apart: "two ranks (ddp, peer access on)". */
static void ranks_text(const json_t *document, const json_t *v, char buf[160]) {
  const json_t *other;
  size_t i;
  double ranks = ls_bench_number(v, "ranks");
  const char *series = ls_bench_word(v, "series"), *rest = strstr(series, " x ");
  bool told_apart = false;
  json_array_foreach(json_object_get(document, "variants"), i, other) {
    if (ls_bench_number(other, "ranks") == ranks && strcmp(ls_bench_word(other, "series"), series) != 0)
      told_apart = rest != NULL;
  }
  int len = snprintf(buf, 160, "%.32s rank%s", ls_text_number_word(ranks).s, LS_PLURAL(ranks));
  if (told_apart) snprintf(buf + len, 160 - (size_t)len, " (%.100s)", rest + 3);
}

static bool same(const json_t *a, const json_t *b, const char *key) {
  return !strcmp(ls_bench_word(a, key), ls_bench_word(b, key));
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
  double reference_ranks = ls_bench_number(reference_of(document, first), "ranks");
  json_array_foreach(json_object_get(document, "variants"), i, v) {
    if (c.count < CASES_MAX && json_object_get(v, "scaling") && same(v, first, "series") &&
        same(v, first, "model") && same(v, first, "against_reference.verdict") &&
        ls_bench_number(reference_of(document, v), "ranks") == reference_ranks)
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
  if (c->count <= SHOWN_CASES) {
    for (int i = 0; i < c->count; i++) {
      fprintf(to, "%s%s ", i > 0 ? ", " : "", ls_bench_speedup_text(c->of[i]).s);
      keys_text(to, c, i, 1);
    }
    return;
  }
  for (int i = 0; i < c->count; i++) {
    double ratio = ls_bench_number(c->of[i], "scaling.speedup");
    low = fmin(low, ratio);
    high = fmax(high, ratio);
  }
  fprintf(to, "%s to %s ", ls_text_ratio(low, NAN, NAN).s, ls_text_ratio(high, NAN, NAN).s);
  keys_text(to, c, 0, c->count);
}

/* Verdicts that hang on the outliers are named. */
static void without_outliers(FILE *to, const cases_t *c) {
  for (int i = 0; i < c->count; i++) {
    const char *kept = ls_bench_word(c->of[i], "against_reference_without_outliers.verdict");
    if (!*kept || !strcmp(kept, verdict_of(c->of[i]))) continue;
    fputs(" Without outliers the verdict ", to);
    keys_text(to, c, i, 1);
    fprintf(to, " is \"%s\".", kept);
  }
}

static void capital(char *text) {
  text[0] = (char)toupper((unsigned char)text[0]);
}

static void undecided_reason(FILE *to, const cases_t *c) {
  double fewest = INFINITY;
  for (int i = 0; i < c->count; i++)
    fewest = fmin(fewest, ls_bench_number(c->of[i], "step_time_us.count"));
  ls_text_t number = ls_text_number_word(fewest);
  capital(number.s);
  if (fewest < 2)
    fputs(". One repetition has no interval; more are needed.", to);
  else
    fprintf(to, ". %s repetitions spread too much to tell; more are needed.", number.s);
}

static void sentence(FILE *to, const cases_t *c, const char *verdict) {
  const char *busy = ls_bench_busy(c->document) ? " (measured on a busy machine)" : "";
  char ranks[160], reference[160];
  const json_t *first = c->of[0], *model = json_object_get(first, "model");
  const json_t *other = reference_of(c->document, first);
  ranks_text(c->document, first, ranks);
  ranks_text(c->document, other, reference);
  bool plural = ls_bench_number(other, "ranks") != 1;
  if (model) fprintf(to, "%s: ", json_string_value(model));
  if (!strcmp(verdict, "faster")) {
    capital(ranks);
    fprintf(to, "**%s pay%s**%s: ", ranks, ls_bench_number(first, "ranks") == 1 ? "s" : "", busy);
    figures(to, c);
    fputc('.', to);
  } else if (!strcmp(verdict, "slower")) {
    capital(reference);
    fprintf(to, "**%s %s faster**%s: %s reach%s only ", reference, plural ? "are" : "is", busy, ranks,
            ls_bench_number(first, "ranks") == 1 ? "es" : "");
    figures(to, c);
    fputc('.', to);
  } else if (!strcmp(verdict, "equivalent")) {
    capital(ranks);
    fprintf(to, "**%s make%s no difference**%s: ", ranks, ls_bench_number(first, "ranks") == 1 ? "s" : "",
            busy);
    figures(to, c);
    fprintf(to, ". The difference is below %g %%.",
            ls_bench_number(first, "against_reference.margin_percent"));
  } else {
    fprintf(to, "**Not decided** whether %s pay%s%s: ", ranks,
            ls_bench_number(first, "ranks") == 1 ? "s" : "", busy);
    figures(to, c);
    undecided_reason(to, c);
  }
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
static void add_cases(json_t *answers, const json_t *d, const json_t *first, const char *verdict) {
  cases_t c = cases_like(d, first);
  char *text = NULL;
  size_t size_bytes = 0;
  if (c.count == 0 || c.of[0] != first) return;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return;
  sentence(to, &c, verdict);
  if (fclose(to) == 0) add(answers, verdict, "%s", text);
  free(text);
}

/* What takes the ground from under all numbers. */
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
        "**The machine was busy** before it was measured (load %.1f on %.0f processors): times may be "
        "too long "
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

/* Nothing is compared: what was measured is said instead. */
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
  for (int k = 0; k < LS_COUNT(verdicts); k++)
    json_array_foreach(variants, i, v) {
      if (json_object_get(v, "scaling") && !strcmp(verdict_of(v), verdicts[k]))
        add_cases(answers, d, v, verdicts[k]);
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
