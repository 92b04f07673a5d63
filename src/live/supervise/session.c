/* Names the folder to Open MPI, and removes it. */
#include "supervise/session.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

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

void ls_session_remove(const ls_session_t *s) {
  if (s->dir[0]) ls_dir_remove(NULL, s->dir);
}
