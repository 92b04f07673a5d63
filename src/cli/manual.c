/* Manual pages from the rows of commands, flags and options, as source for scdoc. */
#include "cli/cli.h"

#include "comm/transport.h"
#include "strategy/strategy.h"

#include <lockstep/version.h>
#include <string.h>

/* Text in which nothing is markup, between marks that are. */
static void put(const char *before, const char *text, const char *after) {
  fputs(before, stdout);
  for (; *text; text++) {
    if (strchr("\\*_#[]|~`<>", *text)) putchar('\\');
    putchar(*text);
  }
  fputs(after, stdout);
}

static void header(const char *name, int section) {
  printf("%s(%d) \"lockstep %s\" \"lockstep\"\n\n# NAME\n\n%s - ", name, section, ls_version(), name);
}

static void entry(const char *name, const char *value, const char *type, const char *help) {
  put("*", name, "*");
  if (value) put(" _", value, "_");
  put("\n\t", help, "\n\n");
  if (type) put("\t", type, "\n\n");
}

static void exit_codes(void) {
  printf("# EXIT STATUS\n\n");
  for (int code = 0; code <= CLI_EXIT_CODE_MAX; code++) {
    char text[CLI_EXIT_TEXT_BYTES], number[16];
    snprintf(number, sizeof number, "%d", code);
    if (cli_exit_code_text(code, text)) entry(number, NULL, NULL, text);
  }
}

static void program_page(void) {
  header("lockstep", 1);
  printf("trains neural networks on one device or many\n\n# SYNOPSIS\n\n*lockstep* _COMMAND_ ...++\n"
         "*lockstep* *help* _COMMAND_|*config*++\n*lockstep* *--version* [*--json*]\n\n# COMMANDS\n\n");
  for (int i = 0; cli_command_at(i); i++) {
    char page[64];
    snprintf(page, sizeof page, "lockstep-%s", cli_command_at(i)->name);
    entry(page, NULL, NULL, cli_command_at(i)->summary);
  }
  exit_codes();
  printf("# SEE ALSO\n\n");
  for (int i = 0; cli_command_at(i); i++)
    printf("*lockstep-%s*(1), ", cli_command_at(i)->name);
  printf("*lockstep-config*(5)\n");
}

static void command_page(const cli_command_t *command) {
  char page[64];
  snprintf(page, sizeof page, "lockstep-%s", command->name);
  header(page, 1);
  put("", command->summary, "\n\n# SYNOPSIS\n\n");
  printf("*lockstep %s*", command->name);
  if (command->flags & CLI_FLAG_CONFIG)
    printf(command->flags & CLI_FLAG_CONFIG_OPTIONAL ? " \\[_CONFIG_\\]" : " _CONFIG_");
  if (command->operands) put(" ", command->operands, "");
  put(" \\[options\\]\n\n# DESCRIPTION\n\n", command->summary, "\n\n");
  if (command->details) put("", command->details, "\n\n");
  printf("# OPTIONS\n\n");
  cli_extra_t rows[CLI_FLAGS_MAX];
  int count = cli_flags(command, rows);
  for (int i = 0; i < count; i++)
    entry(rows[i].name, rows[i].value, NULL, rows[i].help);
  exit_codes();
  printf("# SEE ALSO\n\n*lockstep*(1), *lockstep-config*(5)\n");
}

static void section(ls_arena_t *arena, const ls_section_t *s) {
  put("# ", s->name, "\n\n");
  put("", s->help, "\n\n");
  for (int i = 0; i < s->count; i++) {
    const char *type = ls_option_type_text(arena, &s->rows[i]);
    entry(s->rows[i].name, NULL, type ? type : "", s->rows[i].help);
  }
}

static void config_page(void) {
  ls_arena_t arena;
  ls_arena_init(&arena, NULL);
  header("lockstep-config", 5);
  printf("the configuration of a training\n\n# DESCRIPTION\n\n");
  put("", ls_config_file_help, "");
  for (int i = 0; ls_config_section(i); i++)
    section(&arena, ls_config_section(i));
  printf("# parallel.strategy\n\n");
  for (int i = 0; ls_strategies[i]; i++)
    entry(ls_strategies[i]->name, NULL, NULL, ls_strategies[i]->help);
  printf("# parallel.transport\n\n");
  for (int i = 0; ls_transports[i]; i++)
    entry(ls_transports[i]->name, NULL, NULL, ls_transports[i]->help);
  for (int i = 0; ls_layer_section_at(i); i++)
    section(&arena, ls_layer_section_at(i));
  printf("# SEE ALSO\n\n*lockstep*(1)\n");
  ls_arena_release(&arena);
}

bool cli_manual(const char *name) {
  const cli_command_t *command = name ? cli_command_find(name) : NULL;
  bool config = name && !strcmp(name, "config");
  if (config)
    config_page();
  else if (command)
    command_page(command);
  else if (!name)
    program_page();
  return config || command || !name;
}
