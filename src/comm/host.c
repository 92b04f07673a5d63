/* What the host transports share: arguments are checked before anybody waits, a broken communicator answers
 * at once, and a collective on a stream is one stream call. */
#include "comm/host.h"

#include <inttypes.h>
#include <stdio.h>

void ls_host_init(ls_host_comm_t *host, const ls_comm_ops_t *ops, ls_ctx_t *ctx, int rank, int size,
                  int64_t deadline_ns, ls_host_execute_fn execute) {
  ls_comm_t *comm = &host->base;
  comm->ops = ops;
  comm->ctx = ctx;
  comm->rank = comm->local_rank = rank;
  comm->size = comm->local_size = size;
  comm->deadline_ns = deadline_ns > 0 ? deadline_ns : LS_COMM_DEADLINE_S * INT64_C(1000000000);
  host->execute = execute;
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    pthread_mutex_init(&host->lock[i], NULL);
}

void ls_host_release(ls_host_comm_t *host) {
  for (int i = 0; i < LS_HOST_CALL_BUCKETS; i++)
    for (ls_host_call_t *call = host->call[i], *next; call; call = next) {
      next = call->next;
      ls_free(call);
    }
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    pthread_mutex_destroy(&host->lock[i]);
}

const char *ls_host_where(const ls_comm_t *comm, const ls_collective_t *c, char buf[LS_HOST_WHERE_BYTES]) {
  snprintf(buf, LS_HOST_WHERE_BYTES, "rank %d of %d, step %" PRId64 ", %s \"%.96s\"", comm->rank, comm->size,
           (int64_t)comm->step, ls_collective_name(c->kind), c->name ? c->name : "");
  return buf;
}

static ls_status_t refuse(ls_comm_t *comm, const ls_collective_t *c, const char *why) {
  char where[LS_HOST_WHERE_BYTES];
  return ls_fail(comm->ctx, LS_ERR_ARGUMENT, "%s: %s", ls_host_where(comm, c, where), why);
}

static ls_status_t check(ls_comm_t *comm, const ls_collective_t *c) {
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
  bool sends = c->kind != LS_BROADCAST || c->root == comm->rank;
  if (c->count > 0 && (!c->recv || (sends && !c->send))) return refuse(comm, c, "a buffer is missing");
  return LS_OK;
}

static ls_status_t execute(ls_host_comm_t *host, ls_channel_t channel, const ls_collective_t *c) {
  if (host->base.broken) return LS_ERR_COMM;
  pthread_mutex_lock(&host->lock[channel]);
  ls_status_t status = host->execute(host, channel, c);
  if (status != LS_OK) host->base.broken = true;
  pthread_mutex_unlock(&host->lock[channel]);
  return status;
}

ls_status_t ls_host_run(ls_comm_t *comm, const ls_collective_t *c) {
  if (comm->broken) return LS_ERR_COMM;
  ls_status_t status = check(comm, c);
  return status == LS_OK ? execute((ls_host_comm_t *)comm, LS_CHANNEL_CONTROL, c) : status;
}

ls_status_t ls_host_poll(ls_comm_t *comm) {
  return comm->broken ? LS_ERR_COMM : LS_OK;
}

static ls_status_t on_stream(void *arg) {
  const ls_host_call_t *call = arg;
  return execute(call->host, LS_CHANNEL_STREAM, call->c);
}

/* The record of a collective; made on first sight, so that a step that repeats allocates nothing. It holds
 * addresses only: it stays right when a caller reuses the memory for another collective. */
static ls_host_call_t *call_of(ls_host_comm_t *host, const ls_collective_t *c) {
  ls_host_call_t **bucket = &host->call[((uintptr_t)c / sizeof *c) % LS_HOST_CALL_BUCKETS];
  for (ls_host_call_t *call = *bucket; call; call = call->next)
    if (call->c == c) return call;
  ls_host_call_t *call = ls_alloc(host->base.ctx, sizeof *call);
  if (!call) return NULL;
  *call = (ls_host_call_t){.host = host, .c = c, .next = *bucket};
  *bucket = call;
  return call;
}

ls_status_t ls_host_enqueue(ls_comm_t *comm, ls_stream_t *stream, const ls_collective_t *c) {
  if (comm->broken) return LS_ERR_COMM;
  ls_status_t status = check(comm, c);
  if (status != LS_OK) return status;
  ls_host_call_t *call = call_of((ls_host_comm_t *)comm, c);
  if (!call) return LS_ERR_MEMORY;
  return stream->device->backend->stream->call(stream, on_stream, call);
}
