/* Preloaded: stat of a run's configuration answers for ever what it answered first, as a network file system does for up
 * to a minute. open is not affected. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

__attribute__((visibility("default"))) int stat(const char *path, struct stat *info) {
  static const char name[] = "/config.json";
  static struct stat first;
  static int known, error;
  const size_t len = strlen(path);
  if (len < sizeof name || strcmp(path + len - sizeof name + 1, name) != 0)
    return fstatat(AT_FDCWD, path, info, 0);
  if (!known) error = fstatat(AT_FDCWD, path, &first, 0) == 0 ? 0 : errno;
  known = 1;
  errno = error;
  *info = first;
  return error ? -1 : 0;
}
