/* Reads rank and world size from the environment, and opens the communicator of all ranks. */
#include "comm/shm/shm.h"

#include <stdlib.h>

enum { RANKS_MAX = 1 << 24 };

/* A variable that contains nothing but a decimal number below RANKS_MAX. */
static bool number(const char *name, int *value) {
  const char *text = getenv(name);
  if (!text || !*text) return false;
  int v = 0;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || v >= RANKS_MAX / 10) return false;
    v = v * 10 + (*text - '0');
  }
  *value = v;
  return true;
}

static bool pair(const char *rank_name, const char *size_name, int *rank, int *size) {
  int r, s;
  if (!number(rank_name, &r) || !number(size_name, &s) || r >= s) return false;
  *rank = r;
  *size = s;
  return true;
}

/* A batch script and `salloc` set SLURM_PROCID and SLURM_NTASKS too; only in a step did srun start the
 * process. A step of one task counts as started by hand (it may be an interactive shell). */
static bool slurm(int *rank, int *size) {
  int step, r, s;
  if (!number("SLURM_STEP_ID", &step)) return false;
  if (!pair("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", &r, &s) && !pair("SLURM_PROCID", "SLURM_NTASKS", &r, &s))
    return false;
  if (s < 2) return false;
  *rank = r;
  *size = s;
  return true;
}

bool ls_comm_launched(int *rank, int *size) {
  return ls_comm_shm_started(rank, size) ||
         pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", rank, size) || /* Open MPI's mpirun */
         pair("PMI_RANK", "PMI_SIZE", rank, size) ||                         /* MPICH and its family */
         pair("PMIX_RANK", "PMIX_SIZE", rank, size) || slurm(rank, size);
}

ls_status_t ls_comm_world_create(ls_ctx_t *ctx, int64_t deadline_ns, ls_comm_t **comm) {
  int rank, size;
  if (!ls_comm_launched(&rank, &size) || size == 1) return ls_comm_self_create(ctx, comm);
  return ls_comm_shm_started(&rank, &size) ? ls_comm_shm_create(ctx, deadline_ns, comm)
                                           : ls_comm_mpi_create(ctx, deadline_ns, comm);
}

void ls_comm_abort(ls_comm_t *comm, int exit_code) {
  if (comm->ops->end_all) comm->ops->end_all(comm, exit_code);
}
