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

/* What validation says of two measurements with their parameters. */
static json_t *validated(json_t *one, float *w, json_t *several, float *v) {
  const ls_bench_trained_t a = {one, w, w ? 3 : 0}, b = {several, v, v ? 3 : 0};
  json_t *json = ls_bench_validate(&a, &b);
  assert_non_null(json);
  return json;
}

static bool says(const json_t *validation, const char *key) {
  return json_is_true(json_object_get(validation, key));
}

/* The strict criterion counts where both sides promise it. */
static void check_bits(json_t *one, json_t *same, float *w) {
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
    put_bits(one, rows[i].shards[0], "abc");
    put_bits(same, rows[i].shards[1], rows[i].hash);
    json_t *v = validated(one, w, same, w);
    assert_int_equal(says(v, "identical"), rows[i].identical);
    assert_int_equal(says(v, "same_network"), rows[i].ok);
    assert_string_equal(ls_bench_validation_verdict(v), rows[i].verdict);
    json_decref(v);
  }
}

static void test_validation(void **state) {
  static const double norms[] = {5, 4, 3, 2.5, 2.2}, other[] = {2, 3, 2.5, 4, 1};
  static float w[] = {1, 2, 3}, near[] = {1.00005f, 2, 3}, far[] = {1.001f, 2, 3};
  json_t *one = made_curve(0.5, norms, 5), *same = made_curve(0.505, norms, 5),
         *loss = made_curve(0.52, norms, 5);
  json_t *curve = made_curve(0.5, other, 5), *short_curve = made_curve(0.5, norms, 4);
  const struct {
    json_t *several;
    float *w, *v;
    bool loss_ok, curve_ok, weight_ok;
    const char *unknown; /* a figure */
  } rows[] = {{same, w, near, true, true, true, NULL},
              {loss, w, w, false, true, true, NULL},
              {curve, w, w, true, false, true, NULL},
              {short_curve, w, w, true, false, true, "grad_norm_correlation"},
              {same, w, far, true, true, false, NULL},
              {same, NULL, NULL, true, true, false, "weight_difference_mean_abs"}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    json_t *v = validated(one, rows[i].w, rows[i].several, rows[i].v);
    assert_int_equal(says(v, "final_loss_ok"), rows[i].loss_ok);
    assert_int_equal(says(v, "grad_norm_ok"), rows[i].curve_ok);
    assert_int_equal(says(v, "weight_ok"), rows[i].weight_ok);
    assert_int_equal(says(v, "same_network"), rows[i].loss_ok && rows[i].curve_ok && rows[i].weight_ok);
    if (rows[i].unknown) assert_true(json_is_null(json_object_get(v, rows[i].unknown)));
    if (i == 0)
      assert_true(fabs(ls_bench_number(v, "final_loss_difference") - 0.005) < 1e-12 &&
                  ls_bench_number(v, "grad_norm_correlation") > 0.999999);
    json_decref(v);
  }
  check_bits(one, same, w);
  json_decref(short_curve);
  json_decref(curve);
  json_decref(loss);
  json_decref(same);
  json_decref(one);
}

static void test_limits(void **state) {
  char text[64];
  assert_string_equal(ls_bench_gpu_limit_text(0x24, text), "power cap, heat");
  assert_string_equal(ls_bench_gpu_limit_text(-1, text), "");
  assert_string_equal(ls_bench_gpu_limit_text(0x1, text), "");
  assert_true(strlen(ls_bench_gpu_limit_text(0xff, text)) < 64);
  assert_true(ls_bench_cpu_throttles("/no/such/folder") == -1);
}

TESTS(NULL, NULL, test_verdicts, test_percent_of_b, test_too_few, test_false_alarms, test_validation,
      test_limits)
