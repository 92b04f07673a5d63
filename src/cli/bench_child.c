/* One process of a repetition: this program again, with --once. Its messages are kept and shown only when it
 * fails. */
#include "cli/bench.h"
#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { OWN_ARGS = 32, GRACE_S = 2, MESSAGES_BYTES_MAX = 1 << 20 };

/* A stop ends the child, and so does the limit: that is not reported. */
static ls_status_t wait_for(bench_t *b, pid_t pid, const char *name, int *code) {
  cli_child_wait(pid, (int)b->limit_s, GRACE_S, code);
  if (cli_stop_requested())
    return ls_fail(b->ctx, LS_ERR_INTERRUPTED, "interrupted while measuring %s", name);
  return *code == CLI_CHILD_LATE ? LS_ERR_TIMEOUT : LS_OK;
}

/* The environment of a variant's ranks: ours, with NCCL's access to peer memory as the variant wants it. The
 * texts are borrowed; the array is the caller's (ls_free). */
static char **variant_environment(bench_t *b, bench_peer_t peer) {
  static char off[] = "NCCL_P2P_DISABLE=1";
  size_t count = 0, kept = 0;
  while (environ[count])
    count++;
  char **own = ls_alloc_array(b->ctx, count + 2, sizeof *own);
  for (size_t i = 0; own && i < count; i++)
    if (peer == BENCH_PEER_AS_IT_IS || strncmp(environ[i], off, strcspn(off, "=") + 1) != 0)
      own[kept++] = environ[i];
  if (own && peer == BENCH_PEER_OFF) own[kept] = off;
  return own;
}

static ls_status_t spawn(bench_t *b, char **argv, bench_peer_t peer, const char *messages, pid_t *pid) {
  char self[PATH_MAX];
  if (!cli_child_self(self)) return ls_fail_errno(b->ctx, "cannot find this program's path");
  char **environment = variant_environment(b, peer);
  if (!environment) return LS_ERR_MEMORY;
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error == 0) {
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0)
      error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (error == 0)
      error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, messages,
                                               O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (error == 0) error = posix_spawn(pid, self, &actions, NULL, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
  }
  ls_free(environment);
  if (error == 0) return LS_OK;
  errno = error;
  return ls_fail_errno(b->ctx, "%s cannot be started", self);
}

/* The first "lockstep: ... error: ..." line, else the last line, of what the child said; no table separators.
 */
static void pick_message(const char *path, int code, char message[256]) {
  char *text = NULL;
  size_t size_bytes;
  const char *line = NULL;
  if (ls_file_read(NULL, path, MESSAGES_BYTES_MAX, &text, &size_bytes) == LS_OK) {
    const char *found = strstr(text, "error: ");
    line = found ? found + strlen("error: ") : text;
  }
  size_t len = line ? strcspn(line, "\n") : 0;
  if (len > 0)
    snprintf(message, 256, "%.*s", len < 255 ? (int)len : 255, line);
  else if (code > 128)
    snprintf(message, 256, "ended by signal %d", code - 128);
  else
    snprintf(message, 256, "exit code %d", code);
  bench_one_line(message);
  ls_free(text);
}

static ls_status_t read_measurement(bench_t *b, const char *path, const bench_variant_t *v,
                                    json_t **measurement) {
  json_error_t error;
  json_t *m = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!m) return ls_fail(b->ctx, LS_ERR_DATA, "%s: its process wrote no result (%s)", v->name, error.text);
  *measurement = m;
  return LS_OK;
}

static ls_status_t run_and_read(bench_t *b, const bench_variant_t *v, char **argv, const char *result,
                                const char *messages, json_t **measurement, char message[256]) {
  pid_t pid;
  int code = 1;
  cli_stop_mode(CLI_STOP_ASK); /* from here on: what is between two children looks at the next one */
  unlink(result);
  ls_status_t status = spawn(b, argv, v->peer, messages, &pid);
  if (status == LS_OK) status = wait_for(b, pid, v->name, &code);
  if (status == LS_ERR_TIMEOUT)
    snprintf(message, 256, "a repetition took more than %lld s (--limit)", (long long)b->limit_s);
  if (status != LS_OK) return status;
  if (code == 0) return read_measurement(b, result, v, measurement);
  pick_message(messages, code, message);
  return LS_ERR_DEVICE;
}

ls_status_t bench_child_run(bench_t *b, const bench_variant_t *v, const bench_child_t *child,
                            json_t **measurement, char message[256]) {
  char text[3][96], sets[BENCH_SETS][BENCH_SET_BYTES];
  char *result = ls_path_join(b->ctx, b->dir, "result.json"),
       *messages = ls_path_join(b->ctx, b->dir, "messages");
  char **argv = ls_alloc_array(b->ctx, (size_t)(2 * b->args->set_count + OWN_ARGS), sizeof *argv);
  message[0] = '\0';
  ls_status_t status = result && messages && argv ? LS_OK : LS_ERR_MEMORY;
  if (status == LS_OK) {
    snprintf(text[0], sizeof text[0], "--repetitions=%lld", (long long)child->repetitions);
    snprintf(text[1], sizeof text[1], "--steps=%lld", (long long)b->method.steps);
    snprintf(text[2], sizeof text[2], "--warmup=%lld", (long long)b->method.warmup_steps);
    int n = 0, set_count = bench_variant_sets(v, sets);
    char command[] = "bench", once[] = "--once", set[] = "--set", data_root[] = "--data-root",
         params[] = "--once-params", traced[] = "--once-traced";
    const char *params_path = child->params_path;
    argv[n++] = b->args->argv[0];
    argv[n++] = command;
    argv[n++] = (char *)(uintptr_t)b->args->config; /* posix_spawn's argv is not const, nor is it written */
    if (b->args->data_root) {
      argv[n++] = data_root;
      argv[n++] = (char *)(uintptr_t)b->args->data_root;
    }
    argv[n++] = once;
    argv[n++] = result;
    for (int i = 0; i < 3; i++)
      argv[n++] = text[i];
    if (params_path) {
      argv[n++] = params;
      argv[n++] = (char *)(uintptr_t)params_path;
    }
    if (child->traced) argv[n++] = traced;
    for (int i = 0; i < b->args->set_count; i++) {
      argv[n++] = set;
      argv[n++] = (char *)(uintptr_t)b->args->sets[i];
    }
    for (int i = 0; i < set_count; i++) {
      argv[n++] = set;
      argv[n++] = sets[i];
    }
    status = run_and_read(b, v, argv, result, messages, measurement, message);
  }
  ls_free(argv);
  ls_free(messages);
  ls_free(result);
  return status;
}
