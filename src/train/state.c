/* Parameters and optimizer state as host memory: initial values, pulling and pushing. */
#include "train/trainer.h"

#include <string.h>

ls_status_t ls_trainer_pull(ls_trainer_t *t, float **param, float **optim) {
  if (t->backend->host_memory) {
    *param = t->state.param;
    *optim = t->state.optim;
    return LS_OK;
  }
  const ls_stream_ops_t *stream = t->backend->stream;
  size_t total_bytes = (size_t)t->layout->total * sizeof(float);
  size_t optim_bytes = (size_t)ls_trainer_optim_count(t) * sizeof(float);
  ls_status_t status = stream->copy(t->stream, t->host_flat, t->state.param, total_bytes);
  if (status == LS_OK && optim_bytes > 0)
    status = stream->copy(t->stream, t->host_flat + t->layout->total, t->state.optim, optim_bytes);
  if (status == LS_OK) status = stream->sync(t->stream, t->world->comm->deadline_ns);
  *param = t->host_flat;
  *optim = t->host_flat + t->layout->total;
  return status;
}

ls_status_t ls_trainer_push(ls_trainer_t *t) {
  if (t->backend->host_memory) return LS_OK;
  const ls_stream_ops_t *stream = t->backend->stream;
  size_t total_bytes = (size_t)t->layout->total * sizeof(float);
  size_t optim_bytes = (size_t)ls_trainer_optim_count(t) * sizeof(float);
  ls_status_t status = stream->copy(t->stream, t->state.param, t->host_flat, total_bytes);
  if (status == LS_OK && optim_bytes > 0)
    status = stream->copy(t->stream, t->state.optim, t->host_flat + t->layout->total, optim_bytes);
  return status == LS_OK ? stream->sync(t->stream, t->world->comm->deadline_ns) : status;
}

ls_status_t ls_trainer_initialise(ls_trainer_t *t) {
  float *param = t->backend->host_memory ? t->state.param : t->host_flat;
  if (!t->backend->host_memory)
    memset(t->host_flat, 0, (size_t)(t->layout->total + ls_trainer_optim_count(t)) * sizeof(float));
  ls_layout_init(t->layout, (uint64_t)t->config->train.seed, param);
  return ls_trainer_push(t);
}

ls_status_t ls_trainer_hash(ls_trainer_t *t, char hex[33]) {
  float *param, *optim;
  ls_status_t status = ls_trainer_pull(t, &param, &optim);
  if (status == LS_OK) ls_layout_hash(t->layout, param, hex);
  return status;
}
