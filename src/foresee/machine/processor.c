/* Reads numbers of the kernel, each of which a system may lack: proc_pid_schedstat, cpufreq, thermal_throttle
 * (sysfs). */
#include "machine/processor.h"

#include "base/clock.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

enum { PROCESSORS_MAX = 32 };

/* Reads the number in a file, or the one after `skip` others. */
static double number_in(const char *root, const char *path, int skip) {
  char whole[PATH_MAX];
  double value = NAN;
  snprintf(whole, sizeof whole, "%s%s", root ? root : "", path);
  FILE *file = fopen(whole, "re");
  if (!file) return NAN;
  for (int i = 0; i <= skip; i++)
    if (fscanf(file, "%lf", &value) != 1) value = NAN;
  fclose(file);
  return value;
}

static double of_processor(const char *root, int processor, const char *name) {
  char path[128];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", processor, name);
  return number_in(root, path, 0);
}

/* Takes about 3 us, and returns the least of a few, because one may be interrupted. The operations are independent
 * and fill the width of a core. Another thread on the same core takes a share of that width, and slows them about
 * as much as it slows a step. It would not slow a chain of operations. */
static double loop_ns(void) {
  enum { TIMES = 5, ROUNDS = 6000 };
  unsigned long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
  int64_t least_ns = INT64_MAX;
  for (int n = 0; n < TIMES; n++) {
    const int64_t begin_ns = ls_clock_ns();
    for (unsigned long i = 0; i < ROUNDS; i++) {
      a += b;
      b += i;
      c ^= d;
      d += 3;
      e += f;
      f ^= 7;
      __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f)); /* not to be left out */
    }
    const int64_t ns = ls_clock_ns() - begin_ns;
    if (ns < least_ns) least_ns = ns;
  }
  return (double)least_ns;
}

void ls_processor_read(const char *root, ls_processor_t *now) {
  cpu_set_t set;
  double clocks = 0;
  int read = 0, clocked = 0;
  *now = (ls_processor_t){.waited_ns = number_in(root, "/proc/self/schedstat", 1),
                          .clock_ratio = NAN,
                          .loop_ns = NAN,
                          .heat_events = -1};
  if (sched_getaffinity(getpid(), sizeof set, &set) != 0) return;
  if (CPU_COUNT(&set) == 1) now->loop_ns = loop_ns();
  for (int i = 0; i < CPU_SETSIZE && read < PROCESSORS_MAX; i++) {
    if (!CPU_ISSET(i, &set)) continue;
    read++;
    const double clock =
        of_processor(root, i, "cpufreq/scaling_cur_freq") / of_processor(root, i, "cpufreq/cpuinfo_max_freq");
    const double events = of_processor(root, i, "thermal_throttle/core_throttle_count");
    clocked += clock > 0;
    clocks += clock > 0 ? clock : 0;
    if (events >= 0) now->heat_events = fmax(0, now->heat_events) + events;
  }
  if (clocked > 0) now->clock_ratio = clocks / clocked;
}
