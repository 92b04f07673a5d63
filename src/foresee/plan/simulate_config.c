/* A configuration as work to simulate: the very program that training would run on a device with memory of
 * its own, for one rank of a world of any size. */
#include "plan/simulate.h"

#include "train/train.h"

#include <string.h>

/* A simulation takes the default strategy of several ranks if the configuration names none, or auto. */
static const char *strategy_of(const ls_config_t *config) {
  return config->parallel.usual ? ls_config_usual(config, 2)->name : config->parallel.strategy;
}

/* Nothing is read, so the number of samples is known only for synthetic data. */
static int64_t data_rows(const ls_config_t *config) {
  const ls_data_config_t *data = &config->data;
  return data->resident == LS_RESIDENT_TRUE && data->kind == LS_DATA_SYNTHETIC ? data->samples : 0;
}

/* A device with memory of its own. It has no kernels that a pass could use, and no side lane: what that brings, only
 * timing tells. */
static const ls_backend_t simulated = {.name = "simulated"};

static ls_status_t lower(ls_ctx_t *ctx, const void *user, int rank, int ranks, int64_t rows,
                         ls_program_t *program) {
  ls_config_t config = *(const ls_config_t *)user;
  config.parallel.strategy = ranks > 1 ? strategy_of(&config) : ls_config_usual(&config, 1)->name;
  ls_step_t step;
  int64_t parts = ls_config_batching(&config).micro_batches, first, even;
  ls_share(config.train.batch, rank, ranks, &first, &even);
  bool as_training = config.parallel.reproducible || rows == even; /* other shares are the simulation's own */
  const ls_step_spec_t spec = {.step = ls_config_step(&config),
                               .kind = LS_STEP_TRAIN,
                               .rank = rank,
                               .world_size = ranks,
                               .rows = as_training ? 0 : (rows + parts - 1) / parts,
                               .data_rows = data_rows(&config),
                               .backend = &simulated};
  ls_status_t status = ls_step_lower(ctx, &spec, &step);
  if (status != LS_OK) return status;
  ls_graph_destroy(step.graph);
  *program = step.program;
  return LS_OK;
}

/* Compares names, so that a new precision of training is simulated as soon as machine files have a figure for it. */
static int precision_of(const ls_config_t *config) {
  int found = 0;
  for (int i = 0; ls_sim_precisions[i]; i++)
    if (!strcmp(ls_sim_precisions[i], ls_math_names[config->train.precision])) found = i;
  return found;
}

ls_status_t ls_sim_work_config(ls_ctx_t *ctx, const struct ls_config *config, ls_sim_work_t *work) {
  const ls_strategy_t *strategy = ls_strategy_find(strategy_of(config));
  ls_strategy_options_t options = config->parallel.options;
  if (!strategy || !strategy->distributed)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "strategy \"%s\" uses one rank; give the one to simulate, e.g. --set parallel.strategy=%s",
                   config->parallel.strategy, ls_config_usual(config, 2)->name);
  *work = (ls_sim_work_t){.lower = lower,
                          .user = config,
                          .precision = precision_of(config),
                          .global_batch = config->train.batch,
                          .shards = config->parallel.reproducible ? config->parallel.shards : 0,
                          .compute_scale = 1,
                          .strategy = strategy->name,
                          .left_out = ls_strategy_settle(&options, &simulated)};
  return LS_OK;
}
