/* Creates a trainer: engine, data, program, initial or saved values, in that order. */
#include "data/stream.h"
#include "train/memory.h"
#include "train/trainer.h"

#include "supervise/agent.h"

#include <math.h>
#include <string.h>

/* Rank 0 opens the checkpoint that the options ask for; every rank gets its meta and a flag. */
static ls_status_t open_checkpoint(ls_trainer_t *t, const ls_trainer_options_t *options, ls_ckpt_t **ckpt,
                                   json_t **meta) {
  ls_comm_t *comm = t->world->comm;
  ls_status_t status = LS_OK;
  char *text = NULL;
  int64_t head[] = {0, 0}, size_bytes; /* bytes of the meta data, step */
  if (comm->rank == 0) {
    const char *dir = t->config->checkpoint.dir;
    if (options->init) {
      status = ls_ckpt_open_weights(t->ctx, options->init, ckpt);
    } else if (options->checkpoint) {
      status = (options->best ? ls_ckpt_open_best : ls_ckpt_open_newest)(t->ctx, options->checkpoint, ckpt);
    } else if (options->resume) {
      if (!dir) {
        status = ls_fail(t->ctx, LS_ERR_CONFIG, "--resume needs train.checkpoint.dir in the configuration");
      } else {
        bool any;
        status = ls_ckpt_any(t->ctx, dir, &any);
        if (status == LS_OK && any) status = ls_ckpt_open_newest(t->ctx, dir, ckpt);
        if (status == LS_OK && !any)
          ls_log(t->ctx, LS_LOG_INFO, "%s: nothing saved yet, starting from the beginning", dir);
      }
    }
    if (*ckpt && status == LS_OK)
      status = options->init ? ls_trainer_match_weights(t, *ckpt) : ls_trainer_match(t, *ckpt);
    if (*ckpt && !options->init && status == LS_OK && !(text = json_dumps(ls_ckpt_meta(*ckpt), JSON_COMPACT)))
      status = ls_fail(t->ctx, LS_ERR_MEMORY, "out of memory for the checkpoint's meta data");
    if (text) head[0] = (int64_t)strlen(text), head[1] = ls_ckpt_step(*ckpt);
  }
  status = ls_comm_agree(comm, "opening the checkpoint", status);
  if (status == LS_OK) status = ls_comm_broadcast(comm, "checkpoint size", head, sizeof head, 0);
  size_bytes = head[0];
  t->step = head[1];
  if (status == LS_OK && size_bytes > 0) {
    char *copy = ls_alloc(t->ctx, (size_t)size_bytes + 1);
    if (!copy) status = LS_ERR_MEMORY;
    if (copy && text) memcpy(copy, text, (size_t)size_bytes);
    if (copy) status = ls_comm_broadcast(comm, "checkpoint meta", copy, size_bytes, 0);
    if (status == LS_OK && !(*meta = json_loads(copy, 0, NULL)))
      status = ls_fail(t->ctx, LS_ERR_CORRUPT, "the checkpoint's meta data could not be read");
    ls_free(copy);
  }
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

/* *saved: what the checkpoint says of its run. */
static ls_status_t open_data(ls_trainer_t *t, const ls_trainer_options_t *options, const json_t *meta,
                             ls_saved_t *saved) {
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
  return t->base_sample + (step - t->base_step) * t->config->train.batch;
}

int64_t ls_trainer_samples(const ls_trainer_t *t) {
  int64_t position = ls_trainer_position(t, t->step);
  return t->step > t->base_step && position > t->total_samples ? t->total_samples : position;
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

/* Goes on behind the samples of the steps before train.past_step, unless the checkpoint's run has done so. */
static ls_status_t leave_out(ls_trainer_t *t) {
  const int64_t past = t->config->train.past_step, steps = past - t->base_step;
  for (int i = 0; i < t->skips; i++)
    if (t->skip[i].past_step == past) return LS_OK;
  if (past == 0 || steps <= 0) return LS_OK;
  if (t->skips == LS_SKIPS_MAX)
    return ls_fail(t->ctx, LS_ERR_CONFIG,
                   "train.past_step: samples were left out %d times already: that is the most", t->skips);
  int64_t from = t->base_sample;
  if (__builtin_add_overflow(steps * t->config->train.batch, from, &t->base_sample))
    return ls_fail(t->ctx, LS_ERR_CONFIG, "train.past_step: %lld steps are more samples than can be counted",
                   (long long)past);
  t->skip[t->skips++] = (ls_skip_t){past, from, t->base_sample};
  if (t->world->comm->rank == 0)
    ls_log(t->ctx, LS_LOG_WARN,
           "goes on behind the samples of steps %lld to %lld (train.past_step): samples %lld to %lld are "
           "left out",
           (long long)t->base_step, (long long)past - 1, (long long)from, (long long)t->base_sample - 1);
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

/* The length of the run, and this rank's part of each batch. A resumed run begins after the last trained
 * sample, whatever its batch size is now. */
static ls_status_t plan_run(ls_trainer_t *t, const ls_saved_t *saved) {
  ls_status_t fits = t->training ? ls_train_data_check(t->ctx, t->config, t->dataset) : LS_OK;
  if (fits != LS_OK) return fits;
  if (saved->known && t->use == LS_USE_RESUME) {
    t->base_step = t->step;
    bool comparable;
    ls_status_t status = figures_compare(t, saved, &comparable);
    if (status != LS_OK) return status;
    if (comparable) {
      t->best_figure = saved->best_figure;
      t->no_better = saved->no_better;
      t->best = saved->best;
    }
    status = saved_samples(t->ctx, saved, t->step, &t->base_sample);
    if (status != LS_OK) return status;
    memcpy(t->skip, saved->skip, sizeof t->skip);
    t->skips = saved->skips;
  }
  ls_status_t leaving = t->training ? leave_out(t) : LS_OK;
  if (leaving != LS_OK) return leaving;
  ls_train_place_t end;
  ls_status_t counted = ls_train_end(t->ctx, &t->config->train, t->dataset->train_count,
                                     (ls_train_place_t){t->base_step, t->base_sample}, &end);
  if (counted != LS_OK) return counted;
  t->total_steps = end.steps;
  t->total_samples = end.samples;
  if (t->training && t->world->comm->rank == 0) {
    say_length(t);
    ls_train_hints(t->ctx, t->config, t->dataset, t->total_steps);
  }
  return LS_OK;
}

/* A device's step is captured: its parts are timed for a trace alone, but what it waits for other ranks tells who is
 * slow. */
static ls_run_timing_t timed(const ls_trainer_t *t, bool trace) {
  if (trace) return LS_TIMED_TASKS;
  return t->training && t->config->monitor.dir && t->world->comm->size > 1 ? LS_TIMED_WAITS
                                                                           : LS_TIMED_NOTHING;
}

static ls_status_t make_program(ls_trainer_t *t, bool trace, int64_t rows) {
  ls_engine_t *e = &t->engine;
  const int64_t many = 1 << 30; /* of data that are not read */
  int64_t samples = t->dataset->validation_count > 0 ? t->dataset->validation_count : t->dataset->rows;
  if (samples == 0) samples = many;
  int64_t eval_rows = rows > 0 ? rows : ls_engine_eval_rows(t->config, samples, t->world->comm->size);
  if (t->training && t->world->comm->rank == 0) ls_engine_say_unused(t->ctx, t->config, e->backend);
  ls_status_t status = t->training ? ls_engine_lower(e, LS_STEP_TRAIN, e->share.rows) : LS_OK;
  if (status == LS_OK) status = ls_engine_lower(e, LS_STEP_EVALUATE, eval_rows);
  if (status == LS_OK) status = ls_engine_allocate(e, true);
  if (status == LS_OK) status = ls_engine_upload(e, t->dataset);
  if (status == LS_OK) status = ls_engine_bind(e, timed(t, trace));
  return ls_comm_agree(t->world->comm, "preparing the schedule", status);
}

/* A program that embeds the library learns the number of ranks only from its world, after it has read the
 * configuration. Options left open there are decided here. */
static void take_config(ls_trainer_t *t, const ls_config_t *config) {
  t->own_config = *config;
  t->config = &t->own_config;
  ls_parallel_config_t *parallel = &t->own_config.parallel;
  parallel->ranks = t->world->comm->size;
  if (parallel->usual) parallel->strategy = ls_strategy_default(parallel->ranks)->name;
}

/* Micro-batches without a row cost as much as others, and add nothing; the step takes as long as the largest share. */
static void warn_of_cut(const ls_trainer_t *t) {
  const ls_comm_t *comm = t->world->comm;
  const ls_train_config_t *train = &t->config->train;
  if (t->config->parallel.reproducible || comm->rank > 0) return;
  const ls_engine_cut_t cut = ls_engine_cut(train->batch, train->accumulate, comm->size);
  const long long batch = train->batch, accumulate = train->accumulate,
                  well = ls_engine_cut_well(train->batch, train->accumulate, comm->size);
  if (cut.empty > 0)
    ls_log(
        t->ctx, LS_LOG_WARN,
        "train.accumulate is %lld: with %d rank%s and a batch of %lld rows, %lld of a rank's micro-batches "
        "in every step hold nothing but padding; lower train.accumulate to %lld",
        accumulate, comm->size, LS_PLURAL(comm->size), batch, (long long)cut.empty, well);
  if (!cut.even)
    ls_log(
        t->ctx, LS_LOG_WARN,
        "train.accumulate is %lld: %d ranks share each micro-batch by itself, so rank 0 has %lld of the %lld "
        "samples of a batch, and the others wait for it; lower train.accumulate to %lld, or make "
        "train.batch a multiple of %lld",
        accumulate, comm->size, (long long)cut.largest, batch, well, accumulate * comm->size);
}

/* The rules of the configuration for this world. */
static ls_status_t check_world(ls_trainer_t *t) {
  const ls_comm_t *comm = t->world->comm;
  const ls_strategy_t *strategy = ls_strategy_find(t->config->parallel.strategy);
  if (!strategy->distributed && comm->size > 1)
    return ls_fail(t->ctx, LS_ERR_CONFIG, "strategy \"%s\" uses one rank, but %d were started; use %s",
                   strategy->name, comm->size, ls_strategy_default(comm->size)->name);
  if (t->config->train.batch < comm->size)
    return ls_fail(t->ctx, LS_ERR_CONFIG, "the global batch (%lld) is smaller than the number of ranks (%d)",
                   (long long)t->config->train.batch, comm->size);
  if (!t->training) return LS_OK;
  warn_of_cut(t);
  ls_status_t status = ls_config_safety_check(t->ctx, t->config);
  return status == LS_OK ? ls_engine_check_share(t->ctx, t->config, comm->size) : status;
}

static void begin(ls_trainer_t *t) {
  t->resumed_from = -1;
  t->val_loss = t->val_accuracy = t->val_figure = t->best_figure = t->best.figure = NAN;
}

ls_status_t ls_trainer_restart(ls_trainer_t *t) {
  begin(t);
  t->step = t->no_better = t->val_step = 0;
  return ls_engine_fill(&t->engine, true);
}

/* Rank 0 makes the page, the others find it. Of several hosts each has its own, made by its agent. */
static ls_status_t show(ls_trainer_t *t) {
  ls_comm_t *comm = t->world->comm;
  const char *dir = t->training ? t->config->monitor.dir : NULL, *own = getenv(LS_AGENT_ENVIRONMENT);
  if (!dir) return LS_OK;
  if (own) dir = own;
  ls_status_t status = comm->rank == 0 ? ls_page_open(t->ctx, dir, comm->size, &t->page) : LS_OK;
  status = ls_comm_agree(comm, "opening the monitor directory", status);
  if (status == LS_OK && comm->rank > 0) status = ls_page_open(t->ctx, dir, comm->size, &t->page);
  if (t->page) {
    t->line = ls_page_line(t->page, comm->rank);
    ls_page_begin(t->line, ls_clock_ns());
    ls_trainer_show_collectives(t, dir);
  }
  return ls_comm_agree(comm, "opening the monitor directory", status);
}

/* Before a communicator outlives the page. */
static void hide(ls_trainer_t *t) {
  ls_trainer_hide_collectives(t);
  if (t->line->error == LS_OK) ls_page_enter(t->line, LS_PAGE_GONE, ls_clock_ns());
  ls_page_close(t->page);
}

/* Flags that all ranks share, as the configuration is. */
static ls_status_t compare_ranks(ls_trainer_t *t, ls_comm_t *comm, const ls_trainer_options_t *options) {
  if (comm->size == 1) return LS_OK;
  json_t *flags =
      json_pack("{s:b, s:b, s:b, s:b}", "--resume", options->resume, "--init", options->init != NULL,
                "--trace", options->trace, "--allow-data-change", options->allow_data_change);
  return ls_config_compare_ranks(t->ctx, comm, t->config, flags);
}

ls_status_t ls_trainer_create(ls_ctx_t *ctx, ls_world_t *world, const ls_config_t *config,
                              const ls_trainer_options_t *options, ls_trainer_t **out) {
  static const ls_trainer_options_t defaults = {0};
  static const ls_int8_t measure = {0};
  if (!options) options = &defaults;
  ls_ckpt_t *ckpt = NULL, *int8 = NULL;
  json_t *meta = NULL;
  ls_saved_t saved;
  ls_trainer_t *t = ls_alloc(ctx, sizeof *t);
  if (!t) return LS_ERR_MEMORY;
  t->ctx = ctx;
  t->world = world;
  take_config(t, config);
  t->training = !options->no_training;
  if (options->init && (options->resume || options->checkpoint)) {
    ls_free(t);
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "--init begins a new run, --resume goes on with one: give one of the two");
  }
  t->use = options->checkpoint ? LS_USE_MODEL : LS_USE_RESUME;
  t->other_data = options->allow_data_change;
  t->classes = ls_model_loss(&config->model)->classes;
  t->inputs = ls_model_inputs(&config->model);
  t->outputs = ls_model_outputs(&config->model);
  begin(t);
  t->line = &t->own_line;
  ls_status_t status = check_world(t);
  if (status == LS_OK) status = compare_ranks(t, world->comm, options);
  if (status == LS_OK && t->training) status = ls_trainer_lock(t); /* before anything of the run is written */
  if (status == LS_OK) status = show(t);
  if (status == LS_OK && t->training) status = ls_inject_read(ctx, world->comm->rank, &t->inject);
  const ls_engine_options_t engine = {.config = t->config, .comm = world->comm, .training = t->training};
  if (status == LS_OK)
    status = ls_comm_agree(world->comm, "opening the device", ls_engine_open(ctx, &engine, &t->engine));
  if (status == LS_OK)
    status = ls_comm_agree(world->comm, "connecting the devices", ls_engine_connect(&t->engine));
  if (status == LS_OK) t->engine.exchange->watch = world->comm->watch;
  if (status == LS_OK) status = open_checkpoint(t, options, &ckpt, &meta);
  if (status == LS_OK) status = open_data(t, options, meta, &saved);
  if (status == LS_OK) status = ls_comm_agree(world->comm, "planning the run", plan_run(t, &saved));
  if (status == LS_OK && meta && ckpt) /* now that nothing refuses them */
    status = ls_config_compare(ctx, ls_ckpt_path(ckpt), t->config, meta, t->use, t->other_data, true, true);
  if (status == LS_OK) status = ls_trainer_choose_data(t);
  if (options->ranges) t->own_config.model.int8 = &measure;
  if (status == LS_OK && options->int8) status = ls_trainer_open_int8(t, options->int8, &int8);
  if (status == LS_OK) status = make_program(t, options->trace, options->rows);
  if (status == LS_OK) status = meta ? ls_trainer_load(t, ckpt) : ls_engine_fill(&t->engine, false);
  if (status == LS_OK && options->init)
    status = ls_comm_agree(
        world->comm, "comparing names",
        ckpt ? ls_train_compare_names(ctx, ls_ckpt_path(ckpt), ls_ckpt_meta(ckpt), t->dataset) : LS_OK);
  if (status == LS_OK && options->init) status = ls_trainer_load_weights(t, ckpt);
  if (status == LS_OK && int8) status = ls_trainer_take_int8(t, int8);
  if (status == LS_OK && !meta && !options->init && t->config->model.weights)
    status = ls_trainer_take_weights(t);
  if (status == LS_OK && !meta) status = ls_engine_begin_mean(&t->engine);
  if (status == LS_OK)
    status =
        ls_watchdog_start(ctx, world->comm->deadline_ns, options->stuck, options->stuck_user, &t->watchdog);
  ls_ckpt_close(ckpt);
  ls_ckpt_close(int8);
  json_decref(meta);
  if (status != LS_OK) {
    ls_page_fail(t->line, status);
    ls_trainer_destroy(t);
    return status;
  }
  *out = t;
  return LS_OK;
}

const ls_engine_t *ls_trainer_engine(const ls_trainer_t *t) {
  return &t->engine;
}
const ls_dataset_t *ls_trainer_data(const ls_trainer_t *t) {
  return t->dataset;
}
const char *ls_trainer_checkpoint(const ls_trainer_t *t, int64_t *step) {
  *step = t->step;
  return t->checkpoint;
}

void ls_trainer_destroy(ls_trainer_t *t) {
  if (!t) return;
  ls_watchdog_enter(t->watchdog, LS_WATCHDOG_END, t->step);
  ls_beside_destroy(t);
  ls_engine_close(&t->engine);
  ls_dataset_close(t->dataset);
  ls_ckpt_unlock(t->lock);
  ls_watchdog_stop(t->watchdog);
  json_decref(t->history);
  hide(t);
  ls_free(t->range);
  ls_free(t);
}
