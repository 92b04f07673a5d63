/* A section of one file: nothing else in the tree knows "greeting". */
#include "cli/cli.h"

typedef struct {
  const char *word;
  int64_t times;
} greeting_t;

static const ls_option_t rows[] = {
    LS_OPTION(greeting_t, word, .initial = "hello", .change = LS_CHANGE_RUN, .help = "What the toy says."),
    LS_OPTION(greeting_t, times, .min = 1, .max = 3, .initial = "1", .help = "How often.")};
static const ls_section_t section = {"greeting", rows, LS_COUNT(rows), "What the toy says, and how often."};
static const ls_config_own_t greeting = {&section, sizeof(greeting_t)};

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_config_t *config;
  ls_status_t status = cli_config_load_ranks(ctx, args, &config);
  if (status != LS_OK) return status;
  const greeting_t *says = ls_config_own(config, &greeting);
  for (int64_t i = 0; i < says->times; i++)
    cli_print("%s\n", says->word);
  ls_config_destroy(config);
  return LS_OK;
}

static const cli_command_t command = {.name = "greet",
                                      .place = 99,
                                      .summary = "Says what a configuration has under greeting.",
                                      .flags = CLI_FLAG_CONFIG | CLI_FLAG_SET,
                                      .run = run};
CLI_COMMAND(command)

__attribute__((constructor)) static void add(void) {
  ls_config_register(&greeting);
}
