/* Fuzz target of the IDX reader, and of gunzip in front of it: any bytes give a matrix or LS_ERR_DATA. */
#include "data/gunzip.h"
#include "matrix.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_one(ls_ctx_t *ctx, const void *bytes, size_t size) {
  ls_matrix_t m;
  ls_status_t status = ls_read_idx(ctx, "fuzz.idx", bytes, size, &m);
  if (status == LS_OK && (uint64_t)m.rows * (uint64_t)m.cols > size) abort();
  matrix_check(ctx, status, &m, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  if (!ctx) return 0;
  if (!ls_gunzip_is(bytes, size)) {
    read_one(ctx, bytes, size);
  } else {
    char *out;
    size_t out_size, limit = (size_t)1 << 20;
    ls_status_t status = ls_gunzip(ctx, "fuzz.gz", bytes, size, limit, &out, &out_size);
    if (status == LS_OK) {
      if (out_size > limit) abort();
      read_one(ctx, out, out_size);
      ls_free(out);
    } else if (status != LS_ERR_DATA || ls_ctx_error_count(ctx) != 1) {
      abort();
    }
  }
  ls_ctx_destroy(ctx);
  return 0;
}
