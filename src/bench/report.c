/* The report of a document, from its answer down to its details, and its title. */
#include "bench/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED = 4, NUMBERS_MAX = 64 };

static int compare_numbers(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The different values of a member, ascending. */
static int distinct(const json_t *variants, const char *key, double values[NUMBERS_MAX]) {
  const json_t *v;
  size_t i;
  int count = 0;
  json_array_foreach(variants, i, v) {
    double value = ls_bench_number(v, key);
    bool known = !isfinite(value);
    for (int k = 0; k < count && !known; k++)
      known = values[k] == value;
    if (!known && count < NUMBERS_MAX) values[count++] = value;
  }
  qsort(values, (size_t)count, sizeof *values, compare_numbers);
  return count;
}

/* "batches 16 and 1024", "batch 64", "batches 8 to 128". */
static void title_numbers(FILE *to, const char *one, const char *many, const json_t *variants,
                          const char *key, bool unit_first) {
  double values[NUMBERS_MAX];
  int count = distinct(variants, key, values);
  const char *unit = count == 1 && (unit_first || values[0] == 1) ? one : many;
  char list[96];
  if (count == 0) return;
  if (count <= LISTED)
    snprintf(list, sizeof list, "%s", ls_text_list(values, count).s);
  else
    snprintf(list, sizeof list, "%.0f to %.0f", values[0], values[count - 1]);
  if (unit_first)
    fprintf(to, ", %s %s", unit, list);
  else
    fprintf(to, ", %s %s", list, unit);
}

/* The networks of a sweep; else the configuration's, else the configuration's name. */
static void title_networks(FILE *to, const json_t *d) {
  const json_t *variants = json_object_get(d, "variants"), *v;
  const char *network = ls_report_word(json_object_get(d, "run"), "network"),
             *config = ls_report_word(d, "config");
  json_t *models = json_object();
  const char *name;
  json_t *value;
  size_t i, n = 0;
  json_array_foreach(variants, i, v) {
    const char *model = ls_report_word(v, "model");
    if (*model) json_object_set_new(models, model, json_true());
  }
  size_t count = json_object_size(models);
  if (count == 0) {
    const char *slash = strrchr(config, '/');
    fputs(*network ? network : slash ? slash + 1 : config, to);
  } else if (count > LISTED) {
    fprintf(to, "%zu networks", count);
  } else {
    json_object_foreach(models, name, value) fprintf(to, "%s%s",
                                                     n == 0           ? ""
                                                     : n + 1 == count ? " and "
                                                                      : ", ",
                                                     name),
        n++;
  }
  json_decref(models);
}

char *ls_report_title(const json_t *d) {
  const json_t *variants = json_object_get(d, "variants");
  char *text = NULL;
  size_t size_bytes = 0;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return NULL;
  bool weak = json_is_true(json_object_get(json_object_get(d, "method"), "weak"));
  title_networks(to, d);
  title_numbers(to, weak ? "batch per rank" : "batch", weak ? "batches per rank" : "batches", variants, "key",
                true);
  title_numbers(to, "rank", "ranks", variants, "ranks", false);
  if (fclose(to) == 0) return text;
  free(text);
  return NULL;
}

static void charts_of_results(json_t *report, const json_t *variants) {
  ls_report_chart(report, "Speed-up over the reference",
                  "How many times as fast as the reference, which stands at the dashed line.",
                  ls_chart_speedup, variants);
  ls_report_chart(report, "Step time", "Mean of a step over all repetitions; less is better.",
                  ls_chart_step_time, variants);
}

json_t *ls_report_build(const json_t *d) {
  json_t *report = json_array();
  const json_t *variants = json_object_get(d, "variants");
  json_array_append_new(report, json_pack("{s:s, s:o}", "kind", "answers", "items", ls_bench_answers(d)));
  ls_report_facts(report, d);
  ls_report_heading(report, 2, "Results");
  ls_report_results(report, d);
  charts_of_results(report, variants);
  ls_report_study(report, d);
  ls_report_heading(report, 2, "Where a step's time goes");
  ls_report_parts(report, d);
  ls_report_collectives(report, d);
  ls_report_heading(report, 2, "Memory");
  ls_report_memory(report, d);
  ls_report_heading(report, 2, "Do several ranks train the same network?");
  ls_report_validation(report, d);
  ls_report_details(report, d);
  ls_report_trust(report, d);
  ls_report_tidy(report);
  return report;
}
