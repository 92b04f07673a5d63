/* The collectives as rounds in a shared region. Every sum is made once or by the same additions everywhere,
 * in rank order: all ranks get the same bits, and the same bits in every run.
 *
 * All-reduce has two forms with equal results. One-shot, for small messages: everybody writes its input,
 * meets once, and adds everything up itself. Two-shot: rank r adds up part r and meets a second time to hand
 * it out; it moves 1/n of the additions and needs the second meeting. */
#include "comm/region.h"

enum { ONE_SHOT_BYTES = 16 * 1024, LINE_BYTES = 64 };

static ls_status_t one_shot(ls_region_t *region, const ls_collective_t *c, const ls_byte_t *send,
                            ls_byte_t *recv, int64_t count) {
  const ls_comm_t *comm = region->comm;
  ls_host_copy(ls_region_begin(region, c), send, count * (int64_t)ls_dtype_bytes(c->dtype));
  ls_status_t status = ls_region_arrive(region, c);
  if (status != LS_OK) return status;
  for (int r = 0; r < comm->size; r++)
    region->part[r] = ls_region_data(region, r);
  ls_comm_sum(c->dtype, recv, NULL, region->part, comm->size, count);
  return LS_OK;
}

/* Part r of `count` elements, in whole cache lines: [*first, *first + *n). */
static void part_of(int64_t count, int64_t bytes, int size, int r, int64_t *first, int64_t *n) {
  int64_t line = LINE_BYTES / bytes;
  int64_t part = ((count + size - 1) / size + line - 1) / line * line;
  *first = ls_host_min(part * r, count);
  *n = ls_host_min(part, count - *first);
}

/* The own part never enters the region as input: its place in the own buffer receives the result. */
static ls_status_t two_shot(ls_region_t *region, const ls_collective_t *c, const ls_byte_t *send,
                            ls_byte_t *recv, int64_t count) {
  const ls_comm_t *comm = region->comm;
  const int64_t bytes = (int64_t)ls_dtype_bytes(c->dtype);
  int64_t first, n;
  part_of(count, bytes, comm->size, comm->rank, &first, &n);
  ls_byte_t *own = ls_region_begin(region, c);
  ls_host_copy(own, send, first * bytes);
  ls_host_copy(own + (first + n) * bytes, send + (first + n) * bytes, (count - first - n) * bytes);
  ls_status_t status = ls_region_arrive(region, c);
  if (status != LS_OK) return status;
  for (int r = 0; r < comm->size; r++)
    region->part[r] = (r == comm->rank ? send : ls_region_data(region, r)) + first * bytes;
  ls_comm_sum(c->dtype, recv + first * bytes, own + first * bytes, region->part, comm->size, n);
  status = ls_region_combine(region, c);
  if (status != LS_OK) return status;
  for (int r = 0; r < comm->size; r++) {
    if (r == comm->rank) continue;
    part_of(count, bytes, comm->size, r, &first, &n);
    ls_host_copy(recv + first * bytes, ls_region_data(region, r) + first * bytes, n * bytes);
  }
  return LS_OK;
}

static ls_status_t all_reduce(ls_region_t *region, const ls_collective_t *c) {
  const int64_t bytes = (int64_t)ls_dtype_bytes(c->dtype), chunk = (int64_t)region->chunk_bytes / bytes;
  int64_t done = 0;
  do {
    int64_t n = ls_host_min(chunk, c->count - done);
    const ls_byte_t *send = (const ls_byte_t *)c->send + done * bytes;
    ls_byte_t *recv = (ls_byte_t *)c->recv + done * bytes;
    ls_status_t status =
        n * bytes <= ONE_SHOT_BYTES ? one_shot(region, c, send, recv, n) : two_shot(region, c, send, recv, n);
    if (status != LS_OK) return status;
    done += n;
  } while (done < c->count);
  return LS_OK;
}

static ls_status_t reduce_scatter(ls_region_t *region, const ls_collective_t *c) {
  const ls_comm_t *comm = region->comm;
  const int64_t bytes = (int64_t)ls_dtype_bytes(c->dtype);
  const int64_t chunk = (int64_t)region->chunk_bytes / bytes / comm->size;
  int64_t done = 0;
  do {
    int64_t n = ls_host_min(chunk, c->count - done);
    ls_byte_t *own = ls_region_begin(region, c);
    for (int r = 0; r < comm->size; r++)
      if (r != comm->rank)
        ls_host_copy(own + r * n * bytes, (const ls_byte_t *)c->send + (r * c->count + done) * bytes,
                     n * bytes);
    ls_status_t status = ls_region_arrive(region, c);
    if (status != LS_OK) return status;
    for (int r = 0; r < comm->size; r++)
      region->part[r] = r == comm->rank ? (const ls_byte_t *)c->send + (r * c->count + done) * bytes
                                        : ls_region_data(region, r) + comm->rank * n * bytes;
    ls_comm_sum(c->dtype, (ls_byte_t *)c->recv + done * bytes, NULL, region->part, comm->size, n);
    done += n;
  } while (done < c->count);
  return LS_OK;
}

static ls_status_t all_gather(ls_region_t *region, const ls_collective_t *c) {
  const ls_comm_t *comm = region->comm;
  const int64_t total = c->count * (int64_t)ls_dtype_bytes(c->dtype);
  int64_t done = 0;
  ls_host_copy((ls_byte_t *)c->recv + comm->rank * total, c->send, total);
  do {
    int64_t n = ls_host_min((int64_t)region->chunk_bytes, total - done);
    ls_host_copy(ls_region_begin(region, c), (ls_byte_t *)c->recv + comm->rank * total + done, n);
    ls_status_t status = ls_region_arrive(region, c);
    if (status != LS_OK) return status;
    for (int r = 0; r < comm->size; r++)
      if (r != comm->rank)
        ls_host_copy((ls_byte_t *)c->recv + r * total + done, ls_region_data(region, r), n);
    done += n;
  } while (done < total);
  return LS_OK;
}

static ls_status_t broadcast(ls_region_t *region, const ls_collective_t *c) {
  const bool root = region->comm->rank == c->root;
  const int64_t total = c->count * (int64_t)ls_dtype_bytes(c->dtype);
  int64_t done = 0;
  if (root) ls_host_copy(c->recv, c->send, total);
  do {
    int64_t n = ls_host_min((int64_t)region->chunk_bytes, total - done);
    ls_byte_t *own = ls_region_begin(region, c);
    if (root) ls_host_copy(own, (const ls_byte_t *)c->recv + done, n);
    ls_status_t status = ls_region_arrive(region, c);
    if (status != LS_OK) return status;
    if (!root) ls_host_copy((ls_byte_t *)c->recv + done, ls_region_data(region, c->root), n);
    done += n;
  } while (done < total);
  return LS_OK;
}

static ls_status_t barrier(ls_region_t *region, const ls_collective_t *c) {
  ls_region_begin(region, c);
  return ls_region_arrive(region, c);
}

ls_status_t ls_region_execute(ls_region_t *region, const ls_collective_t *c) {
  switch (c->kind) {
  case LS_ALL_REDUCE:
    return all_reduce(region, c);
  case LS_REDUCE_SCATTER:
    return reduce_scatter(region, c);
  case LS_ALL_GATHER:
    return all_gather(region, c);
  case LS_BROADCAST:
    return broadcast(region, c);
  case LS_BARRIER:
    return barrier(region, c);
  case LS_SEND:
  case LS_RECV: /* host.c has made broadcasts of them */
  case LS_COLLECTIVE_COUNT:
    break;
  }
  return LS_ERR_INTERNAL;
}
