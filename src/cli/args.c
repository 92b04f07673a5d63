/* Commands and flags as rows: parsing and help come from them. */
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const cli_command_t *commands[CLI_COMMANDS_MAX];
static int command_count;

void cli_command_register(const cli_command_t *command) {
  int at = command_count++;
  assert(command_count <= CLI_COMMANDS_MAX);
  for (; at > 0 && commands[at - 1]->place > command->place; at--)
    commands[at] = commands[at - 1];
  commands[at] = command;
}

const cli_command_t *cli_command_at(int index) {
  return index < command_count ? commands[index] : NULL;
}

const cli_command_t *cli_command_find(const char *name) {
  for (int i = 0; i < command_count; i++)
    if (!strcmp(name, commands[i]->name)) return commands[i];
  return NULL;
}

#define PUTS(which, field) .flag = CLI_FLAG_##which, .place = offsetof(cli_args_t, field)
static const cli_extra_t flags[] = {
    {"--ranks", "N", "Number of ranks, instead of parallel.ranks; train starts them.",
     CLI_NUMBER(1, 65536, 0), PUTS(RANKS, ranks)},
    {"--resume", NULL, "Continue from the newest intact checkpoint in train.checkpoint.dir.",
     PUTS(RESUME, resume)},
    {"--checkpoint", "DIR",
     "A checkpoint, or the directory of a run for its newest intact checkpoint. Without CONFIG the run's "
     "config.json is read.",
     PUTS(CHECKPOINT, checkpoint)},
    {"--set", "a.b=VALUE",
     "Override one option of the configuration; repeatable. Relative paths start at "
     "the current folder.",
     PUTS(SET, sets)},
    {"--config", "FILE", "The configuration file, like CONFIG; - is stdin.", PUTS(CONFIG, config)},
    {"--data-root", "DIR",
     "Folder at which relative paths of section data start (default: the "
     "configuration's folder).",
     PUTS(CONFIG, data_root)},
    {"--env", "NAME", "Lay this section of the configuration's `env` over the rest (default: $LOCKSTEP_ENV).",
     PUTS(CONFIG, env)},
    {"--json", NULL, "Print one JSON document on stdout instead of tables.", PUTS(JSON, json)},
    {"--trace", "FILE", "Write the last steps' timeline (Chrome trace; ui.perfetto.dev).",
     PUTS(TRACE, trace)},
    {"--quiet", NULL, "Print no progress line.", PUTS(QUIET, quiet)},
    {"--verbose", NULL, "Print more messages on stderr.", PUTS(VERBOSE, verbose)},
    {"--help", NULL, "Print this text.", PUTS(HELP, help)},
};

int cli_flags(const cli_command_t *command, cli_extra_t rows[CLI_FLAGS_MAX]) {
  int count = 0;
  for (; command->extra && command->extra[count].name; count++)
    rows[count] = command->extra[count];
  for (int i = 0; i < LS_COUNT(flags); i++)
    if ((command->flags | CLI_FLAG_HELP) & flags[i].flag) rows[count++] = flags[i];
  return count;
}

static ls_status_t usage(ls_ctx_t *ctx, const cli_command_t *command, const char *what, const char *which) {
  cli_extra_t rows[CLI_FLAGS_MAX];
  const char *names[CLI_FLAGS_MAX + 1];
  int count = cli_flags(command, rows);
  for (int i = 0; i < count; i++)
    names[i] = rows[i].name;
  names[count] = NULL;
  const char *nearest = which[0] == '-' ? ls_nearest(which, names) : NULL;
  if (nearest && !strcmp(nearest, which)) nearest = NULL;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep %s: %s \"%s\"%s%s%s; see lockstep %s --help", command->name,
                 what, which, nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "",
                 command->name);
}

static ls_status_t whole(ls_ctx_t *ctx, const char *name, const char *text, int64_t min, int64_t max,
                         int64_t *value) {
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (errno || *end || end == text || number < min || number > max)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "%s takes a whole number from %lld to %lld, not \"%s\"", name,
                   (long long)min, (long long)max, text);
  *value = number;
  return LS_OK;
}

static ls_status_t percent(ls_ctx_t *ctx, const char *name, const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  if (!*end && end != text && *value > 0 && *value < 100) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "%s takes a number between 0 and 100, not \"%s\"", name, text);
}

/* Puts the value of a shared flag where its row says. */
static ls_status_t take(ls_ctx_t *ctx, const cli_extra_t *row, const char *value, cli_args_t *args) {
  void *place = (char *)args + row->place;
  if (row->type == CLI_WHOLE) return whole(ctx, row->name, value, row->min, row->max, place);
  if (row->flag == CLI_FLAG_SET && args->set_count == CLI_SETS_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "more than %d --set assignments; put them into the file",
                   CLI_SETS_MAX);
  if (row->flag == CLI_FLAG_SET)
    args->sets[args->set_count++] = value;
  else if (row->value)
    *(const char **)place = value;
  else
    *(bool *)place = true;
  return LS_OK;
}

/* A value in brackets may be left out: the next argument is one if it is a plain word, which no path of a file is. */
static bool is_value(const cli_extra_t *row, const char *next) {
  return row->value[0] != '[' || (next[0] != '-' && !next[strspn(next, "abcdefghijklmnopqrstuvwxyz-")]);
}

/* The flag at argv[*i] with its value, which stands after "=" or is the next argument. */
static ls_status_t take_flag(ls_ctx_t *ctx, const cli_command_t *command, const cli_extra_t *rows, int count,
                             int *i, cli_args_t *args) {
  const char *arg = args->argv[*i], *equals = strchr(arg, '=');
  static const char none[] = "";
  const char *value = none;
  size_t len = equals ? (size_t)(equals - arg) : strlen(arg);
  int at = 0;
  while (at < count && (strlen(rows[at].name) != len || strncmp(rows[at].name, arg, len) != 0))
    at++;
  if (at == count) return usage(ctx, command, "unknown option", arg);
  const cli_extra_t *row = &rows[at];
  if (row->value && equals)
    value = equals + 1;
  else if (row->value && *i + 1 < args->argc && is_value(row, args->argv[*i + 1]))
    value = args->argv[++*i];
  const bool may_be_empty = value != none && strcmp(row->value, "TEXT") == 0;
  if (row->value && !*value && row->value[0] != '[' && !may_be_empty)
    return usage(ctx, command, "a value is missing after", row->name);
  if (!row->value && equals) return usage(ctx, command, "no value may follow", row->name);
  if (row->place) return take(ctx, row, value, args);
  args->extra[at] = value;
  if (row->type == CLI_WHOLE) return whole(ctx, row->name, value, row->min, row->max, &args->whole[at]);
  return row->type == CLI_PERCENT ? percent(ctx, row->name, value, &args->percent[at]) : LS_OK;
}

static ls_status_t take_operand(ls_ctx_t *ctx, const cli_command_t *command, const char *arg, int *operands,
                                cli_args_t *args) {
  if ((command->flags & CLI_FLAG_CONFIG) && !args->config)
    args->config = arg;
  else if (*operands < command->operand_count)
    args->operand[(*operands)++] = arg;
  else
    return usage(ctx, command, "unexpected argument", arg);
  return LS_OK;
}

ls_status_t cli_args_parse(ls_ctx_t *ctx, const cli_command_t *command, int argc, char **argv,
                           cli_args_t *args) {
  cli_extra_t rows[CLI_FLAGS_MAX];
  int operands = 0, count = cli_flags(command, rows);
  *args = (cli_args_t){.argc = argc, .argv = argv};
  for (int i = 0; i < count && i < CLI_EXTRA_MAX; i++)
    args->percent[i] = (double)(args->whole[i] = rows[i].usual);
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      args->help = true;
      return LS_OK;
    }
    bool flag = argv[i][0] == '-' && argv[i][1];
    ls_status_t status = flag ? take_flag(ctx, command, rows, count, &i, args)
                              : take_operand(ctx, command, argv[i], &operands, args);
    if (status != LS_OK) return status;
  }
  if (operands < command->operand_count)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep %s needs %s; see lockstep %s --help", command->name,
                   command->operands, command->name);
  const bool of_run = command->flags & CLI_FLAG_CHECKPOINT; /* the configuration may be that of the run */
  const bool optional = (command->flags & CLI_FLAG_CONFIG_OPTIONAL) && (!of_run || args->checkpoint);
  if ((command->flags & CLI_FLAG_CONFIG) && !optional && !args->config)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "lockstep %s: the configuration file is missing; see lockstep %s --help", command->name,
                   command->name);
  return LS_OK;
}

void cli_help_command(FILE *to, const cli_command_t *command) {
  fprintf(to, "usage: lockstep %s%s%s%s [options]\n\n%s\n", command->name,
          command->flags & CLI_FLAG_CONFIG_OPTIONAL ? " [CONFIG]"
          : command->flags & CLI_FLAG_CONFIG        ? " CONFIG"
                                                    : "",
          command->operands ? " " : "", command->operands ? command->operands : "", command->summary);
  if (command->details) fprintf(to, "%s\n", command->details);
  fprintf(to, "\noptions:\n");
  cli_extra_t rows[CLI_FLAGS_MAX];
  int count = cli_flags(command, rows);
  for (int i = 0; i < count; i++) {
    char left[40];
    snprintf(left, sizeof left, "%s%s%s", rows[i].name, rows[i].value ? " " : "",
             rows[i].value ? rows[i].value : "");
    fprintf(to, "  %-24s %s\n", left, rows[i].help);
  }
}

void cli_usage_program(FILE *to) {
  fprintf(to, "usage: lockstep COMMAND ...\n\n  ");
  for (int i = 0; i < command_count; i++)
    fprintf(to, "%s%s", i ? ", " : "", commands[i]->name);
  fprintf(to, "\n\n  lockstep --help           what the commands do, and the exit codes\n"
              "  lockstep COMMAND --help   options of a command\n");
}

bool cli_exit_code_text(int code, char text[CLI_EXIT_TEXT_BYTES]) {
  static const struct {
    int code;
    const char *text;
  } codes[] = {
#define CODE(name, value, exit_code, text) {exit_code, text},
      LS_STATUS_TABLE(CODE)
#undef CODE
          {LS_SUPERVISE_AGAIN, "ended by a signal under --supervise: the same command goes on with --resume"},
  };
  int len = 0;
  for (int i = 0; i < LS_COUNT(codes); i++)
    if (codes[i].code == code)
      len +=
          snprintf(text + len, (size_t)(CLI_EXIT_TEXT_BYTES - len), "%s%s", len ? "; " : "", codes[i].text);
  return len > 0;
}

void cli_help_program(FILE *to) {
  fprintf(to, "usage: lockstep COMMAND ...\n\nTrains neural networks on one device or many.\n\ncommands:\n");
  for (int i = 0; i < command_count; i++)
    fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
  fprintf(to, "\n  lockstep COMMAND --help   options of a command\n"
              "  lockstep help config      every option of a configuration\n"
              "  lockstep help man NAME    source of the manual page of a command, or of config (scdoc)\n"
              "  lockstep --version        version and what this build contains (--json)\n\nexit codes:\n");
  for (int code = 0; code <= CLI_EXIT_CODE_MAX; code++) {
    char text[CLI_EXIT_TEXT_BYTES];
    if (cli_exit_code_text(code, text)) fprintf(to, "  %-4d %s\n", code, text);
  }
}
