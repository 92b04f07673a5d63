/* See watch.h. A handler may take the lock, because the instruction that reads the file raises the fault, and no
 * code reads a file while it has the lock. */
#include "data/watch.h"

#include <lockstep/data.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct ls_watch {
  ls_watch_t *next;
  ls_ctx_t *ctx;
  char *path, *at;
  size_t bytes;
  bool failed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ls_watch_t *newest;
static _Atomic int failures; /* watches that have failed */

ls_status_t ls_watch_begin(ls_ctx_t *ctx, const char *path, void *at, size_t bytes, ls_watch_t **watch) {
  ls_watch_t *w = ls_alloc(ctx, sizeof *w);
  char *copy = w ? ls_strdup(ctx, path) : NULL;
  if (!copy) {
    ls_free(w);
    return LS_ERR_MEMORY;
  }
  *w = (ls_watch_t){.ctx = ctx, .path = copy, .at = at, .bytes = bytes};
  pthread_mutex_lock(&lock);
  w->next = newest;
  newest = w;
  pthread_mutex_unlock(&lock);
  *watch = w;
  return LS_OK;
}

void ls_watch_end(ls_watch_t *watch) {
  pthread_mutex_lock(&lock);
  ls_watch_t **at = &newest;
  while (*at != watch)
    at = &(*at)->next;
  *at = watch->next;
  if (watch->failed) failures--;
  pthread_mutex_unlock(&lock);
  ls_free(watch->path);
  ls_free(watch);
}

bool ls_data_fault(const void *address) {
  const int before = errno;
  const char *at = address;
  bool ours = false;
  pthread_mutex_lock(&lock);
  for (ls_watch_t *w = newest; w && !ours; w = w->next) {
    if (at < w->at || at >= w->at + w->bytes) continue;
    ours = w->failed ||
           mmap(w->at, w->bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == w->at;
    if (ours && !w->failed) failures++;
    w->failed |= ours;
  }
  pthread_mutex_unlock(&lock);
  errno = before;
  return ours;
}

static ls_status_t report(ls_ctx_t *ctx, const char *path, size_t bytes) {
  static const char remedy[] = "a data file must not change during a run: put it back and run again";
  struct stat now;
  if (stat(path, &now) == 0 && now.st_size < (off_t)bytes)
    return ls_fail(ctx, LS_ERR_IO, "%s: became shorter while it was read, from %zu to %" PRIdMAX " bytes; %s",
                   path, bytes, (intmax_t)now.st_size, remedy);
  return ls_fail(ctx, LS_ERR_IO,
                 "%s: a part of it could not be read any more: it became shorter for a while, or its storage "
                 "failed; %s",
                 path, remedy);
}

bool ls_watch_failed(const ls_watch_t *watch) {
  if (!watch || failures == 0) return false;
  pthread_mutex_lock(&lock);
  const bool failed = watch->failed;
  pthread_mutex_unlock(&lock);
  return failed;
}

bool ls_watch_is_shorter(const ls_watch_t *watch) {
  struct stat now;
  return watch && stat(watch->path, &now) == 0 && now.st_size < (off_t)watch->bytes;
}

ls_status_t ls_watch_check_size(const ls_watch_t *watch) {
  const bool changed = ls_watch_failed(watch) || ls_watch_is_shorter(watch);
  return changed ? report(watch->ctx, watch->path, watch->bytes) : LS_OK;
}

ls_status_t ls_watch_check(const ls_watch_t *watch) {
  return ls_watch_failed(watch) ? report(watch->ctx, watch->path, watch->bytes) : LS_OK;
}
