/* Decompression of gzip files, and of deflated parts of other files, held in memory. */
#ifndef LS_DATA_GUNZIP_H
#define LS_DATA_GUNZIP_H

#include "base/base.h"

/* Numbers as people save them shrink to a fifth or a tenth; data that go far beyond it are no data. */
enum { LS_UNPACK_RATIO_MAX = 100, LS_UNPACK_RATIO_FROM_BYTES = 64 << 20 };

bool ls_gunzip_is(const void *bytes, size_t size); /* begins with the gzip magic */

/* All members of the file one after the other; more than `limit_bytes` of output is refused, and
 * beyond 64 MiB of it more than 100 times the input that it came from. The result is
 * followed by a NUL that is not counted and owned by the caller (ls_free). Errors (LS_ERR_DATA) name the
 * offset: truncated, damaged, trailing bytes, too large. */
ls_status_t ls_gunzip(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, size_t limit_bytes,
                      char **out, size_t *out_size);

/* Raw deflate data (RFC 1951): bytes[begin .. end) of a file have to unpack to exactly `out_size` bytes. The
 * result and the errors as above; offsets count from the file's begin. */
ls_status_t ls_inflate(ls_ctx_t *ctx, const char *name, const void *bytes, size_t begin, size_t end,
                       size_t out_size, char **out);

#endif
