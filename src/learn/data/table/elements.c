/* Converts binary numbers of either byte order. The size that a header claims is compared with the available
 * bytes before anything is allocated, so a lying header costs nothing. */
#include "data/table/elements.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct {
  uint8_t bytes;
  ls_dtype_t to; /* holds all of its values; f64 becomes f32 afterwards where it can */
  bool real;
} elems[] = {[LS_ELEM_U8] = {1, LS_U8},
             [LS_ELEM_I8] = {1, LS_F32},
             [LS_ELEM_U16] = {2, LS_U16},
             [LS_ELEM_I16] = {2, LS_F32},
             [LS_ELEM_U32] = {4, LS_F64},
             [LS_ELEM_I32] = {4, LS_I32},
             [LS_ELEM_U64] = {8, LS_F64},
             [LS_ELEM_I64] = {8, LS_F64},
             [LS_ELEM_F16] = {2, LS_F32, .real = true},
             [LS_ELEM_F32] = {4, LS_F32, .real = true},
             [LS_ELEM_F64] = {8, LS_F64, .real = true}};

static ls_status_t check_shape(ls_ctx_t *ctx, const ls_array_t *a, size_t available, size_t offset,
                               int64_t *cols) {
  *cols = 1;
  int64_t total_bytes = elems[a->type].bytes;
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

int64_t ls_array_row_bytes(const ls_array_t *a) {
  int64_t bytes = elems[a->type].bytes;
  for (int i = 1; i < a->rank; i++)
    if (__builtin_mul_overflow(bytes, a->dim[i], &bytes)) return INT64_MAX;
  return bytes;
}

/* IEEE 754 binary16, decoded by its fields, because not every compiler has a type for it. */
static float half_value(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  float mantissa = (float)(bits & 1023), value;
  if (exponent == 31)
    value = mantissa > 0.0f ? NAN : INFINITY;
  else
    value = exponent == 0 ? ldexpf(mantissa, -24) : ldexpf(mantissa + 1024.0f, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

/* One loop per element type; `word` is the unsigned integer of its size, `out` what holds all of its values.
 */
#define CONVERT(out, type, word, swap)                                                                       \
  for (size_t i = 0; i < count; i++) {                                                                       \
    word w;                                                                                                  \
    type v;                                                                                                  \
    memcpy(&w, from + i * sizeof w, sizeof w);                                                               \
    w = foreign ? swap(w) : w;                                                                               \
    memcpy(&v, &w, sizeof v);                                                                                \
    ((out *)to)[i] = (out)v;                                                                                 \
  }
#define SAME(w) (w)

static void convert(ls_elem_t type, bool foreign, const unsigned char *from, size_t count, void *to) {
  switch (type) {
  case LS_ELEM_U8:
    CONVERT(uint8_t, uint8_t, uint8_t, SAME) break;
  case LS_ELEM_I8:
    CONVERT(float, int8_t, uint8_t, SAME) break;
  case LS_ELEM_U16:
    CONVERT(uint16_t, uint16_t, uint16_t, __builtin_bswap16) break;
  case LS_ELEM_I16:
    CONVERT(float, int16_t, uint16_t, __builtin_bswap16) break;
  case LS_ELEM_U32:
    CONVERT(double, uint32_t, uint32_t, __builtin_bswap32) break;
  case LS_ELEM_I32:
    CONVERT(int32_t, int32_t, uint32_t, __builtin_bswap32) break;
  case LS_ELEM_U64:
    CONVERT(double, uint64_t, uint64_t, __builtin_bswap64) break;
  case LS_ELEM_I64:
    CONVERT(double, int64_t, uint64_t, __builtin_bswap64) break;
  case LS_ELEM_F16:
    CONVERT(float, uint16_t, uint16_t, __builtin_bswap16)
    for (size_t i = 0; i < count; i++)
      ((float *)to)[i] = half_value((uint16_t)((float *)to)[i]);
    break;
  case LS_ELEM_F32:
    CONVERT(float, float, uint32_t, __builtin_bswap32) break;
  case LS_ELEM_F64:
    CONVERT(double, double, uint64_t, __builtin_bswap64) break;
  }
}

/* The position of matrix element `i` in the file, counted in elements. In column order the first index runs
 * fastest, even among the dimensions that make up one row. */
static size_t place_in_file(const ls_array_t *a, size_t cols, size_t i) {
  if (!a->by_column) return i;
  size_t column = i % cols, stride = (size_t)a->dim[0], place = i / cols;
  for (int k = 1; k < a->rank; k++) {
    size_t below = 1; /* columns per step of this index */
    for (int j = k + 1; j < a->rank; j++)
      below *= (size_t)a->dim[j];
    place += column / below % (size_t)a->dim[k] * stride;
    stride *= (size_t)a->dim[k];
  }
  return place;
}

/* A copy of the elements, row by row, in the file's byte order. */
static unsigned char *order_by_row(ls_ctx_t *ctx, const ls_array_t *a, size_t cols,
                                   const unsigned char *from) {
  size_t bytes = elems[a->type].bytes, rows = (size_t)a->dim[0];
  unsigned char *to = ls_alloc_array(ctx, rows * cols, bytes);
  for (size_t c = 0; to && c < cols; c++) {
    const unsigned char *column = from + place_in_file(a, cols, c) * bytes;
    for (size_t r = 0; r < rows; r++)
      memcpy(to + (r * cols + c) * bytes, column + r * bytes, bytes);
  }
  return to;
}

static ls_status_t check_finite(ls_ctx_t *ctx, const ls_array_t *a, size_t offset, size_t cols, size_t count,
                                const void *values) {
  for (size_t i = 0; i < count; i++) {
    float v = elems[a->type].to == LS_F64 ? (float)((const double *)values)[i] : ((const float *)values)[i];
    if (!isfinite(v))
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: row %zu, column %zu (from 0; byte offset %zu) is %s: every value must be a finite "
                     "32-bit float",
                     a->name, (size_t)a->rows_before + i / cols, i % cols,
                     a->bytes_before + offset + place_in_file(a, cols, i) * elems[a->type].bytes,
                     isnan(v) ? "nan" : "infinite or too large");
  }
  return LS_OK;
}

/* The shape of one row, if a tensor can have its dimensions; else they count as one. */
static ls_shape_t row_shape(const ls_array_t *array, int64_t cols) {
  ls_shape_t row = {.dtype = elems[array->type].to, .rank = array->rank - 1};
  for (int i = 1; i < array->rank && row.rank < LS_DIMS_MAX; i++)
    row.dim[i - 1] = array->dim[i];
  if (row.rank < LS_DIMS_MAX) return row; /* a batch has one more */
  return LS_SHAPE(row.dtype, cols);
}

ls_status_t ls_array_check(ls_ctx_t *ctx, const ls_array_t *array, size_t available, size_t offset) {
  int64_t cols;
  return check_shape(ctx, array, available, offset, &cols);
}

ls_shape_t ls_array_row_shape(const ls_array_t *array) {
  return row_shape(array, ls_array_row_bytes(array) / elems[array->type].bytes);
}

void ls_array_values(const ls_array_t *array, const void *from, int64_t count, double *out) {
  enum { SOME = 64 };
  union {
    uint8_t bytes[SOME * sizeof(double)];
    double wide[SOME]; /* where convert writes any of its types */
  } part;
  const bool host_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  for (int64_t i = 0; i < count; i += SOME) {
    int64_t some = count - i < SOME ? count - i : SOME;
    convert(array->type, array->big_endian != host_big,
            (const unsigned char *)from + (size_t)i * elems[array->type].bytes, (size_t)some, &part);
    const ls_matrix_t m = {
        .rows = 1, .cols = some, .row = LS_SHAPE(elems[array->type].to, some), .values = &part};
    ls_matrix_values(&m, 0, some, out + i);
  }
}

ls_status_t ls_array_read(ls_ctx_t *ctx, const ls_array_t *array, const void *bytes, size_t size,
                          size_t offset, ls_matrix_t *out) {
  int64_t cols;
  ls_status_t status = check_shape(ctx, array, size - offset, offset, &cols);
  if (status != LS_OK) return status;
  bool real = elems[array->type].real;
  ls_shape_t row = row_shape(array, cols);
  bool host_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  size_t count = (size_t)array->dim[0] * (size_t)cols;
  const unsigned char *from = (const unsigned char *)bytes + offset;
  unsigned char *ordered = array->by_column ? order_by_row(ctx, array, (size_t)cols, from) : NULL;
  if (array->by_column && !ordered) return LS_ERR_MEMORY;
  void *values = ls_alloc_array(ctx, count, ls_dtype_bytes(row.dtype));
  if (values) convert(array->type, array->big_endian != host_big, ordered ? ordered : from, count, values);
  ls_free(ordered);
  if (!values) return LS_ERR_MEMORY;
  status = real ? check_finite(ctx, array, offset, (size_t)cols, count, values) : LS_OK;
  if (status != LS_OK) goto free_values;

  ls_matrix_t made = {.rows = array->dim[0],
                      .cols = cols,
                      .row = row,
                      .values = values,
                      .integers = !real,
                      .bytes = array->type == LS_ELEM_U8};
  if (row.dtype == LS_F64) status = ls_matrix_take(ctx, values, &made);
  if (status == LS_OK) *out = made;
  return status;

free_values:
  ls_free(values);
  return status;
}
