/* lockstep bench --study: what is swept when nothing else is asked for (tools/report/study.json, families.json), and the
 * study's tables on a terminal. */
#include "cli/bench.h"

#include <math.h>
#include <string.h>

ls_status_t bench_study_name(ls_ctx_t *ctx, const cli_args_t *args, const char **name) {
  static const char *const names[] = {"study", "families"};
  const char *text = args->extra[BENCH_STUDY];
  *name = NULL;
  if (!text) return LS_OK;
  for (int i = 0; i < LS_COUNT(names); i++)
    if (strcmp(*text ? text : names[0], names[i]) == 0) *name = names[i];
  return *name ? LS_OK
               : ls_fail(ctx, LS_ERR_ARGUMENT,
                         "--study %s: the study is --study, its families --study families", text);
}

ls_status_t bench_study_read(bench_t *b) {
  static const char *const keys[] = {"config", "models", "networks", "peer"};
  enum { DEFINITION_BYTES_MAX = 1 << 20 };
  char *path, file[48];
  json_t *definition = NULL;
  snprintf(file, sizeof file, "report/%s.json", b->study);
  ls_status_t status = cli_shipped_tool(b->ctx, file, &path);
  if (status != LS_OK) return status;
  status = ls_json_read(b->ctx, path, DEFINITION_BYTES_MAX, LS_ERR_DATA, "", &definition);
  b->sweep = json_incref(json_object_get(definition, "sweep"));
  for (int i = 0; i < LS_COUNT(keys) && status == LS_OK; i++)
    if (!json_is_string(json_object_get(b->sweep, keys[i])))
      status = ls_fail(b->ctx, LS_ERR_DATA, "%s: sweep.%s is no text", path, keys[i]);
  json_decref(definition);
  ls_free(path);
  return status;
}

const char *bench_study_word(const bench_t *b, const char *key) {
  return json_string_value(json_object_get(b->sweep, key));
}

void bench_study_count(const bench_t *b, const char *key, int64_t *count) {
  const json_t *value = json_object_get(b->sweep, key);
  if (json_is_integer(value)) *count = json_integer_value(value);
}

static void print_rate(const json_t *side) {
  double mean = ls_bench_number(side, "samples_per_s.mean"),
         half =
             (ls_bench_number(side, "samples_per_s.high") - ls_bench_number(side, "samples_per_s.low")) / 2;
  char text[48] = "-";
  if (isfinite(mean)) snprintf(text, sizeof text, "%.0f", mean);
  if (isfinite(half)) snprintf(text + strlen(text), sizeof text - strlen(text), " +- %.0f", half);
  cli_print(" %20s", text);
}

static void print_row(const json_t *row) {
  const json_t *one = json_object_get(row, "one"), *two = json_object_get(row, "two");
  cli_print("  %5.0f", ls_bench_number(row, "batch"));
  print_rate(one);
  print_rate(two);
  double speedup = ls_bench_number(row, "speedup.value"), low = ls_bench_number(row, "speedup.low"),
         study = ls_bench_number(row, "published.speedup");
  if (!isfinite(speedup)) {
    const json_t *failed = json_object_get(two, "failed");
    cli_print("   not measured: %s\n", ls_bench_word(failed ? two : one, "failed"));
    return;
  }
  cli_print("    %-22s %4.0f %%", ls_text_ratio(speedup, low, ls_bench_number(row, "speedup.high")).s,
            50 * speedup);
  double exposed = ls_bench_number(two, "exposed_comm_percent");
  if (isfinite(exposed))
    cli_print("  %4.0f %%", exposed);
  else
    cli_print("  %6s", "-");
  if (isfinite(study))
    cli_print("   %.0f, %.0f: %.2fx\n", ls_bench_number(row, "published.one_samples_per_s"),
              ls_bench_number(row, "published.two_samples_per_s"), study);
  else
    cli_print("   -\n");
}

void bench_print_study(const json_t *document) {
  const json_t *study = json_object_get(document, "study"), *table, *row, *conclusion, *finding;
  size_t i, k;
  const json_t *answer;
  if (!study) return;
  if (json_array_size(json_object_get(document, "crossovers")) > 0)
    cli_print("\n  from which batch on more ranks pay\n");
  json_array_foreach(json_object_get(document, "crossovers"), i, answer)
      cli_print("  %s\n", ls_bench_word(answer, "text"));
  json_array_foreach(json_object_get(study, "tables"), i, table) {
    const char *peer = ls_bench_word(table, "peer_access");
    cli_print("\n  %s%s%s\n  %5s %20s %20s   %-23s %6s  %6s   %s\n", ls_bench_word(table, "label"),
              peer[0] ? ", peer access " : "", peer, "batch", "one, samples/s", "two, samples/s",
              "speed-up (95 %)", "effic.", "comm.", "study, other hardware");
    json_array_foreach(json_object_get(table, "rows"), k, row) print_row(row);
  }
  cli_print("\n  the study's conclusions on this machine\n");
  json_array_foreach(json_object_get(study, "conclusions"), i, conclusion) {
    cli_print("  %s\n", ls_bench_word(conclusion, "statement"));
    json_array_foreach(json_object_get(conclusion, "findings"), k, finding) {
      const char *peer = ls_bench_word(finding, "peer_access");
      cli_print("    %s%s%-15s %s\n", peer[0] ? "peer " : "",
                peer[0] ? (peer[1] == 'n' ? "on:  " : "off: ") : "", ls_bench_word(finding, "verdict"),
                ls_bench_word(finding, "figures"));
    }
  }
}
