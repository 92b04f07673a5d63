/* An engine by itself: what it steps is what a trainer trains, to the bit; its members share one state and one
 * block; and what fails on the way leaves nothing open. */
#include "ckpt/ckpt.h"
#include "train/train.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { STEPS = 9 };

typedef struct {
  ls_ctx_t *ctx;
  ls_comm_t *comm;
  ls_world_t world;
  ls_config_t *config;
  ls_dataset_t *dataset;
  ls_engine_t engine;
} fixture_t;

static void set_up(fixture_t *f, const char *backend, const char *resident) {
  char text[1024];
  snprintf(text, sizeof text,
           "model: {input: [7], loss: mse, layers: [{dense: {units: 9, activation: relu, dropout: 0.2}}, "
           "{dense: {units: 3}}]}\ndata: {kind: synthetic, samples: 90, resident: %s}\n"
           "train: {batch: 11, steps: %d, seed: 4, accumulate: 2, optimizer: {name: adam, lr: 0.01}}\n"
           "parallel: {backend: %s, threads: 1}\n",
           resident, STEPS, backend);
  *f = (fixture_t){.ctx = ls_ctx_create(NULL, NULL)};
  assert_int_equal(ls_config_parse(f->ctx, "test", text, strlen(text), NULL, 0, &f->config), LS_OK);
  assert_int_equal(ls_comm_self_create(f->ctx, &f->comm), LS_OK);
  f->world.comm = f->comm;
  const ls_data_want_t want = {7, 3, false};
  assert_int_equal(ls_dataset_open(f->ctx, &f->config->data, NULL, &want, 4, NULL, &f->dataset), LS_OK);
}

static void tear_down(fixture_t *f) {
  ls_engine_close(&f->engine);
  ls_dataset_close(f->dataset);
  ls_comm_destroy(f->comm);
  ls_config_destroy(f->config);
  ls_ctx_destroy(f->ctx);
}

static ls_status_t open_engine(fixture_t *f, int64_t data_rows) {
  ls_engine_options_t options = ls_config_engine(f->config);
  options.comm = f->comm;
  options.data_rows = data_rows;
  options.training = true;
  ls_engine_t *e = &f->engine;
  ls_status_t status = ls_engine_open(f->ctx, &options, e);
  const int rows = e->table ? e->table->count : 0, tables = data_rows > 0 ? 2 : 0;
  if (status == LS_OK) status = ls_engine_connect(e);
  if (status == LS_OK) status = ls_engine_lower(e, LS_STEP_TRAIN, e->share.rows);
  if (status == LS_OK) status = ls_engine_lower(e, LS_STEP_EVALUATE, 5);
  if (status == LS_OK)
    assert_int_equal(e->table->count, rows + tables); /* opening has declared all that is saved */
  if (status == LS_OK) status = ls_engine_allocate(e, true);
  if (status == LS_OK) status = ls_feed_upload(e, f->dataset);
  if (status == LS_OK) status = ls_engine_bind(e, LS_TIMED_NOTHING);
  return status == LS_OK ? ls_engine_fill(e, false) : status;
}

static float rate(void *user, int64_t step) {
  const ls_config_t *config = user;
  return ls_rate_at(&config->rate, config->optimizer.lr, step, STEPS);
}

static ls_status_t step_all(fixture_t *f) {
  const ls_feed_t feed = {.dataset = f->dataset,
                          .seed = 4,
                          .total_steps = STEPS,
                          .total_samples = STEPS * f->config->train.batch,
                          .lr = rate,
                          .lr_user = f->config};
  ls_engine_t *e = &f->engine;
  ls_status_t status = ls_feed_start(e, &feed);
  while (e->finished < STEPS && status == LS_OK) {
    const float *stats;
    if (e->launched < STEPS) status = ls_engine_launch(e);
    assert_true(e->launched - e->finished <= e->lag + 1);
    while (e->launched - e->finished > (e->launched < STEPS ? e->lag : 0) && status == LS_OK) {
      status = ls_engine_wait(e, &stats);
      assert_true(status != LS_OK || stats[LS_STAT_APPLIED] == 1);
    }
  }
  ls_engine_stop(e);
  return status;
}

static void hash_of(fixture_t *f, char hex[33]) {
  ls_engine_t *e = &f->engine;
  assert_int_equal(ls_state_pull(e->state, e->stream, e->comm->deadline_ns), LS_OK);
  assert_int_equal(ls_ckpt_hash(f->ctx, e->comm, e->table, e->state->host, hex), LS_OK);
}

static void steps_to_the_bits_of_a_trainer(void **state) {
  static const char *const backends[] = {"ref", "cpu"}, *const resident[] = {"false", "true"};
  for (int b = 0; b < 2; b++)
    for (int r = 0; r < 2; r++) {
      fixture_t f;
      ls_trainer_t *trainer;
      ls_train_report_t report;
      char first[33], hex[33], again[33];
      set_up(&f, backends[b], resident[r]);
      assert_int_equal(ls_trainer_create(f.ctx, &f.world, f.config, NULL, &trainer), LS_OK);
      assert_int_equal(ls_trainer_run(trainer, NULL, &report), LS_OK);
      ls_trainer_destroy(trainer);
      assert_int_equal(open_engine(&f, r ? 90 : 0), LS_OK);
      hash_of(&f, first);
      assert_int_equal(step_all(&f), LS_OK);
      hash_of(&f, hex);
      assert_string_equal(hex, report.params_xxh3);
      assert_string_not_equal(hex, first);
      /* what steps carry on begins again; tables stay */
      assert_int_equal(ls_engine_fill(&f.engine, true), LS_OK);
      hash_of(&f, again);
      assert_string_equal(again, first);
      assert_int_equal(step_all(&f), LS_OK);
      hash_of(&f, again);
      assert_string_equal(again, hex);
      tear_down(&f);
    }
}

/* A device that lags the host has two micro-batches in flight when a step begins: the third one's slot has to be
 * free before the fourth is asked for. */
static void micro_batches_of_a_device_that_lags(void **state) {
  char hex[2][33];
  for (int lag = 0; lag < 2; lag++) {
    fixture_t f;
    set_up(&f, "ref", "false");
    assert_int_equal(open_engine(&f, 0), LS_OK);
    f.engine.lag = lag;
    assert_int_equal(step_all(&f), LS_OK);
    hash_of(&f, hex[lag]);
    tear_down(&f);
  }
  assert_string_equal(hex[0], hex[1]);
}

static void members_share_state_and_block(void **state) {
  fixture_t f;
  set_up(&f, "ref", "true");
  assert_int_equal(open_engine(&f, 90), LS_OK);
  ls_engine_t *e = &f.engine;
  const ls_schedule_t *train = e->step[LS_STEP_TRAIN].program.member[0],
                      *evaluate = e->step[LS_STEP_EVALUATE].program.member[0];
  size_t most = ls_program_bytes(&e->step[LS_STEP_TRAIN].program, LS_REGION_TRANSIENT),
         other = ls_program_bytes(&e->step[LS_STEP_EVALUATE].program, LS_REGION_TRANSIENT);
  assert_int_equal(e->transient_bytes, most > other ? most : other);
  assert_ptr_equal(train->state, e->table);
  assert_ptr_equal(evaluate->state, e->table);
  /* with the samples on the device both take their numbers; predicting takes samples of the host */
  assert_non_null(ls_feed_batch(e, LS_STEP_EVALUATE, 0).row);
  assert_int_equal(ls_engine_lower(e, LS_STEP_PREDICT, 5), LS_OK);
  assert_int_equal(ls_engine_bind(e, LS_TIMED_NOTHING), LS_OK);
  assert_non_null(ls_feed_batch(e, LS_STEP_PREDICT, 0).x);
  assert_null(ls_feed_batch(e, LS_STEP_PREDICT, 0).row);
  assert_ptr_equal(e->step[LS_STEP_TRAIN].program.member[0], train);
  tear_down(&f);
}

typedef struct {
  const ls_engine_t *engine;
  int64_t step; /* whose micro-batches are in sum_ns */
  int64_t sum_ns[256];
  int seen;
} seen_t;

static void see(void *user, int64_t step, int m) {
  seen_t *s = user;
  const ls_step_t *train = &s->engine->step[LS_STEP_TRAIN];
  int member = ls_run_member(train->run), first = ls_program_task(&train->program, member, 0);
  const ls_task_time_t *times = ls_run_times(train->run);
  if (m == 0) memset(s->sum_ns, 0, sizeof s->sum_ns);
  s->step = step;
  for (int t = 0; t < train->program.member[member]->task_count; t++)
    s->sum_ns[first + t] += times[t].end_ns - times[t].start_ns;
  s->seen++;
}

static bool has_thread(const char *name) {
  DIR *dir = opendir("/proc/self/task");
  bool found = false;
  for (const struct dirent *entry; dir && (entry = readdir(dir));) {
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof text, file)) found |= strncmp(text, name, strlen(name)) == 0;
    if (file) fclose(file);
  }
  if (dir) closedir(dir);
  return found;
}

/* A thread filled them all the same: steps of 1 us waited 5 us for it, and for its wake-ups. */
static void small_batches_on_a_host_are_filled_in_the_loop(void **state) {
  fixture_t f;
  set_up(&f, "cpu", "false");
  assert_int_equal(open_engine(&f, 0), LS_OK);
  const ls_feed_t feed = {
      .dataset = f.dataset, .total_steps = STEPS, .total_samples = STEPS * f.config->train.batch};
  const float *stats;
  assert_int_equal(ls_feed_start(&f.engine, &feed), LS_OK);
  assert_int_equal(ls_engine_launch(&f.engine), LS_OK);
  assert_int_equal(ls_engine_wait(&f.engine, &stats), LS_OK);
  assert_false(has_thread("ls loader"));
  ls_engine_stop(&f.engine);
  tear_down(&f);
}

/* Members take turns in a step: no micro-batch's time may be lost, whatever ran before it. */
static void times_are_sums_over_all_micro_batches(void **state) {
  for (int reproducible = 0; reproducible < 2; reproducible++) {
    fixture_t f;
    set_up(&f, "ref", "false");
    f.config->parallel.reproducible = reproducible;
    f.config->parallel.shards = 8;
    f.config->train.accumulate = reproducible ? 1 : 5;
    assert_int_equal(open_engine(&f, 0), LS_OK);
    ls_engine_t *e = &f.engine;
    const ls_program_t *p = &e->step[LS_STEP_TRAIN].program;
    seen_t seen = {.engine = e};
    const ls_feed_t feed = {.dataset = f.dataset,
                            .total_steps = STEPS,
                            .total_samples = STEPS * f.config->train.batch,
                            .observer = {see, &seen}};
    int tasks = ls_program_task(p, p->count, 0);
    assert_in_range(tasks, 1, LS_COUNT(seen.sum_ns));
    assert_true(p->count > 1 && p->micro_batches > p->count);
    assert_int_equal(ls_feed_start(e, &feed), LS_OK);
    for (int step = 0; step < STEPS; step++) {
      assert_int_equal(ls_engine_launch(e), LS_OK);
      assert_int_equal(ls_engine_wait(e, NULL), LS_OK);
      assert_int_equal(seen.step, step);
      assert_int_equal(seen.seen, (step + 1) * p->micro_batches);
      for (int t = 0; t < tasks; t++)
        assert_int_equal(e->took->task[t].end_ns - e->took->task[t].start_ns, seen.sum_ns[t]);
    }
    ls_engine_stop(e);
    tear_down(&f);
  }
}

/* The processors that this thread may use while rank r of two has an engine open. */
static void processors_of(fixture_t *f, ls_comm_t *rank, cpu_set_t *set) {
  ls_engine_options_t options = ls_config_engine(f->config);
  options.comm = rank;
  options.training = true;
  assert_int_equal(ls_engine_open(f->ctx, &options, &f->engine), LS_OK);
  sched_getaffinity(0, sizeof *set, set);
  ls_engine_close(&f->engine);
}

/* A tiny step of two ranks took 16 us instead of 4: the system had put both on one core. */
static void ranks_of_a_node_have_processors_of_their_own(void **state) {
  fixture_t f;
  cpu_set_t all, mine, other, both;
  ls_comm_t *rank[2];
  sched_getaffinity(0, sizeof all, &all);
  if (CPU_COUNT(&all) < 2) skip();
  set_up(&f, "cpu", "false");
  f.config->parallel.strategy = "ddp";
  assert_int_equal(ls_comm_sim_create(f.ctx, 2, 0, rank), LS_OK);
  processors_of(&f, rank[0], &mine);
  processors_of(&f, rank[1], &other);
  CPU_AND(&both, &mine, &other);
  assert_int_equal(CPU_COUNT(&mine), CPU_COUNT(&all) / 2);
  assert_int_equal(CPU_COUNT(&other), CPU_COUNT(&all) / 2);
  assert_int_equal(CPU_COUNT(&both), 0);
  sched_getaffinity(0, sizeof mine, &mine);
  assert_true(CPU_EQUAL(&mine, &all));          /* closed: as before */
  f.config->parallel.threads = CPU_COUNT(&all); /* more than a share holds */
  processors_of(&f, rank[0], &mine);
  assert_true(CPU_EQUAL(&mine, &all));
  f.config->parallel.threads = 1;
  f.config->parallel.bind = false;
  processors_of(&f, rank[0], &mine);
  assert_true(CPU_EQUAL(&mine, &all));
  ls_comm_destroy(rank[0]);
  ls_comm_destroy(rank[1]);
  tear_down(&f);
}

static void every_allocation_may_fail(void **state) {
  fixture_t f;
  set_up(&f, "ref", "true");
  ls_ctx_fail_alloc(f.ctx, 0);
  assert_int_equal(open_engine(&f, 90), LS_OK);
  assert_int_equal(step_all(&f), LS_OK);
  ls_engine_close(&f.engine);
  int64_t allocations = ls_ctx_fail_alloc(f.ctx, 0);
  for (int64_t n = 1; n <= allocations; n++) {
    ls_ctx_fail_alloc(f.ctx, n);
    ls_status_t status = open_engine(&f, 90);
    if (status == LS_OK) status = step_all(&f);
    assert_int_equal(status, LS_ERR_MEMORY);
    ls_engine_close(&f.engine);
  }
  ls_ctx_fail_alloc(f.ctx, 0);
  tear_down(&f);
}

TESTS(NULL, NULL, steps_to_the_bits_of_a_trainer, micro_batches_of_a_device_that_lags,
      members_share_state_and_block, small_batches_on_a_host_are_filled_in_the_loop,
      times_are_sums_over_all_micro_batches, ranks_of_a_node_have_processors_of_their_own,
      every_allocation_may_fail)
