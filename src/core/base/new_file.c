/* A new file in the place of an old one. A save that was reported is on the disk: data are fsynced before the rename,
 * and the directory after it. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

enum { TRIES = 1000, LINKS_MAX = 40, NAME_BYTES = sizeof ".tmp.-9223372036854775808.1000" };

/* A link of /proc leads to an open file, whatever its text says: /dev/stdout is one in the end. */
static bool leads_to_open_file(const char *link) {
  struct statfs system;
  int fd = open(link, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  bool leads = fd >= 0 && fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
  if (fd >= 0) close(fd);
  return leads;
}

/* Follows symbolic links from `path`; the target need not exist. The caller frees the result (ls_free). NULL:
 * memory is short. *is_open: it is an open file, or links form a circle, which opening reports. */
static char *follow(ls_ctx_t *ctx, const char *path, bool *is_open) {
  char *at = ls_strdup(ctx, path), text[PATH_MAX];
  struct stat info;
  *is_open = false;
  for (int i = 0; at && lstat(at, &info) == 0 && S_ISLNK(info.st_mode); i++) {
    ssize_t len = readlink(at, text, sizeof text - 1);
    *is_open = len < 0 || i == LINKS_MAX || leads_to_open_file(at);
    if (*is_open) break;
    text[len] = '\0';
    char *parent = ls_path_parent(ctx, at), *next = parent ? ls_path_join(ctx, parent, text) : NULL;
    ls_free(parent);
    ls_free(at);
    at = next;
  }
  return at;
}

/* Creates a file next to `place` that belongs to this writer alone, even if others replace `place` at the same
 * time: another process, another thread, or a process with the same number on another node. */
static int open_beside(const char *place, char *beside, size_t size) {
  for (int i = 0; i < TRIES; i++) {
    snprintf(beside, size, "%s.tmp.%ld.%d", place, (long)getpid(), i);
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

ls_status_t ls_new_file_here(ls_ctx_t *ctx, const char *path, ls_new_file_t *f) {
  struct stat info;
  *f = (ls_new_file_t){.path = path, .fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (f->fd < 0) return ls_fail_errno(ctx, "%s: cannot be created", path);
  f->regular = fstat(f->fd, &info) == 0 && S_ISREG(info.st_mode);
  return LS_OK;
}

ls_status_t ls_new_file_begin(ls_ctx_t *ctx, const char *path, ls_new_file_t *f) {
  struct stat info;
  bool is_open;
  *f = (ls_new_file_t){.path = path, .fd = -1};
  char *place = follow(ctx, path, &is_open);
  if (!place) return LS_ERR_MEMORY;
  if (is_open || (stat(place, &info) == 0 && !S_ISREG(info.st_mode))) {
    ls_free(place);
    ls_status_t status = ls_new_file_here(ctx, path, f);
    f->regular = f->regular && !is_open; /* another writer's file is not removed */
    return status;
  }
  const size_t size = strlen(place) + NAME_BYTES;
  f->place = place;
  f->beside = ls_alloc(ctx, size);
  if (!f->beside) return LS_ERR_MEMORY;
  f->fd = open_beside(place, f->beside, size);
  f->regular = f->fd >= 0;
  return f->regular ? LS_OK : ls_fail_errno(ctx, "%s: cannot be created", path);
}

static ls_status_t put_in_place(ls_ctx_t *ctx, const ls_new_file_t *f) {
  if (rename(f->beside, f->place) != 0) return ls_fail_errno(ctx, "%s: cannot be put in place", f->path);
  char *parent = ls_path_parent(ctx, f->place);
  ls_status_t status = parent ? ls_dir_sync(ctx, parent) : LS_ERR_MEMORY;
  ls_free(parent);
  return status;
}

ls_status_t ls_new_file_end(ls_ctx_t *ctx, ls_new_file_t *f, ls_status_t status) {
  /* devices and pipes cannot be made durable */
  if (status == LS_OK && f->regular && ls_io_sync(ctx, f->fd) != 0)
    status = ls_fail_errno(ctx, "%s: cannot be made durable", f->path);
  if (f->fd >= 0 && close(f->fd) != 0 && status == LS_OK)
    status = ls_fail_errno(ctx, "%s: cannot be closed", f->path);
  if (status == LS_OK && f->beside) status = put_in_place(ctx, f);
  if (status != LS_OK && f->regular) unlink(f->beside ? f->beside : f->path);
  ls_free(f->beside);
  ls_free(f->place);
  *f = (ls_new_file_t){.fd = -1};
  return status;
}
