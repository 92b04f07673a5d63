/* A shared region: the memory in which ranks of one host meet, with one slot per rank. The sim transport
 * allocates it on the heap of one process, the mpi transport in a shared window of several. The code is the
 * same, so what the thread sanitizer proves about one holds for the other.
 *
 * A collective is a sequence of rounds. In a round a rank writes into its own slot, announces that it has
 * arrived, waits until all have arrived, and reads the others' slots. A round that combines announces and
 * waits a second time. Slots hold two buffers, used in turn. A rank writes buffer b again two rounds later:
 * by then it has seen everybody arrive in the round between, so everybody has left the round that read b. No
 * other wait is needed.
 *
 * Waiting: a rank spins for some microseconds, then sleeps on a futex in its own slot, which every announcing
 * rank wakes. A waiting lane takes no time from a compute thread on the same core. */
#ifndef LS_COMM_REGION_H
#define LS_COMM_REGION_H

#include "comm/host.h"

/* What a rank is doing in a round, so that ranks that disagree get an error instead of mixed data. */
typedef struct {
  int64_t count;
  int32_t kind, dtype, root;
  char name[48];
} ls_region_what_t;

typedef struct {
  _Alignas(64) _Atomic uint64_t arrived; /* newest round in which this rank's input is there */
  _Atomic uint64_t combined;             /* newest round in which this rank's part of the result is there */
  _Alignas(64) _Atomic uint32_t wake;    /* futex: changes when a sleeping owner should look again */
  _Atomic uint32_t sleeping;
  _Atomic uint32_t failed;           /* the owner gave up: nobody waits for it any more */
  _Atomic uint32_t left;             /* the owner destroyed its communicator */
  ls_region_what_t what[2];          /* of the last two rounds */
  _Alignas(64) unsigned char data[]; /* two buffers of chunk_bytes */
} ls_region_slot_t;

/* One rank's view. */
typedef struct {
  ls_comm_t *comm;
  ls_region_slot_t **slot; /* [size], borrowed */
  const void **part;       /* [size], borrowed: scratch for sums */
  size_t chunk_bytes;      /* multiple of 64 */
  uint64_t round;
} ls_region_t;

/* By channel. Gradients travel on streams, in chunks that stay in the second-level cache; control needs
 * little. */
extern const size_t ls_region_chunk_bytes[LS_CHANNEL_COUNT];

/* Bytes of one slot: a multiple of 64. Slots begin zeroed and 64-byte aligned. */
size_t ls_region_slot_bytes(size_t chunk_bytes);

/* Begins a round: the buffer of this rank, to be filled before ls_region_arrive. */
unsigned char *ls_region_begin(ls_region_t *region, const ls_collective_t *c);
/* The buffer of any rank in the current round. */
unsigned char *ls_region_data(const ls_region_t *region, int rank);
/* Announces this rank's input and waits for all inputs. */
ls_status_t ls_region_arrive(ls_region_t *region, const ls_collective_t *c);
/* Announces this rank's part of the result and waits for all parts. */
ls_status_t ls_region_combine(ls_region_t *region, const ls_collective_t *c);
/* Tells the others that this rank will not come again. */
void ls_region_leave(ls_region_t *region);

/* Runs a checked collective. LS_ERR_TIMEOUT or LS_ERR_COMM, reported; the region is unusable then. */
ls_status_t ls_region_execute(ls_region_t *region, const ls_collective_t *c);

#endif
