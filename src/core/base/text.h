/* Numbers as people read them, on terminals. Each function returns its text by value: ls_text_bytes(n).s is valid to the
 * end of the statement. An unknown number (NAN) gives the empty text. */
#ifndef LS_BASE_TEXT_H
#define LS_BASE_TEXT_H

#include "base/base.h"

typedef struct {
  char s[256];
} ls_text_t;

/* "12,214.50": thousands separated. */
ls_text_t ls_text_count(double value, int decimals);
ls_text_t ls_text_whole(int64_t value);
/* "512 B", "27.50 MB". */
ls_text_t ls_text_bytes(int64_t bytes);
/* "12 ns", "12.3 us", "27.80 ms", "1.50 s". */
ls_text_t ls_text_time(double ns);
/* Three significant digits, whole numbers whole: "0.123", "12.3", "12,214". */
ls_text_t ls_text_digits(double value);
/* "< 0.001", "0.16". */
ls_text_t ls_text_p(double p);
/* "12 %"; with `sign` "+12.3 %". */
ls_text_t ls_text_percent(double percent, int decimals, bool sign);
/* "1.41x (1.28 to 1.56)"; without a known interval "1.41x", with an open one "1.41x (above 1.28)". */
ls_text_t ls_text_ratio(double value, double low, double high);
/* With the two digits that half the interval from low to high has, all three divided by `unit`. `sign` stands between
 * ("±" or "+-"): "320.9 ± 3.2", "12,200 ± 1,100"; without an interval as ls_text_digits. */
ls_text_t ls_text_around(double value, double low, double high, double unit, const char *sign);

/* The unit of times of which the smallest is `us`: its name, and how many us it has. */
typedef struct {
  const char *name;
  double us;
} ls_text_unit_t;
ls_text_unit_t ls_text_unit(double us);

/* The separator before the i-th of a list's items: "", ", " or " and ". */
const char *ls_text_between(int i, int count);

#endif
