/* Finds the format of a stream of samples, and checks its blocks against the model. */
#include "data/blocks.h"
#include "data/picture/images.h"
#include "data/table/npz.h"

#include <inttypes.h>
#include <string.h>

enum { MAGIC_BYTES = 6 };

/* An archive is read as a whole, and its member becomes the stream. */
static ls_status_t open_member(ls_stream_rows_t *s, const char *path, const char *file) {
  ls_bytes_t *b = &s->bytes;
  if (!strcmp(path, "-"))
    return ls_fail(s->ctx, LS_ERR_DATA, "an archive of arrays (.npz) cannot come from stdin: name the file");
  ls_bytes_close(b);
  ls_status_t status = ls_read_bytes(s->ctx, file, &b->at, &b->capacity);
  if (status == LS_OK) status = ls_npz_member(s->ctx, path, ls_read_limit(), &b->at, &b->capacity);
  b->used = b->capacity;
  b->ended = true;
  return status;
}

/* Whether the path is for decoding. Arrays and tables are not, whatever the configuration's kind. */
static bool is_picture(const ls_stream_rows_t *s, const char *path) {
  return s->config->kind == LS_DATA_IMAGES &&
         (ls_path_is_folder(path) || ls_picture_is(s->bytes.at, s->bytes.used));
}

/* With kind: images an array holds samples that were made of pictures already. */
static ls_status_t open_array(ls_stream_rows_t *s, bool npy) {
  const bool pictures = ls_data_pictures(s->config) && s->config->kind != LS_DATA_IMAGES;
  ls_status_t status = ls_blocks_array(s, npy);
  return status == LS_OK && pictures && s->array.type == LS_ELEM_U8 ? ls_blocks_pictures(s) : status;
}

static ls_status_t open_list(ls_stream_rows_t *s, const char *path) {
  const ls_strings_t *columns = &s->config->columns;
  ls_status_t status = ls_bytes_fill(&s->bytes, LS_BYTES_BLOCK);
  if (status != LS_OK) return status;
  if (ls_images_is_list(s->config, s->bytes.at, s->bytes.used)) return ls_blocks_images(s, path, true);
  return ls_fail(
      s->ctx, LS_ERR_DATA,
      "%s: neither PNG nor JPEG, nor an array of images (.npy, .npz, IDX), nor a CSV file of paths "
      "(with a column '%s'; data.columns names another)",
      s->name, columns->count > 0 ? LS_SHOWN(columns->v[0]) : "file");
}

static ls_status_t open_format(ls_stream_rows_t *s, const char *path) {
  ls_bytes_t *b = &s->bytes;
  if (is_picture(s, path)) return ls_blocks_images(s, path, false);
  const char *file = ls_arena_strndup(&s->arena, path, ls_npz_file_length(path));
  ls_status_t status = file ? ls_bytes_open(b, file) : LS_ERR_MEMORY;
  if (status == LS_OK) status = ls_bytes_fill(b, MAGIC_BYTES);
  if (status != LS_OK) return status;
  if (is_picture(s, path)) return ls_blocks_images(s, path, false);
  if (ls_npz_is(path, b->at, b->used)) status = open_member(s, path, file);
  if (status != LS_OK) return status;
  const bool npy = b->used >= MAGIC_BYTES && !memcmp(b->at, "\x93NUMPY", MAGIC_BYTES);
  if (npy || (b->used >= 2 && !memcmp(b->at, "\0\0", 2))) return open_array(s, npy);
  return s->config->kind == LS_DATA_IMAGES ? open_list(s, path) : ls_blocks_csv(s);
}

ls_status_t ls_stream_open(ls_ctx_t *ctx, const ls_data_config_t *config, const char *path,
                           const ls_data_want_t *want, ls_stream_rows_t **out) {
  ls_stream_rows_t *s = ls_alloc(ctx, sizeof *s);
  if (!s) return LS_ERR_MEMORY;
  *s =
      (ls_stream_rows_t){.ctx = ctx, .config = config, .want = want, .columns = config->columns, .total = -1};
  ls_arena_init(&s->arena, ctx);
  s->name = ls_arena_strdup(&s->arena, strcmp(path, "-") ? path : "stdin");
  s->bytes = (ls_bytes_t){.ctx = ctx, .name = s->name};
  ls_status_t status = s->name ? open_format(s, path) : LS_ERR_MEMORY;
  if (status != LS_OK)
    ls_stream_close(s);
  else
    *out = s;
  return status;
}

void ls_stream_close(ls_stream_rows_t *s) {
  if (!s) return;
  ls_blocks_images_close(s);
  ls_matrix_release(&s->rows);
  ls_free(s->windows.row);
  ls_bytes_close(&s->bytes);
  ls_arena_release(&s->arena);
  ls_free(s);
}

const char *ls_stream_file(const ls_stream_rows_t *s, int64_t row) {
  return ls_blocks_images_file(s, row);
}

int64_t ls_stream_total(const ls_stream_rows_t *s) {
  return s->total;
}

ls_status_t ls_stream_next(ls_stream_rows_t *s, ls_matrix_t *rows) {
  const int64_t inputs = s->want->inputs, ids = s->want->whole ? s->want->ids : 0;
  ls_matrix_release(&s->rows);
  *rows = (ls_matrix_t){0};
  ls_status_t status = s->next(s, rows);
  if (status != LS_OK || rows->rows == 0) return status;
  if (rows->cols != inputs)
    return ls_fail(s->ctx, LS_ERR_DATA,
                   "%s has %" PRId64 " feature%s per sample, but the model's input is %" PRId64 "%s", s->name,
                   rows->cols, LS_PLURAL(rows->cols), inputs,
                   rows->names ? ": data.columns names those to use" : "");
  if (s->given == 0) status = ls_samples_check(s->ctx, s->name, &rows->row, &s->want->x);
  if (status == LS_OK && ids > 0) status = ls_matrix_ids(s->ctx, s->name, rows, s->given, ids);
  s->given += rows->rows;
  return status;
}
