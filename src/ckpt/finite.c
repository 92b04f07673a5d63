/* Weights that are not finite are of no use to anybody: they are neither saved nor opened. */
#include "ckpt/store.h"

#include <string.h>

static int64_t find_f32(const char *bytes, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits;
    memcpy(&bits, bytes + i * (int64_t)sizeof bits, sizeof bits);
    if ((bits & 0x7f800000u) == 0x7f800000u) return i;
  }
  return -1;
}

static int64_t find_f64(const char *bytes, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits;
    memcpy(&bits, bytes + i * (int64_t)sizeof bits, sizeof bits);
    if ((bits & 0x7ff0000000000000u) == 0x7ff0000000000000u) return i;
  }
  return -1;
}

int64_t ls_ckpt_nonfinite(ls_dtype_t dtype, const void *bytes, size_t size_bytes) {
  if (dtype == LS_F32) return find_f32(bytes, (int64_t)(size_bytes / sizeof(float)));
  if (dtype == LS_F64) return find_f64(bytes, (int64_t)(size_bytes / sizeof(double)));
  return -1;
}
