/* The shm transport: ranks as children of this process, each of which joins the memory that it has inherited. */
#include "comm/shm/shm.h"
#include "worlds.h"

#include "unit.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MOST = 5, GOOD = 0, BAD = 1, ABORTED = 9 };
static const int64_t long_ns = 60000000000, short_ns = 200000000;

static int be_rank(const ls_shm_world_t *world, int i, world_fn fn) {
  char variable[LS_SHM_NAME_BYTES], text[CASES_TEXT_BYTES];
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm;
  int own, size;
  ls_comm_shm_name(world, i, variable);
  putenv(variable);
  if (!ls_comm_launched(&own, &size) || own != i || size != world->size) return BAD;
  if (ls_comm_world_create(ctx, long_ns, &comm) != LS_OK) return BAD;
  const char *wrong = fn(comm, text);
  if (wrong) fprintf(stderr, "rank %d of %d: %s; %s\n", i, size, wrong, ls_ctx_error(ctx));
  ls_comm_destroy(comm);
  ls_ctx_destroy(ctx);
  return wrong ? BAD : GOOD;
}

/* How many of `size` ranks ended with this code. */
static int run_world(ls_shm_world_t *world, int size, world_fn fn, int code) {
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

static const char *join_twice(ls_comm_t *comm, char *text) {
  (void)text;
  ls_comm_t *again = NULL;
  if (ls_comm_shm_create(comm->ctx, 0, &again) != LS_ERR_UNSUPPORTED || again) return "joined twice";
  return strstr(ls_ctx_error(comm->ctx), "met already") ? NULL : "other words";
}

static const char *abort_one(ls_comm_t *comm, char *text) {
  (void)text;
  comm->deadline_ns = short_ns;
  if (comm->rank == 1) ls_comm_abort(comm, ABORTED);
  return NULL;
}

static const char *vanish(ls_comm_t *comm, char *text) {
  (void)text;
  if (comm->rank == 1) _exit(GOOD);
  comm->deadline_ns = short_ns;
  return NULL;
}

static const char *stay_away(ls_comm_t *comm, char *text) {
  const char *wrong = world_late_rank(comm, text);
  if (comm->rank == comm->size - 1) poll(NULL, 0, 600);
  comm->broken = true;
  return wrong;
}

static void ranks_meet_work_and_leave(void **state) {
  (void)state;
  static const struct {
    world_fn fn;
    int size;
  } rows[] = {{world_sums, 2},      {world_sums, 3},        {world_sums, 5},        {world_overlap, 2},
              {world_overlap, 3},   {world_groups, 3},      {world_groups, 5},      {world_agreement, 2},
              {world_agreement, 3}, {world_allocations, 3}, {world_late_member, 3}, {join_twice, 2}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_shm_world_t world;
    if (run_world(&world, rows[i].size, rows[i].fn, GOOD) != rows[i].size) fail_msg("row %d", i);
    for (int r = 0; r < rows[i].size; r++)
      assert_true(ls_comm_shm_joined(&world, r) && ls_comm_shm_left(&world, r));
    assert_int_equal(ls_comm_shm_aborted(&world), 0);
    ls_comm_shm_release(&world);
  }
}

static void late_rank_is_named(void **state) {
  (void)state;
  ls_shm_world_t world;
  for (int size = 2; size <= 3; size++) {
    assert_int_equal(run_world(&world, size, stay_away, GOOD), size);
    assert_false(ls_comm_shm_left(&world, 0)); /* a broken world is not left together */
    ls_comm_shm_release(&world);
  }
}

static void the_first_abort_is_the_code(void **state) {
  (void)state;
  ls_shm_world_t world;
  assert_int_equal(run_world(&world, 2, abort_one, ABORTED), 1);
  assert_int_equal(ls_comm_shm_aborted(&world), ABORTED);
  ls_comm_shm_release(&world);
}

static void a_rank_that_just_ends_has_not_left(void **state) {
  (void)state;
  ls_shm_world_t world;
  assert_int_equal(run_world(&world, 2, vanish, GOOD), 2);
  assert_true(ls_comm_shm_joined(&world, 1) && !ls_comm_shm_left(&world, 1));
  ls_comm_shm_release(&world);
}

/* A process may get the variable by chance: the number then means another file, or none. */
static void another_process_is_no_rank(void **state) {
  (void)state;
  static const struct {
    const char *value;
    bool rank;
  } rows[] = {{"0 2 77", true},   {"0 2 2", false}, {"2 2 9", false}, {"-1 2 9", false},
              {"0 2 9 1", false}, {"0 2", false},   {"", false}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    int rank, size;
    ls_comm_t *comm = NULL;
    setenv("LOCKSTEP_RANK", rows[i].value, 1);
    assert_int_equal(ls_comm_shm_started(&rank, &size), rows[i].rank);
    assert_int_equal(ls_comm_shm_create(NULL, 0, &comm), LS_ERR_COMM);
    assert_null(comm);
  }
  unsetenv("LOCKSTEP_RANK");
}

TESTS(NULL, NULL, ranks_meet_work_and_leave, late_rank_is_named, the_first_abort_is_the_code,
      a_rank_that_just_ends_has_not_left, another_process_is_no_rank)
