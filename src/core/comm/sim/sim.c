/* N ranks as threads of one process, meeting in a segment on the heap: a simulated cluster for tests and
 * simulations. Each thread uses its own communicator; their shared memory lives until the last one is
 * destroyed. */
#include "comm/segment.h"

#include <stdatomic.h>

/* Many ranks simulate a cluster; few ranks simulate one machine and use its chunk size. */
enum { SIM_RANKS_MAX = 1024, SIM_MACHINE_MAX = 16, SIM_CHUNK_BYTES = 64 * 1024 };

typedef struct {
  atomic_int users;
  void *memory;             /* slots: (channel, rank) */
  ls_segment_slot_t **slot; /* (channel, rank) */
} world_t;

typedef struct {
  ls_host_comm_t host;
  world_t *world;
  ls_segment_t segment[LS_CHANNEL_COUNT];
} sim_t;

static void world_release(world_t *world) {
  if (atomic_fetch_sub(&world->users, 1) > 1) return;
  ls_free(world->slot);
  ls_free(world->memory);
  ls_free(world);
}

static void sim_free(sim_t *sim) {
  ls_host_release(&sim->host);
  ls_free(sim);
}

static void destroy(ls_comm_t *comm) {
  sim_t *sim = (sim_t *)comm;
  world_t *world = sim->world;
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    ls_segment_leave(&sim->segment[i]);
  sim_free(sim);
  world_release(world);
}

static ls_status_t split(ls_comm_t *comm, const ls_split_t *how, ls_comm_t **sub);

static const ls_comm_ops_t ops = {.name = "sim", LS_HOST_OPS, .split = split, .destroy = destroy};

static size_t chunk_bytes(int channel, int size) {
  return size <= SIM_MACHINE_MAX ? ls_segment_chunk_bytes[channel] : SIM_CHUNK_BYTES;
}

/* Makes a world for so many users: the ranks, each of which has to release it. */
static ls_status_t world_create(ls_ctx_t *ctx, int size, world_t **out) {
  const size_t slots = (size_t)size * LS_CHANNEL_COUNT;
  size_t bytes = 0, offset = 0;
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    bytes += (size_t)size * ls_segment_slot_bytes(chunk_bytes(i, size));
  world_t *world = ls_alloc(ctx, sizeof *world);
  if (!world) return LS_ERR_MEMORY;
  atomic_init(&world->users, size);
  world->memory = ls_alloc_aligned(ctx, 64, bytes);
  world->slot = world->memory ? ls_alloc_array(ctx, slots, sizeof *world->slot) : NULL;
  if (!world->slot) {
    ls_free(world->memory);
    ls_free(world);
    return LS_ERR_MEMORY;
  }
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    for (int r = 0; r < size; r++, offset += ls_segment_slot_bytes(chunk_bytes(i, size)))
      world->slot[i * size + r] = (ls_segment_slot_t *)(void *)((unsigned char *)world->memory + offset);
  *out = world;
  return LS_OK;
}

/* Takes over a rank's use of the world, even if it fails. */
static sim_t *rank_create(ls_ctx_t *ctx, world_t *world, int rank, int size, int64_t deadline_ns) {
  sim_t *sim = ls_alloc(ctx, sizeof *sim);
  if (!sim) {
    world_release(world);
    return NULL;
  }
  if (ls_host_init(&sim->host, &ops, ctx, rank, size, deadline_ns) != LS_OK) {
    sim_free(sim);
    world_release(world);
    return NULL;
  }
  sim->world = world;
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    ls_segment_open(&sim->segment[i], &sim->host.channel[i], world->slot + i * size, chunk_bytes(i, size));
  return sim;
}

ls_status_t ls_comm_sim_create(ls_ctx_t *ctx, int size, int64_t deadline_ns, ls_comm_t **comms) {
  if (size < 1 || size > SIM_RANKS_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "a sim communicator has 1 to %d ranks, not %d", SIM_RANKS_MAX, size);
  world_t *world;
  ls_comm_t **made = ls_alloc_array(ctx, (size_t)size, sizeof *made);
  if (!made) return LS_ERR_MEMORY;
  ls_status_t status = world_create(ctx, size, &world);
  if (status != LS_OK) goto free_made;
  for (int r = 0; r < size; r++) {
    sim_t *sim = rank_create(ctx, world, r, size, deadline_ns);
    if (sim)
      made[r] = &sim->host.base;
    else
      status = LS_ERR_MEMORY;
  }
  for (int r = 0; r < size; r++)
    if (status == LS_OK)
      comms[r] = made[r];
    else
      ls_comm_destroy(made[r]);
free_made:
  ls_free(made);
  return status;
}

/* The first member makes the group's world and tells the others where it is. */
static ls_status_t split(ls_comm_t *comm, const ls_split_t *how, ls_comm_t **sub) {
  world_t *world = NULL;
  uintptr_t *at = ls_alloc_array(comm->ctx, (size_t)comm->size, sizeof *at);
  ls_status_t status = ls_comm_agree(comm, how->name, at ? LS_OK : LS_ERR_MEMORY);
  if (status == LS_OK) {
    if (how->size && how->rank == 0) (void)world_create(comm->ctx, how->size, &world);
    status = ls_comm_gather(comm, how->name, &world, sizeof world, at);
  }
  if (status == LS_OK && how->size) {
    world = (world_t *)at[how->member[0]];
    sim_t *sim = world ? rank_create(comm->ctx, world, how->rank, how->size, comm->deadline_ns) : NULL;
    if (sim)
      *sub = &sim->host.base;
    else
      status = LS_ERR_MEMORY;
  }
  ls_free(at);
  return status;
}
