/* Reading the samples of a section: files of numbers, the caller's memory, or the synthetic set. */
#include "data/parts.h"
#include "data/table/npz.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The bytes of one array: a .npy file, or a member of an archive. held_bytes: the peak. */
static ls_status_t read_npy_bytes(ls_ctx_t *ctx, const char *path, char **bytes, size_t *size,
                                  size_t *held_bytes) {
  char *file = ls_strdup(ctx, path);
  if (!file) return LS_ERR_MEMORY;
  file[ls_npz_file_length(path)] = '\0';
  ls_status_t status = ls_read_bytes(ctx, file, bytes, size);
  ls_free(file);
  if (status != LS_OK) return status;
  *held_bytes = *size;
  if (!ls_npz_is(path, *bytes, *size)) return LS_OK;
  const char *archive = *bytes;
  status = ls_npz_member(ctx, path, ls_read_limit(), bytes, size);
  if (status != LS_OK) ls_free(*bytes);
  if (status == LS_OK && *bytes != archive) *held_bytes += *size;
  return status;
}

static ls_status_t read_idx_bytes(ls_ctx_t *ctx, const char *path, char **bytes, size_t *size,
                                  size_t *held_bytes) {
  ls_status_t status = ls_read_bytes(ctx, path, bytes, size);
  if (status == LS_OK) *held_bytes = *size;
  return status;
}

static const struct {
  ls_status_t (*bytes)(ls_ctx_t *ctx, const char *path, char **bytes, size_t *size, size_t *held_bytes);
  ls_status_t (*matrix)(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_matrix_t *out);
} readers[] = {[LS_DATA_IDX] = {read_idx_bytes, ls_read_idx}, [LS_DATA_NPY] = {read_npy_bytes, ls_read_npy}};

static ls_status_t read_file(ls_ctx_t *ctx, const char *path, int kind, size_t *largest, ls_matrix_t *out) {
  char *bytes;
  size_t size, held_bytes;
  ls_status_t status = readers[kind].bytes(ctx, path, &bytes, &size, &held_bytes);
  if (status != LS_OK) return status;
  if (held_bytes > *largest) *largest = held_bytes;
  status = readers[kind].matrix(ctx, path, bytes, size, out);
  ls_free(bytes);
  return status;
}

/* All files that match, one after the other. */
static ls_status_t read_files(ls_ctx_t *ctx, const char *path, int kind, size_t *largest, ls_matrix_t *out) {
  ls_arena_t arena;
  ls_strings_t files;
  ls_arena_init(&arena, ctx);
  ls_status_t status = ls_files_find(&arena, path, true, &files);
  for (int i = 0; status == LS_OK && i < files.count; i++) {
    ls_matrix_t one = {0};
    status = read_file(ctx, files.v[i], kind, largest, i == 0 ? out : &one);
    ls_shape_t first = out->row, next = one.row;
    first.dtype = next.dtype; /* what holds both is found */
    if (status == LS_OK && i > 0 && !ls_shape_equal(&first, &next)) {
      char a[LS_SHAPE_TEXT_BYTES], b[LS_SHAPE_TEXT_BYTES];
      status = ls_fail(ctx, LS_ERR_DATA, "%s: its rows are %s, those of %s are %s", files.v[i],
                       ls_shape_text(&one.row, a), files.v[0], ls_shape_text(&out->row, b));
    }
    if (status == LS_OK && i > 0) status = ls_matrix_append(ctx, out, &one);
    ls_matrix_release(&one);
  }
  ls_arena_release(&arena);
  return status;
}

ls_status_t ls_source_pair(ls_ctx_t *ctx, const ls_data_config_t *config, ls_source_t *r) {
  r->feature_name = config->features;
  r->target_name = config->targets;
  ls_status_t status =
      r->mapped ? LS_OK : read_files(ctx, config->features, config->kind, &r->file_bytes, &r->features);
  return status == LS_OK ? read_files(ctx, config->targets, config->kind, &r->file_bytes, &r->targets)
                         : status;
}

static ls_status_t read_csv(ls_ctx_t *ctx, const ls_data_config_t *config, ls_source_t *r) {
  char *text, delimiter;
  size_t size;
  ls_data_delimiter(config, &delimiter); /* was checked */
  r->feature_name = r->target_name = config->path;
  ls_status_t status = ls_read_bytes(ctx, config->path, &text, &size);
  if (status != LS_OK) return status;
  r->file_bytes = size;
  status = ls_read_csv_pair(ctx, config->path, text, size, delimiter, config, &r->labels, &r->features,
                            &r->targets);
  if (status == LS_OK && config->missing == LS_MISSING_INDICATOR) {
    status = config->indicators_trained ? ls_strings_copy(r->arena, &config->indicators, &r->indicators)
                                        : ls_matrix_gaps(r->arena, &r->features, &r->indicators);
    if (status == LS_OK) status = ls_matrix_mark_gaps(ctx, &r->indicators, &r->features);
  }
  ls_free(text);
  return status;
}

/* Memory for a copy of the caller's values. */
static ls_status_t make_values(ls_ctx_t *ctx, const char *what, int64_t rows, ls_shape_t row,
                               ls_matrix_t *out) {
  int64_t all, cols = ls_shape_count(&row);
  if (cols < 1 || __builtin_mul_overflow(rows, cols, &all))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "%" PRId64 " x %" PRId64 " %s make no dataset", rows, cols, what);
  *out = (ls_matrix_t){.rows = rows, .cols = cols, .row = row, .bytes = row.dtype == LS_U8};
  out->values = ls_alloc_array(ctx, (size_t)all, ls_dtype_bytes(row.dtype));
  return out->values ? LS_OK : LS_ERR_MEMORY;
}

static ls_status_t copy_bytes(ls_ctx_t *ctx, const ls_data_memory_t *m, ls_matrix_t *out) {
  ls_status_t status = make_values(ctx, "bytes", m->rows, LS_SHAPE(LS_U8, m->inputs), out);
  if (status == LS_OK) memcpy(out->values, m->bytes, (size_t)m->rows * (size_t)m->inputs);
  return status;
}

/* They must be finite. */
static ls_status_t copy_values(ls_ctx_t *ctx, const char *what, const float *values, int64_t rows,
                               int64_t cols, ls_matrix_t *out) {
  ls_status_t status = make_values(ctx, what, rows, LS_SHAPE(LS_F32, cols), out);
  if (status != LS_OK) return status;
  float *copy = out->values;
  size_t count = (size_t)rows * (size_t)cols;
  for (size_t i = 0; i < count; i++) {
    if (!isfinite(values[i]))
      return ls_fail(ctx, LS_ERR_DATA, "given %s: row %zu, column %zu (from 0) is not finite", what,
                     i / (size_t)cols, i % (size_t)cols);
    copy[i] = values[i];
  }
  return LS_OK;
}

static ls_status_t read_memory(ls_ctx_t *ctx, const ls_data_memory_t *m, const ls_data_want_t *want,
                               ls_source_t *r) {
  r->feature_name = "given features";
  r->target_name = "given targets";
  if (!m || m->rows < 1 || !(m->features || m->bytes) ||
      !(want->classes ? (const void *)m->classes : m->targets))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "the given samples need at least one row, features and %s",
                   want->classes ? "classes" : "targets");
  ls_status_t status = m->bytes ? copy_bytes(ctx, m, &r->features)
                                : copy_values(ctx, "features", m->features, m->rows, m->inputs, &r->features);
  if (status != LS_OK) return status;
  if (!want->classes) return copy_values(ctx, "targets", m->targets, m->rows, m->outputs, &r->targets);
  status = make_values(ctx, "classes", m->rows, (ls_shape_t){.dtype = LS_I32}, &r->targets);
  if (status != LS_OK) return status;
  r->targets.integers = true;
  memcpy(r->targets.values, m->classes, (size_t)m->rows * sizeof *m->classes);
  return LS_OK;
}

ls_status_t ls_source_read(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_memory_t *memory,
                           const ls_data_want_t *want, ls_source_t *r) {
  switch ((ls_data_kind_t)config->kind) {
  case LS_DATA_IDX:
  case LS_DATA_NPY:
    return ls_source_pair(ctx, config, r);
  case LS_DATA_CSV:
    return read_csv(ctx, config, r);
  case LS_DATA_MEMORY:
    return read_memory(ctx, memory, want, r);
  case LS_DATA_SYNTHETIC:
    r->feature_name = "the synthetic set";
    r->target_name = "the synthetic set";
    return ls_synthetic_make(ctx, config, want, &r->features, &r->targets);
  case LS_DATA_TEXT: /* opened as a stream */
  case LS_DATA_IMAGES:
    break;
  }
  return LS_ERR_INTERNAL; /* the kind was checked */
}
