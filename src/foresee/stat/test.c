/* Intervals of a mean and of a difference, Welch's test and the test of equivalence. */
#include "stat/stat.h"

#include <math.h>

ls_interval_t ls_stat_mean_interval(const double *x, int64_t n, double confidence) {
  if (n < 2) return (ls_interval_t){NAN, NAN};
  double mean = ls_stat_mean(x, n), df = (double)(n - 1);
  double half = ls_stat_t_quantile(0.5 + 0.5 * confidence, df) * ls_stat_sd(x, n) / sqrt((double)n);
  return (ls_interval_t){mean - half, mean + half};
}

/* Standard error of mean a - mean b with unequal variances, and its degrees of freedom (Welch 1947;
 * Satterthwaite 1946). Two constant samples have no error; any df is right then. */
static double welch_error(const double *a, int64_t na, const double *b, int64_t nb, double *df) {
  double sa = ls_stat_sd(a, na), sb = ls_stat_sd(b, nb);
  double va = sa * sa / (double)na, vb = sb * sb / (double)nb, sum = va + vb;
  *df =
      sum > 0 ? sum * sum / (va * va / (double)(na - 1) + vb * vb / (double)(nb - 1)) : (double)(na + nb - 2);
  return sqrt(sum);
}

ls_welch_t ls_stat_welch(const double *a, int64_t na, const double *b, int64_t nb, double alpha) {
  ls_welch_t w = {NAN, NAN, NAN, NAN, {NAN, NAN}};
  if (na < 2 || nb < 2) return w;
  double error = welch_error(a, na, b, nb, &w.df);
  w.difference = ls_stat_mean(a, na) - ls_stat_mean(b, nb);
  if (error > 0)
    w.t = w.difference / error;
  else
    w.t = w.difference == 0 ? 0 : copysign(INFINITY, w.difference);
  w.p = ls_stat_t_two_sided(w.t, w.df);
  double half = error > 0 ? ls_stat_t_quantile(1 - 0.5 * alpha, w.df) * error : 0;
  w.interval = (ls_interval_t){w.difference - half, w.difference + half};
  return w;
}

double ls_stat_equivalence(const double *a, int64_t na, const double *b, int64_t nb, double margin) {
  if (na < 2 || nb < 2) return NAN;
  double df, error = welch_error(a, na, b, nb, &df);
  double difference = ls_stat_mean(a, na) - ls_stat_mean(b, nb);
  if (!(error > 0)) return fabs(difference) < margin ? 0 : 1;
  /* The nearer bound decides: the larger of the two one-sided p values. */
  return ls_stat_t_cdf((fabs(difference) - margin) / error, df);
}
