/* Numbers and dates in text. strtod depends on the locale, skips spaces, accepts "nan", "inf" and
 * hexadecimal, and needs a terminated copy. A data file allows none of that. */
#include "data/table/number.h"

enum { DIGITS_MAX = 19 /* always fit 64 bits */, EXPONENT_MAX = 100000 };

typedef struct {
  const char *at, *end;
} text_t;

static bool digit(const text_t *t) {
  return t->at < t->end && *t->at >= '0' && *t->at <= '9';
}

static bool take(text_t *t, char c) {
  if (t->at == t->end || *t->at != c) return false;
  t->at++;
  return true;
}

/* Reads digits into the mantissa; those after the 19th significant one only change the exponent. Returns the
 * number of digits. */
static int64_t take_digits(text_t *t, uint64_t *mantissa, int *significant, int64_t *dropped) {
  const char *begin = t->at;
  for (; digit(t); t->at++) {
    unsigned d = (unsigned)(*t->at - '0');
    if (*significant == 0 && d == 0) continue;
    if (*significant < DIGITS_MAX) {
      *mantissa = *mantissa * 10 + d;
      ++*significant;
    } else {
      ++*dropped;
    }
  }
  return t->at - begin;
}

static bool take_exponent(text_t *t, int64_t *exponent) {
  bool negative = take(t, '-');
  if (!negative) take(t, '+');
  if (!digit(t)) return false;
  int64_t e = 0;
  for (; digit(t); t->at++)
    if (e < EXPONENT_MAX) e = e * 10 + (*t->at - '0');
  *exponent += negative ? -e : e;
  return true;
}

/* mantissa * 10^exponent. Exact factors give the correctly rounded double (Clinger, PLDI 1990); beyond them
 * the wider type keeps the error far below a float's last bit. */
static double scaled(uint64_t mantissa, int64_t exponent) {
  static const double exact[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (mantissa <= UINT64_C(1) << 53 && exponent >= -22 && exponent <= 22)
    return exponent < 0 ? (double)mantissa / exact[-exponent] : (double)mantissa * exact[exponent];
  long double power = 1.0L, factor = 10.0L;
  for (int64_t e = exponent < 0 ? -exponent : exponent; e > 0; e >>= 1, factor *= factor)
    if (e & 1) power *= factor;
  long double value = (long double)mantissa;
  return (double)(exponent < 0 ? value / power : value * power);
}

ls_number_t ls_number_parse(const char *text, size_t len, double *value) {
  text_t t = {text, text + len};
  bool negative = take(&t, '-');
  if (!negative) take(&t, '+');
  uint64_t mantissa = 0;
  int significant = 0;
  int64_t whole_dropped = 0, part_dropped = 0;
  int64_t whole = take_digits(&t, &mantissa, &significant, &whole_dropped), part = 0;
  if (take(&t, '.')) part = take_digits(&t, &mantissa, &significant, &part_dropped);
  if (whole + part == 0) return LS_NUMBER_BAD;
  int64_t exponent = whole_dropped - (part - part_dropped);
  if ((take(&t, 'e') || take(&t, 'E')) && !take_exponent(&t, &exponent)) return LS_NUMBER_BAD;
  if (t.at != t.end) return LS_NUMBER_BAD;

  double v = 0.0;
  if (mantissa != 0) {
    /* 10^400 is out of range for any 19 digits, 10^-400 is zero: the powers below stay inside
     * the wider type. */
    if (exponent > 400) return LS_NUMBER_RANGE;
    if (exponent >= -400) v = scaled(mantissa, exponent);
  }
  if (!(v < 0x1.ffffffp127)) return LS_NUMBER_RANGE; /* from here on the nearest float is infinity */
  *value = negative ? -v : v;
  return LS_NUMBER_OK;
}

/* Exactly `count` digits with a value in [min, max]. */
static bool take_field(text_t *t, int count, int min, int max) {
  int v = 0;
  for (int i = 0; i < count; i++, t->at++) {
    if (!digit(t)) return false;
    v = v * 10 + (*t->at - '0');
  }
  return v >= min && v <= max;
}

static bool take_time(text_t *t) {
  if (!take_field(t, 2, 0, 24) || !take(t, ':') || !take_field(t, 2, 0, 59)) return false;
  if (take(t, ':')) {
    if (!take_field(t, 2, 0, 60)) return false;
    if (take(t, '.')) {
      if (!digit(t)) return false;
      while (digit(t))
        t->at++;
    }
  }
  if (take(t, 'Z')) return true;
  if (!take(t, '+') && !take(t, '-')) return true;
  if (!take_field(t, 2, 0, 23)) return false;
  take(t, ':');
  return take_field(t, 2, 0, 59);
}

const char *const ls_date_part_names[] = {"year",    "month", "day",    "weekday",
                                          "yearday", "hour",  "minute", NULL};

/* Days of the Gregorian calendar from March 1 of the year 0 on (Hinnant, "chrono-compatible low-level date algorithms"). */
static int64_t day_number(int year, int month, int day) {
  int64_t y = month > 2 ? year : year - 1;
  int64_t era = (y >= 0 ? y : y - 399) / 400, in_era = y - era * 400;
  int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year;
}

static int number_at(const char *text, int count) {
  int v = 0;
  for (int i = 0; i < count; i++)
    v = v * 10 + (text[i] - '0');
  return v;
}

bool ls_number_date(const char *text, size_t len, double part[LS_DATE_PARTS], bool *timed) {
  if (!ls_number_is_date(text, len)) return false;
  int year = number_at(text, 4), month = number_at(text + 5, 2), day = number_at(text + 8, 2);
  int64_t number = day_number(year, month, day);
  int64_t next = month < 12 ? day_number(year, month + 1, 1) : day_number(year + 1, 1, 1);
  if (number >= next) return false;
  *timed = len > 10;
  part[LS_DATE_YEAR] = year;
  part[LS_DATE_MONTH] = month;
  part[LS_DATE_DAY] = day;
  part[LS_DATE_WEEKDAY] =
      (double)((number + 72) % 7); /* March 1 of the year 0 was a Wednesday; 10 weeks keep it above 0 */
  part[LS_DATE_YEARDAY] = (double)(number - day_number(year, 1, 1) + 1);
  part[LS_DATE_HOUR] = *timed ? number_at(text + 11, 2) : 0;
  part[LS_DATE_MINUTE] = *timed ? number_at(text + 14, 2) : 0;
  return true;
}

bool ls_number_is_date(const char *text, size_t len) {
  text_t t = {text, text + len};
  if (!take_field(&t, 4, 0, 9999) || !take(&t, '-') || !take_field(&t, 2, 1, 12) || !take(&t, '-') ||
      !take_field(&t, 2, 1, 31))
    return false;
  if (t.at == t.end) return true;
  if (!take(&t, 'T') && !take(&t, ' ')) return false;
  return take_time(&t) && t.at == t.end;
}

double ls_number_seconds(const char *text, size_t len) {
  double seconds =
      86400.0 * (double)day_number(number_at(text, 4), number_at(text + 5, 2), number_at(text + 8, 2));
  const char *at = text + 16, *end = text + len;
  if (len <= 10) return seconds;
  seconds += 3600.0 * number_at(text + 11, 2) + 60.0 * number_at(text + 14, 2);
  if (at < end && *at == ':') {
    seconds += number_at(at + 1, 2);
    at += 3;
  }
  if (at < end && *at == '.')
    for (double part = 0.1; ++at < end && *at >= '0' && *at <= '9'; part /= 10)
      seconds += part * (*at - '0');
  if (at == end || *at == 'Z') return seconds;
  const int minutes = 60 * number_at(at + 1, 2) + number_at(end - 2, 2);
  return seconds - 60.0 * (*at == '-' ? -minutes : minutes);
}
