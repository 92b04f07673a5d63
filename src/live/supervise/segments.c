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
static const int64_t look_ns = 100000000;
static const char *const kinds[] = {"vader_segment.", "sm_segment."};

bool ls_segments_due(ls_segments_t *s, bool stepped, int64_t now_ns) {
  const bool due = !s->job[0] && !s->done && (stepped || now_ns >= s->due_ns);
  if (due) s->due_ns = now_ns + look_ns;
  s->done |= stepped;
  return due;
}

void ls_segments_look(ls_segments_t *s, pid_t rank) {
  char line[512];
  bool found = s->job[0];
  snprintf(line, sizeof line, "/proc/%d/maps", (int)rank);
  FILE *file = fopen(line, "re");
  while (file && !found && fgets(line, sizeof line, file))
    for (int i = 0; i < LS_COUNT(kinds) && !found; i++) {
      char *at = strstr(line, dir), *end = at ? strrchr(at, '.') : NULL;
      size_t len = strlen(kinds[i]);
      if (!end || strncmp(at + sizeof dir, kinds[i], len) != 0) continue;
      *end = '\0';
      found = strlen(at + sizeof dir + len) < LS_SEGMENTS_JOB_BYTES;
      if (found) strcpy(s->job, at + sizeof dir + len);
    }
  if (file) fclose(file);
}

static bool begins(const char *name, const char *kind, const char *job) {
  const size_t len = strlen(kind), more = strlen(job);
  return !strncmp(name, kind, len) && !strncmp(name + len, job, more) && name[len + more] == '.';
}

void ls_segments_remove(const ls_segments_t *s) {
  const char *job = s->job;
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
