/* Directories: making, listing, removing and syncing them. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One level of mkdir -p; an existing directory is fine. */
static ls_status_t make_level(ls_ctx_t *ctx, const char *path) {
  struct stat info;
  if (mkdir(path, 0777) == 0) return LS_OK;
  int error = errno;
  if (stat(path, &info) == 0) {
    if (S_ISDIR(info.st_mode)) return LS_OK;
    return ls_fail(ctx, LS_ERR_IO, "%s: exists and is not a directory", path);
  }
  errno = error;
  return ls_fail_errno(ctx, "%s: the directory cannot be made", path);
}

/* A folder can often still be created on a full disk, so a file is tried, too. */
static ls_status_t try_room(ls_ctx_t *ctx, const char *dir) {
  static const char bytes[16384] = "room";
  char *path = ls_path_join(ctx, dir, "room");
  ls_status_t status = path ? ls_file_write(ctx, path, bytes, sizeof bytes) : LS_ERR_MEMORY;
  if (path) unlink(path);
  ls_free(path);
  return status;
}

ls_status_t ls_dir_temporary(ls_ctx_t *ctx, const char *name, char **path) {
  const char *base = getenv("TMPDIR");
  char template[64];
  base = base && *base ? base : "/tmp";
  snprintf(template, sizeof template, "%s-XXXXXX", name);
  char *own = ls_path_join(ctx, base, template);
  if (!own) return LS_ERR_MEMORY;
  ls_ctx_t *quiet = ls_ctx_create(NULL, NULL); /* keeps the reason, prints nothing */
  ls_status_t status = mkdtemp(own) ? try_room(quiet, own) : ls_fail_errno(quiet, "%s: cannot be made", own);
  if (status == LS_OK) {
    *path = own;
  } else {
    ls_fail(ctx, status, "no temporary files: %s; make room there, or set TMPDIR to another folder",
            quiet ? ls_ctx_error(quiet) : "out of memory");
    rmdir(own);
    ls_free(own);
  }
  ls_ctx_destroy(quiet);
  return status;
}

ls_status_t ls_dir_make(ls_ctx_t *ctx, const char *path) {
  if (path[0] == '\0') return ls_fail(ctx, LS_ERR_ARGUMENT, "the name of a directory is empty");
  char *level = ls_strdup(ctx, path);
  if (!level) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  for (char *c = level + 1; *c && status == LS_OK; c++) {
    if (*c != '/') continue;
    *c = '\0';
    status = make_level(ctx, level);
    *c = '/';
  }
  if (status == LS_OK) status = make_level(ctx, level);
  ls_free(level);
  return status;
}

enum { DIRECTORY = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

ls_status_t ls_dir_own(ls_ctx_t *ctx, const char *path, int *fd) {
  struct stat info;
  *fd = -1;
  if (mkdir(path, 0700) != 0 && errno != EEXIST)
    return ls_fail_errno(ctx, "%s: the directory cannot be made", path);
  const int opened = open(path, DIRECTORY);
  if (opened >= 0 && fstat(opened, &info) == 0 && info.st_uid == geteuid()) {
    *fd = opened;
    return LS_OK;
  }
  if (opened >= 0) close(opened);
  return ls_fail(ctx, LS_ERR_IO, "%s: exists and is not a directory of this user; remove it", path);
}

ls_status_t ls_dir_sync(ls_ctx_t *ctx, const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ls_fail_errno(ctx, "%s: the directory cannot be opened", path);
  ls_status_t status = LS_OK;
  if (fsync(fd) != 0) status = ls_fail_errno(ctx, "%s: the directory cannot be synced", path);
  close(fd);
  return status;
}

static int is_entry(const struct dirent *entry) {
  return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

/* The place of `name` as `above` sees it; path: for messages. */
static ls_status_t list_at(ls_ctx_t *ctx, int above, const char *name, const char *path, char ***names,
                           int *count) {
  struct dirent **entry;
  int found = scandirat(above, name, &entry, is_entry, by_name);
  if (found < 0) return ls_fail_errno(ctx, "%s: the directory cannot be listed", path);
  size_t size_bytes = (size_t)found * sizeof(char *);
  for (int i = 0; i < found; i++)
    size_bytes += strlen(entry[i]->d_name) + 1;
  char **list = ls_alloc(ctx, size_bytes), *text = list ? (char *)(list + found) : NULL;
  for (int i = 0; i < found; i++) {
    if (list) {
      list[i] = text;
      text = stpcpy(text, entry[i]->d_name) + 1;
    }
    free(entry[i]);
  }
  free(entry);
  if (!list) return LS_ERR_MEMORY;
  *names = list;
  *count = found;
  return LS_OK;
}

ls_status_t ls_dir_list(ls_ctx_t *ctx, const char *path, char ***names, int *count) {
  return list_at(ctx, AT_FDCWD, path, path, names, count);
}

/* Symbolic links are removed, never followed: an opened directory stays the same one even if another file takes its
 * name. Depth is bounded by the files that a process may open. */
static ls_status_t remove_at(ls_ctx_t *ctx, int above, const char *name, const char *path) {
  char **names = NULL;
  int count = 0;
  const int fd = openat(above, name, DIRECTORY);
  if (fd < 0 && errno == ENOENT) return LS_OK;
  if (fd < 0 && errno != ENOTDIR && errno != ELOOP) return ls_fail_errno(ctx, "%s: cannot be opened", path);
  ls_status_t status = fd >= 0 ? list_at(ctx, fd, ".", path, &names, &count) : LS_OK;
  for (int i = 0; i < count && status == LS_OK; i++) {
    char *below = ls_path_join(ctx, path, names[i]);
    status = below ? remove_at(ctx, fd, names[i], below) : LS_ERR_MEMORY;
    ls_free(below);
  }
  ls_free(names);
  if (fd >= 0) close(fd);
  if (status == LS_OK && unlinkat(above, name, fd >= 0 ? AT_REMOVEDIR : 0) != 0)
    status = ls_fail_errno(ctx, "%s: cannot be removed", path);
  return status;
}

ls_status_t ls_dir_remove(ls_ctx_t *ctx, const char *path) {
  return remove_at(ctx, AT_FDCWD, path, path);
}
