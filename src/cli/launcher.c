/* Launchers as rows, and finding out which one is there. */
#include "cli/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

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

const cli_launcher_t *cli_launcher_match(const char *version) {
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (strstr(version, rows[i].match)) return &rows[i];
  return NULL;
}

/* What `mpirun --version` prints, on either stream, without line ends. An errno value when it cannot be
 * started. */
static int ask_version(char *text, size_t size) {
  char mpirun[] = "mpirun", version[] = "--version";
  char *argv[] = {mpirun, version, NULL};
  posix_spawn_file_actions_t actions;
  int pipes[2], state;
  pid_t pid;
  size_t used = 0;
  if (pipe2(pipes, O_CLOEXEC) != 0) return errno;
  int error = posix_spawn_file_actions_init(&actions);
  if (error == 0) {
    error = posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, pipes[1], STDERR_FILENO);
    if (error == 0) error = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
  }
  close(pipes[1]);
  for (ssize_t got = 1; error == 0 && got != 0;) {
    char rest[256];
    bool room = used + 1 < size;
    got = read(pipes[0], room ? text + used : rest, room ? size - 1 - used : sizeof rest);
    if (got < 0 && errno != EINTR) break;
    if (got > 0 && room) used += (size_t)got;
  }
  text[used] = '\0';
  close(pipes[0]);
  while (error == 0 && waitpid(pid, &state, 0) < 0 && errno == EINTR)
    ;
  return error;
}

ls_status_t cli_launcher_find(ls_ctx_t *ctx, int ranks, const cli_launcher_t **launcher) {
  char version[1024];
  int error = ask_version(version, sizeof version);
  if (error != 0)
    return ls_fail(
        ctx, LS_ERR_UNSUPPORTED,
        "%d ranks need mpirun, which could not be started (%s); install openmpi-bin or start the ranks "
        "with your launcher",
        ranks, strerror(error));
  const cli_launcher_t *row = cli_launcher_match(version);
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
