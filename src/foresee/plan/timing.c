/* Times a step: opens the ranks that must compute at the same time, lets them step together, and takes the
 * medians of the first one's tasks. */
#include "base/process.h"
#include "base/signals.h"
#include "comm/segment.h"
#include "plan/timing_rank.h"

#include "stat/stat.h"
#include "train/memory.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum {
  DATA_BYTES_MAX = 64 << 20, /* of features; what does not fit into a cache is enough */
  TABLE_BYTES_MAX = 1 << 30, /* the same on a device */
  DATA_ROWS_DEFAULT = 10000,
};

/* All that is open meanwhile. rank[0] is the one that is timed. */
typedef struct {
  ls_ctx_t *ctx;
  const ls_timing_job_t *job;
  float *noise;
  ls_dataset_t *dataset;
  ls_timing_rank_t rank[LS_TIMING_TOGETHER_MAX];
  pthread_t thread[LS_TIMING_TOGETHER_MAX];
  int count;
} crew_t;

static ls_status_t make_noise(crew_t *crew) {
  crew->noise = ls_alloc_array(crew->ctx, LS_TIMING_NOISE, sizeof *crew->noise);
  if (!crew->noise) return LS_ERR_MEMORY;
  for (int i = 0; i < LS_TIMING_NOISE; i += 4) {
    ls_rng4_t words = ls_rng(1, LS_RNG_SYNTHETIC, (uint64_t)i);
    for (int k = 0; k < 4; k++)
      crew->noise[i + k] = ls_rng_unit(words.v[k]) - 0.5f;
  }
  return LS_OK;
}

/* The number of samples: as in training, but no more than are enough. */
static int64_t data_rows(const ls_timing_job_t *job) {
  const ls_config_t *config = job->config;
  int64_t rows = job->data_rows > 0                       ? job->data_rows
                 : config->data.kind == LS_DATA_SYNTHETIC ? config->data.samples
                                                          : DATA_ROWS_DEFAULT;
  int64_t most_bytes = job->data_rows > 0 && !job->backend->host_memory ? TABLE_BYTES_MAX : DATA_BYTES_MAX;
  int64_t most = most_bytes / ls_model_samples_bytes(&config->model, 1);
  if (rows > most) rows = most;
  return rows < config->train.batch ? config->train.batch : rows;
}

/* Noise of the shapes and dtypes of the configured data. With tables on the device the loader asks only which row
 * comes when: then one f32 stands for each sample. */
static ls_status_t open_data(crew_t *crew) {
  const ls_model_config_t *model = &crew->job->config->model;
  bool whole = crew->job->data_rows == 0, bytes = whole && model->dtype == LS_U8;
  bool classes = whole && ls_model_loss(model)->classes;
  int64_t inputs = whole ? ls_model_inputs(model) : 1, outputs = whole ? ls_model_outputs(model) : 1;
  int64_t rows = data_rows(crew->job);
  if (whole && ls_model_ids(model)) { /* tokens cannot be noise: each is a row of an embedding */
    const ls_data_config_t tokens = {.kind = LS_DATA_SYNTHETIC, .samples = rows, .noise = 0.1};
    const ls_data_want_t need = ls_train_want(model);
    return ls_dataset_open(crew->ctx, &tokens, NULL, &need, 1, NULL, &crew->dataset);
  }
  ls_data_memory_t memory = {.rows = rows, .inputs = inputs, .outputs = classes ? 0 : outputs};
  const ls_data_config_t config = {.kind = LS_DATA_MEMORY, .normalize = bytes};
  const ls_data_want_t want = {inputs, outputs, classes};
  const float *noise = crew->noise;
  ls_status_t status = LS_ERR_MEMORY;
  ls_arena_t arena;
  ls_arena_init(&arena, crew->ctx);
  float *x = bytes ? NULL : ls_arena_array(&arena, (size_t)(rows * inputs), sizeof *x);
  uint8_t *byte = bytes ? ls_arena_array(&arena, (size_t)(rows * inputs), sizeof *byte) : NULL;
  float *target = classes ? NULL : ls_arena_array(&arena, (size_t)(rows * outputs), sizeof *target);
  int32_t *label = classes ? ls_arena_array(&arena, (size_t)rows, sizeof *label) : NULL;
  if ((x || byte) && (target || label)) {
    for (int64_t i = 0; i < rows * inputs; i++) {
      float value = noise[(i + i / LS_TIMING_NOISE) % LS_TIMING_NOISE];
      if (byte) byte[i] = (uint8_t)(255 * (value + 0.5f));
      if (x) x[i] = 4 * value;
    }
    for (int64_t i = 0; target && i < rows * outputs; i++)
      target[i] = noise[i % LS_TIMING_NOISE];
    for (int64_t i = 0; label && i < rows; i++)
      label[i] = (int32_t)(i % outputs);
    memory.features = x;
    memory.bytes = byte;
    memory.targets = target;
    memory.classes = label;
    status = ls_dataset_open(crew->ctx, &config, &memory, &want, 1, NULL, &crew->dataset);
  }
  ls_arena_release(&arena);
  return status;
}

/* Reorders x. */
static ls_time_t summary(double *x, int64_t n) {
  ls_stat_sort(x, n);
  return (ls_time_t){ls_stat_quantile(x, n, 0.5), ls_stat_quantile(x, n, 0.05), ls_stat_quantile(x, n, 0.95)};
}

static void summarise(const ls_timing_rank_t *r, bool tasks, double *work, ls_timing_t *timing) {
  const ls_program_t *p = &r->engine.step[LS_STEP_TRAIN].program;
  for (int i = 0; i < p->count && tasks; i++)
    for (int t = 0; t < p->member[i]->task_count; t++) {
      int at = ls_program_task(p, i, t);
      if (r->exchange || p->member[i]->tasks[t].kind != LS_TASK_COLLECTIVE)
        timing->task[at] = summary(r->task_ns + (size_t)at * LS_TIMING_STEPS, r->kept);
    }
  int64_t n = 0;
  for (int b = 0; b < r->blocks; n += r->block[b++].kept)
    memcpy(work + n, r->block[b].step_ns, (size_t)r->block[b].kept * sizeof *work);
  timing->step = summary(work, n);
  timing->blocks = r->blocks;
  timing->rows = r->engine.share.rows;
  timing->math = r->engine.device->math;
}

static ls_status_t make_room(ls_timing_rank_t *r, ls_timing_t *timing, double **work) {
  const ls_program_t *p = &r->engine.step[LS_STEP_TRAIN].program;
  size_t tasks = (size_t)ls_program_task(p, p->count, 0);
  r->task_ns = ls_alloc_array(r->ctx, tasks * LS_TIMING_STEPS, sizeof(double));
  timing->task = ls_arena_array(&timing->arena, tasks, sizeof *timing->task);
  timing->block = r->block = ls_arena_array(&timing->arena, LS_TIMING_BLOCKS, sizeof *r->block);
  *work = ls_arena_array(&timing->arena, LS_TIMING_STEPS, sizeof **work);
  return r->task_ns && timing->task && r->block && *work ? LS_OK : LS_ERR_MEMORY;
}

/* The rank that is timed. A host times tasks while it trains. A device times them one by one, and then the
 * whole as it trains: captured. */
static ls_status_t time_first(ls_timing_rank_t *r, ls_timing_t *timing) {
  bool host = r->job->backend->synchronous;
  double *work;
  ls_status_t status = ls_timing_rank_open(r);
  if (status == LS_OK) status = make_room(r, timing, &work);
  if (status == LS_OK) status = ls_timing_rank_measure(r, !host);
  if (status == LS_OK) summarise(r, true, work, timing);
  if (status == LS_OK && !host) status = ls_timing_rank_measure(r, false);
  if (status == LS_OK && !host) summarise(r, false, work, timing);
  return status;
}

/* A rank that failed leaves the exchange, so that nobody waits for it. */
static void leave(ls_timing_rank_t *r) {
  ls_timing_rank_close(r);
  ls_comm_destroy(r->exchange);
  r->exchange = NULL;
}

static void *run_other(void *arg) {
  ls_timing_rank_t *r = arg;
  r->status = ls_timing_rank_open(r);
  if (r->status == LS_OK) r->status = ls_timing_rank_measure(r, false);
  if (r->status != LS_OK) leave(r);
  return NULL;
}

/* True for errors that another rank's failure causes. */
static bool follows(ls_status_t status) {
  return status == LS_ERR_TIMEOUT || status == LS_ERR_COMM;
}

static int64_t whole_pages(int64_t bytes) {
  enum { PAGE_BYTES = 4096 };
  return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* The bytes that lockstep has allocated for the timing. */
static int64_t own_bytes(const crew_t *crew) {
  const ls_timing_rank_t *first = &crew->rank[0];
  const ls_program_t *program = &first->engine.step[LS_STEP_TRAIN].program,
                     *eval = &first->engine.step[LS_STEP_EVALUATE].program;
  const ls_train_data_size_t data = {.samples_bytes = 0};
  ls_train_memory_t need;
  ls_train_need(crew->job->backend, program, eval->count ? eval : NULL, &data, &need);
  int64_t shared = 0;
  for (int i = 0; i < LS_CHANNEL_COUNT && crew->count > 1; i++)
    shared += (int64_t)ls_segment_slot_bytes(ls_segment_chunk_bytes[i]);
  const int64_t times =
      ls_program_task(program, program->count, 0) * whole_pages(first->kept * sizeof(double));
  return crew->count * (need.device_bytes - need.exchange_bytes + shared) + times +
         ls_dataset_bytes(crew->dataset) + LS_TIMING_NOISE * (int64_t)sizeof *crew->noise;
}

/* All ranks together, each in a thread of its own: what they open and bind may be collective. */
static ls_status_t run_ranks(crew_t *crew, ls_timing_t *timing) {
  const ls_timing_job_t *job = crew->job;
  ls_comm_t *exchange[LS_TIMING_TOGETHER_MAX] = {NULL};
  ls_status_t status = LS_OK;
  int started = 1;
  crew->count = job->together ? job->ranks : 1;
  if (job->together)
    status = ls_comm_sim_create(crew->ctx, crew->count, ls_timing_deadline_ns(job->config), exchange);
  for (int i = 0; i < crew->count; i++)
    crew->rank[i] = (ls_timing_rank_t){.ctx = crew->ctx,
                                       .job = job,
                                       .dataset = crew->dataset,
                                       .data_rows = job->data_rows > 0 ? data_rows(job) : 0,
                                       .noise = crew->noise,
                                       .exchange = exchange[i],
                                       .rank = i};
  for (; started < crew->count && status == LS_OK; started++)
    if (ls_signals_thread(&crew->thread[started], "ls timed rank", run_other, &crew->rank[started]) != 0) {
      status =
          ls_fail(crew->ctx, LS_ERR_MEMORY, "cannot start a thread for timing %d ranks at once", crew->count);
      break;
    }
  if (status == LS_OK) status = time_first(&crew->rank[0], timing);
  if (status != LS_OK) leave(&crew->rank[0]);
  for (int i = 1; i < started; i++) {
    pthread_join(crew->thread[i], NULL);
    const ls_status_t own = crew->rank[i].status;
    if (own != LS_OK && (status == LS_OK || (follows(status) && !follows(own)))) status = own;
  }
  return status;
}

ls_status_t ls_timing_run(ls_ctx_t *ctx, const ls_timing_job_t *job, ls_timing_t *out) {
  ls_timing_t timing = {.whole = job->together || job->ranks == 1};
  const int64_t plan_bytes = ls_process_heap_bytes(); /* the profile and the plan, which a training has not */
  crew_t *crew = ls_alloc(ctx, sizeof *crew);
  if (!crew) return LS_ERR_MEMORY;
  crew->ctx = ctx;
  crew->job = job;
  ls_arena_init(&timing.arena, ctx);
  ls_status_t status = make_noise(crew);
  if (status == LS_OK) status = open_data(crew);
  const bool peak = job->backend->host_memory && ls_process_peak_reset();
  if (status == LS_OK) status = run_ranks(crew, &timing);
  if (status == LS_OK && peak) timing.process_bytes = ls_process_peak_bytes() - own_bytes(crew) - plan_bytes;
  timing.program = crew->rank[0].engine.step[LS_STEP_TRAIN].program;
  crew->rank[0].engine.step[LS_STEP_TRAIN].program.count = 0; /* it stays */
  for (int i = 0; i < crew->count; i++) {
    ls_timing_rank_close(&crew->rank[i]);
    ls_comm_destroy(crew->rank[i].exchange);
  }
  ls_dataset_close(crew->dataset);
  ls_free(crew->noise);
  ls_free(crew);
  if (status != LS_OK) {
    ls_timing_release(&timing);
    return status;
  }
  *out = timing;
  return LS_OK;
}

void ls_timing_release(ls_timing_t *timing) {
  ls_program_release(&timing->program);
  ls_arena_release(&timing->arena);
  memset(timing, 0, sizeof *timing);
}
