/* Sharded rows made whole by a program of the state: the same file and the same fingerprint as of rows that every
 * rank holds, for any number of ranks; what lies otherwise is refused. */
#include "support.h"

#include "schedule/run.h"
#include "support/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 8, FIRST = 24 * 5, COUNT = 24 * 7, ROWS = 2, DEADLINE_S = 20 };

static const struct {
  const char *name;
  ls_state_file_t file;
  ls_dtype_t dtype;
} kinds[ROWS] = {{"toy.weight", LS_STATE_MODEL, LS_F32}, {"toy.moment", LS_STATE_OPTIMIZER, LS_F64}};

static double value_of(int row, int64_t element) {
  return (double)((row + 1) * 1000 + element * 7 % 101);
}

static void put(int row, void *at, int64_t place, double value) {
  if (kinds[row].dtype == LS_F32)
    ((float *)at)[place] = (float)value;
  else
    ((double *)at)[place] = value;
}

/* Sharded in two ranges, as two buckets are; or replicated. */
static ls_state_table_t *table_of(ls_ctx_t *ctx, int rank, int size, bool sharded) {
  ls_state_table_t *table;
  NEED(ls_state_table_create(ctx, NULL, &table) == LS_OK);
  const int64_t one = FIRST / size, two = (COUNT - FIRST) / size;
  const ls_range_t range[] = {{rank * one, (rank + 1) * one}, {FIRST + rank * two, FIRST + (rank + 1) * two}};
  for (int i = 0; i < ROWS; i++) {
    int index;
    const ls_state_row_t row = {.name = kinds[i].name,
                                .part = "toy",
                                .shape = LS_SHAPE(kinds[i].dtype, COUNT / 7, 7),
                                .life = LS_STATE_CARRIED,
                                .owner = sharded ? LS_STATE_SHARDED : LS_STATE_REPLICATED,
                                .range = sharded ? range : NULL,
                                .range_count = sharded ? 2 : 0,
                                .file = kinds[i].file};
    NEED(ls_state_declare(table, &row, &index) == LS_OK && index == i);
  }
  return table;
}

typedef struct {
  fixture_t *f;
  ls_comm_t *comm;
} rank_t;

/* Every row in host memory, by the program. */
static void gather(ls_ctx_t *ctx, ls_comm_t *comm, const ls_state_t *state, void **whole) {
  ls_program_t program;
  ls_run_t *run;
  ls_fit_t fit;
  NEED(ls_program_gather(ctx, state->table, comm->rank, comm->size, &program) == LS_OK);
  NEED(program.count == ROWS && ls_program_check(&program) == LS_OK);
  ls_program_fit(&program, &fit);
  NEED(ls_fit_bytes(&fit, "other") == COUNT * 8); /* the larger row alone */
  NEED(ls_run_create(ctx, &program, state->device, comm, state, NULL, &run) == LS_OK);
  for (int m = 0; m < ROWS; m++) {
    size_t size_bytes = (size_t)COUNT * ls_dtype_bytes(kinds[m].dtype);
    whole[m] = malloc(size_bytes);
    NEED(ls_run_launch(run, 0, m) == LS_OK && ls_run_wait(run, 0, NULL) == LS_OK);
    NEED(ls_run_read(run, kinds[m].name, 0, whole[m], size_bytes) == LS_OK);
  }
  ls_run_destroy(run);
  ls_program_release(&program);
}

static void save(ls_ctx_t *ctx, const char *dir, const ls_state_table_t *table, void **host) {
  ls_ckpt_rows_t rows;
  char *path;
  NEED(ls_ckpt_rows(ctx, table, host, &rows) == LS_OK);
  const ls_ckpt_save_t to = {.step = 3,
                             .metric = 1,
                             .params = rows.tensor[0],
                             .param_count = rows.count[0],
                             .optim = rows.tensor[1],
                             .optim_count = rows.count[1]};
  NEED(ls_ckpt_save(ctx, dir, &to, 9, &path) == LS_OK);
  ls_free(path);
  ls_arena_release(&rows.arena);
}

static void *work(void *arg) {
  rank_t *rank = arg;
  ls_comm_t *comm = rank->comm;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_state_table_t *table = table_of(ctx, comm->rank, comm->size, true);
  ls_state_table_t *replicated = table_of(ctx, comm->rank, comm->size, false);
  ls_device_t *device;
  ls_state_t *state;
  void *whole[ROWS];
  char sharded_hash[33], whole_hash[33];
  NEED(ls_backend_ref.device->open(ctx, &(ls_device_options_t){.threads = 1}, &device) == LS_OK);
  NEED(ls_state_create(ctx, table, device, true, &state) == LS_OK);
  for (int i = 0; i < ROWS; i++)
    for (int64_t k = 0, at = 0; k < table->row[i].range_count; k++)
      for (int64_t e = table->row[i].range[k].begin; e < table->row[i].range[k].end; e++)
        put(i, state->data[i], at++, value_of(i, e));
  gather(ctx, comm, state, whole);
  NEED(ls_ckpt_hash(ctx, comm, table, state->host, sharded_hash) == LS_OK);
  NEED(ls_ckpt_hash(ctx, comm, replicated, whole, whole_hash) == LS_OK);
  NEED(!strcmp(sharded_hash, whole_hash));
  if (comm->rank == 0) save(ctx, joined(rank->f->dir, "gathered"), replicated, whole);
  for (int i = 0; i < ROWS; i++)
    free(whole[i]);
  ls_state_destroy(state);
  ls_backend_ref.device->close(device);
  ls_state_table_release(replicated);
  ls_state_table_release(table);
  ls_ctx_destroy(ctx);
  return NULL;
}

static void whole_rows_are_saved_as_replicated_ones(void **state) {
  fixture_t *f = *state;
  static const int worlds[] = {1, 2, 3, 8};
  static const char *const files[] = {LS_MODEL_NAME, LS_OPTIM_NAME};
  ls_state_table_t *table = table_of(f->ctx, 0, 1, false);
  void *values[ROWS];
  for (int i = 0; i < ROWS; i++) {
    values[i] = malloc(COUNT * sizeof(double));
    for (int64_t e = 0; e < COUNT; e++)
      put(i, values[i], e, value_of(i, e));
  }
  save(f->ctx, joined(f->dir, "replicated"), table, values);
  for (int w = 0; w < LS_COUNT(worlds); w++) {
    ls_comm_t *comm[RANKS_MAX];
    rank_t rank[RANKS_MAX];
    assert_int_equal(ls_comm_sim_create(f->ctx, worlds[w], (int64_t)DEADLINE_S * 1000000000, comm), LS_OK);
    for (int r = 0; r < worlds[w]; r++)
      rank[r] = (rank_t){.f = f, .comm = comm[r]};
    threads_run(worlds[w], work, rank, sizeof *rank);
    for (int r = 0; r < worlds[w]; r++)
      ls_comm_destroy(comm[r]);
    for (int i = 0; i < LS_COUNT(files); i++) {
      size_t size, again;
      char name[128];
      snprintf(name, sizeof name, "replicated/step-000000000003/%s", files[i]);
      char *want = get_file(joined(f->dir, name), &size);
      snprintf(name, sizeof name, "gathered/step-000000000003/%s", files[i]);
      char *got = get_file(joined(f->dir, name), &again);
      assert_int_equal(size, again);
      assert_memory_equal(got, want, size);
      ls_free(got);
      ls_free(want);
    }
  }
  for (int i = 0; i < ROWS; i++)
    free(values[i]);
  ls_state_table_release(table);
}

static void parts_that_are_not_equal_are_refused(void **state) {
  fixture_t *f = *state;
  ls_state_table_t *table = table_of(f->ctx, 0, 2, false);
  ls_program_t program;
  int index;
  assert_int_equal(ls_program_gather(f->ctx, table, 0, 2, &program), LS_OK);
  assert_int_equal(program.count, 0); /* nothing is sharded */
  const ls_range_t more = {0, 6};
  const ls_state_row_t row = {.name = "uneven",
                              .part = "toy",
                              .shape = LS_SHAPE(LS_F32, 11),
                              .owner = LS_STATE_SHARDED,
                              .range = &more,
                              .range_count = 1,
                              .file = LS_STATE_MODEL};
  assert_int_equal(ls_state_declare(table, &row, &index), LS_OK);
  assert_int_equal(ls_program_gather(f->ctx, table, 0, 2, &program), LS_ERR_UNSUPPORTED);
  assert_contains(f->log, "the ranks do not hold equal parts of 'uneven'");
  fixture_forget(f);
  ls_state_table_release(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(whole_rows_are_saved_as_replicated_ones, fixture_setup,
                                      fixture_teardown),
      cmocka_unit_test_setup_teardown(parts_that_are_not_equal_are_refused, fixture_setup, fixture_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
