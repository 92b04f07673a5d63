/* The collectives of host transports, as rounds of swapped blocks. A transport only moves bytes. Every sum is made
 * once or by the same additions everywhere, in rank order: all ranks get the same bits, and the same bits in every
 * run.
 *
 * All-reduce has two forms with equal results. One-shot, for small messages: everybody gets all inputs and
 * adds everything up itself. Two-shot: rank r adds up part r and gives it to all in a second round, so it makes
 * 1/n of the additions.
 *
 * Large buffers go in chunks of chunk_bytes. */
#include "comm/host.h"

enum { LINE_BYTES = 64 };

static int64_t bytes_of(const ls_collective_t *c) {
  return (int64_t)ls_dtype_bytes(c->dtype);
}

/* Adds up a block of every rank; this rank's own never travels. */
static void add_up(ls_host_channel_t *channel, const ls_collective_t *c, const ls_byte_t *own, void *out,
                   void *copy, int64_t count) {
  const ls_comm_t *comm = channel->comm;
  for (int r = 0; r < comm->size; r++)
    channel->part[r] = r == comm->rank ? own : channel->block[r].take;
  ls_comm_sum(c->dtype, out, copy, channel->part, comm->size, count);
}

static ls_status_t one_shot(ls_host_channel_t *channel, const ls_collective_t *c, const ls_byte_t *send,
                            ls_byte_t *recv, int64_t count) {
  const int64_t total = count * bytes_of(c);
  for (int r = 0; r < channel->comm->size; r++)
    channel->block[r] = (ls_host_block_t){.give = send, .give_bytes = total, .take_bytes = total};
  ls_status_t status = channel->way->round(channel, c, 0);
  if (status == LS_OK) add_up(channel, c, send, recv, NULL, count);
  return status;
}

/* Parts are whole cache lines, but the last; all of this in bytes. */
static ls_status_t two_shot(ls_host_channel_t *channel, const ls_collective_t *c, const ls_byte_t *send,
                            ls_byte_t *recv, int64_t count) {
  const ls_comm_t *comm = channel->comm;
  const int64_t bytes = bytes_of(c), total = count * bytes, line = LINE_BYTES / bytes;
  const int64_t part = ((count + comm->size - 1) / comm->size + line - 1) / line * LINE_BYTES;
  const int64_t first = ls_host_min(part * comm->rank, total), own = ls_host_min(part, total - first);
  for (int r = 0; r < comm->size; r++) {
    int64_t at = ls_host_min(part * r, total);
    channel->block[r] =
        (ls_host_block_t){.give = send + at, .give_bytes = ls_host_min(part, total - at), .take_bytes = own};
  }
  ls_status_t status = channel->way->round(channel, c, part);
  if (status != LS_OK) return status;
  ls_byte_t *next = channel->way->next ? channel->way->next(channel) : NULL;
  add_up(channel, c, send + first, recv + first, next, own / bytes);
  for (int r = 0; r < comm->size; r++) {
    int64_t at = ls_host_min(part * r, total);
    channel->block[r] = (ls_host_block_t){.give = next ? next : recv + first,
                                          .give_bytes = own,
                                          .take = recv + at,
                                          .take_bytes = ls_host_min(part, total - at)};
  }
  return channel->way->round(channel, c, 0);
}

static ls_status_t all_reduce(ls_host_channel_t *channel, const ls_collective_t *c) {
  const int64_t bytes = bytes_of(c), chunk = channel->chunk_bytes / bytes;
  int64_t done = 0;
  do {
    int64_t n = ls_host_min(chunk, c->count - done);
    const ls_byte_t *send = (const ls_byte_t *)c->send + done * bytes;
    ls_byte_t *recv = (ls_byte_t *)c->recv + done * bytes;
    ls_status_t status = n * bytes <= channel->one_shot_bytes ? one_shot(channel, c, send, recv, n)
                                                              : two_shot(channel, c, send, recv, n);
    if (status != LS_OK) return status;
    done += n;
  } while (done < c->count);
  return LS_OK;
}

static ls_status_t reduce_scatter(ls_host_channel_t *channel, const ls_collective_t *c) {
  const ls_comm_t *comm = channel->comm;
  const int64_t bytes = bytes_of(c), chunk = channel->chunk_bytes / bytes / comm->size;
  const ls_byte_t *send = c->send;
  int64_t done = 0;
  do {
    int64_t n = ls_host_min(chunk > 0 ? chunk : 1, c->count - done);
    for (int r = 0; r < comm->size; r++)
      channel->block[r] = (ls_host_block_t){
          .give = send + (r * c->count + done) * bytes, .give_bytes = n * bytes, .take_bytes = n * bytes};
    ls_status_t status = channel->way->round(channel, c, n * bytes);
    if (status != LS_OK) return status;
    add_up(channel, c, channel->block[comm->rank].give, (ls_byte_t *)c->recv + done * bytes, NULL, n);
    done += n;
  } while (done < c->count);
  return LS_OK;
}

static ls_status_t all_gather(ls_host_channel_t *channel, const ls_collective_t *c) {
  const ls_comm_t *comm = channel->comm;
  const int64_t total = c->count * bytes_of(c);
  ls_byte_t *recv = c->recv, *own = recv + comm->rank * total;
  int64_t done = 0;
  ls_host_copy(own, c->send, total);
  do {
    int64_t n = ls_host_min(channel->chunk_bytes, total - done);
    for (int r = 0; r < comm->size; r++)
      channel->block[r] = (ls_host_block_t){
          .give = own + done, .give_bytes = n, .take = recv + r * total + done, .take_bytes = n};
    ls_status_t status = channel->way->round(channel, c, 0);
    if (status != LS_OK) return status;
    done += n;
  } while (done < total);
  return LS_OK;
}

/* The root gives, the others take. */
static ls_status_t broadcast(ls_host_channel_t *channel, const ls_collective_t *c) {
  const ls_comm_t *comm = channel->comm;
  const bool root = comm->rank == c->root;
  const int64_t total = c->count * bytes_of(c);
  int64_t done = 0;
  if (root) ls_host_copy(c->recv, c->send, total);
  do {
    int64_t n = ls_host_min(channel->chunk_bytes, total - done);
    ls_byte_t *at = (ls_byte_t *)c->recv + done;
    for (int r = 0; r < comm->size; r++)
      channel->block[r] = (ls_host_block_t){
          .give = at, .give_bytes = root ? n : 0, .take = at, .take_bytes = r == c->root && !root ? n : 0};
    ls_status_t status = channel->way->round(channel, c, 0);
    if (status != LS_OK) return status;
    done += n;
  } while (done < total);
  return LS_OK;
}

static ls_status_t barrier(ls_host_channel_t *channel, const ls_collective_t *c) {
  memset(channel->block, 0, (size_t)channel->comm->size * sizeof *channel->block);
  return channel->way->round(channel, c, 0);
}

ls_status_t ls_host_rounds(ls_host_channel_t *channel, const ls_collective_t *c) {
  switch (c->kind) {
  case LS_ALL_REDUCE:
    return all_reduce(channel, c);
  case LS_REDUCE_SCATTER:
    return reduce_scatter(channel, c);
  case LS_ALL_GATHER:
    return all_gather(channel, c);
  case LS_BROADCAST:
    return broadcast(channel, c);
  case LS_BARRIER:
    return barrier(channel, c);
  case LS_SEND:
  case LS_RECV: /* host.c has made broadcasts of them */
  case LS_COLLECTIVE_COUNT:
    break;
  }
  return LS_ERR_INTERNAL;
}
