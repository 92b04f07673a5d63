/* When, where and by which command a benchmark ran, and the document of what it measured. */
#include "bench/driver.h"
#include "machine/machine.h"

#include <lockstep/version.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char sysfs_cpu[] = "/sys/devices/system/cpu";

static double load_now(void) {
  double load;
  return getloadavg(&load, 1) == 1 ? load : NAN;
}

void ls_bench_say(const ls_bench_sweep_t *b, const char *fmt, ...) {
  char line[LS_BENCH_REASON_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  if (b->say) b->say(line);
}

void ls_bench_one_line(char *text) {
  text[strcspn(text, "\n")] = '\0';
  for (char *c = text; *c; c++)
    if (*c == '|') *c = '/';
}

void ls_bench_run_begin(ls_bench_sweep_t *b) {
  b->begun = time(NULL);
  b->load_before = load_now();
  b->method.cpu_throttles_before = ls_bench_cpu_throttles(sysfs_cpu);
}

static json_t *run_json(const ls_bench_sweep_t *b) {
  char created[32] = "";
  struct tm utc;
  if (gmtime_r(&b->begun, &utc)) strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return json_pack("{s:s, s:o, s:s, s:s, s:s, s:I, s:o, s:o, s:i}", "created", created, "command_line",
                   ls_json_text(b->command_line), "lockstep", ls_version(), "commit", b->commit, "network",
                   b->network, "seed", (json_int_t)b->seed, "load_before", ls_json_number(b->load_before),
                   "load_after", ls_json_number(load_now()), "processors", ls_cpu_count());
}

/* Without a profile the share of the peak stays unknown; nobody is asked to probe for it. */
static void add_machine(json_t *document, const ls_machine_t *machine) {
  ls_profile_t *profile = NULL;
  char hex[17];
  ls_machine_fingerprint(machine, hex);
  json_object_set_new(document, "machine_fingerprint", json_string(hex));
  json_object_set_new(document, "machine", ls_machine_json(machine));
  char *path = ls_profile_default_path(NULL, machine);
  if (path && ls_path_exists(path) && ls_profile_load(NULL, path, machine, &profile) == LS_OK)
    ls_bench_peak(document, profile);
  ls_profile_destroy(profile);
  ls_free(path);
}

ls_status_t ls_bench_sweep_document(ls_bench_sweep_t *b, ls_ctx_t *ctx, const char *incomplete,
                                    json_t **document) {
  ls_bench_method_t method = b->method;
  json_t *why = incomplete ? ls_json_text(incomplete) : NULL; /* replaces what is no UTF-8 */
  method.incomplete = json_string_value(why);
  method.cpu_throttles_after = ls_bench_cpu_throttles(sysfs_cpu);
  if (incomplete && !b->crossovers && method.repetitions > b->rounds_done * method.per_process)
    method.repetitions = b->rounds_done * method.per_process;
  ls_status_t status = ls_bench_document(ctx, &method, b->measured, b->control, document);
  json_decref(why);
  if (status != LS_OK) return status;
  if (b->crossovers) {
    json_object_set(*document, "crossovers", b->crossovers);
    json_object_set_new(
        json_object_get(*document, "method"), "order",
        json_string("the repetitions of a variant share a process, and those of a batch follow each other"));
  }
  ls_machine_t *machine = ls_alloc(ctx, sizeof *machine);
  if (machine && ls_machine_read(ctx, machine) == LS_OK) add_machine(*document, machine);
  ls_free(machine);
  ls_bench_add_run(*document, run_json(b));
  return LS_OK;
}

char *ls_bench_text(const json_t *document) {
  return json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
}

ls_status_t ls_bench_write(ls_ctx_t *ctx, const char *path, const json_t *document) {
  char *text = ls_bench_text(document);
  if (!text) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for %s", path);
  ls_status_t status = ls_file_replace(ctx, path, text, strlen(text));
  free(text);
  return status;
}

static ls_status_t save(ls_bench_sweep_t *b, ls_ctx_t *ctx, int64_t rounds) {
  char why[64];
  json_t *document;
  snprintf(why, sizeof why, "%lld of %lld rounds so far", (long long)b->rounds_done, (long long)rounds);
  ls_status_t status = ls_bench_sweep_document(b, ctx, why, &document);
  if (status != LS_OK) return status;
  ls_bench_conclude(document);
  status = ls_bench_write(ctx, b->output, document);
  json_decref(document);
  return status;
}

void ls_bench_save_so_far(ls_bench_sweep_t *b, int64_t rounds) {
  enum { EVERY_S = 10 };
  const int64_t now_ns = ls_clock_ns();
  const bool last = b->rounds_done == rounds;
  if (!b->output || b->unsaved || (last && !b->validate)) return;
  if (!last && b->saved_ns > 0 && now_ns - b->saved_ns < EVERY_S * INT64_C(1000000000)) return;
  ls_ctx_t *own = ls_ctx_create(NULL, NULL); /* keeps the reason, prints nothing */
  if (!own) return;
  if (save(b, own, rounds) != LS_OK) {
    b->unsaved = true;
    ls_log(b->ctx, LS_LOG_WARN,
           "the rounds so far cannot be saved (%s); measuring goes on, and the result is written at its end",
           ls_ctx_error(own));
  }
  b->saved_ns = now_ns;
  ls_ctx_destroy(own);
}

void ls_bench_sweep_release(ls_bench_sweep_t *b) {
  json_decref(b->crossovers);
  json_decref(b->control);
  json_decref(b->measured);
  ls_free(b->variant);
}
