/* .npy arrays, versions 1.0, 2.0 and 3.0: magic, version, header length, header text, data.
 * Source: "The NPY format", numpy.lib.format. */
#include "data/npy_header.h"

#include <string.h>

/* numpy itself refuses to evaluate headers above 10,000 bytes; plain arrays need far less. */
enum { PREFIX_BYTES = 8, HEADER_BYTES_MAX = 65536 };

ls_status_t ls_read_npy(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_matrix_t *out) {
  static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  const unsigned char *b = bytes;
  if (size < PREFIX_BYTES || memcmp(b, magic, sizeof magic) != 0)
    return ls_fail(ctx, LS_ERR_DATA, "%s: not a .npy file", name);
  int major = b[6], minor = b[7];
  if (major < 1 || major > 3 || minor != 0)
    return ls_fail(ctx, LS_ERR_DATA, "%s: offset 6: .npy version %d.%d; 1.0, 2.0 and 3.0 are supported", name,
                   major, minor);
  size_t length_bytes = major == 1 ? 2 : 4, begin = PREFIX_BYTES + length_bytes, length = 0;
  if (size < begin) return ls_fail(ctx, LS_ERR_DATA, "%s: truncated after %zu bytes", name, size);
  for (size_t i = 0; i < length_bytes; i++)
    length |= (size_t)b[PREFIX_BYTES + i] << (8 * i); /* little-endian */
  if (length > HEADER_BYTES_MAX)
    return ls_fail(ctx, LS_ERR_DATA, "%s: offset 8: a header of %zu bytes; at most %d are accepted", name,
                   length, HEADER_BYTES_MAX);
  if (length > size - begin)
    return ls_fail(ctx, LS_ERR_DATA, "%s: offset 8: a header of %zu bytes, but the file ends after %zu", name,
                   length, size - begin);
  ls_array_t array = {.name = name};
  ls_status_t status = ls_npy_header_parse(ctx, (const char *)bytes + begin, length, begin, &array);
  if (status != LS_OK) return status;
  return ls_array_read(ctx, &array, bytes, size, begin + length, out);
}
