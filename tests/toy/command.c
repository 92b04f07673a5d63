/* A command of one file: nothing else in the tree knows "toy". */
#include "cli/cli.h"

enum { TIMES };
static const cli_extra_t extra[] = {{"--times", "N", "How often (default: 2).", CLI_NUMBER(1, 9, 2)},
                                    {NULL, NULL, NULL}};

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_config_t *config;
  ls_status_t status = cli_config_load_ranks(ctx, args, &config);
  if (status != LS_OK) return status;
  for (int64_t i = 0; i < args->whole[TIMES]; i++)
    cli_print("%s on %lld ranks\n", config->parallel.strategy, (long long)config->parallel.ranks);
  ls_config_destroy(config);
  return LS_OK;
}

static const cli_command_t command = {.name = "toy",
                                      .place = 99,
                                      .summary = "Says which strategy a configuration has.",
                                      .flags = CLI_FLAG_CONFIG | CLI_FLAG_SET | CLI_FLAG_RANKS,
                                      .extra = extra,
                                      .run = run};
CLI_COMMAND(command)
