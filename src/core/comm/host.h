/* Shared by the host transports (self, sim, mpi): argument checks, the broken state, streams, sums, and the
 * collectives themselves, as rounds in which ranks swap blocks (rounds.c). A transport says how blocks travel.
 *
 * A communicator has two channels that never mix: run() uses CONTROL, streams use STREAM. So the main thread
 * may run a control collective while the communication lane is in the middle of a gradient, and the order
 * between the two does not matter. Within a channel all ranks keep the same order. */
#ifndef LS_COMM_HOST_H
#define LS_COMM_HOST_H

#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

typedef unsigned char ls_byte_t;
typedef enum { LS_CHANNEL_CONTROL, LS_CHANNEL_STREAM, LS_CHANNEL_COUNT } ls_channel_t;
typedef struct ls_host_channel ls_host_channel_t;

/* The bytes that this rank gives another one in a round, and those that it takes. */
typedef struct {
  const ls_byte_t *give;
  ls_byte_t *take; /* where the bytes have to be; NULL: the round writes here where it has them (then as many
                    * from every rank) */
  int64_t give_bytes, take_bytes;
} ls_host_block_t;

/* How a channel moves data. Called by one thread at a time for each channel. */
typedef struct {
  /* Runs one checked collective, blocking: ls_host_rounds, or the transport's own. */
  ls_status_t (*execute)(ls_host_channel_t *channel, const ls_collective_t *c);
  /* Swaps channel->block with every other rank; the own block stays where it is. The memory of blocks that
   * the round places is valid until the next round. spacing_bytes 0: all ranks are given the same block; else
   * the blocks given have places that far apart, in rank order. */
  ls_status_t (*round)(ls_host_channel_t *channel, const ls_collective_t *c, int64_t spacing_bytes);
  /* The place from which the next round gives a block to all without a copy. NULL: any place will do. */
  ls_byte_t *(*next)(ls_host_channel_t *channel);
} ls_host_way_t;

struct ls_host_channel {
  ls_comm_t *comm;
  const ls_host_way_t *way;
  void *place;                         /* the way's own */
  int64_t chunk_bytes, one_shot_bytes; /* see rounds.c */
  ls_host_block_t *block;              /* [size] */
  const void **part;                   /* [size]: scratch for sums */
  pthread_mutex_t lock;
  uint64_t count; /* collectives so far */
};

/* Every host transport's object begins with this. */
typedef struct {
  ls_comm_t base;
  ls_host_channel_t channel[LS_CHANNEL_COUNT];
} ls_host_comm_t;

/* Fills the common part; local_rank and local_size start as on a single node. The transport sets the
 * channels' ways. Released also after LS_ERR_MEMORY. */
ls_status_t ls_host_init(ls_host_comm_t *host, const ls_comm_ops_t *ops, ls_ctx_t *ctx, int rank, int size,
                         int64_t deadline_ns);
void ls_host_release(ls_host_comm_t *host);

/* The slots of ls_comm_ops_t that all host transports share. */
#define LS_HOST_OPS .enqueue = ls_host_enqueue, .run = ls_host_run, .poll = ls_host_poll
ls_status_t ls_host_enqueue(ls_stream_t *stream, ls_collective_t *c);
ls_status_t ls_host_run(ls_comm_t *comm, const ls_collective_t *c);
ls_status_t ls_host_poll(ls_comm_t *comm);

/* rounds.c: a checked collective by the way's rounds. */
ls_status_t ls_host_rounds(ls_host_channel_t *channel, const ls_collective_t *c);

/* out[i] = in[0][i] + in[1][i] + ... in that order, so that a sum has the same bits wherever and whenever it
 * is computed. `out` may be one of the inputs. `copy` (may be NULL) receives the same values. */
void ls_comm_sum(ls_dtype_t dtype, void *out, void *copy, const void *const *in, int in_count, int64_t count);

/* Helpers for walking over buffers in chunks. A copy onto itself, and a copy of nothing, are allowed. */
static inline int64_t ls_host_min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline void ls_host_copy(void *to, const void *from, int64_t size_bytes) {
  if (size_bytes > 0 && to != from) memmove(to, from, (size_t)size_bytes);
}

#endif
