/* How busy other programs are, from recorded texts of /proc/stat. */
#include "machine/load.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

static char path[] = "/tmp/lockstep-test-XXXXXX";

/* The processor that this process runs on, and one that it may not use. */
static int own_cpu(void) {
  cpu_set_t mine;
  assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &mine)) return cpu;
  return 0;
}

/* user, idle, iowait and steal. The line of all processors stands before, as in the real file; its first
 * number could be taken for the processor's. */
static ls_load_t read_text(int user, int idle, int iowait, int steal) {
  ls_load_t load;
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fprintf(
      file,
      "cpu  %d 9 9 9 9 9 9 9 0 0\ncpu%d %d 0 0 %d %d 0 0 %d 0 0\ncpu99999 77 0 0 1 0 0 0 0 0 0\nintr 5 4 3\n",
      own_cpu(), own_cpu(), user, idle, iowait, steal);
  fclose(file);
  ls_load_read(path, &load);
  load.own_ns = 0;
  return load;
}

static void other_programs_share_is_busy_time_less_our_own(void **state) {
  ls_load_t begin = read_text(100, 1000, 10, 0), end = read_text(160, 1030, 20, 0);
  assert_int_equal(end.all_ticks, 1210);
  assert_true(fabs(ls_load_others(&begin, &end) - 0.6) < 1e-12);
  end.own_ns = (int64_t)(40 * 1e9 / (double)sysconf(_SC_CLK_TCK)); /* 40 of the 60 ticks were ours */
  assert_true(fabs(ls_load_others(&begin, &end) - 0.2) < 1e-9);
  end.own_ns *= 2; /* ticks are coarse: never below 0 */
  assert_true(ls_load_others(&begin, &end) == 0);
}

static void stolen_time_counts(void **state) {
  ls_load_t begin = read_text(0, 100, 0, 0), end = read_text(0, 150, 0, 50);
  assert_true(fabs(ls_load_others(&begin, &end) - 0.5) < 1e-12);
}

static void what_cannot_be_read_is_not_known(void **state) {
  ls_load_t none, begin = read_text(1, 1, 1, 1);
  ls_load_read("/nonexistent/stat", &none);
  assert_true(isnan(ls_load_others(&none, &none)));
  assert_true(isnan(ls_load_others(&begin, &begin))); /* no time has gone by */
}

static int setup(void **state) {
  int fd = mkstemp(path);
  return fd < 0 || close(fd) != 0;
}
static int teardown(void **state) {
  return unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(other_programs_share_is_busy_time_less_our_own),
                                     cmocka_unit_test(stolen_time_counts),
                                     cmocka_unit_test(what_cannot_be_read_is_not_known)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
