/* A folder by the number of the run's directory, so that the next supervisor finds it. */
#include "supervise/session.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[LS_SESSION_VARIABLES] = {"OMPI_MCA_orte_tmpdir_base",  /* Open MPI 3 and 4 */
                                                        "PRTE_MCA_prte_tmpdir_base"}; /* 5 */

void ls_session_at(const char *dir, ls_session_t *s) {
  snprintf(s->dir, sizeof s->dir, "%s", dir);
  for (int i = 0; i < LS_SESSION_VARIABLES; i++)
    if (getenv(names[i]))
      s->variable[i][0] = '\0';
    else
      snprintf(s->variable[i], sizeof s->variable[i], "%s=%s", names[i], s->dir);
}

static bool make_own(const char *path) {
  int fd;
  if (ls_dir_own(NULL, path, &fd) != LS_OK) return false;
  close(fd);
  return true;
}

void ls_session_open(const char *run_dir, ls_session_t *s) {
  const char *base = getenv("TMPDIR");
  char path[LS_SESSION_BYTES];
  struct stat run;
  *s = (ls_session_t){.dir = ""};
  if (stat(run_dir, &run) != 0) return;
  const int len = snprintf(path, sizeof path, "%s/lockstep-%llx-%llx", base && *base ? base : "/tmp",
                           (unsigned long long)run.st_dev, (unsigned long long)run.st_ino);
  const bool fits = len < (int)sizeof path;
  if (fits && make_own(path) && ls_dir_remove(NULL, path) == LS_OK && make_own(path)) ls_session_at(path, s);
}

void ls_session_remove(const ls_session_t *s) {
  if (s->dir[0]) ls_dir_remove(NULL, s->dir);
}
