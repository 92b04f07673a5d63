/* Verdicts on made step times, the A/A false-alarm rate on seeded normal numbers, validation's criteria. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

#include "unit.h"

static const double base[] = {100, 101, 99, 100.5, 99.5, 100.2, 99.8, 100.1};
enum { N = 8 };

static ls_bench_verdict_t verdict(const double *a, const double *b, double margin) {
  ls_bench_comparison_t c;
  ls_bench_compare(a, N, b, N, margin, &c);
  return c.verdict;
}

static void scaled(const double *x, double factor, double *y) {
  for (int i = 0; i < N; i++)
    y[i] = x[i] * factor;
}

static void test_verdicts(void **state) {
  (void)state;
  double fast[N], close[N], wild[N];
  scaled(base, 0.8, fast);
  scaled(base, 1.02, close);
  assert_int_equal(verdict(fast, base, 5), LS_BENCH_FASTER);
  assert_int_equal(verdict(base, fast, 5), LS_BENCH_SLOWER);
  assert_int_equal(verdict(base, base, 5), LS_BENCH_EQUIVALENT);
  assert_int_equal(verdict(close, base, 5), LS_BENCH_EQUIVALENT); /* different, but not by enough to matter */
  assert_int_equal(verdict(close, base, 1), LS_BENCH_SLOWER);
  for (int i = 0; i < N; i++)
    wild[i] = 100 + (i % 2 ? 40 : -38);
  assert_int_equal(verdict(wild, base, 5), LS_BENCH_UNDECIDED);
}

static void test_percent_of_b(void **state) {
  (void)state;
  double twice[N];
  ls_bench_comparison_t c;
  scaled(base, 2, twice);
  ls_bench_compare(twice, N, base, N, 5, &c);
  assert_true(fabs(c.difference_percent - 100) < 1e-9 && c.low_percent < 100 && c.high_percent > 100);
  assert_string_equal(ls_bench_verdict_word(c.verdict), "slower");
  json_t *j = ls_record_json(&ls_bench_comparison_record, &c);
  assert_true(fabs(ls_bench_number(j, "difference_us") - c.welch.difference) < 1e-12);
  assert_true(ls_bench_number(j, "welch_p") < 1e-6);
  json_decref(j);
}

static void test_too_few(void **state) {
  (void)state;
  ls_bench_comparison_t c;
  ls_bench_compare(base, 1, base, N, 5, &c);
  assert_int_equal(c.verdict, LS_BENCH_UNDECIDED);
  json_t *j = ls_record_json(&ls_bench_comparison_record, &c);
  assert_true(json_is_null(json_object_get(j, "welch_p")));
  json_decref(j);
}

/* Equal distributions: "faster" or "slower" with a margin too small for equivalence in about 5 % of the
 * pairs. */
static void test_false_alarms(void **state) {
  (void)state;
  int alarms = 0, equivalent = 0;
  enum { PAIRS = 1000 };
  for (int p = 0; p < PAIRS; p++) {
    double x[2][N];
    for (int side = 0; side < 2; side++)
      for (int i = 0; i < N; i++) {
        float four[4];
        ls_rng_normal4(5, 99, (uint64_t)((p * 2 + side) * N + i), four);
        x[side][i] = 200 + 4 * (double)four[0];
      }
    ls_bench_verdict_t tight = verdict(x[0], x[1], 0.001);
    alarms += tight == LS_BENCH_FASTER || tight == LS_BENCH_SLOWER;
    equivalent += verdict(x[0], x[1], 10) == LS_BENCH_EQUIVALENT;
  }
  assert_in_range(alarms, 20, 70); /* 50 expected; four standard deviations below, three above */
  assert_in_range(equivalent, 990, PAIRS);
}

static json_t *made_curve(double final_loss, const double *norms, int count) {
  json_t *list = json_array();
  for (int i = 0; i < count; i++)
    json_array_append_new(list, json_real(norms[i]));
  return json_pack("{s:{s:f, s:o}}", "curves", "final_loss", final_loss, "grad_norm", list);
}

static void put_bits(json_t *measurement, int shards, const char *hash) {
  json_object_set_new(measurement, "options", json_pack("{s:i}", "shards", shards));
  json_object_set_new(measurement, "repetitions", json_pack("[{s:s}]", "params_xxh3", hash));
}

/* The strict criterion counts where both sides promise it. */
static void check_bits(json_t *one, json_t *same, const float *w) {
  static const struct {
    int shards[2];
    const char *hash;
    bool identical, ok;
    const char *verdict;
  } rows[] = {{{8, 8}, "abc", true, true, "identical across ranks"},
              {{8, 8}, "abd", false, false, "NOT identical across ranks"},
              {{8, 4}, "abd", false, true, "same network"},
              {{0, 0}, "abc", true, true, "same network"},
              {{0, 0}, "abd", false, true, "same network"}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_bench_validation_t v;
    put_bits(one, rows[i].shards[0], "abc");
    put_bits(same, rows[i].shards[1], rows[i].hash);
    ls_bench_validate(one, same, w, w, 3, &v);
    assert_int_equal(v.identical, rows[i].identical);
    assert_int_equal(v.ok, rows[i].ok);
    json_t *json = ls_bench_validation_json(&v);
    assert_string_equal(ls_bench_validation_verdict(json), rows[i].verdict);
    json_decref(json);
  }
}

static void test_validation(void **state) {
  (void)state;
  static const double norms[] = {5, 4, 3, 2.5, 2.2}, other[] = {2, 3, 2.5, 4, 1};
  static const float w[] = {1, 2, 3}, near[] = {1.00005f, 2, 3}, far[] = {1.001f, 2, 3};
  json_t *one = made_curve(0.5, norms, 5), *same = made_curve(0.505, norms, 5),
         *loss = made_curve(0.52, norms, 5);
  json_t *curve = made_curve(0.5, other, 5), *short_curve = made_curve(0.5, norms, 4);
  ls_bench_validation_t v;
  ls_bench_validate(one, same, w, near, 3, &v);
  assert_true(v.ok && fabs(v.loss_difference - 0.005) < 1e-12 && v.grad_norm_correlation > 0.999999);
  ls_bench_validate(one, loss, w, w, 3, &v);
  assert_true(!v.ok && !v.loss_ok && v.grad_norm_ok && v.weight_ok);
  ls_bench_validate(one, curve, w, w, 3, &v);
  assert_true(!v.ok && v.loss_ok && !v.grad_norm_ok);
  ls_bench_validate(one, short_curve, w, w, 3, &v);
  assert_true(!v.ok && !v.grad_norm_ok && isnan(v.grad_norm_correlation));
  ls_bench_validate(one, same, w, far, 3, &v);
  assert_true(!v.ok && !v.weight_ok);
  ls_bench_validate(one, same, NULL, NULL, 0, &v);
  assert_true(!v.ok && isnan(v.weight_difference));
  check_bits(one, same, w);
  json_decref(short_curve);
  json_decref(curve);
  json_decref(loss);
  json_decref(same);
  json_decref(one);
}

static void test_limits(void **state) {
  (void)state;
  char text[64];
  assert_string_equal(ls_bench_gpu_limit_text(0x24, text), "power cap, heat");
  assert_string_equal(ls_bench_gpu_limit_text(-1, text), "");
  assert_string_equal(ls_bench_gpu_limit_text(0x1, text), "");
  assert_true(strlen(ls_bench_gpu_limit_text(0xff, text)) < 64);
  assert_true(ls_bench_cpu_throttles("/no/such/folder") == -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_verdicts),   cmocka_unit_test(test_percent_of_b),
                                     cmocka_unit_test(test_too_few),    cmocka_unit_test(test_false_alarms),
                                     cmocka_unit_test(test_validation), cmocka_unit_test(test_limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
