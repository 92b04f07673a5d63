/* Preloaded into the ranks of one machine (run_gpu_tests.sh), tells MPI and NCCL that each is on a host of its own: two ranks can
 * then share one GPU, and NCCL's collectives run without a second one. Times mean nothing then. */
#include <mpi.h>
#include <stdlib.h>

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *own) {
  int rank;
  (void)type, (void)info;
  MPI_Comm_rank(comm, &rank);
  return PMPI_Comm_split(comm, rank, key, own);
}

/* NCCL refuses two ranks with one GPU on one host, and knows hosts by this variable. */
__attribute__((constructor)) static void name_host(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank) setenv("NCCL_HOSTID", rank, 1);
}
