/* The processors that this process may use. Their number is that of the affinity mask, reduced by the CPU quota of its
 * control groups. A container with a quota of two cores on a big host should start two threads. */
#include "base/cgroup.h"
#include "base/thread.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
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

/* A processor's place: package, then core. Unknown: in the order of the numbers. */
static int64_t place_of(int cpu) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
  double package = number_in(path);
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
  double core = number_in(path); /* the first of a list */
  return (int64_t)(package > 0 ? package : 0) * CPU_SETSIZE + (core >= 0 ? (int64_t)core : cpu);
}

typedef struct {
  int64_t place;
  int cpu;
} placed_t;

static int by_place(const void *a, const void *b) {
  const placed_t *x = a, *y = b;
  if (x->place != y->place) return x->place < y->place ? -1 : 1;
  return x->cpu - y->cpu;
}

void ls_cpu_narrow(int part, int parts, cpu_set_t *before) {
  placed_t placed[CPU_SETSIZE];
  cpu_set_t set;
  int count = 0;
  CPU_ZERO(before);
  if (parts < 2 || sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < parts) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &set)) placed[count++] = (placed_t){place_of(cpu), cpu};
  qsort(placed, (size_t)count, sizeof *placed, by_place);
  const int each = count / parts; /* some may be left over: parts of one size take equally long */
  *before = set;
  CPU_ZERO(&set);
  for (int i = part * each; i < (part + 1) * each; i++)
    CPU_SET(placed[i].cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) CPU_ZERO(before);
}

void ls_cpu_widen(const cpu_set_t *before) {
  if (CPU_COUNT(before) > 0) sched_setaffinity(0, sizeof *before, before);
}

int ls_cpu_count(void) {
  int cores = affinity_count();
  ls_cgroup_each("", "cpu.max", NULL, NULL, cut, &cores);
  cores = cores_of(number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
                   number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us"), cores);
  return cores > 1 ? cores : 1;
}
