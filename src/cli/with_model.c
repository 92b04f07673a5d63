/* Commands that use a model without training data: one process, the configuration, a checkpoint. */
#include "cli/cli.h"
#include "config/spare.h"
#include "infer/infer.h"

ls_status_t cli_with_model(ls_ctx_t *ctx, const cli_args_t *args, const cli_model_use_t *use) {
  ls_config_t *config;
  ls_world_t *world = NULL;
  ls_trainer_t *trainer = NULL;
  const ls_trainer_options_t options = {.checkpoint = args->checkpoint,
                                        .no_data = true,
                                        .int8 = use->int8,
                                        .best = use->best,
                                        .rows = use->rows,
                                        .stuck = cli_messages_stuck,
                                        .stuck_user = args->messages};
  const ls_config_input_t inputs[] = {{"--input", use->input}, {"--int8", use->int8}, {0}};
  ls_status_t status = cli_config_load(ctx, args, args->sets, args->set_count, &config);
  if (status != LS_OK) return status;
  status = ls_config_spares(ctx, use->output, inputs, config);
  if (status == LS_OK) status = ls_infer_world(ctx, config, &world);
  if (status == LS_OK) status = ls_infer_open(ctx, world, config, &options, &trainer);
  if (status == LS_OK) status = use->use(ctx, args, config, trainer);
  ls_trainer_destroy(trainer);
  if (status != LS_OK && world) ls_world_abort(world, ls_status_exit_code(status));
  ls_world_close(world);
  ls_config_destroy(config);
  return status;
}
