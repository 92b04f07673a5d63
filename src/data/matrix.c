/* What every reader fills. An f64 array becomes f32 in its own memory, so that the set is never held twice:
 * value i of the shorter kind ends before value i + 1 of the longer one begins. */
#include "data/read.h"

#include <string.h>

void ls_matrix_release(ls_matrix_t *matrix) {
  ls_free(matrix->values);
  ls_free(matrix->wide);
  ls_free(matrix->names);
  *matrix = (ls_matrix_t){0};
}

/* The array's memory, now that its front holds `count` f32. */
static ls_status_t take_front(ls_ctx_t *ctx, size_t count, ls_matrix_t *matrix) {
  matrix->values = ls_realloc_array(ctx, matrix->wide, count, sizeof *matrix->values);
  if (!matrix->values) return LS_ERR_MEMORY;
  matrix->wide = NULL;
  return LS_OK;
}

ls_status_t ls_matrix_narrow(ls_ctx_t *ctx, const double *mean, const float *scale, ls_matrix_t *matrix) {
  size_t count = (size_t)matrix->rows * (size_t)matrix->cols, cols = (size_t)matrix->cols;
  char *to = matrix->wide ? (char *)matrix->wide : (char *)matrix->values;
  for (size_t i = 0; i < count; i += cols)
    for (size_t c = 0; c < cols; c++) {
      float value = ls_norm_value(ls_matrix_at(matrix, (int64_t)(i + c)), mean[c], scale[c]);
      memcpy(to + (i + c) * sizeof value, &value, sizeof value);
    }
  return matrix->wide ? take_front(ctx, count, matrix) : LS_OK;
}

ls_status_t ls_matrix_take(ls_ctx_t *ctx, double *wide, ls_matrix_t *matrix) {
  size_t count = (size_t)matrix->rows * (size_t)matrix->cols, exact = 0;
  matrix->wide = wide;
  matrix->read_wide = true;
  while (exact < count && (double)(float)wide[exact] == wide[exact])
    exact++;
  if (exact < count) return LS_OK;
  for (size_t i = 0; i < count; i++) {
    float value = (float)wide[i];
    memcpy((char *)wide + i * sizeof value, &value, sizeof value);
  }
  ls_status_t status = take_front(ctx, count, matrix);
  if (status != LS_OK) ls_matrix_release(matrix);
  return status;
}

/* Values of `from` behind the first `begin` of an array of the kind that holds both. */
static void put_values(const ls_matrix_t *from, int64_t begin, ls_matrix_t *all) {
  int64_t count = from->rows * from->cols;
  for (int64_t i = 0; i < count; i++) {
    if (all->wide)
      all->wide[begin + i] = ls_matrix_at(from, i);
    else
      all->values[begin + i] = from->values[i];
  }
}

ls_status_t ls_matrix_append(ls_ctx_t *ctx, ls_matrix_t *to, ls_matrix_t *from) {
  size_t count = (size_t)(to->rows + from->rows) * (size_t)to->cols;
  ls_matrix_t all = *to;
  bool wide = to->wide || from->wide;
  all.values = wide ? NULL : ls_alloc_array(ctx, count, sizeof *all.values);
  all.wide = wide ? ls_alloc_array(ctx, count, sizeof *all.wide) : NULL;
  if (!all.values && !all.wide) return LS_ERR_MEMORY;
  put_values(to, 0, &all);
  put_values(from, to->rows * to->cols, &all);
  all.rows += from->rows;
  all.integers &= from->integers;
  all.read_wide |= from->read_wide;
  to->names = NULL; /* all has them */
  ls_matrix_release(to);
  ls_matrix_release(from);
  *to = all;
  return LS_OK;
}
