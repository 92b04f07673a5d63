/* Inside the CUDA module: devices, streams and events, and the conversion of a CUDA error to a status. The
 * module is C over the CUDA runtime; kernels live in .cu files behind device/cuda/kernels.h. */
#ifndef LS_DEVICE_CUDA_CUDA_H
#define LS_DEVICE_CUDA_CUDA_H

#include "device/cuda/blas.h"
#include "device/cuda/dnn.h"
#include "device/device.h"
#include <cuda_runtime_api.h>

/* Products of different shape that a device remembers; cuBLASLt's workspace on compute streams (what its
 * manual advises for Hopper); reductions' scratch on every stream; what NCCL 2.28 keeps for each collective in a graph
 * (docs/results.md: 0.34 to 0.42 MB on two H200); host calls in flight on a stream; how long destroying a stream waits for
 * it. */
enum {
  LS_CUDA_PRODUCT_MAX = 512,
  LS_CUDA_WORKSPACE_BYTES = 32 << 20,
  LS_CUDA_SCRATCH_BYTES = 1 << 20,
  LS_CUDA_CAPTURED_BYTES = 380000,
  LS_CUDA_CALL_MAX = 64,
  LS_CUDA_DESTROY_S = 10,
};

typedef struct ls_way_choice ls_way_choice_t; /* ways.c */

typedef struct {
  ls_device_t base;
  int index;
  ls_blas_t blas;
  ls_dnn_t dnn;
  void *side_dnn;    /* cuDNN's handle for SIDE streams; NULL: none yet. One of them convolves at a time */
  int side_streams;  /* that there are */
  bool reproducible; /* see ls_device_options_t */
  bool strict;
  ls_way_choice_t *choice; /* how ops are computed: a list */
  long choices_read;       /* bytes of their file */
  bool failed;             /* a stream has reported an error of CUDA's */
  bool hung;               /* something on it did not end, and freeing memory would wait for it */
  int product_count;
  ls_blas_product_t *product; /* LS_CUDA_PRODUCT_MAX */
} ls_cuda_device_t;

typedef struct ls_cuda_stream ls_cuda_stream_t;
typedef struct {
  ls_cuda_stream_t *stream;
  ls_host_fn fn;
  void *arg;
} ls_cuda_call_t;

struct ls_cuda_stream {
  ls_stream_t base;
  cudaStream_t handle;
  void *workspace; /* cuBLASLt's; contents undefined between kernels. NULL on ASYNC streams */
  size_t workspace_bytes;
  bool tries;         /* ways.c: what fails is no error */
  bool side;          /* convolves with the device's side_dnn */
  void *scratch;      /* partial results of reductions; its first LS_KERNEL_COUNTER_BYTES stay zero */
  _Atomic int status; /* first error of anything on the stream */
  uint64_t calls_put; /* host calls: a ring */
  _Atomic uint64_t calls_done;
  ls_cuda_call_t call[LS_CUDA_CALL_MAX];
};

struct ls_event {
  ls_device_t *device;
  cudaEvent_t handle;
  bool timed;
};

struct ls_exec {
  ls_device_t *device;
  cudaGraphExec_t handle;
};

static inline ls_cuda_device_t *ls_cuda_device(ls_device_t *device) {
  return (ls_cuda_device_t *)device;
}
static inline ls_cuda_stream_t *ls_cuda_stream(ls_stream_t *stream) {
  return (ls_cuda_stream_t *)stream;
}

/* LS_OK for cudaSuccess; else reports "what: CUDA's text" and clears CUDA's record of the error. */
ls_status_t ls_cuda_check(ls_ctx_t *ctx, cudaError_t error, const char *what);
/* Keeps the stream's first error; returns the status that the stream has now. */
ls_status_t ls_cuda_stream_keep(ls_cuda_stream_t *stream, ls_status_t status);
ls_status_t ls_cuda_stream_status(const ls_cuda_stream_t *stream);

void ls_cuda_forget_choices(ls_cuda_device_t *device);

/* The module's version of an op. */
ls_kernel_fn ls_cuda_kernel(const ls_device_t *device, const char *op);
bool ls_cuda_low(const ls_device_t *device, const char *op, ls_dtype_t dtype);

/* Convolutions that are products of matrices (linear.c). */
typedef enum { LS_CUDA_CONV, LS_CUDA_CONV_DX, LS_CUDA_CONV_DW } ls_cuda_conv_t;
bool ls_cuda_conv_is_product(const ls_attrs_t *attrs, const ls_shape_t *w);
ls_status_t ls_cuda_conv_product(ls_stream_t *stream, const ls_kernel_args_t *args, ls_cuda_conv_t pass,
                                 int way);

extern const ls_device_ops_t ls_cuda_device_ops;
extern const ls_buffer_ops_t ls_cuda_buffer_ops;
extern const ls_stream_ops_t ls_cuda_stream_ops;
extern const ls_capture_ops_t ls_cuda_capture_ops;
extern const ls_backend_t ls_backend_cuda;

/* Communicator over NCCL (comm/nccl); see ls_cuda_module_t. */
ls_status_t ls_comm_nccl_create(ls_ctx_t *ctx, ls_device_t *device, struct ls_comm *control,
                                int64_t deadline_ns, struct ls_comm **comm);

#endif
