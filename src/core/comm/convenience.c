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

ls_status_t ls_comm_gather(ls_comm_t *comm, const char *name, const void *own, int64_t size_bytes,
                           void *all) {
  const ls_collective_t c = {
      .kind = LS_ALL_GATHER, .name = name, .send = own, .recv = all, .count = size_bytes, .dtype = LS_U8};
  return comm->ops->run(comm, &c);
}

ls_status_t ls_comm_barrier(ls_comm_t *comm, const char *name) {
  const ls_collective_t c = {.kind = LS_BARRIER, .name = name, .dtype = LS_U8};
  return comm->ops->run(comm, &c);
}

static ls_status_t agree(ls_comm_t *comm, const char *name, ls_status_t own, bool says) {
  enum { COUNT, RANKS, CODES, SQUARES, SUMS }; /* sums over the failed ranks, all of whole numbers */
  double code = own, failed[SUMS] = {0};
  if (own != LS_OK) {
    failed[COUNT] = 1;
    failed[RANKS] = comm->rank;
    failed[CODES] = code;
    failed[SQUARES] = code * code;
  }
  ls_status_t status = ls_comm_sum_f64(comm, name, failed, SUMS);
  if (own != LS_OK) return own;
  if (status != LS_OK || failed[COUNT] == 0) return status;
  bool same = failed[COUNT] * failed[SQUARES] == failed[CODES] * failed[CODES]; /* no variance */
  status = same ? (ls_status_t)(failed[CODES] / failed[COUNT]) : LS_ERR_COMM;
  if (!says) return status;
  if (failed[COUNT] == 1)
    return ls_fail(comm->ctx, status, "%s: rank %d has failed", name, (int)failed[RANKS]);
  return ls_fail(comm->ctx, status, "%s: %d of %d ranks have failed", name, (int)failed[COUNT], comm->size);
}

ls_status_t ls_comm_agree(ls_comm_t *comm, const char *name, ls_status_t own) {
  return agree(comm, name, own, true);
}

ls_status_t ls_comm_agree_silently(ls_comm_t *comm, const char *name, ls_status_t own) {
  return agree(comm, name, own, false);
}
