/* The list of strategies, and how a global batch is shared. */
#include "strategy/strategy.h"

#include <string.h>

const ls_strategy_t *const ls_strategies[] = {&ls_strategy_single, &ls_strategy_ddp, NULL};

const ls_strategy_t *ls_strategy_find(const char *name) {
  for (int i = 0; ls_strategies[i]; i++)
    if (!strcmp(ls_strategies[i]->name, name)) return ls_strategies[i];
  return NULL;
}

const ls_strategy_t *ls_strategy_default(int64_t ranks) {
  int i = 0;
  while (ls_strategies[i] && ls_strategies[i]->distributed != (ranks > 1))
    i++;
  return ls_strategies[i];
}

void ls_share(int64_t global_batch, int rank, int world_size, int64_t *first, int64_t *count) {
  int64_t share = global_batch / world_size, rest = global_batch % world_size;
  *first = rank * share + (rank < rest ? rank : rest);
  *count = share + (rank < rest);
}
