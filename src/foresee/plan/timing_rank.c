/* One rank's training step on one device, run repeatedly. The learning rate is 0: the arithmetic is that of
 * training, and nothing can diverge. */
#include "plan/timing_rank.h"

#include <math.h>
#include <string.h>

enum { STEPS_LIMIT = 1 << 24, STEPS_MIN = 3, PART_TO_WARM = 16 };

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
  ls_engine_share(ls_config_batching(&r->config), r->rank, r->job->ranks, &share);
  ls_engine_options_t options = ls_config_engine(&r->config);
  options.comm = &r->alone;
  options.exchange = r->exchange;
  options.share = &share;
  options.data_rows = r->data_rows;
  options.training = true;
  ls_status_t status = ls_engine_open(r->ctx, &options, e);
  if (status == LS_OK) status = ls_engine_lower(e, LS_STEP_TRAIN, share.rows);
  if (status == LS_OK && r->job->eval_rows) status = ls_engine_lower(e, LS_STEP_EVALUATE, r->job->eval_rows);
  if (status == LS_OK) status = ls_engine_allocate(e, false);
  if (status == LS_OK) status = ls_engine_fill(e, false);
  return status == LS_OK ? fill_tables(r) : status;
}

void ls_timing_rank_close(ls_timing_rank_t *r) {
  ls_engine_close(&r->engine);
  ls_free(r->task_ns);
  r->task_ns = NULL;
}

/* A member that the step did not run keeps its time from the step before. */
static void note_tasks(ls_timing_rank_t *r) {
  const ls_program_t *p = &r->engine.step[LS_STEP_TRAIN].program;
  const ls_step_times_t *took = r->engine.took;
  for (int i = 0; i < p->count && took; i++) {
    const int runs = ls_program_runs(p, r->engine.finished - 1, i);
    for (int t = ls_program_task(p, i, 0); t < ls_program_task(p, i + 1, 0); t++) {
      double *ns = &r->task_ns[t * LS_TIMING_STEPS + r->kept];
      if (runs > 0)
        *ns = (double)(took->task[t].end_ns - took->task[t].start_ns) / runs;
      else if (*ns == 0 && r->kept > 0)
        *ns = ns[-1];
    }
  }
}

/* The newest step has ended. One of `every` periods of the program is kept. */
static void note(ls_timing_rank_t *r, int64_t every) {
  const int64_t ns = r->engine.done_ns - r->last_ns, steps = r->engine.finished,
                period = r->engine.step[LS_STEP_TRAIN].program.period;
  r->last_ns = r->engine.done_ns;
  if (!r->block) return;
  r->period_ns = (steps - 1) % period == 0 ? ns : r->period_ns + ns;
  if (!r->warm) return;
  ls_timing_block_t *b = &r->block[r->blocks];
  b->steps++;
  b->ns += ns;
  if (r->task_ns && r->kept < LS_TIMING_STEPS) note_tasks(r);
  if (steps % period || steps / period % every || b->kept == LS_TIMING_KEPT) return;
  b->step_ns[b->kept++] = (double)r->period_ns / (double)period;
  r->kept++;
}

/* Devices are kept one step ahead of the host, which then sees whole steps from one end to the next. */
static ls_status_t run_block(ls_timing_rank_t *r, int64_t periods) {
  ls_engine_t *e = &r->engine;
  const int64_t every = 1 + (periods - 1) / LS_TIMING_KEPT;
  ls_status_t status = LS_OK;
  if (e->lag == 0) r->last_ns = ls_clock_ns();
  for (int64_t left = periods * e->step[LS_STEP_TRAIN].program.period; left > 0 && status == LS_OK; left--) {
    status = ls_engine_launch(e);
    while (status == LS_OK && e->launched - e->finished > e->lag) {
      status = ls_engine_wait(e, NULL);
      if (status == LS_OK) note(r, every);
    }
  }
  return status;
}

typedef struct {
  int64_t begin_ns, until_ns;
  int64_t begun_ns, periods; /* the newest block */
} window_t;

/* How many periods of steps come next; 0: rank 0 has measured enough. Blocks grow until everything is warm: pages,
 * caches, a device's clock, which rises only after a while. One slow step warms everything up. */
static int64_t next_block(ls_timing_rank_t *r, window_t *w) {
  const int64_t now_ns = ls_clock_ns(), window_ns = r->job->window_ns,
                warm_ns = r->engine.lag ? device_warm_ns : window_ns / PART_TO_WARM;
  const int64_t took_ns = w->periods > 0 ? (now_ns - w->begun_ns) / w->periods : 0;
  w->begun_ns = now_ns;
  if (!r->warm) {
    const bool several = w->periods > 1 && now_ns - w->begin_ns > warm_ns;
    if (!several && took_ns <= window_ns / 2) return w->periods = w->periods > 0 ? 2 * w->periods : 1;
    r->warm = true;
    w->until_ns = now_ns + window_ns;
  } else if (r->block[r->blocks].kept > 0) {
    r->blocks++;
  }
  if (r->blocks == LS_TIMING_BLOCKS) return 0;
  if (now_ns >= w->until_ns && r->blocks > 0 &&
      (r->kept >= STEPS_MIN || now_ns > w->until_ns + 2 * window_ns))
    return 0;
  const int64_t left_ns = (w->until_ns - now_ns) / (LS_TIMING_BLOCKS - r->blocks);
  return w->periods = left_ns > took_ns && took_ns > 0 ? left_ns / took_ns : 1;
}

static ls_status_t run_blocks(ls_timing_rank_t *r) {
  window_t w = {.begin_ns = ls_clock_ns()};
  ls_status_t status = LS_OK;
  r->last_ns = w.begin_ns;
  r->blocks = 0;
  r->kept = 0;
  r->warm = false;
  if (r->block) memset(r->block, 0, LS_TIMING_BLOCKS * sizeof *r->block);
  for (int64_t periods = 1; status == LS_OK && periods > 0;) {
    if (r->block) periods = next_block(r, &w);
    if (r->exchange) status = ls_comm_broadcast(r->exchange, "timing: go on", &periods, sizeof periods, 0);
    if (status == LS_OK && periods > 0) status = run_block(r, periods);
  }
  while (r->engine.launched > r->engine.finished && status == LS_OK)
    status = ls_engine_wait(&r->engine, NULL);
  return status;
}

ls_status_t ls_timing_rank_measure(ls_timing_rank_t *r, bool trace) {
  const ls_feed_t feed = {.dataset = r->dataset,
                          .seed = 1,
                          .total_samples = r->config.train.batch * STEPS_LIMIT,
                          .total_steps = STEPS_LIMIT};
  ls_status_t status = ls_engine_bind(&r->engine, trace ? LS_TIMED_TASKS : LS_TIMED_NOTHING);
  if (status == LS_OK) status = ls_feed_start(&r->engine, &feed);
  if (status == LS_OK) status = run_blocks(r);
  ls_engine_stop(&r->engine);
  if (status == LS_OK && r->job->eval_rows) status = ls_engine_once(&r->engine, LS_STEP_EVALUATE);
  ls_engine_unbind(&r->engine);
  return status;
}
