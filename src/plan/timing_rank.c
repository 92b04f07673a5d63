/* One rank's training step on one device, again and again. The learning rate is 0: the arithmetic is that of
 * training, and nothing can diverge. */
#include "plan/timing_rank.h"

#include <sched.h>

enum { STEPS_LIMIT = 1 << 24, WARMUP_STEPS = 3, STEPS_MIN = 3, SPINS_BEFORE_YIELD = 2000 };

static const int64_t device_warm_ns = 150000000;

static ls_status_t noop_enqueue(ls_stream_t *stream, ls_collective_t *c) {
  (void)stream;
  (void)c;
  return LS_OK;
}
static ls_status_t noop_run(ls_comm_t *comm, const ls_collective_t *c) {
  (void)comm;
  (void)c;
  return LS_OK;
}
static void noop_stays(ls_comm_t *comm) {
  (void)comm;
}
static void noop_destroy(ls_comm_t *comm) {
  ls_free(comm);
}
static ls_status_t noop_split(ls_comm_t *comm, const ls_split_t *split, ls_comm_t **sub);

/* A communicator whose collectives leave all data as they are. */
static void noop(ls_ctx_t *ctx, int rank, int size, bool group, ls_comm_t *comm) {
  static const ls_comm_ops_t ops[] = {
      {.name = "no-op", .enqueue = noop_enqueue, .run = noop_run, .split = noop_split, .destroy = noop_stays},
      {.name = "no-op",
       .enqueue = noop_enqueue,
       .run = noop_run,
       .split = noop_split,
       .destroy = noop_destroy}};
  *comm = (ls_comm_t){.ops = &ops[group],
                      .ctx = ctx,
                      .rank = rank,
                      .size = size,
                      .local_rank = rank,
                      .local_size = size,
                      .deadline_ns = LS_COMM_DEADLINE_S * INT64_C(1000000000)};
}

static ls_status_t noop_split(ls_comm_t *comm, const ls_split_t *split, ls_comm_t **sub) {
  if (!split->size) return LS_OK;
  ls_comm_t *group = ls_alloc(comm->ctx, sizeof *group);
  if (!group) return LS_ERR_MEMORY;
  noop(comm->ctx, split->rank, split->size, true, group);
  *sub = group;
  return LS_OK;
}

/* A host runs the step of a rank with a no-op communicator in place of the exchange, so that even the hand-over between
 * lanes is there; a device runs it alone in its world, which has the same tasks but the collectives. A
 * reproducible step has other tasks in another world, so there the device has one too. */
static ls_status_t lower(ls_timing_rank_t *r) {
  bool host = r->job->backend->host_memory, whole = host || r->config.parallel.reproducible;
  int world = whole ? r->job->ranks : 1, rank = whole ? r->rank : 0;
  ls_train_share(&r->config, r->rank, r->job->ranks, &r->share);
  noop(r->ctx, rank, world, false, &r->comm);
  return ls_trainer_lower(r->ctx, &r->config, rank, world, !host, r->job->backend, true, r->share.rows,
                          r->data_rows, &r->graph, &r->table, &r->optim, &r->schedule);
}

static ls_status_t fill_noise(ls_timing_rank_t *r, float *to, int64_t count) {
  ls_status_t status = LS_OK;
  for (int64_t at = 0; at < count && status == LS_OK; at += LS_TIMING_NOISE) {
    int64_t n = count - at < LS_TIMING_NOISE ? count - at : LS_TIMING_NOISE;
    status = r->job->backend->stream->copy(r->stream, to + at, r->noise, (size_t)n * sizeof(float));
  }
  return status;
}

/* The state as training begins it. Features and real targets are noise; classes stay 0, as memory is when it
 * is new: any class takes as long. */
static ls_status_t make_state(ls_timing_rank_t *r) {
  ls_status_t status = ls_state_create(r->ctx, r->table, r->device, false, &r->state);
  if (status == LS_OK)
    status = ls_state_fill(r->state, r->stream, (uint64_t)r->config.train.seed, r->comm.deadline_ns);
  for (int i = 0; i < r->table->count && status == LS_OK; i++) {
    const ls_state_row_t *row = &r->table->row[i];
    if (row->life == LS_STATE_CONSTANT && row->shape.dtype == LS_F32)
      status = fill_noise(r, r->state->data[i], ls_state_row_count(row));
  }
  return status == LS_OK ? r->job->backend->stream->sync(r->stream, r->comm.deadline_ns) : status;
}

ls_status_t ls_timing_rank_open(ls_timing_rank_t *r) {
  ls_device_options_t options = {.threads = r->job->threads,
                                 .reproducible = r->job->config->parallel.reproducible,
                                 .math = (ls_math_t)r->job->config->train.precision};
  r->config = *r->job->config;
  ls_status_t status = r->job->backend->device->open(r->ctx, &options, &r->device);
  if (status == LS_OK) status = r->job->backend->stream->create(r->device, LS_STREAM_INLINE, &r->stream);
  if (status == LS_OK) status = lower(r);
  return status == LS_OK ? make_state(r) : status;
}

void ls_timing_rank_close(ls_timing_rank_t *r) {
  ls_timing_rank_stop(r);
  if (r->device) {
    const ls_backend_t *backend = r->job->backend;
    ls_state_destroy(r->state);
    if (r->stream) backend->stream->destroy(r->stream);
    backend->device->close(r->device);
  }
  ls_state_table_release(r->table);
  ls_graph_destroy(r->graph);
  ls_free(r->period_ns);
  ls_free(r->step_ns);
  ls_free(r->task_ns);
}

static ls_status_t start_loader(ls_timing_rank_t *r) {
  const ls_model_config_t *model = &r->config.model;
  int64_t row_bytes = ls_train_samples_bytes(1, ls_model_inputs(model), ls_model_outputs(model));
  int threads =
      ls_train_loader_threads(r->job->backend, r->job->threads, r->share.count, row_bytes, r->data_rows > 0);
  ls_loader_spec_t plan = {.part = LS_PART_TRAIN,
                           .seed = 1,
                           .shuffle = true,
                           .global_batch = r->config.train.batch,
                           .first = r->share.first,
                           .count = r->share.count,
                           .rows = r->share.rows,
                           .accumulate = r->share.accumulate,
                           .total_samples = r->config.train.batch * STEPS_LIMIT,
                           .total_steps = STEPS_LIMIT,
                           .threads = threads};
  ls_batch_t slots[LS_TRAIN_SLOTS];
  for (int i = 0; i < LS_TRAIN_SLOTS; i++)
    slots[i] = ls_train_batch(r->run, i);
  return ls_loader_create(r->ctx, r->dataset, &plan, 0, LS_TRAIN_SLOTS, slots, &r->loader);
}

ls_status_t ls_timing_rank_start(ls_timing_rank_t *r, bool trace) {
  ls_run_options_t options = {.trace = trace};
  ls_comm_t *comm = r->exchange ? r->exchange : &r->comm;
  ls_status_t status = ls_run_create(r->ctx, r->schedule, r->device, comm, r->state, &options, &r->run);
  return status == LS_OK ? start_loader(r) : status;
}

void ls_timing_rank_stop(ls_timing_rank_t *r) {
  ls_loader_destroy(r->loader);
  ls_run_destroy(r->run);
  r->loader = NULL;
  r->run = NULL;
}

/* All ranks meet. False: the pace has stopped. */
static bool meet(ls_pace_t *pace) {
  if (!pace) return true;
  int round = atomic_load(&pace->round);
  if (atomic_fetch_add(&pace->arrived, 1) + 1 == pace->size) {
    atomic_store(&pace->arrived, 0);
    atomic_store(&pace->round, round + 1);
  }
  for (int spins = 0; atomic_load(&pace->round) == round; spins++) {
    if (atomic_load(&pace->stop)) return false;
    if (spins > SPINS_BEFORE_YIELD) sched_yield();
  }
  return !atomic_load(&pace->stop);
}

/* The period becomes known when the next step begins; until then it is the step's own time. */
static void keep(ls_timing_rank_t *r, double step_ns) {
  if (!r->task_ns) return;
  const ls_task_time_t *times = ls_run_times(r->run);
  for (int t = 0; times && t < r->schedule->task_count; t++)
    r->task_ns[t * LS_TIMING_STEPS + r->steps] = (double)(times[t].end_ns - times[t].start_ns);
  r->period_ns[r->steps] = step_ns;
  r->step_ns[r->steps++] = step_ns;
}

static void keep_period(ls_timing_rank_t *r, double period_ns) {
  if (r->task_ns && r->steps > 0) r->period_ns[r->steps - 1] = period_ns;
}

/* When rank 0 has seen enough. A slow step warms all there is at once; a device's clock rises only after a
 * while. */
typedef struct {
  int64_t window_ns, begin_ns, warm_ns, until_ns, warmup;
} stopping_t;

static bool enough(ls_timing_rank_t *r, stopping_t *w, int64_t step, int64_t now_ns) {
  if (step == 0 && now_ns - w->begin_ns > w->window_ns / 2) w->warmup = 1;
  if (step < w->warmup || now_ns < w->begin_ns + w->warm_ns) {
    r->steps = 0;
    w->until_ns = now_ns + w->window_ns;
    return false;
  }
  if (r->steps >= LS_TIMING_STEPS) return true;
  if (now_ns > w->until_ns + 2 * w->window_ns) return r->steps > 0;
  return r->steps >= STEPS_MIN && now_ns > w->until_ns;
}

/* As the training loop steps. Devices are kept one step ahead of the host, which then sees whole steps from
 * one end to the next; ranks that step together measure from where they meet. */
ls_status_t ls_timing_rank_measure(ls_timing_rank_t *r) {
  int lag = r->job->backend->host_memory ? 0 : 1;
  stopping_t stopping = {.window_ns = r->job->window_ns,
                         .begin_ns = ls_clock_ns(),
                         .warm_ns = lag ? device_warm_ns : 0,
                         .warmup = WARMUP_STEPS};
  int64_t last_ns = stopping.begin_ns, begun_ns = last_ns, finished = 0;
  bool stop = false;
  ls_status_t status = ls_loader_acquire(r->loader, 0);
  if (status == LS_OK) status = ls_run_prime(r->run, 0);
  r->steps = 0;
  for (int64_t step = 0; status == LS_OK && !stop; step++) {
    if (!meet(r->pace)) break;
    if (r->pace) {
      int64_t now_ns = ls_clock_ns();
      keep_period(r, (double)(now_ns - begun_ns));
      last_ns = begun_ns = now_ns;
    }
    status = ls_loader_acquire(r->loader, step + lag);
    if (status == LS_OK) status = ls_run_launch(r->run, (int)(step % LS_TRAIN_SLOTS));
    for (; finished < step + 1 - lag && status == LS_OK; finished++) {
      status = ls_run_wait(r->run, (int)(finished % LS_TRAIN_SLOTS), NULL);
      ls_loader_release(r->loader, finished);
      int64_t now_ns = ls_clock_ns();
      if (status == LS_OK && finished >= stopping.warmup) keep(r, (double)(now_ns - last_ns));
      last_ns = now_ns;
      if (r->task_ns) stop = enough(r, &stopping, finished, now_ns);
    }
    if (r->pace && (stop || status != LS_OK)) atomic_store(&r->pace->stop, true);
  }
  if (lag > 0 && status == LS_OK) status = ls_run_wait(r->run, (int)(finished % LS_TRAIN_SLOTS), NULL);
  return status;
}
