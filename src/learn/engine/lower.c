/* From a configuration to the program of a kind of step, without a device. */
#include "engine/engine.h"

#include "graph/pass/pass.h"

#include <string.h>

static const struct {
  bool training;
  bool data; /* samples are the data's: of their dtype, and taken from the device where they are there */
  int input_slots;
} kinds[LS_STEP_KINDS] = {[LS_STEP_TRAIN] = {true, true, LS_ENGINE_SLOTS},
                          [LS_STEP_EVALUATE] = {false, true, 1},
                          [LS_STEP_PREDICT] = {false, false, 1}};

static bool has_kernel(const void *of, const char *op, ls_dtype_t low) {
  const ls_backend_t *backend = of;
  const ls_device_ops_t *device = backend->device;
  bool serves = device && (low == LS_F32 || backend->plain_c || (device->low && device->low(NULL, op, low)));
  return serves && device->kernel && device->kernel(NULL, op);
}

bool ls_engine_side_lane(const ls_config_t *config, const ls_backend_t *backend) {
  return config->parallel.side_lane == LS_SIDE_ON && backend->side_bytes > 0;
}

void ls_engine_say_unused(ls_ctx_t *ctx, const ls_config_t *config, const ls_backend_t *backend) {
  if (config->parallel.side_lane == LS_SIDE_ON && !ls_engine_side_lane(config, backend))
    ls_log(ctx, LS_LOG_INFO,
           "parallel.side_lane is on: without effect, because backend %s computes on one lane",
           backend->name);
}

ls_status_t ls_step_lower(ls_ctx_t *ctx, const ls_step_spec_t *spec, ls_step_t *step) {
  const ls_config_t *config = spec->config;
  bool training = kinds[spec->kind].training;
  ls_state_table_t *own = NULL;
  ls_engine_share_t share;
  ls_engine_share(config, spec->rank, spec->world_size, &share);
  ls_step_t m = {.rows = spec->rows > 0 ? spec->rows : share.rows};
  ls_optim_rule_t optim;
  ls_model_config_t model = config->model;
  if (!kinds[spec->kind].data) {
    model.dtype = LS_F32;
    model.scores = 0;
  }
  ls_status_t status = ls_model_build(ctx, &model, m.rows, training, &m.graph);
  if (status != LS_OK) return status;
  for (int id = 0; id < m.graph->tensor_count; id++)
    m.graph->tensors[id].group = ls_optim_group_of(&config->optimizer, m.graph->tensors[id].name);
  const ls_pass_context_t passes = {.has = has_kernel,
                                    .backend = spec->backend,
                                    .low = ls_math_low((ls_math_t)config->train.precision),
                                    .fuse = config->parallel.fuse};
  status = ls_graph_run_passes(m.graph, &passes);
  if (status == LS_OK && !spec->table) status = ls_state_table_create(ctx, m.graph, &own);
  ls_optim_rule(&config->optimizer, config->train.clip_norm, &optim);
  if (passes.low == LS_F16) optim.control_attrs.i[0] = LS_SCALE_STEPS;
  optim.masks = config->prune.sparsity > 0;
  ls_lower_t in = {.graph = m.graph,
                   .state = own ? own : spec->table,
                   .optim = training ? &optim : NULL,
                   .mean = true,
                   .rank = spec->rank,
                   .world_size = spec->world_size,
                   .accumulate = training ? share.accumulate : 1,
                   .input_slots = kinds[spec->kind].input_slots,
                   .copies = !spec->backend->host_memory,
                   .widens = spec->backend->host_memory,
                   .data_rows = kinds[spec->kind].data ? spec->data_rows : 0,
                   .options = ls_config_strategy(config, NULL)};
  in.options.side_lane = ls_engine_side_lane(config, spec->backend);
  if (status == LS_OK) status = ls_strategy_find(config->parallel.strategy)->lower(ctx, &in, &m.program);
  ls_state_table_release(own);
  if (status != LS_OK) {
    ls_graph_destroy(m.graph);
    return status;
  }
  m.program.graph_bytes = ls_arena_bytes(&m.graph->arena);
  *step = m;
  return LS_OK;
}

void ls_step_release(ls_step_t *step) {
  ls_run_destroy(step->run);
  ls_program_release(&step->program);
  ls_graph_destroy(step->graph);
  memset(step, 0, sizeof *step);
}
