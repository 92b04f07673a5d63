/* Parameters by name, for programs that embed the library. */
#include "train/trainer.h"

#include <string.h>

static_assert((int)LS_PARAMETER_RANK_MAX == (int)LS_DIMS_MAX, "a shape fits");

int ls_trainer_parameter_count(const ls_trainer_t *t) {
  return t->engine.table->layout->count;
}

static ls_status_t find(ls_trainer_t *t, const char *name, int index, const ls_layout_entry_t **entry) {
  const ls_layout_t *layout = t->engine.table->layout;
  if (t->engine.table->row[LS_STATE_PARAMETERS].owner != LS_STATE_REPLICATED)
    return ls_fail(t->ctx, LS_ERR_UNSUPPORTED,
                   "parameters by name: strategy \"%s\" shares them among the ranks",
                   t->config->parallel.strategy);
  if (name)
    *entry = ls_layout_find(layout, name);
  else
    *entry = index >= 0 && index < layout->count ? &layout->entry[layout->by_name[index]] : NULL;
  if (*entry) return LS_OK;
  if (name) return ls_fail(t->ctx, LS_ERR_NOT_FOUND, "the model has no parameter \"%s\"", LS_SHOWN(name));
  return ls_fail(t->ctx, LS_ERR_NOT_FOUND, "parameter %d: the model has %d", index, layout->count);
}

ls_status_t ls_trainer_parameter(ls_trainer_t *t, const char *name, int index, ls_parameter_t *parameter) {
  const ls_layout_entry_t *entry;
  const float *flat;
  if (parameter->struct_bytes < sizeof parameter->struct_bytes)
    return ls_fail(t->ctx, LS_ERR_ARGUMENT, "ls_trainer_parameter: struct_bytes is not set");
  ls_status_t status = find(t, name, index, &entry);
  if (status == LS_OK) status = ls_trainer_parameters(t, &flat);
  if (status != LS_OK) return status;
  ls_parameter_t all = {.struct_bytes = parameter->struct_bytes,
                        .name = entry->name,
                        .rank = entry->shape.rank,
                        .trained = entry->offset < t->engine.table->layout->trained,
                        .values = flat + entry->offset};
  memcpy(all.dim, entry->shape.dim, sizeof all.dim);
  memcpy(parameter, &all, all.struct_bytes < sizeof all ? all.struct_bytes : sizeof all);
  return LS_OK;
}

ls_status_t ls_trainer_parameter_set(ls_trainer_t *t, const char *name, const float *values, int64_t count) {
  const ls_layout_entry_t *entry;
  const float *flat;
  ls_status_t status = find(t, name, 0, &entry);
  if (status != LS_OK) return status;
  if (count != entry->count)
    return ls_fail(t->ctx, LS_ERR_SHAPE, "parameter \"%s\" has %lld values, not %lld", LS_SHOWN(name),
                   (long long)entry->count, (long long)count);
  status = ls_trainer_parameters(t, &flat);
  if (status != LS_OK) return status;
  float *host = t->engine.state->host[LS_STATE_PARAMETERS];
  memcpy(host + entry->offset, values, (size_t)count * sizeof *values);
  return ls_state_push(t->engine.state, t->engine.stream, t->world->comm->deadline_ns);
}
