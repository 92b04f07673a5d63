/* Files of Open MPI in /dev/shm: those of a killed rank's job are removed, and no others. */
#include "supervise/segments.h"

#include "base/base.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

static char path[160];

static const char *named(const char *format, const char *rest) {
  snprintf(path, sizeof path, "/dev/shm/");
  snprintf(path + strlen(path), sizeof path - strlen(path), format, (int)getpid(), rest);
  return path;
}

static void put(const char *file) {
  const int fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, 4096), 0);
  close(fd);
}

static void what_a_killed_rank_leaves_in_shared_memory_is_removed(void **state) {
  static const char *const kinds[] = {"vader_segment.lockstep-%d.a.b.0.%s",
                                      "sm_segment.lockstep-%d.a.b.0.%s"};
  (void)state;
  for (int i = 0; i < LS_COUNT(kinds); i++) {
    const char *const other[] = {kinds[i], i == 0 ? kinds[1] : kinds[0]};
    char job[LS_SEGMENTS_JOB_BYTES] = "";
    put(named(kinds[i], "8980001.0"));
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t rank = fork();
    if (rank == 0) {
      const int fd = open(path, O_RDWR | O_CLOEXEC);
      void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
      if (write(ready[1], at == MAP_FAILED ? "n" : "y", 1) != 1) _exit(1);
      for (;;)
        pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_false(ls_segments_find(getpid(), job));
    assert_true(ls_segments_find(rank, job));
    kill(rank, SIGKILL);
    assert_int_equal(waitpid(rank, NULL, 0), rank);
    put(named(other[0], "8980001.1"));
    put(named(other[1], "8980001.2"));
    put(named("osc_sm.lockstep-%d.a.b.%s", "8980001.0.5"));
    put(named(kinds[i], "89800012.0")); /* another job's */
    put(named("osc_sm.lockstep-%d.a.b.%s", "8980002.0.5"));
    ls_segments_remove("");
    ls_segments_remove(job);
    assert_int_not_equal(access(named(kinds[i], "8980001.0"), F_OK), 0);
    assert_int_not_equal(access(named(other[0], "8980001.1"), F_OK), 0);
    assert_int_not_equal(access(named(other[1], "8980001.2"), F_OK), 0);
    assert_int_not_equal(access(named("osc_sm.lockstep-%d.a.b.%s", "8980001.0.5"), F_OK), 0);
    assert_int_equal(unlink(named(kinds[i], "89800012.0")), 0);
    assert_int_equal(unlink(named("osc_sm.lockstep-%d.a.b.%s", "8980002.0.5")), 0);
    close(ready[0]);
    close(ready[1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_a_killed_rank_leaves_in_shared_memory_is_removed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
