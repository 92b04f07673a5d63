/* Arrays of numbers as binary formats hold them, turned into matrices that keep small whole numbers. */
#ifndef LS_DATA_ELEMENTS_H
#define LS_DATA_ELEMENTS_H

#include "data/read.h"

typedef enum {
  LS_ELEM_U8,
  LS_ELEM_I8,
  LS_ELEM_U16,
  LS_ELEM_I16,
  LS_ELEM_U32,
  LS_ELEM_I32,
  LS_ELEM_U64,
  LS_ELEM_I64,
  LS_ELEM_F16,
  LS_ELEM_F32,
  LS_ELEM_F64
} ls_elem_t;

typedef struct {
  const char *name; /* file, for messages */
  ls_elem_t type;
  bool big_endian;
  bool by_column; /* the first index runs fastest (Fortran's order) */
  int rank;       /* dimensions, 1 .. LS_ARRAY_RANK_MAX; the first is rows */
  int64_t dim[32];
  /* For a part of a file: number of rows before it, for messages. */
  int64_t rows_before;
  size_t bytes_before;
} ls_array_t;
enum { LS_ARRAY_RANK_MAX = 32 };

/* Checks that the array's shape holds at least one row and column and that its data are exactly the bytes
 * from `offset` to the end of the file, then converts. Every value must be finite as f32. LS_ERR_DATA,
 * LS_ERR_MEMORY. */
ls_status_t ls_array_read(ls_ctx_t *ctx, const ls_array_t *array, const void *bytes, size_t size,
                          size_t offset, ls_matrix_t *out);

/* The checks of its shape alone. LS_ERR_DATA. */
ls_status_t ls_array_check(ls_ctx_t *ctx, const ls_array_t *array, size_t available, size_t offset);
/* A row's dimensions where a tensor can have them, else one, and a dtype that holds every value. */
ls_shape_t ls_array_row_shape(const ls_array_t *array);
/* `count` values of a checked array in row order, from any place on. Pure. */
void ls_array_values(const ls_array_t *array, const void *from, int64_t count, double *out);

/* Bytes of one row; INT64_MAX: too many to count. Pure. */
int64_t ls_array_row_bytes(const ls_array_t *array);

/* The headers alone: what an array holds, and where its data begin. No more bytes than these are looked at. LS_ERR_DATA. */
enum { LS_ARRAY_HEADER_BYTES_MAX = 65536 + 12 };
ls_status_t ls_npy_header(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_array_t *array,
                          size_t *offset);
ls_status_t ls_idx_header(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_array_t *array,
                          size_t *offset);

#endif
