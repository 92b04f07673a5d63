/* System calls under control. */
#include "syscalls.h"

#include "power.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static _Thread_local struct {
  int count, fail_at, fail_errno, kill_at;
  bool refuse_exchange, dribble, interrupted;
  int act_at;
  void (*act)(void *arg);
  void *act_arg;
  sys_call_t log[SYS_LOG_MAX];
} sys;

void sys_reset(void) {
  memset(&sys, 0, sizeof sys);
}
void sys_fail_at(int n, int error) {
  sys.fail_at = sys.count + n;
  sys.fail_errno = error;
}
void sys_kill_at(int n) {
  sys.kill_at = sys.count + n;
}
void sys_act_at(int n, void (*act)(void *arg), void *arg) {
  sys.act_at = sys.count + n;
  sys.act = act;
  sys.act_arg = arg;
}
void sys_refuse_exchange(bool refuse) {
  sys.refuse_exchange = refuse;
}
void sys_dribble(bool on) {
  sys.dribble = on;
}
int sys_count(void) {
  return sys.count;
}
const sys_call_t *sys_call(int n) {
  return n < sys.count && n < SYS_LOG_MAX ? &sys.log[n] : NULL;
}

/* Records the call. True when it is to fail; errno is then set. Returns only if the process is to live,
 * except for a write, which `dies` tells to finish by half first. */
static bool enter(sys_kind_t kind, const char *path, const char *to, bool *dies) {
  int n = sys.count++;
  bool fails = sys.count == sys.fail_at;
  if (n < SYS_LOG_MAX) {
    sys.log[n].kind = kind;
    sys.log[n].failed = fails;
    snprintf(sys.log[n].path, sizeof sys.log[n].path, "%s", path);
    snprintf(sys.log[n].to, sizeof sys.log[n].to, "%s", to);
  }
  if (sys.count == sys.act_at) sys.act(sys.act_arg);
  bool dead = sys.count == sys.kill_at;
  if (dead && !dies) raise(SIGKILL);
  if (dies) *dies = dead;
  if (fails) errno = sys.fail_errno;
  return fails;
}

static const char *path_of(int fd, char path[512]) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, 511);
  path[n > 0 ? n : 0] = '\0';
  return path;
}

#define WRAP(type, name, ...)                                                                                \
  type __real_##name(__VA_ARGS__);                                                                           \
  type __wrap_##name(__VA_ARGS__);                                                                           \
  type __wrap_##name(__VA_ARGS__)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list args;
    va_start(args, flags);
    mode = va_arg(args, mode_t);
    va_end(args);
  }
  return enter(SYS_OPEN, path, "", NULL) ? -1 : __real_open(path, flags, mode);
}

WRAP(int, close, int fd) {
  char path[512];
  bool fails = enter(SYS_CLOSE, path_of(fd, path), "", NULL);
  int error = errno, result = __real_close(fd); /* Linux closes even when it reports an error */
  if (!fails) return result;
  errno = error;
  return -1;
}

WRAP(ssize_t, write, int fd, const void *bytes, size_t size) {
  char path[512];
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return __real_write(fd, bytes, size); /* messages */
  if (sys.dribble && (sys.interrupted = !sys.interrupted)) {
    errno = EINTR;
    return -1;
  }
  if (sys.dribble && size > 7) size = 7;
  bool dies;
  if (enter(SYS_WRITE, path_of(fd, path), "", &dies)) return -1;
  if (!dies) return __real_write(fd, bytes, size);
  ssize_t half = __real_write(fd, bytes, size / 2);
  raise(SIGKILL);
  return half;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
  char path[512];
  if (enter(SYS_FSYNC, path_of(fd, path), "", NULL)) return -1; /* a killed process needs no disk: fast */
  power_synced(fd);
  return 0;
}

WRAP(int, rename, const char *from, const char *to) {
  return enter(SYS_RENAME, from, to, NULL) ? -1 : __real_rename(from, to);
}

WRAP(int, renameat2, int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  if (sys.refuse_exchange) {
    errno = EINVAL;
    return -1;
  }
  return enter(SYS_EXCHANGE, from, to, NULL) ? -1 : __real_renameat2(from_dir, from, to_dir, to, flags);
}

WRAP(int, mkdir, const char *path, mode_t mode) {
  return enter(SYS_MKDIR, path, "", NULL) ? -1 : __real_mkdir(path, mode);
}

WRAP(int, rmdir, const char *path) {
  if (enter(SYS_RMDIR, path, "", NULL)) return -1;
  power_removing(path);
  return __real_rmdir(path);
}

WRAP(int, unlink, const char *path) {
  if (enter(SYS_UNLINK, path, "", NULL)) return -1;
  power_removing(path);
  return __real_unlink(path);
}

WRAP(int, unlinkat, int above, const char *name, int flags) {
  char dir[512], path[1024];
  if (above == AT_FDCWD)
    snprintf(path, sizeof path, "%s", name);
  else
    snprintf(path, sizeof path, "%s/%s", path_of(above, dir), name);
  if (enter(flags & AT_REMOVEDIR ? SYS_RMDIR : SYS_UNLINK, path, "", NULL)) return -1;
  power_removing(path);
  return __real_unlinkat(above, name, flags);
}

WRAP(int, flock, int fd, int operation) {
  char path[512];
  return enter(SYS_FLOCK, path_of(fd, path), "", NULL) ? -1 : __real_flock(fd, operation);
}
