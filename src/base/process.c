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

bool ls_process_program(char path[PATH_MAX]) {
  ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
  if (len < 0) return false;
  path[len] = '\0';
  return true;
}
