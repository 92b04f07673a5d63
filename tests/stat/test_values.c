/* Values computed with SciPy 1.10 (scipy.stats: t, norm, ttest_ind, pearsonr, median_abs_deviation), and the
 * table of Student's t of the NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.2. */
#include "stat_test.h"

static void test_t_quantile(void **state) {
  static const double rows[][3] = {
      {0.975, 1, 12.706204736432095},   {0.975, 2, 4.302652729911275},    {0.975, 4, 2.7764451051977987},
      {0.975, 10, 2.2281388519649385},  {0.975, 49, 2.009575234489209},   {0.995, 30, 2.7499956535670305},
      {0.95, 0.5, 41.13600009284199},   {0.9, 3.7, 1.5575658381523119},   {0.9999, 5, 9.677566300886502},
      {0.6, 1000, 0.25341451583949864}, {0.975, 1e6, 1.9599663568141066}, {1e-10, 7, -53.835579514581795}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    check_near(ls_stat_t_quantile(rows[i][0], rows[i][1]), rows[i][2], 1e-8, "t quantile", i);
    check_near(ls_stat_t_cdf(ls_stat_t_quantile(rows[i][0], rows[i][1]), rows[i][1]), rows[i][0], 1e-11,
               "inverse", i);
  }
  assert_true(ls_stat_t_quantile(0.5, 3) == 0);
}

/* Closed forms of one and two degrees of freedom; SciPy 1.10 itself stops 1e-9 to 1e-11 away. */
static void test_t_exact(void **state) {
  static const double p[] = {0.55, 0.75, 0.9, 0.975, 0.999, 1 - 1e-9};
  for (int i = 0; i < LS_COUNT(p); i++) {
    check_near(ls_stat_t_quantile(p[i], 1), 1 / tan(acos(-1.0) * (1 - p[i])), 2e-14, "df 1", i);
    check_near(ls_stat_t_quantile(p[i], 2), (2 * p[i] - 1) / sqrt(2 * p[i] * (1 - p[i])), 2e-14, "df 2", i);
  }
}

static void test_t_table(void **state) {
  static const double p[] = {0.90, 0.95, 0.975, 0.99, 0.995, 0.999};
  static const struct {
    double df, t[6];
  } rows[] = {
      {1, {3.078, 6.314, 12.706, 31.821, 63.657, 318.309}}, {2, {1.886, 2.920, 4.303, 6.965, 9.925, 22.327}},
      {5, {1.476, 2.015, 2.571, 3.365, 4.032, 5.893}},      {10, {1.372, 1.812, 2.228, 2.764, 3.169, 4.144}},
      {20, {1.325, 1.725, 2.086, 2.528, 2.845, 3.552}},     {50, {1.299, 1.676, 2.009, 2.403, 2.678, 3.261}},
      {100, {1.290, 1.660, 1.984, 2.364, 2.626, 3.174}}};
  for (int i = 0; i < LS_COUNT(rows); i++)
    for (int k = 0; k < LS_COUNT(p); k++)
      if (!(fabs(ls_stat_t_quantile(p[k], rows[i].df) - rows[i].t[k]) < 0.0015))
        fail_msg("t(%g, %g) = %g, the table says %g", p[k], rows[i].df, ls_stat_t_quantile(p[k], rows[i].df),
                 rows[i].t[k]);
}

static void test_t_cdf(void **state) {
  static const double rows[][4] = {{0.5, 1, 0.6475836176504333, 0.7048327646991336},
                                   {1.0, 3.3, 0.8075576547714878, 0.38488469045702434},
                                   {-2.2, 9, 0.0276702863993058, 0.0553405727986116},
                                   {3.0, 49, 0.9978820518849277, 0.004235896230144581},
                                   {-10, 5, 8.547378787148179e-05, 0.00017094757574296357},
                                   {-40, 20, 7.287348277155344e-21, 1.457469655431069e-20},
                                   {0.01, 1e5, 0.5039893463405883, 0.9920213073188231},
                                   {12.7, 1, 0.9749878361553279, 0.05002432768934415}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    check_near(ls_stat_t_cdf(rows[i][0], rows[i][1]), rows[i][2], 1e-11, "t cdf", i);
    check_near(ls_stat_t_two_sided(rows[i][0], rows[i][1]), rows[i][3], 1e-10, "t two-sided", i);
  }
  assert_true(ls_stat_t_two_sided(INFINITY, 4) == 0);
  assert_true(ls_stat_t_cdf(0, 4) == 0.5);
}

static void test_normal(void **state) {
  static const double quantiles[][2] = {
      {1e-300, -37.0470962993612},  {1e-20, -9.262340089798409}, {0.001, -3.090232306167813},
      {0.025, -1.9599639845400545}, {0.3, -0.5244005127080409},  {0.5, 0.0},
      {0.75, 0.6744897501960817},   {0.975, 1.959963984540054},  {0.9999, 3.719016485455709}};
  static const double cdf[][2] = {
      {-5, 2.866515718791933e-07}, {-1, 0.15865525393145707}, {0, 0.5},
      {0.5, 0.6914624612740131},   {2, 0.9772498680518208},   {8, 0.9999999999999993}};
  for (int i = 0; i < LS_COUNT(quantiles); i++)
    check_near(ls_stat_normal_quantile(quantiles[i][0]), quantiles[i][1], 1e-13, "normal quantile", i);
  for (int i = 0; i < LS_COUNT(cdf); i++)
    check_near(ls_stat_normal_cdf(cdf[i][0]), cdf[i][1], 1e-14, "normal cdf", i);
}

static const double a[] = {12.1, 11.8, 12.4, 12.0, 11.9, 12.6, 12.2}, b[] = {12.9, 13.4, 12.7, 13.1, 12.2};

static void test_sample(void **state) {
  double x[7];
  check_near(ls_stat_mean(a, 7), 12.142857142857142, 1e-15, "mean", 0);
  check_near(ls_stat_sd(a, 7), 0.2819996622760555, 1e-13, "sd", 0);
  for (int i = 0; i < 7; i++)
    x[i] = a[i];
  assert_true(ls_stat_median(x, 7) == 12.1);
  check_near(ls_stat_quantile(x, 7, 0.9), 12.48, 1e-14, "quantile", 0);
  assert_true(ls_stat_quantile(x, 7, 0) == 11.8 && ls_stat_quantile(x, 7, 1) == 12.6);
  check_near(ls_stat_mad(x, 7), 0.2, 1e-13, "mad", 0);
  ls_interval_t i = ls_stat_mean_interval(a, 7, 0.95);
  check_near(i.low, 11.882050954424836, 1e-9, "interval low", 0);
  check_near(i.high, 12.403663331289449, 1e-9, "interval high", 0);
  static const double u[] = {1, 2, 3, 4, 5.5}, v[] = {2.1, 3.9, 6.2, 7.8, 11.5};
  check_near(ls_stat_correlation(u, v, 5), 0.9977811573689069, 1e-13, "correlation", 0);
}

/* Offsets that would swallow the squares of a one-pass formula. */
static void test_sd_of_large_values(void **state) {
  static const double x[] = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
  check_near(ls_stat_sd(x, 4), sqrt(30), 1e-14, "sd", 0);
}

static void test_welch(void **state) {
  ls_welch_t w = ls_stat_welch(a, 7, b, 5, 0.05);
  check_near(w.difference, -0.7171428571428571, 1e-13, "difference", 0);
  check_near(w.t, -3.146073260933198, 1e-12, "t", 0);
  check_near(w.df, 6.226697685045299, 1e-12, "df", 0);
  check_near(w.p, 0.01895136383295869, 1e-11, "p", 0);
  check_near(w.interval.low, -1.270027210027452, 1e-9, "low", 0);
  check_near(w.interval.high, -0.16425850425826227, 1e-8, "high", 0);
  check_near(ls_stat_equivalence(a, 7, b, 5, 0.5), 0.8118525297543713, 1e-11, "equivalence", 0);
  check_near(ls_stat_equivalence(a, 7, b, 5, 1.0), 0.12967845519889715, 1e-11, "equivalence", 1);
  check_near(ls_stat_equivalence(b, 5, a, 7, 1.5), 0.0065546424463077, 1e-11, "equivalence", 2);
}

static void test_constant_samples(void **state) {
  static const double one[] = {1, 1, 1}, two[] = {2, 2};
  ls_welch_t same = ls_stat_welch(one, 3, one, 3, 0.05), other = ls_stat_welch(one, 3, two, 2, 0.05);
  assert_true(same.p == 1 && same.t == 0 && same.interval.low == 0 && same.interval.high == 0);
  assert_true(other.p == 0 && isinf(other.t) && other.interval.high == -1);
  assert_true(ls_stat_equivalence(one, 3, two, 2, 0.5) == 1 && ls_stat_equivalence(one, 3, two, 2, 1.5) == 0);
}

static void test_too_few(void **state) {
  ls_interval_t i = {7, 7};
  assert_true(isnan(ls_stat_mean(a, 0)) && isnan(ls_stat_sd(a, 1)) && isnan(ls_stat_quantile(a, 0, 0.5)));
  assert_true(isnan(ls_stat_mean_interval(a, 1, 0.95).low) && isnan(ls_stat_welch(a, 1, b, 5, 0.05).p));
  assert_true(isnan(ls_stat_equivalence(a, 7, b, 1, 1)) && isnan(ls_stat_correlation(a, b, 1)));
  assert_int_equal(ls_stat_bootstrap(NULL, a, 1, ls_stat_median, 0.95, 100, 1, &i), LS_OK);
  assert_true(isnan(i.low) && isnan(i.high));
}

static void test_outliers(void **state) {
  /* median 10.05, MAD 0.15: |z| of 11.2 is 5.17, of 10.8 is 3.37 */
  static const double x[] = {10, 10.1, 9.8, 11.2, 10.2, 9.9, 10.8, 10.0};
  bool flags[9] = {false, false, false, false, false, false, false, false, true};
  assert_int_equal(ls_stat_outliers(NULL, x, 8, 3.5, flags), 1);
  for (int i = 0; i < 8; i++)
    assert_true(flags[i] == (i == 3));
  assert_true(flags[8]);
  static const double constant[] = {5, 5, 5, 5, 9};
  assert_int_equal(ls_stat_outliers(NULL, constant, 5, 3.5, flags), 0);
  assert_int_equal(ls_stat_outliers(NULL, constant, 0, 3.5, flags), 0);
}

TESTS(NULL, NULL, test_t_quantile, test_t_exact, test_t_table, test_t_cdf, test_normal, test_sample,
      test_sd_of_large_values, test_welch, test_constant_samples, test_too_few, test_outliers)
