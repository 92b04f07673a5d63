/* Files of Open MPI in /dev/shm: those of a killed rank's job are removed, and no others. */
#include "supervise/segments.h"

#include "base/base.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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
  for (int i = 0; i < LS_COUNT(kinds); i++) {
    const char *const other[] = {kinds[i], i == 0 ? kinds[1] : kinds[0]};
    ls_segments_t segments = {.job = ""};
    put(named(kinds[i], "8980001.0"));
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t rank = fork();
    if (rank == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with this test, also where an assertion fails */
      const int fd = open(path, O_RDWR | O_CLOEXEC);
      void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
      if (write(ready[1], at == MAP_FAILED ? "n" : "y", 1) != 1) _exit(1);
      for (;;)
        pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    ls_segments_look(&segments, getpid());
    ls_segments_remove(&segments); /* not known: nothing is removed */
    assert_string_equal(segments.job, "");
    ls_segments_look(&segments, rank);
    assert_string_not_equal(segments.job, "");
    kill(rank, SIGKILL);
    assert_int_equal(waitpid(rank, NULL, 0), rank);
    put(named(other[0], "8980001.1"));
    put(named(other[1], "8980001.2"));
    put(named("osc_sm.lockstep-%d.a.b.%s", "8980001.0.5"));
    put(named(kinds[i], "89800012.0")); /* another job's */
    put(named("osc_sm.lockstep-%d.a.b.%s", "8980002.0.5"));
    ls_segments_remove(&segments);
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

static void mappings_are_looked_at_ten_times_a_second_until_the_first_step(void **state) {
  enum { MS = 1000000 };
  ls_segments_t segments = {.job = ""};
  int looks = 0;
  for (int64_t now_ns = 1; now_ns < 2000 * (int64_t)MS; now_ns += 10 * MS)
    looks += ls_segments_due(&segments, false, now_ns);
  assert_int_equal(looks, 20);
  assert_true(ls_segments_due(&segments, true, 2000 * (int64_t)MS));
  assert_false(ls_segments_due(&segments, true, 9000 * (int64_t)MS));
  segments = (ls_segments_t){.job = "known"};
  assert_false(ls_segments_due(&segments, false, 1));
}

TESTS(NULL, NULL, what_a_killed_rank_leaves_in_shared_memory_is_removed,
      mappings_are_looked_at_ten_times_a_second_until_the_first_step)
