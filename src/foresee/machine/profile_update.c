/* Adds to a profile's file. Plans that run at the same time share one profile. Each reads it and times for a while.
 * A plan must not write its old copy back, because that would remove the times that others have added meanwhile. */
#include "machine/profile_parts.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const int64_t lock_wait_ns = 2000000000;

ls_status_t ls_profile_copy(ls_ctx_t *ctx, const ls_profile_t *profile, ls_profile_t **out) {
  ls_profile_t *copy;
  ls_status_t status = ls_profile_create(ctx, &profile->machine, &copy);
  if (status != LS_OK) return status;
  status = ls_profile_merge(copy, profile);
  if (status != LS_OK) {
    ls_profile_destroy(copy);
    return status;
  }
  *out = copy;
  return LS_OK;
}

/* Locks `fd`, unless that takes too long or the file system has no locks; false = not locked. */
static bool lock_file(int fd, int64_t until_ns) {
  const struct timespec pause = {.tv_nsec = 1000000};
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || ls_clock_ns() > until_ns) return false;
    nanosleep(&pause, NULL);
  }
  return true;
}

/* Opens the current file at `path`, locked against other updates if possible. Each update puts a new file
 * there, so after waiting for a lock, the locked file may have been replaced. -1 = no file. */
static int open_locked(const char *path) {
  int64_t until_ns = ls_clock_ns() + lock_wait_ns;
  for (;;) {
    struct stat mine, there;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || !lock_file(fd, until_ns) || fstat(fd, &mine) != 0 || stat(path, &there) != 0) return fd;
    if ((mine.st_ino == there.st_ino && mine.st_dev == there.st_dev) || ls_clock_ns() > until_ns) return fd;
    close(fd);
  }
}

/* Copies into `into` every entry of `profile` that `before` lacks or has differently. */
static ls_status_t put_changes(ls_profile_t *into, const ls_profile_t *before, const ls_profile_t *profile) {
  ls_status_t status = LS_OK;
  for (int which = 0; which < LS_PROFILE_TABLE_COUNT; which++)
    for (int i = 0; i < profile->table[which].count && status == LS_OK; i++) {
      const ls_profile_entry_t *e = &profile->table[which].entry[i],
                               *old = ls_profile_find(before, which, e->key);
      if (!old || old->count != e->count ||
          memcmp(old->points, e->points, (size_t)e->count * sizeof *e->points) != 0)
        status = ls_profile_put_entry(into, which, e->key, e->points, e->count);
    }
  return status;
}

ls_status_t ls_profile_update(ls_ctx_t *ctx, const ls_profile_t *before, const ls_profile_t *profile,
                              const char *path) {
  ls_ctx_t *own = ls_ctx_create(NULL, NULL); /* a file that cannot be extended is no error here */
  ls_profile_t *now = NULL;
  if (!own) return LS_ERR_MEMORY;
  int fd = open_locked(path);
  ls_status_t status;
  if (fd >= 0 && ls_profile_load(own, path, &profile->machine, &now) == LS_OK) {
    status = put_changes(now, before, profile);
    if (status == LS_OK) status = ls_profile_save(ctx, now, path);
  } else {
    status = ls_profile_save(ctx, profile, path);
  }
  ls_profile_destroy(now);
  ls_ctx_destroy(own);
  if (fd >= 0) close(fd); /* this also releases the lock */
  return status;
}
