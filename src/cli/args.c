/* Flags as rows: one table gives parsing and help. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  unsigned flag;
  const char *name, *value; /* value: its placeholder, NULL for switches */
  const char *help;
} flag_row_t;

static const flag_row_t flags[] = {
    {CLI_FLAG_RANKS, "--ranks", "N",
     "Processes to train with, started through mpirun (default: parallel.ranks)."},
    {CLI_FLAG_RESUME, "--resume", NULL, "Go on from the newest good checkpoint of train.checkpoint.dir."},
    {CLI_FLAG_CHECKPOINT, "--checkpoint", "DIR",
     "A checkpoint, or a run's directory (then its newest good one)."},
    {CLI_FLAG_SET, "--set", "a.b=VALUE", "Override one option of the configuration; repeatable."},
    {CLI_FLAG_JSON, "--json", NULL, "One JSON document on stdout instead of tables."},
    {CLI_FLAG_TRACE, "--trace", "FILE", "Write the last steps' timeline (Chrome trace; ui.perfetto.dev)."},
    {CLI_FLAG_QUIET, "--quiet", NULL, "No progress line."},
    {CLI_FLAG_VERBOSE, "--verbose", NULL, "Say more on stderr."},
};

static const flag_row_t *find_flag(const cli_command_t *command, const char *name, size_t len) {
  for (int i = 0; i < LS_COUNT(flags); i++)
    if ((command->flags & flags[i].flag) && strlen(flags[i].name) == len &&
        !strncmp(flags[i].name, name, len))
      return &flags[i];
  return NULL;
}

static ls_status_t usage(ls_ctx_t *ctx, const cli_command_t *command, const char *what, const char *which) {
  const char *names[LS_COUNT(flags) + 1];
  int count = 0;
  for (int i = 0; i < LS_COUNT(flags); i++)
    if (command->flags & flags[i].flag) names[count++] = flags[i].name;
  names[count] = NULL;
  const char *nearest = which[0] == '-' ? ls_nearest(which, names) : NULL;
  if (nearest && !strcmp(nearest, which)) nearest = NULL;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep %s: %s \"%s\"%s%s%s; see lockstep %s --help", command->name,
                 what, which, nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "",
                 command->name);
}

static ls_status_t take_ranks(ls_ctx_t *ctx, const char *text, cli_args_t *args) {
  char *end;
  errno = 0;
  args->ranks = strtol(text, &end, 10);
  if (errno || *end || end == text || args->ranks < 1 || args->ranks > 65536)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--ranks takes a whole number from 1 to 65536, not \"%s\"", text);
  return LS_OK;
}

static ls_status_t take(ls_ctx_t *ctx, const flag_row_t *row, const char *value, cli_args_t *args) {
  switch (row->flag) {
  case CLI_FLAG_RANKS:
    return take_ranks(ctx, value, args);
  case CLI_FLAG_RESUME:
    args->resume = true;
    return LS_OK;
  case CLI_FLAG_CHECKPOINT:
    args->checkpoint = value;
    return LS_OK;
  case CLI_FLAG_JSON:
    args->json = true;
    return LS_OK;
  case CLI_FLAG_TRACE:
    args->trace = value;
    return LS_OK;
  case CLI_FLAG_QUIET:
    args->quiet = true;
    return LS_OK;
  case CLI_FLAG_VERBOSE:
    args->verbose = true;
    return LS_OK;
  default:
    break;
  }
  if (args->set_count == CLI_SETS_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "more than %d --set assignments; put them into the file",
                   CLI_SETS_MAX);
  args->sets[args->set_count++] = value;
  return LS_OK;
}

ls_status_t cli_args_parse(ls_ctx_t *ctx, const cli_command_t *command, int argc, char **argv,
                           cli_args_t *args) {
  *args = (cli_args_t){.argc = argc, .argv = argv};
  for (int i = 2; i < argc; i++) {
    const char *arg = argv[i];
    if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
      args->help = true;
      return LS_OK;
    }
    if (arg[0] != '-' || !arg[1]) {
      if (args->config || !(command->flags & CLI_FLAG_CONFIG))
        return usage(ctx, command, "unexpected argument", arg);
      args->config = arg;
      continue;
    }
    const char *equals = strchr(arg, '=');
    size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
    const flag_row_t *row = find_flag(command, arg, len);
    if (!row) return usage(ctx, command, "unknown option", arg);
    const char *value = NULL;
    if (row->value) {
      value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
      if (!value || !*value) return usage(ctx, command, "a value is missing after", row->name);
    } else if (equals) {
      return usage(ctx, command, "no value may follow", row->name);
    }
    ls_status_t status = take(ctx, row, value, args);
    if (status != LS_OK) return status;
  }
  if ((command->flags & CLI_FLAG_CONFIG) && !args->config)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "lockstep %s: the configuration file is missing; see lockstep %s --help", command->name,
                   command->name);
  return LS_OK;
}

void cli_help_command(FILE *to, const cli_command_t *command) {
  fprintf(to, "usage: lockstep %s%s [options]\n\n%s\n", command->name,
          command->flags & CLI_FLAG_CONFIG ? " CONFIG" : "", command->summary);
  if (command->details) fprintf(to, "%s\n", command->details);
  fprintf(to, "\noptions:\n");
  for (int i = 0; i < LS_COUNT(flags); i++) {
    if (!(command->flags & flags[i].flag)) continue;
    char left[40];
    snprintf(left, sizeof left, "%s%s%s", flags[i].name, flags[i].value ? " " : "",
             flags[i].value ? flags[i].value : "");
    fprintf(to, "  %-20s %s\n", left, flags[i].help);
  }
  fprintf(to, "  %-20s %s\n", "--help", "This text.");
}

void cli_help_program(FILE *to) {
  fprintf(to, "usage: lockstep COMMAND ...\n\nTrains neural networks on one device or many.\n\ncommands:\n");
  for (int i = 0; cli_commands[i]; i++)
    fprintf(to, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
  fprintf(to, "\n  lockstep COMMAND --help   options of a command\n"
              "  lockstep help config      every option of a configuration\n"
              "  lockstep --version        version and what this build contains\n\nexit codes:\n");
  static const struct {
    int code;
    const char *text;
  } codes[] = {
#define CODE(name, value, exit_code, text) {exit_code, text},
      LS_STATUS_TABLE(CODE)
#undef CODE
  };
  for (int code = 0; code <= 130; code++) { /* one line per code, its meanings joined */
    bool any = false;
    for (int i = 0; i < LS_COUNT(codes); i++) {
      if (codes[i].code != code) continue;
      if (any)
        fprintf(to, "; %s", codes[i].text);
      else
        fprintf(to, "  %-4d %s", code, codes[i].text);
      any = true;
    }
    if (any) fputc('\n', to);
  }
}
