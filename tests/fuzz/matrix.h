/* The contract of every reader of a matrix: finite values in a shape that is not empty, or one LS_ERR_DATA. */
#ifndef TESTS_FUZZ_MATRIX_H
#define TESTS_FUZZ_MATRIX_H

#include "data/read.h"

#include <math.h>
#include <stdlib.h>

/* `errors_max`: how many errors a refusal may report. Releases the matrix. */
static inline void matrix_check(ls_ctx_t *ctx, ls_status_t status, ls_matrix_t *m, int errors_max) {
  if (status != LS_OK) {
    int said = ls_ctx_error_count(ctx);
    if (status != LS_ERR_DATA || said < 1 || said > errors_max) abort();
    return;
  }
  if (!m->values || ls_shape_count(&m->row) != m->cols) abort();
  if (m->rows < 1 || m->cols < 1) abort();
  for (int64_t i = 0; i < m->rows * m->cols; i++)
    if (!isfinite((float)ls_matrix_at(m, i))) abort();
  ls_matrix_release(m);
}

#endif
