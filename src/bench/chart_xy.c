/* Charts with two axes: every repetition in its round, and the training loss over steps. */
#include "bench/plot.h"
#include "bench/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SERIES_MAX = 16, CURVE_POINTS = 400, PANELS_MAX = 6 };

static const char *series_of(const json_t *v) {
  const char *series = ls_report_word(v, "series");
  return *series ? series : ls_report_word(v, "name");
}

static int series_index(const char *series[SERIES_MAX], int *count, const char *name) {
  for (int i = 0; i < *count; i++)
    if (!strcmp(series[i], name)) return i;
  if (*count == SERIES_MAX) return SERIES_MAX - 1;
  series[*count] = name;
  return (*count)++;
}

static bool is_outlier(const json_t *variant, size_t repetition) {
  const json_t *index;
  size_t i;
  json_array_foreach(json_object_get(variant, "outliers"), i, index) {
    if ((size_t)json_integer_value(index) == repetition) return true;
  }
  return false;
}

static double off_median_percent(const json_t *v, const json_t *repetition) {
  return 100 * ls_bench_number(repetition, "step_time_us.mean") / ls_bench_number(v, "step_time_us.median") -
         100;
}

void ls_chart_repetitions(FILE *to, const json_t *variants) {
  ls_axis_t x = {.low = 0.5, .high = 1, .whole = true}, y = {.low = NAN, .high = NAN};
  const char *series[SERIES_MAX];
  const json_t *v, *r;
  size_t i, k;
  int count = 0;
  bool ringed = false;
  json_array_foreach(variants, i, v) {
    if (json_object_get(v, "failed")) continue;
    json_array_foreach(json_object_get(v, "repetitions"), k, r) ls_axis_widen(&y, off_median_percent(v, r));
    ls_axis_widen(&x, (double)json_array_size(json_object_get(v, "repetitions")));
  }
  if (!isfinite(y.low) || x.high < 2) return; /* one repetition is its own median */
  x.high += 0.5;
  ls_axis_round(&y, false);
  ls_plane_open(to, &x, &y, "repetition", "% from the variant's median");
  json_array_foreach(variants, i, v) {
    if (json_object_get(v, "failed")) continue;
    int own = series_index(series, &count, series_of(v));
    json_array_foreach(json_object_get(v, "repetitions"), k, r) {
      char about[520];
      snprintf(about, sizeof about, "%.160s, repetition %zu: %s", ls_report_word(v, "name"), k + 1,
               ls_text_percent(off_median_percent(v, r), 1, true).s);
      ringed |= is_outlier(v, k);
      /* variants of a round stand beside each other */
      double at = (double)k + 1 + 0.5 * (((double)i + 0.5) / (double)json_array_size(variants) - 0.5);
      ls_plane_point(to, &x, &y, at, off_median_percent(v, r), ls_plot_colour(own), is_outlier(v, k), about);
    }
  }
  ls_plane_close(to);
  ls_legend_open(to);
  for (int n = 0; n < count; n++)
    ls_legend_entry(to, LS_KEY_DOT, ls_plot_colour(n), series[n]);
  if (ringed) {
    char text[128];
    snprintf(text, sizeof text, "outlier: modified z-score above %.1f", LS_BENCH_OUTLIER_LIMIT);
    ls_legend_entry(to, LS_KEY_RING, "c6", text);
  }
  ls_legend_close(to);
}

/* ---- loss ---- */

static const json_t *losses_of(const json_t *v) {
  return json_object_get(json_object_get(v, "curves"), "loss");
}

static bool same_panel(const json_t *a, const json_t *b) {
  return json_equal(json_object_get(a, "key"), json_object_get(b, "key")) &&
         !strcmp(ls_report_word(a, "model"), ls_report_word(b, "model")) &&
         !strcmp(ls_report_word(a, "precision"), ls_report_word(b, "precision"));
}

/* One variant's curve; of a long one every n-th step. */
static void draw_curve(FILE *to, const json_t *losses, const ls_axis_t *x, const ls_axis_t *y, int index) {
  double at[CURVE_POINTS], values[CURVE_POINTS];
  size_t size = json_array_size(losses), every = (size + CURVE_POINTS - 1) / CURVE_POINTS;
  int count = 0;
  for (size_t i = 0; i < size; i += every) {
    const json_t *loss = json_array_get(losses, i);
    at[count] = (double)i + 1;
    values[count++] = json_is_number(loss) ? json_number_value(loss) : NAN;
  }
  ls_plane_line(to, x, y, at, values, count, ls_plot_colour(index), index > 0);
}

/* The variants that should train alike (same batch, network, precision) in one plane. */
static void draw_panel(FILE *to, const json_t *variants, const json_t *first) {
  ls_axis_t x = {.low = 1, .high = 2, .whole = true}, y = {.low = NAN, .high = NAN};
  const json_t *v, *loss;
  size_t i, k;
  int drawn = 0;
  json_array_foreach(variants, i, v) {
    if (!same_panel(v, first)) continue;
    ls_axis_widen(&x, (double)json_array_size(losses_of(v)));
    json_array_foreach(losses_of(v), k, loss) ls_axis_widen(&y, json_number_value(loss));
  }
  if (!isfinite(y.low)) return;
  ls_axis_round(&y, y.low > 0 && y.high / y.low > 20);
  const char *model = ls_report_word(first, "model");
  char name[96];
  snprintf(name, sizeof name, "loss, %.40s%sbatch %.0f", model, *model ? ", " : "",
           ls_bench_number(first, "key"));
  fputs("<div class=\"panel\">", to);
  ls_plane_open(to, &x, &y, "step", name);
  json_array_foreach(variants, i, v) {
    if (same_panel(v, first) && losses_of(v)) draw_curve(to, losses_of(v), &x, &y, drawn++);
  }
  ls_plane_close(to);
  ls_legend_open(to);
  drawn = 0;
  json_array_foreach(variants, i, v) {
    char classes[32];
    if (!same_panel(v, first) || !losses_of(v)) continue;
    snprintf(classes, sizeof classes, "%s%s", ls_plot_colour(drawn), drawn > 0 ? " thin" : "");
    ls_legend_entry(to, LS_KEY_LINE, classes, series_of(v));
    drawn++;
  }
  ls_legend_close(to);
  fputs("</div>\n", to);
}

void ls_chart_curves(FILE *to, const json_t *variants) {
  const json_t *v, *other;
  size_t i, k;
  int panels = 0;
  bool any = false;
  json_array_foreach(variants, i, v) any |= losses_of(v) != NULL;
  if (!any) return;
  fputs("<div class=\"panels\">\n", to);
  json_array_foreach(variants, i, v) {
    bool first = losses_of(v) != NULL && panels < PANELS_MAX;
    for (k = 0; k < i && first; k++) {
      other = json_array_get(variants, k);
      first = !losses_of(other) || !same_panel(other, v);
    }
    if (first) draw_panel(to, variants, v), panels++;
  }
  fputs("</div>\n", to);
}
