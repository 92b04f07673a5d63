/* The mpi transport: processes that a launcher started (mpirun, srun). There are two ways to move data:
 *   window    all ranks on one host: a shared segment (segment.h) in an MPI shared-memory window. A collective
 *             makes no MPI call, so nothing polls, and a waiting lane sleeps.
 *   exchange  otherwise: nonblocking point-to-point messages, polled with a deadline. MPI_Iallreduce is not
 *             used: MPI only advises that its result be the same on all ranks and in all runs (MPI 3.1,
 *             5.9.1), and Open MPI chooses its algorithm by size. Here MPI moves bytes and rounds.c adds
 *             them, in rank order.
 *
 * In containers Open MPI 4 may print that its vader transport has no permission for CMA (exchange way, large
 * messages). mpirun --mca btl_vader_single_copy_mechanism none silences it. */
#ifndef LS_COMM_MPI_MPI_H
#define LS_COMM_MPI_MPI_H

#include "comm/segment.h"

#include <mpi.h>

enum { LS_MPI_STAGE_BYTES = 1024 * 1024 };

typedef struct ls_mpi ls_mpi_t;

/* The exchange way: one per channel, on a communicator of its own, so that messages never meet. */
typedef struct {
  ls_mpi_t *mpi;
  MPI_Comm comm;
  unsigned char *stage; /* blocks of other ranks */
  MPI_Request *request; /* [2 * size]: receive from rank i, then send to rank i - size */
} ls_mpi_exchange_t;

struct ls_mpi {
  ls_host_comm_t host;
  bool owns_mpi; /* we initialised MPI and finalize it */
  /* Every MPI call after creation: MPI_THREAD_SERIALIZED is enough. A group takes that of the world's. */
  pthread_mutex_t *lock, own_lock;
  ls_mpi_exchange_t exchange[LS_CHANNEL_COUNT];
  bool window_wanted, windowed;
  MPI_Win window;
  ls_segment_slot_t **slot; /* (channel, rank) */
  ls_segment_t segment[LS_CHANNEL_COUNT];
};

/* Like ls_comm_mpi_create. `window` false: exchange even on one host (tests, comparison). */
ls_status_t ls_mpi_create(ls_ctx_t *ctx, int64_t deadline_ns, bool window, ls_comm_t **comm);

/* Reports a failed MPI call with the library's own text: LS_ERR_COMM. */
ls_status_t ls_mpi_fail(ls_ctx_t *ctx, int error, const char *what);

/* Polls `count` requests until all are complete or the deadline passes; MPI is called under `lock` (may be
 * NULL). On LS_ERR_TIMEOUT (not reported) *pending is the first incomplete one; on LS_ERR_COMM (not reported)
 * *error is what MPI returned. Incomplete requests stay pending: the communicator is broken. */
ls_status_t ls_mpi_wait(pthread_mutex_t *lock, int64_t deadline_ns, MPI_Request *request, int count,
                        int *pending, int *error);

/* Allocates the stage and makes the exchange the channel's way. False: no memory. */
bool ls_mpi_exchange_open(ls_mpi_t *mpi, ls_channel_t channel);

/* Makes the shared window and its segments. Collective; LS_ERR_UNSUPPORTED (not reported) on all ranks when
 * any cannot. */
ls_status_t ls_mpi_window_create(ls_mpi_t *mpi);
void ls_mpi_window_release(ls_mpi_t *mpi, bool collective);

#endif
