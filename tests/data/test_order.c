/* The order is a bijection for every n, differs between epochs and seeds, and spreads evenly. */
#include "common.h"
#include "data/order.h"
#include <math.h>

static void check_bijection(uint64_t seed, uint64_t epoch, uint64_t n) {
  unsigned char *seen = calloc(1, n);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t x = order_of(seed, epoch, n, i);
    assert_true(x < n);
    assert_int_equal(seen[x]++, 0);
  }
  free(seen);
}

static void test_every_small_n(void **state) {
  for (uint64_t n = 1; n <= 600; n++)
    for (uint64_t epoch = 0; epoch < 3; epoch++)
      check_bijection(42, epoch, n);
}

static void test_larger_n(void **state) {
  static const uint64_t ns[] = {1023, 1024, 1025, 8000, 10000, 65535, 65536, 65537, 100003, 1000000};
  for (int i = 0; i < LS_COUNT(ns); i++)
    check_bijection(UINT64_MAX - (uint64_t)i, UINT64_MAX, ns[i]);
}

/* Too many to count: distinct images of a range, all in bounds, is what can be seen. */
static void test_huge_n(void **state) {
  static const uint64_t ns[] = {UINT64_C(1) << 32, (UINT64_C(1) << 33) + 1, INT64_MAX};
  for (int k = 0; k < LS_COUNT(ns); k++) {
    uint64_t last = 0, high = 0;
    for (uint64_t i = 0; i < 1000; i++) {
      uint64_t x = order_of(3, 1, ns[k], ns[k] - 1 - i);
      assert_true(x < ns[k]);
      assert_true(i == 0 || x != last);
      last = x;
      high += x > ns[k] / 2;
    }
    assert_in_range(high, 400, 600);
  }
}

static void test_several_at_once(void **state) {
  static const uint64_t ns[] = {1, 2, 63, 64, 65, 1000, 65537, UINT64_C(1) << 40};
  for (int k = 0; k < LS_COUNT(ns); k++)
    for (int count = 0; count <= LS_ORDER_EACH_MAX; count += 7) {
      ls_order_key_t key;
      uint64_t x[LS_ORDER_EACH_MAX + 1];
      ls_order_key_make(9, LS_ORDER_EPOCH, 3, ns[k], &key);
      for (int i = 0; i <= LS_ORDER_EACH_MAX; i++)
        x[i] = ((uint64_t)i * 37 + 5) % ns[k];
      ls_order_each(&key, x, count);
      for (int i = 0; i <= LS_ORDER_EACH_MAX; i++) {
        uint64_t index = ((uint64_t)i * 37 + 5) % ns[k];
        assert_true(x[i] == (i < count ? order_of(9, 3, ns[k], index) : index));
      }
    }
}

static void test_epochs_and_seeds_differ(void **state) {
  enum { N = 1000 };
  int same_epoch = 0, same_seed = 0, fixed = 0, same_use = 0;
  ls_order_key_t split;
  ls_order_key_make(1, LS_ORDER_SPLIT, 0, N, &split);
  for (uint64_t i = 0; i < N; i++) {
    same_epoch += order_of(1, 0, N, i) == order_of(1, 1, N, i);
    same_seed += order_of(1, 0, N, i) == order_of(2, 0, N, i);
    same_use += order_of(1, 0, N, i) == ls_order_at(&split, i);
    fixed += order_of(1, 0, N, i) == i;
  }
  /* Two random permutations agree in 1 place on average; in 10 with probability 1e-7. */
  assert_in_range(same_epoch, 0, 10);
  assert_in_range(same_seed, 0, 10);
  assert_in_range(same_use, 0, 10);
  assert_in_range(fixed, 0, 10);
}

/* Chi-square of where place `index` goes over many epochs: (cells - 1) degrees of freedom, deviation
 * sqrt(2 (cells - 1)); six deviations are never seen by chance, and the data are fixed anyway. */
static double chi_square(uint64_t n, uint64_t index, uint64_t epochs) {
  double *count = calloc(n, sizeof *count), chi = 0, expected = (double)epochs / (double)n;
  for (uint64_t e = 0; e < epochs; e++)
    count[order_of(9, e, n, index)] += 1;
  for (uint64_t i = 0; i < n; i++)
    chi += (count[i] - expected) * (count[i] - expected) / expected;
  free(count);
  return chi;
}

static void test_spreads_evenly(void **state) {
  static const uint64_t ns[] = {2, 3, 5, 10, 16, 64, 100, 257};
  for (int k = 0; k < LS_COUNT(ns); k++)
    for (uint64_t index = 0; index < ns[k]; index += ns[k] / 2 + (ns[k] < 3)) {
      double freedom = (double)ns[k] - 1.0, chi = chi_square(ns[k], index, 200 * ns[k]);
      double limit = freedom + 6.0 * sqrt(2.0 * freedom) + 6.0;
      if (!(chi < limit))
        fail_msg("n %d place %d: chi-square %g, limit %g", (int)ns[k], (int)index, chi, limit);
    }
}

/* All 6 permutations of 3 and all 24 of 4 come up, about equally often. */
static void test_all_small_permutations(void **state) {
  int count[256] = {0}, kinds = 0;
  for (uint64_t e = 0; e < 2400; e++) {
    unsigned code = 0;
    for (uint64_t i = 0; i < 4; i++)
      code = code << 2 | (unsigned)order_of(5, e, 4, i);
    count[code]++;
  }
  for (int i = 0; i < 256; i++) {
    if (count[i] == 0) continue;
    kinds++;
    assert_in_range(count[i], 50, 150);
  }
  assert_int_equal(kinds, 24);
}

/* Neighbours must not stay neighbours: mean distance of images of i and i + 1 is n / 3 for random ones. */
static void test_neighbours_part(void **state) {
  enum { N = 10000 };
  double distance = 0;
  for (uint64_t i = 0; i + 1 < N; i++)
    distance += fabs((double)order_of(4, 2, N, i) - (double)order_of(4, 2, N, i + 1));
  distance /= N - 1;
  assert_true(distance > N / 3.0 * 0.97 && distance < N / 3.0 * 1.03);
}

/* The order is part of what a checkpoint means: these values never change. */
static void test_values_are_fixed(void **state) {
  static const uint64_t want[] = {6221, 8224, 4164, 1063};
  uint64_t got[4];
  for (uint64_t i = 0; i < 4; i++)
    got[i] = order_of(42, 3, 10000, i);
  for (int i = 0; i < 4; i++)
    if (got[i] != want[i])
      fail_msg("order(42, 3, 10000, 0..3) is %d %d %d %d", (int)got[0], (int)got[1], (int)got[2],
               (int)got[3]);
}

TESTS(NULL, NULL, test_every_small_n, test_larger_n, test_huge_n, test_several_at_once,
      test_epochs_and_seeds_differ, test_spreads_evenly, test_all_small_permutations, test_neighbours_part,
      test_values_are_fixed)
