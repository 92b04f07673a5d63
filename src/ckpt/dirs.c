/* Directories that have to be made before something can stand in them, and go again when nothing did. */
#include "ckpt/store.h"

#include <string.h>
#include <unistd.h>

/* Length of the deepest part of `dir` that exists. */
static size_t existing_part(char *dir) {
  size_t len = strlen(dir);
  while (len > 0) {
    char cut = dir[len];
    dir[len] = '\0';
    bool there = ls_path_exists(dir);
    dir[len] = cut;
    if (there) return len;
    while (len > 0 && dir[len - 1] == '/')
      len--;
    while (len > 0 && dir[len - 1] != '/')
      len--;
    while (len > 1 && dir[len - 1] == '/')
      len--;
  }
  return 0;
}

/* Makes the entries of the new directories durable, the deepest first. */
static ls_status_t sync_parents(ls_ctx_t *ctx, char *dir, size_t existing) {
  ls_status_t status = LS_OK;
  for (size_t len = strlen(dir); len > existing && !status;) {
    while (len > existing && dir[len - 1] != '/')
      len--;
    while (len > 1 && len > existing && dir[len - 1] == '/')
      len--;
    char cut = dir[len];
    dir[len] = '\0';
    status = ls_dir_sync(ctx, len > 0 ? dir : ".");
    dir[len] = cut;
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
  for (size_t len = strlen(copy); len > existing_bytes;) {
    copy[len] = '\0';
    rmdir(copy);
    while (len > existing_bytes && copy[len - 1] != '/')
      len--;
    while (len > existing_bytes && copy[len - 1] == '/')
      len--;
  }
  ls_free(copy);
}
