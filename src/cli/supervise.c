/* lockstep train --supervise: the command line of a run's lives, signals and streams; the rest is src/live/supervise. */
#include "cli/cli.h"
#include "cli/stop.h"
#include "supervise/ranks.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  const cli_args_t *args;
  const char *shows; /* the assignment of monitor.dir */
  const char **argv; /* with room for all arguments and nine more */
  char ranks[16], past[48];
  ls_ctx_t *ctx;
  ls_status_t written; /* how writing to stdout went */
} own_t;

static void output(void *user, int stream, const char *bytes, size_t size_bytes) {
  own_t *own = user;
  FILE *to = stream == STDOUT_FILENO ? stdout : stderr;
  const bool written = fwrite(bytes, 1, size_bytes, to) == size_bytes && fflush(to) == 0;
  if (!written && to == stdout && own->written == LS_OK) own->written = cli_output_lost(own->ctx);
}

/* Whether argument i is this flag; *count: the arguments that it takes with its value. */
static bool is_flag(const cli_args_t *args, int i, const char *name, bool value, int *count) {
  size_t len = strlen(name);
  bool joined = strncmp(args->argv[i], name, len) == 0 && args->argv[i][len] == '=';
  *count = value && !joined ? 2 : 1;
  return joined || strcmp(args->argv[i], name) == 0;
}

/* Gives the command line as it came, without --supervise and with the number of ranks. When the run has begun, a life goes on
 * instead of beginning with other weights. */
static const char *const *command(void *user, bool again, int ranks, const char *hosts, int64_t past_step) {
  own_t *own = user;
  const cli_args_t *args = own->args;
  int n = 0, skip;
  own->argv[n++] = "lockstep";
  for (int i = 1; i < args->argc; i++) {
    if (is_flag(args, i, "--supervise", false, &skip) || is_flag(args, i, "--ranks", true, &skip) ||
        is_flag(args, i, "--hosts", true, &skip) || (again && is_flag(args, i, "--resume", false, &skip)) ||
        (again && is_flag(args, i, "--init", true, &skip)))
      i += skip - 1;
    else
      own->argv[n++] = args->argv[i];
  }
  own->argv[n++] = "--set";
  own->argv[n++] = own->shows;
  own->argv[n++] = "--ranks";
  own->argv[n++] = own->ranks;
  if (hosts) {
    own->argv[n++] = "--set";
    own->argv[n++] = hosts;
  }
  if (past_step > 0) {
    snprintf(own->past, sizeof own->past, "train.past_step=%lld", (long long)past_step);
    own->argv[n++] = "--set";
    own->argv[n++] = own->past;
  }
  if (again) own->argv[n++] = "--resume";
  own->argv[n] = NULL;
  snprintf(own->ranks, sizeof own->ranks, "%d", ranks);
  return own->argv;
}

/* Rank 0 shows the progress in place where its stderr ends on a terminal; mpirun would pass on whole lines only. */
static void share_terminal(cli_messages_t *messages, bool hosts) {
  char columns[16];
  snprintf(columns, sizeof columns, "%d", messages->columns);
  messages->shared = messages->columns > 0 && !hosts;
  if (messages->shared) setenv(CLI_ENV_TERMINAL, columns, 1);
}

/* fits[n]: the configuration fits n ranks, for each number that a life may have. At least one of those below all. */
static ls_status_t check_ranks(ls_ctx_t *ctx, const ls_config_t *config, const cli_args_t *args, bool *fits) {
  const int64_t least = config->supervise_ranks.least, all = config->parallel.ranks;
  cli_args_t fewer = *args;
  int count = 0;
  ls_status_t status = ls_config_least_check(ctx, config);
  if (status != LS_OK) return status;
  fits[all] = true;
  for (fewer.ranks = least; least > 0 && fewer.ranks < all; fewer.ranks++) {
    ls_config_t *tried = NULL;
    fits[fewer.ranks] = cli_config_load_ranks(NULL, &fewer, &tried) == LS_OK;
    count += fits[fewer.ranks];
    ls_config_destroy(tried);
  }
  if (least == 0 || least == all || count > 0) return LS_OK;
  return ls_fail(
      ctx, LS_ERR_CONFIG,
      "supervise.ranks.least: the configuration fits none of %lld to %lld ranks (parallel.reproducible needs "
      "a power of two)",
      (long long)least, (long long)all - 1);
}

static ls_status_t refuse(ls_ctx_t *ctx, const ls_config_t *config, const cli_args_t *args, bool *fits) {
  int rank, size;
  if (ls_comm_launched(&rank, &size))
    return ls_fail(
        ctx, LS_ERR_ARGUMENT,
        "--supervise starts the ranks itself: start lockstep train --supervise without mpirun or srun");
  if (config->parallel.automatic)
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "--supervise needs a strategy that stays the same in every life of the run: run lockstep plan, and "
        "write its choice of parallel.strategy and parallel.ranks");
  if (!config->checkpoint.dir)
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "--supervise needs train.checkpoint.dir: without checkpoints there is nothing to go on from");
  ls_status_t status =
      config->parallel.hosts.count == 0 ? ls_ranks_check(ctx, (int)config->parallel.ranks) : LS_OK;
  if (status == LS_OK) status = check_ranks(ctx, config, args, fits);
  return status == LS_OK ? ls_train_dir_check(ctx, config) : status;
}

ls_status_t cli_supervise(ls_ctx_t *ctx, const ls_config_t *config, const cli_args_t *args) {
  const int ranks = (int)config->parallel.ranks, least = (int)config->supervise_ranks.least;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  bool *fits = ls_arena_array(&arena, (size_t)ranks + 1, sizeof *fits);
  ls_status_t status = fits ? refuse(ctx, config, args, fits) : LS_ERR_MEMORY;
  if (status != LS_OK) {
    ls_arena_release(&arena);
    return status;
  }
  char *given = config->monitor.dir ? ls_strdup(ctx, config->monitor.dir)
                                    : ls_path_join(ctx, config->checkpoint.dir, CLI_MONITOR_NAME);
  char *dir = given ? ls_path_absolute(ctx, given) : NULL,
       *shared = ls_path_absolute(ctx, config->checkpoint.dir);
  ls_hosts_config_t hosts;
  const bool here = ls_hosts_own_first(&arena, &config->parallel.hosts, &hosts),
             on_host = strcmp(config->parallel.backend, "cpu") == 0;
  own_t own = {.ctx = ctx,
               .args = args,
               .shows = dir ? ls_arena_printf(&arena, "monitor.dir=%s", dir) : NULL,
               .argv = ls_alloc_array(ctx, (size_t)args->argc + 11, sizeof *own.argv)};
  const ls_supervise_t spec = {.config = &config->supervise,
                               .restarts = &config->restarts,
                               .dir = dir,
                               .places = {.all = ranks,
                                          .least = least > 0 ? least : ranks,
                                          .fits = fits,
                                          .hosts = hosts.count > 0 ? &hosts : NULL,
                                          .whole = hosts.count > 0 && !on_host},
                               .return_s = config->supervise_ranks.return_s,
                               .has_devices = !on_host && hosts.count == 0,
                               .devices = getenv("CUDA_VISIBLE_DEVICES"),
                               .shared = shared,
                               .mark = LS_CONFIG_NAME,
                               .resume = args->resume,
                               .remote_shell = ls_hosts_shell(config->parallel.remote_shell),
                               .here = here,
                               .command = command,
                               .output = output,
                               .user = &own,
                               .requests = &cli_requests};
  int code = ls_status_exit_code(LS_ERR_MEMORY);
  if (own.shows && own.argv && shared) {
    share_terminal(args->messages, hosts.count > 0);
    cli_stop_mode(CLI_STOP_ASK);
    cli_stop_take_pause();
    fflush(NULL);
    code = ls_supervise(ctx, &spec);
  }
  ls_free(own.argv);
  ls_free(shared);
  ls_free(dir);
  ls_free(given);
  ls_arena_release(&arena);
  exit(code == 0 ? ls_status_exit_code(own.written) : code);
}
