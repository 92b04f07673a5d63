/* Whole files: reads under a limit, writes durably. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads until the end or `capacity`; -1 with errno on failure. */
static ssize_t read_some(int fd, char *bytes, size_t capacity) {
  size_t done = 0;
  while (done < capacity) {
    ssize_t n = read(fd, bytes + done, capacity - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += (size_t)n;
  }
  return (ssize_t)done;
}

static ls_status_t fail_too_large(ls_ctx_t *ctx, const char *path, size_t limit_bytes) {
  return ls_fail(ctx, LS_ERR_IO, "%s: larger than the limit of %zu bytes", path, limit_bytes);
}

/* Reads the whole of an open file whose size was `expected` a moment ago. Files that have grown since, and those of
 * /proc, which claim size 0, are read up to the limit. */
static ls_status_t read_all(ls_ctx_t *ctx, int fd, const char *path, size_t expected, size_t limit,
                            char **out, size_t *size) {
  size_t used = 0, capacity = expected + 1; /* one byte more, to detect the end */
  char *bytes = NULL;
  for (;;) {
    char *grown = ls_realloc_array(ctx, bytes, capacity + 1, 1);
    if (!grown) break;
    bytes = grown;
    ssize_t n = read_some(fd, bytes + used, capacity - used);
    if (n < 0) {
      ls_status_t status = ls_fail_errno(ctx, "%s: cannot be read", path);
      ls_free(bytes);
      return status;
    }
    used += (size_t)n;
    if (used > limit) {
      ls_free(bytes);
      return fail_too_large(ctx, path, limit);
    }
    if (used < capacity) {
      bytes[used] = '\0';
      *out = bytes;
      *size = used;
      return LS_OK;
    }
    capacity = capacity < limit / 2 ? capacity * 2 + 4096 : limit + 1;
  }
  ls_free(bytes);
  return LS_ERR_MEMORY;
}

static ls_status_t expect_regular(ls_ctx_t *ctx, const char *path, const struct stat *info) {
  if (S_ISREG(info->st_mode)) return LS_OK;
  return ls_fail(ctx, LS_ERR_IO, "%s: %s, a regular file was expected", path,
                 S_ISDIR(info->st_mode) ? "a directory" : "a special file");
}

ls_status_t ls_file_expect(ls_ctx_t *ctx, const char *path) {
  struct stat info;
  return stat(path, &info) == 0 ? expect_regular(ctx, path, &info) : LS_OK;
}

ls_status_t ls_file_open(ls_ctx_t *ctx, const char *path, int *fd) {
  struct stat info;
  int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return ls_fail_errno(ctx, "%s: cannot be opened", path);
  ls_status_t status = fstat(opened, &info) == 0 ? expect_regular(ctx, path, &info)
                                                 : ls_fail_errno(ctx, "%s: cannot be examined", path);
  if (status == LS_OK)
    *fd = opened;
  else
    close(opened);
  return status;
}

ls_status_t ls_file_read(ls_ctx_t *ctx, const char *path, size_t limit_bytes, char **bytes,
                         size_t *size_bytes) {
  int fd;
  struct stat info;
  ls_status_t status = ls_file_open(ctx, path, &fd);
  if (status != LS_OK) return status;
  if (limit_bytes > SIZE_MAX / 4) limit_bytes = SIZE_MAX / 4;
  if (fstat(fd, &info) != 0)
    status = ls_fail_errno(ctx, "%s: cannot be examined", path);
  else if ((uint64_t)info.st_size > limit_bytes)
    status = fail_too_large(ctx, path, limit_bytes);
  if (status == LS_OK) status = read_all(ctx, fd, path, (size_t)info.st_size, limit_bytes, bytes, size_bytes);
  close(fd);
  return status;
}

ls_status_t ls_stream_read(ls_ctx_t *ctx, int fd, const char *name, size_t most_bytes, char **bytes,
                           size_t *size_bytes) {
  char *read = ls_alloc(ctx, most_bytes + 1);
  if (!read) return LS_ERR_MEMORY;
  ssize_t n = read_some(fd, read, most_bytes);
  if (n < 0) {
    ls_status_t status = ls_fail_errno(ctx, "%s: cannot be read", name);
    ls_free(read);
    return status;
  }
  read[n] = '\0';
  *bytes = read;
  *size_bytes = (size_t)n;
  return LS_OK;
}

/* Writes everything; 0 or -1 with errno. */
static int write_all(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t n = write(fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    bytes += n;
    size -= (size_t)n;
  }
  return 0;
}

static ls_status_t write_new(ls_ctx_t *ctx, const char *path, const void *bytes, size_t size,
                             ls_status_t (*begin)(ls_ctx_t *ctx, const char *path, ls_new_file_t *file)) {
  ls_new_file_t file;
  ls_status_t status = begin(ctx, path, &file);
  if (status == LS_OK && write_all(file.fd, bytes, size) != 0)
    status = ls_fail_errno(ctx, "%s: writing %zu bytes failed", path, size);
  return ls_new_file_end(ctx, &file, status);
}

ls_status_t ls_file_write(ls_ctx_t *ctx, const char *path, const void *bytes, size_t size_bytes) {
  return write_new(ctx, path, bytes, size_bytes, ls_new_file_here);
}

ls_status_t ls_file_replace(ls_ctx_t *ctx, const char *path, const void *bytes, size_t size_bytes) {
  return write_new(ctx, path, bytes, size_bytes, ls_new_file_begin);
}
