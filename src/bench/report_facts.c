/* What, where, when and how was measured, and whether the numbers can be trusted. Documents of earlier
 * versions know less of it: then the line is left out. */
#include "bench/report.h"

#include <math.h>
#include <string.h>

static void fact(json_t *facts, const char *name, json_t *text) {
  const char *value = json_string_value(text);
  if (value && *value)
    json_array_append_new(json_object_get(facts, "items"), json_pack("[s, O]", name, text));
  json_decref(text);
}

static json_t *machine_text(const json_t *machine) {
  double cores = ls_bench_number(machine, "cores"), usable = ls_bench_number(machine, "usable_cpus");
  if (!isfinite(cores)) return NULL;
  const char *virtualization = ls_report_word(machine, "virtualization");
  return json_sprintf("%s, %.0f core%s, %.0f processors to use, %s of memory%s%s",
                      ls_report_word(machine, "cpu_model"), cores, LS_PLURAL(cores), usable,
                      ls_text_bytes(ls_bench_number(machine, "memory_bytes")).s, *virtualization ? ", " : "",
                      virtualization);
}

/* "2 x NVIDIA H200, 140 GB": GPUs of one machine are alike, or only the first is named. */
static json_t *gpu_text(const json_t *machine) {
  const json_t *gpus = json_object_get(machine, "gpu"), *gpu = json_array_get(gpus, 0);
  size_t count = json_array_size(gpus);
  if (count == 0) return NULL;
  return json_sprintf("%zu x %s, %s", count, ls_report_word(gpu, "name"),
                      ls_text_bytes(ls_bench_number(gpu, "memory_bytes")).s);
}

static json_t *software_text(const json_t *d, const json_t *machine) {
  static const char *const keys[] = {"blas", "mpi", "driver", "cuda", "nccl", "kernel"};
  static const char *const names[] = {"", "", "driver ", "CUDA ", "NCCL ", ""};
  const json_t *run = json_object_get(d, "run");
  const char *version = ls_report_word(run, "lockstep"), *commit = ls_report_word(run, "commit");
  char text[512] = "";
  if (*version)
    snprintf(text, sizeof text, "lockstep %.60s%s%.60s%s", version, *commit ? " (commit " : "", commit,
             *commit ? ")" : "");
  for (int i = 0; i < LS_COUNT(keys); i++) {
    const char *value = ls_report_word(machine, keys[i]);
    size_t used = strlen(text);
    if (*value) snprintf(text + used, sizeof text - used, "%s%s%.60s", used ? ", " : "", names[i], value);
  }
  return json_string(text);
}

static json_t *repetitions_text(const json_t *d) {
  double each = ls_bench_number(d, "method.repetitions_per_process");
  double repetitions = ls_bench_number(d, "method.repetitions");
  return json_sprintf("%.0f of each variant, %.0f per process; %.0f measured steps after %.0f warm-up steps",
                      repetitions, each, ls_bench_number(d, "method.steps"),
                      ls_bench_number(d, "method.warmup_steps"));
}

static json_t *load_text(const json_t *run) {
  double before = ls_bench_number(run, "load_before"), after = ls_bench_number(run, "load_after");
  if (!isfinite(before) || !isfinite(after)) return NULL;
  return json_sprintf("%.2f before, %.2f after (load average of a minute, %.0f processors)", before, after,
                      ls_bench_number(run, "processors"));
}

static json_t *seed_text(const json_t *d) {
  double seed = ls_bench_number(d, "run.seed");
  if (!isfinite(seed)) return json_sprintf("%.0f of the order", ls_bench_number(d, "method.order_seed"));
  return json_sprintf("%.0f of training, %.0f of the order of repetitions", seed,
                      ls_bench_number(d, "method.order_seed"));
}

/* "2026-11-22T02:03:04Z" reads better without its letters. */
static json_t *date_text(const json_t *run) {
  const char *created = ls_report_word(run, "created");
  if (strlen(created) != 20) return NULL;
  return json_sprintf("%.10s %.5s UTC", created, created + 11);
}

static json_t *command_text(const json_t *run) {
  const char *command = ls_report_word(run, "command_line");
  return *command ? json_sprintf("`%s`", command) : NULL;
}

static json_t *network_text(const json_t *d) {
  const json_t *first = json_array_get(json_object_get(d, "variants"), 0);
  double params = ls_bench_number(first, "params");
  const char *network = ls_report_word(d, "run.network");
  if (json_object_get(first, "model") || !isfinite(params))
    return NULL; /* several: each variant names its own */
  return json_sprintf("%s%s%s parameters, %s", network, *network ? ", " : "", ls_text_count(params, 0).s,
                      ls_report_word(first, "precision"));
}

void ls_report_facts(json_t *report, const json_t *d) {
  const json_t *machine = json_object_get(d, "machine"), *run = json_object_get(d, "run");
  json_t *facts = json_pack("{s:s, s:[]}", "kind", "facts", "items");
  fact(facts, "Network", network_text(d));
  fact(facts, "Machine", machine_text(machine));
  fact(facts, "GPUs", gpu_text(machine));
  fact(facts, "Date", date_text(run));
  fact(facts, "Software", software_text(d, machine));
  fact(facts, "Command", command_text(run));
  fact(facts, "Configuration", json_sprintf("`%s`", ls_report_word(d, "config")));
  fact(facts, "Repetitions", repetitions_text(d));
  fact(facts, "Seeds", seed_text(d));
  fact(facts, "Load", load_text(run));
  json_array_append_new(report, facts);
}

static void control(json_t *report, const json_t *d) {
  double pairs = ls_bench_number(d, "control.pairs"), alarms = ls_bench_number(d, "control.false_alarms");
  if (pairs > 0)
    ls_report_item(report,
                   "A/A control: the same variant twice, %.0f pair%s of %.0f repetitions a side: %.0f false "
                   "alarm%s (%.0f %%, where at most %.0f %% are promised).",
                   pairs, LS_PLURAL(pairs), ls_bench_number(d, "control.repetitions_per_side"), alarms,
                   LS_PLURAL(alarms), 100 * ls_bench_number(d, "control.false_alarm_rate"),
                   100 * ls_bench_number(d, "control.alpha"));
  else
    ls_report_item(report, "A/A control: not run.");
}

void ls_report_trust(json_t *report, const json_t *d) {
  const json_t *limits = json_object_get(d, "limits");
  ls_report_heading(report, 2, "Can the numbers be trusted?");
  control(report, d);
  ls_report_item(report, "Clock and heat limits: CPU %s, GPU %s.", ls_report_word(limits, "cpu"),
                 ls_report_word(limits, "gpu"));
  ls_report_item(
      report,
      "Method: every repetition is a fresh run; %s. Intervals are at %.0f %%: Student's t over the "
      "repetitions for step times; for speed-ups the wider of the bootstrap's and Welch's.",
      ls_report_word(d, "method.order"), 100 * ls_bench_number(d, "method.confidence"));
  ls_report_item(report,
                 "Outliers are repetitions whose modified z-score is above %.1f: far from the median for how "
                 "close the others lie to it. They are flagged, never dropped in silence.",
                 ls_bench_number(d, "method.outlier_limit"));
}
