/* Fuzz target of the .npy reader: any bytes give a matrix or LS_ERR_DATA. */
#include "data/read.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  if (!ctx) return 0;
  ls_matrix_t m;
  ls_status_t status = ls_read_npy(ctx, "fuzz.npy", bytes, size, &m);
  if (status == LS_OK) {
    if (m.rows < 1 || m.cols < 1 || (uint64_t)m.rows * (uint64_t)m.cols > size) abort();
    for (int64_t i = 0; i < m.rows * m.cols; i++)
      if (!isfinite(m.values[i])) abort();
    ls_matrix_release(&m);
  } else if (status != LS_ERR_DATA || ls_ctx_error_count(ctx) != 1) {
    abort();
  }
  ls_ctx_destroy(ctx);
  return 0;
}
