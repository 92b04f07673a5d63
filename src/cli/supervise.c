/* lockstep train --supervise: the command line of a run's lives, signals and streams; the rest is src/supervise. */
#include "supervise/supervise.h"
#include "cli/cli.h"
#include "cli/stop.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const cli_args_t *args;
  const char *shows; /* the assignment of monitor.dir */
  const char **argv; /* with room for all arguments and seven more */
  char ranks[16], past[48];
  char *devices; /* CUDA_VISIBLE_DEVICES as given; NULL: not */
  bool on_host;  /* the ranks use no device */
} own_t;

static int requested(void *user) {
  (void)user;
  return cli_stop_requested();
}
static bool forced(void *user) {
  (void)user;
  return cli_stop_forced();
}
static bool held(void *user) {
  (void)user;
  return cli_stop_held();
}

static void output(void *user, int stream, const char *bytes, size_t size_bytes) {
  FILE *to = stream == STDOUT_FILENO ? stdout : stderr;
  (void)user;
  fwrite(bytes, 1, size_bytes, to);
  fflush(to);
}

/* Whether argument i is this flag; *count: the arguments that it takes with its value. */
static bool is_flag(const cli_args_t *args, int i, const char *name, bool value, int *count) {
  size_t len = strlen(name);
  bool joined = strncmp(args->argv[i], name, len) == 0 && args->argv[i][len] == '=';
  *count = value && !joined ? 2 : 1;
  return joined || strcmp(args->argv[i], name) == 0;
}

/* Each rank finds the device of its place: those of places that are left out are hidden. */
static void hide_devices(const own_t *own, const ls_places_t *places) {
  static const char name[] = "CUDA_VISIBLE_DEVICES";
  char list[4096] = "";
  size_t used = 0;
  if (own->on_host) return;
  for (int r = 0; places->out_count > 0 && r < ls_places_ranks(places); r++) {
    int place = ls_places_at(places, r), len = 0;
    const char *at = own->devices;
    for (int i = 0; at && i < place; i++)
      at = (at = strchr(at, ',')) ? at + 1 : NULL;
    if (own->devices && !at) break; /* there are fewer: the ranks say so */
    if (at) len = (int)strcspn(at, ",");
    used += (size_t)(at ? snprintf(list + used, sizeof list - used, "%s%.*s", r ? "," : "", len, at)
                        : snprintf(list + used, sizeof list - used, "%s%d", r ? "," : "", place));
    if (used >= sizeof list) return;
  }
  if (places->out_count > 0)
    setenv(name, list, 1);
  else if (own->devices)
    setenv(name, own->devices, 1);
  else
    unsetenv(name);
}

/* As given, without --supervise, and with the number of ranks. A later life goes on instead of beginning with other weights. */
static const char *const *command(void *user, bool again, const ls_places_t *places, int64_t past_step) {
  own_t *own = user;
  const cli_args_t *args = own->args;
  int n = 0, skip;
  own->argv[n++] = "lockstep";
  for (int i = 1; i < args->argc; i++) {
    if (is_flag(args, i, "--supervise", false, &skip) || is_flag(args, i, "--ranks", true, &skip) ||
        (again && is_flag(args, i, "--resume", false, &skip)) ||
        (again && is_flag(args, i, "--init", true, &skip)))
      i += skip - 1;
    else
      own->argv[n++] = args->argv[i];
  }
  own->argv[n++] = "--set";
  own->argv[n++] = own->shows;
  own->argv[n++] = "--ranks";
  own->argv[n++] = own->ranks;
  if (past_step > 0) {
    snprintf(own->past, sizeof own->past, "train.past_step=%lld", (long long)past_step);
    own->argv[n++] = "--set";
    own->argv[n++] = own->past;
  }
  if (again) own->argv[n++] = "--resume";
  own->argv[n] = NULL;
  snprintf(own->ranks, sizeof own->ranks, "%d", ls_places_ranks(places));
  hide_devices(own, places);
  return own->argv;
}

/* mpirun ends the other ranks at once when one has died. Only where the user has not said otherwise. */
static void prepare_environment(cli_messages_t *messages) {
  char columns[16];
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", 0);
  setenv("PRTE_MCA_odls_base_sigkill_timeout", "0", 0);
  snprintf(columns, sizeof columns, "%d", messages->columns);
  messages->shared = messages->columns > 0; /* rank 0 shows the progress */
  if (messages->shared) setenv(CLI_ENV_TERMINAL, columns, 1);
}

/* A batch system repeats a run that it has ended itself; who pressed Ctrl-C has had enough. */
static int exit_code(int code) {
  int signal_number = cli_stop_requested();
  bool by_hand = signal_number == SIGINT || signal_number == SIGQUIT || signal_number == SIGHUP;
  return code == LS_SUPERVISE_AGAIN && by_hand ? ls_status_exit_code(LS_ERR_INTERRUPTED) : code;
}

/* Whether the configuration fits every number of ranks that a life may have. */
static ls_status_t check_ranks(ls_ctx_t *ctx, const ls_config_t *config, const cli_args_t *args) {
  const int64_t least = config->supervise_ranks.least, all = config->parallel.ranks;
  cli_args_t fewer = *args;
  ls_status_t status = LS_OK;
  if (least > all)
    return ls_fail(ctx, LS_ERR_CONFIG, "supervise.ranks.least: the run has %lld ranks; %lld cannot be left",
                   (long long)all, (long long)least);
  for (fewer.ranks = least; least > 0 && fewer.ranks < all && status == LS_OK; fewer.ranks++) {
    ls_config_t *tried = NULL;
    status = cli_config_load_ranks(ctx, &fewer, &tried);
    ls_config_destroy(tried);
    if (status != LS_OK)
      return ls_fail(ctx, status, "supervise.ranks.least: the run could not go on with %lld of %lld ranks",
                     (long long)fewer.ranks, (long long)all);
  }
  return LS_OK;
}

static ls_status_t refuse(ls_ctx_t *ctx, const ls_config_t *config, const cli_args_t *args) {
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
  ls_status_t status = check_ranks(ctx, config, args);
  return status == LS_OK ? ls_train_dir_check(ctx, config) : status;
}

ls_status_t cli_supervise(ls_ctx_t *ctx, const ls_config_t *config, const cli_args_t *args) {
  ls_status_t status = refuse(ctx, config, args);
  if (status != LS_OK) return status;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  char *given = config->monitor.dir ? ls_strdup(ctx, config->monitor.dir)
                                    : ls_path_join(ctx, config->checkpoint.dir, CLI_MONITOR_NAME);
  char *dir = given ? ls_path_absolute(ctx, given) : NULL;
  const char *devices = getenv("CUDA_VISIBLE_DEVICES");
  const int ranks = (int)config->parallel.ranks, least = (int)config->supervise_ranks.least;
  own_t own = {.args = args,
               .on_host = strcmp(config->parallel.backend, "cpu") == 0,
               .devices = devices ? ls_arena_printf(&arena, "%s", devices) : NULL,
               .shows = dir ? ls_arena_printf(&arena, "monitor.dir=%s", dir) : NULL,
               .argv = ls_alloc_array(ctx, (size_t)args->argc + 9, sizeof *own.argv)};
  const ls_supervise_t spec = {.config = &config->supervise,
                               .restarts = &config->restarts,
                               .dir = dir,
                               .ranks = ranks,
                               .least = least > 0 ? least : ranks,
                               .command = command,
                               .output = output,
                               .stop = requested,
                               .forced = forced,
                               .held = held,
                               .user = &own};
  int code = ls_status_exit_code(LS_ERR_MEMORY);
  if (own.shows && own.argv) {
    prepare_environment(args->messages);
    cli_stop_mode(CLI_STOP_ASK);
    cli_stop_hold();
    fflush(NULL);
    code = exit_code(ls_supervise(ctx, &spec));
  }
  ls_free(own.argv);
  ls_free(dir);
  ls_free(given);
  ls_arena_release(&arena);
  if (fflush(stdout) != 0 || ferror(stdout)) code = ls_status_exit_code(cli_output_lost(ctx));
  exit(code);
}
