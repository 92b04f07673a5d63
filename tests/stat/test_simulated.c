/* Properties on seeded normal numbers: false alarms at the promised rate, intervals that contain the truth as
 * often as promised; the bootstrap repeats itself; a failed allocation is reported. */
#include "stat_test.h"

enum { PAIRS = 2000, SAMPLES = 8, STREAM = 77 };

static void normals(uint64_t seed, uint64_t at, double mean, double sd, double *x, int n) {
  for (int i = 0; i < n; i++) {
    float four[4];
    ls_rng_normal4(seed, STREAM, at * (uint64_t)n + (uint64_t)i, four);
    x[i] = mean + sd * (double)four[0];
  }
}

/* A binomial of 2000 at 5 % lies between 3.5 % and 6.5 % in 99.8 of 100 cases; the seed is fixed. */
static void test_false_alarms(void **state) {
  int alarms = 0, covered = 0;
  for (int p = 0; p < PAIRS; p++) {
    double x[SAMPLES], y[SAMPLES];
    normals(1, (uint64_t)(2 * p), 100, 3, x, SAMPLES);
    normals(1, (uint64_t)(2 * p + 1), 100, 3, y, SAMPLES);
    alarms += ls_stat_welch(x, SAMPLES, y, SAMPLES, 0.05).p < 0.05;
    ls_interval_t i = ls_stat_mean_interval(x, SAMPLES, 0.95);
    covered += i.low <= 100 && 100 <= i.high;
  }
  assert_in_range(alarms, PAIRS * 35 / 1000, PAIRS * 65 / 1000);
  assert_in_range(covered, PAIRS * 935 / 1000, PAIRS * 965 / 1000);
}

/* Means exactly the margin apart are called equivalent in at most alpha of the cases. */
static void test_equivalence_errors(void **state) {
  int errors = 0, found = 0;
  for (int p = 0; p < PAIRS; p++) {
    double x[SAMPLES], y[SAMPLES], z[SAMPLES];
    normals(2, (uint64_t)(3 * p), 100, 1, x, SAMPLES);
    normals(2, (uint64_t)(3 * p + 1), 103, 1, y, SAMPLES);
    normals(2, (uint64_t)(3 * p + 2), 100, 1, z, SAMPLES);
    errors += ls_stat_equivalence(x, SAMPLES, y, SAMPLES, 3) < 0.05;
    found += ls_stat_equivalence(x, SAMPLES, z, SAMPLES, 3) < 0.05;
  }
  assert_in_range(errors, PAIRS * 3 / 100, PAIRS * 65 / 1000);
  assert_in_range(found, PAIRS * 95 / 100, PAIRS);
}

static double mean_of(double *x, int64_t n) {
  return ls_stat_mean(x, n);
}

static void test_bootstrap(void **state) {
  double x[40];
  normals(3, 0, 10, 2, x, 40);
  ls_interval_t first, again, other, t = ls_stat_mean_interval(x, 40, 0.95), ratio;
  assert_int_equal(ls_stat_bootstrap(NULL, x, 40, mean_of, 0.95, 4000, 9, &first), LS_OK);
  assert_int_equal(ls_stat_bootstrap(NULL, x, 40, mean_of, 0.95, 4000, 9, &again), LS_OK);
  assert_int_equal(ls_stat_bootstrap(NULL, x, 40, mean_of, 0.95, 4000, 10, &other), LS_OK);
  assert_true(first.low == again.low && first.high == again.high && first.low != other.low);
  check_near(first.low, t.low, 0.02, "against t", 0);
  check_near(first.high, t.high, 0.02, "against t", 1);
  assert_int_equal(ls_stat_bootstrap_ratio(NULL, x, 40, x, 40, 0.95, 4000, 9, &ratio), LS_OK);
  assert_true(ratio.low < 1 && ratio.high > 1 && ratio.low > 0.8 && ratio.high < 1.25);
}

static void test_failed_allocations(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  double x[5] = {1, 2, 3, 4, 5};
  bool flags[5];
  for (int n = 1; n <= 2; n++) {
    ls_interval_t i = {-7, -7};
    ls_ctx_fail_alloc(ctx, n);
    assert_int_equal(ls_stat_bootstrap(ctx, x, 5, ls_stat_median, 0.95, 10, 1, &i), LS_ERR_MEMORY);
    assert_true(i.low == -7 && i.high == -7);
  }
  ls_interval_t i = {-7, -7};
  ls_ctx_fail_alloc(ctx, 1);
  assert_int_equal(ls_stat_bootstrap_ratio(ctx, x, 5, x, 5, 0.95, 10, 1, &i), LS_ERR_MEMORY);
  assert_true(i.low == -7);
  ls_ctx_fail_alloc(ctx, 1);
  assert_int_equal(ls_stat_outliers(ctx, x, 5, 3.5, flags), -1);
  ls_ctx_destroy(ctx);
}

TESTS(NULL, NULL, test_false_alarms, test_equivalence_errors, test_bootstrap, test_failed_allocations)
