/* CSV files, their windows, and arrays as blocks of samples. */
#include "data/blocks.h"

#include <inttypes.h>

enum { ROW_BYTES_MAX = 1 << 30 };

/* ---- CSV ---- */

/* The end of the last whole record in [begin, used), and the number of lines before it. A line end between quotes
 * ends no record. */
static size_t last_record(const ls_stream_rows_t *s, size_t begin, bool first, int64_t *lines) {
  size_t end = begin;
  int64_t passed = 0;
  bool quoted = false;
  for (size_t i = begin; i < s->bytes.used; i++) {
    if (s->bytes.at[i] == '"') quoted = !quoted;
    if (s->bytes.at[i] != '\n') continue;
    passed++;
    if (quoted) continue;
    end = i + 1;
    *lines = passed;
    if (first) break;
  }
  return end;
}

static bool is_blank(const ls_stream_rows_t *s) {
  for (size_t i = s->header; i < s->bytes.used; i++)
    if (s->bytes.at[i] != '\n' && s->bytes.at[i] != '\r') return false;
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
  for (size_t want = s->header + LS_BYTES_BLOCK; cut == 0 && status == LS_OK; want *= 2) {
    status = want < ls_read_limit()
                 ? ls_bytes_fill(&s->bytes, want)
                 : ls_fail(s->ctx, LS_ERR_DATA, "%s: a row of more than %zu bytes", s->name, want);
    if (status == LS_OK && s->header == 0) s->header = last_record(s, 0, true, &lines);
    size_t end = last_record(s, s->header, false, &lines);
    if (s->bytes.ended) end = s->bytes.used;
    if (s->header < end || s->bytes.ended) cut = end;
    if (s->bytes.ended) break;
  }
  if (status != LS_OK || (!first && s->bytes.ended && is_blank(s))) return status;
  ls_matrix_t made;
  char delimiter;
  ls_data_delimiter(s->config, &delimiter); /* was checked */
  const ls_csv_read_t read = {.name = s->name,
                              .text = s->bytes.at,
                              .size = cut,
                              .delimiter = delimiter,
                              .want = &s->columns,
                              .trained = s->config->columns_trained,
                              .gaps = s->config->missing != LS_MISSING_ERROR,
                              .ordered = s->ordered ? &s->ordered : NULL,
                              .passed = s->passed};
  status = ls_read_csv(s->ctx, &read, &made);
  if (status != LS_OK) return status;
  s->passed += lines;
  ls_bytes_drop(&s->bytes, s->header, cut);
  s->rows = made;
  if (s->columns.count == 0) status = keep_names(s);
  if (status == LS_OK && s->config->missing == LS_MISSING_INDICATOR)
    status = ls_matrix_mark_gaps(s->ctx, &s->config->indicators, &s->rows);
  *rows = s->rows;
  return status;
}

/* Windows of the rows that were read, then those that the next rows complete. */
static ls_status_t next_windows(ls_stream_rows_t *s, ls_matrix_t *rows) {
  ls_window_rows_t *w = &s->windows;
  ls_status_t status = LS_OK;
  for (bool more = true; more && status == LS_OK;) {
    if (w->cols > 0) {
      status = ls_windows_next(s->ctx, w, LS_BYTES_BLOCK / (w->config->window * w->cols) + 1, &s->rows);
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

ls_status_t ls_blocks_csv(ls_stream_rows_t *s) {
  s->next = next_csv;
  if (s->config->kind != LS_DATA_CSV || s->config->window == 0) return LS_OK;
  s->next = next_windows;
  s->ordered = true;
  s->windows.config = s->config;
  return LS_OK;
}

/* ---- arrays ---- */

ls_status_t ls_blocks_next_array(ls_stream_rows_t *s, ls_matrix_t *rows) {
  ls_array_t part = s->array;
  int64_t left = s->array.dim[0] - s->row, row_bytes = ls_array_row_bytes(&s->array);
  ls_status_t status = LS_OK;
  if (left == 0) {
    status = ls_bytes_fill(&s->bytes, 1);
    if (status == LS_OK && s->bytes.used > 0)
      status = ls_fail(s->ctx, LS_ERR_DATA, "%s: bytes follow the data: the sizes in the header are wrong",
                       s->name);
    return status;
  }
  part.rows_before = s->row;
  part.bytes_before = s->offset + (size_t)(s->row * row_bytes);
  part.dim[0] = LS_BYTES_BLOCK / row_bytes + 1;
  if (part.dim[0] > left || part.by_column) part.dim[0] = left;
  size_t bytes = (size_t)(part.dim[0] * row_bytes);
  status = ls_bytes_fill(&s->bytes, bytes);
  if (status != LS_OK) return status;
  if (s->bytes.used < bytes)
    return ls_fail(s->ctx, LS_ERR_DATA,
                   "%s: the header promises %" PRId64 " rows, the file ends after %" PRId64
                   ": it is truncated or its sizes are wrong",
                   s->name, s->array.dim[0], s->row + (int64_t)s->bytes.used / row_bytes);
  status = ls_array_read(s->ctx, &part, s->bytes.at, bytes, 0, &s->rows);
  if (status != LS_OK) return status;
  *rows = s->rows;
  s->row += part.dim[0];
  ls_bytes_drop(&s->bytes, 0, bytes);
  return LS_OK;
}

ls_status_t ls_blocks_array(ls_stream_rows_t *s, bool npy) {
  s->array.name = s->name;
  ls_status_t status = ls_bytes_fill(&s->bytes, LS_ARRAY_HEADER_BYTES_MAX);
  if (status == LS_OK)
    status = (npy ? ls_npy_header : ls_idx_header)(s->ctx, s->name, s->bytes.at, s->bytes.used, &s->array,
                                                   &s->offset);
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
  ls_bytes_drop(&s->bytes, 0, s->offset);
  s->total = s->array.dim[0];
  s->next = ls_blocks_next_array;
  return LS_OK;
}
