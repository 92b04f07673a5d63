/* One buffer: whatever a format needs in front (the header of a CSV file), then the bytes that are not used up yet.
 * Each batch goes through the reader of whole files. */
#include "data/stream.h"

#include "data/parts.h"
#include "data/picture/images.h"
#include "data/table/elements.h"
#include "data/table/npz.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { IMAGES_BATCH = 64, BLOCK_BYTES = 1 << 20, MAGIC_BYTES = 6, ROW_BYTES_MAX = 1 << 30 };

struct ls_stream_rows {
  ls_ctx_t *ctx;
  const char *name; /* for messages, in the arena */
  gzFile file;      /* unpacks gzip, and hands on everything else as it is; NULL: an archive's member */
  char *member;     /* the whole of it */
  size_t member_bytes;
  bool ended;
  char *buffer;
  size_t used, capacity;
  ls_status_t (*next)(ls_stream_rows_t *s, ls_matrix_t *rows);
  int64_t inputs, ids; /* ids: features are tokens below it; 0: they are not, or any */
  int64_t given;       /* rows handed out */
  ls_matrix_t rows;    /* the batch that was handed out */
  ls_arena_t arena;
  /* CSV */
  char delimiter;
  ls_strings_t columns, indicators;
  bool trained;
  ls_missing_t missing;
  bool ordered;             /* of windows, until a warning */
  size_t header;            /* bytes in front of the rows; 0 = not known yet */
  int64_t passed;           /* lines between the header and the first row of the buffer */
  ls_window_rows_t windows; /* over time; its config is NULL without them */
  const ls_data_want_t *want;
  /* arrays */
  ls_array_t array; /* dim[0]: rows of the whole */
  int64_t row;      /* the next one */
  size_t offset;    /* of the data in the file */
  /* pictures: of files, row is the next one; or of an array */
  ls_dataset_t *images; /* of which only what decoding needs is there */
};

/* ---- bytes ---- */

static ls_status_t reserve(ls_stream_rows_t *s, size_t bytes) {
  if (bytes <= s->capacity) return LS_OK;
  char *grown = ls_realloc_array(s->ctx, s->buffer, bytes, 1);
  if (!grown) return LS_ERR_MEMORY;
  s->buffer = grown;
  s->capacity = bytes;
  return LS_OK;
}

static ls_status_t read_failed(ls_stream_rows_t *s) {
  int code;
  const char *text = gzerror(s->file, &code);
  if (code == Z_ERRNO) return ls_fail_errno(s->ctx, "%s: cannot be read", s->name);
  if (code == Z_MEM_ERROR) return ls_fail(s->ctx, LS_ERR_MEMORY, "out of memory: %s", s->name);
  return ls_fail(s->ctx, LS_ERR_DATA, "%s: damaged gzip data, or the file is truncated: %s", s->name, text);
}

/* Until the buffer holds `bytes`, or the stream has ended. */
static ls_status_t fill(ls_stream_rows_t *s, size_t bytes) {
  ls_status_t status = reserve(s, bytes);
  while (status == LS_OK && s->used < bytes && !s->ended) {
    size_t room = bytes - s->used;
    int got = gzread(s->file, s->buffer + s->used, (unsigned)(room < BLOCK_BYTES ? room : BLOCK_BYTES));
    int code = Z_OK;
    if (got <= 0) gzerror(s->file, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) return read_failed(s);
    s->ended = got == 0;
    s->used += (size_t)got;
  }
  return status;
}

static void drop(ls_stream_rows_t *s, size_t begin, size_t end) {
  memmove(s->buffer + begin, s->buffer + end, s->used - end);
  s->used -= end - begin;
}

/* ---- CSV ---- */

/* The end of the last whole record in [begin, used), and how many lines there are before it. A line end between quotes
 * ends no record. */
static size_t last_record(const ls_stream_rows_t *s, size_t begin, bool first, int64_t *lines) {
  size_t end = begin;
  int64_t passed = 0;
  bool quoted = false;
  for (size_t i = begin; i < s->used; i++) {
    if (s->buffer[i] == '"') quoted = !quoted;
    if (s->buffer[i] != '\n') continue;
    passed++;
    if (quoted) continue;
    end = i + 1;
    *lines = passed;
    if (first) break;
  }
  return end;
}

static bool is_blank(const ls_stream_rows_t *s) {
  for (size_t i = s->header; i < s->used; i++)
    if (s->buffer[i] != '\n' && s->buffer[i] != '\r') return false;
  return true;
}

/* The first batch decides about columns that nobody has named. */
static ls_status_t keep_names(ls_stream_rows_t *s) {
  const char **names = ls_arena_array(&s->arena, (size_t)s->rows.cols, sizeof *names);
  if (!names) return LS_ERR_MEMORY;
  for (int64_t i = 0; i < s->rows.cols; i++)
    if (!(names[i] = ls_arena_strdup(&s->arena, s->rows.names[i]))) return LS_ERR_MEMORY;
  s->columns = (ls_strings_t){(int)s->rows.cols, names};
  return LS_OK;
}

static ls_status_t next_csv(ls_stream_rows_t *s, ls_matrix_t *rows) {
  int64_t lines = 0;
  size_t cut = 0;
  bool first = s->header == 0;
  ls_status_t status = LS_OK;
  for (size_t want = s->header + BLOCK_BYTES; cut == 0 && status == LS_OK; want *= 2) {
    status = want < ls_read_limit()
                 ? fill(s, want)
                 : ls_fail(s->ctx, LS_ERR_DATA, "%s: a row of more than %zu bytes", s->name, want);
    if (status == LS_OK && s->header == 0) s->header = last_record(s, 0, true, &lines);
    size_t end = last_record(s, s->header, false, &lines);
    if (s->ended) end = s->used;
    if (s->header < end || s->ended) cut = end;
    if (s->ended) break;
  }
  if (status != LS_OK || (!first && s->ended && is_blank(s))) return status;
  ls_matrix_t made;
  status = ls_read_csv_after(s->ctx, s->name, s->buffer, cut, s->delimiter, &s->columns, s->trained,
                             s->missing != LS_MISSING_ERROR, &s->ordered, s->passed, &made);
  if (status != LS_OK) return status;
  s->passed += lines;
  drop(s, s->header, cut);
  s->rows = made;
  if (s->columns.count == 0) status = keep_names(s);
  if (status == LS_OK && s->missing == LS_MISSING_INDICATOR)
    status = ls_matrix_mark_gaps(s->ctx, &s->indicators, &s->rows);
  *rows = s->rows;
  return status;
}

/* Windows of the rows that were read, then those that the next rows complete. */
static ls_status_t next_windows(ls_stream_rows_t *s, ls_matrix_t *rows) {
  ls_window_rows_t *w = &s->windows;
  ls_status_t status = LS_OK;
  for (bool more = true; more && status == LS_OK;) {
    if (w->cols > 0) {
      status = ls_windows_next(s->ctx, w, BLOCK_BYTES / (w->config->window * w->cols) + 1, &s->rows);
      *rows = s->rows;
      if (status != LS_OK || rows->rows > 0) return status;
    }
    status = next_csv(s, rows);
    more = rows->rows > 0;
    const ls_source_t source = {.feature_name = s->name, .features = *rows};
    if (status == LS_OK && more) status = ls_windows_check(s->ctx, w->config, s->want, &source);
    if (status == LS_OK && more) status = ls_windows_add(s->ctx, w, rows);
    ls_matrix_release(&s->rows);
    *rows = s->rows;
  }
  if (status == LS_OK && w->given == 0)
    status =
        ls_fail(s->ctx, LS_ERR_DATA, "%s: %" PRId64 " row%s give no sample of data.window: %" PRId64 " rows",
                s->name, w->count, LS_PLURAL(w->count), w->config->window);
  return status;
}

/* ---- arrays ---- */

static ls_status_t next_array(ls_stream_rows_t *s, ls_matrix_t *rows) {
  ls_array_t part = s->array;
  int64_t left = s->array.dim[0] - s->row, row_bytes = ls_array_row_bytes(&s->array);
  ls_status_t status = LS_OK;
  if (left == 0) {
    status = fill(s, 1);
    if (status == LS_OK && s->used > 0)
      status = ls_fail(s->ctx, LS_ERR_DATA, "%s: bytes follow the data: the sizes in the header are wrong",
                       s->name);
    return status;
  }
  part.rows_before = s->row;
  part.bytes_before = s->offset + (size_t)(s->row * row_bytes);
  part.dim[0] = BLOCK_BYTES / row_bytes + 1;
  if (part.dim[0] > left || part.by_column) part.dim[0] = left;
  size_t bytes = (size_t)(part.dim[0] * row_bytes);
  status = fill(s, bytes);
  if (status != LS_OK) return status;
  if (s->used < bytes)
    return ls_fail(s->ctx, LS_ERR_DATA,
                   "%s: the header promises %" PRId64 " rows, the file ends after %" PRId64
                   ": it is truncated or its sizes are wrong",
                   s->name, s->array.dim[0], s->row + (int64_t)s->used / row_bytes);
  status = ls_array_read(s->ctx, &part, s->buffer, bytes, 0, &s->rows);
  if (status != LS_OK) return status;
  *rows = s->rows;
  s->row += part.dim[0];
  drop(s, 0, bytes);
  return LS_OK;
}

static ls_status_t open_array(ls_stream_rows_t *s,
                              ls_status_t (*header)(ls_ctx_t *ctx, const char *name, const void *bytes,
                                                    size_t size, ls_array_t *array, size_t *offset)) {
  s->array.name = s->name;
  ls_status_t status = fill(s, LS_ARRAY_HEADER_BYTES_MAX);
  if (status == LS_OK) status = header(s->ctx, s->name, s->buffer, s->used, &s->array, &s->offset);
  if (status != LS_OK) return status;
  int64_t row_bytes = ls_array_row_bytes(&s->array);
  if (s->array.dim[0] < 1 || row_bytes < 1 || row_bytes > ROW_BYTES_MAX)
    return ls_fail(s->ctx, LS_ERR_DATA,
                   "%s: the header's sizes make no samples, or samples of more than %d bytes", s->name,
                   ROW_BYTES_MAX);
  if (s->array.by_column && s->array.dim[0] > (int64_t)ls_read_limit() / row_bytes)
    return ls_fail(
        s->ctx, LS_ERR_DATA,
        "%s: an array in column order (fortran_order) is read as a whole, and this one is larger than the "
        "limit of %zu bytes: save numpy.ascontiguousarray(array)",
        s->name, ls_read_limit());
  drop(s, 0, s->offset);
  s->next = next_array;
  return LS_OK;
}

/* ---- images ---- */

/* The samples of `count` pictures from `first` on become the batch. */
static ls_status_t give_images(ls_stream_rows_t *s, int64_t first, int64_t count, ls_matrix_t *rows) {
  const ls_dataset_t *d = s->images;
  s->rows =
      (ls_matrix_t){.rows = count, .cols = ls_shape_count(&d->sample.x), .row = d->sample.x, .bytes = true};
  s->rows.values = ls_alloc_array(s->ctx, (size_t)count, ls_shape_bytes(&d->sample.x));
  if (!s->rows.values) return LS_ERR_MEMORY;
  *rows = s->rows;
  return ls_images_decode(s->ctx, d, NULL, first, count, s->rows.values);
}

static ls_status_t next_images(ls_stream_rows_t *s, ls_matrix_t *rows) {
  int64_t left = s->images->rows - s->row, count = left < IMAGES_BATCH ? left : IMAGES_BATCH;
  if (count == 0) return LS_OK;
  s->row += count;
  return give_images(s, s->row - count, count, rows);
}

/* An array's rows, which are pictures, as the samples that evaluation makes of them. */
static ls_status_t next_pictures(ls_stream_rows_t *s, ls_matrix_t *rows) {
  ls_status_t status = next_array(s, rows);
  if (status != LS_OK || rows->rows == 0) return status;
  s->images->images->pixels = s->rows.values; /* which the close of the images frees if this fails */
  s->rows.values = NULL;
  status = give_images(s, 0, rows->rows, rows);
  ls_free(s->images->images->pixels);
  s->images->images->pixels = NULL;
  return status;
}

/* Dataset of pictures without any so far. */
static ls_status_t make_images(ls_stream_rows_t *s, ls_shape_t x) {
  ls_dataset_t *d = s->images = ls_arena_alloc(&s->arena, sizeof *d);
  if (!d) return LS_ERR_MEMORY;
  ls_arena_init(&d->arena, s->ctx);
  d->sample.x = x;
  d->sample.x.dtype = LS_U8;
  return LS_OK;
}

static ls_status_t open_pictures(ls_stream_rows_t *s, const ls_data_config_t *config,
                                 const ls_data_want_t *want) {
  ls_shape_t row = ls_array_row_shape(&s->array);
  ls_status_t status = make_images(s, want->x);
  if (status == LS_OK) status = ls_images_array(s->ctx, config, want, s->name, &row, s->images);
  if (status == LS_OK) status = ls_augment_set(s->ctx, config, &s->images->sample.x, &s->images->augment);
  s->next = next_pictures;
  return status;
}

/* `listed`: the stream is a CSV file of their paths. */
static ls_status_t open_images(ls_stream_rows_t *s, const ls_data_config_t *config, const char *path,
                               const ls_shape_t *x, bool listed) {
  if (!listed && !strcmp(path, "-"))
    return ls_fail(s->ctx, LS_ERR_DATA,
                   "an image cannot come from stdin: name the file, or a folder of images");
  if (make_images(s, *x) != LS_OK) return LS_ERR_MEMORY;
  ls_dataset_t *d = s->images;
  d->images = ls_arena_alloc(&s->arena, sizeof *d->images);
  if (!d->images) return LS_ERR_MEMORY;
  ls_status_t status = ls_images_settings(s->ctx, config, x, d->images);
  if (status == LS_OK) status = ls_augment_set(s->ctx, config, &d->sample.x, &d->augment);
  for (size_t want = BLOCK_BYTES; listed && status == LS_OK && !s->ended; want *= 2)
    status = want < ls_read_limit() ? fill(s, want)
                                    : ls_fail(s->ctx, LS_ERR_DATA, "%s: more than %zu bytes", s->name, want);
  if (status == LS_OK)
    status = listed
                 ? ls_images_read_list(s->ctx, config, path, s->name, s->buffer, s->used, d->images, &d->rows)
                 : ls_images_find(s->ctx, path, d->images, &d->rows);
  d->split_rows = d->rows;
  s->next = next_images;
  return status;
}

/* ---- opening ---- */

/* An archive is read as a whole, and its member becomes the stream. */
static ls_status_t open_member(ls_stream_rows_t *s, const char *path, const char *file) {
  if (!strcmp(path, "-"))
    return ls_fail(s->ctx, LS_ERR_DATA, "an archive of arrays (.npz) cannot come from stdin: name the file");
  ls_status_t status = ls_read_bytes(s->ctx, file, &s->buffer, &s->capacity);
  if (status == LS_OK) status = ls_npz_member(s->ctx, path, ls_read_limit(), &s->buffer, &s->capacity);
  s->used = s->capacity;
  s->ended = true;
  return status;
}

static ls_status_t open_file(ls_stream_rows_t *s, const char *path) {
  bool in = !strcmp(path, "-");
  int fd = in ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0) return ls_fail_errno(s->ctx, "%s: cannot be opened", s->name);
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    close(fd);
    return ls_fail(s->ctx, LS_ERR_IO, "%s: a directory, a file was expected", s->name);
  }
  s->file = gzdopen(fd, "rb");
  if (s->file) return LS_OK;
  close(fd);
  return ls_fail(s->ctx, LS_ERR_MEMORY, "out of memory: %s", s->name);
}

/* Whether the path is for decoding: arrays and tables are read as always. */
static bool is_images(const ls_stream_rows_t *s, const ls_data_config_t *config, const char *path) {
  return config->kind == LS_DATA_IMAGES && (ls_path_is_folder(path) || ls_picture_is(s->buffer, s->used));
}

static ls_status_t open_format(ls_stream_rows_t *s, const ls_data_config_t *config, const char *path,
                               const ls_data_want_t *want) {
  if (is_images(s, config, path)) return open_images(s, config, path, &want->x, false);
  size_t length = ls_npz_file_length(path);
  const char *file = ls_arena_strndup(&s->arena, path, length);
  ls_status_t status = file ? open_file(s, file) : LS_ERR_MEMORY;
  if (status == LS_OK) status = fill(s, MAGIC_BYTES);
  if (status != LS_OK) return status;
  if (is_images(s, config, path)) return open_images(s, config, path, &want->x, false);
  if (ls_npz_is(path, s->buffer, s->used)) {
    ls_free(s->buffer);
    s->buffer = NULL;
    s->used = s->capacity = 0;
    status = open_member(s, path, file);
    if (status != LS_OK) return status;
  }
  const bool npy = s->used >= MAGIC_BYTES && !memcmp(s->buffer, "\x93NUMPY", MAGIC_BYTES);
  if (npy || (s->used >= 2 && !memcmp(s->buffer, "\0\0", 2))) {
    status = open_array(s, npy ? ls_npy_header : ls_idx_header);
    /* With kind: images an array holds samples that were made of pictures already. */
    const bool pictures = ls_data_pictures(config) && config->kind != LS_DATA_IMAGES;
    return status == LS_OK && pictures && s->array.type == LS_ELEM_U8 ? open_pictures(s, config, want)
                                                                      : status;
  }
  if (config->kind == LS_DATA_IMAGES) {
    status = fill(s, BLOCK_BYTES);
    if (status != LS_OK) return status;
    if (ls_images_is_list(config, s->buffer, s->used)) return open_images(s, config, path, &want->x, true);
    return ls_fail(
        s->ctx, LS_ERR_DATA,
        "%s: neither PNG nor JPEG, nor an array of images (.npy, .npz, IDX), nor a CSV file of paths "
        "(with a column '%s'; data.columns names another)",
        s->name, config->columns.count > 0 ? LS_SHOWN(config->columns.v[0]) : "file");
  }
  s->next = next_csv;
  if (config->kind != LS_DATA_CSV || config->window == 0) return LS_OK;
  s->next = next_windows;
  s->ordered = true;
  s->windows.config = config;
  return LS_OK;
}

ls_status_t ls_stream_open(ls_ctx_t *ctx, const ls_data_config_t *config, const char *path,
                           const ls_data_want_t *want, ls_stream_rows_t **out) {
  ls_stream_rows_t *s = ls_alloc(ctx, sizeof *s);
  if (!s) return LS_ERR_MEMORY;
  s->ctx = ctx;
  ls_arena_init(&s->arena, ctx);
  s->name = ls_arena_strdup(&s->arena, strcmp(path, "-") ? path : "stdin");
  s->inputs = want->inputs;
  s->want = want;
  s->ids = want->whole ? want->ids : 0;
  s->columns = config->columns;
  s->indicators = config->indicators;
  s->trained = config->columns_trained;
  s->missing = (ls_missing_t)config->missing;
  ls_data_delimiter(config, &s->delimiter); /* was checked */
  ls_status_t status = s->name ? open_format(s, config, path, want) : LS_ERR_MEMORY;
  if (status != LS_OK)
    ls_stream_close(s);
  else
    *out = s;
  return status;
}

void ls_stream_close(ls_stream_rows_t *s) {
  if (!s) return;
  if (s->file) gzclose_r(s->file);
  if (s->images) {
    ls_images_close(s->images->images);
    ls_arena_release(&s->images->arena);
  }
  ls_matrix_release(&s->rows);
  ls_free(s->windows.row);
  ls_free(s->buffer);
  ls_arena_release(&s->arena);
  ls_free(s);
}

const char *ls_stream_file(const ls_stream_rows_t *s, int64_t row) {
  const ls_images_t *im = s->next == next_images ? s->images->images : NULL;
  return im ? im->names + im->name_at[row] : NULL;
}

int64_t ls_stream_total(const ls_stream_rows_t *s) {
  return s->next == next_images                              ? s->images->rows
         : s->next == next_array || s->next == next_pictures ? s->array.dim[0]
                                                             : -1;
}

ls_status_t ls_stream_next(ls_stream_rows_t *s, ls_matrix_t *rows) {
  ls_matrix_release(&s->rows);
  *rows = (ls_matrix_t){0};
  ls_status_t status = s->next(s, rows);
  if (status != LS_OK || rows->rows == 0) return status;
  if (rows->cols != s->inputs)
    return ls_fail(s->ctx, LS_ERR_DATA,
                   "%s has %" PRId64 " feature%s per sample, but the model's input is %" PRId64 "%s", s->name,
                   rows->cols, LS_PLURAL(rows->cols), s->inputs,
                   rows->names ? ": data.columns names those to use" : "");
  if (s->given == 0) status = ls_samples_check(s->ctx, s->name, &rows->row, &s->want->x);
  if (status == LS_OK && s->ids > 0) status = ls_matrix_ids(s->ctx, s->name, rows, s->given, s->ids);
  s->given += rows->rows;
  return status;
}

ls_status_t ls_dataset_without(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                               const ls_norm_t *norm, ls_dataset_t **out) {
  static const ls_strings_t none = {0};
  const ls_strings_t *columns = config->kind == LS_DATA_CSV ? &config->columns : &none;
  ls_images_t images;
  const bool pictures = ls_data_pictures(config);
  if (pictures && ls_images_settings(ctx, config, &want->x, &images) != LS_OK) return LS_ERR_CONFIG;
  ls_dataset_t *d = ls_alloc(ctx, sizeof *d);
  if (!d) return LS_ERR_MEMORY;
  ls_arena_init(&d->arena, ctx);
  int64_t targets = want->classes ? 0 : want->outputs, all = want->inputs + targets;
  d->inputs = want->inputs;
  d->outputs = want->outputs;
  d->classes = want->classes;
  d->sample.x = LS_SHAPE(LS_F32, want->inputs);
  ls_dataset_one_unit(d, 0, 1);
  double *mean = ls_arena_array(&d->arena, (size_t)all, sizeof *mean);
  float *scale = ls_arena_array(&d->arena, (size_t)all, sizeof *scale);
  size_t bytes = (size_t)columns->count * sizeof *d->columns;
  for (int i = 0; i < columns->count; i++)
    bytes += strlen(columns->v[i]) + 1;
  if (columns->count > 0) d->columns = ls_alloc(ctx, bytes);
  ls_labels_t classes = {.arena = &d->arena, .most = want->outputs};
  ls_status_t status = ls_labels_give(&classes, &config->labels);
  if (status == LS_OK) status = ls_labels_list(&classes, &d->labels);
  if (status == LS_OK) status = ls_strings_copy(&d->arena, &config->vocabulary, &d->vocabulary);
  if (status == LS_OK) status = ls_strings_copy(&d->arena, &config->indicators, &d->indicators);
  if (!mean || !scale || (columns->count > 0 && !d->columns) || status != LS_OK) {
    ls_dataset_close(d);
    return LS_ERR_MEMORY;
  }
  d->column_count = columns->count;
  char *text = d->columns ? (char *)(d->columns + columns->count) : NULL;
  for (int i = 0; i < columns->count; i++) {
    d->columns[i] = strcpy(text, columns->v[i]);
    text += strlen(text) + 1;
  }
  const int64_t channels = want->x.rank == 3 ? want->x.dim[2] : 1; /* of images */
  for (int64_t i = 0; i < all; i++) {
    bool x = i < want->inputs;
    int64_t at = x ? i : i - want->inputs;
    mean[i] = !norm ? 0.0 : x ? norm->mean[at] : norm->target_mean[at];
    scale[i] = !norm ? 1.0f : x ? norm->scale[at] : norm->target_scale[at];
    if (!norm && x && pictures) {
      float shift;
      ls_images_unit(config, (int)(i % channels), &shift, &scale[i]);
      mean[i] = (double)shift;
    }
  }
  d->norm = (ls_norm_t){want->inputs, targets, mean, mean + want->inputs, scale, scale + want->inputs};
  *out = d;
  return LS_OK;
}
