/* Shared by the host transports (self, sim, mpi): argument checks, the broken state, streams, sums.
 *
 * A communicator has two channels that never mix: run() uses CONTROL, streams use STREAM. So the main thread
 * may run a control collective while the communication lane is in the middle of a gradient, and the order
 * between the two does not matter. Within a channel all ranks keep the same order. */
#ifndef LS_COMM_HOST_H
#define LS_COMM_HOST_H

#include "comm/comm.h"

#include <pthread.h>
#include <string.h>

typedef enum { LS_CHANNEL_CONTROL, LS_CHANNEL_STREAM, LS_CHANNEL_COUNT } ls_channel_t;

typedef struct ls_host_comm ls_host_comm_t;
/* Runs one checked collective, blocking. Called by one thread at a time for each channel. */
typedef ls_status_t (*ls_host_execute_fn)(ls_host_comm_t *host, ls_channel_t channel,
                                          const ls_collective_t *c);

/* Every host transport's object begins with this. */
struct ls_host_comm {
  ls_comm_t base;
  ls_host_execute_fn execute;
  pthread_mutex_t lock[LS_CHANNEL_COUNT];
};

/* Fills the common part; local_rank and local_size start as on a single node. Cannot fail. */
void ls_host_init(ls_host_comm_t *host, const ls_comm_ops_t *ops, ls_ctx_t *ctx, int rank, int size,
                  int64_t deadline_ns, ls_host_execute_fn execute);
void ls_host_release(ls_host_comm_t *host);

/* The slots of ls_comm_ops_t that all host transports share. */
ls_status_t ls_host_enqueue(ls_stream_t *stream, ls_collective_t *c);
ls_status_t ls_host_run(ls_comm_t *comm, const ls_collective_t *c);
ls_status_t ls_host_poll(ls_comm_t *comm);

/* out[i] = in[0][i] + in[1][i] + ... in that order, so that a sum has the same bits wherever and whenever it
 * is computed. `out` may be one of the inputs. `copy` (may be NULL) receives the same values. */
void ls_comm_sum(ls_dtype_t dtype, void *out, void *copy, const void *const *in, int in_count, int64_t count);

/* Helpers for walking over buffers in chunks. A copy onto itself, and a copy of nothing, are allowed. */
typedef unsigned char ls_byte_t;
static inline int64_t ls_host_min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline void ls_host_copy(void *to, const void *from, int64_t size_bytes) {
  if (size_bytes > 0 && to != from) memmove(to, from, (size_t)size_bytes);
}

#endif
