/* Limits of clocks and heat: a measurement taken while one acted is void. */
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ls_bench_gpu_limit_text(int64_t bits, char buf[64]) {
  static const struct {
    int64_t bit;
    const char *text;
  } rows[] = {{0x4, "power cap"},
              {0x8, "hardware slowdown"},
              {0x20, "heat"},
              {0x40, "heat (hardware)"},
              {0x80, "power brake"}};
  size_t used = 0;
  buf[0] = '\0';
  for (int i = 0; i < LS_COUNT(rows) && used < 64; i++)
    if (bits > 0 && (bits & rows[i].bit))
      used += (size_t)snprintf(buf + used, 64 - used, "%s%s", used ? ", " : "", rows[i].text);
  return buf;
}

static int64_t read_count(const char *path) {
  char *bytes;
  size_t size_bytes;
  if (!ls_path_exists(path) || ls_file_read(NULL, path, 4096, &bytes, &size_bytes) != LS_OK) return -1;
  char *end;
  long long value = strtoll(bytes, &end, 10);
  int64_t count = end == bytes || value < 0 ? -1 : value;
  ls_free(bytes);
  return count;
}

int64_t ls_bench_cpu_throttles(const char *sysfs_cpu) {
  static const char *const counters[] = {"core_throttle_count", "package_throttle_count"};
  char **names, path[512];
  int count;
  int64_t sum = -1;
  if (!ls_path_exists(sysfs_cpu) || ls_dir_list(NULL, sysfs_cpu, &names, &count) != LS_OK) return -1;
  for (int i = 0; i < count; i++) {
    if (strncmp(names[i], "cpu", 3) != 0 || names[i][3] < '0' || names[i][3] > '9') continue;
    for (int k = 0; k < LS_COUNT(counters); k++) {
      snprintf(path, sizeof path, "%s/%s/thermal_throttle/%s", sysfs_cpu, names[i], counters[k]);
      int64_t own = read_count(path);
      if (own >= 0) sum = (sum < 0 ? 0 : sum) + own;
    }
  }
  ls_free(names);
  return sum;
}
