/* Do several ranks train the same network as one? The study's three criteria, and the strict one: the same
 * bits. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

#define LOSS_LIMIT        0.01
#define CORRELATION_LIMIT 0.95
#define WEIGHT_LIMIT      1e-4

/* Of the gradient norms of equally many steps; NAN when the curves do not fit. */
static double curve_correlation(const json_t *one, const json_t *several) {
  const json_t *a = json_object_get(json_object_get(one, "curves"), "grad_norm");
  const json_t *b = json_object_get(json_object_get(several, "curves"), "grad_norm");
  size_t n = json_array_size(a);
  if (n < 2 || n != json_array_size(b)) return NAN;
  double *x = ls_alloc_array(NULL, n, sizeof *x), *y = ls_alloc_array(NULL, n, sizeof *y), result = NAN;
  if (x && y) {
    for (size_t i = 0; i < n; i++) {
      x[i] = json_number_value(json_array_get(a, i));
      y[i] = json_number_value(json_array_get(b, i));
    }
    result = ls_stat_correlation(x, y, (int64_t)n);
  }
  ls_free(y);
  ls_free(x);
  return result;
}

static const char *hash_of(const json_t *measurement) {
  const json_t *first = json_array_get(json_object_get(measurement, "repetitions"), 0);
  return json_string_value(json_object_get(first, "params_xxh3"));
}

static double shards_of(const json_t *measurement) {
  double shards = ls_bench_number(measurement, "options.shards");
  return isfinite(shards) ? shards : 0;
}

void ls_bench_validate(const json_t *one, const json_t *several, const float *params_one,
                       const float *params_several, int64_t count, ls_bench_validation_t *v) {
  *v = (ls_bench_validation_t){.weight_difference = NAN};
  v->loss_difference =
      fabs(ls_bench_number(one, "curves.final_loss") - ls_bench_number(several, "curves.final_loss"));
  v->grad_norm_correlation = curve_correlation(one, several);
  if (count > 0) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
      sum += fabs((double)params_one[i] - (double)params_several[i]);
    v->weight_difference = sum / (double)count;
  }
  /* Written so that a NaN fails. */
  v->loss_ok = v->loss_difference < LOSS_LIMIT;
  v->grad_norm_ok = v->grad_norm_correlation > CORRELATION_LIMIT;
  v->weight_ok = v->weight_difference < WEIGHT_LIMIT;
  const char *hash = hash_of(one), *other = hash_of(several);
  v->identical = hash && other && *hash && strcmp(hash, other) == 0;
  v->reproducible = shards_of(one) > 0 && shards_of(one) == shards_of(several);
  v->ok = v->loss_ok && v->grad_norm_ok && v->weight_ok && (v->identical || !v->reproducible);
}

json_t *ls_bench_validation_json(const ls_bench_validation_t *v) {
  return json_pack("{s:o, s:b, s:o, s:b, s:o, s:b, s:b, s:b, s:b}", "final_loss_difference",
                   ls_json_number(v->loss_difference), "final_loss_ok", v->loss_ok, "grad_norm_correlation",
                   ls_json_number(v->grad_norm_correlation), "grad_norm_ok", v->grad_norm_ok,
                   "weight_difference_mean_abs", ls_json_number(v->weight_difference), "weight_ok",
                   v->weight_ok, "reproducible", v->reproducible, "identical", v->identical, "same_network",
                   v->ok);
}

const char *ls_bench_validation_verdict(const json_t *v) {
  if (json_is_true(json_object_get(v, "reproducible")))
    return json_is_true(json_object_get(v, "identical")) ? "identical across ranks"
                                                         : "NOT identical across ranks";
  return json_is_true(json_object_get(v, "same_network")) ? "same network" : "NOT the same network";
}
