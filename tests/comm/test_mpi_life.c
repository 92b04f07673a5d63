/* The life of MPI in a process: started by the first communicator and ended with it; "abort": one rank fails
 * and the job ends instead of waiting for it. */

#include "cases.h"

#include "unit.h"
#include <string.h>

static void test_begins_and_ends(void **state) {
  char text[CASES_TEXT_BYTES];
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm = NULL;
  assert_int_equal(ls_comm_mpi_create(ctx, 0, &comm), LS_OK);
  assert_string_equal(comm->ops->name, "mpi");
  const char *wrong = cases_bits(comm, text);
  if (wrong) fail_msg("%s", wrong);
  ls_comm_destroy(comm);
  comm = NULL;
  assert_int_equal(ls_comm_mpi_create(ctx, 0, &comm), LS_ERR_UNSUPPORTED);
  assert_null(comm);
  assert_non_null(strstr(ls_ctx_error(ctx), "finalized"));
  ls_ctx_destroy(ctx);
}

/* Rank 1 aborts while the others wait for it. Only a job that is not ended returns 0. */
static int abort_one(void) {
  ls_comm_t *comm = NULL;
  if (ls_comm_mpi_create(NULL, 0, &comm) != LS_OK) return 0;
  if (comm->rank == 1) ls_comm_abort(comm, 9);
  ls_comm_barrier(comm, "never");
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_begins_and_ends)};
  if (argc > 1 && strcmp(argv[1], "abort") == 0) return abort_one();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
