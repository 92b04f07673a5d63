/* Meeting in a shared segment: announcing, waiting, giving up. segment.h explains why the rounds are safe. */
#include "comm/segment.h"

#include "base/wait.h"

#include <stdatomic.h>
#include <stdio.h>

enum {
  ONE_SHOT_BYTES = 16 * 1024,
  SPIN_NS = 5000,           /* spin this long first: a peer on another core at the same place arrives
                             * sooner than a sleep takes */
  SPINS_PER_LOOK = 16,      /* between looks at the clock */
  SLEEP_NS_MAX = 100000000, /* limit of one sleep: nobody depends on being woken */
};

const size_t ls_segment_chunk_bytes[LS_CHANNEL_COUNT] = {
    [LS_CHANNEL_CONTROL] = 64 * 1024, [LS_CHANNEL_STREAM] = 512 * 1024};

/* Counts two buffers of each slot: all of the own one, which is zeroed at the beginning, and in the others'
 * the part that is added up here and the result. */
int64_t ls_comm_shared_bytes(int size, int64_t largest_bytes) {
  const int64_t chunk = (int64_t)ls_segment_chunk_bytes[LS_CHANNEL_STREAM];
  int64_t bytes = largest_bytes < chunk ? largest_bytes : chunk;
  return size > 1 ? 2 * (chunk + 2 * bytes * (size - 1) / size) : 0;
}

size_t ls_segment_slot_bytes(size_t chunk_bytes) {
  return sizeof(ls_segment_slot_t) + 2 * chunk_bytes;
}

/* A sleeper announces itself before its last look at our counter, and we look at `sleeping` after writing the
 * counter (both sequentially consistent), so one of the two sees the other. */
static void wake_sleepers(ls_segment_t *segment) {
  for (int r = 0; r < segment->comm->size; r++) {
    ls_segment_slot_t *slot = segment->slot[r];
    if (r == segment->comm->rank || !atomic_load(&slot->sleeping)) continue;
    atomic_fetch_add(&slot->wake, 1);
    ls_wait_wake(&slot->wake, LS_WAIT_PROCESSES);
  }
}

static ls_byte_t *data_of(const ls_segment_t *segment, int rank) {
  return segment->slot[rank]->data + (segment->round & 1) * segment->chunk_bytes;
}

static ls_segment_what_t *what_of(const ls_segment_t *segment, int rank) {
  return &segment->slot[rank]->what[segment->round & 1];
}

/* Begins a round: the buffer of this rank, to be filled before it arrives. */
static ls_byte_t *begin(ls_segment_t *segment, const ls_collective_t *c) {
  segment->round++;
  ls_segment_what_t *what = what_of(segment, segment->comm->rank);
  what->kind = (int32_t)c->kind;
  what->dtype = (int32_t)(c->kind == LS_BARRIER ? LS_U8 : c->dtype);
  what->count = c->kind == LS_BARRIER ? 0 : c->count;
  what->root = c->kind == LS_BROADCAST ? c->root : 0;
  memccpy(what->name, c->name ? c->name : "", '\0', sizeof what->name - 1); /* the last one stays 0 */
  return data_of(segment, segment->comm->rank);
}

static bool arrived(const ls_segment_t *segment, int rank) {
  return atomic_load(&segment->slot[rank]->arrived) >= segment->round;
}

/* Reports, and tells the others not to wait for this rank: they fail with the same status. */
static ls_status_t give_up(ls_segment_t *segment, const ls_collective_t *c, ls_status_t status,
                           const char *why) {
  char where[LS_COMM_WHERE_BYTES];
  ls_fail(segment->comm->ctx, status, "%s: %s", ls_comm_where(segment->comm, c, where), why);
  atomic_store(&segment->slot[segment->comm->rank]->failed, (uint32_t)-status);
  wake_sleepers(segment);
  return status;
}

/* Looks once at a rank. A rank that has left never reaches this round unless it already had, so its word is
 * read first and its counter after it. */
static ls_status_t look(ls_segment_t *segment, const ls_collective_t *c, int rank, bool *done) {
  char why[128];
  uint32_t left = atomic_load(&segment->slot[rank]->left);
  *done = arrived(segment, rank);
  if (*done) return LS_OK;
  if (left) {
    snprintf(why, sizeof why, "rank %d has left the communicator", rank);
    return give_up(segment, c, LS_ERR_COMM, why);
  }
  for (int r = 0; r < segment->comm->size; r++) {
    uint32_t failed = atomic_load(&segment->slot[r]->failed);
    if (!failed) continue;
    snprintf(why, sizeof why, "rank %d gave up while rank %d was missing here", r, rank);
    return give_up(segment, c, (ls_status_t) - (int)failed, why);
  }
  return LS_OK;
}

static ls_status_t time_out(ls_segment_t *segment, const ls_collective_t *c, int rank) {
  char why[128];
  snprintf(why, sizeof why, "rank %d did not arrive within %.3f s", rank,
           (double)segment->comm->deadline_ns * 1e-9);
  return give_up(segment, c, LS_ERR_TIMEOUT, why);
}

/* The long wait: sleeps until a peer announces something. */
static ls_status_t sleep_until(ls_segment_t *segment, const ls_collective_t *c, int rank,
                               int64_t deadline_ns) {
  int64_t looked_ns = 0;
  ls_segment_slot_t *own = segment->slot[segment->comm->rank];
  ls_status_t status;
  for (bool done;;) {
    uint32_t seen = atomic_load(&own->wake);
    atomic_store(&own->sleeping, 1);
    status = look(segment, c, rank, &done);
    if (status != LS_OK || done) break;
    int64_t now_ns = ls_clock_look(&looked_ns, &deadline_ns), left_ns = deadline_ns - now_ns;
    if (left_ns <= 0) {
      status = time_out(segment, c, rank);
      break;
    }
    ls_wait_sleep(&own->wake, seen, left_ns < SLEEP_NS_MAX ? left_ns : SLEEP_NS_MAX, LS_WAIT_PROCESSES);
  }
  atomic_store(&own->sleeping, 0);
  return status;
}

/* True if the rank arrived while we spun. */
static bool spin_until(const ls_segment_t *segment, int rank, int64_t until_ns) {
  do
    for (int i = 0; i < SPINS_PER_LOOK; i++) {
      if (arrived(segment, rank)) return true;
      ls_wait_pause();
    }
  while (ls_clock_ns() < until_ns);
  return false;
}

/* The fast path, if everybody is already there, reads no clock. */
static ls_status_t wait_all(ls_segment_t *segment, const ls_collective_t *c) {
  const ls_comm_t *comm = segment->comm;
  int64_t start_ns = 0;
  for (int i = 1; i < comm->size; i++) {
    int rank = (comm->rank + i) % comm->size; /* each rank begins at another peer */
    if (arrived(segment, rank)) continue;
    if (!start_ns) start_ns = ls_clock_ns();
    if (spin_until(segment, rank, start_ns + SPIN_NS)) continue;
    ls_status_t status = sleep_until(segment, c, rank, start_ns + comm->deadline_ns);
    if (status != LS_OK) return status;
  }
  return LS_OK;
}

/* All ranks compare with their own values, so every rank that disagrees with another finds out. */
static ls_status_t agree(ls_segment_t *segment, const ls_collective_t *c) {
  const ls_segment_what_t *own = what_of(segment, segment->comm->rank);
  for (int r = 0; r < segment->comm->size; r++) {
    const ls_segment_what_t *other = what_of(segment, r);
    if (other->kind == own->kind && other->dtype == own->dtype && other->count == own->count &&
        other->root == own->root)
      continue;
    char why[256];
    snprintf(
        why, sizeof why,
        "ranks do not issue the same collectives: count %lld of %s here, %s \"%s\" with count %lld of %s on "
        "rank %d",
        (long long)own->count, ls_dtype_name((ls_dtype_t)own->dtype),
        ls_collective_name((ls_collective_kind_t)other->kind), other->name, (long long)other->count,
        ls_dtype_name((ls_dtype_t)other->dtype), r);
    return give_up(segment, c, LS_ERR_COMM, why);
  }
  return LS_OK;
}

/* Announces what this rank gives, and waits for all. */
static ls_status_t arrive(ls_segment_t *segment, const ls_collective_t *c) {
  atomic_store(&segment->slot[segment->comm->rank]->arrived, segment->round);
  wake_sleepers(segment);
  ls_status_t status = wait_all(segment, c);
  return status == LS_OK ? agree(segment, c) : status;
}

static ls_status_t swap(ls_host_channel_t *channel, const ls_collective_t *c, int64_t spacing_bytes) {
  ls_segment_t *segment = channel->place;
  ls_host_block_t *block = channel->block;
  const int rank = channel->comm->rank, size = channel->comm->size, next = (rank + 1) % size;
  ls_byte_t *own = begin(segment, c);
  if (spacing_bytes == 0) ls_host_copy(own, block[next].give, block[next].give_bytes);
  for (int r = 0; spacing_bytes > 0 && r < size; r++)
    if (r != rank) ls_host_copy(own + r * spacing_bytes, block[r].give, block[r].give_bytes);
  ls_status_t status = arrive(segment, c);
  if (status != LS_OK) return status;
  for (int r = 0; r < size; r++) {
    ls_byte_t *from = data_of(segment, r) + rank * spacing_bytes;
    if (block[r].take && r != rank)
      ls_host_copy(block[r].take, from, block[r].take_bytes);
    else
      block[r].take = from;
  }
  return LS_OK;
}

/* All have arrived in this round, so all have left the one before, which used that buffer. */
static ls_byte_t *next_buffer(ls_host_channel_t *channel) {
  const ls_segment_t *segment = channel->place;
  return segment->slot[segment->comm->rank]->data + ((segment->round + 1) & 1) * segment->chunk_bytes;
}

static const ls_host_way_t way = {.execute = ls_host_rounds, .round = swap, .next = next_buffer};

void ls_segment_open(ls_segment_t *segment, ls_host_channel_t *channel, ls_segment_slot_t **slot,
                     size_t chunk_bytes) {
  *segment = (ls_segment_t){.comm = channel->comm, .slot = slot, .chunk_bytes = chunk_bytes};
  channel->way = &way;
  channel->place = segment;
  channel->chunk_bytes = (int64_t)chunk_bytes;
  channel->one_shot_bytes = ONE_SHOT_BYTES;
}

void ls_segment_leave(ls_segment_t *segment) {
  atomic_store(&segment->slot[segment->comm->rank]->left, 1);
  wake_sleepers(segment);
}
