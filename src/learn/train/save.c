/* Saves and loads a run: the trainer's state as checkpoint tensors, and the meta data that a run needs to
 * continue exactly. Rank 0 writes what all ranks share; ranks write divided state together. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The channels of an image come again at each of its pixels: as many values as begin to repeat. */
static int64_t norm_period(const double *mean, const float *scale, int64_t count) {
  for (int64_t period = 1; period <= LS_STEP_CHANNELS && count > LS_STEP_CHANNELS; period++) {
    int64_t i = period;
    while (i < count && (mean ? mean[i] == mean[i - period] : scale[i] == scale[i - period]))
      i++;
    if (i == count && count % period == 0) return period;
  }
  return count;
}

/* One row of the normalisation as f64, which also holds every f32. */
static json_t *norm_row(const double *mean, const float *scale, int64_t count) {
  json_t *list = json_array();
  count = norm_period(mean, scale, count);
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
  int64_t given = (int64_t)json_array_size(list);
  if (!json_is_array(list) ||
      (given != count && (given < 1 || given > LS_STEP_CHANNELS || count % given != 0)))
    return false;
  for (int64_t i = 0; i < count; i++) {
    const json_t *item = json_array_get(list, (size_t)(i % given));
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

json_t *ls_train_names_json(int64_t count, const char *const *name) {
  json_t *list = json_array();
  for (int64_t i = 0; i < count; i++)
    if (json_array_append_new(list, json_string(name[i])) != 0) { /* not UTF-8: then they are not saved */
      json_decref(list);
      return NULL;
    }
  return list;
}

/* The values, besides the tensors, on which the stream of samples and the arithmetic of later steps
 * depend. */
static json_t *meta_json(const ls_trainer_t *t) {
  ls_saved_t saved = {.samples = ls_trainer_samples(t),
                      .seed = (int64_t)ls_train_split_seed(t->config),
                      .global_batch = t->config->train.batch,
                      .world_size = t->world->comm->size,
                      .train_count = t->dataset->train_count,
                      .total_steps = t->run.total_steps,
                      .best_figure = t->run.best_figure,
                      .no_better = t->run.no_better,
                      .best = t->run.best,
                      .skips = t->run.skips,
                      .norm = norm_json(&t->dataset->norm)};
  memcpy(saved.skip, t->run.skip, sizeof saved.skip);
  ls_train_describe_data(t->dataset, &saved);
  json_t *meta = ls_train_saved_json(&saved);
  json_decref(saved.norm);
  const ls_dataset_t *d = t->dataset;
  if (d->columns)
    json_object_set_new(meta, "columns",
                        ls_train_names_json(d->column_count, (const char *const *)d->columns));
  if (t->config->data.missing == LS_MISSING_INDICATOR)
    json_object_set_new(meta, "indicators", ls_train_names_json(d->indicators.count, d->indicators.v));
  if (d->labels.count > 0)
    json_object_set_new(meta, "labels", ls_train_names_json(d->labels.count, d->labels.v));
  if (d->vocabulary.count > 0)
    json_object_set_new(meta, "vocabulary", ls_train_names_json(d->vocabulary.count, d->vocabulary.v));
  json_object_set_new(meta, "config", ls_config_json(t->config));
  return meta;
}

/* The figure of a checkpoint's evaluation; before there was a choice it was the loss. */
static const char *figure_of(const json_t *meta) {
  const char *name = json_string_value(ls_json_at(meta, "config.train.best"));
  return name ? name : "loss";
}

/* Figures are comparable if they are the same one of the same samples: the same data, divided alike. */
static bool figures_compare(const json_t *a, const json_t *b) {
  static const char *const paths[] = {"data", "seed", "config.data.validation"};
  bool same = strcmp(figure_of(a), figure_of(b)) == 0;
  for (int i = 0; i < LS_COUNT(paths); i++) {
    const json_t *x = ls_json_at(a, paths[i]), *y = ls_json_at(b, paths[i]);
    bool numbers = json_is_number(x) && json_is_number(y); /* 0 and 0.0 are one */
    same = same && (x == y || (numbers ? json_number_value(x) == json_number_value(y) : json_equal(x, y)));
  }
  return same;
}

ls_status_t ls_trainer_pull(ls_trainer_t *t) {
  ls_status_t status = ls_beside_end(t);
  return status != LS_OK ? status
                         : ls_state_pull(t->engine.state, t->engine.stream, t->world->comm->deadline_ns);
}

/* The supervisor blames the rank whose failure came first, so a rank tells its own before the others have it. */
static void tell_failure(void *trainer, ls_status_t own) {
  ls_trainer_failed(trainer, own);
}

/* Copies the state that this rank saves to host memory, and describes it. */
static ls_status_t ready(ls_trainer_t *t, bool beside, ls_comm_t *together, ls_save_t *save) {
  ls_status_t status = LS_OK;
  void *const *host = t->engine.state->host;
  if (beside)
    host = ls_beside_copy(t, &status);
  else
    status = ls_trainer_pull(t);
  if (status == LS_OK) status = ls_ckpt_rows(t->ctx, t->engine.table, host, &save->rows);
  if (status != LS_OK) return status;
  bool first = t->world->comm->rank == 0;
  save->dir = t->config->checkpoint.dir;
  save->keep = (int)t->config->checkpoint.keep;
  save->fault = t->saver.fault;
  t->saver.fault = (ls_save_fault_t){LS_IO_NONE, 0};
  save->meta = first ? meta_json(t) : NULL;
  save->what = (ls_ckpt_save_t){.step = t->run.step,
                                .metric = t->run.val_step == t->run.step ? t->run.val_figure : NAN,
                                .comparable = figures_compare,
                                .lock = t->saver.lock,
                                .comm = together,
                                .failed = tell_failure,
                                .user = t};
  return ls_dataset_check(t->dataset); /* of the data's fingerprint */
}

ls_status_t ls_save_write(ls_ctx_t *ctx, ls_save_t *save, char **path) {
  if (save->fault.io != LS_IO_NONE) ls_ctx_fail_io(ctx, save->fault.io, save->fault.error);
  save->what.params = save->rows.tensor[0];
  save->what.param_count = save->rows.count[0];
  save->what.optim = save->rows.tensor[1];
  save->what.optim_count = save->rows.count[1];
  save->what.meta = save->meta;
  return ls_ckpt_save(ctx, save->dir, &save->what, save->keep, path);
}

void ls_save_done(ls_trainer_t *t, ls_save_t *save, char *path, ls_status_t status, int64_t took_ns) {
  if (status == LS_OK && path) {
    snprintf(t->saver.checkpoint, sizeof t->saver.checkpoint, "%s", path);
    t->saver.saves++;
    ls_trainer_tell(t, "save",
                    json_pack("{s:I, s:o?, s:f}", "step", (json_int_t)save->what.step, "path",
                              ls_json_text(path), "took_s", 1e-9 * (double)took_ns));
  } else if (status != LS_OK) {
    ls_trainer_failed(t, status);
    ls_trainer_unclaim(t);
  }
  ls_free(path);
  json_decref(save->meta);
  ls_arena_release(&save->rows.arena);
  *save = (ls_save_t){0};
}

/* Rank 0 alone, unless other ranks hold state that it does not have. */
ls_status_t ls_trainer_save(ls_trainer_t *t, ls_save_when_t when) {
  ls_comm_t *comm = t->world->comm;
  bool sharded = ls_ckpt_sharded(t->engine.table), saves = comm->rank == 0 || sharded;
  bool beside = when != LS_SAVE_NOW && !sharded && t->config->checkpoint.beside;
  ls_save_t save = {0};
  char *path = NULL;
  int64_t begin_ns = ls_clock_ns();
  ls_status_t status = when == LS_SAVE_BEST ? ls_beside_give_way(t) : ls_beside_end(t);
  if (saves && status == LS_OK) status = ready(t, beside, sharded ? comm : NULL, &save);
  if (sharded) ls_trainer_failed(t, status);
  if (sharded) status = ls_comm_agree(comm, "preparing a checkpoint", status);
  if (saves && status == LS_OK && beside)
    ls_beside_start(t, &save, when == LS_SAVE_BEST);
  else if (saves && status == LS_OK)
    status = ls_save_write(t->ctx, &save, &path);
  if (save.dir || status != LS_OK)
    ls_save_done(t, &save, comm->rank == 0 ? path : NULL, status, ls_clock_ns() - begin_ns);
  return ls_comm_agree(comm, "saving a checkpoint", status);
}

ls_status_t ls_trainer_saved(ls_trainer_t *t) {
  return ls_comm_agree(t->world->comm, "saving a checkpoint", ls_beside_end(t));
}

/* weights: only the parameters. ctx NULL: mismatches are not reported. */
static ls_status_t check_rows(ls_ctx_t *ctx, ls_trainer_t *t, const ls_ckpt_t *ckpt, bool weights) {
  ls_ckpt_rows_t rows;
  ls_status_t status = ls_ckpt_rows(t->ctx, t->engine.table, NULL, &rows);
  if (status != LS_OK) return status;
  status =
      ls_ckpt_read(ctx, ckpt, rows.tensor[0], rows.count[0], weights ? NULL : rows.tensor[1], rows.count[1]);
  ls_arena_release(&rows.arena);
  return status;
}

ls_status_t ls_trainer_match(ls_trainer_t *t, const ls_ckpt_t *ckpt) {
  const char *name = ls_ckpt_path(ckpt);
  const json_t *meta = ls_ckpt_meta(ckpt);
  ls_saved_t saved;
  ls_status_t status = ls_train_saved(t->ctx, name, meta, &saved);
  bool fit = status == LS_OK && check_rows(NULL, t, ckpt, true) == LS_OK;
  if (status == LS_OK)
    status = ls_config_compare(t->ctx, name, t->config, meta, t->use, t->other_data, fit, false);
  return status == LS_OK ? check_rows(t->ctx, t, ckpt, false) : status;
}

ls_status_t ls_trainer_match_weights(ls_trainer_t *t, const ls_ckpt_t *ckpt) {
  return check_rows(t->ctx, t, ckpt, true);
}

/* Without training there are no rows of an optimizer: its mean of the parameters takes their place. */
static ls_status_t load_mean(ls_trainer_t *t, const ls_ckpt_t *ckpt) {
  ls_comm_t *comm = t->world->comm;
  const int row = LS_STATE_PARAMETERS;
  int found = 0;
  ls_ckpt_rows_t rows = {0};
  ls_status_t status = LS_OK;
  if (t->training || t->config->optimizer.ema == 0) return LS_OK;
  if (comm->rank == 0) {
    status = ls_ckpt_rows(t->ctx, t->engine.table, t->engine.state->host, &rows);
    if (status == LS_OK)
      status = ls_ckpt_read_row(t->ctx, ckpt, LS_OPTIM_EMA, rows.tensor[0], rows.count[0], &found);
    if (status == LS_OK && found == 0)
      status =
          ls_fail(t->ctx, LS_ERR_MISMATCH,
                  "%s: holds no mean of the parameters, which train.optimizer.ema: %g asks for; its run had "
                  "ema: 0",
                  ls_ckpt_path(ckpt), t->config->optimizer.ema);
    ls_arena_release(&rows.arena);
  }
  status = ls_comm_agree(comm, "loading the mean of the parameters", status);
  return status == LS_OK ? ls_comm_broadcast(comm, "parameters", t->engine.state->host[row],
                                             (int64_t)ls_state_row_bytes(&t->engine.table->row[row]), 0)
                         : status;
}

static ls_status_t load(ls_trainer_t *t, const ls_ckpt_t *ckpt, bool weights) {
  ls_comm_t *comm = t->world->comm;
  ls_status_t status = ls_ckpt_load(t->ctx, comm, ckpt, t->engine.table, t->engine.state->host, weights);
  if (status == LS_OK) status = load_mean(t, ckpt);
  return status == LS_OK ? ls_state_push(t->engine.state, t->engine.stream, comm->deadline_ns) : status;
}

ls_status_t ls_trainer_load_weights(ls_trainer_t *t, ls_ckpt_t *ckpt) {
  ls_status_t status = ls_trainer_pull(t);
  if (status == LS_OK) status = load(t, ckpt, true);
  if (status == LS_OK && t->world->comm->rank == 0)
    ls_log(t->ctx, LS_LOG_INFO, "begins with the weights of %s; optimizer and steps start anew",
           ls_ckpt_path(ckpt));
  return status;
}

ls_status_t ls_trainer_load(ls_trainer_t *t, ls_ckpt_t *ckpt) {
  ls_status_t status = load(t, ckpt, false);
  if (status != LS_OK) return status;
  t->run.resumed_from = t->run.step;
  if (t->world->comm->rank == 0)
    snprintf(t->saver.checkpoint, sizeof t->saver.checkpoint, "%s", ls_ckpt_path(ckpt));
  return LS_OK;
}

ls_status_t ls_trainer_parameters(ls_trainer_t *t, const float **flat) {
  *flat = t->engine.state->host[LS_STATE_PARAMETERS];
  return ls_trainer_pull(t);
}

ls_status_t ls_trainer_hash(ls_trainer_t *t, char hex[33]) {
  ls_comm_t *comm = t->world->comm;
  ls_status_t status = ls_trainer_pull(t);
  return status == LS_OK ? ls_ckpt_hash(t->ctx, comm, t->engine.table, t->engine.state->host, hex) : status;
}
