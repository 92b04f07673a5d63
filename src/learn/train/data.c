/* Checks the data before training begins, and decides where they stay. */
#include "train/trainer.h"

ls_status_t ls_trainer_choose_data(ls_trainer_t *t) {
  ls_comm_t *comm = t->world->comm;
  ls_engine_t *e = &t->engine;
  const ls_device_ops_t *device = e->backend->device;
  ls_train_room_t room = {.backend = e->backend, .rows = t->dataset->rows};
  ls_status_t status = LS_OK;
  int64_t used_bytes = 0, total_bytes = 0;
  if (!t->training || !t->dataset->features)
    return LS_OK; /* what is read once, made for each batch, or larger than memory, does not stay */
  if (device->memory) status = device->memory(e->device, &used_bytes, &total_bytes);
  room.free_bytes = total_bytes - used_bytes;
  if (status == LS_OK) status = ls_train_resident(t->ctx, t->config, comm->size, &room, &e->data_rows);
  status = ls_comm_agree(comm, "choosing where the data stay", status);
  /* Free memory may differ between ranks; the decision must not. */
  double willing = e->data_rows > 0 ? 1 : 0;
  if (status == LS_OK && comm->size > 1) status = ls_comm_sum_f64(comm, "data on the device", &willing, 1);
  if (willing < comm->size) e->data_rows = 0;
  return status;
}

ls_data_want_t ls_train_want(const ls_model_config_t *model) {
  const int64_t ids = ls_model_ids(model);
  return (ls_data_want_t){.inputs = ls_model_inputs(model),
                          .outputs = ls_model_classes(model),
                          .classes = ls_model_loss(model)->classes,
                          .labels = ls_model_loss(model)->labels,
                          .positions = ls_model_positions(model),
                          .whole = ids > 0,
                          .ids = ids == INT64_MAX ? 0 : ids,
                          .ignored = model->ignore,
                          .x = ls_model_x(model),
                          .preset = model->preset};
}

uint64_t ls_train_split_seed(const ls_config_t *config) {
  return (uint64_t)(config->data.split_seed >= 0 ? config->data.split_seed : config->train.seed);
}

ls_status_t ls_train_batch_check(ls_ctx_t *ctx, const ls_config_t *config, const char *source,
                                 int64_t samples) {
  if (samples >= config->train.batch) return LS_OK;
  return ls_fail(ctx, LS_ERR_DATA,
                 "%s: %lld training sample%s, fewer than the global batch of %lld; lower train.batch%s",
                 source, (long long)samples, LS_PLURAL(samples), (long long)config->train.batch,
                 config->data.validation > 0 ? " or data.validation" : "");
}

ls_status_t ls_train_data_check(ls_ctx_t *ctx, const ls_config_t *config, const ls_dataset_t *data) {
  const ls_train_config_t *train = &config->train;
  ls_status_t status = ls_train_batch_check(ctx, config, data->source, data->train_count);
  if (status != LS_OK) return status;
  const ls_doc_node_t *patience = ls_doc_get(ls_doc_get(config->doc.root, "train"), "patience");
  const ls_place_t nowhere = {0};
  if (train->patience > 0 && (data->validation_count == 0 || train->evaluate_every == 0))
    return ls_fail_at(
        ctx, LS_ERR_CONFIG, patience ? &patience->place : &nowhere,
        "train.patience waits for a better validation loss: it needs data.validation above 0 or validation "
        "files, and train.evaluate_every above 0");
  return LS_OK;
}

static ls_status_t too_long(ls_ctx_t *ctx, const char *what, int64_t count) {
  return ls_fail(ctx, LS_ERR_CONFIG, "%lld %s are more samples than can be counted", (long long)count, what);
}

ls_status_t ls_train_end(ls_ctx_t *ctx, const ls_train_config_t *train, int64_t samples,
                         ls_train_place_t from, ls_train_place_t *end) {
  int64_t left, all;
  if (train->steps > 0) {
    left = train->steps > from.steps ? train->steps - from.steps : 0;
    if (__builtin_add_overflow(left * train->batch, from.samples, &all))
      return too_long(ctx, "steps", train->steps);
    *end = (ls_train_place_t){train->steps, all};
    return LS_OK;
  }
  if (__builtin_mul_overflow(train->epochs, samples, &all) || all > INT64_MAX - train->batch)
    return too_long(ctx, "epochs", train->epochs);
  left = all > from.samples ? all - from.samples : 0;
  *end = (ls_train_place_t){from.steps + (left + train->batch - 1) / train->batch, all};
  return LS_OK;
}
