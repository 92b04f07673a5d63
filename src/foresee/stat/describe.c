/* Location and spread of a sample. */
#include "stat/stat.h"

#include <math.h>
#include <stdlib.h>

double ls_stat_mean(const double *x, int64_t n) {
  if (n < 1) return NAN;
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += x[i];
  return sum / (double)n;
}

/* Corrected two-pass algorithm (Chan, Golub and LeVeque 1983, equation 1.7). */
double ls_stat_sd(const double *x, int64_t n) {
  if (n < 2) return NAN;
  double mean = ls_stat_mean(x, n), squares = 0, rest = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = x[i] - mean;
    squares += d * d;
    rest += d;
  }
  return sqrt((squares - rest * rest / (double)n) / (double)(n - 1));
}

double ls_stat_quantile(const double *sorted, int64_t n, double q) {
  if (n < 1) return NAN;
  double place = q * (double)(n - 1);
  int64_t low = (int64_t)place, high = low + 1 < n ? low + 1 : low;
  return sorted[low] + (place - (double)low) * (sorted[high] - sorted[low]);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void ls_stat_sort(double *x, int64_t n) {
  if (n > 1) qsort(x, (size_t)n, sizeof *x, ascending);
}

double ls_stat_median(double *x, int64_t n) {
  ls_stat_sort(x, n);
  return ls_stat_quantile(x, n, 0.5);
}

double ls_stat_mad(double *x, int64_t n) {
  double median = ls_stat_median(x, n);
  for (int64_t i = 0; i < n; i++)
    x[i] = fabs(x[i] - median);
  return ls_stat_median(x, n);
}

double ls_stat_correlation(const double *x, const double *y, int64_t n) {
  if (n < 2) return NAN;
  double mx = ls_stat_mean(x, n), my = ls_stat_mean(y, n), xx = 0, yy = 0, xy = 0;
  for (int64_t i = 0; i < n; i++) {
    double dx = x[i] - mx, dy = y[i] - my;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  return xy / (sqrt(xx) * sqrt(yy));
}
