/* Lowering a configuration for all of its ranks in one process. */
#include "cli/plan.h"

#include <string.h>

ls_status_t cli_plan_create(ls_ctx_t *ctx, const ls_config_t *config, int ranks, cli_plan_t *out) {
  const ls_backend_t *backend;
  cli_plan_t plan = {.world_size = ranks};
  ls_status_t status = ls_backend_find(ctx, config->parallel.backend, &backend);
  if (status != LS_OK) return status;
  if (config->train.batch < ranks)
    return ls_fail(ctx, LS_ERR_CONFIG, "the global batch (%lld) is smaller than the number of ranks (%d)",
                   (long long)config->train.batch, ranks);
  if (ranks > 1 && !ls_strategy_find(config->parallel.strategy)->distributed)
    return ls_fail(ctx, LS_ERR_CONFIG, "strategy \"%s\" uses one rank, but %d were asked for; use ddp",
                   config->parallel.strategy, ranks);
  plan.backend = backend->name;
  plan.copies = !backend->host_memory;
  plan.graph = ls_alloc_array(ctx, (size_t)ranks, sizeof *plan.graph);
  plan.schedule = ls_alloc_array(ctx, (size_t)ranks, sizeof *plan.schedule);
  if (!plan.graph || !plan.schedule) status = LS_ERR_MEMORY;
  for (int r = 0; r < ranks && status == LS_OK; r++) {
    int64_t first, count;
    ls_share(config->train.batch, r, ranks, &first, &count);
    int64_t rows = ls_train_micro_rows(config, count);
    if (r == 0) plan.rows = rows;
    status = ls_trainer_lower(ctx, config, r, ranks, plan.copies, true, rows, &plan.graph[r], &plan.layout,
                              &plan.optim, &plan.schedule[r]);
    if (status == LS_OK) status = ls_schedule_check(plan.schedule[r]);
  }
  if (status == LS_OK) status = ls_schedule_check_world((const ls_schedule_t *const *)plan.schedule, ranks);
  if (status != LS_OK) {
    cli_plan_release(&plan);
    return status;
  }
  *out = plan;
  return LS_OK;
}

void cli_plan_release(cli_plan_t *plan) {
  for (int r = 0; r < plan->world_size; r++) {
    if (plan->schedule) ls_schedule_destroy(plan->schedule[r]);
    if (plan->graph) ls_graph_destroy(plan->graph[r]);
  }
  ls_layout_destroy(plan->layout);
  ls_free(plan->schedule);
  ls_free(plan->graph);
  memset(plan, 0, sizeof *plan);
}
