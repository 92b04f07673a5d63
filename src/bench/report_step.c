/* The report's tables of what is in a step: the parts of its time, its bytes, its collectives. */
#include "bench/report.h"

#include <math.h>
#include <string.h>

static void parts_row(json_t *table, const json_t *v, double unit) {
  static const char *const keys[] = {"input", "forward", "backward", "exposed_comm", "optimizer", "rest"};
  const json_t *parts = json_object_get(v, "step_parts_us");
  double total = ls_bench_number(v, "step_parts_total_us");
  json_t *row = ls_report_row(table);
  ls_report_cell(row, "%s%s", ls_report_word(v, "name"),
                 strcmp(ls_report_word(v, "step_parts_source"), "traced") ? "" : " (traced)");
  for (int k = 0; k < LS_COUNT(keys); k++) {
    double us = ls_bench_number(parts, keys[k]);
    ls_report_cell(row, "%s", us > 0 ? ls_text_digits(us / unit).s : us == 0 ? "0" : "");
  }
  ls_report_cell(row, "%s",
                 ls_text_percent(100 * ls_bench_number(parts, "exposed_comm") / total, 1, false).s);
  ls_report_cell(row, "%s", ls_text_digits(ls_bench_number(v, "flops_per_s_per_rank") * 1e-9).s);
  ls_report_cell(row, "%s",
                 ls_text_percent(ls_bench_number(v, "utilisation.peak_flops_percent"), 1, false).s);
  ls_report_cell(row, "%s", ls_text_percent(ls_bench_number(v, "gpu.busy_percent"), 0, false).s);
  ls_report_cell(row, "%s", ls_text_digits(ls_bench_number(v, "gpu.energy_j_per_step")).s);
}

void ls_report_parts(json_t *report, const json_t *d) {
  const json_t *variants = json_object_get(d, "variants"), *v;
  size_t i;
  bool traced = false, utilisation = false, gpu = false;
  json_array_foreach(variants, i, v) {
    traced |= !strcmp(ls_report_word(v, "step_parts_source"), "traced");
    utilisation |= json_object_get(v, "utilisation") != NULL;
    gpu |= json_object_get(v, "gpu") != NULL;
  }
  ls_text_unit_t unit = ls_report_unit(variants);
  char names[7][48];
  static const char *const parts[] = {"input",     "forward", "backward", "exposed communication",
                                      "optimizer", "rest"};
  for (int k = 0; k < LS_COUNT(parts); k++)
    snprintf(names[k], sizeof names[k], "%s, %s", parts[k], unit.name);
  const ls_report_column_t columns[] = {
      {"variant", 'h'},          {names[0], 'n'},         {names[1], 'n'},   {names[2], 'n'},
      {names[3], 'n'},           {names[4], 'n'},         {names[5], 'n'},   {"exposed of step", 'n'},
      {"GFLOP/s per rank", 'n'}, {"of peak FLOP/s", 'n'}, {"GPU busy", 'n'}, {"J per step", 'n'}};
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
                  "Rank 0; communication counts as far as nothing is computed meanwhile.", ls_chart_parts,
                  variants);
  json_t *table = ls_report_table(report, columns, LS_COUNT(columns));
  json_array_foreach(variants, i, v) {
    if (!json_object_get(v, "failed")) parts_row(table, v, unit.us);
  }
  ls_report_chart(report, "Timeline of a step",
                  "Rank 0: what each lane does when, mean of the measured steps.", ls_chart_timeline,
                  variants);
}

void ls_report_memory(json_t *report, const json_t *d) {
  const json_t *variants = json_object_get(d, "variants"), *v, *bytes, *first = NULL;
  enum { COLUMNS_MAX = 16 };
  ls_report_column_t columns[COLUMNS_MAX] = {{"variant", 'h'}};
  char names[COLUMNS_MAX][64];
  const char *key;
  json_t *value;
  size_t i;
  int count = 1;
  json_array_foreach(variants, i, v) {
    if (!first) first = json_object_get(v, "bytes_per_device");
  }
  json_object_foreach((json_t *)(uintptr_t)first, key, value) {
    if (count == COLUMNS_MAX) break;
    snprintf(names[count], sizeof names[count], "%s", key);
    columns[count] = (ls_report_column_t){names[count], 'n'};
    count++;
  }
  json_t *table = ls_report_table(report, columns, count);
  json_array_foreach(variants, i, v) {
    if (!(bytes = json_object_get(v, "bytes_per_device"))) continue;
    json_t *row = ls_report_row(table);
    ls_report_cell(row, "%s", ls_report_word(v, "name"));
    for (int k = 1; k < count; k++) {
      double size_bytes = ls_bench_number(bytes, names[k]);
      ls_report_cell(row, "%s", size_bytes != 0 ? ls_text_bytes(size_bytes).s : "");
    }
  }
  ls_report_chart(report, "Bytes per device", "What each rank keeps on its device.", ls_chart_memory,
                  variants);
}

void ls_report_collectives(json_t *report, const json_t *d) {
  static const ls_report_column_t columns[] = {{"variant", 'h'},  {"collective", 't'},     {"size", 'n'},
                                               {"time, us", 'n'}, {"algorithm GB/s", 'n'}, {"bus GB/s", 'n'}};
  const json_t *v, *c;
  size_t i, k;
  ls_report_heading(report, 3, "Collectives");
  ls_report_text(report, "Rank 0; waiting for the slowest rank is inside.");
  json_t *table = ls_report_table(report, columns, LS_COUNT(columns));
  json_array_foreach(json_object_get(d, "variants"), i, v) {
    json_array_foreach(json_object_get(v, "collectives"), k, c) {
      json_t *row = ls_report_row(table);
      ls_report_cell(row, "%s", ls_report_word(v, "name"));
      ls_report_cell(row, "%s", ls_report_word(c, "name"));
      ls_report_cell(row, "%s", ls_text_bytes(ls_bench_number(c, "size_bytes")).s);
      ls_report_cell(row, "%s", ls_text_digits(ls_bench_number(c, "time_us")).s);
      ls_report_cell(row, "%s", ls_text_digits(ls_bench_number(c, "algorithm_bw_bytes_per_s") * 1e-9).s);
      ls_report_cell(row, "%s", ls_text_digits(ls_bench_number(c, "bus_bw_bytes_per_s") * 1e-9).s);
    }
  }
}
