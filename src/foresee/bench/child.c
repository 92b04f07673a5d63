/* One process of a benchmark. Its messages are kept and shown only when it fails. */
#include "bench/driver.h"

#include <string.h>
#include <unistd.h>

ls_status_t ls_bench_program(ls_bench_sweep_t *b, const char *what, const char *const *argv,
                             const char *result, const char *peer, char message[LS_BENCH_MESSAGE_BYTES]) {
  enum { GRACE_S = 2, SAID_BYTES = 16384 };
  const char *const environment[] = {peer && !strcmp(peer, "on") ? "NCCL_P2P_DISABLE" : "NCCL_P2P_DISABLE=1",
                                     NULL};
  char said[SAID_BYTES];
  ls_child_end_t end;
  const ls_child_spec_t spec = {.argv = argv,
                                .self = true,
                                .environment = peer ? environment : NULL,
                                .stream = {{.file = "/dev/null"}, {.file = result ? result : "/dev/null"}},
                                .limit_s = (int)b->limit_s,
                                .grace_s = GRACE_S,
                                .stop = b->stop,
                                .said = said,
                                .said_bytes = sizeof said};
  message[0] = '\0';
  const bool well = ls_child_run(&spec, &end);
  const int stopped = b->stop ? b->stop() : 0;
  if (stopped)
    return ls_fail(b->ctx, LS_ERR_INTERRUPTED, "interrupted by %s while %s", b->stop_name(stopped), what);
  if (well) return LS_OK;
  if (end.late_s) {
    snprintf(message, LS_BENCH_MESSAGE_BYTES, "%s took more than %d s (--limit or --budget)", what,
             end.late_s);
    return LS_ERR_TIMEOUT;
  }
  ls_child_reason(&end, said, message);
  ls_bench_one_line(message);
  return LS_ERR_DEVICE;
}

ls_status_t ls_bench_config_write(const ls_bench_sweep_t *b, const ls_config_t *config, const char *name,
                                  char **path) {
  char *text = ls_config_text(b->ctx, config), *file = text ? ls_path_join(b->ctx, b->dir, name) : NULL;
  ls_status_t status = file ? ls_file_write(b->ctx, file, text, strlen(text)) : LS_ERR_MEMORY;
  ls_free(text);
  if (status == LS_OK)
    *path = file;
  else
    ls_free(file);
  return status;
}

ls_status_t ls_bench_child(ls_bench_sweep_t *b, const ls_bench_variant_t *v, const ls_bench_child_t *child,
                           json_t **measurement, char message[LS_BENCH_MESSAGE_BYTES]) {
  enum { RESULT_BYTES_MAX = 1 << 30 };
  const bool own = child->steps > 0;
  char text[3][48], name[32], what[192];
  snprintf(name, sizeof name, "variant-%d.json", v->file);
  snprintf(what, sizeof what, "measuring %s", v->name);
  snprintf(text[0], sizeof text[0], "--repetitions=%lld", (long long)child->repetitions);
  snprintf(text[1], sizeof text[1], "--steps=%lld", (long long)(own ? child->steps : b->method.steps));
  snprintf(text[2], sizeof text[2], "--warmup=%lld",
           (long long)(own ? child->warmup_steps : b->method.warmup_steps));
  char *config = ls_path_join(b->ctx, b->dir, name), *result = ls_path_join(b->ctx, b->dir, "result.json");
  const char *argv[12] = {"lockstep", "bench", config, "--once", result, text[0], text[1], text[2]};
  int count = 8;
  if (child->params_path) {
    argv[count++] = "--once-params";
    argv[count++] = child->params_path;
  }
  if (child->traced) argv[count++] = "--once-traced";
  message[0] = '\0';
  ls_status_t status = config && result ? LS_OK : LS_ERR_MEMORY;
  if (status == LS_OK) {
    unlink(result);
    status = ls_bench_program(b, what, argv, NULL, v->peer, message);
  }
  if (status == LS_OK) status = ls_json_read(b->ctx, result, RESULT_BYTES_MAX, LS_ERR_DATA, "", measurement);
  ls_free(result);
  ls_free(config);
  return status;
}
