/* Small collectives over any transport's run(), and destroy. */
#include "comm/comm.h"

void ls_comm_destroy(ls_comm_t *comm) {
  if (comm) comm->ops->destroy(comm);
}

ls_status_t ls_comm_sum_f64(ls_comm_t *comm, const char *name, double *values, int64_t count) {
  const ls_collective_t c = {
      .kind = LS_ALL_REDUCE, .name = name, .send = values, .recv = values, .count = count, .dtype = LS_F64};
  return comm->ops->run(comm, &c);
}

ls_status_t ls_comm_broadcast(ls_comm_t *comm, const char *name, void *bytes, int64_t size_bytes, int root) {
  const ls_collective_t c = {.kind = LS_BROADCAST,
                             .name = name,
                             .send = bytes,
                             .recv = bytes,
                             .count = size_bytes,
                             .dtype = LS_U8,
                             .root = root};
  return comm->ops->run(comm, &c);
}

ls_status_t ls_comm_barrier(ls_comm_t *comm, const char *name) {
  const ls_collective_t c = {.kind = LS_BARRIER, .name = name, .dtype = LS_U8};
  return comm->ops->run(comm, &c);
}

ls_status_t ls_comm_agree(ls_comm_t *comm, const char *name, ls_status_t own) {
  double failed[2] = {own != LS_OK, own != LS_OK ? comm->rank : 0}; /* how many, sum of their ranks */
  ls_status_t status = ls_comm_sum_f64(comm, name, failed, 2);
  if (own != LS_OK) return own;
  if (status != LS_OK || failed[0] == 0) return status;
  if (failed[0] == 1) return ls_fail(comm->ctx, LS_ERR_COMM, "%s: rank %d has failed", name, (int)failed[1]);
  return ls_fail(comm->ctx, LS_ERR_COMM, "%s: %d of %d ranks have failed", name, (int)failed[0], comm->size);
}
