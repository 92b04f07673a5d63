/* Student's t and the standard normal: probabilities and quantiles, to nearly full precision even far out. */
#include "stat/stat.h"

#include <float.h>
#include <math.h>

enum { FRACTION_TERMS_MAX = 100000, BISECTIONS_MAX = 2200, HALLEY_STEPS = 3 };

/* Continued fraction of the incomplete beta function (DLMF 8.17.22) by the modified Lentz algorithm (Thompson
 * and Barnett 1986). Converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x) {
  const double tiny = DBL_MIN / DBL_EPSILON;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (fabs(d) < tiny ? tiny : d);
  double result = d;
  for (int m = 1; m < FRACTION_TERMS_MAX; m++) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    for (int half = 0; half < 2; half++) {
      double term = half ? odd : even;
      d = 1 + term * d;
      c = 1 + term / c;
      d = 1 / (fabs(d) < tiny ? tiny : d);
      if (fabs(c) < tiny) c = tiny;
      result *= c * d;
    }
    if (fabs(c * d - 1) < DBL_EPSILON) break;
  }
  return result;
}

/* Regularised incomplete beta function I_x(a, b). The caller passes y = 1 - x too, so that neither end loses
 * digits. */
static double beta_regularised(double a, double b, double x, double y) {
  if (x <= 0) return 0;
  if (y <= 0) return 1;
  double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, y) / b; /* DLMF 8.17.4 */
}

/* P(T > t) for t >= 0: half of I_x(df / 2, 1 / 2) at x = df / (df + t^2) (Abramowitz and
 * Stegun 26.7.1, 26.5.27). */
static double t_tail(double t, double df) {
  if (isinf(t)) return 0;
  double square = t * t;
  if (isinf(square)) return 0;
  return 0.5 * beta_regularised(0.5 * df, 0.5, df / (df + square), square / (df + square));
}

double ls_stat_t_cdf(double t, double df) {
  return t < 0 ? t_tail(-t, df) : 1 - t_tail(t, df);
}

double ls_stat_t_two_sided(double t, double df) {
  return 2 * t_tail(fabs(t), df);
}

/* The tail falls steadily, so bisection ends at neighbouring numbers for any df. */
double ls_stat_t_quantile(double p, double df) {
  if (p == 0.5) return 0;
  double tail = p < 0.5 ? p : 1 - p, low = 0, high = 1;
  while (t_tail(high, df) > tail && high < DBL_MAX / 4) {
    low = high;
    high *= 2;
  }
  for (int i = 0; i < BISECTIONS_MAX; i++) {
    double middle = low + 0.5 * (high - low);
    if (middle <= low || middle >= high) break;
    if (t_tail(middle, df) > tail)
      low = middle;
    else
      high = middle;
  }
  return p < 0.5 ? -high : high;
}

double ls_stat_normal_cdf(double z) {
  return 0.5 * erfc(-z * 0.70710678118654752440);
}

/* First guess: Abramowitz and Stegun 26.2.23 (error below 4.5e-4); then Halley's method on the exact tail. */
double ls_stat_normal_quantile(double p) {
  if (p == 0.5) return 0;
  double tail = p < 0.5 ? p : 1 - p, s = sqrt(-2 * log(tail));
  double z =
      s - (2.515517 + s * (0.802853 + s * 0.010328)) / (1 + s * (1.432788 + s * (0.189269 + s * 0.001308)));
  for (int i = 0; i < HALLEY_STEPS; i++) {
    double density = 0.39894228040143267794 * exp(-0.5 * z * z); /* 1 / sqrt(2 pi) */
    double step = (ls_stat_normal_cdf(-z) - tail) / density;     /* Newton's */
    z += step / (1 - 0.5 * z * step);
  }
  return p < 0.5 ? -z : z;
}
