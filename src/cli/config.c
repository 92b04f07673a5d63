/* The configuration as the command line gives it. */
#include "cli/cli.h"

#include <string.h>

ls_status_t cli_config_load(ls_ctx_t *ctx, const cli_args_t *args, const char *const *sets, int set_count,
                            ls_config_t **config) {
  const ls_config_source_t source = {.name = args->config, .data_root = args->data_root};
  return ls_config_read(ctx, &source, sets, set_count, config);
}

ls_status_t cli_config_load_ranks(ls_ctx_t *ctx, const cli_args_t *args, ls_config_t **config) {
  const char *sets[CLI_SETS_MAX + 1];
  char ranks[48];
  int count = args->set_count;
  memcpy(sets, args->sets, (size_t)count * sizeof *sets);
  if (args->ranks > 0) {
    snprintf(ranks, sizeof ranks, "parallel.ranks=%ld", args->ranks);
    sets[count++] = ranks;
  }
  return cli_config_load(ctx, args, sets, count, config);
}

bool cli_ranks_started(cli_args_t *args) {
  int rank, size;
  if (!ls_comm_launched(&rank, &size)) return false;
  args->ranks = size;
  return true;
}
