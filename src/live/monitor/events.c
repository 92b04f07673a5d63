/* Writing event logs: files of a bounded size, and a bounded number of them. */
#include "monitor/events.h"

#include "monitor/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char name_begin[] = "events", name_end[] = ".jsonl";

/* Reads a whole number above 0 at the beginning of *text, and moves *text past it. */
static bool take_number(const char **text, int64_t most, int64_t *number) {
  char *end;
  if (**text < '1' || **text > '9') return false;
  errno = 0;
  *number = strtoll(*text, &end, 10);
  *text = end;
  return errno == 0 && *number <= most;
}

bool ls_events_name(const char *name, int *rank, int64_t *number) {
  int64_t of = 0;
  *number = 0;
  if (strncmp(name, name_begin, sizeof name_begin - 1) != 0) return false;
  name += sizeof name_begin - 1;
  if (*name == '-' && (name++, !take_number(&name, INT_MAX, &of))) return false;
  *rank = (int)of;
  if (strncmp(name, name_end, sizeof name_end - 1) != 0) return false;
  name += sizeof name_end - 1;
  return !*name || (*name++ == '.' && take_number(&name, INT64_MAX - 1, number) && !*name);
}

void ls_events_path(const char *dir, int rank, int64_t number, char path[PATH_MAX]) {
  ls_monitor_path(dir, name_begin, name_end + 1, rank, path, PATH_MAX);
  const size_t len = strlen(path);
  if (number > 0) snprintf(path + len, PATH_MAX - len, ".%lld", (long long)number);
}

static ls_status_t find_newest(ls_ctx_t *ctx, ls_events_t *e) {
  char **names;
  int count, rank;
  int64_t number;
  ls_status_t status = ls_dir_list(ctx, e->dir, &names, &count);
  if (status != LS_OK) return status;
  for (int i = 0; i < count; i++)
    if (ls_events_name(names[i], &rank, &number) && rank == e->rank && number > e->newest) e->newest = number;
  ls_free(names);
  return LS_OK;
}

static bool open_newest(ls_events_t *e) {
  char path[PATH_MAX];
  struct stat about;
  ls_events_path(e->dir, e->rank, 0, path);
  const int fd = ls_lines_open(path);
  if (fd < 0) return false;
  if (e->fd >= 0) close(e->fd);
  e->fd = fd;
  e->regular = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  e->bytes = e->regular ? about.st_size : 0;
  return true;
}

ls_status_t ls_events_open(ls_ctx_t *ctx, const ls_monitor_config_t *config, int rank, ls_events_t *e) {
  *e = (ls_events_t){.dir = config->dir,
                     .rank = rank,
                     .files = (int)config->events_files,
                     .fd = -1,
                     .most_bytes = config->events_bytes};
  ls_status_t status = find_newest(ctx, e);
  if (status != LS_OK || open_newest(e)) return status;
  char path[PATH_MAX];
  ls_events_path(e->dir, rank, 0, path);
  return ls_fail_errno(ctx, "%s: cannot be opened", path);
}

void ls_events_close(ls_events_t *e) {
  if (e->fd >= 0) close(e->fd);
  free(e->first);
}

void ls_events_begin_with(ls_events_t *e, char *line) {
  free(e->first);
  e->first = line;
}

/* If it fails the log goes on in the open file, and the next try comes after as many bytes again. */
static bool begin_next(ls_events_t *e) {
  char path[PATH_MAX], numbered[PATH_MAX];
  ls_events_path(e->dir, e->rank, 0, path);
  ls_events_path(e->dir, e->rank, e->newest + 1, numbered);
  e->bytes = 0;
  const bool moved = rename(path, numbered) == 0;
  if (!moved && errno != ENOENT) return false;
  e->newest += moved;
  if (!open_newest(e)) return false;
  for (int64_t old = e->newest - e->files + 1; old > 0; old--) {
    ls_events_path(e->dir, e->rank, old, numbered);
    if (unlink(numbered) != 0) break;
  }
  const size_t len = e->first ? strlen(e->first) : 0;
  e->bytes += (int64_t)len;
  return ls_write_all(e->fd, e->first, len);
}

bool ls_events_put(ls_events_t *e, const char *line, size_t size_bytes) {
  if (!ls_write_all(e->fd, line, size_bytes)) return false;
  e->bytes += (int64_t)size_bytes;
  return !e->regular || e->most_bytes == 0 || e->bytes < e->most_bytes || begin_next(e);
}
