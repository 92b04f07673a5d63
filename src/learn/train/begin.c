/* The beginning of a run: the checkpoint that it goes on from, the data, its length. */
#include "data/stream.h"
#include "train/making.h"

#include <math.h>
#include <string.h>

/* Rank 0's part: the checkpoint that the options ask for, compared with this trainer. */
static ls_status_t open_checkpoint(ls_trainer_t *t, const ls_trainer_options_t *options, ls_ckpt_t **ckpt) {
  const char *dir = t->config->checkpoint.dir;
  bool any = false;
  ls_status_t status = LS_OK;
  if (options->init) {
    status = ls_ckpt_open_weights(t->ctx, options->init, ckpt);
    return status == LS_OK ? ls_trainer_match_weights(t, *ckpt) : status;
  }
  if (options->checkpoint) {
    status = (options->best ? ls_ckpt_open_best : ls_ckpt_open_newest)(t->ctx, options->checkpoint, ckpt);
  } else if (options->resume) {
    if (!dir)
      return ls_fail(t->ctx, LS_ERR_CONFIG, "--resume needs train.checkpoint.dir in the configuration");
    status = ls_ckpt_any(t->ctx, dir, &any);
    if (status == LS_OK && any) status = ls_ckpt_open_newest(t->ctx, dir, ckpt);
    if (status == LS_OK && !any)
      ls_log(t->ctx, LS_LOG_INFO, "%s: nothing saved yet, starting from the beginning", dir);
  }
  return status == LS_OK && *ckpt ? ls_trainer_match(t, *ckpt) : status;
}

/* Sends the text of rank 0's meta data to every rank, which parses it. */
static ls_status_t share_meta(ls_trainer_t *t, const char *text, int64_t size_bytes, json_t **meta) {
  char *copy = ls_alloc(t->ctx, (size_t)size_bytes + 1);
  if (!copy) return LS_ERR_MEMORY;
  if (text) memcpy(copy, text, (size_t)size_bytes);
  ls_status_t status = ls_comm_broadcast(t->world->comm, "checkpoint meta", copy, size_bytes, 0);
  if (status == LS_OK && !(*meta = json_loads(copy, 0, NULL)))
    status = ls_fail(t->ctx, LS_ERR_CORRUPT, "the checkpoint's meta data could not be read");
  ls_free(copy);
  return status;
}

ls_status_t ls_making_checkpoint(ls_trainer_t *t, ls_making_t *m) {
  ls_comm_t *comm = t->world->comm;
  ls_status_t status = comm->rank == 0 ? open_checkpoint(t, m->options, &m->ckpt) : LS_OK;
  char *text = NULL;
  struct {
    int64_t meta_bytes, step;
  } head = {0};
  if (m->ckpt && !m->options->init && status == LS_OK &&
      !(text = json_dumps(ls_ckpt_meta(m->ckpt), JSON_COMPACT)))
    status = ls_fail(t->ctx, LS_ERR_MEMORY, "out of memory for the checkpoint's meta data");
  if (text) head.meta_bytes = (int64_t)strlen(text), head.step = ls_ckpt_step(m->ckpt);
  status = ls_comm_agree(comm, "opening the checkpoint", status);
  if (status == LS_OK) status = ls_comm_broadcast(comm, "checkpoint size", &head, sizeof head, 0);
  t->run.step = head.step;
  if (status == LS_OK && head.meta_bytes > 0) status = share_meta(t, text, head.meta_bytes, &m->meta);
  free(text);
  return status;
}

/* Whether the data, and the samples of validation files, are the checkpoint's. LS_ERR_IO if a file cannot be read any more. */
static ls_status_t compare_data(const ls_trainer_t *t, const ls_saved_t *saved, bool *same, bool *same_held) {
  *same = ls_train_same_data(saved, t->dataset);
  *same_held = ls_train_same_held(saved, t->dataset);
  return ls_dataset_check(t->dataset);
}

/* Evaluation scores validation files if there are some; otherwise the part that the checkpoint held out if
 * the data are its own, and all samples of other data. */
static ls_status_t check_scored(ls_trainer_t *t, const ls_saved_t *saved) {
  const ls_dataset_t *d = t->dataset;
  bool same, same_held, held = d->split_rows < d->rows;
  ls_status_t status = compare_data(t, saved, &same, &same_held);
  if (status != LS_OK) return status;
  t->new_data = held ? !same_held : !same;
  if (same && !held && saved->held_rows > 0)
    ls_log(t->ctx, LS_LOG_WARN,
           "%s: the checkpoint's run had %lld samples in validation files, which this configuration does not "
           "name: the samples that it was trained on are scored",
           d->source, (long long)saved->held_rows);
  return ls_dataset_split(t->ctx, same ? saved->validation : 0, t->dataset);
}

/* Validation losses of a run are compared with each other, by train.patience and for the best checkpoint. */
static ls_status_t check_held(ls_trainer_t *t, const ls_saved_t *saved, bool same_held) {
  const ls_dataset_t *d = t->dataset;
  int64_t rows = d->rows - d->split_rows;
  if (same_held) return LS_OK;
  if (rows > 0 && saved->held_rows > 0 && !t->other_data)
    return ls_fail(
        t->ctx, LS_ERR_MISMATCH,
        "%s: these are not the validation samples of the checkpoint's run (%lld now, %lld then%s), so "
        "losses before and after do not compare; --allow-data-change goes on with them all the same",
        d->validation_source, (long long)rows, (long long)saved->held_rows,
        rows == saved->held_rows ? ", of other values" : "");
  ls_log(t->ctx, LS_LOG_INFO, "%s: %lld samples of validation files; the checkpoint's run had %lld",
         rows > 0 ? d->validation_source : d->source, (long long)rows, (long long)saved->held_rows);
  return LS_OK;
}

/* Continuing a run needs its data. */
static ls_status_t check_data(ls_trainer_t *t, const ls_saved_t *saved) {
  const ls_dataset_t *d = t->dataset;
  bool same, same_held;
  ls_status_t status = compare_data(t, saved, &same, &same_held);
  if (status != LS_OK) return status;
  if (same || t->other_data) {
    if (!same) ls_log(t->ctx, LS_LOG_INFO, "%s: not the data that the checkpoint was trained on", d->source);
    return check_held(t, saved, same_held);
  }
  char how[96];
  if (saved->rows == d->split_rows)
    snprintf(how, sizeof how, "as many samples (%lld), but other values", (long long)d->split_rows);
  else
    snprintf(how, sizeof how, "%lld samples now, %lld in its training part", (long long)d->split_rows,
             (long long)saved->train_count);
  return ls_fail(
      t->ctx, LS_ERR_MISMATCH,
      "%s: these are not the data that the checkpoint was trained on (%s); --allow-data-change goes "
      "on with them all the same",
      d->source, how);
}

ls_status_t ls_making_data(ls_trainer_t *t, ls_making_t *m) {
  const ls_trainer_options_t *options = m->options;
  const json_t *meta = m->meta;
  ls_saved_t *saved = &m->saved;
  ls_data_want_t want = ls_train_want(&t->config->model);
  ls_arena_t arena;
  ls_arena_init(&arena, t->ctx);
  ls_norm_t *norm = NULL;
  uint64_t seed = ls_train_split_seed(t->config);
  ls_status_t status = ls_train_saved(t->ctx, "the checkpoint", meta, saved);
  ls_data_config_t data = t->config->data;
  if (options->memory) data.kind = LS_DATA_MEMORY;
  if (saved->known && t->use == LS_USE_MODEL) {
    data.validation = 0; /* split later, when it is known whether the data are the checkpoint's */
    seed = (uint64_t)saved->seed;
  }
  if (status == LS_OK) status = ls_train_take_names(&arena, meta, &data);
  if (status == LS_OK && meta)
    status = ls_trainer_norm(t->ctx, &arena, meta, t->inputs, t->classes ? 0 : t->outputs, &norm);
  if (options->no_data) {
    t->unmeasured = data.normalize && !norm;
    if (status == LS_OK) status = ls_dataset_without(t->ctx, &data, &want, norm, &t->dataset);
    goto release;
  }
  const ls_train_source_t source = {
      .config = &data, .memory = options->memory, .want = want, .seed = seed, .norm = norm};
  status = ls_trainer_read(t, &source, status);
  if (status == LS_OK) t->own_config.model.dtype = t->dataset->sample.x.dtype;
  if (status == LS_OK) status = ls_train_compare_columns(t->ctx, meta, t->dataset);
  if (status == LS_OK && saved->known)
    status = (t->use == LS_USE_MODEL ? check_scored : check_data)(t, saved);
release:
  ls_arena_release(&arena);
  return ls_comm_agree(t->world->comm, "opening the data", status);
}

int64_t ls_trainer_position(const ls_trainer_t *t, int64_t step) {
  return t->run.base_sample + (step - t->run.base_step) * t->config->train.batch;
}

int64_t ls_trainer_samples(const ls_trainer_t *t) {
  int64_t position = ls_trainer_position(t, t->run.step);
  return t->run.step > t->run.base_step && position > t->run.total_samples ? t->run.total_samples : position;
}

/* Older checkpoints record the batch size, not the number of samples. */
static ls_status_t saved_samples(ls_ctx_t *ctx, const ls_saved_t *saved, int64_t step, int64_t *samples) {
  *samples = saved->samples;
  bool bad = saved->samples < 0 && __builtin_mul_overflow(step, saved->global_batch, samples);
  if (!bad && *samples <= INT64_MAX / 4) return LS_OK;
  return ls_fail(ctx, LS_ERR_CORRUPT, "the checkpoint's number of trained samples cannot be right");
}

/* *comparable: whether figures of the checkpoint's run and of this one come from the same samples. */
static ls_status_t figures_compare(const ls_trainer_t *t, const ls_saved_t *saved, bool *comparable) {
  bool same, same_held;
  *comparable = false;
  if ((uint64_t)saved->seed != ls_train_split_seed(t->config) ||
      saved->validation != t->config->data.validation)
    return LS_OK;
  ls_status_t status = compare_data(t, saved, &same, &same_held);
  *comparable = same && same_held;
  return status;
}

/* Leaves out the samples of the steps before train.past_step, unless the checkpoint's run has done so. */
static ls_status_t leave_out(ls_trainer_t *t) {
  const int64_t past = t->config->train.past_step, steps = past - t->run.base_step;
  for (int i = 0; i < t->run.skips; i++)
    if (t->run.skip[i].past_step == past) return LS_OK;
  if (past == 0 || steps <= 0) return LS_OK;
  if (t->run.skips == LS_SKIPS_MAX)
    return ls_fail(t->ctx, LS_ERR_CONFIG,
                   "train.past_step: samples were left out %d times already: that is the most", t->run.skips);
  int64_t from = t->run.base_sample;
  if (__builtin_add_overflow(steps * t->config->train.batch, from, &t->run.base_sample))
    return ls_fail(t->ctx, LS_ERR_CONFIG, "train.past_step: %lld steps are more samples than can be counted",
                   (long long)past);
  t->run.skip[t->run.skips++] = (ls_skip_t){past, from, t->run.base_sample};
  if (t->world->comm->rank == 0)
    ls_log(t->ctx, LS_LOG_WARN,
           "goes on behind the samples of steps %lld to %lld (train.past_step): samples %lld to %lld are "
           "left out",
           (long long)t->run.base_step, (long long)past - 1, (long long)from,
           (long long)t->run.base_sample - 1);
  return LS_OK;
}

static void say_length(const ls_trainer_t *t) {
  const ls_train_config_t *train = &t->config->train;
  const bool steps = train->steps > 0;
  if (train->replaced)
    ls_log(t->ctx, LS_LOG_INFO, "train.%s of --set (%lld) replaces train.%s of %s:%d",
           steps ? "steps" : "epochs", (long long)(steps ? train->steps : train->epochs),
           steps ? "epochs" : "steps", LS_SHOWN(train->replaced->file), train->replaced->line);
}

/* A resumed run begins after the last trained sample, whatever its batch size is now. */
static ls_status_t go_on(ls_trainer_t *t, const ls_saved_t *saved) {
  bool comparable;
  ls_status_t status = figures_compare(t, saved, &comparable);
  if (status == LS_OK && comparable) {
    t->run.best_figure = saved->best_figure;
    t->run.no_better = saved->no_better;
    t->run.best = saved->best;
  }
  t->run.base_step = t->run.step;
  memcpy(t->run.skip, saved->skip, sizeof t->run.skip);
  t->run.skips = saved->skips;
  return status == LS_OK ? saved_samples(t->ctx, saved, t->run.step, &t->run.base_sample) : status;
}

ls_status_t ls_making_run(ls_trainer_t *t, ls_making_t *m) {
  ls_train_place_t end;
  ls_status_t status = t->training ? ls_train_data_check(t->ctx, t->config, t->dataset) : LS_OK;
  if (status == LS_OK && m->saved.known && t->use == LS_USE_RESUME) status = go_on(t, &m->saved);
  if (status == LS_OK && t->training) status = leave_out(t);
  if (status == LS_OK)
    status = ls_train_end(t->ctx, &t->config->train, t->dataset->train_count,
                          (ls_train_place_t){t->run.base_step, t->run.base_sample}, &end);
  if (status != LS_OK) return status;
  t->run.total_steps = end.steps;
  t->run.total_samples = end.samples;
  if (t->training && t->world->comm->rank == 0) {
    say_length(t);
    ls_train_hints(t->ctx, t->config, t->dataset, t->run.total_steps);
  }
  return LS_OK;
}
