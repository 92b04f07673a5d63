/* Files that are shipped with the program: described machines and workloads, found by name, and tools. They are
 * in share/lockstep beside the program's folder: of an installed program, and of a built one, whose build
 * folder has links to the source tree there. */
#include "cli/cli.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef LS_DATA_DIR /* where CMake installs them */
#define LS_DATA_DIR "/usr/local/share/lockstep"
#endif

enum { SEARCH_MAX = 3 };

typedef struct {
  char folder[SEARCH_MAX][PATH_MAX];
  int count;
} search_t;

static void LS_PRINTF(2, 3) search_add(search_t *search, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int len = vsnprintf(search->folder[search->count], PATH_MAX, fmt, args);
  va_end(args);
  if (len > 0 && len < PATH_MAX) search->count++;
}

static void search_fill(const char *kind, search_t *search) {
  const char *named = getenv("LOCKSTEP_SHARE");
  char program[PATH_MAX];
  if (named && *named) search_add(search, "%s/%s", named, kind);
  ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
  program[len > 0 ? len : 0] = '\0';
  char *slash = strrchr(program, '/');
  if (slash) {
    *slash = '\0';
    search_add(search, "%s/../share/lockstep/%s", program, kind);
  }
  search_add(search, "%s/%s", LS_DATA_DIR, kind);
}

static ls_status_t fail_missing(ls_ctx_t *ctx, const char *what, const char *kind, const search_t *search) {
  char list[1024] = "";
  size_t used = 0;
  for (int i = 0; i < search->count && used < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "\n  %s", search->folder[i]);
  return ls_fail(ctx, LS_ERR_NOT_FOUND,
                 "%s; looked for it in%s\n  LOCKSTEP_SHARE can name the folder that holds %s/", what, list,
                 kind);
}

/* `missing`: the message if it is nowhere. */
static ls_status_t find(ls_ctx_t *ctx, const char *kind, const char *name, const char *missing, char **path) {
  search_t *search = ls_alloc(ctx, sizeof *search);
  char *found = ls_alloc(ctx, 2 * PATH_MAX);
  ls_status_t status = search && found ? LS_ERR_NOT_FOUND : LS_ERR_MEMORY;
  if (status != LS_ERR_MEMORY) search_fill(kind, search);
  for (int i = 0; status == LS_ERR_NOT_FOUND && i < 2 * search->count; i++) {
    const char *ending = i % 2 == 0 ? ".yaml" : "";
    int len = snprintf(found, 2 * PATH_MAX, "%s/%s%s", search->folder[i / 2], name, ending);
    if (len < 2 * PATH_MAX && ls_path_exists(found)) status = LS_OK;
  }
  if (status == LS_ERR_NOT_FOUND) fail_missing(ctx, missing, kind, search);
  ls_free(search);
  if (status == LS_OK)
    *path = found;
  else
    ls_free(found);
  return status;
}

ls_status_t cli_shipped(ls_ctx_t *ctx, const char *kind, const char *name, char **path) {
  char missing[PATH_MAX + 64];
  if (strchr(name, '/') || ls_path_exists(name)) {
    *path = ls_strdup(ctx, name);
    return *path ? LS_OK : LS_ERR_MEMORY;
  }
  snprintf(missing, sizeof missing, "%s: no such file, and no such name among the shipped %s", name, kind);
  return find(ctx, kind, name, missing, path);
}

ls_status_t cli_shipped_tool(ls_ctx_t *ctx, const char *name, char **path) {
  char missing[256];
  snprintf(missing, sizeof missing, "the tool \"%s\", a part of lockstep's installation, is missing", name);
  return find(ctx, "tools", name, missing, path);
}
