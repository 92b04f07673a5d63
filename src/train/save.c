/* Saving and loading a run: the trainer's state as checkpoint tensors, and what else a run needs to go on
 * exactly (its meta data). State is the same on every rank, so rank 0 writes, and it fits any world size. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The saved rows of the state as tensors of a file, under their names, over host memory (host NULL: names and
 * shapes alone). */
typedef struct {
  ls_arena_t arena;
  ls_ckpt_tensor_t *tensor[2]; /* of the model's file, of the optimizer's */
  int count[2];
} ls_views_t;

static int file_of(const ls_state_row_t *row) {
  return row->file == LS_STATE_MODEL ? 0 : 1;
}

static ls_status_t view_row(const ls_state_table_t *table, const ls_state_row_t *row, char *host,
                            ls_views_t *views) {
  int file = file_of(row), entries = 1;
  if (row->of_layout) entries = row->trained ? table->layout->trained_count : table->layout->count;
  ls_ckpt_tensor_t *to = views->tensor[file] + views->count[file];
  size_t each = ls_dtype_bytes(row->shape.dtype);
  views->count[file] += entries;
  if (!row->of_layout) *to = (ls_ckpt_tensor_t){row->name, row->shape, host};
  for (int i = 0; row->of_layout && i < entries; i++) {
    const ls_layout_entry_t *e = &table->layout->entry[i];
    const char *name = file == 0 ? e->name : ls_arena_printf(&views->arena, "%s.%s", row->name, e->name);
    if (!name) return LS_ERR_MEMORY;
    to[i] = (ls_ckpt_tensor_t){name, e->shape, host ? host + (size_t)e->offset * each : NULL};
    to[i].shape.dtype = row->shape.dtype;
  }
  return LS_OK;
}

static ls_status_t make_views(ls_trainer_t *t, void *const *host, ls_views_t *views) {
  const ls_state_table_t *table = t->table;
  *views = (ls_views_t){0};
  ls_arena_init(&views->arena, t->ctx);
  size_t room = 1 + (size_t)table->count * (size_t)(table->layout->count + 1);
  for (int file = 0; file < 2; file++)
    views->tensor[file] = ls_arena_array(&views->arena, room, sizeof *views->tensor[file]);
  ls_status_t status = views->tensor[0] && views->tensor[1] ? LS_OK : LS_ERR_MEMORY;
  for (int i = 0; i < table->count && status == LS_OK; i++)
    if (table->row[i].file != LS_STATE_UNSAVED)
      status = view_row(table, &table->row[i], host ? host[i] : NULL, views);
  if (views->count[1] == 0)
    views->tensor[1] = NULL; /* evaluation: a checkpoint's optimizer state is not looked at */
  if (status != LS_OK) ls_arena_release(&views->arena);
  return status;
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
  ls_views_t views;
  char *path = NULL;
  ls_status_t status = ls_state_pull(t->state, t->stream, t->world->comm->deadline_ns);
  if (status == LS_OK) status = make_views(t, t->state->host, &views);
  if (status != LS_OK) return status;
  json_t *meta = meta_json(t);
  ls_ckpt_save_t save = {.step = t->step,
                         .metric = t->val_step == t->step ? t->val_loss : NAN,
                         .params = views.tensor[0],
                         .param_count = views.count[0],
                         .optim = views.tensor[1],
                         .optim_count = views.count[1],
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
  if (status == LS_OK) status = make_views(t, NULL, &views);
  if (status != LS_OK) return status;
  status = ls_ckpt_check(t->ctx, ckpt, views.tensor[0], views.count[0], views.tensor[1], views.count[1]);
  ls_arena_release(&views.arena);
  return status;
}

/* Into the state's host memory; weights: the model's file alone. */
static ls_status_t read_rows(ls_trainer_t *t, const ls_ckpt_t *ckpt, bool weights) {
  ls_views_t views;
  ls_status_t status = make_views(t, t->state->host, &views);
  if (status != LS_OK) return status;
  status = ls_ckpt_read(t->ctx, ckpt, views.tensor[0], views.count[0], weights ? NULL : views.tensor[1],
                        weights ? 0 : views.count[1]);
  ls_arena_release(&views.arena);
  return status;
}

ls_status_t ls_trainer_match_weights(ls_trainer_t *t, const ls_ckpt_t *ckpt) {
  ls_views_t views;
  ls_status_t status = make_views(t, NULL, &views);
  if (status != LS_OK) return status;
  status = ls_ckpt_check(t->ctx, ckpt, views.tensor[0], views.count[0], NULL, 0);
  ls_arena_release(&views.arena);
  return status;
}

/* Rank 0 reads, the others receive. */
static ls_status_t load(ls_trainer_t *t, const ls_ckpt_t *ckpt, bool weights) {
  ls_comm_t *comm = t->world->comm;
  ls_status_t status =
      ls_comm_agree(comm, "loading the checkpoint", comm->rank == 0 ? read_rows(t, ckpt, weights) : LS_OK);
  for (int i = 0; i < t->state->count && status == LS_OK; i++) {
    const ls_state_row_t *row = &t->table->row[i];
    if (row->file == LS_STATE_UNSAVED || (weights && row->file != LS_STATE_MODEL)) continue;
    status = ls_comm_broadcast(comm, row->name, t->state->host[i], (int64_t)ls_state_row_bytes(row), 0);
  }
  return status == LS_OK ? ls_state_push(t->state, t->stream, comm->deadline_ns) : status;
}

ls_status_t ls_trainer_load_weights(ls_trainer_t *t, ls_ckpt_t *ckpt) {
  ls_status_t status = ls_state_pull(t->state, t->stream, t->world->comm->deadline_ns);
  if (status == LS_OK) status = load(t, ckpt, true);
  if (status == LS_OK && t->world->comm->rank == 0)
    ls_log(t->ctx, LS_LOG_INFO, "begins with the weights of %s; optimizer and steps start anew",
           ls_ckpt_path(ckpt));
  return status;
}

ls_status_t ls_trainer_load(ls_trainer_t *t, ls_ckpt_t *ckpt) {
  ls_status_t status = load(t, ckpt, false);
  if (status != LS_OK) return status;
  t->resumed_from = t->step;
  if (t->world->comm->rank == 0) snprintf(t->checkpoint, sizeof t->checkpoint, "%s", ls_ckpt_path(ckpt));
  return LS_OK;
}

ls_status_t ls_trainer_parameters(ls_trainer_t *t, const float **flat) {
  *flat = t->state->host[ls_state_find(t->table, "parameters")];
  return ls_state_pull(t->state, t->stream, t->world->comm->deadline_ns);
}

ls_status_t ls_trainer_hash(ls_trainer_t *t, char hex[33]) {
  const float *flat;
  ls_status_t status = ls_trainer_parameters(t, &flat);
  if (status == LS_OK) ls_layout_hash(t->table->layout, flat, hex);
  return status;
}
