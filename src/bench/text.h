/* Numbers as people read them, for reports and terminals. Each function returns its text by value:
 * ls_text_bytes(n).s is valid to the end of the statement. What is not known (NAN) is the empty text. */
#ifndef LS_BENCH_TEXT_H
#define LS_BENCH_TEXT_H

#include "base/base.h"

typedef struct {
  char s[96];
} ls_text_t;

/* "12,214.50": thousands separated. */
ls_text_t ls_text_count(double value, int decimals);
/* Four significant digits: "0.1234", "12.34", "12,214". */
ls_text_t ls_text_digits(double value);
/* "6.1 MB": decimal units. */
ls_text_t ls_text_bytes(double bytes);
/* "< 0.001", "0.16". */
ls_text_t ls_text_p(double p);
/* "12 %"; with `sign` "+12.3 %". */
ls_text_t ls_text_percent(double percent, int decimals, bool sign);
/* "0.9431", "> 0.9999". */
ls_text_t ls_text_correlation(double r);
/* "1.41x (1.28 to 1.56)"; without a known interval "1.41x", with an open one "1.41x (above 1.28)". */
ls_text_t ls_text_ratio(double value, double low, double high);
/* "320.9 ± 3.2" with the digits that half the interval gives a meaning; without one four digits. All three
 * are divided by `unit`. `sign` stands between: "±" or "+-". */
ls_text_t ls_text_around(double value, double low, double high, double unit, const char *sign);

/* The unit of times of which the smallest is `us`: its name, and how many us it has. */
typedef struct {
  const char *name;
  double us;
} ls_text_unit_t;
ls_text_unit_t ls_text_unit(double us);
/* "320.9 us", "1.24 s": with a unit of its own. */
ls_text_t ls_text_time(double us);

/* "1", "1 and 2", "1, 2 and 4" of numbers. */
ls_text_t ls_text_list(const double *values, int count);
/* "one", "two", .. "twelve", "13". */
ls_text_t ls_text_number_word(double value);

#endif
