/* How much of what the machine can do a variant uses: the rate of its arithmetic over the fastest matrix
 * product that the profile knows of its device. */
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Products (rows, in) x (out, in) without attributes after the op's name. */
static double rate_of(const char *key, const char *start, const ls_time_t *time) {
  long long rows, in, out, again;
  size_t len = strlen(start);
  if (strncmp(key, start, len) != 0 ||
      sscanf(key + len, "f32 (%lld, %lld) f32 (%lld, %lld)", &rows, &in, &out, &again) != 4 || again != in)
    return NAN;
  return 2.0 * (double)rows * (double)in * (double)out * 1e9 / time->ns;
}

/* The backend as ls_backend_key names it for keys: fp32 is not said. */
static double peak_of(const ls_profile_t *profile, const char *backend, const char *precision, int threads) {
  char start[64];
  double peak = NAN;
  bool plain = strcmp(precision, ls_math_names[LS_MATH_FP32]) == 0;
  snprintf(start, sizeof start, "op %s%s%s t%d linear ", backend, plain ? "" : " ", plain ? "" : precision,
           threads);
  for (int i = 0; i < ls_profile_time_count(profile); i++) {
    ls_time_t time;
    const char *key = ls_profile_time_at(profile, i, &time);
    double rate = rate_of(key, start, &time);
    if (isfinite(rate) && !(peak >= rate)) peak = rate;
  }
  return peak;
}

void ls_bench_peak(json_t *document, const ls_profile_t *profile) {
  json_t *variant;
  size_t i;
  json_array_foreach(json_object_get(document, "variants"), i, variant) {
    const char *backend = json_string_value(json_object_get(variant, "backend"));
    const char *precision = json_string_value(json_object_get(variant, "precision"));
    double threads = ls_bench_number(variant, "threads_per_rank"),
           own = ls_bench_number(variant, "flops_per_s_per_rank");
    if (!backend || !precision || !isfinite(own)) continue;
    double peak = peak_of(profile, backend, precision, isfinite(threads) ? (int)threads : 1);
    if (!isfinite(peak)) continue;
    json_object_set_new(
        variant, "utilisation",
        json_pack("{s:f, s:f}", "peak_flops_per_s", peak, "peak_flops_percent", 100 * own / peak));
  }
}
