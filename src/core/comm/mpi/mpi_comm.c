/* Creates and destroys the mpi transport: joins MPI_COMM_WORLD, finds the ranks on this host, and chooses how
 * data move. */
#include "base/process.h"
#include "comm/mpi/mpi.h"
#include "comm/transport.h"

#include <string.h>

/* Address space that a rank takes from MPI_Init on: Open MPI 4.1, hundreds of libraries and segments, for two ranks that
 * train a small network with oneDNN. With less, MPI_Win_allocate_shared may wait for ever, and oneDNN crashes. */
enum { ROOM_BYTES = 224 << 20 };

ls_status_t ls_mpi_fail(ls_ctx_t *ctx, int error, const char *what) {
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int len = 0;
  if (MPI_Error_string(error, text, &len) != MPI_SUCCESS) len = 0;
  text[len] = '\0';
  return ls_fail(ctx, LS_ERR_COMM, "%s: MPI error %d: %s", what, error, text);
}

/* Joins MPI, and initialises it if nobody has. MPI can be neither initialised twice nor used after its
 * end. */
static ls_status_t join(ls_ctx_t *ctx, bool *initialised) {
  int on = 0, over = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&on);
  MPI_Finalized(&over);
  if (over)
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "MPI was finalized in this process and cannot be started again");
  ls_status_t status = on ? LS_OK : ls_process_room(ctx, ROOM_BYTES, "a rank and MPI");
  if (status != LS_OK) return status;
  int error = on ? MPI_Query_thread(&level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
  if (error != MPI_SUCCESS) return ls_mpi_fail(ctx, error, "starting MPI");
  *initialised = !on;
  if (level >= MPI_THREAD_SERIALIZED) return LS_OK;
  if (!on) MPI_Finalize();
  return ls_fail(ctx, LS_ERR_UNSUPPORTED, "MPI gives thread level %d; MPI_THREAD_SERIALIZED (%d) is needed",
                 level, MPI_THREAD_SERIALIZED);
}

/* srun without a matching PMI plug-in starts n processes that each believe they are alone: an error is better
 * than training n times. */
static ls_status_t check_world(ls_ctx_t *ctx, int size) {
  int launched_rank, launched_size;
  if (!ls_comm_launched(&launched_rank, &launched_size) || launched_size == size || size > 1) return LS_OK;
  return ls_fail(
      ctx, LS_ERR_COMM,
      "the launcher started %d processes but MPI sees only one in each; start them with mpirun, or with "
      "srun --mpi=pmix",
      launched_size);
}

/* Whether all ranks agree. A rank that fails alone would leave the others waiting in the next call. */
static ls_status_t agree(ls_ctx_t *ctx, MPI_Comm comm, int64_t deadline_ns, bool own, const char *what) {
  int mine = own, all = 0, pending = 0, error;
  MPI_Request request = MPI_REQUEST_NULL;
  ls_status_t status = LS_ERR_COMM;
  error = MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm, &request);
  if (error == MPI_SUCCESS) status = ls_mpi_wait(NULL, deadline_ns, &request, 1, &pending, &error);
  if (status == LS_ERR_TIMEOUT)
    return ls_fail(ctx, status, "%s: some rank did not arrive within %.3f s", what,
                   (double)deadline_ns * 1e-9);
  if (status != LS_OK) return ls_mpi_fail(ctx, error, what);
  if (!all && own) return ls_fail(ctx, LS_ERR_COMM, "%s: another rank has failed", what);
  return LS_OK;
}

static void release_exchange(ls_mpi_exchange_t *x, bool collective) {
  if (collective && x->comm != MPI_COMM_NULL) MPI_Comm_free(&x->comm);
  ls_free(x->request);
  ls_free(x->stage);
}

/* Releases everything; `collective`: all ranks are here, so MPI's own objects can be freed too. */
static void release(ls_mpi_t *mpi, bool collective) {
  pthread_mutex_lock(mpi->lock);
  ls_mpi_window_release(mpi, collective);
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    release_exchange(&mpi->exchange[i], collective);
  if (collective && mpi->owns_mpi) MPI_Finalize();
  pthread_mutex_unlock(mpi->lock);
  ls_free(mpi->slot);
  pthread_mutex_destroy(&mpi->own_lock);
  ls_host_release(&mpi->host);
  ls_free(mpi);
}

/* MPI_Finalize waits for everybody, so it is called only after a barrier with a deadline. A broken job ends
 * through ls_comm_abort instead. */
static void destroy(ls_comm_t *comm) {
  const ls_collective_t last = {.kind = LS_BARRIER, .name = "destroy"};
  release((ls_mpi_t *)comm, ls_host_run(comm, &last) == LS_OK);
}

static ls_status_t split(ls_comm_t *comm, const ls_split_t *how, ls_comm_t **sub);

/* If a rank simply exited, the others would wait for it: MPI_Abort has the launcher end them at once and return this exit
 * code. */
static void end_all(ls_comm_t *comm, int exit_code) {
  (void)comm;
  MPI_Abort(MPI_COMM_WORLD, exit_code);
}

static const ls_comm_ops_t ops = {
    .name = "mpi", LS_HOST_OPS, .split = split, .end_all = end_all, .destroy = destroy};

/* `lock`: that of the world's communicator, NULL for the world's own. */
static ls_mpi_t *allocate(ls_ctx_t *ctx, int rank, int size, int64_t deadline_ns, pthread_mutex_t *lock) {
  ls_mpi_t *mpi = ls_alloc(ctx, sizeof *mpi);
  if (!mpi) return NULL;
  const size_t n = (size_t)size;
  bool ok = ls_host_init(&mpi->host, &ops, ctx, rank, size, deadline_ns) == LS_OK;
  pthread_mutex_init(&mpi->own_lock, NULL);
  mpi->lock = lock ? lock : &mpi->own_lock;
  mpi->window = MPI_WIN_NULL;
  mpi->slot = ls_alloc_array(ctx, LS_CHANNEL_COUNT * n, sizeof *mpi->slot);
  ok = ok && mpi->slot;
  for (int i = 0; i < LS_CHANNEL_COUNT; i++) {
    mpi->exchange[i].comm = MPI_COMM_NULL;
    mpi->exchange[i].request = ls_alloc_array(ctx, 2 * n, sizeof(MPI_Request));
    ok = ok && mpi->exchange[i].request;
  }
  if (ok) return mpi;
  release(mpi, false);
  return NULL;
}

/* The channels' own communicators, among ranks of `whole`. `mpi` is NULL on ranks that are no members, which
 * must call this too. */
static ls_status_t open_channels(ls_ctx_t *ctx, MPI_Comm whole, ls_mpi_t *mpi) {
  for (int i = 0; i < LS_CHANNEL_COUNT; i++) {
    MPI_Comm own;
    int error = MPI_Comm_split(whole, mpi ? 0 : MPI_UNDEFINED, mpi ? mpi->host.base.rank : 0, &own);
    if (error != MPI_SUCCESS) return ls_mpi_fail(ctx, error, "MPI_Comm_split");
    if (!mpi) continue;
    mpi->exchange[i].comm = own;
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  }
  return LS_OK;
}

/* Who is on this host. */
static ls_status_t find_neighbours(ls_mpi_t *mpi) {
  ls_comm_t *comm = &mpi->host.base;
  MPI_Comm local;
  int error = MPI_Comm_split_type(mpi->exchange[0].comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
  if (error != MPI_SUCCESS) return ls_mpi_fail(comm->ctx, error, "MPI_Comm_split_type");
  MPI_Comm_rank(local, &comm->local_rank);
  MPI_Comm_size(local, &comm->local_size);
  MPI_Comm_free(&local);
  return LS_OK;
}

/* Shared memory if all ranks are on one host and can map it, else messages. */
static ls_status_t choose_way(ls_mpi_t *mpi, bool window) {
  ls_comm_t *comm = &mpi->host.base;
  mpi->window_wanted = window;
  if (window && comm->local_size == comm->size) {
    if (ls_mpi_window_create(mpi) == LS_OK) return LS_OK;
    ls_log(comm->ctx, LS_LOG_WARN,
           "no shared memory between the ranks of this host (is /dev/shm full?): they "
           "exchange messages, which is slower");
  }
  bool ok = ls_mpi_exchange_open(mpi, LS_CHANNEL_CONTROL) && ls_mpi_exchange_open(mpi, LS_CHANNEL_STREAM);
  ls_status_t status = agree(comm->ctx, mpi->exchange[LS_CHANNEL_CONTROL].comm, comm->deadline_ns, ok,
                             "creating the communicator");
  return ok ? status : LS_ERR_MEMORY;
}

static ls_status_t split(ls_comm_t *comm, const ls_split_t *how, ls_comm_t **sub) {
  ls_mpi_t *whole = (ls_mpi_t *)comm, *mpi = NULL;
  if (how->size) mpi = allocate(comm->ctx, how->rank, how->size, comm->deadline_ns, whole->lock);
  ls_status_t status = ls_comm_agree(comm, how->name, mpi || !how->size ? LS_OK : LS_ERR_MEMORY);
  pthread_mutex_lock(whole->lock);
  if (status == LS_OK) status = open_channels(comm->ctx, whole->exchange[LS_CHANNEL_CONTROL].comm, mpi);
  if (status == LS_OK && mpi) status = find_neighbours(mpi);
  if (status == LS_OK && mpi) status = choose_way(mpi, whole->window_wanted);
  pthread_mutex_unlock(whole->lock);
  if (status == LS_OK && mpi)
    *sub = &mpi->host.base;
  else if (mpi)
    release(mpi, false);
  return status;
}

/* MPI stays initialised after a failure, because ending it is collective and others may be stuck. A process
 * that gives up leaves through ls_comm_abort; a process that tries again finds MPI running. */
ls_status_t ls_mpi_create(ls_ctx_t *ctx, int64_t deadline_ns, bool window, ls_comm_t **comm) {
  bool owns_mpi = false;
  int rank, size;
  ls_status_t status = join(ctx, &owns_mpi);
  if (status != LS_OK) return status;
  if (deadline_ns <= 0) deadline_ns = LS_COMM_DEADLINE_S * INT64_C(1000000000);
  if (owns_mpi) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (ctx) ls_ctx_set_rank(ctx, rank, size);
  ls_mpi_t *mpi = NULL;
  status = check_world(ctx, size);
  if (status != LS_OK) return status;
  mpi = allocate(ctx, rank, size, deadline_ns, NULL);
  status = agree(ctx, MPI_COMM_WORLD, deadline_ns, mpi != NULL, "creating the communicator");
  if (!mpi) status = LS_ERR_MEMORY;
  if (status != LS_OK) goto release_mpi;
  status = open_channels(ctx, MPI_COMM_WORLD, mpi);
  if (status == LS_OK) status = find_neighbours(mpi);
  if (status == LS_OK) status = choose_way(mpi, window);
  if (status != LS_OK) goto release_mpi;
  mpi->owns_mpi = owns_mpi;
  *comm = &mpi->host.base;
  return LS_OK;

release_mpi:
  if (mpi) release(mpi, false);
  return status;
}

ls_status_t ls_comm_mpi_create(ls_ctx_t *ctx, int64_t deadline_ns, ls_comm_t **comm) {
  return ls_mpi_create(ctx, deadline_ns, true, comm);
}

extern const ls_transport_t ls_transport_mpi;
const ls_transport_t ls_transport_mpi = {.name = "mpi",
                                         .help = "the communicator with which the ranks were started: shared "
                                                 "memory on one host, MPI on several; moves "
                                                 "host memory"};
