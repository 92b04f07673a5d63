/* The study's part of the Markdown report: its tables with our intervals and its own figures beside them, its
 * timelines, and its conclusions with their verdicts. Reads only the document. */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* ", peer access off", or nothing where it is no choice. */
static const char *link_text(const json_t *object, char buf[48]) {
  const char *peer = text_of(object, "peer_access");
  buf[0] = '\0';
  if (peer[0]) snprintf(buf, 48, ", peer access %s", peer);
  return buf;
}

static void number(FILE *to, const char *format, double value) {
  char text[64] = "-";
  if (isfinite(value)) snprintf(text, sizeof text, format, value);
  fputs(text, to);
}

/* "12.3 (12.1 to 12.5)"; the interval only where it is known. */
static void with_interval(FILE *to, const char *format, const json_t *object, const char *value,
                          const char *low, const char *high) {
  number(to, format, ls_bench_number(object, value));
  if (!isfinite(ls_bench_number(object, low))) return;
  fputs(" (", to);
  number(to, format, ls_bench_number(object, low));
  fputs(" to ", to);
  number(to, format, ls_bench_number(object, high));
  fputc(')', to);
}

/* The study's samples/s with its interval. */
static void published_rate(FILE *to, const json_t *published, const char *key) {
  char margin[64];
  snprintf(margin, sizeof margin, "%s_margin", key);
  if (!json_is_object(published)) {
    fputs("- | ", to);
    return;
  }
  fprintf(to, "%.0f ± %.0f | ", ls_bench_number(published, key), ls_bench_number(published, margin));
}

/* "1.2 → 2.3": on one device and on two. */
static void pair(FILE *to, const char *format, double one, double two) {
  if (!isfinite(one) && !isfinite(two)) {
    fputs("- | ", to);
    return;
  }
  number(to, format, one);
  fputs(" → ", to);
  number(to, format, two);
  fputs(" | ", to);
}

static void rate_cell(FILE *to, const json_t *side) {
  if (json_object_get(side, "failed"))
    fprintf(to, "not measured: %s", text_of(side, "failed"));
  else
    with_interval(to, "%.0f", side, "samples_per_s.mean", "samples_per_s.low", "samples_per_s.high");
  fputs(" | ", to);
}

static double either(const json_t *side, const char *first, const char *second) {
  double value = ls_bench_number(side, first);
  return isfinite(value) ? value : ls_bench_number(side, second);
}

static void table_row(FILE *to, const json_t *row) {
  const json_t *one = json_object_get(row, "one"), *two = json_object_get(row, "two"),
               *p = json_object_get(row, "published");
  fprintf(to, "| %.0f | ", ls_bench_number(row, "batch"));
  rate_cell(to, one);
  published_rate(to, p, "one_samples_per_s");
  rate_cell(to, two);
  published_rate(to, p, "two_samples_per_s");
  with_interval(to, "%.2fx", row, "speedup.value", "speedup.low", "speedup.high");
  fputs(" | ", to);
  number(to, "%.2fx", ls_bench_number(p, "speedup"));
  fputs(" | ", to);
  with_interval(to, "%.0f %%", row, "efficiency_percent.value", "efficiency_percent.low",
                "efficiency_percent.high");
  fputs(" | ", to);
  number(to, "%.0f %%", ls_bench_number(p, "efficiency_percent"));
  fputs(" | ", to);
  pair(to, "%.4g", ls_bench_number(one, "step_time_ms"), ls_bench_number(two, "step_time_ms"));
  pair(to, "%.1f", ls_bench_number(p, "one_step_time_ms"), ls_bench_number(p, "two_step_time_ms"));
  number(to, "%.0f %%", ls_bench_number(two, "exposed_comm_percent"));
  fputs(" | ", to);
  pair(to, "%.3g", 1e-9 * either(one, "used_bytes", "planned_bytes"),
       1e-9 * either(two, "used_bytes", "planned_bytes"));
  number(to, "%.1f", ls_bench_number(p, "memory_gb"));
  fputs(" | ", to);
  pair(to, "%.2g %%", ls_bench_number(one, "peak_flops_percent"), ls_bench_number(two, "peak_flops_percent"));
  pair(to, "%.0f %%", ls_bench_number(one, "gpu_busy_percent"), ls_bench_number(two, "gpu_busy_percent"));
  pair(to, "%.0f %%", ls_bench_number(p, "one_utilisation_percent"),
       ls_bench_number(p, "two_utilisation_percent"));
  fputc('\n', to);
}

static void tables(FILE *to, const json_t *study) {
  const json_t *table, *row;
  size_t i, k;
  json_array_foreach(json_object_get(study, "tables"), i, table) {
    char peer[48];
    fprintf(
        to,
        "\n### The %s%s\n\n| batch | one device, samples/s | study | two devices, samples/s | study | "
        "speed-up | study | efficiency | study | step, ms (one → two) | study | exposed communication of "
        "step, two | memory per device, GB (one → two) | study | of peak FLOP/s (one → two) | busy (one → "
        "two) | study, utilisation |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
        "--:|\n",
        text_of(table, "label"), link_text(table, peer));
    json_array_foreach(json_object_get(table, "rows"), k, row) table_row(to, row);
  }
}

static void timeline_row(FILE *to, const char *who, const json_t *parts) {
  static const char *const keys[] = {"forward", "backward", "communication", "optimizer", "rest", "total"};
  if (!json_is_object(parts)) return;
  fprintf(to, "| %s%s | ", who, strcmp(text_of(parts, "source"), "traced") ? "" : " (traced run)");
  for (int k = 0; k < LS_COUNT(keys); k++) {
    number(to, "%.3g", ls_bench_number(parts, keys[k]));
    fputs(" | ", to);
  }
  fputc('\n', to);
}

static void timelines(FILE *to, const json_t *study) {
  const json_t *t;
  size_t i;
  json_array_foreach(json_object_get(study, "timelines"), i, t) {
    char peer[48];
    const json_t *published = json_object_get(t, "published");
    fprintf(
        to,
        "\n### Parts of a step: %s, batch %.0f%s\n\n| ms | forward | backward | communication (exposed) | "
        "optimizer | rest | total |\n|---|--:|--:|--:|--:|--:|--:|\n",
        text_of(t, "model"), ls_bench_number(t, "batch"), link_text(t, peer));
    timeline_row(to, "one device", json_object_get(t, "one"));
    timeline_row(to, "study, one device", json_object_get(published, "one"));
    timeline_row(to, "two devices", json_object_get(t, "two"));
    timeline_row(to, "study, two devices", json_object_get(published, "two"));
  }
}

static void conclusions(FILE *to, const json_t *study) {
  const json_t *conclusion, *finding;
  size_t i, k;
  fputs(
      "\n## Where the study's conclusions hold\n\nOn this machine, with these networks and this program. "
      "Each is put to a test with the numbers above; intervals are at 95 % and not corrected for the number "
      "of cells. A speed-up's interval is the wider of the bootstrap's and Welch's.\n\n| the study "
      "concludes | tested by | link | verdict | figures |\n|---|---|---|---|---|\n",
      to);
  json_array_foreach(json_object_get(study, "conclusions"), i, conclusion) {
    json_array_foreach(json_object_get(conclusion, "findings"), k, finding) {
      const char *peer = text_of(finding, "peer_access");
      const char *link = peer[0]                                                  ? "peer access "
                         : json_is_true(json_object_get(conclusion, "all_links")) ? "both"
                                                                                  : "-";
      fprintf(to, "| %s | %s | %s%s | **%s** | %s |\n", k == 0 ? text_of(conclusion, "statement") : "\"",
              k == 0 ? text_of(conclusion, "test") : "\"", link, peer, text_of(finding, "verdict"),
              text_of(finding, "figures"));
    }
  }
}

void ls_bench_study_markdown(FILE *to, const json_t *document) {
  const json_t *study = json_object_get(document, "study");
  if (!study) return;
  fprintf(
      to,
      "\n## The study's tables\n\nColumns named study are what it published for its own hardware and "
      "software, not a measurement of this machine: %s (%s). Ours are measured; in brackets the 95 %% "
      "interval. Memory is what the device had in use where that can be read, else the plan's bytes. Peak "
      "is this machine's fastest measured matrix product (`lockstep probe`).\n",
      text_of(study, "source"), text_of(study, "hardware"));
  tables(to, study);
  timelines(to, study);
  conclusions(to, study);
}
