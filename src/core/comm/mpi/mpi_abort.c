/* Ends a failed job. If a rank simply exited, the others would wait for it; MPI_Abort has mpirun end them at
 * once and return our exit code. */
#include "comm/mpi/mpi.h"

void ls_comm_mpi_abort(int exit_code) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, exit_code);
}
