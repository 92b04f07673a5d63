/* One process of a repetition: this program again, with --once. Its messages are kept and shown only when it
 * fails. */
#include "cli/bench.h"
#include "cli/stop.h"

#include <string.h>
#include <unistd.h>

enum { OWN_ARGS = 32 };

static ls_status_t read_measurement(bench_t *b, const char *path, const bench_variant_t *v,
                                    json_t **measurement) {
  json_error_t error;
  json_t *m = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!m) return ls_fail(b->ctx, LS_ERR_DATA, "%s: its process wrote no result (%s)", v->name, error.text);
  *measurement = m;
  return LS_OK;
}

ls_status_t bench_child_program(bench_t *b, const char *what, const char *const *argv, const char *result,
                                const char *peer, char message[256]) {
  enum { GRACE_S = 2, SAID_BYTES = 16384 };
  const char *const environment[] = {peer && !strcmp(peer, "on") ? "NCCL_P2P_DISABLE" : "NCCL_P2P_DISABLE=1",
                                     NULL};
  char said[SAID_BYTES];
  ls_child_end_t end;
  ls_child_spec_t spec = {.argv = argv,
                          .self = true,
                          .environment = peer ? environment : NULL,
                          .stream = {{.file = "/dev/null"}, {.file = result ? result : "/dev/null"}},
                          .limit_s = (int)b->limit_s,
                          .grace_s = GRACE_S,
                          .said = said,
                          .said_bytes = sizeof said};
  message[0] = '\0';
  cli_stop_mode(CLI_STOP_ASK); /* from here on: what is between two children looks at the next one */
  bool well = cli_stop_run(&spec, &end);
  if (cli_stop_requested())
    return ls_fail(b->ctx, LS_ERR_INTERRUPTED, "interrupted by %s while %s",
                   cli_stop_name(cli_stop_requested()), what);
  if (well) return LS_OK;
  if (end.late_s) {
    snprintf(message, 256, "%s took more than %d s (--limit or --budget)", what, end.late_s);
    return LS_ERR_TIMEOUT;
  }
  ls_child_reason(&end, said, message);
  bench_one_line(message);
  return LS_ERR_DEVICE;
}

ls_status_t bench_child_run(bench_t *b, const bench_variant_t *v, const bench_child_t *child,
                            json_t **measurement, char message[256]) {
  char text[3][96], sets[BENCH_SETS][BENCH_SET_BYTES];
  const cli_args_t *args = b->args;
  char *result = ls_path_join(b->ctx, b->dir, "result.json");
  const char **argv = ls_alloc_array(b->ctx, (size_t)(2 * args->set_count + OWN_ARGS), sizeof *argv);
  message[0] = '\0';
  ls_status_t status = result && argv ? LS_OK : LS_ERR_MEMORY;
  if (status == LS_OK) {
    snprintf(text[0], sizeof text[0], "--repetitions=%lld", (long long)child->repetitions);
    bool own = child->steps > 0;
    snprintf(text[1], sizeof text[1], "--steps=%lld", (long long)(own ? child->steps : b->method.steps));
    snprintf(text[2], sizeof text[2], "--warmup=%lld",
             (long long)(own ? child->warmup_steps : b->method.warmup_steps));
    const char *const first[] = {args->argv[0], "bench", args->config, "--once",
                                 result,        text[0], text[1],      text[2]};
    int n = LS_COUNT(first), set_count = bench_variant_sets(v, sets);
    memcpy(argv, first, sizeof first);
    if (args->data_root) {
      argv[n++] = "--data-root";
      argv[n++] = args->data_root;
    }
    if (args->env) {
      argv[n++] = "--env";
      argv[n++] = args->env;
    }
    if (child->params_path) {
      argv[n++] = "--once-params";
      argv[n++] = child->params_path;
    }
    if (child->traced) argv[n++] = "--once-traced";
    for (int i = 0; i < args->set_count + set_count; i++) {
      argv[n++] = "--set";
      argv[n++] = i < args->set_count ? args->sets[i] : sets[i - args->set_count];
    }
    char what[192];
    snprintf(what, sizeof what, "measuring %s", v->name);
    unlink(result);
    status = bench_child_program(b, what, argv, NULL, v->peer, message);
    if (status == LS_OK) status = read_measurement(b, result, v, measurement);
  }
  ls_free(argv);
  ls_free(result);
  return status;
}
