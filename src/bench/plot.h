/* Inside the bench module: plots as inline SVG whose text keeps its size at any width. Places along an axis
 * are percentages, so that a plot fills what it is given; only heights are pixels.
 *
 * Two frames: rows (a label, a strip, a value; one row per variant) and a plane (x and y). Colours are
 * classes (c0 .. c9, and a verdict's name) that html_style.c gives a value for light and dark. */
#ifndef LS_BENCH_PLOT_H
#define LS_BENCH_PLOT_H

#include "bench/bench.h"
#include "bench/text.h"

enum { LS_PLOT_COLOURS = 10, LS_PLOT_TICKS_MAX = 16 };

/* low and high are NAN until something widens it. */
typedef struct {
  double low, high;
  bool log, whole; /* whole: no ticks between whole numbers */
} ls_axis_t;
void ls_axis_widen(ls_axis_t *axis, double value);   /* NAN and infinities are left out */
void ls_axis_round(ls_axis_t *axis, bool from_zero); /* room at the ends; logarithmic beyond a factor of 12 */
double ls_axis_percent(const ls_axis_t *axis, double v); /* 0 .. 100, clamped */
/* Round numbers; at most LS_PLOT_TICKS_MAX. Returns how many. */
int ls_axis_ticks(const ls_axis_t *axis, double ticks[LS_PLOT_TICKS_MAX]);

/* ---- rows ---- */
void ls_rows_open(FILE *to);
/* Opens a row's strip, with the axis' grid lines; marks follow, then ls_rows_end with the value as text. */
void ls_rows_begin(FILE *to, const ls_axis_t *axis, const char *label);
void ls_rows_end(FILE *to, const char *value);
/* The axis' numbers below the rows, and what they are ("step time, us"). */
void ls_rows_close(FILE *to, const ls_axis_t *axis, const char *unit);
/* Marks: a point with an interval (NAN: none), a hollow diamond with one, a piece of a bar. `about` is shown
 * by a pointer that rests on it. */
void ls_rows_point(FILE *to, const ls_axis_t *axis, double value, double low, double high, const char *colour,
                   const char *about);
void ls_rows_diamond(FILE *to, const ls_axis_t *axis, double value, double low, double high,
                     const char *about);
void ls_rows_bar(FILE *to, const ls_axis_t *axis, double from, double until, const char *colour,
                 const char *about);

/* ---- plane ---- */
void ls_plane_open(FILE *to, const ls_axis_t *x, const ls_axis_t *y, const char *x_name, const char *y_name);
void ls_plane_point(FILE *to, const ls_axis_t *x, const ls_axis_t *y, double at, double value,
                    const char *colour, bool ringed, const char *about);
/* A line through `count` points; `thin` where it may lie on another. */
void ls_plane_line(FILE *to, const ls_axis_t *x, const ls_axis_t *y, const double *at, const double *values,
                   int count, const char *colour, bool thin);
void ls_plane_close(FILE *to);

/* ---- legend: one entry per kind of mark ---- */
typedef enum {
  LS_KEY_POINT,
  LS_KEY_DOT,
  LS_KEY_DIAMOND,
  LS_KEY_BAR,
  LS_KEY_RING,
  LS_KEY_LINE,
  LS_KEY_DASH
} ls_key_t;
void ls_legend_open(FILE *to);
void ls_legend_entry(FILE *to, ls_key_t key, const char *colour, const char *text);
void ls_legend_close(FILE *to);

const char *ls_plot_colour(int index); /* "c0" .. "c9" */

#endif
