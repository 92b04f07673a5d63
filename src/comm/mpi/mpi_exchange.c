/* Collectives as direct exchanges of messages: every rank sends each other rank the data that it needs, in
 * chunks that fit the staging buffer and an int count. MPI only moves bytes; sums are made in rank order. */
#include "comm/mpi/mpi.h"

#include <stdio.h>

enum { TAG = 7, SMALL_BYTES = 4096 };

typedef struct {
  ls_mpi_t *mpi;
  ls_mpi_exchange_t *x;
  const ls_collective_t *c;
  int rank, size;
  int64_t bytes; /* of an element */
} job_t;

static ls_status_t mpi_failed(const job_t *job, int error) {
  char where[LS_COMM_WHERE_BYTES];
  return ls_mpi_fail(job->mpi->host.base.ctx, error, ls_comm_where(&job->mpi->host.base, job->c, where));
}

static ls_status_t late(const job_t *job, const char *what) {
  const ls_comm_t *comm = &job->mpi->host.base;
  char where[LS_COMM_WHERE_BYTES];
  return ls_fail(comm->ctx, LS_ERR_TIMEOUT, "%s: %s within %.3f s", ls_comm_where(comm, job->c, where), what,
                 (double)comm->deadline_ns * 1e-9);
}

static ls_status_t wait(const job_t *job, int count, int *pending, int *error) {
  return ls_mpi_wait(job->mpi->lock, job->mpi->host.base.deadline_ns, job->x->request, count, pending, error);
}

/* After a timeout a late message must not land in memory that its owner has freed. Receives without a
 * matching message can be cancelled; sends only read, so they are abandoned. */
static void abandon(const job_t *job) {
  pthread_mutex_lock(job->mpi->lock);
  for (int i = 0; i < 2 * job->size; i++) {
    MPI_Request *request = &job->x->request[i];
    if (*request == MPI_REQUEST_NULL) continue;
    if (i < job->size) MPI_Cancel(request);
    MPI_Request_free(request);
  }
  pthread_mutex_unlock(job->mpi->lock);
}

/* Waits for all requests of a swap; a peer that is late is named. */
static ls_status_t finish(const job_t *job) {
  int pending = 0, error = MPI_SUCCESS;
  ls_status_t status = wait(job, 2 * job->size, &pending, &error);
  if (status == LS_ERR_COMM) return mpi_failed(job, error);
  if (status == LS_OK) return LS_OK;
  abandon(job);
  char what[64];
  snprintf(what, sizeof what, "rank %d did not %s", pending % job->size,
           pending < job->size ? "send" : "receive");
  return late(job, what);
}

/* Waits for one of MPI's own collectives, which does not say which rank is late. */
static ls_status_t finish_one(const job_t *job) {
  int pending = 0, error = MPI_SUCCESS;
  ls_status_t status = wait(job, 1, &pending, &error);
  if (status == LS_ERR_COMM) return mpi_failed(job, error);
  return status == LS_OK ? LS_OK : late(job, "some rank did not arrive");
}

/* Sends block[r] to every other rank r and receives what r sends. The caller handles its own block. */
static ls_status_t swap(const job_t *job) {
  ls_mpi_exchange_t *x = job->x;
  int error = MPI_SUCCESS;
  pthread_mutex_lock(job->mpi->lock);
  for (int i = 0; i < 2 * job->size; i++)
    x->request[i] = MPI_REQUEST_NULL;
  for (int i = 1; i < job->size && error == MPI_SUCCESS; i++) {
    int r = (job->rank - i + job->size) % job->size;
    const ls_mpi_block_t *b = &x->block[r];
    if (b->recv_bytes > 0)
      error = MPI_Irecv(b->recv, (int)b->recv_bytes, MPI_BYTE, r, TAG, x->comm, &x->request[r]);
  }
  for (int i = 1; i < job->size && error == MPI_SUCCESS; i++) {
    int r = (job->rank + i) % job->size;
    const ls_mpi_block_t *b = &x->block[r];
    if (b->send_bytes > 0)
      error = MPI_Isend(b->send, (int)b->send_bytes, MPI_BYTE, r, TAG, x->comm, &x->request[job->size + r]);
  }
  pthread_mutex_unlock(job->mpi->lock);
  return error == MPI_SUCCESS ? finish(job) : mpi_failed(job, error);
}

/* Small messages: every rank gets all inputs in one exchange and adds them up itself. */
static ls_status_t reduce_small(const job_t *job, const ls_byte_t *send, ls_byte_t *recv, int64_t count) {
  const int64_t total = count * job->bytes;
  for (int r = 0; r < job->size; r++) {
    ls_byte_t *to = job->x->stage + r * total;
    job->x->block[r] = (ls_mpi_block_t){.send = send, .send_bytes = total, .recv = to, .recv_bytes = total};
    job->x->part[r] = r == job->rank ? send : to;
  }
  ls_status_t status = swap(job);
  if (status == LS_OK) ls_comm_sum(job->c->dtype, recv, NULL, job->x->part, job->size, count);
  return status;
}

/* Large messages: rank r receives part r of all inputs, adds it up, and sends the result to all. */
static ls_status_t reduce_large(const job_t *job, const ls_byte_t *send, ls_byte_t *recv, int64_t count) {
  ls_mpi_block_t *block = job->x->block;
  const int64_t part = (count + job->size - 1) / job->size, first = ls_host_min(part * job->rank, count);
  const int64_t own = ls_host_min(part, count - first);
  for (int r = 0; r < job->size; r++) {
    int64_t at = ls_host_min(part * r, count), n = ls_host_min(part, count - at);
    block[r] = (ls_mpi_block_t){.send = send + at * job->bytes,
                                .send_bytes = n * job->bytes,
                                .recv = job->x->stage + r * own * job->bytes,
                                .recv_bytes = own * job->bytes};
    job->x->part[r] = r == job->rank ? block[r].send : block[r].recv;
  }
  ls_status_t status = swap(job);
  if (status != LS_OK) return status;
  ls_comm_sum(job->c->dtype, recv + first * job->bytes, NULL, job->x->part, job->size, own);
  for (int r = 0; r < job->size; r++) {
    int64_t at = ls_host_min(part * r, count), n = ls_host_min(part, count - at);
    block[r] = (ls_mpi_block_t){.send = recv + first * job->bytes,
                                .send_bytes = own * job->bytes,
                                .recv = recv + at * job->bytes,
                                .recv_bytes = n * job->bytes};
  }
  return swap(job);
}

/* A chunk keeps `size` parts of it within the stage, also after rounding up. */
static ls_status_t all_reduce(const job_t *job) {
  const int64_t chunk = LS_MPI_STAGE_BYTES / job->bytes;
  for (int64_t done = 0, n; done < job->c->count; done += n) {
    n = ls_host_min(chunk, job->c->count - done);
    const ls_byte_t *send = (const ls_byte_t *)job->c->send + done * job->bytes;
    ls_byte_t *recv = (ls_byte_t *)job->c->recv + done * job->bytes;
    bool small = n * job->bytes <= SMALL_BYTES && n * job->bytes * job->size <= LS_MPI_STAGE_BYTES;
    ls_status_t status = small ? reduce_small(job, send, recv, n) : reduce_large(job, send, recv, n);
    if (status != LS_OK) return status;
  }
  return LS_OK;
}

static ls_status_t reduce_scatter(const job_t *job) {
  const ls_collective_t *c = job->c;
  const int64_t chunk = LS_MPI_STAGE_BYTES / job->bytes / job->size;
  for (int64_t done = 0, n; done < c->count; done += n) {
    n = ls_host_min(chunk > 0 ? chunk : 1, c->count - done);
    for (int r = 0; r < job->size; r++) {
      const ls_byte_t *send = (const ls_byte_t *)c->send + (r * c->count + done) * job->bytes;
      ls_byte_t *to = job->x->stage + r * n * job->bytes;
      job->x->block[r] = (ls_mpi_block_t){
          .send = send, .send_bytes = n * job->bytes, .recv = to, .recv_bytes = n * job->bytes};
      job->x->part[r] = r == job->rank ? send : to;
    }
    ls_status_t status = swap(job);
    if (status != LS_OK) return status;
    ls_comm_sum(c->dtype, (ls_byte_t *)c->recv + done * job->bytes, NULL, job->x->part, job->size, n);
  }
  return LS_OK;
}

static ls_status_t all_gather(const job_t *job) {
  const int64_t total = job->c->count * job->bytes;
  ls_byte_t *recv = job->c->recv;
  ls_host_copy(recv + job->rank * total, job->c->send, total);
  for (int64_t done = 0, n; done < total; done += n) {
    n = ls_host_min(LS_MPI_STAGE_BYTES, total - done);
    for (int r = 0; r < job->size; r++)
      job->x->block[r] = (ls_mpi_block_t){.send = recv + job->rank * total + done,
                                          .send_bytes = n,
                                          .recv = recv + r * total + done,
                                          .recv_bytes = n};
    ls_status_t status = swap(job);
    if (status != LS_OK) return status;
  }
  return LS_OK;
}

/* Trees of MPI's own: bytes only, so no order matters. */
static ls_status_t broadcast(const job_t *job) {
  const ls_collective_t *c = job->c;
  const int64_t total = c->count * job->bytes;
  if (job->rank == c->root) ls_host_copy(c->recv, c->send, total);
  for (int64_t done = 0, n; done < total; done += n) {
    n = ls_host_min(LS_MPI_STAGE_BYTES, total - done);
    pthread_mutex_lock(job->mpi->lock);
    int error =
        MPI_Ibcast((ls_byte_t *)c->recv + done, (int)n, MPI_BYTE, c->root, job->x->comm, job->x->request);
    pthread_mutex_unlock(job->mpi->lock);
    if (error != MPI_SUCCESS) return mpi_failed(job, error);
    ls_status_t status = finish_one(job);
    if (status != LS_OK) return status;
  }
  return LS_OK;
}

static ls_status_t barrier(const job_t *job) {
  pthread_mutex_lock(job->mpi->lock);
  int error = MPI_Ibarrier(job->x->comm, job->x->request);
  pthread_mutex_unlock(job->mpi->lock);
  return error == MPI_SUCCESS ? finish_one(job) : mpi_failed(job, error);
}

ls_status_t ls_mpi_exchange_run(ls_mpi_t *mpi, ls_channel_t channel, const ls_collective_t *c) {
  const job_t job = {.mpi = mpi,
                     .x = &mpi->exchange[channel],
                     .c = c,
                     .rank = mpi->host.base.rank,
                     .size = mpi->host.base.size,
                     .bytes = c->kind == LS_BARRIER ? 1 : (int64_t)ls_dtype_bytes(c->dtype)};
  switch (c->kind) {
  case LS_ALL_REDUCE:
    return all_reduce(&job);
  case LS_REDUCE_SCATTER:
    return reduce_scatter(&job);
  case LS_ALL_GATHER:
    return all_gather(&job);
  case LS_BROADCAST:
    return broadcast(&job);
  case LS_BARRIER:
    return barrier(&job);
  case LS_SEND:
  case LS_RECV: /* host.c has made broadcasts of them */
  case LS_COLLECTIVE_COUNT:
    break;
  }
  return LS_ERR_INTERNAL;
}
