/* Communicators: N ranks that exchange buffers: self (one rank), sim (N threads of one process), shm (processes of one
 * host that this program started), mpi (processes that a launcher started), nccl (GPUs, in the CUDA module).
 *
 * All ranks issue the same collectives in the same order. Sums are in a fixed order for a given world size,
 * so the same data give the same bits: on a host rank 0 + rank 1 + .., on GPUs the order of NCCL's ring. 16-bit
 * floats are added in f32; a host rounds the whole sum once, NCCL each of its partial sums. Every wait has a deadline; when it passes, the error names rank, step
 * and collective (LS_ERR_TIMEOUT), and the communicator is broken: further calls return
 * LS_ERR_COMM at once.
 *
 * A collective that streams run is bound to its communicator once; a step then allocates nothing here. */
#ifndef LS_COMM_COMM_H
#define LS_COMM_COMM_H

#include "device/device.h"

typedef struct ls_comm ls_comm_t;

typedef enum {
  LS_ALL_REDUCE,     /* recv (count) = sum over ranks of send (count); send == recv allowed */
  LS_REDUCE_SCATTER, /* recv (count) = this rank's part of the sum of send (size * count) */
  LS_ALL_GATHER,     /* recv (size * count) = every rank's send (count), in rank order */
  LS_BROADCAST,      /* recv (count) = root's send (count) */
  LS_SEND,           /* between two ranks: the other's LS_RECV receives send (count) */
  LS_RECV,           /* recv (count) = what the other rank sends */
  LS_BARRIER,
  LS_COLLECTIVE_COUNT
} ls_collective_kind_t;

typedef struct {
  ls_collective_kind_t kind;
  const char *name; /* "gradients 3"; for messages and traces */
  const void *send;
  void *recv;
  int64_t count;    /* elements, see above */
  ls_dtype_t dtype; /* reductions: a dtype whose row says `sums`; other kinds: any */
  int root;
  /* Written by ls_comm_bind. */
  ls_comm_t *comm;
  uint32_t number; /* the transport's own */
} ls_collective_t;

/* A group of ranks, as this rank sees it. */
typedef struct {
  const char *name;  /* "group NAME", for messages */
  const int *member; /* [size]: ranks of the communicator, in the group's order */
  int rank, size;    /* this rank's number in the group; size 0: this rank is not a member */
} ls_split_t;

typedef struct {
  const char *name;
  /* Writes what the transport needs into a collective with valid arguments, and registers its buffers. Collective: all
   * ranks bind the same collectives in the same order. NULL: nothing to do. */
  ls_status_t (*bind)(ls_comm_t *comm, ls_collective_t *c);
  /* Puts a bound collective on a stream (host transports: a host stream; nccl: a CUDA stream, which may be
   * captured). Never allocates, searches or checks. *c and its buffers stay valid until it has run. */
  ls_status_t (*enqueue)(ls_stream_t *stream, ls_collective_t *c);
  /* Runs a collective now on host memory; blocking. nccl passes it to its control communicator. Needs no
   * bind. */
  ls_status_t (*run)(ls_comm_t *comm, const ls_collective_t *c);
  /* Polled while the host waits for a device: LS_OK, or the asynchronous error of the transport. */
  ls_status_t (*poll)(ls_comm_t *comm);
  /* Makes the communicator of this rank's group (*sub is unchanged if this rank is in none). Collective. A
   * rank that fails says so afterwards, in ls_comm_group. NULL: no groups. */
  ls_status_t (*split)(ls_comm_t *comm, const ls_split_t *split, ls_comm_t **sub);
  /* Ends this process and with it all ranks; the first rank's exit code becomes the run's. NULL: it has only this rank. */
  void (*end_all)(ls_comm_t *comm, int exit_code);
  void (*destroy)(ls_comm_t *comm);
} ls_comm_ops_t;

/* Told of the collectives that this rank enters and leaves, by the thread that does. Each line of them (a group's
 * control collectives, those in steps, those of devices) is numbered from 1, alike on all ranks. A device runs captured
 * steps by itself: its collectives are told while the host waits for it, the last one and the one that it waits for. */
typedef enum { LS_LINE_CONTROL, LS_LINE_DATA, LS_LINE_DEVICE } ls_comm_line_t;
typedef struct {
  uint64_t (*enter)(void *user, const ls_comm_t *comm, const ls_collective_t *c, ls_comm_line_t line,
                    uint64_t number); /* returns a mark */
  void (*leave)(void *user, ls_comm_line_t line, uint64_t mark);
  bool (*give_up)(void *user); /* whether a wait for a device is to end */
  void *user;
} ls_comm_watch_t;

enum { LS_GROUP_NAME_BYTES = 48, LS_SPLIT_NAME_BYTES = LS_GROUP_NAME_BYTES + 8 };

/* Every transport's object begins with this. */
struct ls_comm {
  const ls_comm_ops_t *ops;
  ls_ctx_t *ctx;
  char group[LS_GROUP_NAME_BYTES]; /* for messages; "" = all ranks */
  int rank, size;
  int local_rank; /* among the ranks of this node */
  int local_size;
  int64_t deadline_ns;          /* of each wait; > 0 */
  _Atomic int64_t step;         /* for messages; set by the loop */
  const ls_comm_watch_t *watch; /* NULL: nobody watches. Groups made later are watched, too. */
  _Atomic bool broken;
};

enum { LS_COMM_DEADLINE_S = 60 };

ls_status_t ls_comm_self_create(ls_ctx_t *ctx, ls_comm_t **comm);
/* comms[0..size-1], one per thread; destroy each. deadline_ns 0 = default. */
ls_status_t ls_comm_sim_create(ls_ctx_t *ctx, int size, int64_t deadline_ns, ls_comm_t **comms);
/* MPI_COMM_WORLD of this process (calls MPI_Init_thread if needed, and MPI_Finalize in destroy if it did).
 * Collective. */
ls_status_t ls_comm_mpi_create(ls_ctx_t *ctx, int64_t deadline_ns, ls_comm_t **comm);
/* All ranks of the run of which this process is one: shm or mpi, by who started it; self if it was started by hand. Once
 * per process. Collective. A rank that fails leaves through ls_comm_abort, which ends the others. */
ls_status_t ls_comm_world_create(ls_ctx_t *ctx, int64_t deadline_ns, ls_comm_t **comm);
void ls_comm_abort(ls_comm_t *comm, int exit_code); /* returns only if there is one rank */

/* World size and rank of this process, as whoever started it set them in its environment: this program, mpirun or srun.
 * False if the process was started by hand. */
bool ls_comm_launched(int *rank, int *size);

void ls_comm_destroy(ls_comm_t *comm); /* NULL is allowed */

/* Makes a communicator of ranks[0..count-1] of `comm`, each once, numbered in this order; for other ranks *sub
 * becomes NULL. Collective over `comm`, while its streams are idle: all ranks give the same name, which every
 * message of the group carries, and the same members. The group starts with the deadline of `comm` and breaks
 * alone. Its members destroy it before `comm`. All ranks succeed or none: LS_ERR_TIMEOUT names the group if a
 * rank does not come, LS_ERR_MEMORY. */
ls_status_t ls_comm_group(ls_comm_t *comm, const char *name, const int *ranks, int count, ls_comm_t **sub);

/* Call it once for each collective that streams will run, when its addresses are known. Checks the arguments
 * and lets the transport write what it needs into *c. After that ls_comm_enqueue may be called any number of
 * times, and a step allocates nothing here. Collective, as the transport may exchange addresses. LS_ERR_ARGUMENT, or the
 * transport's own error; *c is then not bound. */
ls_status_t ls_comm_bind(ls_comm_t *comm, ls_collective_t *c);
/* LS_ERR_COMM when the communicator is broken, LS_ERR_ARGUMENT (not reported) when *c is not bound. */
static inline ls_status_t ls_comm_enqueue(ls_stream_t *stream, ls_collective_t *c) {
  return c->comm ? c->comm->ops->enqueue(stream, c) : LS_ERR_ARGUMENT;
}

static inline void ls_comm_set_step(ls_comm_t *comm, int64_t step) {
  comm->step = step;
}

/* Conveniences over ops->run, on host memory. */
ls_status_t ls_comm_sum_f64(ls_comm_t *comm, const char *name, double *values, int64_t count);
ls_status_t ls_comm_broadcast(ls_comm_t *comm, const char *name, void *bytes, int64_t size_bytes, int root);
/* all: size_bytes of every rank. */
ls_status_t ls_comm_gather(ls_comm_t *comm, const char *name, const void *own, int64_t size_bytes, void *all);
ls_status_t ls_comm_barrier(ls_comm_t *comm, const char *name);
/* Tells every rank whether any failed. Returns this rank's status if it is an error, else that of the failed
 * ranks (LS_ERR_COMM if theirs differ), else LS_OK. A job thus ends with the exit code of the cause,
 * whichever rank ends it. */
ls_status_t ls_comm_agree(ls_comm_t *comm, const char *name, ls_status_t own);
/* The same where the ranks that have failed did it for all, and have said so. */
ls_status_t ls_comm_agree_silently(ls_comm_t *comm, const char *name, ls_status_t own);

const char *ls_collective_name(ls_collective_kind_t kind); /* "all-reduce" */
/* LS_ERR_ARGUMENT, reported, unless the arguments of *c fit each other and the communicator. */
ls_status_t ls_collective_check(const ls_comm_t *comm, const ls_collective_t *c);
/* "rank 1 of 3, step 7, all-reduce "gradients 3"": the beginning of every message of a transport; in a group
 * "rank 0 of 2 of group "stage 1", step ..". */
enum { LS_COMM_WHERE_BYTES = 256 };
const char *ls_comm_place(const ls_comm_t *comm, char buf[LS_COMM_WHERE_BYTES]); /* up to the step */
const char *ls_comm_where(const ls_comm_t *comm, const ls_collective_t *c, char buf[LS_COMM_WHERE_BYTES]);
/* Bytes of the buffer that a rank gives, or receives. */
int64_t ls_collective_bytes(const ls_collective_t *c);
/* Shared memory that a rank touches if `size` ranks of one host make collectives of up to so many bytes. */
int64_t ls_comm_shared_bytes(int size, int64_t largest_bytes);
/* Bytes one rank sends in the ideal algorithm (nccl-tests' bus bytes). */
int64_t ls_collective_bus_bytes(ls_collective_kind_t kind, int64_t count, ls_dtype_t dtype, int size);

#endif
