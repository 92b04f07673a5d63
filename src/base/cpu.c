/* The number of cores that this process may use: the affinity mask, reduced by the CPU quota of its control
 * groups. A container with a quota of two cores on a big host should start two threads. */
#include "base/cgroup.h"
#include "base/thread.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static int affinity_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  long online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t holds */
  return online > 0 && online < 65536 ? (int)online : 1;
}

static int cores_of(double quota_us, double period_us, int cores) {
  if (!(quota_us > 0) || !(period_us > 0) || quota_us / period_us >= cores) return cores;
  int quota_cores = (int)(quota_us / period_us + 0.5);
  return quota_cores > 1 ? quota_cores : 1;
}

/* Version 2: "max 100000" or "200000 100000". */
static void cut(void *cores, const char *line) {
  double quota_us, period_us;
  if (sscanf(line, "%lf %lf", &quota_us, &period_us) == 2)
    *(int *)cores = cores_of(quota_us, period_us, *(int *)cores);
}

static double number_in(const char *path) {
  FILE *file = fopen(path, "re");
  double value = -1;
  if (!file) return value;
  if (fscanf(file, "%lf", &value) != 1) value = -1;
  fclose(file);
  return value;
}

int ls_cpu_count(void) {
  int cores = affinity_count();
  ls_cgroup_each("", "cpu.max", NULL, NULL, cut, &cores);
  cores = cores_of(number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
                   number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us"), cores);
  return cores > 1 ? cores : 1;
}
