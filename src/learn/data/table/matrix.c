/* The result of every reader. An f64 array becomes f32 in its own memory, so that the data never need memory twice:
 * value i of the shorter type ends before value i + 1 of the longer one begins. */
#include "data/read.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { BLOCK = 256 }; /* values that are converted at a time */

void ls_matrix_release(ls_matrix_t *matrix) {
  ls_free(matrix->values);
  ls_free(matrix->names);
  *matrix = (ls_matrix_t){0};
}

#define VALUES(type)                                                                                         \
  for (int64_t i = 0; i < count; i++)                                                                        \
    out[i] = (double)((const type *)m->values)[first + i];                                                   \
  break;

void ls_matrix_values(const ls_matrix_t *m, int64_t first, int64_t count, double *out) {
  switch (m->row.dtype) {
  case LS_U8:
    VALUES(uint8_t)
  case LS_U16:
    VALUES(uint16_t)
  case LS_I32:
    VALUES(int32_t)
  case LS_F32:
    VALUES(float)
  default:
    VALUES(double)
  }
}

static int64_t count_of(const ls_matrix_t *m) {
  return m->rows * m->cols;
}

/* Shrinks the memory, now that all values are at its front in another dtype. */
static ls_status_t take_front(ls_ctx_t *ctx, ls_dtype_t dtype, ls_matrix_t *matrix) {
  void *values = ls_realloc_array(ctx, matrix->values, (size_t)count_of(matrix), ls_dtype_bytes(dtype));
  if (!values) return LS_ERR_MEMORY;
  matrix->values = values;
  matrix->row.dtype = dtype;
  return LS_OK;
}

ls_status_t ls_matrix_narrow(ls_ctx_t *ctx, const double *mean, const float *scale, ls_matrix_t *matrix) {
  int64_t count = count_of(matrix), cols = matrix->cols;
  bool grows = ls_dtype_bytes(matrix->row.dtype) < sizeof(float);
  float *grown = grows ? ls_alloc_array(ctx, (size_t)count, sizeof *grown) : NULL;
  if (grows && !grown) return LS_ERR_MEMORY;
  char *to = grows ? (char *)grown : matrix->values;
  double from[BLOCK];
  for (int64_t first = 0; first < count; first += BLOCK) {
    int64_t block = count - first < BLOCK ? count - first : BLOCK, c = first % cols;
    ls_matrix_values(matrix, first, block, from);
    for (int64_t i = 0; i < block; i++, c = c + 1 < cols ? c + 1 : 0) {
      float value = isnan(from[i]) ? 0.0f : ls_norm_value(from[i], mean[c], scale[c]);
      memcpy(to + (size_t)(first + i) * sizeof value, &value, sizeof value);
    }
  }
  if (!grows) return take_front(ctx, LS_F32, matrix);
  ls_free(matrix->values);
  matrix->values = grown;
  matrix->row.dtype = LS_F32;
  return LS_OK;
}

ls_status_t ls_matrix_take(ls_ctx_t *ctx, double *wide, ls_matrix_t *matrix) {
  size_t count = (size_t)count_of(matrix), exact = 0;
  matrix->values = wide;
  matrix->row.dtype = LS_F64;
  matrix->read_wide = true;
  while (exact < count && ((double)(float)wide[exact] == wide[exact] || isnan(wide[exact])))
    exact++;
  if (exact < count) return LS_OK;
  for (size_t i = 0; i < count; i++) {
    float value = (float)wide[i];
    memcpy((char *)wide + i * sizeof value, &value, sizeof value);
  }
  ls_status_t status = take_front(ctx, LS_F32, matrix);
  if (status != LS_OK) ls_matrix_release(matrix);
  return status;
}

ls_status_t ls_matrix_mark_gaps(ls_ctx_t *ctx, const ls_strings_t *marked, ls_matrix_t *m) {
  const int64_t cols = m->cols, all = cols + marked->count;
  double *wide = ls_alloc_array(ctx, (size_t)(m->rows * all), sizeof *wide);
  int64_t *from = ls_alloc_array(ctx, (size_t)marked->count + 1, sizeof *from), c = 0;
  if (!wide || !from) {
    ls_free(wide);
    ls_free(from);
    return LS_ERR_MEMORY;
  }
  for (int i = 0; i < marked->count; i++) { /* both in the order of columns, mostly */
    for (int64_t k = 0; k < cols && strcmp(m->names[c % cols], marked->v[i]) != 0; k++)
      c++;
    from[i] = c % cols;
  }
  for (int64_t r = 0; r < m->rows; r++) {
    double *row = wide + r * all;
    ls_matrix_values(m, r * cols, cols, row);
    for (int i = 0; i < marked->count; i++)
      row[cols + i] = isnan(row[from[i]]);
  }
  ls_free(from);
  ls_matrix_t made = {.rows = m->rows, .cols = all, .row = LS_SHAPE(LS_F64, all), .named = m->named};
  ls_status_t status = ls_matrix_take(ctx, wide, &made);
  if (status != LS_OK) return status;
  made.names = m->names;
  m->names = NULL;
  ls_matrix_release(m);
  *m = made;
  return LS_OK;
}

ls_status_t ls_matrix_gaps(ls_arena_t *arena, const ls_matrix_t *m, ls_strings_t *names) {
  bool *gap = ls_arena_array(arena, (size_t)m->cols, sizeof *gap);
  const char **list = ls_arena_array(arena, (size_t)m->cols + 1, sizeof *list);
  if (!gap || !list) return LS_ERR_MEMORY;
  for (int64_t i = 0; i < count_of(m); i++)
    gap[i % m->cols] |= isnan(ls_matrix_at(m, i));
  *names = (ls_strings_t){0, list};
  for (int64_t c = 0; c < m->cols; c++)
    if (gap[c] && !(list[names->count++] = ls_arena_strdup(arena, m->names[c]))) return LS_ERR_MEMORY;
  return LS_OK;
}

ls_status_t ls_matrix_whole(ls_ctx_t *ctx, const char *name, ls_matrix_t *m) {
  if (m->row.dtype != LS_F32 && m->row.dtype != LS_F64) return LS_OK;
  char *to = m->values;
  for (int64_t i = 0; i < count_of(m); i++) {
    double value = ls_matrix_at(m, i);
    if (value != floor(value) || fabs(value) > INT32_MAX)
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: row %" PRId64 ", column %" PRId64 " (from 0): %g is no whole number of 32 bits",
                     name, i / m->cols, i % m->cols, value);
    int32_t whole = (int32_t)value;
    memcpy(to + (size_t)i * sizeof whole, &whole, sizeof whole);
  }
  return take_front(ctx, LS_I32, m);
}

ls_status_t ls_matrix_ids(ls_ctx_t *ctx, const char *name, const ls_matrix_t *m, int64_t before,
                          int64_t ids) {
  for (int64_t i = 0; i < count_of(m); i++) {
    double id = ls_matrix_at(m, i);
    if (!(id >= 0 && id < (double)ids) || id != floor(id))
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: row %" PRId64 ", column %" PRId64
                     " (from 0): %.15g is no row of the model's embedding, which has %" PRId64
                     ": 0 to %" PRId64,
                     name, before + i / m->cols, i % m->cols, id, ids, ids - 1);
  }
  return LS_OK;
}

/* Appends the values of `from` to the first `begin` of an array of its dtype, or of f64, or of f32, which then has
 * them all. */
static void put_values(const ls_matrix_t *from, int64_t begin, ls_matrix_t *all) {
  int64_t count = count_of(from);
  size_t bytes = ls_dtype_bytes(all->row.dtype);
  if (from->row.dtype == all->row.dtype) {
    memcpy((char *)all->values + (size_t)begin * bytes, from->values, (size_t)count * bytes);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    if (all->row.dtype == LS_F64)
      ((double *)all->values)[begin + i] = ls_matrix_at(from, i);
    else
      ((float *)all->values)[begin + i] = (float)ls_matrix_at(from, i);
  }
}

ls_status_t ls_matrix_append(ls_ctx_t *ctx, ls_matrix_t *to, ls_matrix_t *from) {
  ls_matrix_t all = *to;
  if (to->row.dtype != from->row.dtype)
    all.row.dtype = ls_matrix_is_wide(to) || ls_matrix_is_wide(from) ? LS_F64 : LS_F32;
  all.rows += from->rows;
  all.values = ls_alloc_array(ctx, (size_t)count_of(&all), ls_dtype_bytes(all.row.dtype));
  if (!all.values) return LS_ERR_MEMORY;
  put_values(to, 0, &all);
  put_values(from, count_of(to), &all);
  all.integers &= from->integers;
  all.read_wide |= from->read_wide;
  to->names = NULL; /* all has them */
  ls_matrix_release(to);
  ls_matrix_release(from);
  *to = all;
  return LS_OK;
}
