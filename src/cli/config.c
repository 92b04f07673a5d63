/* The configuration as the command line gives it. */
#include "cli/cli.h"

ls_status_t cli_config_load(ls_ctx_t *ctx, const cli_args_t *args, const char *const *sets, int set_count,
                            ls_config_t **config) {
  const ls_config_source_t source = {.name = args->config, .data_root = args->data_root};
  return ls_config_read(ctx, &source, sets, set_count, config);
}
