/* One process of a repetition: this program again, with --once. Its messages are kept and shown only when it
 * fails. */
#include "cli/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { OWN_ARGS = 32, POLL_NS = 2000000, GRACE_NS = 2000000000, MESSAGES_BYTES_MAX = 1 << 20 };

static volatile sig_atomic_t stop_requested;

static void request_stop(int signal) {
  (void)signal;
  stop_requested = 1;
}

static void kill_slowly(pid_t pid) {
  const struct timespec pause = {0, POLL_NS};
  int64_t until = ls_clock_ns() + GRACE_NS;
  kill(pid, SIGTERM);
  while (ls_clock_ns() < until) {
    if (waitpid(pid, NULL, WNOHANG) == pid) return;
    nanosleep(&pause, NULL);
  }
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

/* Waits by looking now and then. A stop ends the child, and so does the limit: that is not reported. */
static ls_status_t wait_for(bench_t *b, pid_t pid, const char *name, int *status) {
  const struct timespec pause = {0, POLL_NS};
  int64_t until = ls_clock_ns() + b->limit_s * 1000000000;
  for (;;) {
    pid_t got = waitpid(pid, status, WNOHANG);
    if (got == pid) return LS_OK;
    if (got < 0 && errno != EINTR) return ls_fail_errno(b->ctx, "waiting for a child process failed");
    if (stop_requested) {
      kill_slowly(pid);
      return ls_fail(b->ctx, LS_ERR_INTERRUPTED, "interrupted while measuring %s", name);
    }
    if (ls_clock_ns() > until) {
      kill_slowly(pid);
      return LS_ERR_TIMEOUT;
    }
    nanosleep(&pause, NULL);
  }
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
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  if (len < 0) return ls_fail_errno(b->ctx, "cannot find this program's path");
  self[len] = '\0';
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
static void pick_message(const char *path, int status, char message[256]) {
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
  else if (WIFSIGNALED(status))
    snprintf(message, 256, "ended by signal %d", WTERMSIG(status));
  else
    snprintf(message, 256, "exit code %d", WEXITSTATUS(status));
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
  int code;
  struct sigaction action = {.sa_handler = request_stop};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  unlink(result);
  ls_status_t status = spawn(b, argv, v->peer, messages, &pid);
  if (status == LS_OK) status = wait_for(b, pid, v->name, &code);
  if (status == LS_ERR_TIMEOUT)
    snprintf(message, 256, "a repetition took more than %lld s (--limit)", (long long)b->limit_s);
  if (status != LS_OK) return status;
  if (WIFEXITED(code) && WEXITSTATUS(code) == 0) return read_measurement(b, result, v, measurement);
  if (stop_requested) return ls_fail(b->ctx, LS_ERR_INTERRUPTED, "interrupted while measuring %s", v->name);
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
