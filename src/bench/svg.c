/* Plots as inline SVG: numbers from the document, nothing from outside. One group on the x axis per key
 * (batch), one colour per series (ranks x strategy). */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

enum {
  WIDTH = 860,
  HEIGHT = 320,
  LEFT = 80,
  RIGHT = 20,
  TOP = 16,
  BOTTOM = 56,
  SERIES_MAX = 16,
  KEYS_MAX = 64,
  TICKS = 5,
  TICKS_MAX = 24
};

/* Okabe and Ito's palette: told apart by most kinds of colour vision. */
static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                      "#E69F00", "#56B4E9", "#999999", "#000000"};

typedef struct {
  const char *series[SERIES_MAX];
  double keys[KEYS_MAX];
  int series_count, key_count;
  double low, high; /* of the y axis */
  bool log;
} axes_t;

static const char *series_of(const json_t *v) {
  const char *text = json_string_value(json_object_get(v, "series"));
  return text ? text : json_string_value(json_object_get(v, "name"));
}

static void escape(FILE *to, const char *text) {
  for (; text && *text; text++) {
    if (*text == '<')
      fputs("&lt;", to);
    else if (*text == '>')
      fputs("&gt;", to);
    else if (*text == '&')
      fputs("&amp;", to);
    else if (*text == '"')
      fputs("&quot;", to);
    else
      fputc(*text, to);
  }
}

static int series_index(axes_t *a, const char *name) {
  for (int i = 0; i < a->series_count; i++)
    if (!strcmp(a->series[i], name)) return i;
  if (a->series_count == SERIES_MAX) return SERIES_MAX - 1;
  a->series[a->series_count] = name;
  return a->series_count++;
}

static int key_index(axes_t *a, double key) {
  for (int i = 0; i < a->key_count; i++)
    if (a->keys[i] == key) return i;
  if (a->key_count == KEYS_MAX) return KEYS_MAX - 1;
  a->keys[a->key_count] = key;
  return a->key_count++;
}

static void widen(axes_t *a, double value) {
  if (!isfinite(value)) return;
  if (!(a->low <= value)) a->low = value;
  if (!(a->high >= value)) a->high = value;
}

static axes_t axes_for(const json_t *variants, const char *const *paths, int path_count) {
  axes_t a = {.low = NAN, .high = NAN};
  const json_t *v;
  size_t i;
  json_array_foreach(variants, i, v) {
    if (json_object_get(v, "failed")) continue;
    series_index(&a, series_of(v));
    key_index(&a, ls_bench_number(v, "key"));
    for (int k = 0; k < path_count; k++)
      widen(&a, ls_bench_number(v, paths[k]));
  }
  return a;
}

static double y_of(const axes_t *a, double value) {
  double part = a->log ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
  return HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP);
}

static double x_of(const axes_t *a, int key, int series) {
  double group = (double)(WIDTH - LEFT - RIGHT) / (a->key_count > 0 ? a->key_count : 1);
  return LEFT + group * (key + 0.5) +
         (series - 0.5 * (a->series_count - 1)) * group / (a->series_count + 1.5);
}

/* Round numbers, about TICKS of them: 1, 2 or 5 times a power of ten apart. */
static int ticks_linear(const axes_t *a, double *ticks) {
  double raw = (a->high - a->low) / TICKS, power = pow(10, floor(log10(raw))), step = 10 * power;
  int count = 0;
  if (raw <= 5 * power) step = 5 * power;
  if (raw <= 2 * power) step = 2 * power;
  if (raw <= power) step = power;
  for (double k = ceil(a->low / step); k * step <= a->high && count < TICKS_MAX; k++)
    ticks[count++] = k * step;
  return count;
}

/* 1, 2, 5, 10, .. ; only the powers of ten where that would be too many. */
static int ticks_log(const axes_t *a, double *ticks) {
  static const double digits[] = {1, 2, 5};
  int count = 0, each = a->high / a->low > 2e4 ? 1 : LS_COUNT(digits);
  for (double power = pow(10, floor(log10(a->low))); power <= a->high; power *= 10)
    for (int i = 0; i < each; i++)
      if (digits[i] * power >= a->low && digits[i] * power <= a->high && count < TICKS_MAX)
        ticks[count++] = digits[i] * power;
  return count;
}

static void open_svg(FILE *to, const char *title, const axes_t *a, const char *unit) {
  fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n<title>%s</title>\n", WIDTH,
          HEIGHT, title, title);
  double ticks[TICKS_MAX];
  int count = a->log ? ticks_log(a, ticks) : ticks_linear(a, ticks);
  for (int i = 0; i < count; i++) {
    double y = y_of(a, ticks[i]);
    fprintf(to,
            "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"tick\" x=\"%d\" "
            "y=\"%.1f\" "
            "text-anchor=\"end\">%.6g</text>\n",
            LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, fabs(ticks[i]) < 1e-9 * a->high ? 0 : ticks[i]);
  }
  fprintf(
      to,
      "<text class=\"tick\" transform=\"translate(16,%d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
      (HEIGHT - BOTTOM + TOP) / 2, unit);
  for (int k = 0; k < a->key_count; k++)
    fprintf(to, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">batch %g</text>\n",
            LEFT + (double)(WIDTH - LEFT - RIGHT) / a->key_count * (k + 0.5), HEIGHT - BOTTOM + 18,
            a->keys[k]);
}

static void legend(FILE *to, const axes_t *a) {
  double x = LEFT;
  for (int i = 0; i < a->series_count; i++) {
    fprintf(to,
            "<circle cx=\"%.1f\" cy=\"%d\" r=\"5\" fill=\"%s\"/><text class=\"tick\" x=\"%.1f\" y=\"%d\">",
            x + 5, HEIGHT - 16, colours[i % LS_COUNT(colours)], x + 14, HEIGHT - 12);
    escape(to, a->series[i]);
    fputs("</text>\n", to);
    x += 26 + 7.5 * (double)strlen(a->series[i]);
  }
}

/* A mark with its interval; an unknown interval leaves the mark alone. */
static void mark(FILE *to, const axes_t *a, double x, double value, double low, double high, int series,
                 const char *name) {
  const char *colour = colours[series % LS_COUNT(colours)];
  if (!isfinite(value)) return;
  if (isfinite(low) && isfinite(high))
    fprintf(to, "<path d=\"M%.1f %.1fV%.1fM%.1f %.1fh8M%.1f %.1fh8\" stroke=\"%s\" stroke-width=\"2\"/>", x,
            y_of(a, low), y_of(a, high), x - 4, y_of(a, low), x - 4, y_of(a, high), colour);
  fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" fill=\"%s\"><title>", x, y_of(a, value), colour);
  escape(to, name);
  fprintf(to, ": %.4g (%.4g to %.4g)</title></circle>\n", value, low, high);
}

/* What a plan said: a hollow diamond, and a thin line over its 90 % interval. */
static void predicted_mark(FILE *to, const axes_t *a, double x, const json_t *variant) {
  double us = ls_bench_number(variant, "predicted_step_time_us.predicted"),
         low = ls_bench_number(variant, "predicted_step_time_us.low"),
         high = ls_bench_number(variant, "predicted_step_time_us.high");
  if (!isfinite(us) || us <= 0) return;
  if (isfinite(low) && isfinite(high))
    fprintf(to, "<path class=\"predicted\" d=\"M%.1f %.1fV%.1f\"/>", x, y_of(a, low > a->low ? low : a->low),
            y_of(a, high));
  fprintf(to,
          "<path class=\"predicted\" d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"><title>predicted %.4g us (%.4g to "
          "%.4g)</title></path>\n",
          x, y_of(a, us) - 5, us, low, high);
}

void ls_bench_svg_step_time(FILE *to, const json_t *document) {
  static const char *const paths[] = {"step_time_us.mean",          "step_time_us.low",
                                      "step_time_us.high",          "predicted_step_time_us.predicted",
                                      "predicted_step_time_us.low", "predicted_step_time_us.high"};
  const json_t *variants = json_object_get(document, "variants"), *v;
  axes_t a = axes_for(variants, paths, LS_COUNT(paths));
  size_t i;
  if (!(a.high > 0)) return;
  a.log = a.low > 0 && a.high / a.low > 8;
  a.low = a.log ? a.low / 1.2 : 0;
  a.high *= a.log ? 1.2 : 1.05;
  open_svg(to, "Step time with 95 % interval", &a, a.log ? "step time (us, log)" : "step time (us)");
  json_array_foreach(variants, i, v) {
    if (json_object_get(v, "failed")) continue;
    int series = series_index(&a, series_of(v));
    double x = x_of(&a, key_index(&a, ls_bench_number(v, "key")), series);
    double low = ls_bench_number(v, "step_time_us.low");
    mark(to, &a, x, ls_bench_number(v, "step_time_us.mean"), low > a.low ? low : a.low,
         ls_bench_number(v, "step_time_us.high"), series, series_of(v));
    predicted_mark(to, &a, x + 7, v);
  }
  legend(to, &a);
  fputs("</svg>\n", to);
}

void ls_bench_svg_speedup(FILE *to, const json_t *document) {
  static const char *const paths[] = {"scaling.speedup", "scaling.speedup_low", "scaling.speedup_high"};
  const json_t *variants = json_object_get(document, "variants"), *v;
  axes_t a = axes_for(variants, paths, LS_COUNT(paths));
  size_t i;
  if (!(a.high > 0)) return;
  a.low = 0;
  widen(&a, 1);
  a.high *= 1.1;
  open_svg(to, "Speed-up over the reference with 95 % interval", &a, "speed-up");
  fprintf(to, "<line class=\"one\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n", LEFT, WIDTH - RIGHT,
          y_of(&a, 1), y_of(&a, 1));
  json_array_foreach(variants, i, v) {
    if (!json_object_get(v, "scaling")) continue;
    int series = series_index(&a, series_of(v));
    mark(to, &a, x_of(&a, key_index(&a, ls_bench_number(v, "key")), series), ls_bench_number(v, paths[0]),
         ls_bench_number(v, paths[1]), ls_bench_number(v, paths[2]), series, series_of(v));
  }
  legend(to, &a);
  fputs("</svg>\n", to);
}

static bool is_outlier(const json_t *variant, size_t repetition) {
  const json_t *index;
  size_t i;
  json_array_foreach(json_object_get(variant, "outliers"), i, index) {
    if ((size_t)json_integer_value(index) == repetition) return true;
  }
  return false;
}

void ls_bench_svg_repetitions(FILE *to, const json_t *document) {
  const json_t *variants = json_object_get(document, "variants"), *v, *r;
  axes_t a = axes_for(variants, NULL, 0);
  size_t i, k, rounds = 1;
  json_array_foreach(variants, i, v) {
    double median = ls_bench_number(v, "step_time_us.median");
    const json_t *repetitions = json_object_get(v, "repetitions");
    if (json_array_size(repetitions) > rounds) rounds = json_array_size(repetitions);
    json_array_foreach(repetitions, k, r)
        widen(&a, 100 * ls_bench_number(r, "step_time_us.mean") / median - 100);
  }
  if (!isfinite(a.low)) return;
  double room = 0.05 * (a.high - a.low) + 0.1;
  a.low -= room;
  a.high += room;
  a.key_count = 0; /* the x axis shows rounds, not keys */
  open_svg(to, "Every repetition, against its variant's median", &a, "% from the median");
  json_array_foreach(variants, i, v) {
    if (json_object_get(v, "failed")) continue;
    int series = series_index(&a, series_of(v));
    double median = ls_bench_number(v, "step_time_us.median");
    json_array_foreach(json_object_get(v, "repetitions"), k, r) {
      double x = LEFT + ((double)k + 0.5) * (WIDTH - LEFT - RIGHT) / (double)rounds;
      fprintf(to, "<circle%s cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\" fill-opacity=\"0.7\"/>\n",
              is_outlier(v, k) ? " class=\"outlier\"" : "", x,
              y_of(&a, 100 * ls_bench_number(r, "step_time_us.mean") / median - 100),
              colours[series % LS_COUNT(colours)]);
    }
  }
  fprintf(to, "<text class=\"tick\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">round</text>\n", WIDTH / 2,
          HEIGHT - BOTTOM + 18);
  legend(to, &a);
  fputs("</svg>\n", to);
}
