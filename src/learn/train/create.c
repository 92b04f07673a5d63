/* Creates a trainer, stage by stage, and destroys it in the opposite order. */
#include "train/loop.h"
#include "train/making.h"

#include "base/process.h"

#include <math.h>
#include <string.h>

/* A program that embeds the library reads its configuration before its world tells the number of ranks, so options that
 * depend on that number are set here. */
static void take_config(ls_trainer_t *t, const ls_config_t *config) {
  t->own_config = *config;
  t->config = &t->own_config;
  ls_parallel_config_t *parallel = &t->own_config.parallel;
  parallel->ranks = t->world->comm->size;
  if (parallel->usual) parallel->strategy = ls_config_usual(config, parallel->ranks)->name;
}

static void begin(ls_trainer_t *t) {
  t->run.resumed_from = -1;
  t->run.val = (ls_eval_report_t){.loss = NAN, .accuracy = NAN};
  t->run.val_figure = t->run.best_figure = t->run.best.figure = NAN;
}

ls_status_t ls_trainer_restart(ls_trainer_t *t) {
  begin(t);
  t->run.step = t->run.no_better = t->run.val_step = 0;
  return ls_engine_fill(&t->engine, true);
}

/* A micro-batch without a row takes as long as any other and adds nothing. A step takes as long as the largest share. */
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

static ls_status_t check_world(ls_trainer_t *t, ls_making_t *m) {
  (void)m;
  const ls_comm_t *comm = t->world->comm;
  const ls_strategy_t *strategy = ls_strategy_find(t->config->parallel.strategy);
  if (!strategy->distributed && comm->size > 1)
    return ls_fail(t->ctx, LS_ERR_CONFIG, "strategy \"%s\" uses one rank, but %d were started; use %s",
                   strategy->name, comm->size, ls_config_usual(t->config, comm->size)->name);
  if (t->config->train.batch < comm->size)
    return ls_fail(t->ctx, LS_ERR_CONFIG, "the global batch (%lld) is smaller than the number of ranks (%d)",
                   (long long)t->config->train.batch, comm->size);
  if (!t->training) return LS_OK;
  warn_of_cut(t);
  ls_status_t status = ls_config_safety_check(t->ctx, t->config);
  return status == LS_OK ? ls_engine_check_share(t->ctx, ls_config_batching(t->config), comm->size) : status;
}

/* A captured step times its tasks only for a trace, which makes it slower. Waits for other ranks are cheap to time and
 * tell a monitor which rank is slow. */
static ls_run_timing_t timed(const ls_trainer_t *t, bool trace) {
  if (trace) return LS_TIMED_TASKS;
  return t->training && t->config->monitor.dir && t->world->comm->size > 1 ? LS_TIMED_WAITS
                                                                           : LS_TIMED_NOTHING;
}

static ls_status_t make_programs(ls_trainer_t *t, ls_making_t *m) {
  ls_engine_t *e = &t->engine;
  const int64_t many = 1 << 30; /* the number of samples is not known without data */
  int64_t samples = t->dataset->validation_count > 0 ? t->dataset->validation_count : t->dataset->rows;
  if (samples == 0) samples = many;
  const int64_t rows = m->options->rows, eval_rows = rows > 0
                                                         ? rows
                                                         : ls_engine_eval_rows(ls_config_batching(t->config),
                                                                               samples, t->world->comm->size);
  if (t->training && t->world->comm->rank == 0) ls_config_say_unused(t->ctx, t->config, e->backend);
  ls_status_t status = t->training ? ls_engine_lower(e, LS_STEP_TRAIN, e->share.rows) : LS_OK;
  if (status == LS_OK) status = ls_engine_lower(e, LS_STEP_EVALUATE, eval_rows);
  if (status == LS_OK) status = ls_engine_allocate(e, true);
  if (status == LS_OK) status = ls_feed_upload(e, t->dataset);
  return status == LS_OK ? ls_engine_bind(e, timed(t, m->options->trace)) : status;
}

static ls_status_t check_options(ls_trainer_t *t, ls_making_t *m) {
  const ls_trainer_options_t *o = m->options;
  if (!o->init || (!o->resume && !o->checkpoint)) return LS_OK;
  return ls_fail(t->ctx, LS_ERR_ARGUMENT,
                 "--init begins a new run, --resume goes on with one: give one of the two");
}

/* All ranks share the program and these flags, as they share the configuration. */
static ls_status_t compare_ranks(ls_trainer_t *t, ls_making_t *m) {
  const ls_trainer_options_t *o = m->options;
  if (t->world->comm->size == 1) return LS_OK;
  char build[LS_PROCESS_BUILD_BYTES];
  ls_process_build(build);
  json_t *flags =
      json_pack("{s:s, s:b, s:b, s:b, s:b}", "the program's build", build, "--resume", o->resume, "--init",
                o->init != NULL, "--trace", o->trace, "--allow-data-change", o->allow_data_change);
  return ls_config_compare_ranks(t->ctx, t->world->comm, t->config, flags);
}

static ls_status_t lock(ls_trainer_t *t, ls_making_t *m) {
  (void)m;
  return t->training ? ls_trainer_lock(t) : LS_OK;
}

static void unlock(ls_trainer_t *t) {
  ls_ckpt_unlock(t->saver.lock);
}

static ls_status_t open_observers(ls_trainer_t *t, ls_making_t *m) {
  return ls_observers_open(t, m->options);
}

static ls_status_t open_device(ls_trainer_t *t, ls_making_t *m) {
  (void)m;
  ls_engine_options_t engine = ls_config_engine(t->config);
  engine.comm = t->world->comm;
  engine.training = t->training;
  return ls_engine_open(t->ctx, &engine, &t->engine);
}

static void close_device(ls_trainer_t *t) {
  ls_engine_close(&t->engine);
}

static ls_status_t connect_devices(ls_trainer_t *t, ls_making_t *m) {
  (void)m;
  ls_status_t status = ls_engine_connect(&t->engine);
  if (status == LS_OK) t->engine.exchange->watch = t->world->comm->watch;
  return status;
}

/* The loader's threads read the dataset. */
static void close_data(ls_trainer_t *t) {
  ls_engine_stop(&t->engine);
  ls_dataset_close(t->dataset);
}

static ls_status_t say_differences(ls_trainer_t *t, ls_making_t *m) {
  if (!m->ckpt || !m->meta) return LS_OK;
  return ls_config_compare(t->ctx, ls_ckpt_path(m->ckpt), t->config, m->meta, t->use, t->other_data, true,
                           true);
}

static ls_status_t choose_data(ls_trainer_t *t, ls_making_t *m) {
  (void)m;
  return ls_trainer_choose_data(t);
}

static ls_status_t open_int8(ls_trainer_t *t, ls_making_t *m) {
  static const ls_int8_t measure = {0};
  if (m->options->ranges) t->own_config.model.int8 = &measure;
  return m->options->int8 ? ls_trainer_open_int8(t, m->options->int8, &m->int8) : LS_OK;
}

static void close_saves(ls_trainer_t *t) {
  ls_beside_destroy(t);
}

static ls_status_t give_values(ls_trainer_t *t, ls_making_t *m) {
  return m->meta ? ls_trainer_load(t, m->ckpt) : ls_engine_fill(&t->engine, false);
}

static ls_status_t take_init(ls_trainer_t *t, ls_making_t *m) {
  if (!m->options->init) return LS_OK;
  ls_status_t status =
      m->ckpt ? ls_train_compare_names(t->ctx, ls_ckpt_path(m->ckpt), ls_ckpt_meta(m->ckpt), t->dataset)
              : LS_OK;
  status = ls_comm_agree(t->world->comm, "comparing names", status);
  return status == LS_OK ? ls_trainer_load_weights(t, m->ckpt) : status;
}

static ls_status_t take_weights(ls_trainer_t *t, ls_making_t *m) {
  if (m->int8) return ls_trainer_take_int8(t, m->int8);
  return !m->meta && !m->options->init && t->config->model.weights ? ls_trainer_take_weights(t) : LS_OK;
}

static ls_status_t begin_mean(ls_trainer_t *t, ls_making_t *m) {
  return m->meta ? LS_OK : ls_engine_begin_mean(&t->engine);
}

typedef enum {
  LOCAL,     /* no other rank waits for it */
  AGREED,    /* local; then the ranks agree on how it went */
  COLLECTIVE /* communicates, and ends alike on all ranks */
} kind_t;

/* The order of the rows is the order of the work. A comment says why a row cannot stand elsewhere. `undo` also releases
 * what a failed stage has made in part; NULL: nothing to release. */
static const struct {
  const char *name;
  kind_t kind;
  ls_status_t (*make)(ls_trainer_t *t, ls_making_t *m);
  void (*undo)(ls_trainer_t *t);
} stages[] = {
    {"reading the options", LOCAL, check_options, NULL},
    {"checking the world", LOCAL, check_world, NULL},
    /* Stages below communicate as the configuration says, so the configurations have to be equal. */
    {"comparing the ranks", COLLECTIVE, compare_ranks, NULL},
    /* Two runs in one directory end here, before either of them writes to it. */
    {"locking the checkpoint directory", COLLECTIVE, lock, unlock},
    /* They show the making of the trainer, and watch it until the device is closed, which may hang. */
    {"opening the observers", COLLECTIVE, open_observers, ls_observers_close},
    {"opening the device", AGREED, open_device, close_device},
    {"connecting the devices", AGREED, connect_devices, NULL},
    /* The state table of the engine says which tensors a checkpoint must have. The data follow the checkpoint, which
     * names columns, classes, normalisation and split. The length of the run follows from the data. */
    {"opening the checkpoint", COLLECTIVE, ls_making_checkpoint, NULL},
    {"opening the data", COLLECTIVE, ls_making_data, close_data},
    {"planning the run", AGREED, ls_making_run, NULL},
    /* Nothing refuses the checkpoint any more, so the differences that are allowed are worth a message. */
    {"comparing the checkpoint", LOCAL, say_differences, NULL},
    /* Both change what is lowered. */
    {"choosing where the data stay", COLLECTIVE, choose_data, NULL},
    {"opening 8-bit weights", LOCAL, open_int8, NULL},
    {"preparing the schedule", AGREED, make_programs, close_saves},
    /* The checkpoint's values or initial ones; then weights of other files in their place; last the mean of both. */
    {"filling the state", COLLECTIVE, give_values, NULL},
    {"taking the initial weights", COLLECTIVE, take_init, NULL},
    {"taking the model's weights", COLLECTIVE, take_weights, NULL},
    {"beginning the mean", LOCAL, begin_mean, NULL},
};

static ls_status_t make(ls_trainer_t *t, const ls_trainer_options_t *options) {
  ls_making_t m = {.options = options};
  ls_status_t status = LS_OK;
  while (t->stages < LS_COUNT(stages) && status == LS_OK) {
    const int i = t->stages++;
    status = stages[i].make(t, &m);
    if (stages[i].kind == AGREED) status = ls_comm_agree(t->world->comm, stages[i].name, status);
  }
  ls_ckpt_close(m.ckpt);
  ls_ckpt_close(m.int8);
  json_decref(m.meta);
  return status;
}

ls_status_t ls_trainer_create(ls_ctx_t *ctx, ls_world_t *world, const ls_config_t *config,
                              const ls_trainer_options_t *options, ls_trainer_t **out) {
  static const ls_trainer_options_t defaults = {0};
  if (!options) options = &defaults;
  ls_trainer_t *t = ls_alloc(ctx, sizeof *t);
  if (!t) return LS_ERR_MEMORY;
  t->ctx = ctx;
  t->world = world;
  t->training = !options->no_training;
  t->use = options->checkpoint ? LS_USE_MODEL : LS_USE_RESUME;
  t->other_data = options->allow_data_change;
  t->classes = ls_model_loss(&config->model)->classes;
  t->inputs = ls_model_inputs(&config->model);
  t->outputs = ls_model_outputs(&config->model);
  take_config(t, config);
  begin(t);
  ls_status_t status = make(t, options);
  if (status == LS_OK) {
    *out = t;
    return LS_OK;
  }
  ls_trainer_failed(t, status);
  ls_trainer_destroy(t);
  return status;
}

const ls_engine_t *ls_trainer_engine(const ls_trainer_t *t) {
  return &t->engine;
}
const ls_input_times_t *ls_trainer_input(const ls_trainer_t *t) {
  return &t->input;
}
const ls_dataset_t *ls_trainer_data(const ls_trainer_t *t) {
  return t->dataset;
}
const char *ls_trainer_checkpoint(const ls_trainer_t *t, int64_t *step) {
  *step = t->run.step;
  return t->saver.checkpoint;
}

void ls_trainer_destroy(ls_trainer_t *t) {
  if (!t) return;
  ls_loop_drop(t);
  ls_trainer_do(t, LS_DOING_CLOSE);
  while (t->stages > 0)
    if (stages[--t->stages].undo) stages[t->stages].undo(t);
  ls_free(t->range);
  ls_free(t);
}
