/* Bytes of a file or of stdin, of any length: a buffer of those that are not used up yet. gzip is unpacked on the way. */
#ifndef LS_DATA_BYTES_H
#define LS_DATA_BYTES_H

#include "base/ctx.h"

#include <zlib.h>

enum { LS_BYTES_BLOCK = 1 << 20 };

typedef struct {
  ls_ctx_t *ctx;
  const char *name; /* for messages, borrowed */
  gzFile file;      /* hands on what is not packed as it is; NULL: all bytes are in the buffer */
  bool ended;       /* the buffer has the last ones */
  char *at;         /* (used) */
  size_t used, capacity;
} ls_bytes_t;

/* `path` "-": stdin. LS_ERR_NOT_FOUND, LS_ERR_IO, LS_ERR_MEMORY. */
ls_status_t ls_bytes_open(ls_bytes_t *b, const char *path);
/* Releases the buffer, too. Of one that is zero, nothing to do. */
void ls_bytes_close(ls_bytes_t *b);
/* Reads until the buffer holds `size` bytes or the input has ended. LS_ERR_IO, LS_ERR_DATA: damaged gzip. */
ls_status_t ls_bytes_fill(ls_bytes_t *b, size_t size);
/* Removes [begin, end) of the buffer. */
void ls_bytes_drop(ls_bytes_t *b, size_t begin, size_t end);

#endif
