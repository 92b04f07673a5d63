/* The buffer of bytes.h, filled by zlib. */
#include "data/bytes.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ls_status_t ls_bytes_open(ls_bytes_t *b, const char *path) {
  const int fd = !strcmp(path, "-") ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (fd < 0) return ls_fail_errno(b->ctx, "%s: cannot be opened", b->name);
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    close(fd);
    return ls_fail(b->ctx, LS_ERR_IO, "%s: a directory, a file was expected", b->name);
  }
  b->file = gzdopen(fd, "rb");
  if (b->file) return LS_OK;
  close(fd);
  return ls_fail(b->ctx, LS_ERR_MEMORY, "out of memory: %s", b->name);
}

void ls_bytes_close(ls_bytes_t *b) {
  if (b->file) gzclose_r(b->file);
  ls_free(b->at);
  b->file = NULL;
  b->at = NULL;
  b->used = b->capacity = 0;
}

static ls_status_t reserve(ls_bytes_t *b, size_t size) {
  if (size <= b->capacity) return LS_OK;
  char *grown = ls_realloc_array(b->ctx, b->at, size, 1);
  if (!grown) return LS_ERR_MEMORY;
  b->at = grown;
  b->capacity = size;
  return LS_OK;
}

static ls_status_t read_failed(ls_bytes_t *b) {
  int code;
  const char *text = gzerror(b->file, &code);
  if (code == Z_ERRNO) return ls_fail_errno(b->ctx, "%s: cannot be read", b->name);
  if (code == Z_MEM_ERROR) return ls_fail(b->ctx, LS_ERR_MEMORY, "out of memory: %s", b->name);
  return ls_fail(b->ctx, LS_ERR_DATA, "%s: damaged gzip data, or the file is truncated: %s", b->name, text);
}

ls_status_t ls_bytes_fill(ls_bytes_t *b, size_t size) {
  ls_status_t status = reserve(b, size);
  while (status == LS_OK && b->used < size && !b->ended) {
    size_t room = size - b->used;
    int got = gzread(b->file, b->at + b->used, (unsigned)(room < LS_BYTES_BLOCK ? room : LS_BYTES_BLOCK));
    int code = Z_OK;
    if (got <= 0) gzerror(b->file, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) return read_failed(b);
    b->ended = got == 0;
    b->used += (size_t)got;
  }
  return status;
}

void ls_bytes_drop(ls_bytes_t *b, size_t begin, size_t end) {
  memmove(b->at + begin, b->at + end, b->used - end);
  b->used -= end - begin;
}
