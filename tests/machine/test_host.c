/* Reading the machine that runs the tests: what every Linux machine has is there, twice the same. */
#include "base/capture.h"
#include "machine/machine.h"

static ls_machine_t a, b; /* large */

static void reads_this_machine(void **state) {
  capture_t *c = *state;
  char x[17], y[17];
  memset(&a, 0xee, sizeof a);
  assert_int_equal(ls_machine_read(c->ctx, &a), LS_OK);
  assert_int_equal(ls_machine_read(c->ctx, &b), LS_OK);
  assert_true(a.threads >= 1 && a.usable_cpus >= 1);
  assert_int_equal(a.usable_cpus, ls_cpu_count());
  assert_true(a.memory_bytes > 1 << 20);
  assert_true(a.gpu_count >= 0 && a.gpu_count <= LS_GPU_MAX);
  assert_int_equal(strncmp(a.kernel, "Linux ", 6), 0);
  assert_true(*a.mpi && *a.blas);
  assert_null(strchr(a.mpi, ','));
  ls_machine_fingerprint(&a, x);
  ls_machine_fingerprint(&b, y);
  assert_string_equal(x, y);
  assert_int_equal(c->count, 0); /* what is missing is no message */
}

static ls_status_t read_one(capture_t *c) {
  return ls_machine_read(c->ctx, &a);
}

static void every_allocation_fails_once(void **state) {
  assert_in_range(capture_fail_each_alloc(*state, read_one), 1, 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(reads_this_machine, capture_setup, capture_teardown),
      cmocka_unit_test_setup_teardown(every_allocation_fails_once, capture_setup, capture_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
