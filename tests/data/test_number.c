/* Strict numbers: what is taken, what is not, and the same values as the C library in its own locale. */
#include "common.h"
#include "data/table/number.h"

#include <float.h>
#include <math.h>

static void test_accepts(void **state) {
  static const struct {
    const char *text;
    float value;
  } rows[] = {{"0", 0.0f},
              {"-0", -0.0f},
              {"1", 1.0f},
              {"+1", 1.0f},
              {"-1.5", -1.5f},
              {".5", 0.5f},
              {"5.", 5.0f},
              {"007", 7.0f},
              {"1e3", 1000.0f},
              {"1E+3", 1000.0f},
              {"25e-2", 0.25f},
              {"1469.250000", 1469.25f},
              {"931800000", 931800000.0f},
              {"0.1", 0.1f},
              {"3.4028234663852886e38", FLT_MAX},
              {"3.4028235e+38", FLT_MAX},
              {"1e-45", 1.40129846e-45f},
              {"1e-500", 0.0f},
              {"0e999999999999", 0.0f},
              {"1e-999999999999999999999", 0.0f},
              {"100000000000000000000000000000e-29", 1.0f},
              {"0.00000000000000000000000000000000000000001e41", 1.0f},
              {"123456789012345678901234567890", 1.2345679e29f},
              {"16777217", 16777216.0f}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    double number = -77.0;
    if (ls_number_parse(rows[i].text, strlen(rows[i].text), &number) != LS_NUMBER_OK)
      fail_msg("%s refused", rows[i].text);
    float v = (float)number;
    if (memcmp(&v, &rows[i].value, sizeof v) != 0) fail_msg("%s gives %.9g", rows[i].text, (double)v);
  }
}

static void test_refuses(void **state) {
  static const char *const bad[] = {"",
                                    " ",
                                    " 1",
                                    "1 ",
                                    "+",
                                    "-",
                                    ".",
                                    "e5",
                                    "1e",
                                    "1e+",
                                    "1.2.3",
                                    "--1",
                                    "+-1",
                                    "0x10",
                                    "nan",
                                    "NaN",
                                    "inf",
                                    "-inf",
                                    "1_000",
                                    "1,5",
                                    "1.5f",
                                    "1e5.0",
                                    "Infinity",
                                    "12a",
                                    "\t1",
                                    "1\n",
                                    "\xc2\xa0"
                                    "1",
                                    "1e 5",
                                    "\xe2\x88\x92"
                                    "1"};
  for (int i = 0; i < LS_COUNT(bad); i++) {
    double v = -77.0;
    if (ls_number_parse(bad[i], strlen(bad[i]), &v) != LS_NUMBER_BAD) fail_msg("'%s' is not refused", bad[i]);
    assert_true(v == -77.0);
  }
  static const char *const large[] = {"3.5e38",      "-3.5e38", "1e39", "1e400", "1e999999999999999999999",
                                      "3.4028236e38"};
  for (int i = 0; i < LS_COUNT(large); i++) {
    double v = -77.0;
    assert_int_equal(ls_number_parse(large[i], strlen(large[i]), &v), LS_NUMBER_RANGE);
    assert_true(v == -77.0);
  }
}

/* The bytes after `len` do not matter. */
static void test_length_is_kept(void **state) {
  double v = 0;
  assert_int_equal(ls_number_parse("12345", 3, &v), LS_NUMBER_OK);
  assert_true(v == 123.0);
}

/* Shortest and long texts of many floats and doubles give what strtod gives. */
static void test_agrees_with_strtod(void **state) {
  for (uint64_t i = 0; i < 200000; i++) {
    ls_rng4_t w = ls_rng(1, 2, i);
    uint64_t bits = (uint64_t)w.v[0] << 32 | w.v[1];
    double d;
    memcpy(&d, &bits, sizeof d);
    if (i % 2) d = ldexp((double)(int32_t)w.v[0], (int)(w.v[1] % 64) - 40);
    if (!(fabs(d) < (double)FLT_MAX)) continue;
    char text[64];
    snprintf(text, sizeof text, "%.*g", (int)(1 + w.v[2] % 25), d);
    double exact = strtod(text, NULL), number = NAN;
    float want = (float)exact, got;
    if (isinf(want)) continue;
    assert_int_equal(ls_number_parse(text, strlen(text), &number), LS_NUMBER_OK);
    assert_true(number >= nextafter(exact, -INFINITY) && number <= nextafter(exact, INFINITY));
    got = (float)number;
    if (memcmp(&want, &got, sizeof got) != 0) fail_msg("%s: %.9g, not %.9g", text, (double)got, (double)want);
  }
}

/* Digits that a float has no room for are kept. */
static void test_keeps_its_digits(void **state) {
  double v = 0;
  assert_int_equal(ls_number_parse("1700000001.25", 13, &v), LS_NUMBER_OK);
  assert_true(v == 1700000001.25);
}

static void test_dates(void **state) {
  static const char *const dates[] = {"2000-01-03",           "1999-12-31",
                                      "2000-01-03T10:11",     "2000-01-03 10:11:12",
                                      "2000-01-03T10:11:12Z", "2000-01-03T10:11:12.345+01:00",
                                      "2000-01-03T10:11-0530"};
  static const char *const not_dates[] = {"",
                                          "2000",
                                          "2000-1-3",
                                          "2000-13-01",
                                          "2000-00-01",
                                          "2000-01-32",
                                          "2000-01-03x",
                                          "2000-01-03T",
                                          "2000/01/03",
                                          "20000-01-03",
                                          "2000-01-03 10",
                                          "2000-01-03T25:00",
                                          "2000-01-03T10:11:12.",
                                          "-2000-01-03"};
  for (int i = 0; i < LS_COUNT(dates); i++)
    if (!ls_number_is_date(dates[i], strlen(dates[i]))) fail_msg("'%s' is a date", dates[i]);
  for (int i = 0; i < LS_COUNT(not_dates); i++)
    if (ls_number_is_date(not_dates[i], strlen(not_dates[i]))) fail_msg("'%s' is not a date", not_dates[i]);
}

TESTS(NULL, NULL, test_accepts, test_refuses, test_length_is_kept, test_agrees_with_strtod,
      test_keeps_its_digits, test_dates)
