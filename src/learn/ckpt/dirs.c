/* Creates the parent directories of a checkpoint directory, and removes them again if they stay empty. */
#include "ckpt/store.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Room for the longest name that a run makes in its directory: ".tmp-old-step-../model.safetensors". */
enum { BELOW_BYTES = 2 * LS_TEMP_NAME_BYTES };

/* Length of the name of the directory that holds dir[0..len); 0: the current one. */
static size_t up(const char *dir, size_t len) {
  while (len > 0 && dir[len - 1] == '/')
    len--;
  while (len > 0 && dir[len - 1] != '/')
    len--;
  while (len > 1 && dir[len - 1] == '/')
    len--;
  return len;
}

/* Length of the deepest part of `dir` that exists. */
static size_t existing_part(char *dir) {
  size_t len = strlen(dir);
  for (; len > 0; len = up(dir, len)) {
    char cut = dir[len];
    dir[len] = '\0';
    bool there = ls_path_exists(dir);
    dir[len] = cut;
    if (there) break;
  }
  return len;
}

/* Makes the entries of the new directories durable, the deepest first. Shortens `dir`. */
static ls_status_t sync_parents(ls_ctx_t *ctx, char *dir, size_t existing) {
  ls_status_t status = LS_OK;
  for (size_t len = strlen(dir); len > existing && !status;) {
    len = up(dir, len);
    dir[len] = '\0';
    status = ls_dir_sync(ctx, len > 0 ? dir : ".");
  }
  return status;
}

ls_status_t ls_ckpt_dirs_make(ls_ctx_t *ctx, const char *dir, size_t *existing_bytes) {
  char *copy = ls_strdup(ctx, dir);
  if (!copy) return LS_ERR_MEMORY;
  size_t existing = existing_part(copy);
  ls_status_t status = ls_dir_make(ctx, dir);
  if (!status) status = sync_parents(ctx, copy, existing);
  if (status)
    ls_ckpt_dirs_remove(dir, existing);
  else
    *existing_bytes = existing;
  ls_free(copy);
  return status;
}

void ls_ckpt_dirs_remove(const char *dir, size_t existing_bytes) {
  char *copy = ls_strdup(NULL, dir);
  if (!copy) return;
  for (size_t len = strlen(copy); len > existing_bytes; len = up(copy, len)) {
    copy[len] = '\0';
    rmdir(copy);
  }
  ls_free(copy);
}

/* A part of the name that mkdir would refuse below `parent`: too long, or a dangling link. */
static ls_status_t check_missing(ls_ctx_t *ctx, const ls_place_t *place, const char *dir, char *path,
                                 size_t existing, const char *parent) {
  long most = pathconf(parent, _PC_NAME_MAX);
  char name[LS_SHOWN_BYTES];
  struct stat info;
  size_t at = existing + strspn(path + existing, "/"), len = strcspn(path + at, "/");
  char cut = path[at + len];
  path[at + len] = '\0';
  bool link = lstat(path, &info) == 0;
  path[at + len] = cut;
  if (link)
    return ls_fail_at(ctx, LS_ERR_IO, place,
                      "train.checkpoint.dir %s: %s is a link to what is not there or cannot be reached",
                      LS_SHOWN(dir), ls_text_shown(path, at + len, name, sizeof name));
  for (; path[at]; at += len + strspn(path + at + len, "/")) {
    len = strcspn(path + at, "/");
    if (most > 0 && len > (size_t)most)
      return ls_fail_at(ctx, LS_ERR_IO, place,
                        "train.checkpoint.dir %s: a name of %zu bytes is too long; %ld at most",
                        LS_SHOWN(dir), len, most);
  }
  return LS_OK;
}

/* Tries to write, because permissions do not tell everything on every file system (/proc, /sys, /dev/fd).
 * False: errno says why. */
static bool can_hold(const char *dir) {
  char *tried = ls_path_join(NULL, dir, ".tmp-check-XXXXXX");
  if (!tried) errno = ENOMEM;
  bool made = tried && mkdtemp(tried) && rmdir(tried) == 0;
  int error = errno;
  ls_free(tried);
  errno = error;
  return made;
}

ls_status_t ls_ckpt_dir_check(ls_ctx_t *ctx, const ls_place_t *place, const char *dir) {
  if (strlen(dir) + BELOW_BYTES > PATH_MAX)
    return ls_fail_at(ctx, LS_ERR_IO, place, "train.checkpoint.dir is too long: %zu bytes; %d at most",
                      strlen(dir), PATH_MAX - BELOW_BYTES);
  char *path = ls_strdup(ctx, dir);
  if (!path) return LS_ERR_MEMORY;
  size_t existing = existing_part(path);
  char cut = path[existing];
  path[existing] = '\0';
  char *parent = ls_strdup(ctx, existing > 0 ? path : ".");
  path[existing] = cut;
  ls_status_t status = parent ? LS_OK : LS_ERR_MEMORY;
  struct stat info;
  if (status == LS_OK && stat(parent, &info) == 0 && !S_ISDIR(info.st_mode))
    status = ls_fail_at(ctx, LS_ERR_IO, place, "train.checkpoint.dir %s: %s is not a directory",
                        LS_SHOWN(dir), LS_SHOWN(parent));
  if (status == LS_OK && !can_hold(parent))
    status = ls_fail_at(
        ctx, LS_ERR_IO, place,
        "train.checkpoint.dir %s: %s cannot be written to: %s (--set train.checkpoint.dir=DIR names another)",
        LS_SHOWN(dir), LS_SHOWN(parent), strerror(errno));
  if (status == LS_OK && path[existing]) status = check_missing(ctx, place, dir, path, existing, parent);
  ls_free(parent);
  ls_free(path);
  return status;
}
