/* A shared segment: the memory in which ranks of one host meet, with one slot per rank. The sim transport
 * allocates it on the heap of one process, shm in memory that processes inherit, mpi in a shared window. The code is the
 * same, so what the thread sanitizer proves about one holds for the other.
 *
 * In a round a rank writes what it gives into its own slot, announces that it has arrived, waits until all
 * have arrived, and reads the others' slots. Slots hold two buffers, used in turn. A rank writes buffer b
 * again two rounds later: by then it has seen everybody arrive in the round between, so everybody has left
 * the round that read b. No other wait is needed.
 *
 * Waiting: a rank spins for some microseconds, then sleeps on a futex in its own slot, which every announcing
 * rank wakes. A waiting lane takes no time from a compute thread on the same core. */
#ifndef LS_COMM_SEGMENT_H
#define LS_COMM_SEGMENT_H

#include "comm/host.h"

/* A rank's collective in a round. Ranks that disagree get an error instead of mixed data. */
typedef struct {
  int64_t count;
  int32_t kind, dtype, root;
  char name[48];
} ls_segment_what_t;

typedef struct {
  _Alignas(64) _Atomic uint64_t arrived; /* newest round in which what this rank gives is there */
  _Alignas(64) _Atomic uint32_t wake;    /* futex: changes when a sleeping owner should look again */
  _Atomic uint32_t sleeping;
  _Atomic uint32_t failed;           /* the owner gave up: nobody waits for it any more */
  _Atomic uint32_t left;             /* the owner destroyed its communicator */
  ls_segment_what_t what[2];         /* of the last two rounds */
  _Alignas(64) unsigned char data[]; /* two buffers of chunk_bytes */
} ls_segment_slot_t;

/* One rank's view. */
typedef struct {
  const ls_comm_t *comm;
  ls_segment_slot_t **slot; /* [size], borrowed */
  size_t chunk_bytes;       /* multiple of 64 */
  uint64_t round;
} ls_segment_t;

/* One size per channel. Gradients travel on streams, in chunks that stay in the second-level cache; control needs
 * little. */
extern const size_t ls_segment_chunk_bytes[LS_CHANNEL_COUNT];

/* Bytes of one slot: a multiple of 64. Slots begin zeroed and 64-byte aligned. */
size_t ls_segment_slot_bytes(size_t chunk_bytes);

/* Makes the segment the channel's way. A collective fails with LS_ERR_TIMEOUT or LS_ERR_COMM, reported; the
 * segment is unusable then. */
void ls_segment_open(ls_segment_t *segment, ls_host_channel_t *channel, ls_segment_slot_t **slot,
                     size_t chunk_bytes);
/* Tells the others that this rank will not come again. */
void ls_segment_leave(ls_segment_t *segment);

#endif
