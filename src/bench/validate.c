/* Do several ranks train the same network as one? The study's three criteria. */
#include "bench/bench.h"

#include <math.h>

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
  v->ok = v->loss_ok && v->grad_norm_ok && v->weight_ok;
}

json_t *ls_bench_validation_json(const ls_bench_validation_t *v) {
  return json_pack("{s:o, s:b, s:o, s:b, s:o, s:b, s:b}", "final_loss_difference",
                   ls_bench_json_number(v->loss_difference), "final_loss_ok", v->loss_ok,
                   "grad_norm_correlation", ls_bench_json_number(v->grad_norm_correlation), "grad_norm_ok",
                   v->grad_norm_ok, "weight_difference_mean_abs", ls_bench_json_number(v->weight_difference),
                   "weight_ok", v->weight_ok, "same_network", v->ok);
}
