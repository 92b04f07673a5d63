/* A file on a disk: written past the page cache where the system allows that, waited for, read back and compared word by
 * word (device/words.h). It is unlinked as soon as it is open. */
#include "device/words.h"
#include "stress/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PAGE = 4096 };
static const int64_t block_bytes = 4 << 20, usual_bytes = 256 << 20;

struct ls_stress_file {
  ls_ctx_t *ctx;
  int fd;
  uint32_t *block;
  int64_t sweep, write_ns, read_ns;
  ls_stress_disk_t seen;
};

static ls_status_t no_space(ls_ctx_t *ctx, const char *dir, int64_t want_bytes, int64_t free_bytes) {
  return ls_fail(ctx, LS_ERR_NO_SPACE,
                 "%s: %.1f MB asked for, %.1f MB free; name a smaller size, DIR:SIZE, or another folder", dir,
                 1e-6 * (double)want_bytes, 1e-6 * (double)free_bytes);
}

/* Not every file system knows files without a name. */
static int open_unnamed(const char *dir, int flags) {
  int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  char path[LS_STRESS_DIR_BYTES + 64];
  snprintf(path, sizeof path, "%s/.lockstep-stress-%ld", dir, (long)getpid());
  fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd >= 0) (void)unlink(path);
  return fd;
}

static ls_status_t choose(ls_stress_file_t *f, int64_t size_bytes) {
  struct statvfs fs;
  if (statvfs(f->seen.dir, &fs) != 0) return ls_fail_errno(f->ctx, "%s", f->seen.dir);
  const int64_t free_bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
  int64_t bytes = size_bytes > 0 ? size_bytes : usual_bytes < free_bytes / 4 ? usual_bytes : free_bytes / 4;
  bytes = bytes < block_bytes ? block_bytes : bytes - bytes % block_bytes;
  f->seen.bytes = bytes;
  return bytes > free_bytes ? no_space(f->ctx, f->seen.dir, bytes, free_bytes) : LS_OK;
}

ls_status_t ls_stress_file_open(ls_ctx_t *ctx, const char *dir, int64_t size_bytes, ls_stress_file_t **out) {
  if (strlen(dir) >= LS_STRESS_DIR_BYTES)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: this path is too long for --disk", dir);
  ls_stress_file_t *f = ls_alloc(ctx, sizeof *f);
  if (!f) return LS_ERR_MEMORY;
  f->ctx = ctx;
  f->fd = -1;
  snprintf(f->seen.dir, sizeof f->seen.dir, "%s", dir);
  ls_status_t status = choose(f, size_bytes);
  if (status == LS_OK && !(f->block = ls_alloc_aligned(ctx, PAGE, (size_t)block_bytes)))
    status = LS_ERR_MEMORY;
  if (status == LS_OK) {
    f->fd = open_unnamed(dir, O_DIRECT);
    f->seen.direct = f->fd >= 0;
    if (f->fd < 0) f->fd = open_unnamed(dir, 0);
    if (f->fd < 0) status = ls_fail_errno(ctx, "%s: no file can be written there", dir);
  }
  int error = status == LS_OK ? posix_fallocate(f->fd, 0, f->seen.bytes) : 0;
  if (error == ENOSPC || error == EDQUOT) status = no_space(ctx, dir, f->seen.bytes, 0);
  if (status == LS_OK)
    *out = f;
  else
    ls_stress_file_close(f);
  return status;
}

void ls_stress_file_close(ls_stress_file_t *f) {
  if (!f) return;
  if (f->fd >= 0) close(f->fd);
  ls_free(f->block);
  ls_free(f);
}

/* Takes note of errno. */
static bool failed(ls_stress_file_t *f, const char *what, int64_t at) {
  snprintf(f->seen.fault, sizeof f->seen.fault, "%s at byte %lld: %s", what, (long long)at,
           errno ? strerror(errno) : "the file ends there");
  return false;
}

/* One block, whole. */
static bool move(ls_stress_file_t *f, bool out, int64_t at, int64_t *ns) {
  const int64_t begin_ns = ls_clock_ns();
  for (int64_t done = 0; done < block_bytes;) {
    void *from = (char *)f->block + done;
    const size_t left = (size_t)(block_bytes - done);
    errno = 0;
    ssize_t got = out ? pwrite(f->fd, from, left, at + done) : pread(f->fd, from, left, at + done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return failed(f, out ? "writing" : "reading", at + done);
    done += got;
  }
  *ns += ls_clock_ns() - begin_ns;
  return true;
}

/* The block's words; as turn_words: checks `sweep`, if it is above 0, and leaves the next pattern. */
static int64_t turn(ls_stress_file_t *f, int64_t at, int64_t sweep) {
  const int64_t words = block_bytes / (int64_t)sizeof *f->block;
  return ls_words_turn(f->block, 0, words, at / (int64_t)sizeof *f->block, sweep, sweep > 0);
}

static bool write_all(ls_stress_file_t *f, const atomic_bool *stop) {
  for (int64_t at = 0; at < f->seen.bytes; at += block_bytes) {
    if (atomic_load(stop)) return false;
    turn(f, at, 0);
    if (f->sweep % 2 == 0) turn(f, at, 1);
    if (!move(f, true, at, &f->write_ns)) return false;
    f->seen.written_bytes += block_bytes;
  }
  const int64_t begin_ns = ls_clock_ns();
  errno = 0;
  if (fdatasync(f->fd) != 0) return failed(f, "waiting for the disk", f->seen.bytes);
  f->write_ns += ls_clock_ns() - begin_ns;
  if (!f->seen.direct) errno = posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
  return f->seen.direct || errno == 0 || failed(f, "emptying the page cache", f->seen.bytes);
}

bool ls_stress_file_pass(ls_stress_file_t *f, const atomic_bool *stop, bool *plant) {
  f->sweep++;
  if (!write_all(f, stop)) return false;
  for (int64_t at = 0; at < f->seen.bytes && !atomic_load(stop); at += block_bytes) {
    if (!move(f, false, at, &f->read_ns)) return false;
    if (*plant) f->block[block_bytes / 8] ^= 1u << 7;
    *plant = false;
    f->seen.wrong += turn(f, at, f->sweep % 2 == 0 ? 2 : 1);
    f->seen.checked_bytes += block_bytes;
  }
  return true;
}

void ls_stress_file_report(const ls_stress_file_t *f, ls_stress_disk_t *disk) {
  *disk = f->seen;
  disk->write_bytes_per_s =
      f->write_ns > 0 ? 1e9 * (double)f->seen.written_bytes / (double)f->write_ns : (double)NAN;
  disk->read_bytes_per_s =
      f->read_ns > 0 ? 1e9 * (double)f->seen.checked_bytes / (double)f->read_ns : (double)NAN;
}
