/* The benchmark's document on a terminal: what fits; the rest is in the JSON, Markdown and HTML forms. */
#include "cli/bench.h"

#include <math.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* With its 90 % interval; "-" where the plan has no such candidate. */
static void print_predicted(const json_t *v) {
  double us = ls_bench_number(v, "predicted_step_time_us.predicted");
  char interval[48] = "";
  if (!isfinite(us)) {
    printf(" %11s %19s", "-", interval);
    return;
  }
  snprintf(interval, sizeof interval, "%.1f..%.1f", ls_bench_number(v, "predicted_step_time_us.low"),
           ls_bench_number(v, "predicted_step_time_us.high"));
  printf(" %11.1f %19s", us, interval);
}

static void print_row(const json_t *v, bool predicted) {
  printf("  %-28s", text_of(v, "name"));
  if (json_object_get(v, "failed")) {
    printf("  not measured: %s\n", text_of(v, "failed"));
    return;
  }
  double mean = ls_bench_number(v, "step_time_us.mean");
  printf(" %11.1f", mean);
  double half_percent = 100 * (ls_bench_number(v, "step_time_us.high") - mean) / mean;
  if (isfinite(half_percent)) /* one repetition has no interval */
    printf(" %5.1f %%", half_percent);
  else
    printf(" %7s", "-");
  printf(" %11.1f %5zu", ls_bench_number(v, "step_time_us.median"),
         json_array_size(json_object_get(v, "outliers")));
  if (predicted) print_predicted(v);
  printf(" %11s", cli_count((int64_t)llround(ls_bench_number(v, "samples_per_s.mean"))));
  const json_t *scaling = json_object_get(v, "scaling");
  if (scaling)
    printf("  %5.2fx %4.0f %%  %s p %.2g", ls_bench_number(scaling, "speedup"),
           100 * ls_bench_number(scaling, "efficiency"),
           text_of(json_object_get(v, "against_reference"), "verdict"),
           ls_bench_number(v, "against_reference.welch_p"));
  if (json_object_get(v, "incomplete"))
    printf("  only %.0f repetitions: %s", ls_bench_number(v, "step_time_us.count"), text_of(v, "incomplete"));
  putchar('\n');
}

void bench_print_table(const json_t *d) {
  const json_t *variants = json_object_get(d, "variants"), *v;
  bool predicted = false;
  size_t i;
  json_array_foreach(variants, i, v) predicted |= json_object_get(v, "predicted_step_time_us") != NULL;
  printf("\n  %-28s %11s %7s %11s %5s", "variant", "mean us", "+-", "median us", "out");
  if (predicted) printf(" %11s %19s", "predicted", "its 90 % interval");
  printf(" %11s  %6s %6s  %s\n", "samples/s", "speed", "effic.", "against the reference");
  json_array_foreach(variants, i, v) print_row(v, predicted);
  printf("\n  %.0f repetitions of %.0f steps after %.0f; +- is the 95 %% interval of the mean; out: flagged "
         "repetitions\n",
         ls_bench_number(d, "method.repetitions"), ls_bench_number(d, "method.steps"),
         ls_bench_number(d, "method.warmup_steps"));
  if (json_object_get(d, "incomplete"))
    printf("  INCOMPLETE: only the complete rounds before this are here: %s\n", text_of(d, "incomplete"));
  if (ls_bench_number(d, "control.pairs") > 0)
    printf("  A/A control: %.0f false alarms in %.0f pairs\n", ls_bench_number(d, "control.false_alarms"),
           ls_bench_number(d, "control.pairs"));
  json_array_foreach(variants, i, v) {
    const json_t *c = json_object_get(v, "validation");
    if (c)
      printf("  %s against one rank: %s (loss %.2g, correlation %.6f, weights %.2g)\n", text_of(v, "name"),
             ls_bench_validation_verdict(c), ls_bench_number(c, "final_loss_difference"),
             ls_bench_number(c, "grad_norm_correlation"), ls_bench_number(c, "weight_difference_mean_abs"));
  }
  printf("  clock and heat limits: CPU %s, GPU %s%s\n", text_of(json_object_get(d, "limits"), "cpu"),
         text_of(json_object_get(d, "limits"), "gpu"),
         json_is_true(json_object_get(d, "void")) ? ": THE RUN IS VOID" : "");
}
