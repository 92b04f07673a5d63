/* NCCL as a communicator: the ranks of a host communicator, one GPU each. Collectives go on CUDA streams and
 * may be captured; calls on host memory are passed to the host communicator. */
#include "comm/nccl/nccl.h"
#include "device/cuda/kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h> /* setenv */
#include <string.h>

enum { END_S = 5 }; /* time limit of an abort: it can hang, and nothing better can be done then */

/* Ends NCCL's communicator in a thread of its own. An abort first tells the kernels on the GPU to give up,
 * then waits until the caller has destroyed captured steps. The thread outlives a hanging NCCL. */
typedef struct {
  ls_nccl_library_t nccl;
  ncclComm_t comm;
  bool abort;
  pthread_t thread;
} ending_t;

typedef struct {
  ls_comm_t base;
  ls_comm_t *control;
  bool owns_control; /* a group's, made for it */
  ls_device_t *device;
  ls_nccl_library_t nccl;
  ncclComm_t comm;
  ending_t *ending; /* has begun */
  float *token; /* device: the value that a barrier adds up, then the number of collectives that have run */
  ls_nccl_progress_t progress;
} ls_nccl_comm_t;

static ls_nccl_comm_t *nccl_of(ls_comm_t *comm) {
  return (ls_nccl_comm_t *)comm;
}

static void *end_nccl(void *arg) {
  const ending_t *ending = arg;
  if (ending->abort)
    (void)ending->nccl.ncclCommAbort(ending->comm);
  else
    (void)ending->nccl.ncclCommDestroy(ending->comm);
  return NULL;
}

static void begin_ending(ls_nccl_comm_t *n, bool abort) {
  if (!n->comm || n->ending) return;
  ending_t *ending = ls_alloc(n->base.ctx, sizeof *ending);
  if (!ending) return;
  *ending = (ending_t){.nccl = n->nccl, .comm = n->comm, .abort = abort};
  if (pthread_create(&ending->thread, NULL, end_nccl, ending) == 0)
    n->ending = ending;
  else
    ls_free(ending);
}

/* The communicator cannot be used any more; waiting kernels on the GPU are told to give up. */
static ls_status_t break_off(ls_nccl_comm_t *n, ls_status_t status) {
  n->base.broken = true;
  begin_ending(n, true);
  return status;
}

/* NCCL's last error text says more than the code. */
static ls_status_t fail_nccl(ls_nccl_comm_t *n, ncclResult_t result, const char *what) {
  const char *last = n->nccl.ncclGetLastError(n->comm);
  char place[LS_COMM_WHERE_BYTES];
  ls_status_t status =
      ls_fail(n->base.ctx, LS_ERR_COMM, "%s, %s: NCCL: %s%s%s", ls_comm_place(&n->base, place), what,
              n->nccl.ncclGetErrorString(result), last && last[0] ? ": " : "", last ? last : "");
  return break_off(n, status);
}

static ls_status_t fail_timeout(ls_nccl_comm_t *n, const char *kind, const char *name, int64_t deadline_ns) {
  char place[LS_COMM_WHERE_BYTES];
  ls_status_t status = ls_fail(n->base.ctx, LS_ERR_TIMEOUT, "%s, %s \"%s\": not done after %.1f s",
                               ls_comm_place(&n->base, place), kind, name, (double)deadline_ns / 1e9);
  return break_off(n, status);
}

/* Waits until a call in progress has finished. */
static ls_status_t settle(ls_nccl_comm_t *n, ncclResult_t result, const char *kind, const char *name) {
  int64_t end_ns = ls_clock_ns() + n->base.deadline_ns;
  while (result == ncclInProgress || result == ncclSuccess) {
    ncclResult_t asked = n->nccl.ncclCommGetAsyncError(n->comm, &result);
    if (asked != ncclSuccess) result = asked;
    if (result == ncclSuccess) return LS_OK;
    if (ls_clock_ns() > end_ns) return fail_timeout(n, kind, name, n->base.deadline_ns);
    if (result == ncclInProgress) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
  }
  return fail_nccl(n, result, name);
}

static ncclDataType_t type_of(ls_dtype_t dtype) {
  static const ncclDataType_t types[] = {[LS_F32] = ncclFloat32,
                                         [LS_F64] = ncclFloat64,
                                         [LS_I32] = ncclInt32,
                                         [LS_I64] = ncclInt64,
                                         [LS_U8] = ncclUint8,
                                         [LS_BF16] = ncclBfloat16,
                                         [LS_F16] = ncclFloat16,
                                         /* moved, never added: any type of that width works */
                                         [LS_U16] = ncclFloat16};
  _Static_assert(LS_COUNT(types) == LS_DTYPE_COUNT, "every dtype has a type of NCCL's");
  return types[dtype];
}

static ncclResult_t put(ls_nccl_comm_t *n, const ls_collective_t *c, cudaStream_t stream) {
  const ls_nccl_library_t *nccl = &n->nccl;
  size_t count = (size_t)c->count;
  ncclDataType_t type = type_of(c->dtype);
  switch (c->kind) {
  case LS_ALL_REDUCE:
    return nccl->ncclAllReduce(c->send, c->recv, count, type, ncclSum, n->comm, stream);
  case LS_REDUCE_SCATTER:
    return nccl->ncclReduceScatter(c->send, c->recv, count, type, ncclSum, n->comm, stream);
  case LS_ALL_GATHER:
    return nccl->ncclAllGather(c->send, c->recv, count, type, n->comm, stream);
  case LS_BROADCAST:
    return nccl->ncclBroadcast(c->send, c->recv, count, type, c->root, n->comm, stream);
  case LS_SEND:
    return nccl->ncclSend(c->send, count, type, 1 - n->base.rank, n->comm, stream);
  case LS_RECV:
    return nccl->ncclRecv(c->recv, count, type, 1 - n->base.rank, n->comm, stream);
  case LS_BARRIER:
    return nccl->ncclAllReduce(n->token, n->token, 1, ncclFloat32, ncclSum, n->comm, stream);
  case LS_COLLECTIVE_COUNT:
    break;
  }
  return ncclInvalidArgument;
}

/* Numbers follow kind and name, so that successive runs on one communicator share them. */
static ls_status_t bind(ls_comm_t *comm, ls_collective_t *c) {
  if (comm->size > 1) c->number = ls_nccl_progress_number(&nccl_of(comm)->progress, c);
  return LS_OK;
}

static ls_status_t enqueue(ls_stream_t *stream, ls_collective_t *c) {
  ls_nccl_comm_t *n = nccl_of(c->comm);
  if (n->base.broken) return LS_ERR_COMM;
  if (c->count == 0 && c->kind != LS_BARRIER) return LS_OK;
  cudaStream_t handle = ls_cuda_stream(stream)->handle;
  ls_status_t status = settle(n, put(n, c, handle), ls_collective_name(c->kind), c->name ? c->name : "");
  if (!status && c->number) {
    int error =
        ls_kernel_mark(handle, n->progress.device_word, (uint32_t *)(void *)(n->token + 1), c->number);
    status = ls_cuda_check(n->base.ctx, (cudaError_t)error, "marking progress");
  }
  return ls_cuda_stream_keep(ls_cuda_stream(stream), status);
}

static ls_status_t run(ls_comm_t *comm, const ls_collective_t *c) {
  if (comm->broken) return LS_ERR_COMM;
  ls_comm_t *control = nccl_of(comm)->control;
  ls_comm_set_step(control, comm->step);
  return control->ops->run(control, c);
}

/* Fires a little before the caller's own deadline, which cannot name the collective. */
static ls_status_t poll(ls_comm_t *comm) {
  ls_nccl_comm_t *n = nccl_of(comm);
  if (comm->broken) return LS_ERR_COMM;
  ncclResult_t state;
  ncclResult_t result = n->nccl.ncclCommGetAsyncError(n->comm, &state);
  if (result == ncclSuccess) result = state;
  if (result != ncclSuccess && result != ncclInProgress) return fail_nccl(n, result, "waiting for the GPU");
  int64_t now_ns = ls_clock_ns(), limit_ns = comm->deadline_ns - comm->deadline_ns / 20;
  int64_t still_ns = ls_nccl_progress_still_ns(&n->progress, comm->step, now_ns, comm->deadline_ns / 2);
  const uint64_t word = *n->progress.word;
  const ls_nccl_entry_t *pending = ls_nccl_progress_pending(&n->progress, word);
  ls_nccl_progress_tell(&n->progress, comm, word);
  if (comm->watch && comm->watch->give_up(comm->watch->user)) {
    char place[LS_COMM_WHERE_BYTES];
    return break_off(n, ls_fail(comm->ctx, LS_ERR_TIMEOUT, "%s: the supervisor ends the run, which hangs",
                                ls_comm_place(comm, place)));
  }
  if (!pending || still_ns < limit_ns) return LS_OK;
  return fail_timeout(n, ls_collective_name(pending->kind), pending->name, still_ns);
}

/* ---- the end ---- */

/* Lets work in progress finish, unless the communicator is broken. */
static bool finalize(ls_nccl_comm_t *n) {
  if (n->base.broken) return false;
  ncclResult_t result = n->nccl.ncclCommFinalize(n->comm);
  int64_t end_ns = ls_clock_ns() + END_S * INT64_C(1000000000);
  while (result == ncclInProgress && ls_clock_ns() < end_ns) {
    if (n->nccl.ncclCommGetAsyncError(n->comm, &result) != ncclSuccess) return false;
    if (result == ncclInProgress) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  return result == ncclSuccess;
}

/* False if NCCL did not end in time: its thread may still use everything, so nothing is freed. */
static bool wait_for_ending(ls_nccl_comm_t *n) {
  struct timespec until;
  if (!n->ending) return false;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += END_S;
  if (pthread_timedjoin_np(n->ending->thread, NULL, &until) == 0) return true;
  pthread_detach(n->ending->thread);
  ls_log(n->base.ctx, LS_LOG_WARN, "NCCL did not end within %d s and was left behind", END_S);
  return false;
}

static void destroy(ls_comm_t *comm) {
  ls_nccl_comm_t *n = nccl_of(comm);
  (void)cudaSetDevice(ls_cuda_device(n->device)->index);
  if (n->comm) {
    if (!n->ending) begin_ending(n, !finalize(n));
    if (!wait_for_ending(n)) return;
    ls_free(n->ending);
  }
  ls_cuda_buffer_ops.free(n->device, LS_MEM_DEVICE, n->token);
  ls_nccl_progress_close(&n->progress);
  if (n->owns_control) {
    n->control->broken |= n->base.broken; /* then nobody waits for the others */
    ls_comm_destroy(n->control);
  }
  ls_free(n);
}

/* ---- the beginning ---- */

/* NVLink multicast (NVLS) can leave a GPU unusable after a crash. One algorithm gives one order of adding, so
 * the same bits in every run. Values that the user has set are kept. */
static void set_defaults(void) {
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  setenv("NCCL_ALGO", "Ring", 0);
}

static ls_status_t share_id(ls_nccl_comm_t *n, ncclUniqueId *id) {
  ls_status_t status = LS_OK;
  if (n->control->rank == 0) {
    ncclResult_t result = n->nccl.ncclGetUniqueId(id);
    if (result != ncclSuccess) status = fail_nccl(n, result, "making an id");
  }
  status = ls_comm_agree(n->control, "preparing NCCL", status);
  return status ? status : ls_comm_broadcast(n->control, "NCCL id", id, sizeof *id, 0);
}

static ls_status_t init(ls_nccl_comm_t *n) {
  ncclUniqueId id;
  memset(&id, 0, sizeof id);
  ls_status_t status = share_id(n, &id);
  if (status) return status;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t result = n->nccl.ncclCommInitRankConfig(&n->comm, n->base.size, id, n->base.rank, &config);
  if (!n->comm) return fail_nccl(n, result, "joining the GPUs");
  return settle(n, result, "set-up", "joining the GPUs");
}

/* Computes one sum over all ranks: this makes connections before a step is captured, and checks the
 * result. */
static ls_status_t try_sum(ls_nccl_comm_t *n, ls_stream_t *stream, float *sum) {
  const ls_stream_ops_t *ops = &ls_cuda_stream_ops;
  ls_collective_t c = {.kind = LS_BARRIER, .name = "first sum", .comm = &n->base};
  int64_t end_ns = ls_clock_ns() + n->base.deadline_ns;
  int error = ls_kernel_fill(ls_cuda_stream(stream)->handle, 1, n->token, 1);
  ls_status_t status = ls_cuda_check(n->base.ctx, (cudaError_t)error, "the first sum over GPUs");
  if (!status) status = enqueue(stream, &c);
  if (!status) status = ops->copy(stream, sum, n->token, sizeof *sum);
  if (status) return status;
  while ((status = ops->sync(stream, 10000000)) == LS_ERR_TIMEOUT) {
    if (ls_clock_ns() > end_ns) return fail_timeout(n, "all-reduce", c.name, n->base.deadline_ns);
    ls_status_t state = poll(&n->base);
    if (state) return state;
  }
  return status;
}

static ls_status_t warm_up(ls_nccl_comm_t *n) {
  ls_stream_t *stream;
  void *sum;
  ls_status_t status = ls_cuda_buffer_ops.alloc(n->device, LS_MEM_HOST, sizeof(float), &sum);
  if (status) return status;
  status = ls_cuda_stream_ops.create(n->device, LS_STREAM_ASYNC, &stream);
  if (status) goto sum;
  status = try_sum(n, stream, sum);
  if (!status && *(float *)sum != (float)n->base.size)
    status = ls_fail(n->base.ctx, LS_ERR_COMM, "rank %d of %d: NCCL adds up %d ones to %g", n->base.rank,
                     n->base.size, n->base.size, (double)*(float *)sum);
  if (status) return status; /* the stream may never end: it is abandoned, with its memory */
  ls_cuda_stream_ops.destroy(stream);
sum:
  ls_cuda_buffer_ops.free(n->device, LS_MEM_HOST, sum);
  return status;
}

/* The part that this rank can do alone. */
static ls_status_t prepare(ls_nccl_comm_t *n) {
  void *token;
  ls_status_t status = ls_cuda_check(n->base.ctx, cudaSetDevice(ls_cuda_device(n->device)->index), "NCCL");
  if (!status) status = ls_nccl_library_open(n->base.ctx, &n->nccl);
  if (!status) status = ls_nccl_progress_open(n->base.ctx, &n->progress);
  if (!status) status = ls_cuda_buffer_ops.alloc(n->device, LS_MEM_DEVICE, 2 * sizeof(float), &token);
  if (status) return status;
  n->token = token;
  return ls_cuda_check(n->base.ctx, cudaMemset(token, 0, 2 * sizeof(float)), "NCCL");
}

/* A group has an NCCL communicator of its own, made over its own control communicator. */
static ls_status_t split(ls_comm_t *comm, const ls_split_t *how, ls_comm_t **sub) {
  ls_nccl_comm_t *n = nccl_of(comm);
  ls_comm_t *control = NULL;
  ls_status_t status = n->control->ops->split(n->control, how, &control);
  status = ls_comm_agree(n->control, how->name, status);
  if (!status && control) {
    status = ls_comm_nccl_create(comm->ctx, n->device, control, comm->deadline_ns, sub);
    if (!status) nccl_of(*sub)->owns_control = true;
  }
  if (!status || !control) return status;
  control->broken = true;
  ls_comm_destroy(control);
  return status;
}

static const ls_comm_ops_t nccl_ops = {.name = "nccl",
                                       .bind = bind,
                                       .enqueue = enqueue,
                                       .run = run,
                                       .poll = poll,
                                       .split = split,
                                       .destroy = destroy};

/* All ranks take part in every agreement, even after a failure. */
ls_status_t ls_comm_nccl_create(ls_ctx_t *ctx, ls_device_t *device, ls_comm_t *control, int64_t deadline_ns,
                                ls_comm_t **comm) {
  set_defaults();
  ls_nccl_comm_t *n = ls_alloc(ctx, sizeof *n);
  ls_status_t status = n ? LS_OK : LS_ERR_MEMORY;
  if (n) {
    n->base.ops = &nccl_ops;
    n->base.ctx = ctx;
    n->base.rank = control->rank;
    n->base.size = control->size;
    n->base.local_rank = control->local_rank;
    n->base.local_size = control->local_size;
    n->base.deadline_ns = deadline_ns > 0 ? deadline_ns : LS_COMM_DEADLINE_S * INT64_C(1000000000);
    n->control = control;
    n->device = device;
    status = prepare(n);
  }
  status = ls_comm_agree(control, "opening NCCL", status);
  if (!status) {
    status = init(n);
    if (!status) status = warm_up(n);
    status = ls_comm_agree(control, "starting NCCL", status);
  }
  if (status) {
    if (n) {
      n->base.broken = true;
      destroy(&n->base);
    }
    return status;
  }
  *comm = &n->base;
  return LS_OK;
}
