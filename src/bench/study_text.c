/* The study's part of the report: its tables with a row of ours and a row of its own figures for each batch,
 * its timelines, and its conclusions with their verdicts. Reads only the document. */
#include "bench/report.h"

#include <math.h>
#include <string.h>

/* ", peer access off", or nothing where it is no choice. */
static ls_text_t link_text(const json_t *object) {
  ls_text_t text = {""};
  const char *peer = ls_report_word(object, "peer_access");
  if (*peer) snprintf(text.s, sizeof text.s, ", peer access %.60s", peer);
  return text;
}

/* "12 (11 to 13)"; the interval only where it is known. */
static void interval_cell(json_t *row, const json_t *object, const char *value, const char *low,
                          const char *high, const char *unit) {
  double v = ls_bench_number(object, value), l = ls_bench_number(object, low),
         h = ls_bench_number(object, high);
  if (!isfinite(v))
    ls_report_cell(row, "%s", "");
  else if (!isfinite(l))
    ls_report_cell(row, "%s%s", ls_text_count(v, 0).s, unit);
  else if (!isfinite(h))
    ls_report_cell(row, "%s%s (above %s)", ls_text_count(v, 0).s, unit, ls_text_count(l, 0).s);
  else
    ls_report_cell(row, "%s%s (%s to %s)", ls_text_count(v, 0).s, unit, ls_text_count(l, 0).s,
                   ls_text_count(h, 0).s);
}

static void rate_cell(json_t *row, const json_t *side) {
  if (json_object_get(side, "failed"))
    ls_report_cell(row, "not measured: %s", ls_report_word(side, "failed"));
  else
    interval_cell(row, side, "samples_per_s.mean", "samples_per_s.low", "samples_per_s.high", "");
}

/* The study's samples/s with its interval. */
static void published_rate(json_t *row, const json_t *published, const char *key) {
  char margin[64];
  snprintf(margin, sizeof margin, "%s_margin", key);
  ls_report_cell(row, "%s ± %s", ls_text_count(ls_bench_number(published, key), 0).s,
                 ls_text_count(ls_bench_number(published, margin), 0).s);
}

/* With the digits that it was given: the study's figures are round. */
static ls_text_t given(double value) {
  ls_text_t text = {""};
  if (isfinite(value)) snprintf(text.s, sizeof text.s, "%.4g", value);
  return text;
}

/* "1.2 → 2.3": on one device and on two. */
static void pair(json_t *row, double one, double two, const char *unit) {
  bool known = isfinite(one) || isfinite(two);
  ls_report_cell(row, "%s%s%s%s%s", given(one).s,
                 isfinite(one) ? unit
                 : known       ? "?"
                               : "",
                 known ? " → " : "", given(two).s,
                 isfinite(two) ? unit
                 : known       ? "?"
                               : "");
}

static double either(const json_t *side, const char *first, const char *second) {
  double value = ls_bench_number(side, first);
  return isfinite(value) ? value : ls_bench_number(side, second);
}

static void own_row(json_t *table, const json_t *from) {
  const json_t *one = json_object_get(from, "one"), *two = json_object_get(from, "two");
  json_t *row = ls_report_row(table);
  ls_report_cell(row, "%.0f", ls_bench_number(from, "batch"));
  ls_report_cell(row, "here");
  ls_report_cell(row, "%s",
                 ls_text_ratio(ls_bench_number(from, "speedup.value"), ls_bench_number(from, "speedup.low"),
                               ls_bench_number(from, "speedup.high"))
                     .s);
  rate_cell(row, one);
  rate_cell(row, two);
  interval_cell(row, from, "efficiency_percent.value", "efficiency_percent.low", "efficiency_percent.high",
                " %");
  pair(row, ls_bench_number(one, "step_time_ms"), ls_bench_number(two, "step_time_ms"), "");
  ls_report_cell(row, "%s", ls_text_percent(ls_bench_number(two, "exposed_comm_percent"), 0, false).s);
  pair(row, 1e-9 * either(one, "used_bytes", "planned_bytes"),
       1e-9 * either(two, "used_bytes", "planned_bytes"), "");
  pair(row, ls_bench_number(one, "peak_flops_percent"), ls_bench_number(two, "peak_flops_percent"), " %");
  pair(row, ls_bench_number(one, "gpu_busy_percent"), ls_bench_number(two, "gpu_busy_percent"), " %");
}

static void published_row(json_t *table, const json_t *from) {
  const json_t *p = json_object_get(from, "published");
  if (!json_is_object(p)) return;
  json_t *row = ls_report_row(table);
  ls_report_cell(row, "%.0f", ls_bench_number(from, "batch"));
  ls_report_cell(row, "the study");
  ls_report_cell(row, "%s", ls_text_ratio(ls_bench_number(p, "speedup"), NAN, NAN).s);
  published_rate(row, p, "one_samples_per_s");
  published_rate(row, p, "two_samples_per_s");
  ls_report_cell(row, "%s", ls_text_percent(ls_bench_number(p, "efficiency_percent"), 0, false).s);
  pair(row, ls_bench_number(p, "one_step_time_ms"), ls_bench_number(p, "two_step_time_ms"), "");
  ls_report_cell(row, "%s", "");
  ls_report_cell(row, "%s", given(ls_bench_number(p, "memory_gb")).s);
  ls_report_cell(row, "%s", "");
  pair(row, ls_bench_number(p, "one_utilisation_percent"), ls_bench_number(p, "two_utilisation_percent"),
       " %");
}

static void tables(json_t *report, const json_t *study) {
  static const ls_report_column_t columns[] = {{"batch", 'h'},
                                               {"measured", 't'},
                                               {"speed-up", 'n'},
                                               {"one device, samples/s", 'n'},
                                               {"two devices, samples/s", 'n'},
                                               {"efficiency", 'n'},
                                               {"step, ms (one → two)", 'n'},
                                               {"exposed communication of step, two", 'n'},
                                               {"memory per device, GB (one → two)", 'n'},
                                               {"of peak FLOP/s (one → two)", 'n'},
                                               {"device busy (one → two)", 'n'}};
  const json_t *from, *row;
  size_t i, k;
  json_array_foreach(json_object_get(study, "tables"), i, from) {
    ls_report_heading(report, 3, "The %s%s", ls_report_word(from, "label"), link_text(from).s);
    json_t *table = ls_report_table(report, columns, LS_COUNT(columns), "");
    json_array_foreach(json_object_get(from, "rows"), k, row) {
      own_row(table, row);
      published_row(table, row);
    }
  }
}

/* Documents of earlier versions call the exposed communication "communication". */
static double part_of(const json_t *parts, const char *key) {
  bool earlier = strcmp(key, "exposed_comm") == 0 && !json_object_get(parts, key);
  return ls_bench_number(parts, earlier ? "communication" : key);
}

static void timeline_row(json_t *table, const char *who, const json_t *parts) {
  static const char *const keys[] = {"forward", "backward", "exposed_comm", "optimizer", "rest", "total"};
  if (!json_is_object(parts)) return;
  json_t *row = ls_report_row(table);
  ls_report_cell(row, "%s%s", who, strcmp(ls_report_word(parts, "source"), "traced") ? "" : " (traced run)");
  for (int k = 0; k < LS_COUNT(keys); k++)
    ls_report_cell(row, "%s", given(part_of(parts, keys[k])).s);
}

static void timelines(json_t *report, const json_t *study) {
  static const ls_report_column_t columns[] = {
      {"ms", 'h'},        {"forward", 'n'}, {"backward", 'n'}, {"communication (exposed)", 'n'},
      {"optimizer", 'n'}, {"rest", 'n'},    {"total", 'n'}};
  const json_t *t;
  size_t i;
  json_array_foreach(json_object_get(study, "timelines"), i, t) {
    const json_t *published = json_object_get(t, "published");
    ls_report_heading(report, 3, "Parts of a step: %s, batch %.0f%s", ls_report_word(t, "model"),
                      ls_bench_number(t, "batch"), link_text(t).s);
    json_t *table = ls_report_table(report, columns, LS_COUNT(columns), "");
    timeline_row(table, "one device", json_object_get(t, "one"));
    timeline_row(table, "the study, one device", json_object_get(published, "one"));
    timeline_row(table, "two devices", json_object_get(t, "two"));
    timeline_row(table, "the study, two devices", json_object_get(published, "two"));
  }
}

static void conclusions(json_t *report, const json_t *study) {
  static const ls_report_column_t columns[] = {
      {"verdict", 'v'}, {"the study concludes", 'h'}, {"tested by", 't'}, {"link", 't'}, {"figures", 't'}};
  const json_t *conclusion, *finding;
  size_t i, k;
  ls_report_heading(report, 2, "Where the study's conclusions hold");
  ls_report_text(
      report,
      "On this machine, with these networks and this program. Each is put to a test with the numbers "
      "above; intervals are at 95 %% and not corrected for the number of cells. A speed-up's interval "
      "is the wider of the bootstrap's and Welch's.");
  json_t *table = ls_report_table(report, columns, LS_COUNT(columns), "");
  json_array_foreach(json_object_get(study, "conclusions"), i, conclusion) {
    json_array_foreach(json_object_get(conclusion, "findings"), k, finding) {
      const char *peer = ls_report_word(finding, "peer_access");
      bool both = !*peer && json_is_true(json_object_get(conclusion, "all_links"));
      json_t *row = ls_report_row(table);
      ls_report_cell(row, "%s", ls_report_word(finding, "verdict"));
      ls_report_cell(row, "%s", ls_report_word(conclusion, "statement"));
      ls_report_cell(row, "%s", ls_report_word(conclusion, "test"));
      ls_report_cell(row, "%s%s", *peer ? "peer access " : both ? "both" : "", peer);
      ls_report_cell(row, "%s", ls_report_word(finding, "figures"));
    }
  }
}

void ls_report_study(json_t *report, const json_t *document) {
  const json_t *study = json_object_get(document, "study");
  if (!study) return;
  ls_report_heading(report, 2, "The study's tables");
  ls_report_text(
      report,
      "Rows of the study are what it published for its own hardware and software, not a measurement of this "
      "machine: %s (%s). Ours are measured; in brackets the 95 %% interval. Memory is what the device had in "
      "use where that can be read, else the plan's bytes. Peak is this machine's fastest measured matrix "
      "product (`lockstep probe`).",
      ls_report_word(study, "source"), ls_report_word(study, "hardware"));
  tables(report, study);
  timelines(report, study);
  conclusions(report, study);
}
