/* Pruning between two steps: masks are made of the parameters on the host, by every rank alike. The step's program
 * multiplies the parameters and their mean with them after each update. */
#include "train/trainer.h"

#include <string.h>

ls_status_t ls_trainer_prune(ls_trainer_t *t, int64_t step) {
  const ls_prune_config_t *config = &t->config->prune;
  const ls_state_table_t *table = t->engine.table;
  const int64_t deadline_ns = t->world->comm->deadline_ns;
  const int params = LS_STATE_PARAMETERS, masks = ls_state_find(table, LS_MASK_NAME),
            mean = ls_state_find(table, LS_OPTIM_EMA); /* -1: there is none */
  void *const *host = t->engine.state->host;
  int64_t *counts = ls_alloc_array(t->ctx, LS_PRUNE_COUNTS, sizeof *counts), all = 0, pruned = 0;
  ls_status_t status = counts ? ls_trainer_pull(t) : LS_ERR_MEMORY;
  for (int i = 0; i < table->layout->trained_count && status == LS_OK; i++) {
    const ls_layout_entry_t *e = &table->layout->entry[i];
    float *w = (float *)host[params] + e->offset, *mask = (float *)host[masks] + e->offset;
    float *m = (float *)host[mean < 0 ? params : mean] + e->offset;
    if (e->shape.rank < 2) continue;
    all += e->count;
    pruned += ls_prune_mask(e->count, ls_prune_at(config, step), w, mask, counts);
    for (int64_t k = 0; k < e->count; k++)
      if (mask[k] == 0) w[k] = m[k] = 0;
  }
  if (status == LS_OK) status = ls_state_push(t->engine.state, t->engine.stream, deadline_ns);
  ls_free(counts);
  if (status == LS_OK && t->world->comm->rank == 0)
    ls_log(t->ctx, step == config->end ? LS_LOG_INFO : LS_LOG_DEBUG,
           "step %lld: %lld of %lld weights are pruned (%.1f %%)", (long long)step, (long long)pruned,
           (long long)all, all ? 100.0 * (double)pruned / (double)all : 0);
  return status;
}
