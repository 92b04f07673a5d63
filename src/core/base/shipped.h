/* Files that are shipped with the program: described machines and workloads, found by name, and tools. They are in
 * share/lockstep beside the program's folder, which a build fills with links to the source tree; below $LOCKSTEP_SHARE; or
 * where CMake installs them. */
#ifndef LS_BASE_SHIPPED_H
#define LS_BASE_SHIPPED_H

#include "base/ctx.h"

/* The file that `name` stands for: a path, or the name (with or without .yaml) of a shipped one of its kind ("machines",
 * "workloads"). The caller frees *path. LS_ERR_NOT_FOUND names the folders. */
ls_status_t ls_shipped(ls_ctx_t *ctx, const char *kind, const char *name, char **path);
/* A tool or its data ("report/study.json"). The current folder is not searched. */
ls_status_t ls_shipped_tool(ls_ctx_t *ctx, const char *name, char **path);
/* Calls `each` with the names of the kind's files. */
void ls_shipped_each(const char *kind, void (*each)(const char *name));

#endif
