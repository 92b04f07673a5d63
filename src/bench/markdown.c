/* The document as Markdown: method, one row per variant with the study's columns and intervals, the tests,
 * the control, and what limits the numbers. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* "12.3", or "-" for what is not known. */
static void number(FILE *to, const char *format, double value, const char *unit) {
  if (!isfinite(value)) {
    fputs("-", to);
    return;
  }
  char text[64];
  snprintf(text, sizeof text, format, value);
  fprintf(to, "%s%s", text, unit);
}

static void cell(FILE *to, const char *format, double value, const char *unit) {
  number(to, format, value, unit);
  fputs(" | ", to);
}

static void interval_cell(FILE *to, const char *format, const json_t *object, const char *low,
                          const char *high) {
  number(to, format, ls_bench_number(object, low), "");
  fputs(" to ", to);
  number(to, format, ls_bench_number(object, high), "");
  fputs(" | ", to);
}

static void method(FILE *to, const json_t *d) {
  fprintf(to,
          "Configuration `%s`. %.0f repetitions of each variant (%.0f per process), each a fresh run of %.0f "
          "warm-up "
          "steps that are left out and %.0f measured steps; order: %s. Intervals are at %.0f %% (Student's t "
          "over "
          "repetitions; the speed-up's by bootstrap). Outliers: modified z-score above %.1f.\n\n",
          text_of(d, "config"), ls_bench_number(d, "method.repetitions"),
          ls_bench_number(d, "method.repetitions_per_process"), ls_bench_number(d, "method.warmup_steps"),
          ls_bench_number(d, "method.steps"), text_of(json_object_get(d, "method"), "order"),
          100 * ls_bench_number(d, "method.confidence"), ls_bench_number(d, "method.outlier_limit"));
  if (json_object_get(d, "incomplete"))
    fprintf(to, "**Incomplete**: measuring ended early, only the complete rounds before are here: %s\n\n",
            text_of(d, "incomplete"));
}

static void speed_table(FILE *to, const json_t *variants, bool predicted) {
  const json_t *v;
  size_t i;
  fprintf(to,
          "| variant | step time, mean (us) | 95 %% interval | median (us) | without outliers (us) | "
          "outliers |%s "
          "samples/s | speed-up | 95 %% interval | efficiency | bytes per device |\n",
          predicted ? " predicted (us) | 90 % interval | error |" : "");
  fprintf(to, "|---|--:|---|--:|--:|--:|%s--:|--:|---|--:|--:|\n", predicted ? "--:|---|--:|" : "");
  json_array_foreach(variants, i, v) {
    fprintf(to, "| %s | ", text_of(v, "name"));
    if (json_object_get(v, "failed")) {
      fprintf(to, "not measured: %s |\n", text_of(v, "failed"));
      continue;
    }
    cell(to, "%.1f", ls_bench_number(v, "step_time_us.mean"), "");
    interval_cell(to, "%.1f", v, "step_time_us.low", "step_time_us.high");
    cell(to, "%.1f", ls_bench_number(v, "step_time_us.median"), "");
    cell(to, "%.1f", ls_bench_number(v, "step_time_us_without_outliers.mean"), "");
    fprintf(to, "%zu of %.0f | ", json_array_size(json_object_get(v, "outliers")),
            ls_bench_number(v, "step_time_us.count"));
    if (predicted) {
      cell(to, "%.1f", ls_bench_number(v, "predicted_step_time_us.predicted"), "");
      interval_cell(to, "%.1f", v, "predicted_step_time_us.low", "predicted_step_time_us.high");
      cell(to, "%+.1f", ls_bench_number(v, "predicted_step_time_us.error_percent"), " %");
    }
    cell(to, "%.0f", ls_bench_number(v, "samples_per_s.mean"), "");
    cell(to, "%.2f", ls_bench_number(v, "scaling.speedup"), "x");
    interval_cell(to, "%.2f", v, "scaling.speedup_low", "scaling.speedup_high");
    cell(to, "%.0f", 100 * ls_bench_number(v, "scaling.efficiency"), " %");
    cell(to, "%.0f", ls_bench_number(v, "bytes_per_device.total"), "");
    fputc('\n', to);
  }
  json_array_foreach(variants, i, v) {
    if (json_object_get(v, "incomplete"))
      fprintf(to, "\n**%s** has only %.0f repetitions: %s\n", text_of(v, "name"),
              ls_bench_number(v, "step_time_us.count"), text_of(v, "incomplete"));
  }
}

static void parts_table(FILE *to, const json_t *variants) {
  static const char *const keys[] = {"input", "forward", "backward", "exposed_comm", "optimizer", "rest"};
  const json_t *v;
  size_t i;
  bool traced = false;
  json_array_foreach(variants, i, v) traced |= !strcmp(text_of(v, "step_parts_source"), "traced");
  fputs("\n## Parts of a step (us, rank 0)\n\n", to);
  if (traced)
    fputs("Traced: a captured step is one launch and hides its parts, so they come from one more repetition "
          "whose tasks are launched one by one; such a step is slower. ",
          to);
  fputs(
      "Utilisation: of the machine's fastest measured matrix product; busy: NVML's share of time in which "
      "kernels ran; energy: all devices of the variant.\n\n| variant | input | forward | backward | exposed "
      "communication | optimizer | rest | exposed of step | GFLOP/s per rank | utilisation | busy | J per "
      "step | gradient norm | loss |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
      to);
  json_array_foreach(variants, i, v) {
    if (json_object_get(v, "failed")) continue;
    const json_t *parts = json_object_get(v, "step_parts_us");
    fprintf(to, "| %s%s | ", text_of(v, "name"),
            strcmp(text_of(v, "step_parts_source"), "traced") ? "" : " (traced)");
    for (int k = 0; k < LS_COUNT(keys); k++)
      cell(to, "%.1f", ls_bench_number(parts, keys[k]), "");
    cell(to, "%.1f", 100 * ls_bench_number(parts, "exposed_comm") / ls_bench_number(v, "step_parts_total_us"),
         " %");
    cell(to, "%.2f", ls_bench_number(v, "flops_per_s_per_rank") * 1e-9, "");
    cell(to, "%.2g", ls_bench_number(v, "utilisation.peak_flops_percent"), " %");
    cell(to, "%.0f", ls_bench_number(v, "gpu.busy_percent"), " %");
    cell(to, "%.3g", ls_bench_number(v, "gpu.energy_j_per_step"), "");
    cell(to, "%.5g", ls_bench_number(v, "grad_norm"), "");
    cell(to, "%.5g", ls_bench_number(v, "loss"), "");
    fputc('\n', to);
  }
}

static void tests_table(FILE *to, const json_t *variants) {
  const json_t *v;
  size_t i;
  bool any = false;
  json_array_foreach(variants, i, v) {
    const json_t *c = json_object_get(v, "against_reference");
    if (!c) continue;
    if (!any)
      fputs("\n## Against the reference\n\n| variant | reference | difference | 95 % interval | Welch p | p "
            "without outliers "
            "| equivalence p | verdict |\n|---|---|--:|---|--:|--:|--:|---|\n",
            to);
    any = true;
    fprintf(to, "| %s | %s | ", text_of(v, "name"), text_of(json_object_get(v, "scaling"), "reference"));
    cell(to, "%+.2f", ls_bench_number(c, "difference_percent"), " %");
    interval_cell(to, "%+.2f", c, "difference_low_percent", "difference_high_percent");
    cell(to, "%.3g", ls_bench_number(c, "welch_p"), "");
    cell(to, "%.3g", ls_bench_number(v, "against_reference_without_outliers.welch_p"), "");
    cell(to, "%.3g", ls_bench_number(c, "equivalence_p"), "");
    fprintf(to, "%s (margin %g %%) |\n", text_of(c, "verdict"), ls_bench_number(c, "margin_percent"));
  }
}

static void validation_table(FILE *to, const json_t *variants) {
  const json_t *v;
  size_t i;
  bool any = false;
  json_array_foreach(variants, i, v) {
    const json_t *c = json_object_get(v, "validation");
    if (!c) continue;
    if (!any)
      fputs(
          "\n## Do several ranks train the same network?\n\nCriteria: final loss differs by less than 0.01, "
          "gradient norms correlate above 0.95, weights differ by less than 1e-4 on average. A reproducible "
          "step (parallel.reproducible) has to give identical weights, bit for bit.\n\n| variant | final "
          "loss "
          "differs by | correlation | weights differ by | identical | verdict "
          "|\n|---|--:|--:|--:|---|---|\n",
          to);
    any = true;
    fprintf(to, "| %s | ", text_of(v, "name"));
    cell(to, "%.2g", ls_bench_number(c, "final_loss_difference"), "");
    cell(to, "%.6f", ls_bench_number(c, "grad_norm_correlation"), "");
    cell(to, "%.2g", ls_bench_number(c, "weight_difference_mean_abs"), "");
    fprintf(to, "%s | %s |\n", json_is_true(json_object_get(c, "identical")) ? "yes" : "no",
            ls_bench_validation_verdict(c));
  }
}

static void collectives_table(FILE *to, const json_t *variants) {
  const json_t *v, *c;
  size_t i, k;
  bool any = false;
  json_array_foreach(variants, i, v) {
    json_array_foreach(json_object_get(v, "collectives"), k, c) {
      if (!any)
        fputs("\n## Collectives (rank 0; waiting for the slowest rank is inside)\n\n| variant | collective | "
              "bytes | time (us) "
              "| algorithm GB/s | bus GB/s |\n|---|---|--:|--:|--:|--:|\n",
              to);
      any = true;
      fprintf(to, "| %s | %s | %.0f | ", text_of(v, "name"), text_of(c, "name"),
              ls_bench_number(c, "size_bytes"));
      cell(to, "%.1f", ls_bench_number(c, "time_us"), "");
      cell(to, "%.3f", ls_bench_number(c, "algorithm_bw_bytes_per_s") * 1e-9, "");
      cell(to, "%.3f", ls_bench_number(c, "bus_bw_bytes_per_s") * 1e-9, "");
      fputc('\n', to);
    }
  }
}

static void trust(FILE *to, const json_t *d) {
  const json_t *reason;
  size_t i;
  fputs("\n## Can the numbers be trusted?\n\n", to);
  double pairs = ls_bench_number(d, "control.pairs");
  if (pairs > 0)
    fprintf(
        to,
        "- A/A control: the same variant twice, %.0f pair%s of %.0f repetitions a side: %.0f false alarm%s "
        "(%.0f %%, where at most %.0f %% are promised).\n",
        pairs, pairs == 1 ? "" : "s", ls_bench_number(d, "control.repetitions_per_side"),
        ls_bench_number(d, "control.false_alarms"),
        ls_bench_number(d, "control.false_alarms") == 1 ? "" : "s",
        100 * ls_bench_number(d, "control.false_alarm_rate"), 100 * ls_bench_number(d, "control.alpha"));
  else
    fputs("- A/A control: not run.\n", to);
  const json_t *limits = json_object_get(d, "limits");
  fprintf(to, "- Clock and heat limits: CPU %s, GPU %s.\n", text_of(limits, "cpu"), text_of(limits, "gpu"));
  if (!json_is_true(json_object_get(d, "void"))) return;
  fputs("- **The run is void**:", to);
  json_array_foreach(json_object_get(d, "void_reasons"), i, reason)
      fprintf(to, "%s %s", i > 0 ? "," : "", json_string_value(reason));
  fputs(".\n", to);
}

char *ls_bench_markdown(ls_ctx_t *ctx, const json_t *d) {
  char *text = NULL;
  size_t size_bytes = 0, i;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) {
    ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the report");
    return NULL;
  }
  const json_t *variants = json_object_get(d, "variants"), *v;
  bool predicted = false;
  json_array_foreach(variants, i, v) predicted |= json_object_get(v, "predicted_step_time_us") != NULL;
  fputs("# Benchmark\n\n", to);
  method(to, d);
  speed_table(to, variants, predicted);
  ls_bench_study_markdown(to, d);
  tests_table(to, variants);
  parts_table(to, variants);
  collectives_table(to, variants);
  validation_table(to, variants);
  trust(to, d);
  bool bad = ferror(to) != 0;
  if (fclose(to) == 0 && !bad) return text;
  ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the report");
  free(text);
  return NULL;
}
