/* Launchers as rows, and identification of the one that is installed. */
#include "cli/launcher.h"

#include "base/child.h"

#include <stdlib.h>
#include <string.h>

static const char start_yourself[] = "put the mpirun of Open MPI first on PATH (openmpi-bin), or start the "
                                     "ranks with the launcher of the MPI that "
                                     "lockstep was built with";
static const cli_launcher_t rows[] = {
    {"Open MPI 5", "(Open MPI) 5", {"--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-np"}, NULL},
    {"Open MPI 4", "(Open MPI) 4", {"--oversubscribe", "--bind-to", "none", "-np"}, NULL},
    {"Open MPI 3", "(Open MPI) 3", {"--oversubscribe", "--bind-to", "none", "-np"}, NULL},
    {"Open MPI", "(Open MPI)", {"--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-np"}, NULL},
    {"Intel MPI", "Intel(R) MPI", {NULL}, start_yourself},
    {"MPICH (Hydra)", "HYDRA", {NULL}, start_yourself},
    {"Slurm's srun", "slurm", {NULL}, "start the ranks with srun: srun -n RANKS lockstep ..."},
};

/* The row for this `mpirun --version` output; NULL = none of them. */
static const cli_launcher_t *match(const char *version) {
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (strstr(version, rows[i].match)) return &rows[i];
  return NULL;
}

ls_status_t cli_launcher_find(ls_ctx_t *ctx, int ranks, const cli_launcher_t **launcher) {
  enum { LIMIT_S = 60 };
  char version[1024], words[LS_CHILD_WORDS_BYTES];
  const char *const argv[] = {"mpirun", "--version", NULL};
  ls_child_spec_t ask = {.argv = argv, .limit_s = LIMIT_S, .said = version, .said_bytes = sizeof version};
  ls_child_end_t end;
  ask.stream[STDOUT_FILENO].fd = STDERR_FILENO; /* launchers answer on either */
  const bool answered = ls_child_run(&ask, &end);
  ls_child_words(&end, words);
  if (end.error || end.late_s)
    return ls_fail(
        ctx, LS_ERR_UNSUPPORTED,
        "%d ranks need mpirun, which %s; install openmpi-bin or start the ranks with your launcher", ranks,
        words);
  if (!answered) {
    const char *home = getenv("HOME");
    char reason[LS_CHILD_WORDS_BYTES] = "it says nothing";
    if (version[0]) ls_child_reason(&end, version, reason);
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "mpirun --version failed (%s): %s%s", words, reason,
                   home && *home ? "" : "; HOME is not set");
  }
  const cli_launcher_t *row = match(version);
  if (!row)
    return ls_fail(ctx, LS_ERR_UNSUPPORTED,
                   "mpirun is a launcher that lockstep does not know (mpirun --version says \"%.*s\"): %s",
                   (int)strcspn(version, "\n"), version, start_yourself);
  if (row->remedy)
    return ls_fail(ctx, LS_ERR_UNSUPPORTED,
                   "mpirun is that of %s, with which lockstep does not start ranks: %s", row->name,
                   row->remedy);
  ls_log(ctx, LS_LOG_DEBUG, "the ranks are started with mpirun of %s", row->name);
  *launcher = row;
  return LS_OK;
}
