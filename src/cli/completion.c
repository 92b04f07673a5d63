/* lockstep completion: a script for the user's shell. It asks this program what may follow the words of the line
 * (cli_complete), so that it knows every command, flag and option of the program that is installed. */
#include "cli/cli.h"

#include <string.h>

/* The values that may follow a flag, by its placeholder. */
typedef enum { VALUE_NONE, VALUE_ANY, VALUE_FILE, VALUE_FOLDER, VALUE_OPTION } value_t;

/* Flags that take the name of a shipped file as well. */
static const struct {
  const char *flag, *kind;
} shipped[] = {{"--machine", "machines"}, {"--workload", "workloads"}};

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

/* "a.b=" for every option; after "a.b=" the option's values. `before` stands before each, as in --set=a.b=. */
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

static void offer_value(const cli_extra_t *flag, const char *unfinished) {
  const value_t kind = value_of(flag);
  for (int i = 0; i < LS_COUNT(shipped); i++)
    if (strcmp(flag->name, shipped[i].flag) == 0) cli_shipped_names(shipped[i].kind);
  if (kind == VALUE_FILE) puts("/files");
  if (kind == VALUE_FOLDER) puts("/folders");
  if (kind == VALUE_OPTION) offer_options("", unfinished);
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

/* bash makes "=" a word of its own, so the words are joined again; what is completed begins after it. */
static const char bash[] =
    "# bash completion of lockstep, printed by: lockstep completion bash\n"
    "_lockstep() {\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} words=(lockstep) word help end before\n"
    "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD}\"; do\n"
    "    if [[ $word == '=' && ${words[-1]} == -* ]]; then continue; fi\n"
    "    if [[ $word == '=' || ${words[-1]} == *= ]]; then words[-1]+=$word; else words+=(\"$word\"); fi\n"
    "  done\n"
    "  if [[ $cur == '=' ]]; then cur= && [[ ${words[-1]} != -* ]] || words+=(''); fi\n"
    "  before=${words[-1]%\"$cur\"}\n"
    "  COMPREPLY=()\n"
    "  while IFS=$'\\t' read -r word help; do\n"
    "    case $word in\n"
    "    /files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
    "    /folders) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
    "    /configurations)\n"
    "      compopt -o filenames 2>/dev/null\n"
    "      mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"\n"
    "        for end in yaml yml json; do compgen -f -X \"!*.$end\" -- \"$cur\"; done) ;;\n"
    "    \"$before$cur\"*)\n"
    "      COMPREPLY+=(\"${word#\"$before\"}\")\n"
    "      [[ $word != *= ]] || compopt -o nospace 2>/dev/null ;;\n"
    "    esac\n"
    "  done < <(\"${COMP_WORDS[0]/#~\\//$HOME/}\" --complete \"${words[@]:1}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _lockstep lockstep\n";

static const char zsh[] =
    "#compdef lockstep\n"
    "# zsh completion of lockstep, printed by: lockstep completion zsh\n"
    "_lockstep() {\n"
    "  local line\n"
    "  local -a whole open\n"
    "  for line in ${(f)\"$(${~words[1]} --complete \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"}; do\n"
    "    case $line in\n"
    "    /files) _files ;;\n"
    "    /folders) _files -/ ;;\n"
    "    /configurations) _files -g '*.(yaml|yml|json)' ;;\n"
    "    *=$'\\t'*) open+=\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\" ;;\n"
    "    *) whole+=\"${line/$'\\t'/:}\" ;;\n"
    "    esac\n"
    "  done\n"
    "  _describe lockstep whole -- open -S ''\n"
    "}\n"
    "if [[ $funcstack[1] == _lockstep ]]; then _lockstep \"$@\"; else compdef _lockstep lockstep; fi\n";

static const char fish[] = "# fish completion of lockstep, printed by: lockstep completion fish\n"
                           "function __lockstep\n"
                           "  set -l words (commandline -opc)\n"
                           "  set -l program $words[1]\n"
                           "  set -e words[1]\n"
                           "  $program --complete $words (commandline -ct) 2>/dev/null | while read -l line\n"
                           "    switch $line\n"
                           "      case /files\n"
                           "        __fish_complete_path (commandline -ct)\n"
                           "      case /folders\n"
                           "        __fish_complete_directories (commandline -ct)\n"
                           "      case /configurations\n"
                           "        __fish_complete_suffix .yaml\n"
                           "      case '*'\n"
                           "        echo $line\n"
                           "    end\n"
                           "  end\n"
                           "end\n"
                           "complete -c lockstep -f -a '(__lockstep)'\n";

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  static const struct {
    const char *name, *script;
  } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
  for (int i = 0; i < LS_COUNT(shells); i++)
    if (!strcmp(args->operand[0], shells[i].name)) {
      fputs(shells[i].script, stdout);
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
