/* Tensor descriptors: the place, type and shape of numbers. Always dense and row-major. */
#ifndef LS_DEVICE_TENSOR_H
#define LS_DEVICE_TENSOR_H

#include "base/ctx.h"

typedef enum {
  LS_F32,
  LS_F64,
  LS_I32,
  LS_I64,
  LS_U8,
  LS_BF16,
  LS_F16, /* 16-bit floats: cast, moved and saved, summed by collectives; no other arithmetic */
  LS_U16, /* stored, moved and saved; no arithmetic */
  LS_DTYPE_COUNT
} ls_dtype_t;

/* The facts about a dtype. Every other table of dtypes reads this one, or counts its own rows. */
typedef struct {
  const char *name;        /* "f32" */
  const char *safetensors; /* its name in that format: "F32" */
  size_t bytes;
  uint64_t exponent; /* bits that are all set where a number is not finite; 0: whole numbers */
  bool sums;         /* collectives add it */
} ls_dtype_row_t;
const ls_dtype_row_t *ls_dtype_row(ls_dtype_t dtype);

enum { LS_DIMS_MAX = 6 };

typedef struct {
  ls_dtype_t dtype;
  int rank; /* 0 = scalar */
  int64_t dim[LS_DIMS_MAX];
} ls_shape_t;

typedef struct {
  void *data; /* memory of the device that runs the kernel; borrowed */
  ls_shape_t shape;
} ls_tensor_t;

size_t ls_dtype_bytes(ls_dtype_t dtype);
const char *ls_dtype_name(ls_dtype_t dtype); /* "f32" */

int64_t ls_shape_count(const ls_shape_t *shape); /* elements */
size_t ls_shape_bytes(const ls_shape_t *shape);
bool ls_shape_equal(const ls_shape_t *a, const ls_shape_t *b);
/* Product of the dimensions before / from `axis`. */
int64_t ls_shape_outer(const ls_shape_t *shape, int axis);
int64_t ls_shape_inner(const ls_shape_t *shape, int axis);
/* "f32 (16, 799)", written into buf, returned. */
enum { LS_SHAPE_TEXT_BYTES = 128 };
const char *ls_shape_text(const ls_shape_t *shape, char buf[LS_SHAPE_TEXT_BYTES]);

#define LS_SHAPE(dtype_, ...)                                                                                \
  ((ls_shape_t){.dtype = (dtype_), .rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), .dim = {__VA_ARGS__}})

#endif
