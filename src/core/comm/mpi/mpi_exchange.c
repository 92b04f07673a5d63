/* Blocks as messages: every rank sends each other rank what it gives, from its place to its place or to a stage. MPI's
 * own trees serve where no order of additions matters. */
#include "comm/mpi/mpi.h"

#include <stdio.h>

enum { TAG = 7, SMALL_BYTES = 4096, LINE_BYTES = 64 };

static ls_status_t mpi_failed(const ls_host_channel_t *channel, const ls_collective_t *c, int error) {
  char where[LS_COMM_WHERE_BYTES];
  return ls_mpi_fail(channel->comm->ctx, error, ls_comm_where(channel->comm, c, where));
}

static ls_status_t late(const ls_host_channel_t *channel, const ls_collective_t *c, const char *what) {
  const ls_comm_t *comm = channel->comm;
  char where[LS_COMM_WHERE_BYTES];
  return ls_fail(comm->ctx, LS_ERR_TIMEOUT, "%s: %s within %.3f s", ls_comm_where(comm, c, where), what,
                 (double)comm->deadline_ns * 1e-9);
}

/* A late message must not land in memory that its owner has freed. Receives without a
 * matching message can be cancelled; sends only read, so they are abandoned. */
static void abandon(ls_mpi_exchange_t *x, int size) {
  pthread_mutex_lock(x->mpi->lock);
  for (int i = 0; i < 2 * size; i++) {
    if (x->request[i] == MPI_REQUEST_NULL) continue;
    if (i < size) MPI_Cancel(&x->request[i]);
    MPI_Request_free(&x->request[i]);
  }
  pthread_mutex_unlock(x->mpi->lock);
}

/* Waits for all requests of a swap, of which a late one names its peer, or for one of MPI's own collectives, which
 * does not say which rank is late. `error` is that of starting them. */
static ls_status_t finish(const ls_host_channel_t *channel, const ls_collective_t *c, bool swap, int error) {
  ls_mpi_exchange_t *x = channel->place;
  const ls_comm_t *comm = channel->comm;
  int pending = 0;
  if (error != MPI_SUCCESS) return mpi_failed(channel, c, error);
  ls_status_t status =
      ls_mpi_wait(x->mpi->lock, comm->deadline_ns, x->request, swap ? 2 * comm->size : 1, &pending, &error);
  if (status == LS_ERR_COMM) return mpi_failed(channel, c, error);
  if (status == LS_OK) return LS_OK;
  if (!swap) return late(channel, c, "some rank did not arrive");
  abandon(x, comm->size);
  char what[64];
  snprintf(what, sizeof what, "rank %d did not %s", pending % comm->size,
           pending < comm->size ? "send" : "receive");
  return late(channel, c, what);
}

static ls_status_t swap(ls_host_channel_t *channel, const ls_collective_t *c, int64_t spacing_bytes) {
  (void)spacing_bytes;
  ls_mpi_exchange_t *x = channel->place;
  const int rank = channel->comm->rank, size = channel->comm->size;
  int error = MPI_SUCCESS;
  pthread_mutex_lock(x->mpi->lock);
  for (int i = 0; i < 2 * size; i++)
    x->request[i] = MPI_REQUEST_NULL;
  for (int i = 1; i < size && error == MPI_SUCCESS; i++) {
    int r = (rank - i + size) % size;
    ls_host_block_t *b = &channel->block[r];
    if (!b->take) b->take = x->stage + r * b->take_bytes;
    if (b->take_bytes > 0)
      error = MPI_Irecv(b->take, (int)b->take_bytes, MPI_BYTE, r, TAG, x->comm, &x->request[r]);
  }
  for (int i = 1; i < size && error == MPI_SUCCESS; i++) {
    int r = (rank + i) % size;
    const ls_host_block_t *b = &channel->block[r];
    if (b->give_bytes > 0)
      error = MPI_Isend(b->give, (int)b->give_bytes, MPI_BYTE, r, TAG, x->comm, &x->request[size + r]);
  }
  pthread_mutex_unlock(x->mpi->lock);
  return finish(channel, c, true, error);
}

static ls_status_t broadcast(ls_host_channel_t *channel, const ls_collective_t *c) {
  ls_mpi_exchange_t *x = channel->place;
  const int64_t total = c->count * (int64_t)ls_dtype_bytes(c->dtype);
  if (channel->comm->rank == c->root) ls_host_copy(c->recv, c->send, total);
  for (int64_t done = 0, n; done < total; done += n) {
    n = ls_host_min(channel->chunk_bytes, total - done);
    pthread_mutex_lock(x->mpi->lock);
    int error = MPI_Ibcast((ls_byte_t *)c->recv + done, (int)n, MPI_BYTE, c->root, x->comm, x->request);
    pthread_mutex_unlock(x->mpi->lock);
    ls_status_t status = finish(channel, c, false, error);
    if (status != LS_OK) return status;
  }
  return LS_OK;
}

static ls_status_t execute(ls_host_channel_t *channel, const ls_collective_t *c) {
  ls_mpi_exchange_t *x = channel->place;
  if (c->kind == LS_BROADCAST) return broadcast(channel, c);
  if (c->kind != LS_BARRIER) return ls_host_rounds(channel, c);
  pthread_mutex_lock(x->mpi->lock);
  int error = MPI_Ibarrier(x->comm, x->request);
  pthread_mutex_unlock(x->mpi->lock);
  return finish(channel, c, false, error);
}

static const ls_host_way_t way = {.execute = execute, .round = swap};

/* The parts of a chunk are rounded up to whole elements and cache lines, hence the stage's margin. */
bool ls_mpi_exchange_open(ls_mpi_t *mpi, ls_channel_t which) {
  ls_mpi_exchange_t *x = &mpi->exchange[which];
  ls_host_channel_t *channel = &mpi->host.channel[which];
  const int size = mpi->host.base.size;
  x->mpi = mpi;
  x->stage =
      ls_alloc_aligned(mpi->host.base.ctx, LINE_BYTES, LS_MPI_STAGE_BYTES + (size_t)size * 2 * LINE_BYTES);
  channel->way = &way;
  channel->place = x;
  channel->chunk_bytes = LS_MPI_STAGE_BYTES;
  channel->one_shot_bytes = ls_host_min(SMALL_BYTES, LS_MPI_STAGE_BYTES / size);
  return x->stage != NULL;
}
