/* Devices, buffers and streams: one table per backend. Backends: ref (plain C), cpu (tuned, threads), null
 * (computes nothing, for dry runs), cuda (a module loaded at run time).
 *
 * A stream runs its work in order. Host backends have two kinds of streams: INLINE runs each call at once in the
 * calling thread, ASYNC has a thread of its own (the communication lane). On CUDA both are CUDA streams; INLINE has
 * the memory that kernels need to compute. A SIDE stream computes at the same time as an INLINE stream: on CUDA
 * with memory of its own and lower priority, on a host as ASYNC. An event marks a place in a stream; another stream
 * (or the host) waits for it. A stream keeps its first error: it skips later work, and sync returns the error.
 * Unless said otherwise one thread uses a device and its streams. */
#ifndef LS_DEVICE_DEVICE_H
#define LS_DEVICE_DEVICE_H

#include "base/base.h"
#include "device/kernel.h"

typedef struct ls_device ls_device_t;
typedef struct ls_event ls_event_t;
typedef struct ls_exec ls_exec_t; /* captured work, launched as one */
typedef struct ls_backend ls_backend_t;

/* train.precision. TF32: the factors of f32 products may be rounded to 10 bits of mantissa (for tensor cores), sums
 * stay f32. BF16, FP16: values between ops are 16-bit floats where ops take them (graph/low.h); products of f32 are
 * those of FP32. */
typedef enum { LS_MATH_FP32, LS_MATH_TF32, LS_MATH_BF16, LS_MATH_FP16, LS_MATH_COUNT } ls_math_t;
extern const char *const ls_math_names[LS_MATH_COUNT + 1]; /* "fp32", .., NULL */
ls_dtype_t ls_math_low(ls_math_t math);                    /* LS_BF16, LS_F16; LS_F32 for the first two */

typedef struct {
  int index;   /* which GPU; ignored by host backends */
  int threads; /* host backends: threads of the compute pool, >= 1 */
  /* Results depend neither on the number of threads nor on the addresses of a kernel's operands: work is cut
   * into parts by its size alone. Costs some speed. */
  bool reproducible;
  /* Every number of a product or convolution is a sum of its factors' products, each rounded to f32 (or as `math` says).
   * Otherwise a device may take faster ways of about the same error: Winograd's, split factors. */
  bool strict_sums;
  ls_math_t math; /* one that the backend has (ls_backend_check_math) */
} ls_device_options_t;

typedef enum { LS_STREAM_INLINE, LS_STREAM_ASYNC, LS_STREAM_SIDE } ls_stream_kind_t;
typedef enum { LS_MEM_DEVICE, LS_MEM_HOST } ls_mem_t; /* HOST: reachable by both, pinned on CUDA */
typedef ls_status_t (*ls_host_fn)(void *arg);

/* Every backend's objects begin with these. */
struct ls_device {
  const ls_backend_t *backend;
  ls_ctx_t *ctx;
  ls_math_t math;
  char name[64];  /* "cpu, 2 threads"; "NVIDIA H200" */
  uint64_t epoch; /* advances after every change of a state (ls_state_changed) */
};
struct ls_stream {
  ls_device_t *device;
};

typedef struct {
  ls_status_t (*open)(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device);
  void (*close)(ls_device_t *device);
  /* This backend's version of an op, by op name; NULL if it has none. `device` may be NULL. */
  ls_kernel_fn (*kernel)(const ls_device_t *device, const char *op);
  /* True if that version takes 16-bit floats of this dtype in the tensors for which the op's row allows them. NULL:
   * none does. */
  bool (*low)(const ls_device_t *device, const char *op, ls_dtype_t dtype);
  int (*count)(ls_ctx_t *ctx); /* devices present; host backends: 1 */
  /* Bytes of the device's memory in use (by any process), and in total. NULL: its memory is the host's. */
  ls_status_t (*memory)(ls_device_t *device, int64_t *used_bytes, int64_t *total_bytes);
  /* Lets this device access the memory of device `index` of this process directly. Copies between the two then go
   * that way. *direct says whether the machine allows it; otherwise copies go through the host's memory. NULL:
   * there is only one memory. */
  ls_status_t (*reach)(ls_device_t *device, int index, bool *direct);
  /* Block k, counted from 0, of the memory that kernels on this stream use besides their arguments. Its contents
   * are undefined between kernels (tests fill it with NaN). Returns NULL after the last block. A backend without
   * such memory has no function. */
  void *(*room)(ls_stream_t *stream, int k, size_t *size_bytes);
} ls_device_ops_t;

typedef struct {
  /* 256-byte aligned, zeroed. Reports LS_ERR_MEMORY. */
  ls_status_t (*alloc)(ls_device_t *device, ls_mem_t mem, size_t size_bytes, void **memory);
  void (*free)(ls_device_t *device, ls_mem_t mem, void *memory);
  size_t page_bytes; /* device memory is taken in pages of this size; allocations under half of one share
                        pages */
} ls_buffer_ops_t;

typedef struct {
  ls_status_t (*create)(ls_device_t *device, ls_stream_kind_t kind, ls_stream_t **stream);
  void (*destroy)(ls_stream_t *stream);
  /* Copies in any direction between host and device memory. Host memory must stay valid until the copy has run. */
  ls_status_t (*copy)(ls_stream_t *stream, void *to, const void *from, size_t size_bytes);
  /* Calls fn(arg) in stream order on the host. Not while capturing. `arg` stays valid until it has run. */
  ls_status_t (*call)(ls_stream_t *stream, ls_host_fn fn, void *arg);
  /* Runs a kernel in stream order. ASYNC host streams queue it; args stay valid until it has run. */
  ls_status_t (*launch)(ls_stream_t *stream, ls_kernel_fn kernel, const ls_kernel_args_t *args);
  ls_status_t (*event_create)(ls_device_t *device, bool timed, ls_event_t **event);
  void (*event_destroy)(ls_event_t *event);
  ls_status_t (*record)(ls_stream_t *stream, ls_event_t *event);
  /* Later work on the stream waits for the event's newest record. INLINE host streams block here. */
  ls_status_t (*wait)(ls_stream_t *stream, ls_event_t *event);
  /* Makes the host wait until everything on the stream has run, at most deadline_ns (0 = for ever). Returns the
   * stream's first error or LS_ERR_TIMEOUT (not reported: the caller knows what it was waiting for). */
  ls_status_t (*sync)(ls_stream_t *stream, int64_t deadline_ns);
  /* Nanoseconds between two timed events that have both passed. */
  ls_status_t (*elapsed)(ls_event_t *from, ls_event_t *to, int64_t *ns);
} ls_stream_ops_t;

/* Captures everything put on `stream` (and on streams that join it through events) into one launch. NULL
 * table: the backend cannot; the caller issues every task each time. */
typedef struct {
  ls_status_t (*begin)(ls_stream_t *stream);
  ls_status_t (*end)(ls_stream_t *stream, ls_exec_t **exec);
  ls_status_t (*launch)(ls_exec_t *exec, ls_stream_t *stream);
  void (*destroy)(ls_exec_t *exec);
} ls_capture_ops_t;

struct ls_backend {
  const char *name;
  /* Independent facts; a backend of processors has the first four. */
  bool host_memory; /* its memory is the host's: inputs need no copy, all ranks of a host share it */
  bool plain_c;     /* op rows' plain C versions run on it, on streams of device/host */
  bool
      synchronous; /* work on an inline stream has run when the call returns: the host's clock times it, and no step lags */
  bool host_processors; /* its ranks compute on the host's processors, and slow each other */
  bool threaded;        /* kernels use the threads with which the device was opened */
  bool tf32;            /* supports LS_MATH_TF32; every backend supports the others */
  /* Device memory of a SIDE stream. 0: the backend does not compute on two streams at once (a host's kernels share its
   * threads). */
  size_t side_bytes;
  size_t captured_bytes; /* device memory that each collective of a captured step keeps */
  const ls_device_ops_t *device;
  const ls_buffer_ops_t *buffer;
  const ls_stream_ops_t *stream;
  const ls_capture_ops_t *capture;
};

extern const ls_backend_t ls_backend_ref, ls_backend_cpu, ls_backend_null;

extern const char *const ls_backend_names[]; /* names for ls_backend_find; NULL-terminated */
const ls_backend_t *
ls_backend_host(const char *name); /* a backend that needs no module; NULL: none of that name */
/* Finds "ref", "cpu", "null", "cuda" or "auto" (cuda if its module loads and a device answers, else cpu). Reports
 * LS_ERR_UNSUPPORTED with the missing part and its cause if cuda is missing. The table is static. */
ls_status_t ls_backend_find(ls_ctx_t *ctx, const char *name, const ls_backend_t **backend);

/* Reports LS_ERR_CONFIG, naming train.precision, the backend and the remedy, if the backend lacks `math`. */
ls_status_t ls_backend_check_math(ls_ctx_t *ctx, const ls_backend_t *backend, ls_math_t math);
/* The backend's name in keys of measured times: "cuda", or with another arithmetic "cuda tf32". */
enum { LS_BACKEND_KEY_BYTES = 32 };
const char *ls_backend_key(const ls_backend_t *backend, ls_math_t math, char buf[LS_BACKEND_KEY_BYTES]);

/* The thread pool of a host's compute stream; NULL on other streams. For kernels. */
ls_pool_t *ls_stream_pool(ls_stream_t *stream);

/* The CUDA module: a shared object, searched in $LOCKSTEP_CUDA_MODULE, next to the program or library
 * (../lib/lockstep and .), and in the installed directory. It carries its own copy of base. */
struct ls_comm;
typedef struct {
  int abi; /* LS_CUDA_ABI */
  const ls_backend_t *backend;
  /* NCCL communicator over the ranks of `control` (a host communicator, borrowed, used to share the id).
   * Collective. NULL when built without NCCL. */
  ls_status_t (*nccl_create)(ls_ctx_t *ctx, ls_device_t *device, struct ls_comm *control, int64_t deadline_ns,
                             struct ls_comm **comm);
} ls_cuda_module_t;
enum { LS_CUDA_ABI = 15 };
typedef const ls_cuda_module_t *(*ls_cuda_module_fn)(void);
#define LS_CUDA_MODULE_SYMBOL "ls_cuda_module"
#define LS_CUDA_MODULE_FILE   "lockstep_cuda.so"
/* Loads the module (kept open until the process ends; safe to call again). */
ls_status_t ls_cuda_module_load(ls_ctx_t *ctx, const ls_cuda_module_t **module);

#endif
