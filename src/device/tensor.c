/* Tensor descriptors: sizes and text of shapes. Shapes reach this file already checked (graph and readers
 * refuse overflowing ones), so the arithmetic is plain. */
#include "device/tensor.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
  const char *name;
  size_t bytes;
} dtypes[] = {
    [LS_F32] = {"f32", 4}, [LS_F64] = {"f64", 8}, [LS_I32] = {"i32", 4},
    [LS_I64] = {"i64", 8}, [LS_U8] = {"u8", 1},
};
_Static_assert(sizeof(dtypes) / sizeof(dtypes[0]) == LS_DTYPE_COUNT, "one row per dtype");

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
