/* Internals of the NCCL transport. NCCL is opened at run time, so that the CUDA module also loads without it. Its
 * communicator never blocks (blocking = 0), so that every wait can end at a deadline. */
#ifndef LS_COMM_NCCL_NCCL_H
#define LS_COMM_NCCL_NCCL_H

#include "comm/comm.h"
#include "device/cuda/cuda.h"
#include <nccl.h>

#define LS_NCCL_FUNCTIONS(X)                                                                                 \
  X(ncclGetUniqueId)                                                                                         \
  X(ncclCommInitRankConfig)                                                                                  \
  X(ncclCommGetAsyncError)                                                                                   \
  X(ncclCommFinalize)                                                                                        \
  X(ncclCommDestroy)                                                                                         \
  X(ncclCommAbort)                                                                                           \
  X(ncclAllReduce)                                                                                           \
  X(ncclReduceScatter)                                                                                       \
  X(ncclAllGather)                                                                                           \
  X(ncclBroadcast)                                                                                           \
  X(ncclSend)                                                                                                \
  X(ncclRecv)                                                                                                \
  X(ncclGetErrorString)                                                                                      \
  X(ncclGetLastError)

typedef struct {
  void *library;
#define LS_NCCL_POINTER(name) __typeof__(name) *name;
  LS_NCCL_FUNCTIONS(LS_NCCL_POINTER)
#undef LS_NCCL_POINTER
} ls_nccl_library_t;

/* Opened once and kept: NCCL's own threads outlive a communicator. */
ls_status_t ls_nccl_library_open(ls_ctx_t *ctx, ls_nccl_library_t *library);

/* The progress of collectives on streams. After each collective, a kernel of one thread writes a word of host memory, in
 * a captured step too: the collective's number, and above it how many have run. Numbers follow kind and name, in the
 * order in which a run binds its collectives, so the entry after the word's is the pending one. */
enum { LS_NCCL_PROGRESS_MAX = 256, LS_NCCL_NAME_BYTES = 64 };
typedef struct {
  ls_collective_kind_t kind;
  char name[LS_NCCL_NAME_BYTES];
  int64_t count; /* elements of this type */
  ls_dtype_t dtype;
} ls_nccl_entry_t;
typedef struct {
  volatile uint64_t
      *word; /* lower half 0: none has run; n: entry n - 1 has run last. Upper half: how many have */
  uint64_t *device_word; /* the same word as the GPU sees it */
  uint32_t count;
  ls_nccl_entry_t entry[LS_NCCL_PROGRESS_MAX];
  uint64_t last_word; /* the word at the last look, and the time since which it has not changed */
  int64_t last_step, last_poll_ns, still_since_ns;
  uint64_t told,
      mark; /* the collective of which a watcher has heard last: its number, and the watcher's mark */
} ls_nccl_progress_t;

ls_status_t ls_nccl_progress_open(ls_ctx_t *ctx, ls_nccl_progress_t *progress);
void ls_nccl_progress_close(ls_nccl_progress_t *progress);
/* The mark to write after *c; 0 = none, the table is full. */
uint32_t ls_nccl_progress_number(ls_nccl_progress_t *progress, const ls_collective_t *c);
/* The entry that follows `word`; NULL if nothing was put on a stream yet. */
const ls_nccl_entry_t *ls_nccl_progress_pending(const ls_nccl_progress_t *progress, uint64_t word);
/* Tells the watcher of `comm`, if it has one, of the collective that has run last and of the one that the GPU waits for,
 * once each. Called while the host waits. */
void ls_nccl_progress_tell(ls_nccl_progress_t *progress, const ls_comm_t *comm, uint64_t word);
/* Called while the host waits. Returns the time since the last progress, 0 at the first look at a step. A
 * long pause between two looks means that nobody was waiting, and restarts the count. */
int64_t ls_nccl_progress_still_ns(ls_nccl_progress_t *progress, int64_t step, int64_t now_ns,
                                  int64_t pause_ns);

#endif
