/* Commands that use a model without training data: one process, the configuration, a checkpoint. */
#include "cli/cli.h"
#include "config/spare.h"

ls_status_t cli_with_model(ls_ctx_t *ctx, const cli_args_t *args, const cli_model_use_t *use) {
  ls_config_t *config;
  ls_world_t *world = NULL;
  ls_trainer_t *trainer = NULL;
  const ls_trainer_options_t options = {.checkpoint = args->checkpoint,
                                        .no_training = true,
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
  if (status == LS_OK && !args->checkpoint && !config->model.weights)
    status = ls_fail(
        ctx, LS_ERR_ARGUMENT,
        "there is no model to use: --checkpoint DIR names a run's, model.weights a file of another program");
  if (status == LS_OK) status = ls_world_open(ctx, config->parallel.deadline_s, &world);
  if (status != LS_OK) goto config;
  if (ls_world_size(world) > 1)
    status = ls_fail(ctx, LS_ERR_ARGUMENT, "this command uses one process, but a launcher started %d",
                     ls_world_size(world));
  if (status == LS_OK) status = ls_trainer_create(ctx, world, config, &options, &trainer);
  if (status == LS_OK) status = use->use(ctx, args, config, trainer);
  ls_trainer_destroy(trainer);
  if (status != LS_OK) ls_world_abort(world, ls_status_exit_code(status));
  ls_world_close(world);
config:
  ls_config_destroy(config);
  return status;
}
