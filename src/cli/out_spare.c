/* What a result must not replace: the files that its command reads, and those of checkpoints. */
#include "cli/cli.h"
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
  char real[PATH_MAX]; /* the path without links */
  struct stat info;
} result_t;

static bool is_same(const result_t *r, const char *input) {
  struct stat info;
  return stat(input, &info) == 0 && info.st_dev == r->info.st_dev && info.st_ino == r->info.st_ino;
}

/* Whether it is a picture below the folder. */
static bool is_below(const result_t *r, const char *folder) {
  char real[PATH_MAX];
  if (!ls_picture_named(r->real) || !realpath(folder, real)) return false;
  size_t len = strlen(real);
  return strncmp(r->real, real, len) == 0 && r->real[len] == '/';
}

/* Whether it begins like a picture, whatever its name. */
static bool is_picture(const result_t *r) {
  char begin[16];
  FILE *file = fopen(r->real, "rb");
  size_t size = file ? fread(begin, 1, sizeof begin, file) : 0;
  if (file) fclose(file);
  return ls_picture_is(begin, size);
}

/* Whether an input of this path, which may be a pattern, a folder or FILE.npz:NAME, is the file. */
static bool is_read(const result_t *r, const char *input) {
  ls_arena_t arena;
  ls_strings_t files = {0};
  struct stat info;
  char file[PATH_MAX];
  if (!input || !strcmp(input, "-")) return false;
  snprintf(file, sizeof file, "%.*s", (int)ls_npz_file_length(input), input);
  if (is_same(r, file)) return true;
  if (stat(file, &info) == 0) return S_ISDIR(info.st_mode) && is_below(r, file);
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

/* A file of the configuration, which may have others as its base. */
static bool is_written_in(const result_t *r, const ls_doc_node_t *node, const char **last) {
  if (node->place.file && node->place.file != *last && is_same(r, *last = node->place.file)) return true;
  for (const ls_doc_node_t *child = node->child; child; child = child->next)
    if (is_written_in(r, child, last)) return true;
  return false;
}

static ls_status_t spares_config(const result_t *r, const ls_config_t *config) {
  const ls_data_config_t *data = &config->data;
  struct stat info;
  const char *last = NULL;
  if (is_written_in(r, config->doc.root, &last)) return refuse(r, "", "the configuration");
  if (is_read(r, config->model.weights)) return refuse(r, "model", "weights");
  for (int i = 0; i < ls_data_section.count; i++) {
    const ls_option_t *row = &ls_data_section.rows[i];
    if (row->type != LS_OPT_PATH) continue;
    const char *path = *(const char *const *)((const char *)data + row->offset);
    if (is_read(r, path)) return refuse(r, ls_data_section.name, row->name);
    /* A list names pictures anywhere. No result is a picture, so any of them is taken for listed. */
    if (path && data->kind == LS_DATA_IMAGES && stat(path, &info) == 0 && !S_ISDIR(info.st_mode) &&
        is_picture(r))
      return ls_fail(r->ctx, LS_ERR_ARGUMENT,
                     "%s is a picture, and %s.%s lists pictures: name another file for the result", r->path,
                     ls_data_section.name, row->name);
  }
  return LS_OK;
}

static ls_status_t spares_checkpoint(const result_t *r) {
  static const char name[] = "manifest.json", format[] = "\"lockstep-checkpoint\"";
  enum { LIMIT_BYTES = 64 << 20 };
  char *dir = ls_path_parent(r->ctx, r->real), *path = dir ? ls_path_join(r->ctx, dir, name) : NULL;
  char *text = NULL;
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

ls_status_t cli_file_possible(ls_ctx_t *ctx, const char *flag, const char *path) {
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

ls_status_t cli_file_spares(ls_ctx_t *ctx, const char *path, const cli_input_t *inputs,
                            const ls_config_t *config) {
  result_t r = {.ctx = ctx, .path = path};
  if (!path || !strcmp(path, "-") || stat(path, &r.info) != 0 || !S_ISREG(r.info.st_mode)) return LS_OK;
  if (!realpath(path, r.real)) return LS_OK; /* what is behind an open file has no name */
  for (; inputs && inputs->name; inputs++)
    if (is_read(&r, inputs->path)) return refuse(&r, "", inputs->name);
  ls_status_t status = config ? spares_config(&r, config) : LS_OK;
  return status == LS_OK ? spares_checkpoint(&r) : status;
}
