/* Decompression of gzip files, and of deflated parts of other files, held in memory. */
#ifndef LS_DATA_GUNZIP_H
#define LS_DATA_GUNZIP_H

#include "base/base.h"

/* Numbers in text files shrink to a fifth or a tenth; a file far beyond that contains no data. */
enum { LS_UNPACK_RATIO_MAX = 100, LS_UNPACK_RATIO_FROM_BYTES = 64 << 20 };

bool ls_gunzip_is(const void *bytes, size_t size); /* begins with the gzip magic */

/* Unpacks all members of the file, one after the other. Output beyond `limit_bytes` is refused; so is output
 * beyond 64 MiB that is more than 100 times the input read. A NUL, which is not counted, follows the result.
 * The caller owns it (ls_free). Errors (LS_ERR_DATA) name the offset: truncated, damaged, trailing bytes, too
 * large. */
ls_status_t ls_gunzip(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, size_t limit_bytes,
                      char **out, size_t *out_size);

/* Raw deflate data (RFC 1951): bytes[begin .. end) of a file must unpack to exactly `out_size` bytes. Result
 * and errors as above; offsets count from the beginning of the file. */
ls_status_t ls_inflate(ls_ctx_t *ctx, const char *name, const void *bytes, size_t begin, size_t end,
                       size_t out_size, char **out);

#endif
