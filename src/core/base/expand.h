/* Templates: files with placeholders, such as presets of networks and job scripts. */
#ifndef LS_BASE_EXPAND_H
#define LS_BASE_EXPAND_H

#include "base/arena.h"
#include <stdio.h>

/* A file that the build puts into the program (cmake/LockstepEmbed.cmake). A NUL, which is not counted, follows the bytes. */
typedef struct {
  const char *name; /* without its ending; NULL: the end */
  const char *bytes;
  size_t size_bytes;
} ls_embedded_t;

/* Writes the value of placeholder `name` to `to`. False: there is no such placeholder. */
typedef bool (*ls_expand_fn)(void *data, const char *name, FILE *to);

/* Writes `text` with each `${name}` replaced by its value. A line that begins with `${?name}` stays only if the value is
 * neither empty nor 0, a line that begins with `${!name}` only if it is; several such conditions may follow each other.
 * A placeholder's name begins with a small letter, so that `${HOME}` stays as it is. `file` and `line`, that of the text's beginning, are for messages. Errors:
 * LS_ERR_CONFIG for an unknown placeholder, LS_ERR_MEMORY. */
ls_status_t ls_expand(ls_ctx_t *ctx, const char *file, int line, const char *text, ls_expand_fn value,
                      void *data, FILE *to);

/* The embedded file of this name, or the file at this path: a name with a `/` or an ending is a path, which starts at
 * `dir` (NULL: the current folder). *file: how messages call it. Both live in the arena or forever. LS_ERR_NOT_FOUND,
 * not reported: no embedded file has this name. */
ls_status_t ls_template_read(ls_ctx_t *ctx, ls_arena_t *arena, const ls_embedded_t *files, const char *dir,
                             const char *name, const char **file, const char **text);

#endif
