/* Starting the ranks: this process becomes mpirun, which runs the same command line N times. */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MPIRUN_ARGS = 16 };

/* Environment that Open MPI needs to run as root in a container, and to stay quiet on one node. Set only
 * where the user has not. */
static void prepare_environment(void) {
  if (geteuid() == 0) {
    static const char *const names[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                        "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"};
    for (int i = 0; i < LS_COUNT(names); i++)
      setenv(names[i], "1", 0);
  }
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
}

ls_status_t cli_launch(ls_ctx_t *ctx, const cli_args_t *args, int ranks) {
  int rank, size;
  if (ranks <= 1 || ls_comm_launched(&rank, &size)) return LS_OK;
  char self[PATH_MAX], count[16];
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  if (len < 0) return ls_fail_errno(ctx, "cannot find this program's path");
  self[len] = '\0';
  snprintf(count, sizeof count, "%d", ranks);
  char **argv = ls_alloc_array(ctx, (size_t)(args->argc + MPIRUN_ARGS), sizeof *argv);
  if (!argv) return LS_ERR_MEMORY;
  char mpirun[] = "mpirun", oversubscribe[] = "--oversubscribe", bind[] = "--bind-to", none[] = "none",
       np[] = "-np";
  int n = 0;
  argv[n++] = mpirun;
  argv[n++] = oversubscribe;
  argv[n++] = bind;
  argv[n++] = none;
  argv[n++] = np;
  argv[n++] = count;
  argv[n++] = self;
  for (int i = 1; i < args->argc; i++)
    argv[n++] = args->argv[i];
  prepare_environment();
  fflush(NULL);
  execvp(argv[0], argv);
  int error = errno;
  ls_free(argv);
  return ls_fail(
      ctx, LS_ERR_UNSUPPORTED,
      "%d ranks need mpirun, which could not be started (%s); install openmpi-bin or start the ranks "
      "with your launcher",
      ranks, strerror(error));
}
