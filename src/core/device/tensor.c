/* Tensor descriptors: sizes and text of shapes. Graph and readers refuse overflowing shapes, so the
 * arithmetic here is plain. */
#include "device/tensor.h"

#include <inttypes.h>
#include <stdio.h>

static const ls_dtype_row_t dtypes[] = {
    [LS_F32] = {"f32", "F32", 4, 0x7f800000, true},
    [LS_F64] = {"f64", "F64", 8, 0x7ff0000000000000, true},
    [LS_I32] = {"i32", "I32", 4, 0, true},
    [LS_I64] = {"i64", "I64", 8, 0, true},
    [LS_U8] = {"u8", "U8", 1, 0, false},
    [LS_BF16] = {"bf16", "BF16", 2, 0x7f80, true},
    [LS_F16] = {"f16", "F16", 2, 0x7c00, true},
    [LS_U16] = {"u16", "U16", 2, 0, false},
};
_Static_assert(sizeof(dtypes) / sizeof(dtypes[0]) == LS_DTYPE_COUNT, "one row per dtype");

const ls_dtype_row_t *ls_dtype_row(ls_dtype_t dtype) {
  return &dtypes[dtype];
}

size_t ls_dtype_bytes(ls_dtype_t dtype) {
  return dtypes[dtype].bytes;
}

const char *ls_dtype_name(ls_dtype_t dtype) {
  return dtypes[dtype].name;
}

static int64_t product(const ls_shape_t *shape, int begin, int end) {
  int64_t count = 1;
  for (int i = begin; i < end; i++)
    count *= shape->dim[i];
  return count;
}

int64_t ls_shape_count(const ls_shape_t *shape) {
  return product(shape, 0, shape->rank);
}

size_t ls_shape_bytes(const ls_shape_t *shape) {
  return (size_t)ls_shape_count(shape) * ls_dtype_bytes(shape->dtype);
}

bool ls_shape_equal(const ls_shape_t *a, const ls_shape_t *b) {
  if (a->dtype != b->dtype || a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

int64_t ls_shape_outer(const ls_shape_t *shape, int axis) {
  return product(shape, 0, axis);
}

int64_t ls_shape_inner(const ls_shape_t *shape, int axis) {
  return product(shape, axis, shape->rank);
}

/* Every piece is at most 22 bytes, so six dimensions and the name always fit; the guard is for a bad rank. */
const char *ls_shape_text(const ls_shape_t *shape, char buf[LS_SHAPE_TEXT_BYTES]) {
  int len = snprintf(buf, LS_SHAPE_TEXT_BYTES, "%s (", ls_dtype_name(shape->dtype));
  for (int i = 0; i < shape->rank && len < LS_SHAPE_TEXT_BYTES - 24; i++)
    len +=
        snprintf(buf + len, (size_t)(LS_SHAPE_TEXT_BYTES - len), "%s%" PRId64, i ? ", " : "", shape->dim[i]);
  snprintf(buf + len, (size_t)(LS_SHAPE_TEXT_BYTES - len), ")");
  return buf;
}
