/* The maps of a process name the job; names in /dev/shm are then compared with it. */
#include "supervise/segments.h"

#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char dir[] = "/dev/shm";
static const char *const kinds[] = {"vader_segment.", "sm_segment."};

bool ls_segments_find(pid_t rank, char job[LS_SEGMENTS_JOB_BYTES]) {
  char line[512];
  bool found = false;
  snprintf(line, sizeof line, "/proc/%d/maps", (int)rank);
  FILE *file = fopen(line, "re");
  while (file && !found && fgets(line, sizeof line, file))
    for (int i = 0; i < LS_COUNT(kinds) && !found; i++) {
      char *at = strstr(line, dir), *end = at ? strrchr(at, '.') : NULL;
      size_t len = strlen(kinds[i]);
      if (!end || strncmp(at + sizeof dir, kinds[i], len) != 0) continue;
      *end = '\0';
      found = strlen(at + sizeof dir + len) < LS_SEGMENTS_JOB_BYTES;
      if (found) strcpy(job, at + sizeof dir + len);
    }
  if (file) fclose(file);
  return found;
}

static bool begins(const char *name, const char *kind, const char *job) {
  const size_t len = strlen(kind), more = strlen(job);
  return !strncmp(name, kind, len) && !strncmp(name + len, job, more) && name[len + more] == '.';
}

void ls_segments_remove(const char *job) {
  char window[LS_SEGMENTS_JOB_BYTES];
  const char *number = strrchr(job, '.');
  if (!number) return;
  const char *user = memrchr(job, '.', (size_t)(number - job));
  snprintf(window, sizeof window, "%.*s%s", user ? (int)(user - job) : 0, job, number);
  DIR *all = opendir(dir);
  for (const struct dirent *entry; all && (entry = readdir(all));) {
    bool own = begins(entry->d_name, "osc_sm.", window);
    struct stat info;
    for (int i = 0; i < LS_COUNT(kinds); i++)
      own |= begins(entry->d_name, kinds[i], job);
    if (own && fstatat(dirfd(all), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
        info.st_uid == geteuid())
      unlinkat(dirfd(all), entry->d_name, 0);
  }
  if (all) closedir(all);
}
