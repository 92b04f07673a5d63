/* IDX, the format of the MNIST files: 00 00 type dimensions, then each size as a big-endian u32, then the
 * values, big-endian, row-major. Source: "The MNIST database of handwritten digits", LeCun,
 * Cortes, Burges. */
#include "data/table/elements.h"

enum { MAGIC_BYTES = 4, SIZE_BYTES = 4, IDX_RANK_MAX = 6 };

static bool elem_type(unsigned code, ls_elem_t *type) {
  static const struct {
    unsigned code;
    ls_elem_t type;
  } rows[] = {{0x08, LS_ELEM_U8},  {0x09, LS_ELEM_I8},  {0x0B, LS_ELEM_I16},
              {0x0C, LS_ELEM_I32}, {0x0D, LS_ELEM_F32}, {0x0E, LS_ELEM_F64}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    if (rows[i].code != code) continue;
    *type = rows[i].type;
    return true;
  }
  return false;
}

static int64_t read_size(const unsigned char *at) {
  return (int64_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
}

ls_status_t ls_idx_header(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_array_t *array,
                          size_t *offset) {
  const unsigned char *b = bytes;
  if (size < MAGIC_BYTES)
    return ls_fail(ctx, LS_ERR_DATA, "%s: %zu bytes are too few for an IDX file", name, size);
  if (b[0] != 0 || b[1] != 0)
    return ls_fail(ctx, LS_ERR_DATA, "%s: not an IDX file: it begins with %02x %02x instead of 00 00", name,
                   b[0], b[1]);
  *array = (ls_array_t){.name = name, .big_endian = true, .rank = b[3]};
  if (!elem_type(b[2], &array->type))
    return ls_fail(
        ctx, LS_ERR_DATA,
        "%s: offset 2: unknown IDX element type 0x%02x (known: 08 u8, 09 i8, 0B i16, 0C i32, 0D f32, "
        "0E f64)",
        name, b[2]);
  if (array->rank < 1 || array->rank > IDX_RANK_MAX)
    return ls_fail(ctx, LS_ERR_DATA, "%s: offset 3: %d dimensions; 1 to %d are supported", name, array->rank,
                   IDX_RANK_MAX);
  *offset = MAGIC_BYTES + (size_t)array->rank * SIZE_BYTES;
  if (size < *offset)
    return ls_fail(ctx, LS_ERR_DATA, "%s: the header needs %zu bytes, the file has %zu: it is truncated",
                   name, *offset, size);
  for (int i = 0; i < array->rank; i++)
    array->dim[i] = read_size(b + MAGIC_BYTES + i * SIZE_BYTES);
  return LS_OK;
}

ls_status_t ls_read_idx(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_matrix_t *out) {
  ls_array_t array;
  size_t offset;
  ls_status_t status = ls_idx_header(ctx, name, bytes, size, &array, &offset);
  return status == LS_OK ? ls_array_read(ctx, &array, bytes, size, offset, out) : status;
}
