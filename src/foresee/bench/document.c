/* Makes a document of measurements: describes every variant (document_variant.c), compares it with its reference
 * (document_scaling.c), adds the control, and decides whether the run is void. */
#include "bench/document.h"

#include <math.h>
#include <string.h>

/* The same variant twice: how often the test says "different" although nothing is. */
static json_t *control_json(const ls_bench_method_t *method, const json_t *p_values) {
  size_t pairs = json_array_size(p_values), alarms = 0;
  for (size_t i = 0; i < pairs; i++)
    alarms += json_number_value(json_array_get(p_values, i)) < LS_BENCH_ALPHA;
  return json_pack("{s:I, s:I, s:I, s:o, s:f, s:O}", "pairs", (json_int_t)pairs, "repetitions_per_side",
                   (json_int_t)method->control_repetitions, "false_alarms", (json_int_t)alarms,
                   "false_alarm_rate", ls_json_number(pairs > 0 ? (double)alarms / (double)pairs : NAN),
                   "alpha", LS_BENCH_ALPHA, "p_values", p_values);
}

static void void_json(const ls_bench_build_t *b, json_t *document) {
  int64_t gpu = -1, before = b->method->cpu_throttles_before, after = b->method->cpu_throttles_after;
  const json_t *variant, *repetition;
  size_t i, k;
  bool any_gpu = false;
  json_array_foreach(b->variants, i, variant) {
    const char *backend = json_string_value(json_object_get(variant, "backend"));
    if (backend && !strcmp(backend, "cuda")) any_gpu = true;
    json_array_foreach(json_object_get(variant, "repetitions"), k, repetition) {
      double bits = ls_bench_number(repetition, "gpu_limit");
      if (bits >= 0) gpu = (gpu < 0 ? 0 : gpu) | (int64_t)bits;
    }
  }
  bool cpu_known = before >= 0 && after >= 0, cpu_acted = cpu_known && after != before;
  json_t *reasons = json_array();
  char text[64], line[96];
  if (gpu > 0) {
    snprintf(line, sizeof line, "GPU: %s", ls_bench_gpu_limit_text(gpu, text));
    json_array_append_new(reasons, json_string(line));
  }
  if (cpu_acted)
    json_array_append_new(reasons, json_string("CPU: heat (throttle counters rose during the run)"));
  const char *gpu_text = !any_gpu ? "not used" : gpu < 0 ? "unknown" : gpu > 0 ? "acted" : "none";
  json_object_set_new(document, "void", json_boolean(gpu > 0 || cpu_acted));
  json_object_set_new(document, "void_reasons", reasons);
  json_object_set_new(document, "limits",
                      json_pack("{s:s, s:s}", "cpu",
                                !cpu_known  ? "unknown"
                                : cpu_acted ? "acted"
                                            : "none",
                                "gpu", gpu_text));
}

static json_t *method_json(const ls_bench_method_t *m) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:i, s:s, s:b}", "repetitions",
                   (json_int_t)m->repetitions, "repetitions_per_process", (json_int_t)m->per_process, "steps",
                   (json_int_t)m->steps, "warmup_steps", (json_int_t)m->warmup_steps, "order_seed",
                   (json_int_t)m->order_seed, "confidence", LS_BENCH_CONFIDENCE, "alpha", LS_BENCH_ALPHA,
                   "margin_percent", m->margin_percent, "outlier_limit", LS_BENCH_OUTLIER_LIMIT,
                   "bootstrap_resamples", LS_BENCH_RESAMPLES, "order",
                   "randomised blocks: every round measures each variant once", "weak", m->weak);
}

ls_status_t ls_bench_document(ls_ctx_t *ctx, const ls_bench_method_t *method, const json_t *variants,
                              const json_t *control, json_t **out) {
  ls_bench_build_t b = {.ctx = ctx,
                        .method = method,
                        .variants = json_deep_copy(variants),
                        .seed = (uint64_t)method->order_seed};
  json_t *document = json_pack("{s:s, s:i, s:s, s:o}", "command", "bench", "version", LS_BENCH_VERSION,
                               "config", method->config, "method", method_json(method));
  json_t *variant;
  size_t i;
  ls_status_t status =
      b.variants && document ? LS_OK : ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the document");
  json_array_foreach(b.variants, i, variant) {
    if (status == LS_OK && !ls_bench_failed(variant)) status = ls_bench_describe_variant(&b, variant);
  }
  json_array_foreach(b.variants, i, variant) {
    const json_t *reference =
        status == LS_OK && !ls_bench_failed(variant) ? ls_bench_reference(&b, variant) : NULL;
    if (reference && reference != variant) status = ls_bench_against_reference(&b, variant, reference);
  }
  if (status == LS_OK) {
    json_object_set_new(document, "control", control_json(method, control));
    void_json(&b, document);
    if (method->incomplete) json_object_set_new(document, "incomplete", json_string(method->incomplete));
    json_object_set(document, "variants", b.variants);
    *out = json_incref(document);
  }
  json_decref(document);
  json_decref(b.variants);
  return status;
}
