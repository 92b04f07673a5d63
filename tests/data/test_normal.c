/* Normal numbers: close to the scalar ones of base, normal to the eye of moments and tails, pure. */
#include "common.h"
#include "data/table/normal.h"

#include <math.h>

static void test_agrees_with_base(void **state) {
  for (uint64_t c = 0; c < 100000; c++) {
    uint64_t counter = c + ((uint64_t)c << 33);
    float want[4], got[4];
    ls_rng_normal4(42, 17, counter, want);
    ls_normal_fill(42, 17, counter, 4, got);
    /* Radii near 0 come from a logarithm near 0: absolute, not relative, error is what stays small. */
    for (int i = 0; i < 4; i++)
      if (!(fabsf(want[i] - got[i]) < 2e-4f))
        fail_msg("counter %d: %g, not %g", (int)c, (double)got[i], (double)want[i]);
  }
}

/* Any length and any split of a range give the same bits, and nothing beyond is touched. */
static void test_pure(void **state) {
  enum { N = 700 };
  float all[N], part[N + 4];
  ls_normal_fill(1, 2, 1000, N, all);
  for (int count = 0; count < N; count += 13) {
    for (int i = 0; i < N + 4; i++)
      part[i] = -77.0f;
    ls_normal_fill(1, 2, 1000, count, part);
    assert_memory_equal(part, all, (size_t)count * sizeof *all);
    for (int i = count; i < N + 4; i++)
      assert_true(part[i] == -77.0f);
  }
  ls_normal_fill(1, 2, 1007, 8, part);
  assert_memory_equal(part, all + 28, 8 * sizeof *all);
}

static void test_moments(void **state) {
  enum { N = 4000000 };
  float *x = malloc(N * sizeof *x);
  ls_normal_fill(3, 4, 0, N, x);
  double m[7] = {0}, lag = 0, beyond[6] = {0};
  for (int i = 0; i < N; i++) {
    double p = 1;
    for (int k = 1; k <= 6; k++)
      m[k] += (p *= (double)x[i]) / N;
    if (i > 0) lag += (double)x[i] * (double)x[i - 1] / N;
    for (int k = 1; k < 6; k++)
      beyond[k] += fabs((double)x[i]) > k;
  }
  free(x);
  /* Six standard errors each: sqrt(var(x^k) / N). */
  double n = sqrt((double)N);
  assert_true(fabs(m[1]) < 6 * 1.0 / n);
  assert_true(fabs(m[2] - 1) < 6 * sqrt(2.0) / n);
  assert_true(fabs(m[3]) < 6 * sqrt(15.0) / n);
  assert_true(fabs(m[4] - 3) < 6 * sqrt(96.0) / n);
  assert_true(fabs(m[6] - 15) < 6 * sqrt(10170.0) / n);
  assert_true(fabs(lag) < 6 * 1.0 / n);
  for (int k = 1; k < 6; k++) {
    double expected = erfc(k / sqrt(2.0)) * N;
    assert_true(fabs(beyond[k] - expected) < 6 * sqrt(expected) + 1);
  }
}

TESTS(NULL, NULL, test_agrees_with_base, test_pure, test_moments)
