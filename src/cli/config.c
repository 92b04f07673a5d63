/* Reads the configuration that the command line names. */
#include "cli/cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_stdin(const char *name) {
  return strcmp(name, "-") == 0;
}

/* A source that cannot be read twice: stdin, a pipe, a device. A file at /dev/stdin has no folder either. */
static bool is_stream(const char *name) {
  struct stat info;
  if (is_stdin(name) || strncmp(name, "/dev/", 5) == 0 || strncmp(name, "/proc/", 6) == 0) return true;
  return stat(name, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode));
}

/* The place where the parent process left the text; NULL if it did not. */
static char *find_text(ls_ctx_t *ctx, const char *name) {
  const char *value = getenv(CLI_ENV_CONFIG), *colon = value ? strchr(value, ':') : NULL;
  if (!colon || strcmp(colon + 1, name) != 0) return NULL;
  char *path = ls_strdup(ctx, value);
  if (path) path[colon - value] = '\0';
  return path;
}

/* The text is in a file without a name that lives as long as this process, which outlives the processes that
 * it starts, and stays where this process becomes another program (strategy auto). */
static ls_status_t leave_text(ls_ctx_t *ctx, const cli_args_t *args) {
  int fd = memfd_create("lockstep-configuration", 0);
  size_t size = strlen(args->config) + 64;
  char *value = ls_alloc(ctx, size);
  if (!value) return LS_ERR_MEMORY;
  snprintf(value, size, "/proc/%ld/fd/%d:%s", (long)getpid(), fd, args->config);
  bool left = fd >= 0 && setenv(CLI_ENV_CONFIG, value, 1) == 0;
  for (size_t done = 0; left && done < args->config_size;) {
    ssize_t n = write(fd, args->config_text + done, args->config_size - done);
    left = n > 0;
    done += left ? (size_t)n : 0;
  }
  ls_free(value);
  return left ? LS_OK : ls_fail_errno(ctx, "the configuration cannot be kept for the ranks");
}

static ls_status_t take_from(ls_ctx_t *ctx, const char *path, cli_args_t *args) {
  int fd = is_stdin(path) ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ls_fail_errno(ctx, "%s: cannot be opened", path);
  ls_status_t status = ls_stream_read(ctx, fd, is_stdin(path) ? "stdin" : path, LS_DOC_BYTES_MAX + 1,
                                      &args->config_text, &args->config_size);
  if (fd != STDIN_FILENO) close(fd);
  return status;
}

/* The configuration in the directory of a run. */
static ls_status_t find_of_run(ls_ctx_t *ctx, cli_args_t *args) {
  static const char *const places[] = {LS_CONFIG_NAME, "../" LS_CONFIG_NAME};
  for (int i = 0; i < LS_COUNT(places) && !args->config; i++) {
    ls_free(args->run_config);
    if (!(args->run_config = ls_path_resolve(ctx, args->checkpoint, places[i]))) return LS_ERR_MEMORY;
    if (ls_path_exists(args->run_config)) args->config = args->run_config;
  }
  if (args->config) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT,
                 "%s: there is no " LS_CONFIG_NAME " of a run: name the configuration file",
                 args->checkpoint);
}

ls_status_t cli_config_take(ls_ctx_t *ctx, cli_args_t *args) {
  int rank, size;
  if (!args->config && args->checkpoint) return find_of_run(ctx, args);
  if (!args->config || !is_stream(args->config)) return LS_OK;
  char *left = find_text(ctx, args->config);
  if (!left && ls_comm_launched(&rank, &size) && size > 1)
    return ls_fail(
        ctx, LS_ERR_ARGUMENT,
        "%s: a launcher gives its input to one rank only: name a file, or start without the launcher",
        args->config);
  ls_status_t status = take_from(ctx, left ? left : args->config, args);
  if (status == LS_OK && !left) status = leave_text(ctx, args);
  ls_free(left);
  return status;
}

const char *cli_config_env(const cli_args_t *args) {
  const char *set = getenv(CLI_ENV_ENVIRONMENT);
  return args->env ? args->env : set && *set ? set : NULL;
}

ls_config_source_t cli_config_source(const cli_args_t *args) {
  return (ls_config_source_t){.name = is_stdin(args->config) ? "stdin" : args->config,
                              .text = args->config_text,
                              .size_bytes = args->config_size,
                              .data_root = args->data_root,
                              .env = cli_config_env(args),
                              .env_needed = args->env != NULL};
}

ls_status_t cli_config_load(ls_ctx_t *ctx, const cli_args_t *args, const char *const *sets, int set_count,
                            ls_config_t **config) {
  const ls_config_source_t source = cli_config_source(args);
  return ls_config_read(ctx, &source, sets, set_count, config);
}

ls_status_t cli_config_load_ranks(ls_ctx_t *ctx, const cli_args_t *args, ls_config_t **config) {
  const char *sets[CLI_SETS_MAX + 1];
  char ranks[48];
  int count = args->set_count;
  memcpy(sets, args->sets, (size_t)count * sizeof *sets);
  if (args->ranks > 0) {
    snprintf(ranks, sizeof ranks, "parallel.ranks=%lld", (long long)args->ranks);
    sets[count++] = ranks;
  }
  return cli_config_load(ctx, args, sets, count, config);
}

bool cli_ranks_started(cli_args_t *args) {
  int rank, size;
  if (!ls_comm_launched(&rank, &size)) return false;
  args->ranks = size;
  return true;
}
