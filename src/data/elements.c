/* Binary numbers of either byte order to f32. The size a header promises is compared with the bytes that are
 * there before anything is allocated, so a lying header costs nothing. */
#include "data/elements.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const uint8_t elem_bytes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8}; /* by ls_elem_t */
_Static_assert(sizeof elem_bytes == LS_ELEM_F64 + 1, "one size per element type");

static ls_status_t check_shape(ls_ctx_t *ctx, const ls_array_t *a, size_t available, size_t offset,
                               int64_t *cols) {
  *cols = 1;
  int64_t total_bytes = elem_bytes[a->type];
  for (int i = 0; i < a->rank; i++) {
    if (a->dim[i] < 1)
      return ls_fail(ctx, LS_ERR_DATA, "%s: dimension %d is %" PRId64 ": there are no samples in it", a->name,
                     i + 1, a->dim[i]);
    if (__builtin_mul_overflow(total_bytes, a->dim[i], &total_bytes))
      return ls_fail(ctx, LS_ERR_DATA, "%s: the sizes in the header multiply to more than 2^63 bytes",
                     a->name);
    if (i > 0) *cols *= a->dim[i]; /* smaller than total_bytes: cannot overflow */
  }
  if ((uint64_t)total_bytes > available)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s: the header promises %" PRId64
                   " bytes of data from offset %zu, the file has %zu: it is "
                   "truncated or its sizes are wrong",
                   a->name, total_bytes, offset, available);
  if ((uint64_t)total_bytes < available)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s: %" PRIu64 " bytes follow the data at offset %" PRIu64
                   ": the sizes in the header are wrong",
                   a->name, available - (uint64_t)total_bytes, offset + (uint64_t)total_bytes);
  return LS_OK;
}

/* One loop per element type; `word` is the unsigned integer of its size. */
#define CONVERT(type, word, swap)                                                                            \
  for (size_t i = 0; i < count; i++) {                                                                       \
    word w;                                                                                                  \
    type v;                                                                                                  \
    memcpy(&w, from + i * sizeof w, sizeof w);                                                               \
    w = foreign ? swap(w) : w;                                                                               \
    memcpy(&v, &w, sizeof v);                                                                                \
    to[i] = (float)v;                                                                                        \
  }
#define SAME(w) (w)

static void convert(ls_elem_t type, bool foreign, const unsigned char *from, size_t count, float *to) {
  switch (type) {
  case LS_ELEM_U8:
    CONVERT(uint8_t, uint8_t, SAME) break;
  case LS_ELEM_I8:
    CONVERT(int8_t, uint8_t, SAME) break;
  case LS_ELEM_U16:
    CONVERT(uint16_t, uint16_t, __builtin_bswap16) break;
  case LS_ELEM_I16:
    CONVERT(int16_t, uint16_t, __builtin_bswap16) break;
  case LS_ELEM_U32:
    CONVERT(uint32_t, uint32_t, __builtin_bswap32) break;
  case LS_ELEM_I32:
    CONVERT(int32_t, uint32_t, __builtin_bswap32) break;
  case LS_ELEM_U64:
    CONVERT(uint64_t, uint64_t, __builtin_bswap64) break;
  case LS_ELEM_I64:
    CONVERT(int64_t, uint64_t, __builtin_bswap64) break;
  case LS_ELEM_F32:
    CONVERT(float, uint32_t, __builtin_bswap32) break;
  case LS_ELEM_F64:
    CONVERT(double, uint64_t, __builtin_bswap64) break;
  }
}

static ls_status_t check_finite(ls_ctx_t *ctx, const ls_array_t *a, size_t offset, int64_t cols, size_t count,
                                const float *values) {
  for (size_t i = 0; i < count; i++)
    if (!isfinite(values[i]))
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: row %zu, column %zu (from 0; byte offset %zu) is %s: every value must be a finite "
                     "32-bit float",
                     a->name, i / (size_t)cols, i % (size_t)cols, offset + i * elem_bytes[a->type],
                     isnan(values[i]) ? "nan" : "infinite or too large");
  return LS_OK;
}

ls_status_t ls_array_read(ls_ctx_t *ctx, const ls_array_t *array, const void *bytes, size_t size,
                          size_t offset, ls_matrix_t *out) {
  int64_t cols;
  ls_status_t status = check_shape(ctx, array, size - offset, offset, &cols);
  if (status != LS_OK) return status;
  size_t count = (size_t)array->dim[0] * (size_t)cols;
  float *values = ls_alloc_array(ctx, count, sizeof *values);
  if (!values) return LS_ERR_MEMORY;

  bool host_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  convert(array->type, array->big_endian != host_big, (const unsigned char *)bytes + offset, count, values);
  bool real = array->type == LS_ELEM_F32 || array->type == LS_ELEM_F64;
  status = real ? check_finite(ctx, array, offset, cols, count, values) : LS_OK;
  if (status != LS_OK) goto free_values;

  *out = (ls_matrix_t){.rows = array->dim[0],
                       .cols = cols,
                       .values = values,
                       .integers = !real,
                       .bytes = array->type == LS_ELEM_U8};
  return LS_OK;

free_values:
  ls_free(values);
  return status;
}
