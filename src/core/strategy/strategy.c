/* The list of strategies, what every strategy does, and the division of a global batch. */
#include "strategy/lower.h"

#include <string.h>

const ls_strategy_t *ls_strategies[LS_STRATEGY_MAX + 1] = {&ls_strategy_single, &ls_strategy_ddp,
                                                           &ls_strategy_fsdp};

const ls_strategy_t *ls_strategy_find(const char *name) {
  for (int i = 0; ls_strategies[i]; i++)
    if (!strcmp(ls_strategies[i]->name, name)) return ls_strategies[i];
  return NULL;
}

int ls_strategy_index(const ls_strategy_t *strategy) {
  int i = 0;
  while (ls_strategies[i] && ls_strategies[i] != strategy)
    i++;
  return i;
}

bool ls_strategy_register(const ls_strategy_t *strategy) {
  int count = ls_strategy_index(NULL);
  if (count == LS_STRATEGY_MAX || ls_strategy_find(strategy->name)) return false;
  ls_strategies[count] = strategy;
  return true;
}

const ls_strategy_t *ls_strategy_default(int64_t ranks, bool shards) {
  const bool several = ranks > 1;
  int i = 0;
  while (ls_strategies[i] &&
         (ls_strategies[i]->distributed != several || ls_strategies[i]->shards != (several && shards)))
    i++;
  return ls_strategies[i];
}

static ls_status_t place(ls_ctx_t *ctx, const ls_strategy_t *strategy, const ls_lower_t *in,
                         const ls_placement_t **placement) {
  *placement = NULL;
  ls_status_t status = strategy->place ? strategy->place(ctx, in, placement) : LS_OK;
  return status ? status : ls_lower_declare(ctx, in, *placement);
}

ls_status_t ls_strategy_declare(ls_ctx_t *ctx, const ls_strategy_t *strategy, const ls_lower_t *in) {
  const ls_placement_t *placement;
  return place(ctx, strategy, in, &placement);
}

ls_status_t ls_strategy_lower(ls_ctx_t *ctx, const ls_strategy_t *strategy, const ls_lower_t *in,
                              ls_program_t *program) {
  const ls_placement_t *placement;
  ls_status_t status = place(ctx, strategy, in, &placement);
  if (status) return status;
  return strategy->lower ? strategy->lower(ctx, in, program) : ls_lower_step(ctx, in, placement, program);
}

void ls_share(int64_t global_batch, int rank, int world_size, int64_t *first, int64_t *count) {
  int64_t share = global_batch / world_size, rest = global_batch % world_size;
  *first = rank * share + (rank < rest ? rank : rest);
  *count = share + (rank < rest);
}
