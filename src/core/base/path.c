/* Names of files: joins and shortens them; reads nothing but symbolic links on the way. */
#include "base/file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool ls_path_exists(const char *path) {
  return access(path, F_OK) == 0;
}

bool ls_path_is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

char *ls_path_join(ls_ctx_t *ctx, const char *dir, const char *name) {
  if (name[0] == '/' || dir[0] == '\0') return ls_strdup(ctx, name);
  size_t dir_len = strlen(dir), size = dir_len + strlen(name) + 2;
  char *path = ls_alloc(ctx, size);
  if (path) snprintf(path, size, "%s%s%s", dir, dir[dir_len - 1] == '/' ? "" : "/", name);
  return path;
}

char *ls_path_parent(ls_ctx_t *ctx, const char *path) {
  char *parent = ls_alloc(ctx, strlen(path) + sizeof ".");
  if (!parent) return NULL;
  strcpy(parent, path);
  char *slash = strrchr(parent, '/');
  if (!slash)
    strcpy(parent, ".");
  else
    slash[slash == parent] = '\0'; /* the root keeps its slash */
  return parent;
}

static bool is_link(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* The offset of the last part of path[0..len). */
static size_t last_part(const char *path, size_t len) {
  while (len > 0 && path[len - 1] != '/')
    len--;
  return len;
}

/* Appends a part to `path`, which is already short and has room; returns its new length. */
static size_t add_part(char *path, size_t len, const char *part, size_t part_len) {
  if (part_len == 0 || (part_len == 1 && part[0] == '.')) return len;
  bool up = part_len == 2 && memcmp(part, "..", 2) == 0;
  if (up && len == 1 && path[0] == '/') return len; /* the root's parent is the root */
  size_t last = last_part(path, len);
  if (up && len > 0 && strcmp(path + last, "..") != 0 && !is_link(path)) {
    len = last > 1 ? last - 1 : last;
    path[len] = '\0';
    return len;
  }
  if (len > 0 && path[len - 1] != '/') path[len++] = '/';
  memcpy(path + len, part, part_len);
  path[len + part_len] = '\0';
  return len + part_len;
}

char *ls_path_resolve(ls_ctx_t *ctx, const char *dir, const char *name) {
  if (name[0] == '/') return ls_strdup(ctx, name);
  char *joined = ls_path_join(ctx, dir, name);
  char *path = joined ? ls_alloc(ctx, strlen(joined) + sizeof ".") : NULL;
  if (path) {
    size_t len = joined[0] == '/';
    memcpy(path, joined, len);
    path[len] = '\0';
    for (const char *part = joined; *part; part += *part == '/') {
      size_t part_len = strcspn(part, "/");
      len = add_part(path, len, part, part_len);
      part += part_len;
    }
    if (len == 0) strcpy(path, ".");
  }
  ls_free(joined);
  return path;
}

char *ls_path_absolute(ls_ctx_t *ctx, const char *path) {
  char here[PATH_MAX];
  return ls_path_resolve(ctx, getcwd(here, sizeof here) ? here : "", path);
}
