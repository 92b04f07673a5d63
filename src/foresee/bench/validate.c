/* Do several ranks train the same network as one? The study's three criteria, and the strict one: the same
 * bits. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

#define LOSS_LIMIT        0.01
#define CORRELATION_LIMIT 0.95
#define WEIGHT_LIMIT      1e-4

/* Correlation of the gradient norms of equally many steps; NAN when the curves do not fit. */
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

/* The mean absolute difference; NAN where parameters are not known. */
static double weight_difference(const ls_bench_trained_t *one, const ls_bench_trained_t *several) {
  double sum = 0;
  if (one->count == 0 || one->count != several->count) return NAN;
  for (int64_t i = 0; i < one->count; i++)
    sum += fabs((double)one->params[i] - (double)several->params[i]);
  return sum / (double)one->count;
}

json_t *ls_bench_validate(const ls_bench_trained_t *one, const ls_bench_trained_t *several) {
  const json_t *a = one->measurement, *b = several->measurement;
  const char *hash = hash_of(a), *other = hash_of(b);
  double loss = fabs(ls_bench_number(a, "curves.final_loss") - ls_bench_number(b, "curves.final_loss"));
  double correlation = curve_correlation(a, b), weight = weight_difference(one, several);
  /* Written so that a NaN fails. */
  bool loss_ok = loss<LOSS_LIMIT, correlation_ok = correlation> CORRELATION_LIMIT;
  bool weight_ok = weight < WEIGHT_LIMIT;
  bool identical = hash && other && *hash && strcmp(hash, other) == 0;
  bool reproducible = shards_of(a) > 0 && shards_of(a) == shards_of(b);
  return json_pack("{s:o, s:b, s:o, s:b, s:o, s:b, s:b, s:b, s:b}", "final_loss_difference",
                   ls_json_number(loss), "final_loss_ok", loss_ok, "grad_norm_correlation",
                   ls_json_number(correlation), "grad_norm_ok", correlation_ok, "weight_difference_mean_abs",
                   ls_json_number(weight), "weight_ok", weight_ok, "reproducible", reproducible, "identical",
                   identical, "same_network",
                   loss_ok && correlation_ok && weight_ok && (identical || !reproducible));
}

const char *ls_bench_validation_verdict(const json_t *v) {
  if (json_is_true(json_object_get(v, "reproducible")))
    return json_is_true(json_object_get(v, "identical")) ? "identical across ranks"
                                                         : "NOT identical across ranks";
  return json_is_true(json_object_get(v, "same_network")) ? "same network" : "NOT the same network";
}
