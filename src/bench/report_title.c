/* "mlp-medium, batches 16 and 1024, 1 and 2 ranks": what a document is about. */
#include "bench/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED = 4, NUMBERS_MAX = 64 };

static int compare_numbers(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* "batches 16 and 1024", "batch 64", "batches 8 to 128": the different values of a member. */
static void title_numbers(FILE *to, const char *one, const char *many, const json_t *variants,
                          const char *key, bool unit_first) {
  double values[NUMBERS_MAX];
  int count = 0;
  const json_t *v;
  size_t i;
  json_array_foreach(variants, i, v) {
    double value = ls_bench_number(v, key);
    bool known = !isfinite(value) || count == NUMBERS_MAX;
    for (int k = 0; k < count && !known; k++)
      known = values[k] == value;
    if (!known) values[count++] = value;
  }
  if (count == 0) return;
  qsort(values, (size_t)count, sizeof *values, compare_numbers);
  const char *unit = count == 1 && (unit_first || values[0] == 1) ? one : many;
  fprintf(to, ", %s%s", unit_first ? unit : "", unit_first ? " " : "");
  for (int k = 0; k < count && count <= LISTED; k++)
    fprintf(to, "%s%.0f", ls_text_between(k, count), values[k]);
  if (count > LISTED) fprintf(to, "%.0f to %.0f", values[0], values[count - 1]);
  if (!unit_first) fprintf(to, " %s", unit);
}

/* The networks of a sweep; else the configuration's, else the configuration's name. */
static void title_networks(FILE *to, const json_t *d) {
  const json_t *variants = json_object_get(d, "variants"), *v;
  const char *network = ls_report_word(d, "run.network"), *config = ls_report_word(d, "config");
  json_t *models = json_object();
  const char *name;
  json_t *value;
  size_t i;
  json_array_foreach(variants, i, v) {
    const char *model = ls_report_word(v, "model");
    if (*model) json_object_set_new(models, model, json_true());
  }
  int count = (int)json_object_size(models), n = 0;
  if (count == 0) {
    const char *slash = strrchr(config, '/');
    fputs(*network ? network : slash ? slash + 1 : config, to);
  } else if (count > LISTED) {
    fprintf(to, "%d networks", count);
  } else {
    json_object_foreach(models, name, value) fprintf(to, "%s%s", ls_text_between(n++, count), name);
  }
  json_decref(models);
}

void ls_report_title(FILE *to, const json_t *d) {
  const json_t *variants = json_object_get(d, "variants");
  bool weak = json_is_true(ls_bench_at(d, "method.weak"));
  title_networks(to, d);
  title_numbers(to, weak ? "batch per rank" : "batch", weak ? "batches per rank" : "batches", variants, "key",
                true);
  title_numbers(to, "rank", "ranks", variants, "ranks", false);
}
