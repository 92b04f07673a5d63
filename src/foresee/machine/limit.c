/* The memory that this process may use. Control groups (a container, a batch job) may allow less than the
 * node has, and the kernel kills a process that takes more. Files and their meaning: Linux,
 * admin-guide/cgroup-v2 (memory.max) and cgroup-v1/memory (memory.limit_in_bytes). */
#include "machine/parts.h"

#include "base/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A line of one number; "max" is no limit. */
static void cut(void *least, const char *line) {
  int64_t bytes;
  if (sscanf(line, "%" SCNd64, &bytes) == 1 && bytes > 0 && bytes < *(int64_t *)least)
    *(int64_t *)least = bytes;
}

int64_t ls_machine_memory_limit(const char *root) {
  int64_t least = INT64_MAX;
  ls_cgroup_each(root, "memory.max", "memory", "memory.limit_in_bytes", cut, &least);
  return least;
}

/* The figure of this name in /proc/meminfo, in bytes. */
static int64_t meminfo(const char *root, const char *name) {
  char path[PATH_MAX + 64], line[256], form[64];
  int64_t kib = -1;
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  snprintf(form, sizeof form, "%s: %%" SCNd64 " kB", name);
  FILE *file = fopen(path, "re");
  if (!file) return -1;
  while (kib < 0 && fgets(line, sizeof line, file))
    if (sscanf(line, form, &kib) != 1 || kib > INT64_MAX / 1024) kib = -1;
  fclose(file);
  return kib < 0 ? -1 : kib * 1024;
}

int64_t ls_machine_memory(const char *root) {
  int64_t total = meminfo(root, "MemTotal"), limit = ls_machine_memory_limit(root);
  return limit < INT64_MAX && (total < 0 || limit < total) ? limit : total;
}

static void most(void *largest, const char *line) {
  int64_t bytes;
  if (sscanf(line, "%" SCNd64, &bytes) == 1 && bytes > *(int64_t *)largest) *(int64_t *)largest = bytes;
}

int64_t ls_machine_memory_free(const char *root) {
  int64_t available = meminfo(root, "MemAvailable"), limit = ls_machine_memory_limit(root), used = 0;
  if (limit == INT64_MAX) return available;
  ls_cgroup_each(root, "memory.current", "memory", "memory.usage_in_bytes", most, &used);
  if (used > limit) used = limit;
  return available < 0 || limit - used < available ? limit - used : available;
}
