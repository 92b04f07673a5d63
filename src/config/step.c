/* Makes the options of an engine from a configuration. */
#include "config/config.h"

static const ls_dtype_t wire_dtypes[] = {LS_F32, LS_BF16, LS_F16}; /* of ls_wire_names */

ls_strategy_options_t ls_config_strategy(const ls_config_t *config, const ls_strategy_t *strategy) {
  const ls_parallel_config_t *parallel = &config->parallel;
  if (!strategy) strategy = ls_strategy_find(parallel->strategy);
  ls_strategy_options_t options = parallel->options;
  options.reproducible = parallel->reproducible;
  options.wire = wire_dtypes[parallel->wire];
  options.own = parallel->own[ls_strategy_index(strategy)];
  return options;
}

/* Predictions take f32 samples, and no figures of evaluations. */
static ls_status_t build(ls_ctx_t *ctx, const void *of, ls_step_kind_t kind, int64_t rows,
                         ls_graph_t **graph) {
  const ls_config_t *config = of;
  ls_model_config_t model = config->model;
  if (kind == LS_STEP_PREDICT) {
    model.dtype = LS_F32;
    model.scores = 0;
  }
  ls_status_t status = ls_model_build(ctx, &model, rows, kind == LS_STEP_TRAIN, graph);
  for (int id = 0; status == LS_OK && id < (*graph)->tensor_count; id++) {
    ls_graph_tensor_t *t = &(*graph)->tensors[id];
    t->group = ls_optim_group_of(&config->optimizer, t->name);
  }
  return status;
}

const ls_strategy_t *ls_config_usual(const ls_config_t *config, int64_t ranks) {
  const int shard = config->parallel.options.shard;
  return ls_strategy_default(ranks, shard != LS_SHARD_NONE && shard != LS_SHARD_AUTO);
}

ls_batching_t ls_config_batching(const ls_config_t *config) {
  return (ls_batching_t){.batch = config->train.batch,
                         .micro_batches = config->train.accumulate,
                         .shards = config->parallel.reproducible ? config->parallel.shards : 0};
}

ls_step_options_t ls_config_step(const ls_config_t *config) {
  const ls_parallel_config_t *parallel = &config->parallel;
  return (ls_step_options_t){.build = build,
                             .of = config,
                             .optimizer = &config->optimizer,
                             .clip_norm = config->train.clip_norm,
                             .masks = config->prune.sparsity > 0,
                             .math = (ls_math_t)config->train.precision,
                             .strict_sums = config->train.strict_sums,
                             .fuse = parallel->fuse,
                             .strategy = ls_strategy_find(parallel->strategy),
                             .options = ls_config_strategy(config, NULL),
                             .batching = ls_config_batching(config)};
}

ls_engine_options_t ls_config_engine(const ls_config_t *config) {
  const ls_parallel_config_t *parallel = &config->parallel;
  return (ls_engine_options_t){.step = ls_config_step(config),
                               .backend = parallel->backend,
                               .transport = parallel->transport,
                               .threads = (int)parallel->threads,
                               .bind = parallel->bind,
                               .seed = (uint64_t)config->train.seed};
}

void ls_config_say_unused(ls_ctx_t *ctx, const ls_config_t *config, const ls_backend_t *backend) {
  ls_strategy_options_t options = config->parallel.options;
  const char *unused = ls_strategy_settle(&options, backend);
  if (unused)
    ls_log(ctx, LS_LOG_INFO, "%s is on: without effect, because backend %s does not have it", unused,
           backend->name);
}
