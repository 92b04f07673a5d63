/* Weights that are not finite are useless: they are neither saved nor opened. */
#include "ckpt/store.h"

#include <string.h>

#define DEFINE_FIND(bits)                                                                                    \
  static int64_t find_##bits(const char *bytes, int64_t count, uint64_t exponent) {                          \
    uint##bits##_t mask = (uint##bits##_t)exponent;                                                          \
    for (int64_t i = 0; i < count; i++) {                                                                    \
      uint##bits##_t value;                                                                                  \
      memcpy(&value, bytes + i * (int64_t)sizeof value, sizeof value);                                       \
      if ((value & mask) == mask) return i;                                                                  \
    }                                                                                                        \
    return -1;                                                                                               \
  }
DEFINE_FIND(16)
DEFINE_FIND(32)
DEFINE_FIND(64)

int64_t ls_ckpt_nonfinite(ls_dtype_t dtype, const void *bytes, size_t size_bytes) {
  const ls_dtype_row_t *row = ls_dtype_row(dtype);
  if (row->exponent == 0) return -1;
  int64_t count = (int64_t)(size_bytes / row->bytes);
  return (row->bytes == 2 ? find_16 : row->bytes == 4 ? find_32 : find_64)(bytes, count, row->exponent);
}
