/* Collectives through a schedule: each kind, in place and apart, in state and in transient memory, gives
 * every rank the exact values. Ranks are threads (sim: 1, 2, 3, 8), or with the argument mpi the processes of
 * mpirun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "build.h"
#include "comm/ranks.h"
#include "schedule/run.h"

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { PART = 48 }; /* elements of a rank's part */

static float value(int rank, int64_t k) {
  return (float)(1000 * (rank + 1) + (int)k);
}

static float sum(int size, int64_t k) {
  float s = 0;
  for (int r = 0; r < size; r++)
    s += value(r, k);
  return s;
}

/* x (size * PART) of this rank comes in; results are state rows. */
typedef struct {
  ls_state_table_t *table;
  ls_schedule_t *s;
  int64_t whole;
} job_t;

static int row(job_t *job, const char *name, int64_t count) {
  int index = -1;
  const ls_state_row_t r = {.name = name, .part = "results", .shape = LS_SHAPE(LS_F32, count)};
  assert_int_equal(ls_state_declare(job->table, &r, &index), LS_OK);
  return ls_schedule_tensor(job->s, name, r.shape, LS_REGION_STATE + index, 0);
}

static int own_part(job_t *job, int of) {
  return ls_schedule_part(job->s, "own", LS_SHAPE(LS_F32, PART), of,
                          (size_t)job->s->rank * PART * sizeof(float));
}

static void make(ls_ctx_t *ctx, int rank, int size, job_t *job) {
  job->whole = (int64_t)size * PART;
  assert_int_equal(ls_state_table_create(ctx, NULL, &job->table), LS_OK);
  assert_int_equal(ls_schedule_create(ctx, job->table, rank, size, 1, &job->s), LS_OK);
  ls_schedule_t *s = job->s;
  int x = build_at(s, "x", LS_REGION_INPUT, 0, job->whole), y = build_transient(s, "y", job->whole);
  build_op1(s, &op_double, "y", x, y);
  int reduced = row(job, "reduced", job->whole), scattered = row(job, "scattered", PART);
  int gathered = row(job, "gathered", job->whole), told = row(job, "told", job->whole);
  ls_schedule_collective(s, "all-reduce", LS_ALL_REDUCE, y, reduced);
  ls_schedule_collective(s, "reduce-scatter", LS_REDUCE_SCATTER, y, scattered);
  ls_schedule_collective(s, "all-gather", LS_ALL_GATHER, own_part(job, y), gathered);
  ls_schedule_collective(s, "broadcast", LS_BROADCAST, y, told);
  /* in place, one after the other: the sum is scattered over the ranks' parts and gathered again */
  int all = row(job, "in place", job->whole);
  build_op1(s, &op_double, "in place", x, all);
  int part = own_part(job, all);
  ls_schedule_collective(s, "scatter in place", LS_REDUCE_SCATTER, all, part);
  ls_schedule_collective(s, "gather in place", LS_ALL_GATHER, part, all);
  /* what is looked at after the step has a reader in it */
  const int results[] = {reduced, gathered, told, all};
  for (int i = 0; i < LS_COUNT(results); i++)
    build_op1(s, &op_double, "read", results[i], build_transient(s, "read", job->whole));
  build_op1(s, &op_double, "read", scattered, build_transient(s, "read", PART));
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  ls_status_t status = ls_schedule_check(s);
  assert_string_equal(ls_ctx_error(ctx), "");
  assert_int_equal(status, LS_OK);
}

/* The first difference as text; "" = none. */
static void compare(const job_t *job, const ls_state_t *state, char *text, size_t text_bytes) {
  int size = job->s->world_size, rank = job->s->rank;
  for (int i = 0; i < state->count && !text[0]; i++) {
    const char *name = job->table->row[i].name;
    const float *got = state->data[i];
    for (int64_t k = 0; k < ls_state_row_count(&job->table->row[i]) && !text[0]; k++) {
      float want = 2 * sum(size, k);
      if (!strcmp(name, "scattered")) want = 2 * sum(size, rank * PART + k);
      if (!strcmp(name, "gathered")) want = 2 * value((int)(k / PART), k);
      if (!strcmp(name, "told")) want = 2 * value(0, k);
      if (got[k] != want)
        snprintf(text, text_bytes, "rank %d of %d, %s[%lld]: %g, not %g", rank, size, name, (long long)k,
                 (double)got[k], (double)want);
    }
  }
}

static ls_status_t run(ls_ctx_t *ctx, ls_comm_t *comm, char *text, size_t text_bytes) {
  job_t job;
  ls_device_t *device = NULL;
  ls_state_t *state = NULL;
  ls_run_t *r = NULL;
  make(ctx, comm->rank, comm->size, &job);
  const ls_backend_t *ref = &ls_backend_ref;
  ls_status_t status = ref->device->open(ctx, &(ls_device_options_t){.threads = 1}, &device);
  if (!status) status = ls_state_create(ctx, job.table, device, false, &state);
  if (!status) status = ls_run_create(ctx, job.s, device, comm, state, NULL, &r);
  for (int step = 0; step < 3 && !status; step++) {
    float *x = ls_run_input(r, "x", 0);
    for (int64_t k = 0; k < job.whole; k++)
      x[k] = value(comm->rank, k);
    for (int i = 0; i < state->count; i++)
      memset(state->data[i], 0xff, ls_state_row_bytes(&job.table->row[i]));
    ls_ctx_fail_alloc(ctx, 0); /* counts from here: a step allocates nothing, the first one neither */
    ls_ctx_fail_alloc(comm->ctx, 0);
    status = ls_run_launch(r, 0);
    if (!status) status = ls_run_wait(r, 0, NULL);
    int64_t allocations = ls_ctx_fail_alloc(ctx, 0) + ls_ctx_fail_alloc(comm->ctx, 0);
    if (allocations) snprintf(text, text_bytes, "step %d allocates %lld times", step, (long long)allocations);
    if (!status) compare(&job, state, text, text_bytes);
  }
  ls_run_destroy(r);
  ls_state_destroy(state);
  if (device) ref->device->close(device);
  ls_schedule_destroy(job.s);
  ls_state_table_release(job.table);
  return status;
}

static void run_rank(rank_t *rank) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  rank->status = run(ctx, rank->comm, rank->text, sizeof rank->text);
  ls_ctx_destroy(ctx);
}

static void every_kind_on_sim_ranks(void **unused) {
  (void)unused;
  const int sizes[] = {1, 2, 3, 8};
  for (int i = 0; i < LS_COUNT(sizes); i++) {
    static ranks_t ranks;
    ranks_run(&ranks, sizes[i], 0, run_rank);
    for (int r = 0; r < sizes[i]; r++) {
      assert_int_equal(ranks.rank[r].status, LS_OK);
      assert_string_equal(ranks.rank[r].text, "");
    }
    ranks_release(&ranks);
  }
}

static void every_kind_between_processes(void **unused) {
  (void)unused;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm;
  char text[256] = "";
  assert_int_equal(ls_comm_mpi_create(ctx, 0, &comm), LS_OK);
  ls_status_t status = run(ctx, comm, text, sizeof text);
  assert_int_equal(ls_comm_agree(comm, "result", status ? status : text[0] ? LS_ERR_INTERNAL : LS_OK), LS_OK);
  assert_string_equal(text, "");
  ls_comm_destroy(comm);
  ls_ctx_destroy(ctx);
}

static void sizes_that_do_not_go_together_are_refused(void **unused) {
  (void)unused;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  const struct {
    ls_collective_kind_t kind;
    int64_t in, out;
  } bad[] = {{LS_REDUCE_SCATTER, 12, 12},
             {LS_REDUCE_SCATTER, 6, 12},
             {LS_ALL_GATHER, 12, 12},
             {LS_ALL_REDUCE, 12, 6}};
  for (int i = 0; i < LS_COUNT(bad); i++) {
    ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
    int in = build_transient(s, "in", bad[i].in), out = build_transient(s, "out", bad[i].out);
    assert_int_equal(ls_schedule_collective(s, "bad", bad[i].kind, in, out), -1);
    assert_int_equal(s->status, LS_ERR_INTERNAL);
    assert_non_null(strstr(ls_ctx_error(ctx), "'bad' of 2 ranks cannot go from"));
    ls_ctx_clear(ctx);
    ls_schedule_destroy(s);
  }
  /* a part that is not this rank's own is no place to work in */
  ls_schedule_t *s = build_begin(ctx, 0, 2, 1);
  int all = build_transient(s, "all", 32);
  build_source(s, "all", all);
  int other = ls_schedule_part(s, "other's", LS_SHAPE(LS_F32, 16), all, 64);
  ls_schedule_collective(s, "gather", LS_ALL_GATHER, other, all);
  build_op1(s, &op_double, "read", all, build_transient(s, "read", 32));
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  assert_int_equal(ls_schedule_check(s), LS_ERR_INTERNAL);
  assert_non_null(strstr(ls_ctx_error(ctx), "of the same"));
  assert_int_equal(ls_schedule_part(s, "beyond", LS_SHAPE(LS_F32, 16), all, 68), -1);
  ls_schedule_destroy(s);
  ls_ctx_destroy(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest here[] = {cmocka_unit_test(every_kind_on_sim_ranks),
                                    cmocka_unit_test(sizes_that_do_not_go_together_are_refused)};
  const struct CMUnitTest between[] = {cmocka_unit_test(every_kind_between_processes)};
  if (argc > 1 && !strcmp(argv[1], "mpi")) return cmocka_run_group_tests(between, NULL, NULL);
  return cmocka_run_group_tests(here, NULL, NULL);
}
