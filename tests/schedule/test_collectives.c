/* Collectives through a schedule: each kind, in place and apart, in state and in transient memory, among all
 * ranks and in groups of them, and messages between two, give every rank the exact values. Ranks are threads
 * (sim: 1, 2, 3, 8), with the argument mpi or exchange the processes of mpirun, with cuda threads with a GPU
 * and NCCL each. */

#include "build.h"
#include "comm/mpi/mpi.h"
#include "comm/ranks.h"
#include "schedule/run.h"

#include "unit.h"
#include <stdio.h>
#include <string.h>

enum { PART = 48, STEPS = 3, ROWS_MAX = 64, CUDA_RANKS_MAX = 8 }; /* PART: elements of a rank's part */

static float value(int rank, int64_t k) {
  return (float)(1000 * (rank + 1) + (int)k);
}

/* The values that a result must have. */
typedef enum { REDUCED, SCATTERED, GATHERED, TOLD, IN_PLACE, THERE, BACK, INPUT } what_t;

/* x (size * PART) of this rank comes in; results are rows of the state, after it. */
typedef struct {
  ls_state_table_t *table;
  ls_schedule_t *s;
  int64_t whole;
  int x, y;
  what_t what[ROWS_MAX]; /* per row */
  int group[ROWS_MAX];
} job_t;

static int row(job_t *job, what_t what, int group, int64_t count) {
  static const char *const names[] = {"reduced",  "scattered", "gathered", "told",
                                      "in place", "there",     "back",     "x"};
  char name[64];
  int index = -1;
  snprintf(name, sizeof name, "%s, %s", names[what], job->s->groups[group].name);
  const ls_state_row_t r = {
      .name = name, .part = "results", .shape = LS_SHAPE(LS_F32, count), .life = LS_STATE_CARRIED};
  assert_int_equal(ls_state_declare(job->table, &r, &index), LS_OK);
  assert_in_range(index, 0, ROWS_MAX - 1);
  job->what[index] = what;
  job->group[index] = group;
  return ls_schedule_tensor(job->s, name, r.shape, LS_REGION_STATE + index, 0);
}

static int first_of(job_t *job, int of, int64_t begin, int64_t count) {
  return ls_schedule_part(job->s, "part", LS_SHAPE(LS_F32, count), of, (size_t)begin * sizeof(float));
}

static void copy(job_t *job, int from, int to) {
  ls_schedule_copy(job->s, LS_LANE_COMPUTE, LS_PHASE_STEP_FORWARD, "copy", from, to);
}

/* A reader in the step, for values that the test looks at after it. */
static void use(job_t *job, int result) {
  copy(job, result, build_transient(job->s, "read", ls_shape_count(&job->s->tensors[result].shape)));
}

static void every_kind(job_t *job, int group) {
  ls_schedule_t *s = job->s;
  const ls_sched_group_t *g = &s->groups[group];
  if (g->own < 0) return;
  int own = g->own;
  int64_t whole = (int64_t)g->count * PART;
  int y = first_of(job, job->y, 0, whole);
  int reduced = row(job, REDUCED, group, whole), scattered = row(job, SCATTERED, group, PART);
  int gathered = row(job, GATHERED, group, whole), told = row(job, TOLD, group, whole);
  ls_schedule_collective(s, "all-reduce", group, LS_ALL_REDUCE, y, reduced);
  ls_schedule_collective(s, "reduce-scatter", group, LS_REDUCE_SCATTER, y, scattered);
  ls_schedule_collective(s, "all-gather", group, LS_ALL_GATHER, first_of(job, y, own * PART, PART), gathered);
  ls_schedule_collective(s, "broadcast", group, LS_BROADCAST, y, told);
  /* in place, one after the other: the sum is scattered over the ranks' parts and gathered again */
  int all = row(job, IN_PLACE, group, whole);
  copy(job, y, all);
  int part = first_of(job, all, own * PART, PART);
  ls_schedule_collective(s, "scatter in place", group, LS_REDUCE_SCATTER, all, part);
  ls_schedule_collective(s, "gather in place", group, LS_ALL_GATHER, part, all);
  const int results[] = {reduced, scattered, gathered, told, all};
  for (int i = 0; i < LS_COUNT(results); i++)
    use(job, results[i]);
}

/* Messages go from the first rank of a pair to the second, and back. */
static void messages(job_t *job, int group) {
  ls_schedule_t *s = job->s;
  int own = s->groups[group].own;
  if (own < 0) return;
  int got = row(job, own ? THERE : BACK, group, job->whole);
  if (!own) ls_schedule_message(s, "there", group, LS_SEND, job->y);
  if (own) ls_schedule_message(s, "there", group, LS_RECV, got);
  if (own) ls_schedule_message(s, "back", group, LS_SEND, job->y);
  if (!own) ls_schedule_message(s, "back", group, LS_RECV, got);
  use(job, got);
}

static void make(ls_ctx_t *ctx, int rank, int size, job_t *job) {
  *job = (job_t){.whole = (int64_t)size * PART};
  assert_int_equal(ls_state_table_create(ctx, NULL, 1, &job->table), LS_OK);
  assert_int_equal(ls_schedule_create(ctx, job->table, rank, size, 1, &job->s), LS_OK);
  job->x = row(job, INPUT, LS_GROUP_WORLD, job->whole);
  job->y = build_transient(job->s, "y", job->whole);
  copy(job, job->x, job->y);
  /* the lower half and the upper one, this in reverse; the outermost ranks, and every neighbours */
  int low[RANKS_MAX], high[RANKS_MAX], half = (size + 1) / 2, pair[RANKS_MAX], pairs = 0;
  for (int r = 0; r < half; r++)
    low[r] = r;
  for (int r = half; r < size; r++)
    high[r - half] = size - 1 - (r - half);
  int lower = ls_schedule_group(job->s, "low", low, half), upper = -1;
  if (size > 1) upper = ls_schedule_group(job->s, "high", high, size - half);
  if (size > 1) pair[pairs++] = ls_schedule_group(job->s, "ends", (int[]){size - 1, 0}, 2);
  for (int r = 0; r + 1 < size; r++) {
    char name[32];
    snprintf(name, sizeof name, "stage %d", r);
    pair[pairs++] = ls_schedule_group(job->s, name, (int[]){r, r + 1}, 2);
  }
  every_kind(job, LS_GROUP_WORLD);
  every_kind(job, lower);
  if (upper >= 0) every_kind(job, upper);
  for (int p = 0; p < pairs; p++)
    messages(job, pair[p]);
  assert_int_equal(ls_schedule_finish(job->s), LS_OK);
}

static int member(const ls_sched_group_t *g, int i) {
  return g->ranks ? g->ranks[i] : i;
}

static float sum(const ls_sched_group_t *g, int64_t k) {
  float s = 0;
  for (int i = 0; i < g->count; i++)
    s += value(member(g, i), k);
  return s;
}

static float expected(const job_t *job, int index, int64_t k) {
  const ls_sched_group_t *g = &job->s->groups[job->group[index]];
  switch (job->what[index]) {
  case REDUCED:
  case IN_PLACE:
    return sum(g, k);
  case SCATTERED:
    return sum(g, g->own * PART + k);
  case GATHERED:
    return value(member(g, (int)(k / PART)), k);
  case TOLD:
  case THERE:
    return value(member(g, 0), k);
  case BACK:
    return value(member(g, 1), k);
  case INPUT:
    break;
  }
  return value(job->s->rank, k);
}

typedef struct {
  ls_device_t *device;
  ls_stream_t *stream;
  ls_state_t *state;
  ls_run_t *run;
  float *host; /* as large as the largest row */
} engine_t;

static ls_status_t move(engine_t *e, void *to, const void *from, size_t size_bytes) {
  const ls_stream_ops_t *stream = e->device->backend->stream;
  ls_status_t status = stream->copy(e->stream, to, from, size_bytes);
  return status ? status : stream->sync(e->stream, 0);
}

/* The input, and something that no result is. Row 0 is the input. */
static ls_status_t fill(engine_t *e, const job_t *job) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < e->state->count && !status; i++) {
    for (int64_t k = 0; k < ls_state_row_count(&job->table->row[i]); k++)
      e->host[k] = i ? -1 : value(job->s->rank, k);
    status = move(e, e->state->data[i], e->host, ls_state_row_bytes(&job->table->row[i]));
  }
  return status;
}

/* The first difference as text; "" = none. */
static ls_status_t compare(engine_t *e, const job_t *job, char *text, size_t text_bytes) {
  for (int i = 0; i < e->state->count && !text[0]; i++) {
    const ls_state_row_t *r = &job->table->row[i];
    ls_status_t status = move(e, e->host, e->state->data[i], ls_state_row_bytes(r));
    if (status) return status;
    for (int64_t k = 0; k < ls_state_row_count(r) && !text[0]; k++)
      if (e->host[k] != expected(job, i, k))
        snprintf(text, text_bytes, "rank %d of %d, %s[%lld]: %g, not %g", job->s->rank, job->s->world_size,
                 r->name, (long long)k, (double)e->host[k], (double)expected(job, i, k));
  }
  return LS_OK;
}

static ls_status_t one_step(engine_t *e, const job_t *job, ls_comm_t *comm, char *text, size_t text_bytes) {
  ls_status_t status = fill(e, job);
  if (status) return status;
  ls_ctx_fail_alloc(e->device->ctx,
                    0); /* counts from here: a step allocates nothing, the first one neither */
  ls_ctx_fail_alloc(comm->ctx, 0);
  status = ls_run_launch(e->run, 0, 0);
  if (!status) status = ls_run_wait(e->run, 0, NULL);
  int64_t allocations = ls_ctx_fail_alloc(e->device->ctx, 0) + ls_ctx_fail_alloc(comm->ctx, 0);
  if (allocations) snprintf(text, text_bytes, "a step allocates %lld times", (long long)allocations);
  return status ? status : compare(e, job, text, text_bytes);
}

static ls_status_t run_on(engine_t *e, ls_ctx_t *ctx, ls_comm_t *comm, char *text, size_t text_bytes) {
  job_t job;
  make(ctx, comm->rank, comm->size, &job);
  const ls_stream_ops_t *stream = e->device->backend->stream;
  ls_status_t status = ls_schedule_check(job.s);
  if (!status) status = stream->create(e->device, LS_STREAM_INLINE, &e->stream);
  if (!status) status = ls_state_create(ctx, job.table, e->device, false, &e->state);
  e->host = ls_alloc_array(ctx, (size_t)job.whole, sizeof(float));
  if (!status) status = ls_run_create(ctx, PROGRAM(job.s), e->device, comm, e->state, NULL, &e->run);
  for (int step = 0; step < STEPS && !status; step++)
    status = one_step(e, &job, comm, text, text_bytes);
  ls_run_destroy(e->run);
  ls_state_destroy(e->state);
  if (e->stream) stream->destroy(e->stream);
  ls_free(e->host);
  ls_schedule_destroy(job.s);
  ls_state_table_release(job.table);
  return status;
}

static ls_status_t run(ls_ctx_t *ctx, ls_comm_t *comm, char *text, size_t text_bytes) {
  engine_t e = {NULL};
  ls_status_t status = ls_backend_ref.device->open(ctx, &(ls_device_options_t){.threads = 1}, &e.device);
  if (!status) status = run_on(&e, ctx, comm, text, text_bytes);
  if (e.device) ls_backend_ref.device->close(e.device);
  if (status && !text[0]) snprintf(text, text_bytes, "%s: %s", ls_status_name(status), ls_ctx_error(ctx));
  return status;
}

static void run_rank(rank_t *rank) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  rank->status = run(ctx, rank->comm, rank->text, sizeof rank->text);
  ls_ctx_destroy(ctx);
}

static const int sizes[] = {1, 2, 3, 8};

static void expect_fine(ranks_t *ranks, int size, rank_fn fn) {
  ranks_run(ranks, size, 0, fn);
  for (int r = 0; r < size; r++) {
    assert_string_equal(ranks->rank[r].text, "");
    assert_int_equal(ranks->rank[r].status, LS_OK);
  }
  ranks_release(ranks);
}

static void every_kind_on_sim_ranks(void **unused) {
  (void)unused;
  static ranks_t ranks;
  for (int i = 0; i < LS_COUNT(sizes); i++)
    expect_fine(&ranks, sizes[i], run_rank);
}

static void all_ranks_fit_together(void **unused) {
  (void)unused;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  for (int i = 0; i < LS_COUNT(sizes); i++) {
    job_t job[RANKS_MAX];
    const ls_schedule_t *s[RANKS_MAX];
    for (int r = 0; r < sizes[i]; r++) {
      make(ctx, r, sizes[i], &job[r]);
      s[r] = job[r].s;
    }
    ls_status_t status = ls_schedule_check_world(s, sizes[i]);
    assert_string_equal(ls_ctx_error(ctx), "");
    assert_int_equal(status, LS_OK);
    for (int r = 0; r < sizes[i]; r++) {
      ls_schedule_destroy(job[r].s);
      ls_state_table_release(job[r].table);
    }
  }
  ls_ctx_destroy(ctx);
}

/* A pair of ranks 0 and 2 that exchange something; rank 1 is in no group. */
static ls_status_t make_pair(ls_ctx_t *ctx, int rank, ls_schedule_t **schedule) {
  ls_schedule_t *s = NULL;
  ls_status_t status = ls_schedule_create(ctx, NULL, rank, 3, 1, &s);
  if (status) return status;
  int a = build_transient(s, "a", PART), pair = ls_schedule_group(s, "ends", (int[]){0, 2}, 2);
  build_source(s, "a", a);
  if (rank != 1) ls_schedule_collective(s, "gradients", pair, LS_ALL_REDUCE, a, a);
  build_op1(s, &op_double, "b", a, build_transient(s, "b", PART));
  status = ls_schedule_finish(s);
  if (status)
    ls_schedule_destroy(s);
  else
    *schedule = s;
  return status;
}

static int fail_at;

/* Rank 2 has the group, but does not run; or rank 0 has no memory. */
static void run_pair(rank_t *rank) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_device_t *device = NULL;
  ls_schedule_t *s = NULL;
  ls_run_t *r = NULL;
  int own = rank->comm->rank;
  assert_int_equal(ls_backend_ref.device->open(ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
  assert_int_equal(make_pair(ctx, own, &s), LS_OK);
  if (own == 0 && fail_at) ls_ctx_fail_alloc(ctx, fail_at);
  rank->status = ls_run_create(ctx, PROGRAM(s), device, rank->comm, NULL, NULL, &r);
  ls_ctx_fail_alloc(ctx, 0);
  if (!fail_at) {
    rank->comm->deadline_ns = INT64_C(60000000000); /* the group keeps the short one */
    ls_comm_set_step(rank->comm, 7);
    if (own < 2 && !rank->status) rank->status = ls_run_launch(r, 0, 0);
    if (own < 2 && !rank->status) rank->status = ls_run_wait(r, 0, NULL);
    if (ls_comm_barrier(rank->comm, "all goes on but the group") != LS_OK) rank->status = LS_ERR_COMM;
  }
  ls_run_destroy(r);
  ls_schedule_destroy(s);
  ls_backend_ref.device->close(device);
  ls_ctx_destroy(ctx);
}

static void a_rank_that_is_missing_in_a_group_is_named(void **unused) {
  (void)unused;
  static ranks_t ranks;
  fail_at = 0;
  ranks_run(&ranks, 3, 500000000, run_pair);
  assert_int_equal(ranks.rank[0].status, LS_ERR_TIMEOUT);
  assert_int_equal(ranks.rank[1].status, LS_OK);
  assert_int_equal(ranks.rank[2].status, LS_OK);
  assert_non_null(strstr(ls_ctx_error(ranks.ctx),
                         "rank 0 of 2 of group \"ends\", step 7, all-reduce \"gradients\": rank "
                         "1 did not arrive within 0.500 s"));
  ranks_release(&ranks);
}

/* No rank waits for ever, whichever fails: the others have their run, or an error. */
static void every_allocation_of_a_run_with_groups_fails_once(void **unused) {
  (void)unused;
  static ranks_t ranks;
  ls_status_t status = LS_ERR_MEMORY;
  for (fail_at = 1; status; fail_at++) {
    assert_in_range(fail_at, 1, 200);
    ranks_run(&ranks, 3, 0, run_pair);
    status = ranks.rank[0].status;
    for (int r = 0; r < 3; r++)
      assert_true(ranks.rank[r].status == LS_OK || ranks.rank[r].status == LS_ERR_MEMORY);
    ranks_release(&ranks);
  }
  assert_true(fail_at > 5);
}

static bool exchange;

static void every_kind_between_processes(void **unused) {
  (void)unused;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm;
  char text[256] = "";
  assert_int_equal(ls_mpi_create(ctx, 0, !exchange, &comm), LS_OK);
  ls_status_t status = run(ctx, comm, text, sizeof text);
  assert_int_equal(ls_comm_agree(comm, "result", status ? status : text[0] ? LS_ERR_INTERNAL : LS_OK), LS_OK);
  assert_string_equal(text, "");
  ls_comm_destroy(comm);
  ls_ctx_destroy(ctx);
}

/* Each thread with a GPU of its own, joined by NCCL over the thread's sim communicator. */
static void run_gpu(rank_t *rank) {
  const ls_cuda_module_t *module;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm = NULL;
  engine_t e = {NULL};
  ls_status_t status = ls_cuda_module_load(ctx, &module);
  ls_device_options_t options = {.index = rank->comm->rank, .threads = 1};
  if (!status) status = module->backend->device->open(ctx, &options, &e.device);
  if (!status) status = module->nccl_create(ctx, e.device, rank->comm, 0, &comm);
  if (!status) status = run_on(&e, ctx, comm, rank->text, sizeof rank->text);
  if (status && !rank->text[0])
    snprintf(rank->text, sizeof rank->text, "%s: %.200s", ls_status_name(status), ls_ctx_error(ctx));
  ls_comm_destroy(comm);
  if (e.device) module->backend->device->close(e.device);
  rank->status = status;
  ls_ctx_destroy(ctx);
}

static int gpus(void) {
  const ls_cuda_module_t *module;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  int count = ls_cuda_module_load(ctx, &module) == LS_OK && module->nccl_create
                  ? module->backend->device->count(ctx)
                  : 0;
  ls_ctx_destroy(ctx);
  return count < CUDA_RANKS_MAX ? count : CUDA_RANKS_MAX;
}

static void every_kind_on_gpus(void **unused) {
  (void)unused;
  static ranks_t ranks;
  for (int size = 1; size <= gpus(); size++)
    expect_fine(&ranks, size, run_gpu);
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
    assert_int_equal(ls_schedule_collective(s, "bad", LS_GROUP_WORLD, bad[i].kind, in, out), -1);
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
  ls_schedule_collective(s, "gather", LS_GROUP_WORLD, LS_ALL_GATHER, other, all);
  build_op1(s, &op_double, "read", all, build_transient(s, "read", 32));
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  assert_int_equal(ls_schedule_check(s), LS_ERR_INTERNAL);
  assert_non_null(strstr(ls_ctx_error(ctx), "of the same"));
  assert_int_equal(ls_schedule_part(s, "beyond", LS_SHAPE(LS_F32, 16), all, 68), -1);
  ls_schedule_destroy(s);
  ls_ctx_destroy(ctx);
}

static void expect_refused(ls_ctx_t *ctx, ls_schedule_t *s, int id, const char *words) {
  assert_int_equal(id, -1);
  assert_int_equal(s->status, LS_ERR_INTERNAL);
  if (!strstr(ls_ctx_error(ctx), words)) fail_msg("'%s' is not in: %s", words, ls_ctx_error(ctx));
  ls_ctx_clear(ctx);
  s->status = LS_OK;
}

static void groups_that_make_no_sense_are_refused(void **unused) {
  (void)unused;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_schedule_t *s = build_begin(ctx, 1, 4, 1);
  const char *list = "no list of different ranks of 4";
  expect_refused(ctx, s, ls_schedule_group(s, "empty", NULL, 0), list);
  expect_refused(ctx, s, ls_schedule_group(s, "twice", (int[]){1, 2, 1}, 3), list);
  expect_refused(ctx, s, ls_schedule_group(s, "beyond", (int[]){1, 4}, 2), list);
  expect_refused(ctx, s, ls_schedule_group(s, "negative", (int[]){-1, 1}, 2), list);
  int a = build_transient(s, "a", 12), mine = ls_schedule_group(s, "mine", (int[]){3, 1, 0}, 3);
  int others = ls_schedule_group(s, "others", (int[]){0, 2}, 2);
  assert_int_equal(s->groups[mine].own, 1);
  assert_int_equal(s->groups[others].own, -1);
  assert_true(mine > 0 && others > mine);
  const char *outside = "in a group that rank 1 is not in";
  expect_refused(ctx, s, ls_schedule_collective(s, "x", others, LS_ALL_REDUCE, a, a), outside);
  expect_refused(ctx, s, ls_schedule_collective(s, "x", 3, LS_ALL_REDUCE, a, a), outside);
  expect_refused(ctx, s, ls_schedule_message(s, "x", mine, LS_SEND, a), "of 3 ranks cannot go from");
  expect_refused(ctx, s, ls_schedule_collective(s, "x", mine, LS_ALL_GATHER, a, a),
                 "of 3 ranks cannot go from");
  ls_schedule_destroy(s);
  ls_ctx_destroy(ctx);
}

int main(int argc, char **argv) {
  const struct CMUnitTest here[] = {cmocka_unit_test(every_kind_on_sim_ranks),
                                    cmocka_unit_test(all_ranks_fit_together),
                                    cmocka_unit_test(a_rank_that_is_missing_in_a_group_is_named),
                                    cmocka_unit_test(every_allocation_of_a_run_with_groups_fails_once),
                                    cmocka_unit_test(sizes_that_do_not_go_together_are_refused),
                                    cmocka_unit_test(groups_that_make_no_sense_are_refused)};
  const struct CMUnitTest between[] = {cmocka_unit_test(every_kind_between_processes)};
  const struct CMUnitTest devices[] = {cmocka_unit_test(every_kind_on_gpus)};
  const char *how = argc > 1 ? argv[1] : "";
  exchange = !strcmp(how, "exchange");
  if (exchange || !strcmp(how, "mpi")) return cmocka_run_group_tests(between, NULL, NULL);
  if (strcmp(how, "cuda") != 0) return cmocka_run_group_tests(here, NULL, NULL);
  if (gpus()) return cmocka_run_group_tests(devices, NULL, NULL);
  printf("skipped: no GPU, or no NCCL\n");
  return 77;
}
