/* Decompression of gzip files held in memory. */
#ifndef LS_DATA_GUNZIP_H
#define LS_DATA_GUNZIP_H

#include "base/base.h"

bool ls_gunzip_is(const void *bytes, size_t size); /* begins with the gzip magic */

/* All members of the file one after the other; more than `limit_bytes` of output is refused, and
 * beyond 64 MiB of it more than 100 times the input that it came from. The result is
 * followed by a NUL that is not counted and owned by the caller (ls_free). Errors (LS_ERR_DATA) name the
 * offset: truncated, damaged, trailing bytes, too large. */
ls_status_t ls_gunzip(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, size_t limit_bytes,
                      char **out, size_t *out_size);

#endif
