/* Names and sizes of the collectives: facts that messages, traces and the price of a schedule share. */
#include "comm/comm.h"

static const char *const names[] = {
    [LS_ALL_REDUCE] = "all-reduce", [LS_REDUCE_SCATTER] = "reduce-scatter",
    [LS_ALL_GATHER] = "all-gather", [LS_BROADCAST] = "broadcast",
    [LS_BARRIER] = "barrier",
};
_Static_assert(LS_COUNT(names) == LS_COLLECTIVE_COUNT, "every collective has a name");

const char *ls_collective_name(ls_collective_kind_t kind) {
  return (int)kind >= 0 && kind < LS_COLLECTIVE_COUNT ? names[kind] : "unknown collective";
}

/* Factors of nccl-tests, doc/PERFORMANCE.md: all-reduce 2 (n - 1) / n of its buffer; reduce-scatter and
 * all-gather (n - 1) / n of the large buffer, which has n * count elements; broadcast 1. */
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
    return bytes;
  case LS_BARRIER:
  case LS_COLLECTIVE_COUNT:
    break;
  }
  return 0;
}
