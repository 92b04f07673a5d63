/* A variant's share of its machine's peak: the rate of its arithmetic over that of the fastest matrix product that the
 * profile has for its device. */
#include "bench/bench.h"
#include "graph/ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Products (rows, in) x (out, in). */
static double rate_of(const ls_profile_key_t *key, const ls_time_t *time) {
  bool product = key->dim[0] > 0 && key->dim[1] == key->dim[3];
  return product ? 2.0 * (double)key->dim[0] * (double)key->dim[1] * (double)key->dim[2] * 1e9 / time->ns
                 : NAN;
}

/* The backend as ls_backend_key names it for keys: fp32 is not said. */
static double peak_of(const ls_profile_t *profile, const char *backend, const char *precision, int threads) {
  char wanted[64], words[LS_PROFILE_KEY_BYTES];
  double peak = NAN;
  bool plain = strcmp(precision, ls_math_names[LS_MATH_FP32]) == 0;
  snprintf(wanted, sizeof wanted, "%s%s%s", backend, plain ? "" : " ", plain ? "" : precision);
  for (int i = 0; i < ls_profile_time_count(profile); i++) {
    ls_time_t time;
    ls_profile_key_t key;
    if (!ls_profile_key_read(ls_profile_time_at(profile, i, &time), LS_KEY_OP, words, &key)) continue;
    if (strcmp(key.backend, wanted) || strcmp(key.name, ls_op_linear.name) || key.threads != threads)
      continue;
    double rate = rate_of(&key, &time);
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
