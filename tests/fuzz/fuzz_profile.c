/* Fuzz target: profile files. What is accepted (without a checksum, as descriptions by hand are, or else no
 * change would reach the rest) interpolates to ordered finite times and is accepted again as it was written.
 */
#include "machine/profile.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void check_time(const ls_time_t *time) {
  check(isfinite(time->ns) && isfinite(time->low_ns) && isfinite(time->high_ns));
  check(time->low_ns >= 0 && time->low_ns <= time->ns && time->ns <= time->high_ns);
}

static void use(const ls_profile_t *profile) {
  static const double sizes[] = {0, 1, 1000, 1e6, 1e9};
  ls_time_t time;
  const ls_curve_point_t *points;
  int count;
  for (int i = 0; ls_profile_time_at(profile, i, &time); i++)
    check_time(&time);
  for (int i = 0; i < ls_profile_curve_count(profile); i++) {
    const char *key = ls_profile_curve_at(profile, i, &points, &count);
    check(key && count >= 1);
    for (int s = 0; s < LS_COUNT(sizes); s++) {
      check(ls_profile_interpolate(profile, key, sizes[s], &time));
      check(time.ns >= 0 && time.low_ns <= time.ns && time.ns <= time.high_ns);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  json_t *json = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
  ls_ctx_t *ctx = json ? ls_ctx_create(NULL, NULL) : NULL;
  ls_profile_t *profile, *again = NULL;
  if (ctx) {
    json_object_del(json, "checksum");
    if (ls_profile_from_json(ctx, "input.json", json, NULL, &profile) == LS_OK) {
      use(profile);
      json_t *written = ls_profile_json(profile);
      check(written && ls_profile_from_json(NULL, "again", written, NULL, &again) == LS_OK);
      json_t *second = ls_profile_json(again);
      check(json_equal(written, second));
      json_decref(second);
      json_decref(written);
      ls_profile_destroy(again);
      ls_profile_destroy(profile);
    } else {
      check(ls_ctx_error_count(ctx) > 0);
    }
  }
  ls_ctx_destroy(ctx);
  json_decref(json);
  return 0;
}
