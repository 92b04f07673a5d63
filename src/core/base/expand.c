/* See expand.h. */
#include "base/expand.h"
#include "base/file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64, FILE_BYTES_MAX = 1 << 20 };
typedef struct {
  ls_ctx_t *ctx;
  ls_place_t place;
  ls_expand_fn value;
  void *data;
} expansion_t;

/* The length of the placeholder at `at`, `mark` before its name (0: none); 0: there is none. */
static size_t placeholder(const char *at, char mark, char name[NAME_BYTES]) {
  if (strncmp(at, "${", 2) != 0 || (mark && at[2] != mark)) return 0;
  const char *begin = at + 2 + (mark != 0);
  const size_t len = strcspn(begin, "}\n");
  if (!islower((unsigned char)*begin) || begin[len] != '}' || len >= NAME_BYTES) return 0;
  memcpy(name, begin, len);
  name[len] = '\0';
  return (size_t)(begin - at) + len + 1;
}

static ls_status_t put_value(const expansion_t *x, const char *name, FILE *to) {
  if (x->value(x->data, name, to)) return LS_OK;
  return ls_fail_at(x->ctx, LS_ERR_CONFIG, &x->place, "there is no value for the placeholder `%s`",
                    LS_SHOWN(name));
}

/* Whether the placeholder's value is neither empty nor 0. */
static ls_status_t holds(const expansion_t *x, const char *name, bool *result) {
  char *text = NULL;
  size_t size;
  FILE *to = open_memstream(&text, &size);
  if (!to) return ls_fail(x->ctx, LS_ERR_MEMORY, "out of memory for a template");
  ls_status_t status = put_value(x, name, to);
  if (fclose(to) != 0 && status == LS_OK) status = LS_ERR_MEMORY;
  *result = status == LS_OK && *text && strcmp(text, "0") != 0;
  free(text);
  return status;
}

/* Passes the conditions at the beginning of a line. */
static ls_status_t check_conditions(const expansion_t *x, const char **line, bool *keep) {
  char name[NAME_BYTES];
  ls_status_t status = LS_OK;
  *keep = true;
  while (status == LS_OK) {
    size_t len = placeholder(*line, '?', name);
    const bool wanted = len > 0;
    if (len == 0) len = placeholder(*line, '!', name);
    if (len == 0) break;
    bool there = false;
    status = holds(x, name, &there);
    *keep = *keep && there == wanted;
    *line += len;
  }
  return status;
}

static ls_status_t expand_line(const expansion_t *x, const char *line, FILE *to) {
  char name[NAME_BYTES];
  bool keep;
  ls_status_t status = check_conditions(x, &line, &keep);
  while (status == LS_OK && keep && *line) {
    const size_t len = placeholder(line, 0, name);
    if (len > 0)
      status = put_value(x, name, to);
    else
      fputc(*line, to);
    line += len > 0 ? len : 1;
    if (line[-1] == '\n') break;
  }
  return status;
}

ls_status_t ls_expand(ls_ctx_t *ctx, const char *file, int line, const char *text, ls_expand_fn value,
                      void *data, FILE *to) {
  expansion_t x = {.ctx = ctx, .place = {.file = file, .line = line}, .value = value, .data = data};
  ls_status_t status = LS_OK;
  while (status == LS_OK && *text) {
    const size_t len = strcspn(text, "\n");
    status = expand_line(&x, text, to);
    text += len + (text[len] == '\n');
    x.place.line++;
  }
  return status;
}

ls_status_t ls_template_read(ls_ctx_t *ctx, ls_arena_t *arena, const ls_embedded_t *files, const char *dir,
                             const char *name, const char **file, const char **text) {
  if (!strpbrk(name, "/.")) {
    while (files->name && strcmp(files->name, name) != 0)
      files++;
    *file = files->name;
    *text = files->bytes;
    return files->name ? LS_OK : LS_ERR_NOT_FOUND;
  }
  char *bytes = NULL, *path = dir ? ls_path_resolve(ctx, dir, name) : ls_strdup(ctx, name);
  size_t size;
  ls_status_t status = path ? ls_file_read(ctx, path, FILE_BYTES_MAX, &bytes, &size) : LS_ERR_MEMORY;
  if (status == LS_OK) {
    *file = ls_arena_strdup(arena, path);
    *text = ls_arena_strdup(arena, bytes);
    if (!*file || !*text) status = LS_ERR_MEMORY;
  }
  ls_free(bytes);
  ls_free(path);
  return status;
}
