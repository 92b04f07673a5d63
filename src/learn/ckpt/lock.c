/* One run, one directory. The lock is flock(2) on a file, so it ends with its process, however that ends; the
 * file's text about the holder is only for messages. The file is removed while it is still locked, so a lock
 * counts only if the locked file is still the one with the name. */
#include "ckpt/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME ".lock"

/* ls_ckpt_lock_look holds the lock for an instant, so a run that begins then tries again, for 0.3 s in
 * all. */
enum { HOLDER_BYTES = 256, ROUNDS_MAX = 100, ATTEMPTS_MAX = 15, ATTEMPT_PAUSE_NS = 20000000 };

struct ls_ckpt_lock {
  char *dir, *path;
  int fd;
  size_t existing_bytes; /* of dir's name: what was there before */
  bool complained;       /* of the link to the best checkpoint */
};

static void write_holder(int fd) {
  char host[128] = "?", when[64] = "?", text[HOLDER_BYTES];
  time_t now = time(NULL);
  struct tm utc;
  gethostname(host, sizeof host - 1);
  if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &utc);
  int len = snprintf(text, sizeof text, "process %ld on %s, started %s\n", (long)getpid(), host, when);
  if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)len, 0) < 0)
    return; /* a lock without a name locks too */
}

static void read_holder(int fd, char text[HOLDER_BYTES]) {
  ssize_t len = pread(fd, text, HOLDER_BYTES - 1, 0);
  text[len > 0 ? len : 0] = '\0';
  text[strcspn(text, "\n")] = '\0';
  if (!text[0]) snprintf(text, HOLDER_BYTES, "a process that has only just started");
}

#define BUSY                                                                                                 \
  "%s: another run works in this directory: %s. Wait until it has ended (a run that was told to "            \
  "stop still saves), or give this run a train.checkpoint.dir of its own"

static ls_status_t refuse(ls_ctx_t *ctx, const ls_ckpt_lock_t *lock) {
  char holder[HOLDER_BYTES];
  read_holder(lock->fd, holder);
  return ls_fail(ctx, LS_ERR_BUSY, BUSY, lock->dir, holder);
}

void ls_ckpt_lock_look(ls_ctx_t *ctx, const char *dir) {
  char *path = ls_path_join(ctx, dir, LOCK_NAME), holder[HOLDER_BYTES];
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
  if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    read_holder(fd, holder);
    ls_log(ctx, LS_LOG_WARN, BUSY, dir, holder);
  }
  if (fd >= 0) close(fd);
  ls_free(path);
}

static bool is_named(const ls_ckpt_lock_t *lock) {
  struct stat file, name;
  return fstat(lock->fd, &file) == 0 && stat(lock->path, &name) == 0 && file.st_ino == name.st_ino &&
         file.st_dev == name.st_dev;
}

/* A file that another user left need not be writable: flock(2) only needs it open. */
static int open_lock(const char *path) {
  enum { FLAGS = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };
  int fd = open(path, O_RDWR | O_CREAT | FLAGS, 0666);
  return fd < 0 && errno == EACCES ? open(path, O_RDONLY | FLAGS) : fd;
}

static int lock_patiently(int fd) {
  int result = flock(fd, LOCK_EX | LOCK_NB);
  for (int i = 0; i < ATTEMPTS_MAX && result != 0 && errno == EWOULDBLOCK; i++) {
    nanosleep(&(struct timespec){.tv_nsec = ATTEMPT_PAUSE_NS}, NULL);
    result = flock(fd, LOCK_EX | LOCK_NB);
  }
  return result;
}

/* A read-only file would keep naming an earlier holder, so a new file replaces it. */
static bool gave_way(const ls_ckpt_lock_t *lock) {
  return (fcntl(lock->fd, F_GETFL) & O_ACCMODE) == O_RDONLY && unlink(lock->path) == 0;
}

/* Opens and locks once. *again: the file was removed, by its last holder in between or here. */
static ls_status_t try_lock(ls_ctx_t *ctx, ls_ckpt_lock_t *lock, bool *again) {
  *again = false;
  lock->fd = open_lock(lock->path);
  if (lock->fd < 0 && errno == ELOOP)
    return ls_fail(ctx, LS_ERR_IO, "%s: is a symbolic link, which a lock must not be: remove it", lock->path);
  if (lock->fd < 0) return ls_fail_errno(ctx, "%s: cannot be opened", lock->path);
  if (lock_patiently(lock->fd) != 0) {
    if (errno == EWOULDBLOCK) return refuse(ctx, lock);
    ls_log(ctx, LS_LOG_WARN,
           "%s: this file system has no locks (%s): nothing keeps a second run out of this directory",
           lock->dir, strerror(errno));
    return LS_OK;
  }
  *again = !is_named(lock) || gave_way(lock);
  if (!*again) write_holder(lock->fd);
  return LS_OK;
}

static ls_status_t take(ls_ctx_t *ctx, ls_ckpt_lock_t *lock) {
  for (int round = 0; round < ROUNDS_MAX; round++) {
    bool again;
    ls_status_t status = try_lock(ctx, lock, &again);
    if (status || !again) return status;
    close(lock->fd);
    lock->fd = -1;
  }
  return ls_fail(ctx, LS_ERR_BUSY, "%s: runs come and go too fast for one to lock this directory", lock->dir);
}

static void release(ls_ckpt_lock_t *lock) {
  if (lock->fd >= 0) close(lock->fd);
  if (lock->dir) ls_ckpt_dirs_remove(lock->dir, lock->existing_bytes);
  ls_free(lock->path);
  ls_free(lock->dir);
  ls_free(lock);
}

ls_status_t ls_ckpt_lock(ls_ctx_t *ctx, const char *dir, ls_ckpt_lock_t **out) {
  if (!dir[0]) return ls_fail(ctx, LS_ERR_ARGUMENT, "the directory of a checkpoint has no name");
  ls_ckpt_lock_t *lock = ls_alloc(ctx, sizeof *lock);
  if (!lock) return LS_ERR_MEMORY;
  lock->fd = -1;
  lock->existing_bytes = strlen(dir);
  lock->dir = ls_strdup(ctx, dir);
  lock->path = ls_path_join(ctx, dir, LOCK_NAME);
  ls_status_t status = lock->dir && lock->path ? LS_OK : LS_ERR_MEMORY;
  if (!status) status = ls_ckpt_dirs_make(ctx, dir, &lock->existing_bytes);
  if (!status) status = take(ctx, lock);
  if (status)
    release(lock);
  else
    *out = lock;
  return status;
}

bool ls_ckpt_lock_made_dir(const ls_ckpt_lock_t *lock) {
  return lock->existing_bytes < strlen(lock->dir);
}

bool ls_ckpt_lock_holds(const ls_ckpt_lock_t *lock) {
  return !lock || is_named(lock);
}

bool ls_ckpt_lock_first_complaint(ls_ckpt_lock_t *lock) {
  bool first = !lock || !lock->complained;
  if (lock) lock->complained = true;
  return first;
}

ls_status_t ls_ckpt_lock_check(ls_ctx_t *ctx, const ls_ckpt_lock_t *lock) {
  if (ls_ckpt_lock_holds(lock)) return LS_OK;
  return ls_fail(ctx, LS_ERR_MOVED,
                 "%s: the directory was moved or its lock was removed; nothing was saved there", lock->dir);
}

void ls_ckpt_unlock(ls_ckpt_lock_t *lock) {
  if (!lock) return;
  if (is_named(lock))
    unlink(lock->path);
  else
    lock->existing_bytes = strlen(lock->dir); /* it belongs to another run by now */
  release(lock);
}
