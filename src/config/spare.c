/* Compares files by device and inode, so that links and other names of a file are seen. */
#include "config/spare.h"

#include "data/picture/picture.h"
#include "data/read.h"
#include "data/table/npz.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
  ls_ctx_t *ctx;
  const char *path;
  struct stat info;
} result_t;

static bool is_same(const result_t *r, const char *input) {
  struct stat info;
  return stat(input, &info) == 0 && info.st_dev == r->info.st_dev && info.st_ino == r->info.st_ino;
}

/* No result is a picture, so an existing picture is data. */
static bool is_picture(const result_t *r) {
  char begin[16];
  FILE *file = fopen(r->path, "rbe");
  const size_t size = file ? fread(begin, 1, sizeof begin, file) : 0;
  if (file) fclose(file);
  return ls_picture_is(begin, size);
}

/* Whether an input of this path, which may be a pattern or FILE.npz:NAME, is the file. */
static bool is_read(const result_t *r, const char *input) {
  ls_arena_t arena;
  ls_strings_t files = {0};
  char file[PATH_MAX];
  if (!input || !strcmp(input, "-")) return false;
  snprintf(file, sizeof file, "%.*s", (int)ls_npz_file_length(input), input);
  if (ls_path_exists(file)) return is_same(r, file);
  ls_arena_init(&arena, NULL); /* a pattern without a match is reported by its reader */
  bool read = false;
  if (ls_files_find(&arena, file, false, &files) == LS_OK)
    for (int i = 0; i < files.count && !read; i++)
      read = is_same(r, files.v[i]);
  ls_arena_release(&arena);
  return read;
}

static ls_status_t refuse(const result_t *r, const char *section, const char *name) {
  return ls_fail(r->ctx, LS_ERR_ARGUMENT, "%s is what is read (%s%s%s): name another file for the result",
                 r->path, section, *section ? "." : "", name);
}

/* A configuration's file may have others as its base. */
static bool is_written_in(const result_t *r, const ls_doc_node_t *node, const char **last) {
  if (node->place.file && node->place.file != *last && is_same(r, *last = node->place.file)) return true;
  for (const ls_doc_node_t *child = node->child; child; child = child->next)
    if (is_written_in(r, child, last)) return true;
  return false;
}

static ls_status_t spares_config(const result_t *r, const ls_config_t *config) {
  const char *last = NULL;
  if (is_written_in(r, config->doc.root, &last)) return refuse(r, "", "the configuration");
  if (is_read(r, config->model.weights)) return refuse(r, "model", "weights");
  for (int i = 0; i < ls_data_section.count; i++) {
    const ls_option_t *row = &ls_data_section.rows[i];
    if (row->type == LS_FIELD_PATH &&
        is_read(r, *(const char *const *)((const char *)&config->data + row->offset)))
      return refuse(r, ls_data_section.name, row->name);
  }
  return LS_OK;
}

static ls_status_t spares_checkpoint(const result_t *r) {
  static const char name[] = "manifest.json", format[] = "\"lockstep-checkpoint\"";
  enum { LIMIT_BYTES = 64 << 20 };
  char real[PATH_MAX], *text = NULL;
  if (!realpath(r->path, real)) return LS_OK; /* an open file without a name */
  char *dir = ls_path_parent(r->ctx, real), *path = dir ? ls_path_join(r->ctx, dir, name) : NULL;
  size_t size;
  ls_status_t status = path ? LS_OK : LS_ERR_MEMORY;
  if (path && ls_file_read(NULL, path, LIMIT_BYTES, &text, &size) == LS_OK && strstr(text, format))
    status = ls_fail(r->ctx, LS_ERR_ARGUMENT,
                     "%s is a file of a checkpoint: name another file for the result", r->path);
  ls_free(text);
  ls_free(path);
  ls_free(dir);
  return status;
}

ls_status_t ls_config_writable(ls_ctx_t *ctx, const char *flag, const char *path) {
  char *dir = ls_path_parent(ctx, path);
  struct stat there, itself;
  /* A device or an open file (/dev/fd/3) is not replaced by a new file beside it. */
  const bool exists = stat(path, &there) == 0 && lstat(path, &itself) == 0,
             in_place = exists && (S_ISLNK(itself.st_mode) || !S_ISREG(there.st_mode));
  ls_status_t status = dir ? LS_OK : LS_ERR_MEMORY;
  if (dir && exists && S_ISDIR(there.st_mode))
    status = ls_fail(ctx, LS_ERR_IO, "%s: %s is a folder; a file is needed", flag, path);
  else if (dir && in_place && access(path, W_OK) != 0)
    status = ls_fail(ctx, LS_ERR_IO, "%s: %s cannot be written: %s", flag, path, strerror(errno));
  else if (dir && !in_place && access(dir, W_OK | X_OK) != 0)
    status = ls_fail(ctx, LS_ERR_IO, "%s: %s cannot be written: %s: %s", flag, path, dir, strerror(errno));
  ls_free(dir);
  return status;
}

ls_status_t ls_config_spares(ls_ctx_t *ctx, const char *path, const ls_config_input_t *inputs,
                             const ls_config_t *config) {
  result_t r = {.ctx = ctx, .path = path};
  if (!path || !strcmp(path, "-") || stat(path, &r.info) != 0 || !S_ISREG(r.info.st_mode)) return LS_OK;
  for (; inputs && inputs->name; inputs++)
    if (is_read(&r, inputs->path)) return refuse(&r, "", inputs->name);
  ls_status_t status = config ? spares_config(&r, config) : LS_OK;
  if (status == LS_OK && is_picture(&r))
    status = ls_fail(ctx, LS_ERR_ARGUMENT, "%s is a picture: name another file for the result", path);
  return status == LS_OK ? spares_checkpoint(&r) : status;
}
