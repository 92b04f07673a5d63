/* Numbers as people read them: few digits, separated thousands, units. */
#include "base/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DECIMALS_MAX = 3 };

/* How many decimals show `digits` significant digits of `value`. */
static int decimals_for(double value, int digits) {
  if (!isfinite(value) || value == 0) return 0;
  int decimals = digits - 1 - (int)floor(log10(fabs(value)));
  return decimals < 0 ? 0 : decimals;
}

static ls_text_t LS_PRINTF(1, 2) made(const char *format, ...) {
  ls_text_t text;
  va_list args;
  va_start(args, format);
  vsnprintf(text.s, sizeof text.s, format, args);
  va_end(args);
  return text;
}

/* Puts commas between the thousands of a number's digits. */
static ls_text_t separated(const char *plain) {
  ls_text_t text = {""};
  size_t to = 0;
  const int point = (int)strcspn(plain, ".");
  for (int i = 0; plain[i]; i++) {
    const int left = point - 1 - i; /* digits before the point that follow */
    text.s[to++] = plain[i];
    if (left > 0 && left % 3 == 0 && isdigit((unsigned char)plain[i])) text.s[to++] = ',';
  }
  return text;
}

ls_text_t ls_text_count(double value, int decimals) {
  if (!isfinite(value) || fabs(value) >= 1e18) return made("%s", "");
  return separated(made("%.*f", decimals, value).s);
}

ls_text_t ls_text_whole(int64_t value) {
  return separated(made("%" PRId64, value).s);
}

ls_text_t ls_text_bytes(int64_t bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1000 && unit < LS_COUNT(units) - 1; unit++)
    value /= 1000;
  return made("%.*f %s", unit == 0 ? 0 : 2, value, units[unit]);
}

ls_text_t ls_text_time(double ns) {
  if (!isfinite(ns)) return made("%s", "");
  if (ns < 1e3) return made("%.0f ns", ns);
  if (ns < 1e6) return made("%.1f us", ns / 1e3);
  return ns < 1e9 ? made("%.2f ms", ns / 1e6) : made("%.2f s", ns / 1e9);
}

ls_text_t ls_text_digits(double value) {
  bool plain = !isfinite(value) || value == 0 || (fabs(value) >= 1e-3 && fabs(value) < 1e7);
  return plain ? ls_text_count(value, decimals_for(value, 3)) : made("%.3g", value);
}

ls_text_t ls_text_p(double p) {
  if (!isfinite(p)) return made("%s", "");
  return p < 0.001 ? made("< 0.001") : made("%.*f", p < 0.0995 ? 3 : 2, p);
}

ls_text_t ls_text_percent(double percent, int decimals, bool sign) {
  if (!isfinite(percent)) return made("%s", "");
  return made("%s%s %%", sign && percent >= 0 ? "+" : "", ls_text_count(percent, decimals).s);
}

ls_text_t ls_text_ratio(double value, double low, double high) {
  int d = fabs(value) < 0.0995 ? 3 : 2;
  if (!isfinite(value)) return made("%s", "");
  if (!isfinite(low)) return made("%.*fx", d, value);
  return isfinite(high) ? made("%.*fx (%.*f to %.*f)", d, value, d, low, d, high)
                        : made("%.*fx (above %.*f)", d, value, d, low);
}

static ls_text_t within(double value, double low, double high) {
  double half = (high - low) / 2;
  if (!isfinite(value) || !isfinite(half) || half <= 0) return ls_text_digits(value);
  double last = pow(10, floor(log10(half)) - 1); /* of the digits that mean something */
  int decimals = decimals_for(half, 2);
  if (last > 1) value = round(value / last) * last;
  return ls_text_count(value, decimals > DECIMALS_MAX ? DECIMALS_MAX : decimals);
}

ls_text_t ls_text_around(double value, double low, double high, double unit, const char *sign) {
  double half = (high - low) / 2 / unit;
  if (!isfinite(value) || !isfinite(half) || half <= 0) return ls_text_digits(value / unit);
  return made("%s %s %s", within(value / unit, -half, half).s, sign, within(half, -half, half).s);
}

ls_text_unit_t ls_text_unit(double us) {
  if (us >= 1e6) return (ls_text_unit_t){"s", 1e6};
  return us >= 1e3 ? (ls_text_unit_t){"ms", 1e3} : (ls_text_unit_t){"us", 1};
}

const char *ls_text_between(int i, int count) {
  return i == 0 ? "" : i + 1 == count ? " and " : ", ";
}
