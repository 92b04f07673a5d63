/* Runs one rank's step on one device for a while and takes the medians of its tasks. The data are random, the
 * learning rate is 0: the arithmetic is that of training, and nothing can diverge. */
#include "plan/timing.h"

#include "stat/stat.h"

#include <sched.h>
#include <string.h>

enum {
  WARMUP_STEPS = 3,
  STEPS_MAX = 2000,
  STEPS_MIN = 3,
  NOISE_COUNT = 1 << 16,
  DATA_BYTES_MAX = 64 << 20, /* of features; what does not fit into a cache is enough */
  DATA_ROWS_DEFAULT = 10000,
};

static ls_status_t ghost_enqueue(ls_comm_t *comm, ls_stream_t *stream, const ls_collective_t *c) {
  (void)comm;
  (void)stream;
  (void)c;
  return LS_OK;
}
static ls_status_t ghost_run(ls_comm_t *comm, const ls_collective_t *c) {
  (void)comm;
  (void)c;
  return LS_OK;
}
static void ghost_destroy(ls_comm_t *comm) {
  (void)comm;
}

void ls_ghost_comm(ls_ctx_t *ctx, int size, ls_comm_t *comm) {
  static const ls_comm_ops_t ops = {"ghost", ghost_enqueue, ghost_run, NULL, ghost_destroy};
  *comm = (ls_comm_t){.ops = &ops,
                      .ctx = ctx,
                      .size = size,
                      .local_size = 1,
                      .deadline_ns = LS_COMM_DEADLINE_S * INT64_C(1000000000)};
}

/* Everything that is open while a step is timed. */
typedef struct {
  ls_ctx_t *ctx;
  const ls_timing_job_t *job;
  ls_config_t config; /* shallow copy */
  ls_comm_t comm;
  ls_device_t *device;
  ls_stream_t *stream;
  ls_graph_t *graph;
  ls_layout_t *layout;
  ls_optim_plan_t optim;
  ls_schedule_t *schedule;
  ls_state_t state;
  ls_dataset_t *dataset;
  ls_run_t *run;
  ls_loader_t *loader;
  float *noise; /* NOISE_COUNT values around 0 */
  int64_t first, count, rows;
  double *task_ns; /* (task, STEPS_MAX) */
  double *step_ns; /* (STEPS_MAX) */
  int64_t steps;
} bench_t;

static ls_status_t make_noise(bench_t *b) {
  b->noise = ls_alloc_array(b->ctx, NOISE_COUNT, sizeof *b->noise);
  if (!b->noise) return LS_ERR_MEMORY;
  for (int i = 0; i < NOISE_COUNT; i += 4) {
    ls_rng4_t words = ls_rng(1, LS_RNG_SYNTHETIC, (uint64_t)i);
    for (int k = 0; k < 4; k++)
      b->noise[i + k] = ls_rng_unit(words.v[k]) - 0.5f;
  }
  return LS_OK;
}

static int64_t data_rows(const bench_t *b) {
  const ls_data_config_t *data = &b->config.data;
  int64_t inputs = ls_model_inputs(&b->config.model), batch = b->config.train.batch;
  int64_t rows = data->kind == LS_DATA_SYNTHETIC ? data->samples : DATA_ROWS_DEFAULT;
  int64_t most = DATA_BYTES_MAX / ((int64_t)sizeof(float) * inputs);
  if (rows > most) rows = most;
  return rows < batch ? batch : rows;
}

static ls_status_t open_data(bench_t *b) {
  const ls_model_config_t *model = &b->config.model;
  bool classes = model->loss == LS_LOSS_CROSS_ENTROPY;
  int64_t inputs = ls_model_inputs(model), outputs = ls_model_outputs(model), rows = data_rows(b);
  ls_data_memory_t memory = {.rows = rows, .inputs = inputs, .outputs = classes ? 0 : outputs};
  ls_data_config_t config = {.kind = LS_DATA_MEMORY};
  ls_data_want_t want = {inputs, outputs, classes};
  ls_status_t status = LS_ERR_MEMORY;
  float *features = ls_alloc_array(b->ctx, (size_t)rows, (size_t)inputs * sizeof *features);
  float *targets = classes ? NULL : ls_alloc_array(b->ctx, (size_t)rows, (size_t)outputs * sizeof *targets);
  int32_t *labels = classes ? ls_alloc_array(b->ctx, (size_t)rows, sizeof *labels) : NULL;
  if (features && (targets || labels)) {
    for (int64_t i = 0; i < rows * inputs; i++)
      features[i] = 4 * b->noise[(i + i / NOISE_COUNT) % NOISE_COUNT];
    for (int64_t i = 0; targets && i < rows * outputs; i++)
      targets[i] = b->noise[i % NOISE_COUNT];
    for (int64_t i = 0; labels && i < rows; i++)
      labels[i] = (int32_t)(i % outputs);
    memory.features = features;
    memory.targets = targets;
    memory.classes = labels;
    status = ls_dataset_open(b->ctx, &config, &memory, &want, 1, NULL, &b->dataset);
  }
  ls_free(labels);
  ls_free(targets);
  ls_free(features);
  return status;
}

/* The step of one rank. A host runs it with a ghost in place of the other ranks, so that even the hand-over
 * between lanes is there; a device runs it alone in its world, which has the same tasks but the collectives.
 */
static ls_status_t lower(bench_t *b) {
  int world = b->job->backend->host_memory ? b->job->ranks : 1;
  ls_share(b->config.train.batch, 0, b->job->ranks, &b->first, &b->count);
  b->rows = ls_train_micro_rows(&b->config, b->count);
  ls_ghost_comm(b->ctx, world, &b->comm);
  return ls_trainer_lower(b->ctx, &b->config, 0, world, !b->job->backend->host_memory, true, b->rows,
                          &b->graph, &b->layout, &b->optim, &b->schedule);
}

static ls_status_t allocate_state(bench_t *b) {
  const ls_backend_t *backend = b->job->backend;
  size_t total_bytes = (size_t)b->layout->total * sizeof(float);
  size_t optim_bytes = (size_t)(b->optim.slot_count * b->layout->total + LS_STAT_COUNT) * sizeof(float);
  ls_status_t status =
      backend->buffer->alloc(b->device, LS_MEM_DEVICE, total_bytes, (void **)&b->state.param);
  if (status == LS_OK)
    status = backend->buffer->alloc(b->device, LS_MEM_DEVICE, total_bytes, (void **)&b->state.grad);
  if (status == LS_OK)
    status = backend->buffer->alloc(b->device, LS_MEM_DEVICE, optim_bytes, (void **)&b->state.optim);
  for (int64_t at = 0; at < b->layout->total && status == LS_OK; at += NOISE_COUNT) {
    int64_t n = b->layout->total - at < NOISE_COUNT ? b->layout->total - at : NOISE_COUNT;
    status = backend->stream->copy(b->stream, b->state.param + at, b->noise, (size_t)n * sizeof(float));
  }
  if (status == LS_OK) status = backend->stream->sync(b->stream, b->comm.deadline_ns);
  return status;
}

static ls_status_t start_loader(bench_t *b) {
  bool host = b->job->backend->host_memory;
  ls_loader_plan_t plan = {.part = LS_PART_TRAIN,
                           .seed = 1,
                           .shuffle = true,
                           .global_batch = b->config.train.batch,
                           .first = b->first,
                           .count = b->count,
                           .rows = b->rows,
                           .accumulate = (int)b->config.train.accumulate,
                           .total_samples = INT64_MAX / 4,
                           .total_steps = STEPS_MAX + WARMUP_STEPS + LS_TRAIN_SLOTS,
                           .threads = host                  ? 1
                                      : b->job->threads < 8 ? b->job->threads
                                                            : 8};
  ls_batch_t slots[LS_TRAIN_SLOTS];
  for (int i = 0; i < LS_TRAIN_SLOTS; i++)
    slots[i] = (ls_batch_t){.x = ls_run_input(b->run, LS_NAME_X, i),
                            .target = ls_run_input(b->run, LS_NAME_TARGET, i),
                            .weight = ls_run_input(b->run, LS_NAME_WEIGHT, i),
                            .step = ls_run_input(b->run, LS_NAME_STEP, i)};
  return ls_loader_create(b->ctx, b->dataset, &plan, 0, LS_TRAIN_SLOTS, slots, &b->loader);
}

static ls_status_t start_run(bench_t *b, bool trace) {
  ls_run_options_t options = {.trace = trace};
  ls_status_t status = ls_run_create(b->ctx, b->schedule, b->device, &b->comm, &b->state, &options, &b->run);
  if (status == LS_OK) status = start_loader(b);
  return status;
}

static void stop_run(bench_t *b) {
  ls_loader_destroy(b->loader);
  ls_run_destroy(b->run);
  b->loader = NULL;
  b->run = NULL;
}

static void keep(bench_t *b, double step_ns) {
  const ls_task_time_t *times = ls_run_times(b->run);
  for (int t = 0; times && t < b->schedule->task_count; t++)
    b->task_ns[t * STEPS_MAX + b->steps] = (double)(times[t].end_ns - times[t].start_ns);
  b->step_ns[b->steps++] = step_ns;
}

/* Step after step as the training loop does it, until the window is full. */
static ls_status_t measure(bench_t *b) {
  int lag = b->job->backend->host_memory ? 0 : 1;
  int64_t begin = ls_clock_ns(), last = begin, window = begin + b->job->window_ns, finished = 0;
  int64_t warmup = WARMUP_STEPS;
  ls_loader_acquire(b->loader, 0);
  ls_status_t status = ls_run_prime(b->run, 0);
  b->steps = 0;
  for (int64_t step = 0; status == LS_OK && b->steps < STEPS_MAX; step++) {
    ls_loader_acquire(b->loader, step + lag);
    status = ls_run_launch(b->run, (int)(step % LS_TRAIN_SLOTS));
    for (; finished < step + 1 - lag && status == LS_OK; finished++) {
      status = ls_run_wait(b->run, (int)(finished % LS_TRAIN_SLOTS), NULL);
      ls_loader_release(b->loader, finished);
      int64_t now = ls_clock_ns();
      if (status == LS_OK && finished >= warmup) keep(b, (double)(now - last));
      if (finished == 0 && now - begin > b->job->window_ns / 2)
        warmup = 1; /* a slow step warms all there is */
      if (finished + 1 == warmup) window = now + b->job->window_ns;
      last = now;
    }
    if (b->steps >= STEPS_MIN && last > window) break;
    if (b->steps >= 1 && last > window + 2 * b->job->window_ns) break;
  }
  for (; finished > 0 && lag > 0 && status == LS_OK; lag--)
    status = ls_run_wait(b->run, (int)(finished % LS_TRAIN_SLOTS), NULL);
  return status;
}

static ls_time_t summary(double *x, int64_t n) {
  ls_stat_sort(x, n);
  return (ls_time_t){ls_stat_quantile(x, n, 0.5), ls_stat_quantile(x, n, 0.05), ls_stat_quantile(x, n, 0.95)};
}

static ls_status_t measure_all(bench_t *b, ls_timing_t *timing) {
  bool host = b->job->backend->host_memory;
  size_t tasks = (size_t)b->schedule->task_count;
  b->task_ns = ls_alloc_array(b->ctx, tasks * STEPS_MAX, sizeof *b->task_ns);
  b->step_ns = ls_alloc_array(b->ctx, STEPS_MAX, sizeof *b->step_ns);
  timing->task = ls_arena_array(&timing->arena, tasks, sizeof *timing->task);
  if (!b->task_ns || !b->step_ns || !timing->task) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  if (!host) { /* tasks are timed one by one; the whole as it trains, captured, below */
    status = start_run(b, true);
    if (status == LS_OK) status = measure(b);
    stop_run(b);
    for (size_t t = 0; t < tasks && status == LS_OK; t++)
      timing->task[t] = summary(b->task_ns + t * STEPS_MAX, b->steps);
  }
  if (status == LS_OK) status = start_run(b, false);
  if (status == LS_OK) status = measure(b);
  stop_run(b);
  for (size_t t = 0; t < tasks && status == LS_OK && host; t++)
    if (b->schedule->tasks[t].kind != LS_TASK_COLLECTIVE)
      timing->task[t] = summary(b->task_ns + t * STEPS_MAX, b->steps);
  if (status == LS_OK) timing->step = summary(b->step_ns, b->steps);
  timing->steps = b->steps;
  timing->rows = b->rows;
  return status;
}

/* Only this thread, and those that it makes from now on, are kept to the first `cpus` of its processors. */
static void narrow(int cpus, cpu_set_t *before) {
  CPU_ZERO(before);
  if (cpus <= 0 || sched_getaffinity(0, sizeof *before, before) != 0 || CPU_COUNT(before) <= cpus) {
    CPU_ZERO(before);
    return;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = 0, n = 0; cpu < CPU_SETSIZE && n < cpus; cpu++)
    if (CPU_ISSET(cpu, before)) {
      CPU_SET(cpu, &set);
      n++;
    }
  if (sched_setaffinity(0, sizeof set, &set) != 0) CPU_ZERO(before);
}

static void widen(const cpu_set_t *before) {
  if (CPU_COUNT(before) > 0) sched_setaffinity(0, sizeof *before, before);
}

static void release(bench_t *b) {
  stop_run(b);
  if (b->device) {
    const ls_backend_t *backend = b->job->backend;
    backend->buffer->free(b->device, LS_MEM_DEVICE, b->state.optim);
    backend->buffer->free(b->device, LS_MEM_DEVICE, b->state.grad);
    backend->buffer->free(b->device, LS_MEM_DEVICE, b->state.param);
    if (b->stream) backend->stream->destroy(b->stream);
    backend->device->close(b->device);
  }
  ls_dataset_close(b->dataset);
  ls_layout_destroy(b->layout);
  ls_graph_destroy(b->graph);
  ls_free(b->step_ns);
  ls_free(b->task_ns);
  ls_free(b->noise);
}

ls_status_t ls_timing_run(ls_ctx_t *ctx, const ls_timing_job_t *job, ls_timing_t *out) {
  bench_t b = {.ctx = ctx, .job = job, .config = *job->config};
  ls_timing_t timing = {0};
  cpu_set_t before;
  ls_arena_init(&timing.arena, ctx);
  narrow(job->cpus, &before);
  ls_device_options_t options = {.threads = job->threads};
  ls_status_t status = make_noise(&b);
  if (status == LS_OK) status = job->backend->device->open(ctx, &options, &b.device);
  if (status == LS_OK) status = job->backend->stream->create(b.device, LS_STREAM_INLINE, &b.stream);
  if (status == LS_OK) status = lower(&b);
  if (status == LS_OK) status = open_data(&b);
  if (status == LS_OK) status = allocate_state(&b);
  if (status == LS_OK) status = measure_all(&b, &timing);
  release(&b);
  widen(&before);
  timing.schedule = b.schedule;
  if (status != LS_OK) {
    ls_timing_release(&timing);
    return status;
  }
  *out = timing;
  return LS_OK;
}

void ls_timing_release(ls_timing_t *timing) {
  ls_schedule_destroy(timing->schedule);
  ls_arena_release(&timing->arena);
  memset(timing, 0, sizeof *timing);
}
