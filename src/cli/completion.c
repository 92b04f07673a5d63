/* lockstep completion: a script for the user's shell (share/completion). The script asks the installed program what may
 * follow the words of the line (cli_complete), so it knows every command, flag and option of that program. */
#include "base/expand.h"
#include "base/shipped.h"
#include "cli/cli.h"

#include <string.h>

extern const ls_embedded_t cli_completion_scripts[]; /* share/completion */

/* The list that a shell offers after a flag, by the flag's placeholder. */
static const struct { const char *part, *listed; } placeholders[] = {{"FILE", "/files"}, {"DIR", "/folders"}};

/* Flags that also take the name of a shipped file. */
static const struct {
  const char *flag, *kind;
} shipped[] = {{"--machine", "machines"}, {"--workload", "workloads"}};

/* The choices of an option; NULL when they cannot be listed. */
static const char *const *values_of(const ls_option_t *row) {
  static const char *const truths[] = {"true", "false", NULL};
  return row->type == LS_FIELD_CHOICE ? row->choices : row->type == LS_FIELD_BOOL ? truths : NULL;
}

/* Offers "a.b=" for every option; after "a.b=" the option's values. `before` stands before each, as in --set=a.b=. */
static void offer_options(const char *before, const char *unfinished) {
  const ls_section_t *section;
  for (int s = 0; (section = ls_config_section(s)); s++)
    for (int i = 0; i < section->count; i++) {
      const ls_option_t *row = &section->rows[i];
      char name[128];
      size_t len = (size_t)snprintf(name, sizeof name, "%s.%s=", section->name, row->name);
      bool named = strncmp(unfinished, name, len) == 0;
      if (!strchr(unfinished, '=')) printf("%s%s\t%s\n", before, name, row->help);
      for (int k = 0; named && values_of(row) && values_of(row)[k]; k++)
        printf("%s%s%s\n", before, name, values_of(row)[k]);
    }
}

static void print_name(const char *name) {
  puts(name);
}

static void offer_value(const cli_extra_t *flag, const char *unfinished) {
  for (int i = 0; i < LS_COUNT(shipped); i++)
    if (strcmp(flag->name, shipped[i].flag) == 0) ls_shipped_each(shipped[i].kind, print_name);
  for (int i = 0; i < LS_COUNT(placeholders); i++)
    if (strstr(flag->value, placeholders[i].part)) puts(placeholders[i].listed);
  if (flag->flag == CLI_FLAG_SET) offer_options("", unfinished);
}

static void offer_operands(const cli_command_t *command) {
  const char *words = command->operands;
  if (command->flags & CLI_FLAG_CONFIG) puts("/configurations");
  if (words && !strchr(words, '|')) puts("/files");
  for (size_t len; words && strchr(command->operands, '|') && *words; words += len + (words[len] == '|')) {
    len = strcspn(words, "|");
    printf("%.*s\n", (int)len, words);
  }
}

static void offer_commands(void) {
  for (int i = 0; cli_command_at(i); i++)
    printf("%s\t%s\n", cli_command_at(i)->name, cli_command_at(i)->summary);
}

void cli_complete(int count, char **words) {
  const char *unfinished = count > 0 ? words[count - 1] : "", *before = count > 2 ? words[count - 2] : "";
  const cli_command_t *command = count > 1 ? cli_command_find(words[0]) : NULL;
  if (count <= 1) {
    offer_commands();
    puts("help\tThe options of a command, or of a configuration.");
    if (*unfinished == '-') puts("--help\n--version");
  } else if (!strcmp(words[0], "help")) {
    offer_commands();
    puts("config\tEvery option of a configuration.\nman\tThe source of a manual page.");
  }
  if (!command) return;
  cli_extra_t rows[CLI_FLAGS_MAX];
  int flags = cli_flags(command, rows);
  for (int i = 0; i < flags; i++)
    if (!strcmp(before, rows[i].name) && rows[i].value) {
      offer_value(&rows[i], unfinished);
      return;
    }
  if (strncmp(unfinished, "--set=", 6) == 0) offer_options("--set=", unfinished + 6);
  if (*unfinished != '-') offer_operands(command);
  for (int i = 0; *unfinished == '-' && i < flags; i++)
    printf("%s\t%s\n", rows[i].name, rows[i].help);
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  for (const ls_embedded_t *shell = cli_completion_scripts; shell->name; shell++)
    if (!strcmp(args->operand[0], shell->name)) {
      fputs(shell->bytes, stdout);
      return LS_OK;
    }
  return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep completion knows bash, zsh and fish, not \"%s\"",
                 args->operand[0]);
}

static const cli_command_t command = {
    .name = "completion",
    .place = 92,
    .summary = "Prints a script for your shell that completes lockstep's commands, flags and "
               "options.",
    .details = "bash: source <(lockstep completion bash). zsh: source <(lockstep completion zsh).\n"
               "fish: lockstep completion fish | source. make install puts the scripts where shells look.",
    .operands = "bash|zsh|fish",
    .operand_count = 1,
    .run = run};
CLI_COMMAND(command)
