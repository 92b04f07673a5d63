/* Fuzz target of the .npy reader: any bytes give a matrix or LS_ERR_DATA. */
#include "matrix.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  if (!ctx) return 0;
  ls_matrix_t m;
  ls_status_t status = ls_read_npy(ctx, "fuzz.npy", bytes, size, &m);
  if (status == LS_OK && (uint64_t)m.rows * (uint64_t)m.cols > size) abort();
  matrix_check(ctx, status, &m, 1);
  ls_ctx_destroy(ctx);
  return 0;
}
