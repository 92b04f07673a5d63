/* Fuzz target of .npz archives: any bytes give a member within the limit or LS_ERR_DATA, whichever name is
 * asked for. */
#include "data/table/npz.h"
#include "matrix.h"

#include <string.h>

enum { LIMIT_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const char *const paths[] = {"fuzz.npz", "fuzz.npz:x"};
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  if (!ctx) return 0;
  for (int i = 0; i < LS_COUNT(paths); i++) {
    char *copy = ls_alloc(ctx, size + !size); /* of the exact size, so that reading beyond it is seen */
    size_t member_size = size;
    if (!copy) break;
    if (size > 0) memcpy(copy, bytes, size);
    ls_status_t status = ls_npz_member(ctx, paths[i], LIMIT_BYTES, &copy, &member_size);
    if (status != LS_OK && (status != LS_ERR_DATA || ls_ctx_error_count(ctx) != 1)) abort();
    if (status == LS_OK && member_size > LIMIT_BYTES) abort();
    ls_matrix_t m;
    if (status == LS_OK) {
      status = ls_read_npy(ctx, paths[i], copy, member_size, &m);
      matrix_check(ctx, status, &m, 1);
    }
    ls_free(copy);
    ls_ctx_clear(ctx);
  }
  ls_ctx_destroy(ctx);
  return 0;
}
