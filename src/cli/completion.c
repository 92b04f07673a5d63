/* lockstep completion: a script for the user's shell, made from the rows of commands, flags and options. */
#include "cli/cli.h"

#include <string.h>

/* The values that may follow a flag, by its placeholder. */
typedef enum { VALUE_NONE, VALUE_ANY, VALUE_FILE, VALUE_FOLDER, VALUE_OPTION } value_t;

static value_t value_of(const cli_extra_t *flag) {
  static const struct {
    const char *part;
    value_t kind;
  } rows[] = {{"FILE", VALUE_FILE}, {"DIR", VALUE_FOLDER}, {"a.b=", VALUE_OPTION}};
  if (!flag->value) return VALUE_NONE;
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (strstr(flag->value, rows[i].part)) return rows[i].kind;
  return VALUE_ANY;
}

/* The values of an option: its choices; NULL when they cannot be listed. */
static const char *const *values_of(const ls_option_t *row) {
  static const char *const truths[] = {"true", "false", NULL};
  return row->type == LS_OPT_ENUM ? row->choices : row->type == LS_OPT_BOOL ? truths : NULL;
}

/* Words that an operand may be, as its usage says: "bash|zsh|fish". */
static void put_words(const char *operands) {
  for (; *operands; operands++)
    putchar(*operands == '|' ? ' ' : *operands);
}

static bool takes_words(const cli_command_t *command) {
  return command->operands && strchr(command->operands, '|');
}

static void put_commands(void) {
  for (int i = 0; cli_commands[i]; i++)
    printf("%s ", cli_commands[i]->name);
}

typedef void option_fn(const char *section, const ls_option_t *row);
static void for_options(option_fn *print) {
  const ls_section_t *section;
  for (int s = 0; (section = ls_config_section(s)); s++)
    for (int i = 0; i < section->count; i++)
      print(section->name, &section->rows[i]);
}

static void put_assignment(const char *section, const ls_option_t *row) {
  printf("%s.%s= ", section, row->name);
}

static void put_values(const ls_option_t *row) {
  for (int i = 0; values_of(row)[i]; i++)
    printf("%s%s", i ? " " : "", values_of(row)[i]);
}

/* Text between single quotes: `inner` are characters that get a backslash, `quote` stands for a quote. */
static void put_quoted(const char *text, const char *inner, const char *quote) {
  for (; *text; text++) {
    if (strchr(inner, *text)) putchar('\\');
    if (*text == '\'')
      fputs(quote, stdout);
    else
      putchar(*text);
  }
}

static void bash_values(const char *section, const ls_option_t *row) {
  if (!values_of(row)) return;
  printf("  *:%s.%s) words='", section, row->name);
  put_values(row);
  printf("' ;;\n");
}

static void bash_flags(const cli_command_t *command) {
  static const char *const actions[] = {[VALUE_ANY] = "return",
                                        [VALUE_FILE] = "kind=-f",
                                        [VALUE_FOLDER] = "kind=-d",
                                        [VALUE_OPTION] = "kind=set"};
  cli_extra_t rows[CLI_FLAGS_MAX];
  int count = cli_flags(command, rows);
  for (int i = 0; i < count; i++)
    if (value_of(&rows[i]) != VALUE_NONE)
      printf("  %s:%s) %s ;;\n", command->name, rows[i].name, actions[value_of(&rows[i])]);
  printf("  %s:*) words='", command->name);
  if (takes_words(command)) put_words(command->operands);
  printf("' flags='");
  for (int i = 0; i < count; i++)
    printf("%s ", rows[i].name);
  printf("'%s ;;\n", command->flags & CLI_FLAG_CONFIG             ? " kind=config"
                     : command->operands && !takes_words(command) ? " kind=-f"
                                                                  : "");
}

/* bash makes "=" a word of its own; what is completed begins after it. */
static void bash(void) {
  printf("# bash completion of lockstep, printed by: lockstep completion bash\n"
         "_lockstep() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
         "  local words= flags= kind= end\n"
         "  COMPREPLY=()\n"
         "  if [[ $cur == '=' ]]; then cur=\n"
         "  elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "  ((COMP_CWORD > 1)) || command= prev=\n"
         "  case $command:$prev in\n  :) words='");
  put_commands();
  printf("help' flags='--help --version' ;;\n");
  for_options(bash_values);
  for (int i = 0; cli_commands[i]; i++)
    bash_flags(cli_commands[i]);
  printf("  help:*) words='");
  put_commands();
  printf("config man' ;;\n"
         "  esac\n"
         "  case $kind in\n"
         "  set) words='");
  for_options(put_assignment);
  printf(
      "'; compopt -o nospace 2>/dev/null ;;\n"
      "  -?) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen $kind -- \"$cur\") ;;\n"
      "  config)\n"
      "    if [[ $cur != -* ]]; then\n"
      "      compopt -o filenames 2>/dev/null\n"
      "      mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"\n"
      "        for end in yaml yml json; do compgen -f -X \"!*.$end\" -- \"$cur\"; done)\n"
      "    fi ;;\n"
      "  esac\n"
      "  [[ $cur != -* ]] || words=$flags\n"
      "  [[ -z $words ]] || mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
      "}\n"
      "complete -F _lockstep lockstep\n");
}

static void zsh_values(const char *section, const ls_option_t *row) {
  if (!values_of(row)) return;
  printf("    *%s.%s=) compadd -- ", section, row->name);
  put_values(row);
  printf(" ;;\n");
}

static void zsh_flag(const cli_extra_t *row) {
  static const char *const actions[] = {[VALUE_ANY] = " ",
                                        [VALUE_FILE] = "_files",
                                        [VALUE_FOLDER] = "_files -/",
                                        [VALUE_OPTION] = "_lockstep_set"};
  value_t kind = value_of(row);
  printf(" \\\n      '%s%s[", kind == VALUE_OPTION ? "*" : "", row->name);
  put_quoted(row->help, "[]:\\", "'\\''");
  printf("]");
  if (kind != VALUE_NONE) {
    printf(":");
    put_quoted(row->value, "[]:\\", "'\\''");
    printf(":%s", actions[kind]);
  }
  printf("'");
}

static void zsh_command(const cli_command_t *command) {
  printf("  %s)\n    _arguments", command->name);
  cli_extra_t rows[CLI_FLAGS_MAX];
  int count = cli_flags(command, rows);
  for (int i = 0; i < count; i++)
    zsh_flag(&rows[i]);
  if (command->flags & CLI_FLAG_CONFIG) printf(" \\\n      '1:CONFIG:_files -g \"*.(yaml|yml|json)\"'");
  if (takes_words(command)) {
    printf(" \\\n      '1:word:(");
    put_words(command->operands);
    printf(")'");
  } else if (command->operands) {
    printf(" \\\n      '*:file:_files'");
  }
  printf(" ;;\n");
}

static void zsh(void) {
  printf("#compdef lockstep\n# zsh completion of lockstep, printed by: lockstep completion zsh\n"
         "_lockstep_set() {\n  if compset -P 1 '*='; then\n    case $IPREFIX in\n");
  for_options(zsh_values);
  printf("    esac\n  else\n    compadd -S '' -- ");
  for_options(put_assignment);
  printf("\n  fi\n}\n_lockstep() {\n  local -a commands=(\n");
  for (int i = 0; cli_commands[i]; i++) {
    printf("    '%s:", cli_commands[i]->name);
    put_quoted(cli_commands[i]->summary, "\\", "'\\''");
    printf("'\n");
  }
  printf("    'help:The options of a command, or of a configuration.'\n  )\n"
         "  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
         "  shift words\n  ((CURRENT--))\n  case $words[1] in\n");
  for (int i = 0; cli_commands[i]; i++)
    zsh_command(cli_commands[i]);
  printf("  help) compadd -- ");
  put_commands();
  printf("config man ;;\n  esac\n}\n"
         "if [[ $funcstack[1] == _lockstep ]]; then _lockstep \"$@\"; else compdef _lockstep lockstep; fi\n");
}

static void fish_option(const char *section, const ls_option_t *row) {
  printf("  printf '%%s\\t%%s\\n' %s.%s= '", section, row->name);
  put_quoted(row->help, "\\'", "'");
  printf("'\n");
  for (int i = 0; values_of(row) && values_of(row)[i]; i++)
    printf("  echo %s.%s=%s\n", section, row->name, values_of(row)[i]);
}

static void fish_command(const cli_command_t *command) {
  static const char *const actions[] = {[VALUE_NONE] = "",
                                        [VALUE_ANY] = " -x",
                                        [VALUE_FILE] = " -r -F",
                                        [VALUE_FOLDER] = " -x -a '(__fish_complete_directories)'",
                                        [VALUE_OPTION] = " -x -a '(__lockstep_set)'"};
  char of[64];
  snprintf(of, sizeof of, "complete -c lockstep -n '__lockstep_in %s'", command->name);
  printf("complete -c lockstep -n '__lockstep_in' -a %s -d '", command->name);
  put_quoted(command->summary, "\\'", "'");
  printf("'\n");
  cli_extra_t rows[CLI_FLAGS_MAX];
  int count = cli_flags(command, rows);
  for (int i = 0; i < count; i++) {
    printf("%s -l %s%s -d '", of, rows[i].name + 2, actions[value_of(&rows[i])]);
    put_quoted(rows[i].help, "\\'", "'");
    printf("'\n");
  }
  if (command->flags & CLI_FLAG_CONFIG) printf("%s -k -a '(__fish_complete_suffix .yaml)'\n", of);
  if (takes_words(command)) {
    printf("%s -a '", of);
    put_words(command->operands);
    printf("'\n");
  } else if (command->operands) {
    printf("%s -F\n", of);
  }
}

static void fish(void) {
  printf("# fish completion of lockstep, printed by: lockstep completion fish\n"
         "function __lockstep_set\n");
  for_options(fish_option);
  printf("end\n"
         "# whether the command is the given one, or none stands there yet\n"
         "function __lockstep_in\n"
         "  set -l words (commandline -opc)\n"
         "  test \"$words[2]\" = \"$argv[1]\"\n"
         "end\n"
         "complete -c lockstep -f\n");
  for (int i = 0; cli_commands[i]; i++)
    fish_command(cli_commands[i]);
  printf("complete -c lockstep -n '__lockstep_in' -a help\n"
         "complete -c lockstep -n '__lockstep_in help' -a '");
  put_commands();
  printf("config man'\n");
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  static const struct {
    const char *name;
    void (*print)(void);
  } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
  for (int i = 0; i < LS_COUNT(shells); i++)
    if (!strcmp(args->operand[0], shells[i].name)) {
      shells[i].print();
      return LS_OK;
    }
  return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep completion knows bash, zsh and fish, not \"%s\"",
                 args->operand[0]);
}

const cli_command_t cli_completion = {
    .name = "completion",
    .summary = "Prints a script for your shell that completes lockstep's commands, flags and "
               "options.",
    .details = "bash: source <(lockstep completion bash). zsh: source <(lockstep completion zsh).\n"
               "fish: lockstep completion fish | source. make install puts the scripts where shells look.",
    .operands = "bash|zsh|fish",
    .operand_count = 1,
    .run = run};
