/* Axes, rows, planes and legends of plots. */
#include "bench/plot.h"
#include "bench/report.h"

#include <math.h>
#include <string.h>

enum { TICKS = 5, ROW_MIDDLE = 12, LOG_FROM = 12 };

const char *ls_plot_colour(int index) {
  static const char *const names[LS_PLOT_COLOURS] = {"c0", "c1", "c2", "c3", "c4",
                                                     "c5", "c6", "c7", "c8", "c9"};
  return names[index % LS_PLOT_COLOURS];
}

/* ---- axes ---- */

void ls_axis_widen(ls_axis_t *axis, double value) {
  if (!isfinite(value)) return;
  if (!(axis->low <= value)) axis->low = value;
  if (!(axis->high >= value)) axis->high = value;
}

void ls_axis_round(ls_axis_t *axis, bool from_zero) {
  if (!isfinite(axis->low)) *axis = (ls_axis_t){.low = 0, .high = 1};
  axis->log = from_zero && axis->low > 0 && axis->high / axis->low > LOG_FROM;
  if (axis->log) {
    axis->low /= 1.3;
    axis->high *= 1.3;
    return;
  }
  if (from_zero && axis->low > 0) axis->low = 0;
  double room = 0.04 * (axis->high - axis->low);
  if (!(room > 0)) room = axis->high != 0 ? 0.5 * fabs(axis->high) : 1;
  if (!from_zero || axis->low < 0) axis->low -= room;
  axis->high += room;
}

double ls_axis_percent(const ls_axis_t *a, double v) {
  if (a->log && !(v > 0)) return 0;
  double part = a->log ? log(v / a->low) / log(a->high / a->low) : (v - a->low) / (a->high - a->low);
  return part < 0 ? 0 : part > 1 ? 100 : 100 * part;
}

static int ticks_linear(const ls_axis_t *a, double *ticks) {
  double raw = (a->high - a->low) / TICKS, power = pow(10, floor(log10(raw))), step = 10 * power;
  int count = 0;
  if (raw <= 5 * power) step = 5 * power;
  if (raw <= 2 * power) step = 2 * power;
  if (raw <= power) step = power;
  if (a->whole && step < 1) step = 1;
  for (double k = ceil(a->low / step); k * step <= a->high && count < LS_PLOT_TICKS_MAX; k++)
    ticks[count++] = k * step;
  return count;
}

/* 1, 2, 5, 10, ..; only powers of ten where those would be many. */
static int ticks_log(const ls_axis_t *a, double *ticks) {
  static const double digits[] = {1, 2, 5};
  int count = 0, each = a->high / a->low > 300 ? 1 : LS_COUNT(digits);
  for (double power = pow(10, floor(log10(a->low))); power <= a->high; power *= 10)
    for (int i = 0; i < each; i++)
      if (digits[i] * power >= a->low && digits[i] * power <= a->high && count < LS_PLOT_TICKS_MAX)
        ticks[count++] = digits[i] * power;
  return count;
}

int ls_axis_ticks(const ls_axis_t *axis, double ticks[LS_PLOT_TICKS_MAX]) {
  return axis->log ? ticks_log(axis, ticks) : ticks_linear(axis, ticks);
}

static void tick_text(FILE *to, const ls_axis_t *axis, double tick) {
  bool zero = fabs(tick) < 1e-9 * (fabs(axis->high) + fabs(axis->low));
  if (zero)
    fputc('0', to);
  else if (fabs(tick) >= 1000 && fabs(tick) < 1e7)
    fputs(ls_text_count(tick, 0).s, to);
  else
    fprintf(to, "%.6g", tick);
}

static void about_text(FILE *to, const char *about) {
  fputs("<title>", to);
  ls_html_escape(to, about, strlen(about));
  fputs("</title>", to);
}

/* ---- rows ---- */

void ls_rows_open(FILE *to) {
  fputs("<div class=\"rows\">\n", to);
}

static void grid_x(FILE *to, const ls_axis_t *axis) {
  double ticks[LS_PLOT_TICKS_MAX];
  int count = ls_axis_ticks(axis, ticks);
  for (int i = 0; i < count; i++) {
    double x = ls_axis_percent(axis, ticks[i]);
    fprintf(to, "<line class=\"grid\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"100%%\"/>", x, x);
  }
}

void ls_rows_begin(FILE *to, const ls_axis_t *axis, const char *label) {
  fputs("<div class=\"row\"><span class=\"label\">", to);
  ls_html_escape(to, label, strlen(label));
  fputs("</span><svg class=\"strip\" role=\"img\">", to);
  about_text(to, label);
  grid_x(to, axis);
}

void ls_rows_end(FILE *to, const char *value) {
  fputs("</svg><span class=\"value\">", to);
  ls_html_escape(to, value, strlen(value));
  fputs("</span></div>\n", to);
}

/* Numbers along the bottom; where there are many, every second one only where there is room. */
static void axis_x(FILE *to, const ls_axis_t *axis, const char *y) {
  double ticks[LS_PLOT_TICKS_MAX];
  int count = ls_axis_ticks(axis, ticks);
  for (int i = 0; i < count; i++) {
    fprintf(to, "<text%s x=\"%.2f%%\" y=\"%s\" dy=\"16\" text-anchor=\"middle\">",
            count > TICKS && i % 2 == 1 ? " class=\"roomy\"" : "", ls_axis_percent(axis, ticks[i]), y);
    tick_text(to, axis, ticks[i]);
    fputs("</text>", to);
  }
}

void ls_rows_close(FILE *to, const ls_axis_t *axis, const char *unit) {
  fputs("<div class=\"row axis\"><span class=\"label\"></span><svg class=\"strip\" role=\"img\">", to);
  about_text(to, unit);
  axis_x(to, axis, "0");
  fprintf(to,
          "<text class=\"unit\" x=\"50%%\" y=\"34\" text-anchor=\"middle\">%s%s</text></svg><span "
          "class=\"value\"></span></div>\n</div>\n",
          unit, axis->log ? " (logarithmic)" : "");
}

static void whisker(FILE *to, const ls_axis_t *axis, double low, double high, const char *classes, int y) {
  if (isnan(low) || isnan(high)) return;
  double ends[] = {ls_axis_percent(axis, low), ls_axis_percent(axis, high)};
  bool inside[] = {low >= axis->low, high <= axis->high}; /* beyond the scale an interval has no end */
  fprintf(to, "<line class=\"whisker %s\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%d\" y2=\"%d\"/>", classes,
          ends[0], ends[1], y, y);
  for (int i = 0; i < 2; i++)
    if (inside[i])
      fprintf(to, "<line class=\"whisker %s\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%d\" y2=\"%d\"/>", classes,
              ends[i], ends[i], y - 4, y + 4);
}

void ls_rows_point(FILE *to, const ls_axis_t *axis, double value, double low, double high, const char *colour,
                   const char *about) {
  if (!isfinite(value)) return;
  whisker(to, axis, low, high, colour, ROW_MIDDLE);
  fprintf(to, "<circle class=\"%s\" cx=\"%.2f%%\" cy=\"%d\" r=\"5\">", colour, ls_axis_percent(axis, value),
          ROW_MIDDLE);
  about_text(to, about);
  fputs("</circle>", to);
}

void ls_rows_diamond(FILE *to, const ls_axis_t *axis, double value, double low, double high,
                     const char *about) {
  const int y = ROW_MIDDLE + 12;
  if (!isfinite(value)) return;
  whisker(to, axis, low, high, "hollow", y);
  fprintf(to,
          "<svg class=\"at\" x=\"%.2f%%\" y=\"%d\" width=\"1\" height=\"1\"><path class=\"hollow\" d=\"M0 "
          "-5l5 5l-5 5l-5 "
          "-5z\">",
          ls_axis_percent(axis, value), y);
  about_text(to, about);
  fputs("</path></svg>", to);
}

void ls_rows_bar(FILE *to, const ls_axis_t *axis, double from, double until, const char *colour,
                 const char *about) {
  double x = ls_axis_percent(axis, from), width = ls_axis_percent(axis, until) - x;
  if (!(width > 0)) return;
  fprintf(to, "<rect class=\"%s\" x=\"%.3f%%\" y=\"%d\" width=\"%.3f%%\" height=\"18\">", colour, x,
          ROW_MIDDLE - 9, width);
  about_text(to, about);
  fputs("</rect>", to);
}

/* ---- plane ---- */

void ls_plane_open(FILE *to, const ls_axis_t *x, const ls_axis_t *y, const char *x_name, const char *y_name) {
  double ticks[LS_PLOT_TICKS_MAX];
  int count = ls_axis_ticks(y, ticks);
  fputs("<p class=\"axis\">", to);
  ls_html_escape(to, y_name, strlen(y_name));
  fprintf(to, "%s</p>\n<svg class=\"plane\" role=\"img\">", y->log ? " (logarithmic)" : "");
  about_text(to, y_name);
  for (int i = 0; i < count; i++) {
    double at = 100 - ls_axis_percent(y, ticks[i]);
    fprintf(to,
            "<line class=\"grid\" x1=\"0\" x2=\"100%%\" y1=\"%.2f%%\" y2=\"%.2f%%\"/><text x=\"-8\" "
            "y=\"%.2f%%\" dy=\"4\" "
            "text-anchor=\"end\">",
            at, at, at);
    tick_text(to, y, ticks[i]);
    fputs("</text>", to);
  }
  axis_x(to, x, "100%");
  fprintf(to, "<text class=\"unit\" x=\"50%%\" y=\"100%%\" dy=\"34\" text-anchor=\"middle\">%s</text>\n",
          x_name);
}

void ls_plane_point(FILE *to, const ls_axis_t *x, const ls_axis_t *y, double at, double value,
                    const char *colour, bool ringed, const char *about) {
  double cx = ls_axis_percent(x, at), cy = 100 - ls_axis_percent(y, value);
  if (!isfinite(value)) return;
  if (ringed) fprintf(to, "<circle class=\"ring\" cx=\"%.2f%%\" cy=\"%.2f%%\" r=\"7\"/>", cx, cy);
  fprintf(to, "<circle class=\"%s\" cx=\"%.2f%%\" cy=\"%.2f%%\" r=\"3.5\">", colour, cx, cy);
  about_text(to, about);
  fputs("</circle>\n", to);
}

void ls_plane_line(FILE *to, const ls_axis_t *x, const ls_axis_t *y, const double *at, const double *values,
                   int count, const char *colour, bool thin) {
  fprintf(to,
          "<svg class=\"at\" width=\"100%%\" height=\"100%%\" viewBox=\"0 0 100 100\" "
          "preserveAspectRatio=\"none\">"
          "<polyline class=\"line %s%s\" points=\"",
          colour, thin ? " thin" : "");
  for (int i = 0; i < count; i++)
    if (isfinite(values[i]))
      fprintf(to, "%.2f,%.2f ", ls_axis_percent(x, at[i]), 100 - ls_axis_percent(y, values[i]));
  fputs("\"/></svg>\n", to);
}

void ls_plane_close(FILE *to) {
  fputs("</svg>\n", to);
}

/* ---- legend ---- */

void ls_legend_open(FILE *to) {
  fputs("<p class=\"legend\">", to);
}

void ls_legend_entry(FILE *to, ls_key_t key, const char *colour, const char *text) {
  static const char *const marks[] = {
      [LS_KEY_POINT] = "<line class=\"whisker %s\" x1=\"1\" x2=\"23\" y1=\"8\" y2=\"8\"/><circle "
                       "class=\"%s\" cx=\"12\" cy=\"8\" r=\"5\"/>",
      [LS_KEY_DOT] = "<circle class=\"%s %s\" cx=\"12\" cy=\"8\" r=\"4\"/>",
      [LS_KEY_DIAMOND] = "<line class=\"whisker %s\" x1=\"1\" x2=\"23\" y1=\"8\" y2=\"8\"/><path "
                         "class=\"%s\" d=\"M12 3l5 5l-5 5l-5 -5z\"/>",
      [LS_KEY_BAR] = "<rect class=\"%s %s\" x=\"5\" y=\"1\" width=\"14\" height=\"14\"/>",
      [LS_KEY_RING] = "<circle class=\"ring %s\" cx=\"12\" cy=\"8\" r=\"6.5\"/><circle class=\"%s\" "
                      "cx=\"12\" cy=\"8\" r=\"3\"/>",
      [LS_KEY_LINE] = "<line class=\"line %s %s\" x1=\"1\" x2=\"23\" y1=\"8\" y2=\"8\"/>",
      [LS_KEY_DASH] = "<line class=\"%s %s\" x1=\"1\" x2=\"23\" y1=\"8\" y2=\"8\"/>"};
  fputs("<span class=\"key\"><svg width=\"24\" height=\"16\" role=\"img\"><title>mark</title>", to);
  const char *at = marks[key];
  for (const char *next; (next = strstr(at, "%s")); at = next + 2)
    fprintf(to, "%.*s%s", (int)(next - at), at, colour);
  fprintf(to, "%s</svg>", at);
  ls_html_escape(to, text, strlen(text));
  fputs("</span> ", to);
}

void ls_legend_close(FILE *to) {
  fputs("</p>\n", to);
}
