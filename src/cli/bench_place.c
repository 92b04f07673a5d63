/* Where, when and by which command a benchmark ran: the facts that a reader needs to repeat it. */
#include "cli/bench.h"
#include "cli/commit.h"

#include "base/shell.h"
#include "machine/machine.h"

#include <lockstep/version.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double load_now(void) {
  double load;
  return getloadavg(&load, 1) == 1 ? load : NAN;
}

void bench_run_begin(bench_t *b) {
  b->begun = time(NULL);
  b->load_before = load_now();
}

static json_t *command_line(const cli_args_t *args) {
  char *text = NULL;
  size_t size_bytes = 0;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return NULL;
  const char *slash = strrchr(args->argv[0], '/');
  ls_shell_put(to, slash ? slash + 1 : args->argv[0]);
  for (int i = 1; i < args->argc; i++) {
    fputc(' ', to);
    ls_shell_put(to, args->argv[i]);
  }
  json_t *json = fclose(to) == 0 ? ls_json_text(text) : NULL;
  free(text);
  return json;
}

static json_t *run_json(const bench_t *b) {
  char created[32] = "";
  struct tm utc;
  if (gmtime_r(&b->begun, &utc)) strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return json_pack("{s:s, s:o, s:s, s:s, s:s, s:I, s:o, s:o, s:i}", "created", created, "command_line",
                   command_line(b->args), "lockstep", ls_version(), "commit", CLI_COMMIT, "network",
                   b->network, "seed", (json_int_t)b->seed, "load_before", ls_json_number(b->load_before),
                   "load_after", ls_json_number(load_now()), "processors", ls_cpu_count());
}

/* Without a profile the share of the peak stays unknown; nobody is asked to probe for it. */
static void add_peak(json_t *document, const ls_machine_t *machine) {
  ls_profile_t *profile = NULL;
  char *path = ls_profile_default_path(NULL, machine);
  if (path && ls_path_exists(path) && ls_profile_load(NULL, path, machine, &profile) == LS_OK)
    ls_bench_peak(document, profile);
  ls_profile_destroy(profile);
  ls_free(path);
}

void bench_add_run(bench_t *b, json_t *document) {
  ls_machine_t *machine = ls_alloc(b->ctx, sizeof *machine);
  char hex[17];
  if (machine && ls_machine_read(b->ctx, machine) == LS_OK) {
    ls_machine_fingerprint(machine, hex);
    json_object_set_new(document, "machine_fingerprint", json_string(hex));
    json_object_set_new(document, "machine", ls_machine_json(machine));
    add_peak(document, machine);
  }
  ls_free(machine);
  ls_bench_add_run(document, run_json(b));
}
