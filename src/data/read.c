/* Whole files into memory, unpacked. */
#include "data/read.h"
#include "data/gunzip.h"

#include <errno.h>
#include <unistd.h>

/* A file that unpacks to more than half of the memory would exhaust it before the program could report
 * anything. */
size_t ls_read_limit(void) {
  size_t limit = (size_t)16 << 30;
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return limit;
  size_t half = (size_t)pages / 2 * (size_t)page_bytes;
  return half < limit ? half : limit;
}

/* For a path from a configuration: the message gives the full path, and the rule by which it was found. */
static ls_status_t fail_missing(ls_ctx_t *ctx, const char *path) {
  char *absolute = ls_path_absolute(ctx, path);
  if (!absolute) return LS_ERR_MEMORY;
  ls_status_t status = ls_fail(
      ctx, LS_ERR_NOT_FOUND,
      "%s: No such file or directory; a relative path in a configuration starts at the configuration's "
      "folder, one in --set at the current folder, and --data-root DIR names another start",
      absolute);
  ls_free(absolute);
  return status;
}

ls_status_t ls_read_bytes(ls_ctx_t *ctx, const char *path, char **bytes, size_t *size) {
  if (!ls_path_exists(path) && errno == ENOENT) return fail_missing(ctx, path);
  char *raw;
  size_t raw_size, limit = ls_read_limit();
  ls_status_t status = ls_file_read(ctx, path, limit, &raw, &raw_size);
  if (status != LS_OK) return status;
  if (!ls_gunzip_is(raw, raw_size)) {
    *bytes = raw;
    *size = raw_size;
    return LS_OK;
  }
  status = ls_gunzip(ctx, path, raw, raw_size, limit, bytes, size);
  ls_free(raw);
  return status;
}
