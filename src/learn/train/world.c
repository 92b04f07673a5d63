/* The world: this process alone, or all ranks, with one communicator. */
#include "train/trainer.h"

enum { DEADLINE_S_MAX = 1000000000 };

ls_status_t ls_world_open(ls_ctx_t *ctx, double deadline_s, ls_world_t **out) {
  ls_world_t *world = ls_alloc(ctx, sizeof *world);
  if (!world) return LS_ERR_MEMORY;
  double seconds = deadline_s > 0 ? deadline_s : LS_COMM_DEADLINE_S;
  int64_t deadline_ns =
      seconds < DEADLINE_S_MAX ? (int64_t)(seconds * 1e9) : DEADLINE_S_MAX * INT64_C(1000000000);
  ls_status_t status = ls_comm_world_create(ctx, deadline_ns, &world->comm);
  if (status != LS_OK) {
    ls_free(world);
    return status;
  }
  world->comm->deadline_ns = deadline_ns;
  ls_ctx_set_rank(ctx, world->comm->rank, world->comm->size);
  *out = world;
  return LS_OK;
}

void ls_world_close(ls_world_t *world) {
  if (!world) return;
  ls_comm_destroy(world->comm);
  ls_free(world);
}

int ls_world_rank(const ls_world_t *world) {
  return world->comm->rank;
}
int ls_world_size(const ls_world_t *world) {
  return world->comm->size;
}

void ls_world_abort(ls_world_t *world, int exit_code) {
  ls_comm_abort(world->comm, exit_code);
}
