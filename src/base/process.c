/* Reads /proc about this process. */
#include "base/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

int64_t ls_process_peak_bytes(void) {
  FILE *file = fopen("/proc/self/status", "re");
  char line[256];
  int64_t kib = 0;
  if (!file) return 0;
  while (kib == 0 && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %" SCNd64 " kB", &kib) != 1) kib = 0;
  fclose(file);
  return kib > 0 ? kib * 1024 : 0;
}

int64_t ls_process_node(int unique) {
  char text[160];
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  size_t read = file ? fread(text, 1, 64, file) : 0;
  ssize_t len = readlink("/proc/self/ns/pid", text + read, sizeof text - read);
  if (file) fclose(file);
  if (read == 0 || len <= 0) return -1 - unique;
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a (Fowler, Noll, Vo) */
  for (size_t i = 0; i < read + (size_t)len; i++)
    hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  return (int64_t)(hash >> 1);
}

bool ls_process_program(char path[PATH_MAX]) {
  ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
  if (len < 0) return false;
  path[len] = '\0';
  return true;
}
