/* The shm transport: ranks as children of this process, each of which joins the memory that it has inherited. */
#include "cases.h"
#include "comm/shm/shm.h"

#include "unit.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MOST = 5, GOOD = 0, BAD = 1, ABORTED = 9 };
static const int64_t long_ns = 60000000000, short_ns = 200000000;

typedef struct {
  ls_ctx_t *ctx;
  ls_comm_t *comm;
} rank_t;

/* NULL, or what is wrong; `text` has room for it. */
typedef const char *(*rank_fn)(rank_t *rank, char text[CASES_TEXT_BYTES]);

static int be_rank(const ls_shm_world_t *world, int i, rank_fn fn) {
  char variable[LS_SHM_NAME_BYTES], text[CASES_TEXT_BYTES];
  rank_t rank = {.ctx = ls_ctx_create(NULL, NULL)};
  int own, size;
  ls_comm_shm_name(world, i, variable);
  putenv(variable);
  if (!ls_comm_launched(&own, &size) || own != i || size != world->size) return BAD;
  if (ls_comm_world_create(rank.ctx, long_ns, &rank.comm) != LS_OK) return BAD;
  const char *wrong = fn(&rank, text);
  if (wrong) fprintf(stderr, "rank %d of %d: %s; %s\n", i, size, wrong, ls_ctx_error(rank.ctx));
  ls_comm_destroy(rank.comm);
  ls_ctx_destroy(rank.ctx);
  return wrong ? BAD : GOOD;
}

/* How many of `size` ranks ended with this code. */
static int run_world(ls_shm_world_t *world, int size, rank_fn fn, int code) {
  pid_t pid[RANKS_MOST];
  int count = 0;
  assert_int_equal(ls_comm_shm_prepare(NULL, size, world), LS_OK);
  for (int i = 0; i < size; i++) {
    fflush(NULL);
    pid[i] = fork();
    assert_true(pid[i] >= 0);
    if (pid[i] == 0) _exit(be_rank(world, i, fn));
  }
  for (int i = 0; i < size; i++) {
    int state;
    assert_int_equal(waitpid(pid[i], &state, 0), pid[i]);
    count += WIFEXITED(state) && WEXITSTATUS(state) == code;
  }
  return count;
}

static void all_good(rank_fn fn) {
  for (int size = 2; size <= RANKS_MOST; size++) {
    ls_shm_world_t world;
    assert_int_equal(run_world(&world, size, fn, GOOD), size);
    for (int i = 0; i < size; i++)
      assert_true(ls_comm_shm_joined(&world, i) && ls_comm_shm_left(&world, i));
    assert_int_equal(ls_comm_shm_aborted(&world), 0);
    ls_comm_shm_release(&world);
  }
}

static const char *with_stream(rank_t *rank, char *text,
                               const char *(*fn)(ls_comm_t *comm, ls_stream_t *stream, char *text)) {
  const ls_backend_t *backend = &ls_backend_ref;
  ls_device_t *device;
  ls_stream_t *stream;
  if (backend->device->open(rank->ctx, &(ls_device_options_t){.threads = 1}, &device) != LS_OK)
    return "device";
  if (backend->stream->create(device, LS_STREAM_ASYNC, &stream) != LS_OK) return "stream";
  const char *wrong = fn(rank->comm, stream, text);
  backend->stream->destroy(stream);
  backend->device->close(device);
  return wrong;
}

static const char *exact(rank_t *rank, char *text) {
  const char *wrong = cases_run(rank->comm, NULL, text);
  if (!wrong) wrong = cases_bits(rank->comm, text);
  return wrong ? wrong : with_stream(rank, text, cases_run);
}

static const char *overlap(rank_t *rank, char *text) {
  return with_stream(rank, text, cases_overlap);
}

static const char *groups(rank_t *rank, char *text) {
  return with_stream(rank, text, cases_groups);
}

static const char *allocations(rank_t *rank, char *text) {
  (void)text;
  static const int all[] = {0, 1, 2, 3, 4};
  ls_comm_t *group = NULL;
  ls_status_t status = LS_ERR_MEMORY;
  for (int n = 1; status != LS_OK; n++) {
    if (n > 100) return "a group is never made";
    ls_ctx_fail_alloc(rank->ctx, rank->comm->rank == 0 ? n : 0);
    status = ls_comm_group(rank->comm, "all", all, rank->comm->size, &group);
    ls_ctx_fail_alloc(rank->ctx, 0);
    if (ls_comm_barrier(rank->comm, "still whole") != LS_OK) return "the ranks have lost each other";
    if ((status == LS_OK) != (group != NULL)) return "a group beside an error";
  }
  ls_comm_destroy(group);
  return NULL;
}

static const char *twice(rank_t *rank, char *text) {
  (void)text;
  ls_comm_t *again = NULL;
  if (ls_comm_shm_create(rank->ctx, 0, &again) != LS_ERR_UNSUPPORTED || again) return "joined twice";
  return strstr(ls_ctx_error(rank->ctx), "met already") ? NULL : "other words";
}

/* The last rank stays away for longer than the deadline. */
static const char *late(rank_t *rank, char *text) {
  (void)text;
  ls_comm_t *comm = rank->comm;
  comm->deadline_ns = short_ns;
  if (comm->rank == comm->size - 1) {
    poll(NULL, 0, 600);
    comm->broken = true;
    return NULL;
  }
  float x[8] = {0};
  const ls_collective_t c = {.kind = LS_ALL_REDUCE, .name = "gradients 3", .send = x, .recv = x, .count = 8};
  ls_comm_set_step(comm, 7);
  if (comm->ops->run(comm, &c) != LS_ERR_TIMEOUT) return "not late";
  return strstr(ls_ctx_error(rank->ctx), "step 7, all-reduce \"gradients 3\"") ? NULL : "other words";
}

static const char *abort_one(rank_t *rank, char *text) {
  (void)text;
  rank->comm->deadline_ns = short_ns;
  if (rank->comm->rank == 1) ls_comm_abort(rank->comm, ABORTED);
  return NULL;
}

static const char *vanish(rank_t *rank, char *text) {
  (void)text;
  if (rank->comm->rank == 1) _exit(GOOD);
  rank->comm->deadline_ns = short_ns;
  return NULL;
}

static void test_exact(void **state) {
  all_good(exact);
}
static void test_control_while_the_lane_is_busy(void **state) {
  all_good(overlap);
}
static void test_groups(void **state) {
  all_good(groups);
}
static void test_every_allocation_of_a_group_fails_once(void **state) {
  all_good(allocations);
}
static void test_ranks_meet_once(void **state) {
  all_good(twice);
}

static void test_late_rank_is_named(void **state) {
  ls_shm_world_t world;
  assert_int_equal(run_world(&world, 3, late, GOOD), 3);
  assert_false(ls_comm_shm_left(&world, 0)); /* a broken world is not left together */
  ls_comm_shm_release(&world);
}

static void test_the_first_abort_is_the_code(void **state) {
  ls_shm_world_t world;
  assert_int_equal(run_world(&world, 2, abort_one, ABORTED), 1);
  assert_int_equal(ls_comm_shm_aborted(&world), ABORTED);
  ls_comm_shm_release(&world);
}

static void test_a_rank_that_just_ends_has_not_left(void **state) {
  ls_shm_world_t world;
  assert_int_equal(run_world(&world, 2, vanish, GOOD), 2);
  assert_true(ls_comm_shm_joined(&world, 1) && !ls_comm_shm_left(&world, 1));
  ls_comm_shm_release(&world);
}

/* A process may get the variable by chance: the number then means another file, or none. */
static void test_another_process_is_no_rank(void **state) {
  static const struct {
    const char *value;
    bool rank;
  } rows[] = {{"0 2 77", true},   {"0 2 2", false}, {"2 2 9", false}, {"-1 2 9", false},
              {"0 2 9 1", false}, {"0 2", false},   {"", false}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    int rank, size;
    ls_comm_t *comm = NULL;
    ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
    setenv("LOCKSTEP_RANK", rows[i].value, 1);
    assert_int_equal(ls_comm_shm_started(&rank, &size), rows[i].rank);
    assert_int_equal(ls_comm_shm_create(ctx, 0, &comm), LS_ERR_COMM);
    assert_null(comm);
    ls_ctx_destroy(ctx);
  }
  unsetenv("LOCKSTEP_RANK");
}

TESTS(NULL, NULL, test_exact, test_control_while_the_lane_is_busy, test_groups,
      test_every_allocation_of_a_group_fails_once, test_ranks_meet_once, test_late_rank_is_named,
      test_the_first_abort_is_the_code, test_a_rank_that_just_ends_has_not_left,
      test_another_process_is_no_rank)
