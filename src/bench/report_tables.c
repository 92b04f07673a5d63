/* The report's tables: columns as rows here, a row per variant there. A column in which no variant has
 * anything is left out (ls_report_tidy). */
#include "bench/report.h"

#include <math.h>
#include <string.h>

ls_text_unit_t ls_report_unit(const json_t *variants) {
  const json_t *v;
  size_t i;
  double least_us = NAN;
  json_array_foreach(variants, i, v) least_us = fmin(least_us, ls_bench_number(v, "step_time_us.mean"));
  return ls_text_unit(isfinite(least_us) ? least_us : 1);
}

/* ---- cells ---- */

static bool is_traced(const json_t *v) {
  return !strcmp(ls_report_word(v, "step_parts_source"), "traced");
}

/* "1 of 5: number 5, +350.0 %": how many, which, and how far from the median. */
static json_t *outliers(const json_t *v, const json_t *list) {
  double count = ls_bench_number(v, "step_time_us.count"), median = ls_bench_number(v, "step_time_us.median");
  if (json_array_size(list) != 1) return json_sprintf("%zu of %.0f", json_array_size(list), count);
  json_int_t at = json_integer_value(json_array_get(list, 0));
  const json_t *own = json_array_get(json_object_get(v, "repetitions"), (size_t)at);
  return json_sprintf(
      "1 of %.0f: number %lld, %s", count, (long long)at + 1,
      ls_text_percent(100 * ls_bench_number(own, "step_time_us.mean") / median - 100, 1, true).s);
}

static ls_text_t number_text(const json_t *v, const ls_report_column_t *c, ls_text_unit_t unit) {
  const json_t *o = ls_bench_at(v, c->path);
  double per = c->per != 0 ? c->per : unit.us, low = ls_bench_number(o, "low") / per,
         high = ls_bench_number(o, "high") / per, mean = ls_bench_number(o, "mean") / per,
         x = ls_bench_number(v, c->path) / per, half;
  switch (c->as) {
  case LS_CELL_DIGITS:
    return ls_text_digits(x);
  case LS_CELL_PERCENT:
    return ls_text_percent(x, c->decimals, false);
  case LS_CELL_CHANGE:
    return ls_text_percent(x, c->decimals, true);
  case LS_CELL_BYTES:
    return ls_text_bytes(x != 0 ? x : NAN);
  case LS_CELL_P:
    return ls_text_p(x);
  case LS_CELL_CORRELATION:
    return ls_text_correlation(x);
  case LS_CELL_AROUND:
    return ls_text_around(mean, low, high, 1, "±");
  case LS_CELL_RATE: /* as exact as its step time */
    half = (ls_bench_number(v, "step_time_us.high") - ls_bench_number(v, "step_time_us.low")) / 2;
    half *= mean / ls_bench_number(v, "step_time_us.mean");
    return ls_text_within(mean, mean - half, mean + half);
  case LS_CELL_PREDICTION:
    return ls_text_range(ls_bench_number(o, "predicted") / per, low, high);
  case LS_CELL_DIFFERENCE:
    return ls_text_around(ls_bench_number(o, "difference_percent"),
                          ls_bench_number(o, "difference_low_percent"),
                          ls_bench_number(o, "difference_high_percent"), 1, "±");
  case LS_CELL_SHARE:
    return ls_text_percent(100 * ls_bench_number(v, c->path) / ls_bench_number(v, "step_parts_total_us"), 1,
                           false);
  default:
    return ls_bench_speedup_text(v);
  }
}

static json_t *cell_text(const json_t *v, const ls_report_column_t *c, ls_text_unit_t unit) {
  const json_t *o = ls_bench_at(v, c->path);
  const char *word = ls_report_word(v, c->path);
  switch (c->as) {
  case LS_CELL_WORD:
    return json_string(word);
  case LS_CELL_VERDICT:
    return json_string(json_object_get(v, "failed") ? "not measured" : *word ? word : "reference");
  case LS_CELL_TRACED:
    return json_sprintf("%s%s", word, is_traced(v) ? " (traced)" : "");
  case LS_CELL_OUTLIERS:
    return outliers(v, o);
  case LS_CELL_VALIDATION:
    return json_string(ls_bench_validation_verdict(o));
  case LS_CELL_YES:
    return json_string(json_is_true(o) ? "yes" : "no");
  default:
    return json_string(number_text(v, c, unit).s);
  }
}

/* A row for each object that has `needs` (NULL: for all). */
static void rows(json_t *report, const ls_report_column_t *columns, int count, const json_t *objects,
                 const char *needs, ls_text_unit_t unit) {
  json_t *table = ls_report_table(report, columns, count, unit.name);
  const json_t *v;
  size_t i;
  json_array_foreach(objects, i, v) {
    if (needs && !json_object_get(v, needs)) continue;
    json_t *row = ls_report_row(table);
    for (int k = 0; k < count; k++)
      json_array_append_new(row, cell_text(v, &columns[k], unit));
  }
}

/* ---- tables ---- */

void ls_report_results(json_t *report, const json_t *variants) {
  static const ls_report_column_t columns[] = {
      {"verdict", 'v', LS_CELL_VERDICT, "against_reference.verdict"},
      {"variant", 'h', LS_CELL_WORD, "name"},
      {"speed-up (95 % interval)", 'n', LS_CELL_SPEEDUP, ""},
      {"step time, $ (± 95 %)", 'n', LS_CELL_AROUND, "step_time_us"},
      {"samples/s", 'n', LS_CELL_RATE, "samples_per_s", 1},
      {"efficiency", 'n', LS_CELL_PERCENT, "scaling.efficiency", 0.01},
      {"predicted, $ (90 % interval)", 'n', LS_CELL_PREDICTION, "predicted_step_time_us"},
      {"prediction's error", 'n', LS_CELL_CHANGE, "predicted_step_time_us.error_percent", 1, 1},
      {"bytes per device", 'n', LS_CELL_BYTES, "bytes_per_device.total", 1}};
  const json_t *v;
  size_t i;
  rows(report, columns, LS_COUNT(columns), variants, NULL, ls_report_unit(variants));
  json_array_foreach(variants, i, v) {
    const char *name = ls_report_word(v, "name");
    if (json_object_get(v, "failed"))
      ls_report_item(report, "**%s** not measured: %s", name, ls_report_word(v, "failed"));
    else if (json_object_get(v, "incomplete"))
      ls_report_item(report, "**%s** has only %.0f repetitions: %s", name,
                     ls_bench_number(v, "step_time_us.count"), ls_report_word(v, "incomplete"));
  }
}

void ls_report_parts(json_t *report, const json_t *variants) {
  static const ls_report_column_t columns[] = {
      {"variant", 'h', LS_CELL_TRACED, "name"},
      {"input, $", 'n', LS_CELL_DIGITS, "step_parts_us.input"},
      {"forward, $", 'n', LS_CELL_DIGITS, "step_parts_us.forward"},
      {"backward, $", 'n', LS_CELL_DIGITS, "step_parts_us.backward"},
      {"exposed communication, $", 'n', LS_CELL_DIGITS, "step_parts_us.exposed_comm"},
      {"optimizer, $", 'n', LS_CELL_DIGITS, "step_parts_us.optimizer"},
      {"rest, $", 'n', LS_CELL_DIGITS, "step_parts_us.rest"},
      {"exposed of step", 'n', LS_CELL_SHARE, "step_parts_us.exposed_comm"},
      {"GFLOP/s per rank", 'n', LS_CELL_DIGITS, "flops_per_s_per_rank", 1e9},
      {"of peak FLOP/s", 'n', LS_CELL_PERCENT, "utilisation.peak_flops_percent", 1, 1},
      {"GPU busy", 'n', LS_CELL_PERCENT, "gpu.busy_percent", 1},
      {"J per step", 'n', LS_CELL_DIGITS, "gpu.energy_j_per_step", 1}};
  const json_t *v;
  size_t i;
  bool traced = false, utilisation = false, gpu = false;
  json_array_foreach(variants, i, v) {
    traced |= is_traced(v);
    utilisation |= json_object_get(v, "utilisation") != NULL;
    gpu |= json_object_get(v, "gpu") != NULL;
  }
  if (traced)
    ls_report_text(report,
                   "Traced: a captured step is one launch and hides its parts, so they come from one more "
                   "repetition whose tasks are launched one by one; such a step is slower.");
  if (utilisation) ls_report_text(report, "Peak is the machine's fastest measured matrix product.");
  if (gpu)
    ls_report_text(report,
                   "Busy is NVML's share of time in which kernels ran; energy is that of all devices of "
                   "the variant.");
  ls_report_chart(report, "Parts of a step",
                  "Rank 0, mean of all repetitions; communication counts as far as nothing is computed "
                  "meanwhile.",
                  ls_chart_parts, variants);
  rows(report, columns, LS_COUNT(columns), variants, "step_time_us", ls_report_unit(variants));
  ls_report_chart(report, "Timeline of a step",
                  "Rank 0: what each lane does when, mean of the steps of one repetition, the first. Parts "
                  "and table above are of all repetitions, so they differ by what repetitions do. "
                  "Communication is drawn whole; above, what runs beside computing does not count. Gaps "
                  "belong to rest.",
                  ls_chart_timeline, variants);
}

void ls_report_memory(json_t *report, const json_t *variants) {
  enum { COLUMNS_MAX = 16 };
  ls_report_column_t columns[COLUMNS_MAX] = {{"variant", 'h', LS_CELL_WORD, "name"}};
  char paths[COLUMNS_MAX][96];
  static const char prefix[] = "bytes_per_device.";
  const json_t *v, *first = NULL;
  const char *key;
  json_t *value;
  size_t i;
  int count = 1;
  json_array_foreach(variants, i, v) first = first ? first : json_object_get(v, "bytes_per_device");
  json_object_foreach((json_t *)(uintptr_t)first, key, value) {
    if (count == COLUMNS_MAX) break;
    snprintf(paths[count], sizeof paths[count], "%s%.60s", prefix, key);
    columns[count] =
        (ls_report_column_t){paths[count] + sizeof prefix - 1, 'n', LS_CELL_BYTES, paths[count], .per = 1};
    count++;
  }
  rows(report, columns, count, variants, "bytes_per_device", ls_text_unit(1));
  ls_report_chart(report, "Bytes per device",
                  "What each rank keeps on its device. Bookkeeping: task lists, times and figures of steps, "
                  "rounding to pages.",
                  ls_chart_memory, variants);
}

void ls_report_collectives(json_t *report, const json_t *variants) {
  static const ls_report_column_t columns[] = {
      {"variant", 'h', LS_CELL_WORD, "variant"},
      {"collective", 't', LS_CELL_WORD, "name"},
      {"size", 'n', LS_CELL_BYTES, "size_bytes", 1},
      {"time, us", 'n', LS_CELL_DIGITS, "time_us", 1},
      {"algorithm GB/s", 'n', LS_CELL_DIGITS, "algorithm_bw_bytes_per_s", 1e9},
      {"bus GB/s", 'n', LS_CELL_DIGITS, "bus_bw_bytes_per_s", 1e9}};
  json_t *all = json_array(), *c;
  const json_t *v;
  size_t i, k;
  json_array_foreach(variants, i, v) json_array_foreach(json_object_get(v, "collectives"), k, c) {
    json_t *own = json_copy(c);
    json_object_set(own, "variant", json_object_get(v, "name"));
    json_array_append_new(all, own);
  }
  ls_report_heading(report, 3, "Collectives");
  ls_report_text(report, "Rank 0; waiting for the slowest rank is inside.");
  rows(report, columns, LS_COUNT(columns), all, NULL, ls_text_unit(1));
  json_decref(all);
}

void ls_report_validation(json_t *report, const json_t *variants) {
  static const ls_report_column_t columns[] = {
      {"verdict", 'v', LS_CELL_VALIDATION, "validation"},
      {"variant", 'h', LS_CELL_WORD, "name"},
      {"final loss differs by", 'n', LS_CELL_DIGITS, "validation.final_loss_difference", 1},
      {"gradient norms correlate", 'n', LS_CELL_CORRELATION, "validation.grad_norm_correlation", 1},
      {"weights differ by", 'n', LS_CELL_DIGITS, "validation.weight_difference_mean_abs", 1},
      {"identical", 't', LS_CELL_YES, "validation.identical"}};
  ls_report_text(
      report, "Criteria: final loss differs by less than 0.01, gradient norms correlate above 0.95, weights "
              "differ by less than 1e-4 on average. A reproducible step (parallel.reproducible) has to give "
              "identical weights, bit for bit.");
  rows(report, columns, LS_COUNT(columns), variants, "validation", ls_text_unit(1));
  ls_report_chart(report, "Training loss",
                  "Of each step. Curves that lie on each other train the same network.", ls_chart_curves,
                  variants);
}

void ls_report_tests(json_t *report, const json_t *variants, double margin_percent) {
  static const ls_report_column_t columns[] = {
      {"verdict", 'v', LS_CELL_VERDICT, "against_reference.verdict"},
      {"variant", 'h', LS_CELL_WORD, "name"},
      {"against", 't', LS_CELL_WORD, "scaling.reference"},
      {"difference, % (± 95 %)", 'n', LS_CELL_DIFFERENCE, "against_reference", 1},
      {"Welch p", 'n', LS_CELL_P, "against_reference.welch_p", 1},
      {"p without outliers", 'n', LS_CELL_P, "against_reference_without_outliers.welch_p", 1},
      {"equivalence p", 'n', LS_CELL_P, "against_reference.equivalence_p", 1}};
  ls_report_heading(report, 2, "Against the reference");
  ls_report_text(
      report,
      "The reference of a variant is the one with the fewest ranks of its batch. \"faster\" and \"slower\": "
      "the means differ (Welch's p below 0.05). \"equivalent\": the difference is shown to be below %g %% "
      "(equivalence p below 0.05). \"undecided\": neither is shown.",
      margin_percent);
  rows(report, columns, LS_COUNT(columns), variants, "scaling", ls_text_unit(1));
}

void ls_report_repetitions(json_t *report, const json_t *variants) {
  static const ls_report_column_t columns[] = {
      {"variant", 'h', LS_CELL_WORD, "name"},
      {"median, $", 'n', LS_CELL_DIGITS, "step_time_us.median"},
      {"least, $", 'n', LS_CELL_DIGITS, "step_time_us.min"},
      {"most, $", 'n', LS_CELL_DIGITS, "step_time_us.max"},
      {"mean without outliers, $", 'n', LS_CELL_AROUND, "step_time_us_without_outliers"},
      {"outliers", 'n', LS_CELL_OUTLIERS, "outliers"},
      {"gradient norm", 'n', LS_CELL_DIGITS, "grad_norm", 1},
      {"loss", 'n', LS_CELL_DIGITS, "loss", 1}};
  ls_report_heading(report, 2, "Repetitions");
  ls_report_chart(report, "Spread",
                  "Every repetition against its variant's median, in the order in which they were measured.",
                  ls_chart_repetitions, variants);
  rows(report, columns, LS_COUNT(columns), variants, "step_time_us", ls_report_unit(variants));
}
