/* The memory that this process may use. Control groups (a container, a batch job) may allow less than the
 * node has, and the kernel kills a process that takes more. Files and their meaning: Linux,
 * admin-guide/cgroup-v2 (memory.max) and cgroup-v1/memory (memory.limit_in_bytes). */
#include "machine/parts.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Reads a file with one number; "max", or a missing file, means no limit. */
static int64_t limit_in(const char *path) {
  FILE *file = fopen(path, "re");
  int64_t bytes = 0;
  if (!file) return INT64_MAX;
  if (fscanf(file, "%" SCNd64, &bytes) != 1 || bytes <= 0) bytes = INT64_MAX;
  fclose(file);
  return bytes;
}

/* Returns the smallest limit of this cgroup and its ancestors. Overwrites `group`. */
static int64_t limit_upwards(const char *root, const char *mount, char *group, const char *name) {
  int64_t least = INT64_MAX;
  for (;;) {
    char path[2 * PATH_MAX];
    int len = snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, name);
    int64_t bytes = len < (int)sizeof path ? limit_in(path) : INT64_MAX;
    if (bytes < least) least = bytes;
    char *slash = strrchr(group, '/');
    if (!slash) return least;
    *slash = '\0';
  }
}

/* The group in a line "ID:CONTROLLERS:GROUP" of version 1 if memory is among its controllers; else NULL. */
static char *memory_group(char *line) {
  char *controllers = strchr(line, ':');
  char *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return NULL;
  *group++ = '\0';
  for (char *name = controllers + 1; *name;) {
    size_t len = strcspn(name, ",");
    if (len == strlen("memory") && strncmp(name, "memory", len) == 0) return group;
    name += len + (name[len] == ',');
  }
  return NULL;
}

int64_t ls_machine_memory_limit(const char *root) {
  static const char v2[] = "/sys/fs/cgroup", v1[] = "/sys/fs/cgroup/memory";
  char path[PATH_MAX + 64], line[PATH_MAX], top[] = "";
  /* Inside a container the group's own path may not exist; then the root of the hierarchy is the
   * container's. */
  int64_t least = limit_upwards(root, v2, top, "memory.max");
  int64_t bytes = limit_upwards(root, v1, top, "memory.limit_in_bytes");
  if (bytes < least) least = bytes;
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "re");
  if (!file) return least;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    bool second = strncmp(line, "0::", 3) == 0;
    char *group = second ? line + 3 : memory_group(line);
    bytes = !group   ? INT64_MAX
            : second ? limit_upwards(root, v2, group, "memory.max")
                     : limit_upwards(root, v1, group, "memory.limit_in_bytes");
    if (bytes < least) least = bytes;
  }
  fclose(file);
  return least;
}

static int64_t memory_total(const char *root) {
  char path[PATH_MAX + 64], line[256];
  int64_t kib = -1;
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  FILE *file = fopen(path, "re");
  if (!file) return -1;
  while (kib < 0 && fgets(line, sizeof line, file))
    if (sscanf(line, "MemTotal: %" SCNd64 " kB", &kib) != 1 || kib > INT64_MAX / 1024) kib = -1;
  fclose(file);
  return kib < 0 ? -1 : kib * 1024;
}

int64_t ls_machine_memory(const char *root) {
  int64_t total = memory_total(root), limit = ls_machine_memory_limit(root);
  return limit < INT64_MAX && (total < 0 || limit < total) ? limit : total;
}
