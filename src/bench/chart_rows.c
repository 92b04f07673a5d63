/* Charts with a row per variant: step time, speed-up, parts of a step, timeline, memory. */
#include "bench/plot.h"
#include "bench/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS_MAX = 16, TIMELINES_MAX = 8 };

static double number(const json_t *v, const char *path) {
  return ls_bench_number(v, path);
}

/* ---- step time ---- */

/* A mean or a prediction with its interval, in a unit. */
typedef struct {
  double value, low, high;
} span_t;

static span_t span_of(const json_t *v, const char *member, const char *value, double unit) {
  const json_t *o = json_object_get(v, member);
  return (span_t){number(o, value) / unit, number(o, "low") / unit, number(o, "high") / unit};
}

void ls_chart_step_time(FILE *to, const json_t *variants) {
  ls_axis_t axis = {.low = NAN, .high = NAN};
  const ls_text_unit_t unit = ls_report_unit(variants);
  const json_t *v;
  size_t i;
  double least = INFINITY;
  bool predicted = false;
  int rows = 0;
  json_array_foreach(variants, i, v) {
    double mean = number(v, "step_time_us.mean") / unit.us;
    rows += isfinite(mean);
    least = fmin(least, mean);
  }
  if (rows < 2) return; /* there is nothing to see that its number does not say */
  json_array_foreach(variants, i, v) {
    const span_t of[] = {span_of(v, "step_time_us", "mean", unit.us),
                         span_of(v, "predicted_step_time_us", "predicted", unit.us)};
    predicted |= isfinite(of[1].value);
    for (int k = 0; k < 2; k++) {
      const double ends[] = {of[k].value, of[k].low, of[k].high};
      for (int e = 0; e < LS_COUNT(ends); e++)
        if (ends[e] > 0.05 * least) ls_axis_widen(&axis, ends[e]);
    }
  }
  ls_axis_round(&axis, true);
  ls_rows_open(to);
  json_array_foreach(variants, i, v) {
    const span_t own = span_of(v, "step_time_us", "mean", unit.us),
                 plan = span_of(v, "predicted_step_time_us", "predicted", unit.us);
    char value[300], about[300];
    if (!isfinite(own.value)) continue;
    snprintf(value, sizeof value, "%s %s", ls_text_around(own.value, own.low, own.high, 1, "±").s, unit.name);
    snprintf(about, sizeof about, "predicted %s %s", ls_text_range(plan.value, plan.low, plan.high).s,
             unit.name);
    ls_rows_begin(to, &axis, ls_report_word(v, "name"));
    ls_rows_point(to, &axis, own.value, own.low, own.high, "c0", value);
    ls_rows_diamond(to, &axis, plan.value, plan.low, plan.high, about);
    ls_rows_end(to, value);
  }
  char name[48];
  snprintf(name, sizeof name, "step time, %s", unit.name);
  ls_rows_close(to, &axis, name);
  ls_legend_open(to);
  ls_legend_entry(to, LS_KEY_POINT, "c0", "measured: mean and its 95 % interval");
  if (predicted)
    ls_legend_entry(to, LS_KEY_DIAMOND, "hollow", "predicted by lockstep plan, with its 90 % interval");
  ls_legend_close(to);
}

/* ---- speed-up ---- */

static const char *const verdicts[] = {"undecided", "faster", "slower", "equivalent"};

static int verdict_of(const json_t *v) {
  const char *verdict = ls_report_word(v, "against_reference.verdict");
  for (int k = 0; k < LS_COUNT(verdicts); k++)
    if (!strcmp(verdict, verdicts[k])) return k;
  return 0;
}

void ls_chart_speedup(FILE *to, const json_t *variants) {
  ls_axis_t axis = {.low = 1, .high = 1};
  const json_t *v;
  size_t i;
  bool any = false, seen[LS_COUNT(verdicts)] = {false};
  double speedup, low, high, most = 0;
  json_array_foreach(variants, i, v) {
    speedup = number(v, "scaling.speedup");
    if (!isfinite(speedup)) continue;
    any = true;
    most = fmax(most, speedup);
    ls_axis_widen(&axis, speedup);
  }
  if (!any) return;
  json_array_foreach(variants, i, v) { /* an interval without an end does not stretch the axis */
    ls_bench_speedup_interval(v, &low, &high);
    if (low > 0) ls_axis_widen(&axis, low);
    ls_axis_widen(&axis, high < 3 * most ? high : NAN);
  }
  ls_axis_round(&axis, true);
  ls_rows_open(to);
  json_array_foreach(variants, i, v) {
    if (!isfinite(speedup = number(v, "scaling.speedup"))) continue;
    ls_bench_speedup_interval(v, &low, &high);
    ls_rows_begin(to, &axis, ls_report_word(v, "name"));
    fprintf(to, "<line class=\"one\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"100%%\"/>",
            ls_axis_percent(&axis, 1), ls_axis_percent(&axis, 1));
    ls_rows_point(to, &axis, speedup, low, high, verdicts[verdict_of(v)], ls_bench_speedup_text(v).s);
    ls_rows_end(to, ls_bench_speedup_text(v).s);
    seen[verdict_of(v)] = true;
  }
  ls_rows_close(to, &axis, "speed-up");
  ls_legend_open(to);
  for (int k = 0; k < LS_COUNT(verdicts); k++)
    if (seen[k]) ls_legend_entry(to, LS_KEY_POINT, verdicts[k], verdicts[k]);
  ls_legend_entry(to, LS_KEY_DASH, "one", "the reference (1x)");
  ls_legend_close(to);
}

/* ---- stacked bars ---- */

/* Names of pieces in the order of their colours; those of a step are the same in every chart. */
typedef struct {
  const char *name[KINDS_MAX];
  bool seen[KINDS_MAX];
  int count;
} kinds_t;
static const kinds_t step_kinds = {
    .name = {"forward", "backward", "optimizer", "exposed_comm", "input", "communication", "rest"},
    .count = 7};

static const char *kind_colour(kinds_t *kinds, const char *name) {
  int at = 0;
  while (at < kinds->count && strcmp(kinds->name[at], name) != 0)
    at++;
  if (at == kinds->count && kinds->count < KINDS_MAX) kinds->name[kinds->count++] = name;
  if (at == KINDS_MAX) at--;
  kinds->seen[at] = true;
  return ls_plot_colour(at);
}

/* "exposed_comm" in words. */
static ls_text_t kind_words(const char *kind) {
  ls_text_t text;
  snprintf(text.s, sizeof text.s, "%s", strcmp(kind, "exposed_comm") ? kind : "exposed communication");
  for (char *c = text.s; *c; c++)
    if (*c == '_') *c = ' ';
  return text;
}

static void kinds_legend(FILE *to, const kinds_t *kinds) {
  ls_legend_open(to);
  for (int k = 0; k < kinds->count; k++)
    if (kinds->seen[k]) ls_legend_entry(to, LS_KEY_BAR, ls_plot_colour(k), kind_words(kinds->name[k]).s);
  ls_legend_close(to);
}

static bool same_batch(const json_t *a, const json_t *b) {
  return json_equal(json_object_get(a, "key"), json_object_get(b, "key")) &&
         !strcmp(ls_report_word(a, "model"), ls_report_word(b, "model"));
}

/* The members of an object of each variant, one after the other: parts of a step, bytes of a device. As
 * shares they are drawn against the largest sum of the same batch, so that small steps can be seen beside
 * large ones. */
typedef struct {
  const char *member, *left_out, *unit;
  bool shares;
  double per;
  ls_text_t (*text)(double sum);
} stack_t;

static double stack_sum(const json_t *v, const stack_t *s) {
  const char *name;
  json_t *value;
  double sum = 0;
  json_object_foreach(json_object_get(v, s->member), name, value) {
    if (strcmp(name, s->left_out) != 0 && json_number_value(value) > 0) sum += json_number_value(value);
  }
  return sum;
}

static double stack_unit(const json_t *variants, const json_t *v, const stack_t *s) {
  const json_t *other;
  size_t i;
  double largest = 0;
  if (!s->shares) return s->per;
  json_array_foreach(variants, i, other) {
    if (same_batch(other, v)) largest = fmax(largest, stack_sum(other, s));
  }
  return largest / 100;
}

static void stack_row(FILE *to, const json_t *v, const stack_t *s, double unit, const ls_axis_t *axis,
                      kinds_t *kinds) {
  const char *name;
  json_t *value;
  double from = 0;
  ls_rows_begin(to, axis, ls_report_word(v, "name"));
  json_object_foreach(json_object_get(v, s->member), name, value) {
    double size = json_number_value(value);
    char about[520];
    if (!strcmp(name, s->left_out) || !(size > 0)) continue;
    snprintf(about, sizeof about, "%s: %s", kind_words(name).s, s->text(size).s);
    ls_rows_bar(to, axis, from / unit, (from + size) / unit, kind_colour(kinds, name), about);
    from += size;
  }
  ls_rows_end(to, s->text(from).s);
}

static void draw_stack(FILE *to, const json_t *variants, const stack_t *s, kinds_t kinds) {
  ls_axis_t axis = {.low = 0, .high = s->shares ? 100 : NAN};
  const json_t *v;
  size_t i;
  double largest = 0;
  json_array_foreach(variants, i, v) largest = fmax(largest, stack_sum(v, s));
  if (!(largest > 0)) return;
  if (!s->shares) {
    axis.high = largest / s->per;
    ls_axis_round(&axis, true);
  }
  ls_rows_open(to);
  json_array_foreach(variants, i, v) {
    if (stack_sum(v, s) > 0) stack_row(to, v, s, stack_unit(variants, v, s), &axis, &kinds);
  }
  ls_rows_close(to, &axis, s->unit);
  kinds_legend(to, &kinds);
}

void ls_chart_parts(FILE *to, const json_t *variants) {
  const stack_t s = {.member = "step_parts_us",
                     .left_out = "",
                     .unit = "% of the longest step of the same batch",
                     .shares = true,
                     .text = ls_text_time};
  draw_stack(to, variants, &s, step_kinds);
}

void ls_chart_memory(FILE *to, const json_t *variants) {
  const stack_t s = {
      .member = "bytes_per_device", .left_out = "total", .unit = "MB", .per = 1e6, .text = ls_text_bytes};
  draw_stack(to, variants, &s, (kinds_t){.count = 0});
}

/* ---- timeline ---- */

static double timeline_end(const json_t *v) {
  const json_t *task;
  size_t i;
  double end = 0;
  json_array_foreach(json_object_get(v, "timeline"), i, task) end = fmax(end, number(task, "end_us"));
  return end;
}

/* A row for each lane, in the order in which they begin. */
static void draw_lanes(FILE *to, const json_t *v, double unit, const ls_axis_t *axis, kinds_t *kinds) {
  const json_t *tasks = json_object_get(v, "timeline"), *task;
  kinds_t lanes = {.count = 0};
  size_t i;
  json_array_foreach(tasks, i, task) kind_colour(&lanes, ls_report_word(task, "lane"));
  for (int lane = 0; lane < lanes.count; lane++) {
    char label[256];
    double busy_us = 0;
    snprintf(label, sizeof label, "%.180s: %.60s", ls_report_word(v, "name"), lanes.name[lane]);
    ls_rows_begin(to, axis, label);
    json_array_foreach(tasks, i, task) {
      double start = number(task, "start_us"), end = number(task, "end_us");
      const char *part = ls_report_word(task, "part");
      char about[520];
      if (strcmp(ls_report_word(task, "lane"), lanes.name[lane]) != 0) continue;
      snprintf(about, sizeof about, "%s: %s", kind_words(part).s, ls_text_time(end - start).s);
      ls_rows_bar(to, axis, start / unit, end / unit, kind_colour(kinds, part), about);
      busy_us += end - start;
    }
    ls_rows_end(to, ls_text_time(busy_us).s);
  }
}

void ls_chart_timeline(FILE *to, const json_t *variants) {
  const ls_axis_t axis = {.low = 0, .high = 100};
  kinds_t kinds = step_kinds;
  const json_t *v, *other;
  size_t i, k, drawn = 0;
  json_array_foreach(variants, i, v) {
    double longest = 0;
    if (!(timeline_end(v) > 0) || drawn == TIMELINES_MAX) continue;
    json_array_foreach(variants, k, other) {
      if (same_batch(other, v)) longest = fmax(longest, timeline_end(other));
    }
    if (drawn++ == 0) ls_rows_open(to);
    draw_lanes(to, v, longest / 100, &axis, &kinds);
  }
  if (drawn == 0) return;
  ls_rows_close(to, &axis, "% of the longest step of the same batch");
  kinds_legend(to, &kinds);
}
