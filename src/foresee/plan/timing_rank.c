/* One rank's training step on one device, run repeatedly. The learning rate is 0: the arithmetic is that of
 * training, and nothing can diverge. */
#include "plan/timing_rank.h"

#include <math.h>
#include <sched.h>
#include <string.h>

enum { STEPS_LIMIT = 1 << 24, WARMUP_STEPS = 3, STEPS_MIN = 3, SPINS_BEFORE_YIELD = 2000 };

static const int64_t device_warm_ns = 150000000;

int64_t ls_timing_deadline_ns(const ls_config_t *config) {
  return (int64_t)(1e9 * fmax(config->parallel.deadline_s, LS_COMM_DEADLINE_S));
}

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
  group->deadline_ns = comm->deadline_ns;
  *sub = group;
  return LS_OK;
}

/* Repeats LS_TIMING_NOISE numbers. */
static ls_status_t fill(ls_timing_rank_t *r, unsigned char *to, size_t size_bytes, const void *numbers,
                        size_t number_bytes) {
  const ls_stream_ops_t *stream = r->engine.backend->stream;
  const size_t most = LS_TIMING_NOISE * number_bytes;
  ls_status_t status = LS_OK;
  for (size_t at = 0; at < size_bytes && status == LS_OK; at += most)
    status =
        stream->copy(r->engine.stream, to + at, numbers, size_bytes - at < most ? size_bytes - at : most);
  return status == LS_OK ? stream->sync(r->engine.stream, r->alone.deadline_ns) : status;
}

/* Tokens and classes below `limit`. They have to differ: equal tokens all meet in one row of an embedding's gradient,
 * which one warp of a GPU adds up by itself. */
static ls_status_t fill_whole(ls_timing_rank_t *r, const ls_state_row_t *row, unsigned char *to,
                              int64_t limit) {
  const bool tokens = row->shape.dtype == LS_U16;
  const int64_t most = tokens ? 1 << 16 : INT32_MAX;
  const uint64_t count = (uint64_t)(limit < most ? limit : most);
  uint32_t *whole = ls_alloc_array(r->ctx, LS_TIMING_NOISE, sizeof *whole);
  uint16_t *small = (uint16_t *)whole;
  if (!whole) return LS_ERR_MEMORY;
  for (int i = 0; i < LS_TIMING_NOISE; i++) {
    const uint32_t number = (uint32_t)(ls_rng(1, LS_RNG_SYNTHETIC, (uint64_t)i).v[0] * count >> 32);
    if (tokens)
      small[i] = (uint16_t)number;
    else
      whole[i] = number;
  }
  ls_status_t status = fill(r, to, ls_state_row_bytes(row), whole, ls_dtype_bytes(row->shape.dtype));
  ls_free(whole);
  return status;
}

/* Features and real targets on the device are noise, as are the bytes of images. */
static ls_status_t fill_tables(ls_timing_rank_t *r) {
  const ls_engine_t *e = &r->engine;
  const ls_model_config_t *model = &r->config.model;
  ls_status_t status = LS_OK;
  for (int i = 0; i < e->table->count && status == LS_OK; i++) {
    const ls_state_row_t *row = &e->table->row[i];
    const bool features = strcmp(row->name, LS_NAME_FEATURES) == 0;
    if (row->life != LS_STATE_CONSTANT) continue;
    if (row->shape.dtype == LS_F32 || row->shape.dtype == LS_U8)
      status = fill(r, e->state->data[i], ls_state_row_bytes(row), r->noise, sizeof *r->noise);
    else
      status =
          fill_whole(r, row, e->state->data[i], features ? ls_model_ids(model) : ls_model_classes(model));
  }
  return status;
}

/* A host runs the step of a rank with a no-op communicator in place of the exchange, so that even the hand-over between
 * lanes is there; a device runs it alone in its world, which has the same tasks but the collectives. A step that is
 * reproducible, or casts for the wire, has other tasks in another world, so there the device has one too. */
ls_status_t ls_timing_rank_open(ls_timing_rank_t *r) {
  ls_engine_t *e = &r->engine;
  ls_engine_share_t share;
  r->config = *r->job->config;
  if (ls_model_ids(&r->config.model)) r->config.model.dtype = LS_U16; /* of the tokens in crew->dataset */
  r->config.parallel.backend = r->job->backend->name;
  r->config.parallel.threads = r->job->threads;
  bool whole = r->job->backend->host_processors || r->config.parallel.reproducible || r->config.parallel.wire;
  noop(r->ctx, whole ? r->rank : 0, whole ? r->job->ranks : 1, false, &r->alone);
  r->alone.deadline_ns = ls_timing_deadline_ns(&r->config);
  ls_engine_share(&r->config, r->rank, r->job->ranks, &share);
  const ls_engine_options_t options = {.config = &r->config,
                                       .comm = &r->alone,
                                       .exchange = r->exchange,
                                       .share = &share,
                                       .data_rows = r->data_rows,
                                       .training = true};
  ls_status_t status = ls_engine_open(r->ctx, &options, e);
  if (status == LS_OK) status = ls_engine_lower(e, LS_STEP_TRAIN, share.rows);
  if (status == LS_OK) status = ls_engine_allocate(e, false);
  if (status == LS_OK) status = ls_engine_fill(e, false);
  return status == LS_OK ? fill_tables(r) : status;
}

void ls_timing_rank_close(ls_timing_rank_t *r) {
  ls_engine_close(&r->engine);
  ls_free(r->period_ns);
  ls_free(r->step_ns);
  ls_free(r->task_ns);
  r->period_ns = r->step_ns = r->task_ns = NULL;
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

/* What a member took that the step did not run is what it took before. The period becomes known when the next step
 * begins; until then it is the step's own time. */
static void keep(ls_timing_rank_t *r, double step_ns) {
  if (!r->task_ns) return;
  const ls_program_t *p = &r->engine.step[LS_STEP_TRAIN].program;
  const ls_step_times_t *took = r->engine.took;
  for (int i = 0; i < p->count && took; i++) {
    int runs = ls_program_runs(p, r->engine.finished - 1, i);
    for (int t = ls_program_task(p, i, 0); t < ls_program_task(p, i + 1, 0); t++) {
      double *ns = &r->task_ns[t * LS_TIMING_STEPS + r->steps];
      if (runs > 0)
        *ns = (double)(took->task[t].end_ns - took->task[t].start_ns) / runs;
      else if (r->steps > 0)
        *ns = ns[-1];
    }
  }
  r->period_ns[r->steps] = step_ns;
  r->step_ns[r->steps++] = step_ns;
}

static void keep_period(ls_timing_rank_t *r, double period_ns) {
  if (r->task_ns && r->steps > 0) r->period_ns[r->steps - 1] = period_ns;
}

/* When rank 0 has measured enough. One slow step warms everything up; a device's clock rises only after a
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

/* Devices are kept one step ahead of the host, which then sees whole steps from one end to the next; ranks
 * that step together measure from where they meet. */
static ls_status_t step(ls_timing_rank_t *r) {
  ls_engine_t *e = &r->engine;
  stopping_t stopping = {.window_ns = r->job->window_ns,
                         .begin_ns = ls_clock_ns(),
                         .warm_ns = e->lag ? device_warm_ns : 0,
                         .warmup = WARMUP_STEPS};
  int64_t last_ns = stopping.begin_ns, begun_ns = last_ns;
  bool stop = false;
  ls_status_t status = LS_OK;
  r->steps = 0;
  while (status == LS_OK && !stop) {
    if (!meet(r->pace)) break;
    if (r->pace) {
      int64_t now_ns = ls_clock_ns();
      keep_period(r, (double)(now_ns - begun_ns));
      last_ns = begun_ns = now_ns;
    }
    status = ls_engine_launch(e);
    while (e->launched - e->finished > e->lag && status == LS_OK) {
      int64_t finished = e->finished;
      status = ls_engine_wait(e, NULL);
      int64_t now_ns = e->done_ns;
      if (status == LS_OK && finished >= stopping.warmup) keep(r, (double)(now_ns - last_ns));
      last_ns = now_ns;
      if (r->task_ns) stop = enough(r, &stopping, finished, now_ns);
    }
    if (r->pace && stop) atomic_store(&r->pace->stop, true);
  }
  while (e->launched > e->finished && status == LS_OK)
    status = ls_engine_wait(e, NULL);
  return status;
}

ls_status_t ls_timing_rank_measure(ls_timing_rank_t *r, bool trace) {
  const ls_engine_steps_t steps = {.dataset = r->dataset,
                                   .seed = 1,
                                   .total_samples = r->config.train.batch * STEPS_LIMIT,
                                   .total_steps = STEPS_LIMIT};
  ls_status_t status = ls_engine_bind(&r->engine, trace ? LS_TIMED_TASKS : LS_TIMED_NOTHING);
  if (status == LS_OK) status = ls_engine_start(&r->engine, &steps);
  if (status == LS_OK) status = step(r);
  if (r->pace && status != LS_OK) atomic_store(&r->pace->stop, true);
  ls_engine_stop(&r->engine);
  ls_engine_unbind(&r->engine);
  return status;
}
