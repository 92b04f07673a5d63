/* A stand-in for the CUDA module, so that machines without a GPU test what only such a backend does: steps that are
 * captured, and run behind the host's back on several lanes. It is the device double of the schedule's tests under the
 * name "cuda": kernels are the ops' plain C versions, and ranks exchange data by their control communicator, in stream
 * order. Each stream takes memory of the device, as CUDA's do. LOCKSTEP_CUDA_MODULE names it; it is never installed. */
#include "graph/op.h"
#include "optim/optim.h"
#include "schedule/double.h"

#include <stdio.h>

enum { DEVICES = 4, STREAMS_MAX = 256, STREAM_BYTES = 1 << 16, SIDE_BYTES = 1 << 20 };
static const int64_t memory_bytes = INT64_C(4) << 30;

static ls_backend_t backend;

static ls_status_t open_device(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  ls_status_t status = double_capture.device->open(ctx, options, device);
  if (status) return status;
  (*device)->backend = &backend;
  snprintf((*device)->name, sizeof(*device)->name, "stand-in for a GPU");
  return LS_OK;
}

/* Streams with the memory that they take; one thread makes them. */
static struct {
  ls_stream_t *stream;
  void *memory;
} held[STREAMS_MAX];

static int place_of(const ls_stream_t *stream) {
  int i = 0;
  while (i < STREAMS_MAX && held[i].stream != stream)
    i++;
  return i;
}

static ls_status_t create_stream(ls_device_t *device, ls_stream_kind_t kind, ls_stream_t **stream) {
  const size_t size_bytes = kind == LS_STREAM_SIDE ? SIDE_BYTES : STREAM_BYTES;
  const int free_place = place_of(NULL);
  if (free_place == STREAMS_MAX) return ls_fail(device->ctx, LS_ERR_MEMORY, "too many streams");
  void **memory = &held[free_place].memory;
  ls_status_t status = backend.buffer->alloc(device, LS_MEM_DEVICE, size_bytes, memory);
  if (status) return status;
  status = double_capture.stream->create(device, kind, &held[free_place].stream);
  if (status) backend.buffer->free(device, LS_MEM_DEVICE, *memory);
  *stream = held[free_place].stream;
  return status;
}

static void destroy_stream(ls_stream_t *stream) {
  const int i = place_of(stream);
  if (!stream) return;
  backend.buffer->free(stream->device, LS_MEM_DEVICE, held[i].memory);
  held[i].stream = NULL;
  double_capture.stream->destroy(stream);
}

static int count(ls_ctx_t *ctx) {
  (void)ctx;
  return DEVICES;
}

static ls_status_t memory(ls_device_t *device, int64_t *used_bytes, int64_t *total_bytes) {
  *used_bytes = double_counts(device)->device_bytes;
  *total_bytes = memory_bytes;
  return LS_OK;
}

/* The double's memory is the host's in truth, so the control communicator can carry it. */
static ls_status_t connect_ranks(ls_ctx_t *ctx, ls_device_t *device, struct ls_comm *control,
                                 int64_t deadline_ns, struct ls_comm **comm) {
  (void)ctx, (void)device, (void)deadline_ns;
  *comm = control;
  return LS_OK;
}

LS_API const ls_cuda_module_t *ls_cuda_module(void);
const ls_cuda_module_t *ls_cuda_module(void) {
  static const ls_op_t *const *const lists[] = {ls_ops, ls_optim_ops};
  static ls_device_ops_t device_ops;
  static ls_stream_ops_t stream_ops;
  static const ls_cuda_module_t module = {
      .abi = LS_CUDA_ABI, .backend = &backend, .nccl_create = connect_ranks};
  double_ops(LS_COUNT(lists), lists);
  device_ops = *double_capture.device;
  device_ops.open = open_device;
  device_ops.count = count;
  device_ops.memory = memory;
  stream_ops = *double_capture.stream;
  stream_ops.create = create_stream;
  stream_ops.destroy = destroy_stream;
  backend = double_capture;
  backend.name = "cuda";
  backend.side_bytes = SIDE_BYTES;
  backend.device = &device_ops;
  backend.stream = &stream_ops;
  return &module;
}
