/* Whole files: into memory, unpacked, or mapped. */
#include "data/read.h"
#include "data/gunzip.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that unpacks to more than half of the memory would exhaust it before the program could report
 * anything. */
size_t ls_read_limit(void) {
  size_t limit = (size_t)16 << 30;
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return limit;
  size_t half = (size_t)pages / 2 * (size_t)page_bytes;
  return half < limit ? half : limit;
}

/* For a path from a configuration: the message gives the full path, and the rule by which it was found. */
static ls_status_t fail_missing(ls_ctx_t *ctx, const char *path) {
  char *absolute = ls_path_absolute(ctx, path);
  if (!absolute) return LS_ERR_MEMORY;
  ls_status_t status = ls_fail(
      ctx, LS_ERR_NOT_FOUND,
      "%s: No such file or directory; a relative path in a configuration starts at the configuration's "
      "folder, one in --set at the current folder, and --data-root DIR names another start",
      absolute);
  ls_free(absolute);
  return status;
}

static ls_status_t read_bytes(ls_ctx_t *ctx, const char *path, bool configured, char **bytes, size_t *size) {
  if (configured && !ls_path_exists(path) && errno == ENOENT) return fail_missing(ctx, path);
  char *raw;
  size_t raw_size, limit = ls_read_limit();
  ls_status_t status = ls_file_read(ctx, path, limit, &raw, &raw_size);
  if (status != LS_OK) return status;
  if (!ls_gunzip_is(raw, raw_size)) {
    *bytes = raw;
    *size = raw_size;
    return LS_OK;
  }
  status = ls_gunzip(ctx, path, raw, raw_size, limit, bytes, size);
  ls_free(raw);
  return status;
}

ls_status_t ls_read_bytes(ls_ctx_t *ctx, const char *path, char **bytes, size_t *size) {
  return read_bytes(ctx, path, true, bytes, size);
}

/* A mapping of a regular file that is not empty; else NULL. */
static void *map_file(const char *path, size_t *size) {
  struct stat stat;
  void *at = MAP_FAILED;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not wait */
  if (fd >= 0 && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size > 0) {
    *size = (size_t)stat.st_size;
    at = mmap(NULL, *size, PROT_READ, MAP_SHARED, fd, 0);
  }
  if (fd >= 0) close(fd);
  return at == MAP_FAILED ? NULL : at;
}

ls_status_t ls_view_open(ls_ctx_t *ctx, const char *path, bool configured, ls_view_t *view) {
  *view = (ls_view_t){0};
  void *at = map_file(path, &view->size);
  if (at) {
    ls_status_t status = ls_watch_begin(ctx, path, at, view->size, &view->mapped);
    if (status != LS_OK) munmap(at, view->size);
    if (status != LS_OK) return status;
    view->bytes = at;
    if (!ls_gunzip_is(at, view->size)) return LS_OK;
    ls_view_close(view);
  }
  return read_bytes(ctx, path, configured, &view->bytes, &view->size);
}

void ls_view_close(ls_view_t *view) {
  if (view->mapped) {
    ls_watch_end(view->mapped);
    munmap(view->bytes, view->size);
  } else {
    ls_free(view->bytes);
  }
  *view = (ls_view_t){0};
}

static bool has_faulted(const void *view) {
  const ls_watch_t *watch = ((const ls_view_t *)view)->mapped;
  return ls_watch_failed(watch) || ls_watch_is_shorter(watch);
}

void ls_view_doubt(ls_ctx_t *ctx, const ls_view_t *view) {
  ls_ctx_doubt(ctx, has_faulted, view);
}

ls_status_t ls_view_end(ls_ctx_t *ctx, ls_view_t *view, ls_status_t status) {
  ls_ctx_doubt(ctx, NULL, NULL);
  const ls_status_t fault =
      status == LS_OK ? ls_watch_check(view->mapped) : ls_watch_check_size(view->mapped);
  ls_view_close(view);
  return fault != LS_OK ? fault : status;
}

ls_status_t ls_strings_copy(ls_arena_t *arena, const ls_strings_t *from, ls_strings_t *to) {
  const char **list = ls_arena_array(arena, (size_t)from->count + 1, sizeof *list);
  for (int i = 0; list && i < from->count; i++)
    if (!(list[i] = ls_arena_strdup(arena, from->v[i]))) return LS_ERR_MEMORY;
  *to = (ls_strings_t){from->count, list};
  return list ? LS_OK : LS_ERR_MEMORY;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

ls_status_t ls_files_find(ls_arena_t *arena, const char *path, bool configured, ls_strings_t *files) {
  glob_t found = {0};
  bool plain = ls_path_exists(path) || !strpbrk(path, "*?[");
  int error = plain ? GLOB_NOMATCH : glob(path, GLOB_NOSORT | GLOB_ERR, NULL, &found);
  if (error == GLOB_NOSPACE) return ls_fail(arena->ctx, LS_ERR_MEMORY, "out of memory: %s", path);
  if (error == GLOB_ABORTED) return ls_fail_errno(arena->ctx, "%s: a folder cannot be read", path);
  if (!plain && error)
    return configured ? fail_missing(arena->ctx, path)
                      : ls_fail(arena->ctx, LS_ERR_NOT_FOUND, "%s: no file has such a name", path);
  size_t count = plain ? 1 : found.gl_pathc;
  const char **list = ls_arena_array(arena, count, sizeof *list);
  bool kept = list != NULL;
  for (size_t i = 0; kept && i < count; i++)
    kept = (list[i] = ls_arena_strdup(arena, plain ? path : found.gl_pathv[i])) != NULL;
  if (!plain) globfree(&found);
  if (!kept) return LS_ERR_MEMORY;
  qsort(list, count, sizeof *list, by_name);
  *files = (ls_strings_t){(int)count, list};
  return LS_OK;
}
