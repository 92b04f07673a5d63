/* The list of sinks, and what several of them need. */
#include "monitor/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const ls_sink_t *const ls_sinks[] = {&ls_sink_tensorboard, &ls_sink_csv, &ls_sink_prometheus, NULL};
const char *const ls_sink_names[] = {"tensorboard", "csv", "prometheus", NULL};

const ls_sink_t *ls_sink_find(const char *name) {
  for (int i = 0; ls_sinks[i]; i++)
    if (!strcmp(ls_sinks[i]->name, name)) return ls_sinks[i];
  return NULL;
}

bool ls_write_all(int fd, const void *bytes, size_t size) {
  const char *at = bytes;
  while (size > 0) {
    ssize_t n = write(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    at += n;
    size -= (size_t)n;
  }
  return true;
}

int ls_lines_open(const char *path) {
  char last = '\n';
  int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
  if (end > 0 && pread(fd, &last, 1, end - 1) == 1 && last != '\n') ls_write_all(fd, "\n", 1);
  return fd;
}

void ls_monitor_path(const char *dir, const char *name, const char *ending, int rank, char *path,
                     size_t size_bytes) {
  if (rank == 0)
    snprintf(path, size_bytes, "%s/%s.%s", dir, name, ending);
  else
    snprintf(path, size_bytes, "%s/%s-%d.%s", dir, name, rank, ending);
}
