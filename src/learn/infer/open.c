/* Opens a trained model. */
#include "infer/infer.h"

ls_status_t ls_infer_world(ls_ctx_t *ctx, const ls_config_t *config, ls_world_t **world) {
  ls_status_t status = ls_world_open(ctx, config->parallel.deadline_s, world);
  if (status != LS_OK || ls_world_size(*world) == 1) return status;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "this command uses one process, but a launcher started %d",
                 ls_world_size(*world));
}

ls_status_t ls_infer_open(ls_ctx_t *ctx, ls_world_t *world, const ls_config_t *config,
                          const ls_trainer_options_t *options, ls_trainer_t **model) {
  ls_trainer_options_t own = *options;
  own.no_training = true;
  if (!own.checkpoint && !config->model.weights)
    return ls_fail(
        ctx, LS_ERR_ARGUMENT,
        "there is no model to use: --checkpoint DIR names a run's, model.weights a file of another program");
  return ls_trainer_create(ctx, world, config, &own, model);
}
