#include "documents.h"

const ls_bench_method_t plain_method = {.config = "made.yaml",
                                        .repetitions = 5,
                                        .per_process = 1,
                                        .steps = 100,
                                        .warmup_steps = 10,
                                        .order_seed = 1,
                                        .margin_percent = 5,
                                        .control_pairs = 0,
                                        .control_repetitions = 5,
                                        .cpu_throttles_before = -1,
                                        .cpu_throttles_after = -1};

json_t *made_variant(int key, int batch, int ranks, const char *strategy, const double *step_us, int count) {
  json_t *repetitions = json_array();
  char name[64], series[32];
  snprintf(series, sizeof series, "%d x %s", ranks, strategy);
  snprintf(name, sizeof name, "batch %d, %s", key, series);
  for (int i = 0; i < count; i++)
    json_array_append_new(repetitions,
                          json_pack("{s:{s:f, s:f, s:f}, s:f, s:n, s:f, s:f, s:s, s:i}", "step_time_us",
                                    "mean", step_us[i], "median", step_us[i], "p95", step_us[i],
                                    "samples_per_s", batch * 1e6 / step_us[i], "step_parts_us", "grad_norm",
                                    1.5, "loss", 0.5, "params_xxh3", "00", "gpu_limit", -1));
  return json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:s, s:i, s:i, s:{s:i}, s:i, s:[], s:o}", "name",
                   name, "series", series, "key", key, "global_batch", batch, "ranks", ranks, "strategy",
                   strategy, "precision", "fp32", "backend", "cpu", "threads_per_rank", 1, "params", 500,
                   "bytes_per_device", "total", 1000, "flops_per_step", 2000, "collectives", "repetitions",
                   repetitions);
}

json_t *made_document(json_t *variants, json_t *control, const ls_bench_method_t *method) {
  json_t *document = NULL;
  assert_int_equal(ls_bench_document(NULL, method, variants, control, &document), LS_OK);
  json_decref(variants);
  json_decref(control);
  return document;
}
