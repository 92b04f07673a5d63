/* The rules of the study that lockstep answers: thresholds on parameters and batch, with the study's own
 * constants and strategy names. Kept as they were published, for comparison with what is priced and measured.
 */
#include "plan/plan.h"

#include <math.h>
#include <stdio.h>

static const double small_max_params = 1e6, medium_max_params = 5e6, large_min_params = 10e6;
enum { BATCH_MIN = 64, BATCH_OPTIMAL = 128 };
static const double memory_margin = 0.8, efficiency_min = 0.6;

/* Base cost of the exchange, 8 ms for every million parameters and 0.1 ms for every sample; computing is
 * halved. The study leaves its estimate of the computing time open; the one here is its measured large
 * network's 25.7 ms for 6.9 million parameters at batch 32, in proportion to both. */
static double efficiency(double params, double batch) {
  double communication_ms = 50 + params / 1e6 * 8 + batch * 0.1;
  double compute_ms = 25.7 * (params / 6.9e6) * (batch / 32);
  return compute_ms / (compute_ms / 2 + communication_ms) / 2;
}

/* The study states a confidence without a formula: here the distance to the nearest threshold on parameters,
 * in powers of two, from 0.5 (on it) to 0.95. */
static double confidence(double params) {
  double nearest = INFINITY;
  const double thresholds[] = {small_max_params, medium_max_params, large_min_params};
  for (int i = 0; i < LS_COUNT(thresholds); i++)
    nearest = fmin(nearest, fabs(log2(params / thresholds[i])));
  return fmin(0.5 + 0.225 * nearest, 0.95);
}

static void answer(ls_thresholds_t *a, const char *strategy, const char *reasoning) {
  a->strategy = strategy;
  snprintf(a->reasoning, sizeof a->reasoning, "%s", reasoning);
}

void ls_plan_thresholds(const ls_config_t *config, int64_t params, int devices, int64_t memory_bytes,
                        ls_thresholds_t *a) {
  int64_t batch = config->train.batch;
  double n = (double)params;
  *a = (ls_thresholds_t){.params = n, .memory_mb = n * 4 * 4 / (1024 * 1024), .efficiency = NAN};
  a->confidence = confidence(n);
  double batch_bytes = n * 16 + (double)batch * 4 * (double)ls_model_inputs(&config->model);
  if (devices < 2) {
    answer(a, "single_gpu", "Multi-GPU hardware not available");
  } else if (memory_bytes > 0 && batch_bytes > (double)memory_bytes * memory_margin) {
    a->strategy = "single_gpu";
    snprintf(a->reasoning, sizeof a->reasoning, "Memory requirements (%.1fGB) exceed safe limits",
             batch_bytes * 1e-9);
  } else if (n < small_max_params) {
    answer(a, "single_gpu", "Model too small - communication overhead exceeds benefits");
  } else if (n < medium_max_params) {
    if (batch >= BATCH_OPTIMAL) a->efficiency = efficiency(n, (double)batch);
    if (a->efficiency > efficiency_min) {
      a->strategy = "evaluate_multi_gpu";
      snprintf(a->reasoning, sizeof a->reasoning,
               "Large batch size may benefit (estimated %.0f%% efficiency)", 100 * a->efficiency);
    } else {
      answer(a, "single_gpu", "Medium model with insufficient batch size for multi-GPU efficiency");
    }
  } else if (n >= large_min_params) {
    if (batch >= BATCH_MIN)
      answer(a, "multi_gpu", "Large model benefits from parallelization");
    else
      answer(a, "single_gpu", "Increase batch size for better multi-GPU efficiency");
  } else {
    answer(a, "benchmark_required", "Model in evaluation zone - requires empirical testing");
  }
}
