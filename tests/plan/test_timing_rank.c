/* What is timed is what trains: a timed rank opens the engine that a trainer's rank opens. */
#include "plan/timing_rank.h"
#include "setup.h"

static const char more[] = "train: {batch: 13, steps: 1, seed: 9, accumulate: 3, optimizer: {name: adam}}\n"
                           "parallel: {strategy: ddp, ranks: 2, bucket_bytes: 1, threads: 1, backend: ref}\n";

enum { RANKS = 2 };
static const float noise[LS_TIMING_NOISE] = {1, 2, 3};

static void open_timed(const ls_config_t *of, int rank, int64_t data_rows, ls_timing_job_t *job,
                       ls_timing_rank_t *r) {
  *job = (ls_timing_job_t){.config = of, .backend = &ls_backend_ref, .ranks = RANKS, .threads = 1};
  *r = (ls_timing_rank_t){.ctx = ctx, .job = job, .data_rows = data_rows, .noise = noise, .rank = rank};
  assert_int_equal(ls_timing_rank_open(r), LS_OK);
}

static void check_same_program(const ls_program_t *a, const ls_program_t *b) {
  assert_int_equal(a->count, b->count);
  assert_int_equal(a->micro_batches, b->micro_batches);
  for (int i = 0; i < a->count; i++) {
    assert_int_equal(a->member[i]->task_count, b->member[i]->task_count);
    for (int t = 0; t < a->member[i]->task_count; t++) {
      const ls_task_t *x = &a->member[i]->tasks[t], *y = &b->member[i]->tasks[t];
      assert_string_equal(x->name, y->name);
      assert_int_equal(x->lane, y->lane);
      assert_int_equal(x->wait_count, y->wait_count);
      for (int w = 0; w < x->wait_count; w++)
        assert_int_equal(x->wait[w], y->wait[w]);
    }
  }
}

static void same_values_shapes_and_waits(void **state) {
  ls_comm_t *comm[RANKS];
  assert_int_equal(ls_comm_sim_create(ctx, RANKS, 0, comm), LS_OK);
  for (int rank = 0; rank < RANKS; rank++) {
    ls_timing_job_t job;
    ls_timing_rank_t timed;
    ls_engine_t trained;
    open_timed(config, rank, 0, &job, &timed);
    ls_engine_options_t options = ls_config_engine(config);
    options.comm = comm[rank];
    options.training = true;
    assert_int_equal(ls_engine_open(ctx, &options, &trained), LS_OK);
    assert_int_equal(ls_engine_lower(&trained, LS_STEP_TRAIN, trained.share.rows), LS_OK);
    assert_int_equal(ls_engine_allocate(&trained, true), LS_OK);
    assert_int_equal(ls_engine_fill(&trained, false), LS_OK);
    const ls_engine_t *e = &timed.engine;
    assert_int_equal(e->share.first, trained.share.first);
    assert_int_equal(e->share.count, trained.share.count);
    assert_int_equal(e->share.rows, trained.share.rows);
    assert_int_equal(e->share.micro_batches, trained.share.micro_batches);
    assert_int_equal(e->lag, trained.lag);
    assert_int_equal(e->threads, trained.threads);
    check_same_program(&e->step[LS_STEP_TRAIN].program, &trained.step[LS_STEP_TRAIN].program);
    assert_int_equal(e->table->count, trained.table->count);
    for (int i = 0; i < e->table->count; i++) {
      const ls_state_row_t *row = &e->table->row[i];
      assert_string_equal(row->name, trained.table->row[i].name);
      assert_int_equal(ls_state_row_bytes(row), ls_state_row_bytes(&trained.table->row[i]));
      assert_memory_equal(e->state->data[i], trained.state->data[i], ls_state_row_bytes(row));
    }
    ls_engine_close(&trained);
    ls_timing_rank_close(&timed);
  }
  for (int rank = 0; rank < RANKS; rank++)
    ls_comm_destroy(comm[rank]);
}

/* Bytes of images lay there as zeros. */
static void tables_are_noise_of_the_data_s_dtype(void **state) {
  static const ls_dtype_t dtypes[] = {LS_F32, LS_U8};
  for (int d = 0; d < 2; d++) {
    ls_timing_job_t job;
    ls_timing_rank_t timed;
    config->model.dtype = dtypes[d];
    open_timed(config, 0, 20, &job, &timed);
    const ls_engine_t *e = &timed.engine;
    int i = ls_state_find(e->table, LS_NAME_FEATURES);
    assert_true(i >= 0);
    assert_int_equal(e->table->row[i].shape.dtype, dtypes[d]);
    assert_int_equal(ls_state_row_bytes(&e->table->row[i]), 20 * 6 * ls_dtype_bytes(dtypes[d]));
    assert_memory_equal(e->state->data[i], noise, 3 * sizeof *noise);
    ls_timing_rank_close(&timed);
  }
}

/* Tokens lay there as zeros: a GPU added them all up in one row of the embedding's gradient, 3.9 times as long as the
 * step of training takes. */
static void tokens_on_the_device_are_spread(void **state) {
  static const char text[] = "model:\n  input: [16]\n  loss: cross-entropy\n  layers:\n"
                             "    - embedding: {size: 30522, units: 2}\n    - dense: {units: 300}\n"
                             "data: {kind: synthetic, samples: 640}\ntrain: {batch: 13, steps: 1}\n"
                             "parallel: {strategy: ddp, ranks: 2, backend: ref}\n";
  ls_config_t *words;
  ls_timing_job_t job;
  ls_timing_rank_t timed;
  assert_int_equal(ls_config_parse(ctx, "test.yaml", text, strlen(text), NULL, 0, &words), LS_OK);
  open_timed(words, 0, 640, &job, &timed);
  static const struct {
    const char *name;
    ls_dtype_t dtype;
    int limit, count;
  } tables[] = {{LS_NAME_FEATURES, LS_U16, 30522, 640 * 16}, {LS_NAME_TARGETS, LS_I32, 300, 640}};
  for (int t = 0; t < 2; t++) {
    int at = ls_state_find(timed.engine.table, tables[t].name), above = 0, most = 0;
    static int seen[30522];
    memset(seen, 0, sizeof seen);
    assert_true(at >= 0);
    assert_int_equal(timed.engine.table->row[at].shape.dtype, tables[t].dtype);
    const void *data = timed.engine.state->data[at];
    for (int i = 0; i < tables[t].count; i++) {
      int id = t == 0 ? ((const uint16_t *)data)[i] : ((const int32_t *)data)[i];
      assert_in_range(id, 0, tables[t].limit - 1);
      above += id >= tables[t].limit / 2;
      if (++seen[id] > most) most = seen[id];
    }
    assert_in_range(above, 4 * tables[t].count / 10, 6 * tables[t].count / 10);
    assert_in_range(most, 1, 12);
  }
  ls_timing_rank_close(&timed);
  ls_config_destroy(words);
}

int main(void) {
#define TEST(name) PLAN_TEST(name, more)
  const struct CMUnitTest tests[] = {TEST(same_values_shapes_and_waits),
                                     TEST(tables_are_noise_of_the_data_s_dtype),
                                     TEST(tokens_on_the_device_are_spread)};
  return cmocka_run_group_tests_name("timing rank", tests, NULL, NULL);
}
