/* The mpi transport in real processes: mpirun -np N test_comm_mpi window|exchange. */

#include "cases.h"
#include "comm/mpi/mpi.h"

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
static const int64_t long_ns = 60000000000, short_ns = 200000000;

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

static void expect_fine(const char *wrong) {
  if (wrong) fail_msg("%s; %s", wrong, ls_ctx_error(fixture.ctx));
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

static void test_exact_blocking(void **state) {
  char text[CASES_TEXT_BYTES];
  expect_fine(cases_run(fixture.comm, NULL, text));
}

static void test_same_bits_everywhere(void **state) {
  char text[CASES_TEXT_BYTES];
  expect_fine(cases_bits(fixture.comm, text));
}

static void with_stream(const char *(*fn)(ls_comm_t *comm, ls_stream_t *stream, char *text)) {
  const ls_backend_t *backend = &ls_backend_ref;
  ls_device_t *device;
  ls_stream_t *stream;
  char text[CASES_TEXT_BYTES];
  assert_int_equal(backend->device->open(fixture.ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
  assert_int_equal(backend->stream->create(device, LS_STREAM_ASYNC, &stream), LS_OK);
  const char *wrong = fn(fixture.comm, stream, text);
  backend->stream->destroy(stream);
  backend->device->close(device);
  expect_fine(wrong);
}

static void test_exact_async_stream(void **state) {
  with_stream(cases_run);
}

static void test_control_while_the_lane_is_busy(void **state) {
  with_stream(cases_overlap);
}

static void test_groups(void **state) {
  with_stream(cases_groups);
  ls_comm_t *group = NULL;
  assert_int_equal(ls_comm_group(fixture.comm, "all", ranks, fixture.comm->size, &group), LS_OK);
  assert_int_equal(((ls_mpi_t *)group)->windowed, fixture.window);
  ls_comm_destroy(group);
}

static void test_agree(void **state) {
  ls_comm_t *comm = fixture.comm;
  const int bad = comm->size - 1;
  ls_status_t status = ls_comm_agree(comm, "start", comm->rank == bad ? LS_ERR_DATA : LS_OK);
  assert_int_equal(status, LS_ERR_DATA); /* the cause, at every rank */
  if (comm->rank != bad) assert_non_null(strstr(ls_ctx_error(fixture.ctx), "has failed"));
  ls_ctx_clear(fixture.ctx);
  assert_int_equal(ls_comm_agree(comm, "go on", LS_OK), LS_OK);
}

static void test_late_rank_is_named(void **state) {
  ls_comm_destroy(fixture.comm);
  create(short_ns);
  ls_comm_t *comm = fixture.comm;
  float x[8] = {0};
  const ls_collective_t c = {.kind = LS_ALL_REDUCE, .name = "gradients 3", .send = x, .recv = x, .count = 8};
  ls_comm_set_step(comm, 7);
  const int absent = comm->size - 1;
  if (comm->size > 1 && comm->rank != absent) {
    assert_int_equal(comm->ops->run(comm, &c), LS_ERR_TIMEOUT);
    const char *message = ls_ctx_error(fixture.ctx);
    char late[64];
    snprintf(late, sizeof late, "rank %d did not %s", absent, fixture.window ? "arrive" : "send");
    assert_non_null(strstr(message, "step 7, all-reduce \"gradients 3\""));
    if (comm->size == 2) assert_non_null(strstr(message, late));
    assert_int_equal(comm->ops->run(comm, &c), LS_ERR_COMM);
    assert_int_equal(comm->ops->poll(comm), LS_ERR_COMM);
    assert_int_equal(ls_ctx_error_count(fixture.ctx), 1);
  }
  MPI_Barrier(
      MPI_COMM_WORLD); /* the absent rank does not come to destroy's barrier before the others gave up */
}

/* The group of all ranks but the first: its last one stays away. */
static void test_late_member_of_a_group_is_named(void **state) {
  ls_comm_t *comm = fixture.comm, *group = NULL;
  float x[8] = {0};
  const ls_collective_t c = {.kind = LS_ALL_REDUCE, .name = "gradients 3", .send = x, .recv = x, .count = 8};
  assert_int_equal(ls_comm_group(comm, "tail", ranks + 1, comm->size - 1, &group), LS_OK);
  if (group && group->rank < group->size - 1) {
    group->deadline_ns = short_ns;
    assert_int_equal(group->ops->run(group, &c), LS_ERR_TIMEOUT);
    assert_non_null(
        strstr(ls_ctx_error(fixture.ctx), "of group \"tail\", step 0, all-reduce \"gradients 3\""));
    ls_ctx_clear(fixture.ctx);
  }
  assert_int_equal(comm->ops->run(comm, &c), LS_OK); /* all ranks go on */
  if (group && group->size > 1) group->broken = true;
  ls_comm_destroy(group);
}

static void test_every_allocation_of_a_split_fails_once(void **state) {
  ls_comm_t *group = NULL, *comm = fixture.comm;
  ls_status_t status = LS_ERR_MEMORY;
  for (int n = 1; status != LS_OK; n++) {
    assert_in_range(n, 1, 100);
    ls_ctx_fail_alloc(fixture.ctx, comm->rank == 0 ? n : 0);
    status = ls_comm_group(comm, "all", ranks, comm->size, &group);
    ls_ctx_fail_alloc(fixture.ctx, 0);
    assert_int_equal(ls_comm_barrier(comm, "still whole"), LS_OK);
    assert_true(status == LS_OK ? group != NULL : group == NULL);
    if (status != LS_OK && status != LS_ERR_COMM) assert_int_equal(status, LS_ERR_MEMORY);
  }
  ls_comm_destroy(group);
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
      cmocka_unit_test_setup_teardown(test_exact_blocking, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_exact_async_stream, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_same_bits_everywhere, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_control_while_the_lane_is_busy, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_groups, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_agree, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_late_member_of_a_group_is_named, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_every_allocation_of_a_split_fails_once, set_up, tear_down),
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
