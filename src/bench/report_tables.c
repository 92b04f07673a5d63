/* The report's tables, a row per variant. A column in which no variant has anything is left out
 * (ls_report_tidy). */
#include "bench/report.h"

#include <math.h>
#include <string.h>

ls_text_unit_t ls_report_unit(const json_t *variants) {
  const json_t *v;
  size_t i;
  double least_us = NAN;
  json_array_foreach(variants, i, v) {
    double us = ls_bench_number(v, "step_time_us.mean");
    if (isfinite(us) && !(least_us <= us)) least_us = us;
  }
  return ls_text_unit(isfinite(least_us) ? least_us : 1);
}

static json_t *row_of(json_t *table, const json_t *v) {
  json_t *row = ls_report_row(table);
  const char *verdict = ls_report_word(json_object_get(v, "against_reference"), "verdict");
  bool failed = json_object_get(v, "failed") != NULL;
  ls_report_cell(row, "%s", failed ? "not measured" : *verdict ? verdict : "reference");
  ls_report_cell(row, "%s", ls_report_word(v, "name"));
  return row;
}

static void around_cell(json_t *row, const json_t *v, const char *key, double unit) {
  char path[3][80];
  static const char *const members[] = {"mean", "low", "high"};
  for (int i = 0; i < LS_COUNT(members); i++)
    snprintf(path[i], sizeof path[i], "%s.%s", key, members[i]);
  ls_report_cell(row, "%s",
                 ls_text_around(ls_bench_number(v, path[0]), ls_bench_number(v, path[1]),
                                ls_bench_number(v, path[2]), unit, "±")
                     .s);
}

static void time_cell(json_t *row, const json_t *v, const char *path, double unit) {
  ls_report_cell(row, "%s", ls_text_digits(ls_bench_number(v, path) / unit).s);
}

/* "331.0 (310.2 to 352.0)" */
static void range_cell(json_t *row, double value, double low, double high) {
  if (isfinite(low) && isfinite(high))
    ls_report_cell(row, "%s (%s to %s)", ls_text_digits(value).s, ls_text_digits(low).s,
                   ls_text_digits(high).s);
  else
    ls_report_cell(row, "%s", ls_text_digits(value).s);
}

static void result_row(json_t *table, const json_t *v, double unit) {
  json_t *row = row_of(table, v);
  ls_report_cell(row, "%s", ls_bench_speedup_text(v).s);
  around_cell(row, v, "step_time_us", unit);
  ls_report_cell(row, "%s", ls_text_count(ls_bench_number(v, "samples_per_s.mean"), 0).s);
  ls_report_cell(row, "%s", ls_text_percent(100 * ls_bench_number(v, "scaling.efficiency"), 0, false).s);
  range_cell(row, ls_bench_number(v, "predicted_step_time_us.predicted") / unit,
             ls_bench_number(v, "predicted_step_time_us.low") / unit,
             ls_bench_number(v, "predicted_step_time_us.high") / unit);
  ls_report_cell(row, "%s",
                 ls_text_percent(ls_bench_number(v, "predicted_step_time_us.error_percent"), 1, true).s);
  ls_report_cell(row, "%s", ls_text_bytes(ls_bench_number(v, "bytes_per_device.total")).s);
}

void ls_report_results(json_t *report, const json_t *d) {
  const json_t *variants = json_object_get(d, "variants"), *v;
  size_t i;
  ls_text_unit_t unit = ls_report_unit(variants);
  char step[64], predicted[64];
  snprintf(step, sizeof step, "step time, %s (± 95 %%)", unit.name);
  snprintf(predicted, sizeof predicted, "predicted, %s (90 %% interval)", unit.name);
  const ls_report_column_t columns[] = {{"verdict", 'v'},
                                        {"variant", 'h'},
                                        {"speed-up (95 % interval)", 'n'},
                                        {step, 'n'},
                                        {"samples/s", 'n'},
                                        {"efficiency", 'n'},
                                        {predicted, 'n'},
                                        {"prediction's error", 'n'},
                                        {"bytes per device", 'n'}};
  json_t *table = ls_report_table(report, columns, LS_COUNT(columns));
  json_array_foreach(variants, i, v) result_row(table, v, unit.us);
  json_array_foreach(variants, i, v) {
    if (json_object_get(v, "failed"))
      ls_report_item(report, "**%s** not measured: %s", ls_report_word(v, "name"),
                     ls_report_word(v, "failed"));
    else if (json_object_get(v, "incomplete"))
      ls_report_item(report, "**%s** has only %.0f repetitions: %s", ls_report_word(v, "name"),
                     ls_bench_number(v, "step_time_us.count"), ls_report_word(v, "incomplete"));
  }
}

/* "1 of 5: the 5th, +350 %": how many, which, and how far from the median. */
static void outlier_cell(json_t *row, const json_t *v) {
  const json_t *outliers = json_object_get(v, "outliers");
  double count = ls_bench_number(v, "step_time_us.count"), median = ls_bench_number(v, "step_time_us.median");
  size_t flagged = json_array_size(outliers);
  if (flagged != 1) {
    ls_report_cell(row, "%zu of %.0f", flagged, count);
    return;
  }
  json_int_t at = json_integer_value(json_array_get(outliers, 0));
  double us =
      ls_bench_number(json_array_get(json_object_get(v, "repetitions"), (size_t)at), "step_time_us.mean");
  ls_report_cell(row, "1 of %.0f: number %lld, %s", count, (long long)at + 1,
                 ls_text_percent(100 * us / median - 100, 1, true).s);
}

static void test_row(json_t *table, const json_t *v) {
  const json_t *c = json_object_get(v, "against_reference");
  double low = ls_bench_number(c, "difference_low_percent"),
         high = ls_bench_number(c, "difference_high_percent");
  json_t *row = row_of(table, v);
  ls_report_cell(row, "%s", ls_report_word(json_object_get(v, "scaling"), "reference"));
  ls_report_cell(row, "%s", ls_text_around(ls_bench_number(c, "difference_percent"), low, high, 1, "±").s);
  ls_report_cell(row, "%s", ls_text_p(ls_bench_number(c, "welch_p")).s);
  ls_report_cell(row, "%s", ls_text_p(ls_bench_number(v, "against_reference_without_outliers.welch_p")).s);
  ls_report_cell(row, "%s", ls_text_p(ls_bench_number(c, "equivalence_p")).s);
}

static void tests(json_t *report, const json_t *d) {
  static const ls_report_column_t columns[] = {{"verdict", 'v'},      {"variant", 'h'},
                                               {"against", 't'},      {"difference, % (± 95 %)", 'n'},
                                               {"Welch p", 'n'},      {"p without outliers", 'n'},
                                               {"equivalence p", 'n'}};
  const json_t *v;
  size_t i;
  ls_report_heading(report, 2, "Against the reference");
  ls_report_text(
      report,
      "The reference of a variant is the one with the fewest ranks of its batch. \"faster\" and \"slower\": "
      "the means differ (Welch's p below 0.05). \"equivalent\": the difference is shown to be below %g %% "
      "(equivalence p below 0.05). \"undecided\": neither is shown.",
      ls_bench_number(d, "method.margin_percent"));
  json_t *table = ls_report_table(report, columns, LS_COUNT(columns));
  json_array_foreach(json_object_get(d, "variants"), i, v) {
    if (json_object_get(v, "scaling")) test_row(table, v);
  }
}

static void repetitions_row(json_t *table, const json_t *v, double unit) {
  json_t *row = ls_report_row(table);
  ls_report_cell(row, "%s", ls_report_word(v, "name"));
  time_cell(row, v, "step_time_us.median", unit);
  time_cell(row, v, "step_time_us.min", unit);
  time_cell(row, v, "step_time_us.max", unit);
  around_cell(row, v, "step_time_us_without_outliers", unit);
  outlier_cell(row, v);
  ls_report_cell(row, "%s", ls_text_digits(ls_bench_number(v, "grad_norm")).s);
  ls_report_cell(row, "%s", ls_text_digits(ls_bench_number(v, "loss")).s);
}

static void repetitions(json_t *report, const json_t *variants) {
  const json_t *v;
  size_t i;
  ls_text_unit_t unit = ls_report_unit(variants);
  char names[4][64];
  static const char *const times[] = {"median", "least", "most", "mean without outliers"};
  for (int k = 0; k < LS_COUNT(times); k++)
    snprintf(names[k], sizeof names[k], "%s, %s", times[k], unit.name);
  const ls_report_column_t columns[] = {{"variant", 'h'},       {names[0], 'n'}, {names[1], 'n'},
                                        {names[2], 'n'},        {names[3], 'n'}, {"outliers", 'n'},
                                        {"gradient norm", 'n'}, {"loss", 'n'}};
  ls_report_heading(report, 2, "Repetitions");
  ls_report_chart(report, "Spread",
                  "Every repetition against its variant's median, in the order in which they were measured.",
                  ls_chart_repetitions, variants);
  json_t *table = ls_report_table(report, columns, LS_COUNT(columns));
  json_array_foreach(variants, i, v) {
    if (!json_object_get(v, "failed")) repetitions_row(table, v, unit.us);
  }
}

void ls_report_details(json_t *report, const json_t *d) {
  tests(report, d);
  repetitions(report, json_object_get(d, "variants"));
}

void ls_report_validation(json_t *report, const json_t *d) {
  static const ls_report_column_t columns[] = {{"verdict", 'v'},
                                               {"variant", 'h'},
                                               {"final loss differs by", 'n'},
                                               {"gradient norms correlate", 'n'},
                                               {"weights differ by", 'n'},
                                               {"identical", 't'}};
  const json_t *variants = json_object_get(d, "variants"), *v;
  size_t i;
  ls_report_text(
      report, "Criteria: final loss differs by less than 0.01, gradient norms correlate above 0.95, weights "
              "differ by less than 1e-4 on average. A reproducible step (parallel.reproducible) has to give "
              "identical weights, bit for bit.");
  json_t *table = ls_report_table(report, columns, LS_COUNT(columns));
  json_array_foreach(variants, i, v) {
    const json_t *c = json_object_get(v, "validation");
    if (!c) continue;
    json_t *row = ls_report_row(table);
    ls_report_cell(row, "%s", ls_bench_validation_verdict(c));
    ls_report_cell(row, "%s", ls_report_word(v, "name"));
    ls_report_cell(row, "%s", ls_text_digits(ls_bench_number(c, "final_loss_difference")).s);
    ls_report_cell(row, "%s", ls_text_correlation(ls_bench_number(c, "grad_norm_correlation")).s);
    ls_report_cell(row, "%s", ls_text_digits(ls_bench_number(c, "weight_difference_mean_abs")).s);
    ls_report_cell(row, "%s", json_is_true(json_object_get(c, "identical")) ? "yes" : "no");
  }
  ls_report_chart(report, "Training loss",
                  "Of each step. Curves that lie on each other train the same network.", ls_chart_curves,
                  variants);
}
