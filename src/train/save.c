/* Saving and loading a run: the trainer's state as checkpoint tensors, and what else a run needs to go on
 * exactly (its meta data). State is the same on every rank, so rank 0 writes, and it fits any world size. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The trainer's tensors under their names, over host memory (NULL: names and shapes alone). */
typedef struct {
  ls_arena_t arena;
  ls_ckpt_tensor_t *params, *optim;
  int param_count, optim_count;
} ls_views_t;

static ls_status_t make_views(ls_trainer_t *t, float *param, float *optim, ls_views_t *views) {
  const ls_layout_t *layout = t->layout;
  ls_arena_init(&views->arena, t->ctx);
  views->param_count = layout->count;
  views->optim_count = t->training ? layout->count * t->optim.slot_count + 1 : 0;
  views->params = ls_arena_array(&views->arena, (size_t)views->param_count, sizeof *views->params);
  views->optim =
      t->training ? ls_arena_array(&views->arena, (size_t)views->optim_count, sizeof *views->optim) : NULL;
  bool short_of_memory = !views->params || (t->training && !views->optim);
  for (int i = 0; i < layout->count && !short_of_memory; i++) {
    const ls_layout_entry_t *e = &layout->entry[i];
    views->params[i] = (ls_ckpt_tensor_t){e->name, e->shape, param ? param + e->offset : NULL};
    for (int k = 0; k < t->optim.slot_count && t->training; k++) {
      const char *name = ls_arena_printf(&views->arena, "%s.%s", t->optim.slot_name[k], e->name);
      if (!name) short_of_memory = true;
      views->optim[k * layout->count + i] =
          (ls_ckpt_tensor_t){name, e->shape, optim ? optim + k * layout->total + e->offset : NULL};
    }
  }
  if (!short_of_memory && t->training)
    views->optim[views->optim_count - 1] =
        (ls_ckpt_tensor_t){"counter", LS_SHAPE(LS_F32, LS_STAT_COUNT),
                           optim ? optim + t->optim.slot_count * layout->total : NULL};
  if (short_of_memory) ls_arena_release(&views->arena);
  return short_of_memory ? LS_ERR_MEMORY : LS_OK;
}

/* One row of the normalisation as f64, which also holds every f32. */
static json_t *norm_row(const double *mean, const float *scale, int64_t count) {
  json_t *list = json_array();
  for (int64_t i = 0; i < count; i++)
    json_array_append_new(list, json_real(mean ? mean[i] : (double)scale[i]));
  return list;
}

static json_t *norm_json(const ls_norm_t *norm) {
  return json_pack("{s:o, s:o, s:o, s:o}", "mean", norm_row(norm->mean, NULL, norm->inputs), "scale",
                   norm_row(NULL, norm->scale, norm->inputs), "target_mean",
                   norm_row(norm->target_mean, NULL, norm->outputs), "target_scale",
                   norm_row(NULL, norm->target_scale, norm->outputs));
}

/* Into one of the two. */
static bool read_row(const json_t *list, int64_t count, double *mean, float *scale) {
  if (!json_is_array(list) || (int64_t)json_array_size(list) != count) return false;
  for (int64_t i = 0; i < count; i++) {
    const json_t *item = json_array_get(list, (size_t)i);
    double value = json_number_value(item);
    if (!json_is_number(item) || !isfinite(value)) return false;
    if (mean)
      mean[i] = value;
    else
      scale[i] = (float)value;
  }
  return true;
}

ls_status_t ls_trainer_norm(ls_ctx_t *ctx, ls_arena_t *arena, const json_t *meta, int64_t inputs,
                            int64_t outputs, ls_norm_t **out) {
  const json_t *json = json_object_get(meta, "norm");
  if (!json) {
    *out = NULL;
    return LS_OK;
  }
  ls_norm_t *norm = ls_arena_alloc(arena, sizeof *norm);
  double *mean = ls_arena_array(arena, (size_t)(inputs + outputs), sizeof *mean);
  float *scale = ls_arena_array(arena, (size_t)(inputs + outputs), sizeof *scale);
  if (!norm || !mean || !scale) return LS_ERR_MEMORY;
  *norm = (ls_norm_t){.inputs = inputs,
                      .outputs = outputs,
                      .mean = mean,
                      .scale = scale,
                      .target_mean = mean + inputs,
                      .target_scale = scale + inputs};
  if (!read_row(json_object_get(json, "mean"), inputs, norm->mean, NULL) ||
      !read_row(json_object_get(json, "scale"), inputs, NULL, norm->scale) ||
      !read_row(json_object_get(json, "target_mean"), outputs, norm->target_mean, NULL) ||
      !read_row(json_object_get(json, "target_scale"), outputs, NULL, norm->target_scale))
    return ls_fail(ctx, LS_ERR_MISMATCH,
                   "the checkpoint's normalisation does not fit a model of %lld inputs and %lld real targets",
                   (long long)inputs, (long long)outputs);
  *out = norm;
  return LS_OK;
}

static json_t *names_json(const ls_dataset_t *d) {
  json_t *list = json_array();
  for (int64_t i = 0; i < d->inputs; i++)
    if (json_array_append_new(list, json_string(d->columns[i])) !=
        0) { /* not UTF-8: then they are not saved */
      json_decref(list);
      return NULL;
    }
  return list;
}

/* What the stream of samples and the arithmetic of later steps depend on, beside the tensors. */
static json_t *meta_json(const ls_trainer_t *t) {
  json_t *meta =
      json_pack("{s:I, s:I, s:I, s:i, s:I, s:I}", "samples", (json_int_t)ls_trainer_samples(t), "seed",
                (json_int_t)t->config->train.seed, "global_batch", (json_int_t)t->config->train.batch,
                "world_size", t->world->comm->size, "train_samples", (json_int_t)t->dataset->train_count,
                "total_steps", (json_int_t)t->total_steps);
  json_object_set_new(meta, "early_stopping",
                      json_pack("{s:o, s:I}", "best",
                                isfinite(t->best_loss) ? json_real(t->best_loss) : json_null(), "no_better",
                                (json_int_t)t->no_better));
  json_object_set_new(meta, "norm", norm_json(&t->dataset->norm));
  json_object_set_new(meta, "data", ls_train_data_json(t->dataset));
  if (t->dataset->columns) json_object_set_new(meta, "columns", names_json(t->dataset));
  json_object_set_new(meta, "config", ls_config_json(t->config));
  return meta;
}

/* Validation losses compare that are of the same samples: of the same data, divided alike. */
static bool losses_compare(const json_t *a, const json_t *b) {
  static const char *const paths[] = {"data", "seed", "config.data.validation"};
  bool same = true;
  for (int i = 0; i < LS_COUNT(paths); i++) {
    const json_t *x = ls_train_meta_at(a, paths[i]), *y = ls_train_meta_at(b, paths[i]);
    bool numbers = json_is_number(x) && json_is_number(y); /* 0 and 0.0 are one */
    same = same && (x == y || (numbers ? json_number_value(x) == json_number_value(y) : json_equal(x, y)));
  }
  return same;
}

static ls_status_t save_rank0(ls_trainer_t *t) {
  float *param, *optim;
  ls_views_t views;
  char *path = NULL;
  ls_status_t status = ls_trainer_pull(t, &param, &optim);
  if (status == LS_OK) status = make_views(t, param, optim, &views);
  if (status != LS_OK) return status;
  json_t *meta = meta_json(t);
  ls_ckpt_save_t save = {.step = t->step,
                         .metric = t->val_step == t->step ? t->val_loss : NAN,
                         .params = views.params,
                         .param_count = views.param_count,
                         .optim = views.optim,
                         .optim_count = views.optim_count,
                         .meta = meta,
                         .comparable = losses_compare,
                         .lock = t->lock};
  status = ls_ckpt_save(t->ctx, t->config->checkpoint.dir, &save, (int)t->config->checkpoint.keep, &path);
  if (status == LS_OK)
    snprintf(t->checkpoint, sizeof t->checkpoint, "%s", path);
  else
    ls_trainer_unclaim(t);
  ls_free(path);
  json_decref(meta);
  ls_arena_release(&views.arena);
  return status;
}

ls_status_t ls_trainer_save(ls_trainer_t *t) {
  ls_status_t status = t->world->comm->rank == 0 ? save_rank0(t) : LS_OK;
  return ls_comm_agree(t->world->comm, "saving a checkpoint", status);
}

ls_status_t ls_trainer_match(ls_trainer_t *t, const ls_ckpt_t *ckpt) {
  ls_views_t views;
  const char *name = ls_ckpt_path(ckpt);
  const json_t *meta = ls_ckpt_meta(ckpt);
  ls_status_t status = ls_train_meta_check(t->ctx, name, meta);
  if (status == LS_OK) status = ls_train_compare(t->ctx, name, t->config, meta, t->use, t->other_data, false);
  if (status == LS_OK) status = make_views(t, NULL, NULL, &views);
  if (status != LS_OK) return status;
  status = ls_ckpt_check(t->ctx, ckpt, views.params, views.param_count, views.optim, views.optim_count);
  ls_arena_release(&views.arena);
  return status;
}

static ls_status_t load_rank0(ls_trainer_t *t, ls_ckpt_t *ckpt) {
  float *param = t->backend->host_memory ? t->state.param : t->host_flat;
  float *optim = t->backend->host_memory ? t->state.optim : t->host_flat + t->layout->total;
  ls_views_t views;
  ls_status_t status = make_views(t, param, optim, &views);
  if (status != LS_OK) return status;
  status = ls_ckpt_read(t->ctx, ckpt, views.params, views.param_count, views.optim, views.optim_count);
  ls_arena_release(&views.arena);
  return status;
}

static ls_status_t read_weights(ls_trainer_t *t, const ls_ckpt_t *ckpt, float *param) {
  ls_views_t views;
  ls_status_t status = make_views(t, param, NULL, &views);
  if (status != LS_OK) return status;
  status = param ? ls_ckpt_read(t->ctx, ckpt, views.params, views.param_count, NULL, 0)
                 : ls_ckpt_check(t->ctx, ckpt, views.params, views.param_count, NULL, 0);
  ls_arena_release(&views.arena);
  return status;
}

ls_status_t ls_trainer_match_weights(ls_trainer_t *t, const ls_ckpt_t *ckpt) {
  return read_weights(t, ckpt, NULL);
}

ls_status_t ls_trainer_load_weights(ls_trainer_t *t, ls_ckpt_t *ckpt) {
  ls_comm_t *comm = t->world->comm;
  float *param = t->backend->host_memory ? t->state.param : t->host_flat;
  ls_status_t status =
      ls_comm_agree(comm, "loading the weights", comm->rank == 0 ? read_weights(t, ckpt, param) : LS_OK);
  if (status == LS_OK)
    status = ls_comm_broadcast(comm, "parameters", param, t->layout->total * (int64_t)sizeof(float), 0);
  if (status == LS_OK && comm->rank == 0)
    ls_log(t->ctx, LS_LOG_INFO, "begins with the weights of %s; optimizer and steps start anew",
           ls_ckpt_path(ckpt));
  return status == LS_OK ? ls_trainer_push(t) : status;
}

ls_status_t ls_trainer_load(ls_trainer_t *t, ls_ckpt_t *ckpt) {
  ls_comm_t *comm = t->world->comm;
  float *param = t->backend->host_memory ? t->state.param : t->host_flat;
  float *optim = t->backend->host_memory ? t->state.optim : t->host_flat + t->layout->total;
  ls_status_t status =
      ls_comm_agree(comm, "loading the checkpoint", comm->rank == 0 ? load_rank0(t, ckpt) : LS_OK);
  if (status == LS_OK)
    status = ls_comm_broadcast(comm, "parameters", param, t->layout->total * (int64_t)sizeof(float), 0);
  if (status == LS_OK && t->training)
    status = ls_comm_broadcast(comm, "optimizer state", optim,
                               ls_trainer_optim_count(t) * (int64_t)sizeof(float), 0);
  if (status != LS_OK) return status;
  t->resumed_from = t->step;
  if (comm->rank == 0) snprintf(t->checkpoint, sizeof t->checkpoint, "%s", ls_ckpt_path(ckpt));
  return ls_trainer_push(t);
}
