/* Files that are shipped with the program: described machines and workloads, found by name. An installed
 * program has them in share/lockstep, a built one in the source tree around its build folder. */
#include "cli/cli.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef LS_DATA_DIR /* where CMake installs them */
#define LS_DATA_DIR "/usr/local/share/lockstep"
#endif

enum { SEARCH_MAX = 5 };

/* Where the source tree has what is installed as share/lockstep/KIND. */
static const struct {
  const char *kind, *folder;
} in_tree[] = {{"machines", "machines"}, {"workloads", "examples/workloads"}};

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

/* A program that was built and not installed: build/bin/lockstep, or build/release/bin/lockstep. */
static void search_add_tree(search_t *search, const char *kind, const char *program_dir) {
  char machines[PATH_MAX + 64], file[PATH_MAX + 64];
  for (int up = 0; up < 2; up++) {
    const char *root = up ? "../../.." : "../..";
    snprintf(machines, sizeof machines, "%s/%s/machines", program_dir, root);
    snprintf(file, sizeof file, "%s/%s/src/cli/shipped.c", program_dir, root);
    if (!ls_path_exists(machines) || !ls_path_exists(file)) continue;
    for (int i = 0; i < LS_COUNT(in_tree); i++)
      if (!strcmp(in_tree[i].kind, kind))
        search_add(search, "%s/%s/%s", program_dir, root, in_tree[i].folder);
    return;
  }
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
    search_add_tree(search, kind, program);
  }
  search_add(search, "%s/%s", LS_DATA_DIR, kind);
}

static ls_status_t fail_missing(ls_ctx_t *ctx, const char *kind, const char *name, const search_t *search) {
  char list[1024] = "";
  size_t used = 0;
  for (int i = 0; i < search->count && used < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "\n  %s", search->folder[i]);
  return ls_fail(ctx, LS_ERR_NOT_FOUND,
                 "%s: no such file, and no such name among the shipped %s; looked for it in%s\n"
                 "  LOCKSTEP_SHARE can name the folder that holds %s/",
                 name, kind, list, kind);
}

ls_status_t cli_shipped(ls_ctx_t *ctx, const char *kind, const char *name, char **path) {
  if (strchr(name, '/') || ls_path_exists(name)) {
    *path = ls_strdup(ctx, name);
    return *path ? LS_OK : LS_ERR_MEMORY;
  }
  search_t *search = ls_alloc(ctx, sizeof *search);
  char *found = ls_alloc(ctx, 2 * PATH_MAX);
  ls_status_t status = search && found ? LS_ERR_NOT_FOUND : LS_ERR_MEMORY;
  if (status != LS_ERR_MEMORY) search_fill(kind, search);
  for (int i = 0; status == LS_ERR_NOT_FOUND && i < 2 * search->count; i++) {
    const char *ending = i % 2 == 0 ? ".yaml" : "";
    int len = snprintf(found, 2 * PATH_MAX, "%s/%s%s", search->folder[i / 2], name, ending);
    if (len < 2 * PATH_MAX && ls_path_exists(found)) status = LS_OK;
  }
  if (status == LS_ERR_NOT_FOUND) status = fail_missing(ctx, kind, name, search);
  ls_free(search);
  if (status == LS_OK)
    *path = found;
  else
    ls_free(found);
  return status;
}
