/* Names, sizes and rules of the collectives, shared by transports, messages, traces and the pricing of a
 * schedule. */
#include "comm/comm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    [LS_ALL_REDUCE] = "all-reduce",
    [LS_REDUCE_SCATTER] = "reduce-scatter",
    [LS_ALL_GATHER] = "all-gather",
    [LS_BROADCAST] = "broadcast",
    [LS_SEND] = "send",
    [LS_RECV] = "receive",
    [LS_BARRIER] = "barrier",
};
_Static_assert(LS_COUNT(names) == LS_COLLECTIVE_COUNT, "every collective has a name");

const char *ls_collective_name(ls_collective_kind_t kind) {
  return (int)kind >= 0 && kind < LS_COLLECTIVE_COUNT ? names[kind] : "unknown collective";
}

int64_t ls_collective_bytes(const ls_collective_t *c) {
  return c->count * (int64_t)ls_dtype_bytes(c->dtype);
}

/* Factors of nccl-tests, doc/PERFORMANCE.md: all-reduce 2 (n - 1) / n of its buffer; reduce-scatter and
 * all-gather (n - 1) / n of the large buffer, which has n * count elements; broadcast and messages 1. */
int64_t ls_collective_bus_bytes(ls_collective_kind_t kind, int64_t count, ls_dtype_t dtype, int size) {
  if (size <= 1 || count <= 0) return 0;
  int64_t bytes = count * (int64_t)ls_dtype_bytes(dtype);
  switch (kind) {
  case LS_ALL_REDUCE:
    return (int64_t)(2.0 * (double)bytes * (size - 1) / size);
  case LS_REDUCE_SCATTER:
  case LS_ALL_GATHER:
    return bytes * (size - 1);
  case LS_BROADCAST:
  case LS_SEND:
  case LS_RECV:
    return bytes;
  case LS_BARRIER:
  case LS_COLLECTIVE_COUNT:
    break;
  }
  return 0;
}

const char *ls_comm_place(const ls_comm_t *comm, char buf[LS_COMM_WHERE_BYTES]) {
  const char *of = comm->group[0] ? " of group \"" : "", *end = comm->group[0] ? "\"" : "";
  snprintf(buf, LS_COMM_WHERE_BYTES, "rank %d of %d%s%s%s, step %" PRId64, comm->rank, comm->size, of,
           comm->group, end, (int64_t)comm->step);
  return buf;
}

const char *ls_comm_where(const ls_comm_t *comm, const ls_collective_t *c, char buf[LS_COMM_WHERE_BYTES]) {
  size_t used = strlen(ls_comm_place(comm, buf));
  snprintf(buf + used, LS_COMM_WHERE_BYTES - used, ", %s \"%.96s\"", ls_collective_name(c->kind),
           c->name ? c->name : "");
  return buf;
}

static ls_status_t refuse(const ls_comm_t *comm, const ls_collective_t *c, const char *why) {
  char where[LS_COMM_WHERE_BYTES];
  return ls_fail(comm->ctx, LS_ERR_ARGUMENT, "%s: %s", ls_comm_where(comm, c, where), why);
}

ls_status_t ls_collective_check(const ls_comm_t *comm, const ls_collective_t *c) {
  if ((int)c->kind < 0 || c->kind >= LS_COLLECTIVE_COUNT) return refuse(comm, c, "no such collective");
  if (c->kind == LS_BARRIER) return LS_OK;
  if (c->count < 0) return refuse(comm, c, "the count is negative");
  if ((int)c->dtype < 0 || c->dtype >= LS_DTYPE_COUNT) return refuse(comm, c, "no such dtype");
  bool sums = c->kind == LS_ALL_REDUCE || c->kind == LS_REDUCE_SCATTER;
  if (sums && !ls_dtype_row(c->dtype)->sums) {
    char why[48];
    snprintf(why, sizeof why, "%s cannot be summed", ls_dtype_name(c->dtype));
    return refuse(comm, c, why);
  }
  if (c->kind == LS_BROADCAST && (c->root < 0 || c->root >= comm->size))
    return refuse(comm, c, "the root is not a rank");
  int64_t total;
  if (__builtin_mul_overflow(c->count, (int64_t)ls_dtype_bytes(c->dtype), &total) ||
      __builtin_mul_overflow(total, (int64_t)comm->size, &total))
    return refuse(comm, c, "the count is too large");
  bool message = c->kind == LS_SEND || c->kind == LS_RECV;
  if (message && comm->size != 2) return refuse(comm, c, "a message needs a group of two ranks");
  bool sends = c->kind != LS_RECV && (c->kind != LS_BROADCAST || c->root == comm->rank);
  bool receives = c->kind != LS_SEND;
  if (c->count > 0 && ((receives && !c->recv) || (sends && !c->send)))
    return refuse(comm, c, "a buffer is missing");
  return LS_OK;
}

ls_status_t ls_comm_bind(ls_comm_t *comm, ls_collective_t *c) {
  ls_status_t status = ls_collective_check(comm, c);
  if (status != LS_OK) return status;
  c->comm = comm;
  c->number = 0;
  if (comm->ops->bind) status = comm->ops->bind(comm, c);
  if (status != LS_OK) c->comm = NULL;
  return status;
}
