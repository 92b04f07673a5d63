/* Shapes: counts, axes, equality, text. */
#include "device/tensor.h"

#include <string.h>

#include "unit.h"

static void counts_and_axes(void **state) {
  ls_shape_t s = LS_SHAPE(LS_F32, 2, 3, 5), scalar = {.dtype = LS_F64}, empty = LS_SHAPE(LS_I32, 4, 0);
  assert_int_equal(s.rank, 3);
  assert_int_equal(ls_shape_count(&s), 30);
  assert_int_equal(ls_shape_bytes(&s), 120);
  assert_int_equal(ls_shape_outer(&s, 0), 1);
  assert_int_equal(ls_shape_outer(&s, 2), 6);
  assert_int_equal(ls_shape_inner(&s, 1), 15);
  assert_int_equal(ls_shape_inner(&s, 3), 1);
  assert_int_equal(ls_shape_count(&scalar), 1);
  assert_int_equal(ls_shape_bytes(&scalar), 8);
  assert_int_equal(ls_shape_count(&empty), 0);
}

static void equality(void **state) {
  ls_shape_t a = LS_SHAPE(LS_F32, 2, 3), b = a;
  b.dim[5] = 77; /* beyond the rank: no part of the shape */
  assert_true(ls_shape_equal(&a, &b));
  b.dim[1] = 4;
  assert_false(ls_shape_equal(&a, &b));
  b = a;
  b.dtype = LS_I32;
  assert_false(ls_shape_equal(&a, &b));
  assert_false(ls_shape_equal(&a, &LS_SHAPE(LS_F32, 2, 3, 1)));
}

static void text(void **state) {
  char buf[LS_SHAPE_TEXT_BYTES];
  assert_string_equal(ls_shape_text(&LS_SHAPE(LS_F32, 16, 799), buf), "f32 (16, 799)");
  assert_string_equal(ls_shape_text(&(ls_shape_t){.dtype = LS_I64}, buf), "i64 ()");
  ls_shape_t wide = {.dtype = LS_U8, .rank = LS_DIMS_MAX};
  for (int i = 0; i < LS_DIMS_MAX; i++)
    wide.dim[i] = INT64_MIN;
  memset(buf, 'x', sizeof buf);
  ls_shape_text(&wide, buf);
  assert_true(strlen(buf) < sizeof buf);
}

static void dtypes(void **state) {
  const struct {
    ls_dtype_t dtype;
    const char *name;
    size_t bytes;
  } rows[LS_DTYPE_COUNT] = {{LS_F32, "f32", 4}, {LS_F64, "f64", 8},   {LS_I32, "i32", 4}, {LS_I64, "i64", 8},
                            {LS_U8, "u8", 1},   {LS_BF16, "bf16", 2}, {LS_F16, "f16", 2}, {LS_U16, "u16", 2}};
  for (int i = 0; i < LS_DTYPE_COUNT; i++) {
    assert_string_equal(ls_dtype_name(rows[i].dtype), rows[i].name);
    assert_int_equal(ls_dtype_bytes(rows[i].dtype), rows[i].bytes);
  }
}

TESTS(NULL, NULL, counts_and_axes, equality, text, dtypes)
