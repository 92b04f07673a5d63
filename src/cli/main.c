/* Entry: picks the command, prints its messages, turns its status into an exit code. */
#include "cli/cli.h"
#include "cli/commit.h"
#include "cli/stop.h"
#include "comm/transport.h"
#include "supervise/agent.h"
#include "supervise/mpirun.h"

#include <fcntl.h>
#include <lockstep/version.h>
#include <string.h>
#include <unistd.h>

static int print_version(bool json) {
#ifdef LS_HAVE_DNNL
  static const char cpu[] = "oneDNN";
#else
  static const char cpu[] = "OpenBLAS";
#endif
  ls_ctx_t *quiet = ls_ctx_create(NULL, NULL);
  const ls_cuda_module_t *module = NULL;
  if (quiet && ls_cuda_module_load(quiet, &module) != LS_OK) module = NULL;
  int devices = module ? module->backend->device->count(quiet) : 0;
  const char *refused = module ? "" : quiet ? ls_ctx_error(quiet) : "unknown";
  if (json) {
    json_t *cuda = json_pack("{s:b, s:i, s:o}", "loaded", module != NULL, "devices", devices, "refused",
                             module ? json_null() : ls_json_text(refused));
    for (int i = 0; ls_transports[i]; i++)
      if (ls_transports[i]->backend && ls_transports[i]->present)
        json_object_set_new(cuda, ls_transports[i]->name, json_boolean(ls_transports[i]->present()));
    cli_print_json(json_pack("{s:s, s:s, s:s, s:s, s:o}", "command", "version", "lockstep", ls_version(),
                             "commit", CLI_COMMIT, "cpu", cpu, "cuda", cuda));
  } else {
    printf("lockstep %s (commit %s)\ncpu: %s\n", ls_version(), CLI_COMMIT, cpu);
    if (module)
      printf("cuda: module loaded, %d device(s)%s\n", devices, module->nccl_create ? ", NCCL" : "");
    else
      printf("cuda: %s\n", refused);
  }
  ls_ctx_destroy(quiet);
  return 0;
}

static int device_answers(void) {
  const ls_cuda_module_t *module = NULL;
  const bool loaded = ls_cuda_module_load(NULL, &module) == LS_OK;
  return loaded && module->backend->device->count(NULL) > 0 ? 0 : ls_status_exit_code(LS_ERR_DEVICE);
}

static int print_reference(ls_ctx_t *ctx) {
  char *text = ls_config_reference(ctx);
  if (!text) return ls_status_exit_code(LS_ERR_MEMORY);
  fputs(text, stdout);
  ls_free(text);
  return 0;
}

static int usage_error(ls_ctx_t *ctx, const char *name) {
  const char *names[CLI_COMMANDS_MAX + 1];
  int n = 0;
  for (; cli_command_at(n); n++)
    names[n] = cli_command_at(n)->name;
  names[n] = NULL;
  const char *nearest = ls_nearest(name, names);
  return ls_status_exit_code(
      ls_fail(ctx, LS_ERR_ARGUMENT, "unknown command \"%s\"%s%s%s; see lockstep --help", name,
              nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : ""));
}

static int run_command(ls_ctx_t *ctx, cli_messages_t *messages, const cli_command_t *command, int argc,
                       char **argv) {
  cli_args_t args;
  ls_status_t status = cli_args_parse(ctx, command, argc, argv, &args);
  args.messages = messages;
  if (status == LS_OK && args.help) {
    cli_help_command(stdout, command);
    return 0;
  }
  if (args.verbose) ls_ctx_set_level(ctx, LS_LOG_DEBUG);
  if (status == LS_OK && (command->flags & CLI_FLAG_TOGETHER)) cli_messages_gather(messages);
  ls_world_t *none;
  if (status == LS_OK && (status = cli_config_take(ctx, &args)) != LS_OK)
    status = cli_world_open(ctx, messages, 0, status, &none); /* the ranks refuse as one */
  else if (status == LS_OK)
    status = command->run(ctx, &args);
  ls_free(args.run_config);
  ls_free(args.config_text);
  return ls_status_exit_code(status);
}

static int dispatch(ls_ctx_t *ctx, cli_messages_t *messages, int argc, char **argv) {
  if (argc < 2) {
    cli_usage_program(stderr);
    return ls_status_exit_code(LS_ERR_ARGUMENT);
  }
  const char *name = argv[1];
  if (!strcmp(name, "--complete")) {
    cli_complete(argc - 2, argv + 2);
    return 0;
  }
  if (!strcmp(name, LS_MPIRUN_SHELL_FLAG)) return ls_status_exit_code(ls_mpirun_shell(ctx, argv + 2));
  if (!strcmp(name, LS_RETURNS_FLAG)) return device_answers();
  if (!strcmp(name, LS_AGENT_FLAG)) return ls_status_exit_code(ls_agent_run(ctx));
  if (!strcmp(name, "--version")) {
    bool json = argc == 3 && !strcmp(argv[2], "--json");
    if (argc > 2 && !json)
      return ls_status_exit_code(ls_fail(
          ctx, LS_ERR_ARGUMENT, "lockstep --version takes nothing but --json, not \"%s\"", argv[argc - 1]));
    return print_version(json);
  }
  bool help = !strcmp(name, "help");
  const char *asked = help && argc > 2 ? argv[2] : name;
  if (!strcmp(asked, "--help") || !strcmp(asked, "-h") || !strcmp(asked, "help")) {
    cli_help_program(stdout);
    return 0;
  }
  if (help && argc > 3 && strcmp(asked, "man") != 0)
    return ls_status_exit_code(
        ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep help %s takes no further word, not \"%s\"", asked, argv[3]));
  if (help && !strcmp(asked, "config")) return print_reference(ctx);
  if (help && !strcmp(asked, "man"))
    return cli_manual(argc > 3 ? argv[3] : NULL) ? 0 : usage_error(ctx, argv[3]);
  const cli_command_t *command = cli_command_find(asked);
  if (command && !help) return run_command(ctx, messages, command, argc, argv);
  if (command) cli_help_command(stdout, command);
  if (command) return 0;
  return usage_error(ctx, asked);
}

/* Everything printed must have arrived, whoever printed it. */
static int flush_output(ls_ctx_t *ctx, int code) {
  bool lost = ferror(stdout) != 0;
  lost |= fflush(stdout) != 0;
  return lost && code == 0 ? ls_status_exit_code(cli_output_lost(ctx)) : code;
}

/* If a standard stream is closed, no file that is opened later may get its number, because output for the
 * stream would end up in that file. Writing to it (reading stdin) fails as before. */
static void keep_numbers(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
  cli_messages_t messages = {0};
  int rank, size;
  keep_numbers();
  const bool launched = ls_comm_launched(&rank, &size);
  const char *launcher = getenv(LS_MPIRUN_PARENT);
  const bool outside =
      launched && !ls_comm_shm_started(&rank, &size); /* by a launcher, which speaks itself */
  cli_stop_install(launched && (outside || rank > 0));
  if (outside) ls_child_follow(launcher ? (pid_t)strtol(launcher, NULL, 10) : 0);
  ls_ctx_t *ctx = ls_ctx_create(cli_messages_print, &messages);
  if (!ctx) {
    fputs("lockstep: error: out of memory\n", stderr);
    return ls_status_exit_code(LS_ERR_MEMORY);
  }
  int code = flush_output(ctx, dispatch(ctx, &messages, argc, argv));
  cli_messages_end(&messages);
  ls_ctx_destroy(ctx);
  return code;
}
