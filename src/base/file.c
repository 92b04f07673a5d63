/* Whole files: reads under a limit, writes durably. A save that was reported is on the disk: data is fsynced
 * before the rename, and the directory after it. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEMPORARY_TRIES = 1000, TEMPORARY_BYTES = sizeof ".tmp.-9223372036854775808.1000" };

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

/* Reads the whole of an open file whose size was `expected` a moment ago. Files that grow meanwhile, and
 * those of /proc, which claim size 0, are read up to the limit. */
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

ls_status_t ls_file_read(ls_ctx_t *ctx, const char *path, size_t limit_bytes, char **bytes,
                         size_t *size_bytes) {
  if (limit_bytes > SIZE_MAX / 4) limit_bytes = SIZE_MAX / 4;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe in the file's place must not block the
                                                           * open */
  if (fd < 0) return ls_fail_errno(ctx, "%s: cannot be opened", path);
  ls_status_t status;
  struct stat info;
  if (fstat(fd, &info) != 0)
    status = ls_fail_errno(ctx, "%s: cannot be examined", path);
  else if (!S_ISREG(info.st_mode))
    status = ls_fail(ctx, LS_ERR_IO, "%s: %s, a regular file was expected", path,
                     S_ISDIR(info.st_mode) ? "a directory" : "a special file");
  else if ((uint64_t)info.st_size > limit_bytes)
    status = fail_too_large(ctx, path, limit_bytes);
  else
    status = read_all(ctx, fd, path, (size_t)info.st_size, limit_bytes, bytes, size_bytes);
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

/* Writes everything and fsyncs; 0 or -1 with errno. */
static int write_durably(int fd, const char *bytes, size_t size, bool regular) {
  while (size > 0) {
    ssize_t n = write(fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    bytes += n;
    size -= (size_t)n;
  }
  return regular ? fsync(fd) : 0; /* devices and pipes cannot be made durable */
}

/* Writes, fsyncs and closes `fd`. Removes a partly written file, but never a device. */
static ls_status_t write_whole(ls_ctx_t *ctx, int fd, const char *path, const void *bytes, size_t size) {
  struct stat info;
  bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  bool written = write_durably(fd, bytes, size, regular) == 0;
  int error = errno;
  if (close(fd) != 0 && written) {
    written = false;
    error = errno;
  }
  if (written) return LS_OK;
  if (regular) unlink(path);
  errno = error;
  return ls_fail_errno(ctx, "%s: writing %zu bytes failed", path, size);
}

ls_status_t ls_file_write(ls_ctx_t *ctx, const char *path, const void *bytes, size_t size_bytes) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return ls_fail_errno(ctx, "%s: cannot be created", path);
  return write_whole(ctx, fd, path, bytes, size_bytes);
}

/* A new file beside `path` that belongs to this writer alone, even if others replace `path` at the same time:
 * another process, another thread, or a process with the same number on another node. */
static int open_beside(const char *path, char *temporary, size_t size) {
  for (int i = 0; i < TEMPORARY_TRIES; i++) {
    snprintf(temporary, size, "%s.tmp.%ld.%d", path, (long)getpid(), i);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

ls_status_t ls_file_replace(ls_ctx_t *ctx, const char *path, const void *bytes, size_t size_bytes) {
  struct stat info;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return ls_file_write(ctx, path, bytes, size_bytes);
  ls_status_t status = LS_ERR_MEMORY;
  size_t temporary_size = strlen(path) + TEMPORARY_BYTES;
  char *parent = ls_path_parent(ctx, path);
  char *temporary = parent ? ls_alloc(ctx, temporary_size) : NULL;
  if (!temporary) goto free_names;
  int fd = open_beside(path, temporary, temporary_size);
  status = fd < 0 ? ls_fail_errno(ctx, "%s: cannot be created", temporary)
                  : write_whole(ctx, fd, temporary, bytes, size_bytes);
  if (status != LS_OK) goto free_names;
  if (rename(temporary, path) != 0) {
    status = ls_fail_errno(ctx, "%s: cannot be renamed to %s", temporary, path);
    unlink(temporary);
    goto free_names;
  }
  status = ls_dir_sync(ctx, parent);
free_names:
  ls_free(temporary);
  ls_free(parent);
  return status;
}
