/* Looks for shipped files folder by folder. */
#include "base/shipped.h"

#include "base/file.h"
#include "base/process.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LS_DATA_DIR /* where CMake installs them */
#define LS_DATA_DIR "/usr/local/share/lockstep"
#endif

/* The folders in which files of a kind are looked for, one a line. */
static char *folders(const char *kind) {
  const char *named = getenv("LOCKSTEP_SHARE");
  char program[PATH_MAX], *text = NULL, *slash = ls_process_program(program) ? strrchr(program, '/') : NULL;
  size_t size_bytes;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return NULL;
  if (named && *named) fprintf(to, "\n  %s/%s", named, kind);
  if (slash) fprintf(to, "\n  %.*s/../share/lockstep/%s", (int)(slash - program), program, kind);
  fprintf(to, "\n  %s/%s", LS_DATA_DIR, kind);
  fclose(to);
  return text;
}

/* `missing`: the message if it is nowhere. */
static ls_status_t find(ls_ctx_t *ctx, const char *kind, const char *name, const char *missing, char **path) {
  static const char *const endings[] = {".yaml", ""};
  char *all = folders(kind), *found = ls_alloc(ctx, 2 * PATH_MAX);
  ls_status_t status = all && found ? LS_ERR_NOT_FOUND : LS_ERR_MEMORY;
  for (const char *at = all; status == LS_ERR_NOT_FOUND && *at; at += strcspn(at, "\n")) {
    at += strspn(at, "\n ");
    for (int i = 0; i < LS_COUNT(endings) && status == LS_ERR_NOT_FOUND; i++) {
      int len = snprintf(found, 2 * PATH_MAX, "%.*s/%s%s", (int)strcspn(at, "\n"), at, name, endings[i]);
      if (len < 2 * PATH_MAX && ls_path_exists(found)) status = LS_OK;
    }
  }
  if (status == LS_OK) *path = found;
  if (status == LS_ERR_NOT_FOUND)
    ls_fail(ctx, status, "%s; looked for it in%s\n  LOCKSTEP_SHARE can name the folder that holds %s/",
            missing, all, kind);
  free(all);
  if (status != LS_OK) ls_free(found);
  return status;
}

ls_status_t ls_shipped(ls_ctx_t *ctx, const char *kind, const char *name, char **path) {
  char missing[PATH_MAX + 64];
  if (strchr(name, '/') || ls_path_exists(name)) {
    *path = ls_strdup(ctx, name);
    return *path ? LS_OK : LS_ERR_MEMORY;
  }
  snprintf(missing, sizeof missing, "%s: no such file, and no such name among the shipped %s", name, kind);
  return find(ctx, kind, name, missing, path);
}

void ls_shipped_each(const char *kind, void (*each)(const char *name)) {
  static const char ending[] = ".yaml";
  char *all = folders(kind), folder[PATH_MAX];
  for (char *at = all; at && *at; at += strcspn(at, "\n")) {
    at += strspn(at, "\n ");
    char **names = NULL;
    int count = 0;
    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(at, "\n"), at);
    if (ls_dir_list(NULL, folder, &names, &count) != LS_OK) continue;
    for (int i = 0; i < count; i++) {
      size_t len = strlen(names[i]), end = sizeof ending - 1;
      if (len <= end || strcmp(names[i] + len - end, ending) != 0) continue;
      names[i][len - end] = '\0';
      each(names[i]);
    }
    ls_free(names);
    break;
  }
  free(all);
}

ls_status_t ls_shipped_tool(ls_ctx_t *ctx, const char *name, char **path) {
  char missing[256];
  snprintf(missing, sizeof missing, "the tool \"%s\", a part of lockstep's installation, is missing", name);
  return find(ctx, "tools", name, missing, path);
}
