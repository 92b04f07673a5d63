/* Numbers as people read them: few digits, separated thousands, units. */
#include "bench/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DECIMALS_MAX = 3 };

/* How many decimals show `digits` significant digits of `value`. */
static int decimals_for(double value, int digits) {
  if (!isfinite(value) || value == 0) return 0;
  int decimals = digits - 1 - (int)floor(log10(fabs(value)));
  return decimals < 0 ? 0 : decimals;
}

ls_text_t ls_text_count(double value, int decimals) {
  ls_text_t text = {""};
  char plain[64];
  size_t to = 0;
  if (!isfinite(value) || fabs(value) >= 1e18) return text;
  int length = snprintf(plain, sizeof plain, "%.*f", decimals, value);
  int point = (int)strcspn(plain, ".");
  for (int i = 0; i < length; i++) {
    text.s[to++] = plain[i];
    int left = point - 1 - i; /* digits before the point that follow */
    if (left > 0 && left % 3 == 0 && isdigit((unsigned char)plain[i])) text.s[to++] = ',';
  }
  text.s[to] = '\0';
  return text;
}

ls_text_t ls_text_digits(double value) {
  ls_text_t text = {""};
  if (isfinite(value) && value != 0 && (fabs(value) < 1e-3 || fabs(value) >= 1e7))
    snprintf(text.s, sizeof text.s, "%.3g", value);
  else
    text = ls_text_count(value, decimals_for(value, 4));
  return text;
}

ls_text_t ls_text_bytes(double bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  ls_text_t text = {""};
  int unit = 0;
  if (!isfinite(bytes)) return text;
  for (; fabs(bytes) >= 999.5 && unit + 1 < LS_COUNT(units); unit++)
    bytes /= 1000;
  snprintf(text.s, sizeof text.s, "%.*f %s", unit > 0 && fabs(bytes) < 99.95, bytes, units[unit]);
  return text;
}

ls_text_t ls_text_p(double p) {
  ls_text_t text = {""};
  if (!isfinite(p)) return text;
  if (p < 0.001)
    snprintf(text.s, sizeof text.s, "< 0.001");
  else
    snprintf(text.s, sizeof text.s, "%.*f", p < 0.0995 ? 3 : 2, p);
  return text;
}

ls_text_t ls_text_correlation(double r) {
  ls_text_t text = {""};
  if (isfinite(r)) snprintf(text.s, sizeof text.s, r > 0.9999 ? "> 0.9999" : "%.4f", r);
  return text;
}

ls_text_t ls_text_percent(double percent, int decimals, bool sign) {
  ls_text_t text = {""};
  if (isfinite(percent))
    snprintf(text.s, sizeof text.s, "%s%.60s %%", sign && percent >= 0 ? "+" : "",
             ls_text_count(percent, decimals).s);
  return text;
}

ls_text_t ls_text_ratio(double value, double low, double high) {
  ls_text_t text = {""};
  if (!isfinite(value)) return text;
  int decimals = fabs(value) < 0.0995 ? 3 : 2;
  int used = snprintf(text.s, sizeof text.s, "%.*fx", decimals, value);
  if (isfinite(low) && isfinite(high))
    snprintf(text.s + used, sizeof text.s - (size_t)used, " (%.*f to %.*f)", decimals, low, decimals, high);
  else if (isfinite(low))
    snprintf(text.s + used, sizeof text.s - (size_t)used, " (above %.*f)", decimals, low);
  return text;
}

ls_text_t ls_text_around(double value, double low, double high, double unit, const char *sign) {
  ls_text_t text = {""};
  double half = (high - low) / 2 / unit;
  value /= unit;
  if (!isfinite(value)) return text;
  if (!isfinite(half) || half <= 0) return ls_text_digits(value);
  int decimals = decimals_for(half, 2);
  if (decimals > DECIMALS_MAX) decimals = DECIMALS_MAX;
  snprintf(text.s, sizeof text.s, "%.40s %.4s %.40s", ls_text_count(value, decimals).s, sign,
           ls_text_count(half, decimals).s);
  return text;
}

ls_text_unit_t ls_text_unit(double us) {
  if (us >= 1e6) return (ls_text_unit_t){"s", 1e6};
  return us >= 1e3 ? (ls_text_unit_t){"ms", 1e3} : (ls_text_unit_t){"us", 1};
}

ls_text_t ls_text_time(double us) {
  ls_text_unit_t unit = ls_text_unit(us);
  ls_text_t text = {""};
  if (isfinite(us)) snprintf(text.s, sizeof text.s, "%.60s %s", ls_text_digits(us / unit.us).s, unit.name);
  return text;
}

ls_text_t ls_text_list(const double *values, int count) {
  ls_text_t text = {""};
  size_t used = 0;
  for (int i = 0; i < count && used < sizeof text.s; i++) {
    int n = snprintf(text.s + used, sizeof text.s - used, "%s%.0f",
                     i == 0           ? ""
                     : i + 1 == count ? " and "
                                      : ", ",
                     values[i]);
    used += (size_t)n;
  }
  return text;
}

ls_text_t ls_text_number_word(double value) {
  static const char *const words[] = {"one",   "two",   "three", "four", "five",   "six",
                                      "seven", "eight", "nine",  "ten",  "eleven", "twelve"};
  ls_text_t text = {""};
  if (value >= 1 && value <= LS_COUNT(words) && value == floor(value))
    snprintf(text.s, sizeof text.s, "%s", words[(int)value - 1]);
  else
    text = ls_text_count(value, 0);
  return text;
}
