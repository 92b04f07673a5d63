/* The mpi transport in real processes: mpirun -np N test_comm_mpi window|exchange. */

#include "comm/mpi/mpi.h"
#include "worlds.h"

#include "unit.h"
#include <string.h>

/* Open MPI never gives back what its plug-ins take when it starts, and unloads them, so that no suppression
 * matches: that part is not watched. What comes after it is looked at before MPI ends. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
static void watch(bool on) {
  if (on)
    __lsan_enable();
  else
    __lsan_disable();
}
static int leaks(void) {
  return __lsan_do_recoverable_leak_check();
}
#else
static void watch(bool on) {
  (void)on;
}
static int leaks(void) {
  return 0;
}
#endif

typedef struct {
  bool window;
  ls_ctx_t *ctx;
  ls_comm_t *comm;
} fixture_t;
static fixture_t fixture;

static const int ranks[] = {0, 1, 2};
static const int64_t long_ns = 60000000000;

static void create(int64_t deadline_ns) {
  assert_int_equal(ls_mpi_create(fixture.ctx, deadline_ns, fixture.window, &fixture.comm), LS_OK);
  assert_int_equal(((ls_mpi_t *)fixture.comm)->windowed, fixture.window);
}

static int set_up(void **state) {
  fixture.ctx = ls_ctx_create(NULL, NULL);
  create(long_ns);
  return 0;
}

static int tear_down(void **state) {
  ls_comm_destroy(fixture.comm);
  ls_ctx_destroy(fixture.ctx);
  return 0;
}

static void test_ranks_are_numbered(void **state) {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  assert_int_equal(fixture.comm->rank, rank);
  assert_int_equal(fixture.comm->size, size);
  assert_int_equal(fixture.comm->local_rank, rank); /* the suite runs on one host */
  assert_int_equal(fixture.comm->local_size, size);
  int launched_rank = 0, launched_size = 1;
  if (ls_comm_launched(&launched_rank, &launched_size)) {
    assert_int_equal(launched_rank, rank);
    assert_int_equal(launched_size, size);
  }
}

static void by(world_fn fn) {
  char text[CASES_TEXT_BYTES];
  const char *wrong = fn(fixture.comm, text);
  if (wrong) fail_msg("%s; %s", wrong, ls_ctx_error(fixture.ctx));
}

static void test_ranks_work(void **state) {
  (void)state;
  by(world_sums);
  by(world_overlap);
  by(world_agreement);
  by(world_late_member);
  by(world_allocations);
}

static void test_groups(void **state) {
  (void)state;
  by(world_groups);
  ls_comm_t *group = NULL;
  assert_int_equal(ls_comm_group(fixture.comm, "all", ranks, fixture.comm->size, &group), LS_OK);
  assert_int_equal(((ls_mpi_t *)group)->windowed, fixture.window);
  ls_comm_destroy(group);
}

static void test_late_rank_is_named(void **state) {
  (void)state;
  by(world_late_rank);
  MPI_Barrier(
      MPI_COMM_WORLD); /* the absent rank does not come to destroy's barrier before the others gave up */
}

static void test_every_allocation_fails_once(void **state) {
  for (int n = 1;; n++) {
    ls_comm_t *comm = NULL;
    assert_in_range(n, 1, 100);
    ls_ctx_fail_alloc(fixture.ctx, fixture.comm->rank == 0 ? n : 0);
    ls_status_t status = ls_mpi_create(fixture.ctx, long_ns, fixture.window, &comm);
    ls_ctx_fail_alloc(fixture.ctx, 0);
    if (status == LS_OK) {
      ls_comm_destroy(comm);
      break;
    }
    assert_int_equal(status, fixture.comm->rank == 0 ? LS_ERR_MEMORY : LS_ERR_COMM);
    assert_null(comm);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_ranks_are_numbered, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_ranks_work, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_groups, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_every_allocation_fails_once, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_late_rank_is_named, set_up, tear_down),
  };
  int level;
  if (argc != 2) return 2;
  fixture.window = strcmp(argv[1], "window") == 0;
  watch(false);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  watch(true);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  if (leaks()) failed++;
  if (failed) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return failed;
}
