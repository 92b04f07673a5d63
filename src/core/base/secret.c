/* Sources of secrets. They are read each time, so a file may change while a run goes on. */
#include "base/secret.h"

#include "base/base.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *behind(const char *text, const char *prefix) {
  const size_t len = strlen(prefix);
  return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

bool ls_secret_is_value(const char *text) {
  return !behind(text, LS_SECRET_ENV) && !behind(text, LS_SECRET_FILE) && strcmp(text, LS_SECRET_HIDDEN) != 0;
}

const char *ls_secret_shown(const char *text) {
  return text && ls_secret_is_value(text) ? LS_SECRET_HIDDEN : text;
}

/* A pipe without a writer counts as an empty file. */
static bool read_file(const char *path, char value[LS_SECRET_BYTES], char *why, size_t why_bytes) {
  const size_t most = LS_SECRET_BYTES - 1;
  size_t used = 0;
  ssize_t n = -1;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  while (fd >= 0 && used < most && (n = read(fd, value + used, most - used)) > 0)
    used += (size_t)n;
  const int error = errno;
  if (fd >= 0) close(fd);
  value[used] = '\0';
  if (n < 0) snprintf(why, why_bytes, "%s: cannot be read: %s", path, strerror(error));
  if (used == most) snprintf(why, why_bytes, "%s: too long for a secret", path);
  return n >= 0 && used < most;
}

bool ls_secret_read(const char *text, char value[LS_SECRET_BYTES], char *why, size_t why_bytes) {
  const char *name = behind(text, LS_SECRET_ENV), *path = behind(text, LS_SECRET_FILE);
  const char *from = name ? getenv(name) : text;
  if (strcmp(text, LS_SECRET_HIDDEN) == 0) {
    snprintf(why, why_bytes,
             "the value is hidden in this saved configuration: write %sNAME or %sPATH in its place",
             LS_SECRET_ENV, LS_SECRET_FILE);
    return false;
  }
  if (!from) {
    snprintf(why, why_bytes, "the environment of this process has no variable %s", name);
    return false;
  }
  if (path && !read_file(path, value, why, why_bytes)) return false;
  if (!path && snprintf(value, LS_SECRET_BYTES, "%s", from) >= LS_SECRET_BYTES) {
    snprintf(why, why_bytes, "%s: too long for a secret", ls_secret_shown(text));
    return false;
  }
  value[strcspn(value, "\r\n")] = '\0';
  if (*value) return true;
  snprintf(why, why_bytes, "%s: is empty", ls_secret_shown(text));
  return false;
}
