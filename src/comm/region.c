/* Meeting in a shared region: announcing, waiting, giving up. region.h explains why the rounds are safe. */
#include "comm/region.h"

#include "base/wait.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
  SPIN_NS = 5000,           /* spin this long first: a peer on another core at the same place arrives
                             * sooner than a sleep takes */
  SPINS_PER_LOOK = 16,      /* between looks at the clock */
  SLEEP_NS_MAX = 100000000, /* limit of one sleep: nobody depends on being woken */
};

const size_t ls_region_chunk_bytes[LS_CHANNEL_COUNT] = {
    [LS_CHANNEL_CONTROL] = 64 * 1024, [LS_CHANNEL_STREAM] = 512 * 1024};

/* Counts two buffers of each slot: all of the own one, which is zeroed at the beginning, and in the others'
 * the part that is added up here and the result. */
int64_t ls_comm_shared_bytes(int size, int64_t largest_bytes) {
  const int64_t chunk = (int64_t)ls_region_chunk_bytes[LS_CHANNEL_STREAM];
  int64_t bytes = largest_bytes < chunk ? largest_bytes : chunk;
  return size > 1 ? 2 * (chunk + 2 * bytes * (size - 1) / size) : 0;
}

size_t ls_region_slot_bytes(size_t chunk_bytes) {
  return sizeof(ls_region_slot_t) + 2 * chunk_bytes;
}

/* A sleeper announces itself before its last look at our counter, and we look at `sleeping` after writing the
 * counter (both sequentially consistent), so one of the two sees the other. */
static void wake_sleepers(ls_region_t *region) {
  for (int r = 0; r < region->comm->size; r++) {
    ls_region_slot_t *slot = region->slot[r];
    if (r == region->comm->rank || !atomic_load(&slot->sleeping)) continue;
    atomic_fetch_add(&slot->wake, 1);
    ls_wait_wake(&slot->wake, LS_WAIT_PROCESSES);
  }
}

unsigned char *ls_region_data(const ls_region_t *region, int rank) {
  return region->slot[rank]->data + (region->round & 1) * region->chunk_bytes;
}

static ls_region_what_t *what_of(const ls_region_t *region, int rank) {
  return &region->slot[rank]->what[region->round & 1];
}

unsigned char *ls_region_begin(ls_region_t *region, const ls_collective_t *c) {
  region->round++;
  ls_region_what_t *what = what_of(region, region->comm->rank);
  what->kind = (int32_t)c->kind;
  what->dtype = (int32_t)(c->kind == LS_BARRIER ? LS_U8 : c->dtype);
  what->count = c->kind == LS_BARRIER ? 0 : c->count;
  what->root = c->kind == LS_BROADCAST ? c->root : 0;
  snprintf(what->name, sizeof what->name, "%s", c->name ? c->name : "");
  return ls_region_data(region, region->comm->rank);
}

typedef enum { ARRIVED, COMBINED } phase_t;

static bool reached(const ls_region_t *region, int rank, phase_t phase) {
  ls_region_slot_t *slot = region->slot[rank];
  return atomic_load(phase == ARRIVED ? &slot->arrived : &slot->combined) >= region->round;
}

/* Reports, and tells the others not to wait for this rank: they fail with the same status. */
static ls_status_t give_up(ls_region_t *region, const ls_collective_t *c, ls_status_t status,
                           const char *why) {
  char where[LS_COMM_WHERE_BYTES];
  ls_fail(region->comm->ctx, status, "%s: %s", ls_comm_where(region->comm, c, where), why);
  atomic_store(&region->slot[region->comm->rank]->failed, (uint32_t)-status);
  wake_sleepers(region);
  return status;
}

/* Looks once at a rank. A rank that has left never reaches this round unless it already had, so its word is
 * read first and its counter after it. */
static ls_status_t look(ls_region_t *region, const ls_collective_t *c, int rank, phase_t phase, bool *done) {
  char why[128];
  uint32_t left = atomic_load(&region->slot[rank]->left);
  *done = reached(region, rank, phase);
  if (*done) return LS_OK;
  if (left) {
    snprintf(why, sizeof why, "rank %d has left the communicator", rank);
    return give_up(region, c, LS_ERR_COMM, why);
  }
  for (int r = 0; r < region->comm->size; r++) {
    uint32_t failed = atomic_load(&region->slot[r]->failed);
    if (!failed) continue;
    snprintf(why, sizeof why, "rank %d gave up while rank %d was missing here", r, rank);
    return give_up(region, c, (ls_status_t) - (int)failed, why);
  }
  return LS_OK;
}

static ls_status_t time_out(ls_region_t *region, const ls_collective_t *c, int rank) {
  char why[128];
  snprintf(why, sizeof why, "rank %d did not arrive within %.3f s", rank,
           (double)region->comm->deadline_ns * 1e-9);
  return give_up(region, c, LS_ERR_TIMEOUT, why);
}

/* The long wait: sleeps until a peer announces something. */
static ls_status_t sleep_until(ls_region_t *region, const ls_collective_t *c, int rank, phase_t phase,
                               int64_t deadline_ns) {
  int64_t looked_ns = 0;
  ls_region_slot_t *own = region->slot[region->comm->rank];
  ls_status_t status;
  for (bool done;;) {
    uint32_t seen = atomic_load(&own->wake);
    atomic_store(&own->sleeping, 1);
    status = look(region, c, rank, phase, &done);
    if (status != LS_OK || done) break;
    int64_t now_ns = ls_clock_look(&looked_ns, &deadline_ns), left_ns = deadline_ns - now_ns;
    if (left_ns <= 0) {
      status = time_out(region, c, rank);
      break;
    }
    ls_wait_sleep(&own->wake, seen, left_ns < SLEEP_NS_MAX ? left_ns : SLEEP_NS_MAX, LS_WAIT_PROCESSES);
  }
  atomic_store(&own->sleeping, 0);
  return status;
}

/* True if the rank arrived while we spun. */
static bool spin_until(const ls_region_t *region, int rank, phase_t phase, int64_t until_ns) {
  do
    for (int i = 0; i < SPINS_PER_LOOK; i++) {
      if (reached(region, rank, phase)) return true;
      ls_wait_pause();
    }
  while (ls_clock_ns() < until_ns);
  return false;
}

/* The fast path, if everybody is already there, reads no clock. */
static ls_status_t wait_all(ls_region_t *region, const ls_collective_t *c, phase_t phase) {
  const ls_comm_t *comm = region->comm;
  int64_t start_ns = 0;
  for (int i = 1; i < comm->size; i++) {
    int rank = (comm->rank + i) % comm->size; /* each rank begins at another peer */
    if (reached(region, rank, phase)) continue;
    if (!start_ns) start_ns = ls_clock_ns();
    if (spin_until(region, rank, phase, start_ns + SPIN_NS)) continue;
    ls_status_t status = sleep_until(region, c, rank, phase, start_ns + comm->deadline_ns);
    if (status != LS_OK) return status;
  }
  return LS_OK;
}

static ls_status_t announce(ls_region_t *region, const ls_collective_t *c, phase_t phase) {
  ls_region_slot_t *own = region->slot[region->comm->rank];
  atomic_store(phase == ARRIVED ? &own->arrived : &own->combined, region->round);
  wake_sleepers(region);
  return wait_all(region, c, phase);
}

/* All ranks compare with their own values, so every rank that disagrees with another finds out. */
static ls_status_t agree(ls_region_t *region, const ls_collective_t *c) {
  const ls_region_what_t *own = what_of(region, region->comm->rank);
  for (int r = 0; r < region->comm->size; r++) {
    const ls_region_what_t *other = what_of(region, r);
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
    return give_up(region, c, LS_ERR_COMM, why);
  }
  return LS_OK;
}

ls_status_t ls_region_arrive(ls_region_t *region, const ls_collective_t *c) {
  ls_status_t status = announce(region, c, ARRIVED);
  return status == LS_OK ? agree(region, c) : status;
}

ls_status_t ls_region_combine(ls_region_t *region, const ls_collective_t *c) {
  return announce(region, c, COMBINED);
}

void ls_region_leave(ls_region_t *region) {
  atomic_store(&region->slot[region->comm->rank]->left, 1);
  wake_sleepers(region);
}
