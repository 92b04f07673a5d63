/* Statistics for measurements: location, spread, intervals, tests, outliers. Plain functions on arrays of
 * doubles; values are finite. Every formula names its source; tests compare with values of other packages. */
#ifndef LS_STAT_STAT_H
#define LS_STAT_STAT_H

#include "base/base.h"

typedef struct {
  double low, high;
} ls_interval_t;

double ls_stat_mean(const double *x, int64_t n);
double ls_stat_sd(const double *x, int64_t n); /* n - 1 in the denominator; NAN below two */
/* Type 7 of Hyndman and Fan (1996). `sorted` ascends. q in [0, 1]. */
double ls_stat_quantile(const double *sorted, int64_t n, double q);
void ls_stat_sort(double *x, int64_t n);
double ls_stat_median(double *x, int64_t n); /* sorts x */
double ls_stat_mad(double *x, int64_t n);    /* median absolute deviation, unscaled; reorders x */

/* Student's t and the standard normal. df > 0, p in (0, 1). */
double ls_stat_t_cdf(double t, double df);
double ls_stat_t_quantile(double p, double df);
double ls_stat_t_two_sided(double t, double df); /* P(|T| > |t|), exact even if it is tiny */
double ls_stat_normal_cdf(double z);
double ls_stat_normal_quantile(double p);

/* Interval of the mean, by Student's t. confidence in (0, 1). Below two values: NANs. */
ls_interval_t ls_stat_mean_interval(const double *x, int64_t n, double confidence);
/* Interval of any statistic by the percentile bootstrap (Efron 1979), deterministic for a seed. Below two
 * values: NANs. */
typedef double (*ls_statistic_fn)(double *x, int64_t n); /* may reorder x */
ls_status_t ls_stat_bootstrap(ls_ctx_t *ctx, const double *x, int64_t n, ls_statistic_fn statistic,
                              double confidence, int resamples, uint64_t seed, ls_interval_t *interval);
/* The same for mean a / mean b, with both sides resampled. */
ls_status_t ls_stat_bootstrap_ratio(ls_ctx_t *ctx, const double *a, int64_t na, const double *b, int64_t nb,
                                    double confidence, int resamples, uint64_t seed, ls_interval_t *interval);

/* Modified z-scores (Iglewicz and Hoaglin 1993): 0.6745 (x - median) / MAD; |z| > 3.5 is flagged. flags: n
 * bools, written. Returns how many were flagged (none when the MAD is 0), -1 when memory is short (reported).
 */
int64_t ls_stat_outliers(ls_ctx_t *ctx, const double *x, int64_t n, double limit, bool *flags);

typedef struct {
  double difference;      /* mean a - mean b */
  double t, df, p;        /* two-sided */
  ls_interval_t interval; /* of the difference, at 1 - alpha */
} ls_welch_t;
/* Welch's t-test. NANs below two values on a side. */
ls_welch_t ls_stat_welch(const double *a, int64_t na, const double *b, int64_t nb, double alpha);
/* Two one-sided tests (Schuirmann 1987): p that |mean a - mean b| is NOT below margin; below alpha =
 * equivalent. */
double ls_stat_equivalence(const double *a, int64_t na, const double *b, int64_t nb, double margin);

double ls_stat_correlation(const double *x, const double *y, int64_t n); /* Pearson */

#endif
