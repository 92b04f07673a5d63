/* Shared by the host transports: arguments are checked before anybody waits, a broken communicator answers at
 * once, and a collective on a stream is one stream call. */
#include "comm/host.h"

ls_status_t ls_host_init(ls_host_comm_t *host, const ls_comm_ops_t *ops, ls_ctx_t *ctx, int rank, int size,
                         int64_t deadline_ns) {
  ls_comm_t *comm = &host->base;
  bool ok = true;
  comm->ops = ops;
  comm->ctx = ctx;
  comm->rank = comm->local_rank = rank;
  comm->size = comm->local_size = size;
  comm->deadline_ns = deadline_ns > 0 ? deadline_ns : LS_COMM_DEADLINE_S * INT64_C(1000000000);
  for (int i = 0; i < LS_CHANNEL_COUNT; i++) {
    ls_host_channel_t *channel = &host->channel[i];
    channel->comm = comm;
    channel->block = ls_alloc_array(ctx, (size_t)size, sizeof *channel->block);
    channel->part = ls_alloc_array(ctx, (size_t)size, sizeof *channel->part);
    ok = ok && channel->block && channel->part;
    pthread_mutex_init(&channel->lock, NULL);
  }
  return ok ? LS_OK : LS_ERR_MEMORY;
}

void ls_host_release(ls_host_comm_t *host) {
  for (int i = 0; i < LS_CHANNEL_COUNT; i++) {
    pthread_mutex_destroy(&host->channel[i].lock);
    ls_free(host->channel[i].part);
    ls_free(host->channel[i].block);
  }
}

/* A message between two ranks is a broadcast whose root reads only `recv`. */
static ls_collective_t message(const ls_comm_t *comm, const ls_collective_t *c) {
  ls_collective_t b = *c;
  b.kind = LS_BROADCAST;
  b.root = c->kind == LS_SEND ? comm->rank : 1 - comm->rank;
  if (c->kind == LS_SEND) b.recv = (void *)(uintptr_t)c->send;
  return b;
}

static ls_status_t execute(ls_comm_t *comm, ls_channel_t which, const ls_collective_t *c) {
  static const ls_comm_line_t lines[] = {
      [LS_CHANNEL_CONTROL] = LS_LINE_CONTROL, [LS_CHANNEL_STREAM] = LS_LINE_DATA};
  ls_host_channel_t *channel = &((ls_host_comm_t *)comm)->channel[which];
  const ls_comm_watch_t *watch = comm->watch;
  if (comm->broken) return LS_ERR_COMM;
  const ls_collective_t *called = c;
  ls_collective_t as_broadcast;
  if (c->kind == LS_SEND || c->kind == LS_RECV) {
    as_broadcast = message(comm, c);
    c = &as_broadcast;
  }
  pthread_mutex_lock(&channel->lock);
  channel->count++;
  const uint64_t mark = watch ? watch->enter(watch->user, comm, called, lines[which], channel->count) : 0;
  ls_status_t status = channel->way->execute(channel, c);
  if (status != LS_OK)
    comm->broken = true;
  else if (watch)
    watch->leave(watch->user, lines[which], mark);
  pthread_mutex_unlock(&channel->lock);
  return status;
}

ls_status_t ls_host_run(ls_comm_t *comm, const ls_collective_t *c) {
  if (comm->broken) return LS_ERR_COMM;
  ls_status_t status = ls_collective_check(comm, c);
  return status == LS_OK ? execute(comm, LS_CHANNEL_CONTROL, c) : status;
}

ls_status_t ls_host_poll(ls_comm_t *comm) {
  return comm->broken ? LS_ERR_COMM : LS_OK;
}

static ls_status_t on_stream(void *arg) {
  const ls_collective_t *c = arg;
  return execute(c->comm, LS_CHANNEL_STREAM, c);
}

ls_status_t ls_host_enqueue(ls_stream_t *stream, ls_collective_t *c) {
  if (c->comm->broken) return LS_ERR_COMM;
  return stream->device->backend->stream->call(stream, on_stream, c);
}
