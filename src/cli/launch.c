/* Starts the ranks: this command line as children of this process, or on several hosts through mpirun. */
#include "cli/cli.h"
#include "cli/stop.h"
#include "supervise/mpirun.h"

#include <jansson.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const ls_requests_t cli_requests = {
    .asked = cli_stop_requested, .forced = cli_stop_forced, .paused = cli_stop_paused, .name = cli_stop_name};

/* This command line, and the assignments that were added to it, ended by NULL; the array is the caller's (ls_free). */
static const char **command_line(ls_ctx_t *ctx, const cli_args_t *args) {
  int n = 0;
  const char **argv = ls_alloc_array(ctx, (size_t)(args->argc + 2 * args->sets_added + 1), sizeof *argv);
  if (!argv) return NULL;
  argv[n++] = "lockstep";
  for (int i = 1; i < args->argc; i++)
    argv[n++] = args->argv[i];
  for (int i = args->set_count - args->sets_added; i < args->set_count; i++) {
    argv[n++] = "--set";
    argv[n++] = args->sets[i];
  }
  return argv;
}

/* Signals are passed on to the ranks from here on. */
static void hear_signals(const cli_args_t *args) {
  cli_stop_mode(CLI_STOP_ASK);
  cli_stop_take_pause();
  args->messages->shared = cli_terminal_columns() > 0; /* rank 0 shows the progress */
  fflush(NULL);
}

ls_status_t cli_launch(ls_ctx_t *ctx, const cli_args_t *args, int ranks, double deadline_s) {
  int rank, size, code;
  if (ranks <= 1 || ls_comm_launched(&rank, &size)) return LS_OK;
  ls_status_t status = ls_ranks_check(ctx, ranks);
  if (status != LS_OK) return status;
  const char **argv = command_line(ctx, args);
  if (!argv) return LS_ERR_MEMORY;
  const ls_child_spec_t spec = {.argv = argv, .stream = {{.file = "/dev/null"}}};
  hear_signals(args);
  status = ls_ranks_run(ctx, &spec, ranks, &cli_requests, deadline_s, &code);
  ls_free(argv);
  if (status == LS_OK) exit(code);
  return status;
}

ls_status_t cli_launch_hosts(ls_ctx_t *ctx, const cli_args_t *args, const ls_parallel_config_t *parallel) {
  const ls_hosts_config_t *hosts = &parallel->hosts;
  const bool here = hosts->count == 0 || (hosts->count == 1 && ls_hosts_is_here(hosts->host[0].name));
  int rank, size, code;
  if (here) return cli_launch(ctx, args, (int)parallel->ranks, parallel->deadline_s);
  if (ls_comm_launched(&rank, &size)) return LS_OK;
  if (args->config_text)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "%s: ranks of other hosts cannot read it: name a file that all hosts see", args->config);
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  ls_mpirun_t spec = {.ranks = (int)parallel->ranks,
                      .hosts = ls_mpirun_hosts(&arena, hosts, (int)parallel->ranks),
                      .patience_s = parallel->deadline_s};
  const char **argv = command_line(ctx, args);
  ls_status_t status =
      argv && spec.hosts
          ? ls_mpirun_agent(ctx, &arena, hosts, ls_hosts_shell(parallel->remote_shell), &spec.agent)
          : LS_ERR_MEMORY;
  spec.argv = argv;
  if (status == LS_OK) {
    hear_signals(args);
    status = ls_mpirun_run(ctx, &spec, &cli_requests, &code);
  }
  ls_free(argv);
  ls_arena_release(&arena);
  if (status == LS_OK) exit(code);
  return status;
}

ls_status_t cli_hosts_take(ls_ctx_t *ctx, ls_arena_t *arena, cli_args_t *args, const char *file) {
  const char *nodes = getenv("SLURM_JOB_NODELIST"), *count = getenv("SLURM_JOB_NUM_NODES");
  int rank, size;
  bool slurm = !file && nodes && count && atoi(count) > 1;
  if (ls_comm_launched(&rank, &size) || (!file && !slurm)) return LS_OK;
  if (args->set_count == CLI_SETS_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "more than %d --set assignments; put them into the file",
                   CLI_SETS_MAX - 1);
  const char *set = NULL;
  for (int i = 0; slurm && i < args->set_count; i++)
    if (strncmp(args->sets[i], "parallel.hosts=", strlen("parallel.hosts=")) == 0)
      set = args->sets[i] + strlen("parallel.hosts=");
  if (set && *set) return LS_OK;
  json_t *list = json_array();
  ls_status_t status = file ? ls_hosts_read_file(ctx, file, list) : ls_hosts_read_slurm(ctx, nodes, list);
  char *text = status == LS_OK ? json_dumps(list, JSON_COMPACT) : NULL;
  set = text ? ls_arena_printf(arena, "parallel.hosts=%s", text) : NULL;
  if (status == LS_OK && !set) status = LS_ERR_MEMORY;
  if (set) {
    args->sets[args->set_count++] = set;
    args->sets_added++;
  }
  free(text);
  json_decref(list);
  return status;
}
