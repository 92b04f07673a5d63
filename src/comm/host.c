/* Shared by the host transports: arguments are checked before anybody waits, a broken communicator answers at
 * once, and a collective on a stream is one stream call. */
#include "comm/host.h"

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
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    pthread_mutex_destroy(&host->lock[i]);
}

/* Between two ranks a message is a broadcast whose root reads only `recv`. */
static ls_collective_t message(const ls_comm_t *comm, const ls_collective_t *c) {
  ls_collective_t b = *c;
  b.kind = LS_BROADCAST;
  b.root = c->kind == LS_SEND ? comm->rank : 1 - comm->rank;
  if (c->kind == LS_SEND) b.recv = (void *)(uintptr_t)c->send;
  return b;
}

static ls_status_t execute(ls_host_comm_t *host, ls_channel_t channel, const ls_collective_t *c) {
  if (host->base.broken) return LS_ERR_COMM;
  ls_collective_t as_broadcast;
  if (c->kind == LS_SEND || c->kind == LS_RECV) {
    as_broadcast = message(&host->base, c);
    c = &as_broadcast;
  }
  pthread_mutex_lock(&host->lock[channel]);
  ls_status_t status = host->execute(host, channel, c);
  if (status != LS_OK) host->base.broken = true;
  pthread_mutex_unlock(&host->lock[channel]);
  return status;
}

ls_status_t ls_host_run(ls_comm_t *comm, const ls_collective_t *c) {
  if (comm->broken) return LS_ERR_COMM;
  ls_status_t status = ls_collective_check(comm, c);
  return status == LS_OK ? execute((ls_host_comm_t *)comm, LS_CHANNEL_CONTROL, c) : status;
}

ls_status_t ls_host_poll(ls_comm_t *comm) {
  return comm->broken ? LS_ERR_COMM : LS_OK;
}

static ls_status_t on_stream(void *arg) {
  const ls_collective_t *c = arg;
  return execute((ls_host_comm_t *)c->comm, LS_CHANNEL_STREAM, c);
}

ls_status_t ls_host_enqueue(ls_stream_t *stream, ls_collective_t *c) {
  if (c->comm->broken) return LS_ERR_COMM;
  return stream->device->backend->stream->call(stream, on_stream, c);
}
