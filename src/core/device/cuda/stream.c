/* Streams and events. All kinds are CUDA streams that do not wait for the legacy one; those that compute (INLINE, SIDE)
 * also have cuBLASLt's workspace. What a kernel or library needs beside its operands belongs to the stream, so two
 * streams may compute at once. The first error sticks to a stream. */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>

_Static_assert(LS_CUDA_SCRATCH_BYTES >= LS_KERNEL_COUNTER_BYTES + LS_KERNEL_PARTIAL_MAX * sizeof(double),
               "scratch holds the counter and the partial results");

ls_status_t ls_cuda_stream_status(const ls_cuda_stream_t *stream) {
  return (ls_status_t)atomic_load(&stream->status);
}

ls_status_t ls_cuda_stream_keep(ls_cuda_stream_t *stream, ls_status_t status) {
  int none = LS_OK;
  if (status != LS_OK) atomic_compare_exchange_strong(&stream->status, &none, (int)status);
  return ls_cuda_stream_status(stream);
}

/* Reports a CUDA error and makes it stick. Further errors of a broken device on its other streams are not
 * reported. */
static ls_status_t keep(ls_stream_t *stream, cudaError_t error, const char *what) {
  ls_cuda_device_t *device = ls_cuda_device(stream->device);
  ls_ctx_t *ctx = device->failed ? NULL : stream->device->ctx;
  if (error != cudaSuccess) device->failed = true;
  return ls_cuda_stream_keep(ls_cuda_stream(stream), ls_cuda_check(ctx, error, what));
}

/* Blocks of a SIDE stream start where no others are ready to; in graphs, too (capture.c). */
static cudaError_t create_handle(ls_stream_kind_t kind, cudaStream_t *handle) {
  int least = 0, greatest = 0;
  cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  if (error != cudaSuccess) return error;
  return cudaStreamCreateWithPriority(handle, cudaStreamNonBlocking,
                                      kind == LS_STREAM_SIDE ? least : greatest);
}

static ls_status_t create(ls_device_t *device, ls_stream_kind_t kind, ls_stream_t **stream) {
  const ls_buffer_ops_t *buffer = &ls_cuda_buffer_ops;
  ls_cuda_stream_t *s = ls_alloc(device->ctx, sizeof *s);
  if (!s) return LS_ERR_MEMORY;
  s->base.device = device;
  s->side = kind == LS_STREAM_SIDE;
  ls_status_t status = buffer->alloc(device, LS_MEM_DEVICE, LS_CUDA_SCRATCH_BYTES, &s->scratch);
  if (status) goto stream;
  if (kind != LS_STREAM_ASYNC) {
    status = buffer->alloc(device, LS_MEM_DEVICE, LS_CUDA_WORKSPACE_BYTES, &s->workspace);
    if (status) goto scratch;
    s->workspace_bytes = LS_CUDA_WORKSPACE_BYTES;
  }
  status = ls_cuda_check(device->ctx, create_handle(kind, &s->handle), "creating a stream");
  if (status) goto workspace;
  ls_cuda_device(device)->side_streams += s->side;
  *stream = &s->base;
  return LS_OK;
workspace:
  buffer->free(device, LS_MEM_DEVICE, s->workspace);
scratch:
  buffer->free(device, LS_MEM_DEVICE, s->scratch);
stream:
  ls_free(s);
  return status;
}

static ls_status_t sync(ls_stream_t *stream, int64_t deadline_ns);

/* Waits for the work on the stream, with a limit; beyond it the GPU counts as hung. */
static void destroy(ls_stream_t *stream) {
  if (!stream) return;
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_cuda_device_t *device = ls_cuda_device(stream->device);
  (void)cudaSetDevice(device->index);
  if (sync(stream, LS_CUDA_DESTROY_S * INT64_C(1000000000)) == LS_ERR_TIMEOUT) {
    ls_log(stream->device->ctx, LS_LOG_WARN, "%s: work that does not end was left behind",
           stream->device->name);
    device->hung = true;
    return;
  }
  device->side_streams -= s->side;
  (void)cudaStreamDestroy(s->handle);
  (void)cudaGetLastError();
  ls_cuda_buffer_ops.free(stream->device, LS_MEM_DEVICE, s->workspace);
  ls_cuda_buffer_ops.free(stream->device, LS_MEM_DEVICE, s->scratch);
  ls_free(s);
}

static bool reached_by_kernels(const void *host) {
  struct cudaPointerAttributes a;
  cudaError_t error = cudaPointerGetAttributes(&a, host);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error == cudaSuccess && a.type == cudaMemoryTypeHost && a.devicePointer == host;
}

/* Between device and pinned memory. Before and after a copy by the copy engine, which a node of a graph would be, the GPU
 * takes some microseconds longer than between kernels. */
static bool few_words(const void *to, const void *from, size_t size_bytes) {
  uintptr_t bits = (uintptr_t)to | (uintptr_t)from | size_bytes;
  return size_bytes <= LS_KERNEL_COPY_BYTES && bits % sizeof(uint32_t) == 0 &&
         (reached_by_kernels(to) || reached_by_kernels(from));
}

static ls_status_t copy(ls_stream_t *stream, void *to, const void *from, size_t size_bytes) {
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_status_t status = ls_cuda_stream_status(s);
  if (status || size_bytes == 0) return status;
  if (few_words(to, from, size_bytes))
    return keep(stream, (cudaError_t)ls_kernel_copy(s->handle, to, from, size_bytes), "copying memory");
  return keep(stream, cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, s->handle), "copying memory");
}

static void CUDART_CB run_call(void *arg) {
  ls_cuda_call_t *call = arg;
  if (ls_cuda_stream_status(call->stream) == LS_OK) ls_cuda_stream_keep(call->stream, call->fn(call->arg));
  atomic_fetch_add(&call->stream->calls_done, 1);
}

/* Calls run in order, so the ring's oldest entry is free once calls_done has passed it. */
static ls_status_t call(ls_stream_t *stream, ls_host_fn fn, void *arg) {
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  while (s->calls_put - atomic_load(&s->calls_done) >= LS_CUDA_CALL_MAX) {
    ls_status_t status = ls_cuda_stream_status(s);
    if (status == LS_OK && cudaStreamQuery(s->handle) == cudaErrorNotReady)
      sched_yield();
    else if (status)
      return status;
    else
      return keep(stream, cudaStreamQuery(s->handle), "waiting for a host call");
  }
  ls_status_t status = ls_cuda_stream_status(s);
  if (status) return status;
  ls_cuda_call_t *slot = &s->call[s->calls_put % LS_CUDA_CALL_MAX];
  *slot = (ls_cuda_call_t){s, fn, arg};
  status = keep(stream, cudaLaunchHostFunc(s->handle, run_call, slot), "calling the host from a stream");
  if (status == LS_OK) s->calls_put++;
  return status;
}

static ls_status_t launch(ls_stream_t *stream, ls_kernel_fn kernel, const ls_kernel_args_t *args) {
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_status_t status = ls_cuda_stream_status(s);
  return status ? status : ls_cuda_stream_keep(s, kernel(stream, args));
}

static ls_status_t event_create(ls_device_t *device, bool timed, ls_event_t **event) {
  ls_status_t status =
      ls_cuda_check(device->ctx, cudaSetDevice(ls_cuda_device(device)->index), "creating an event");
  if (status) return status;
  ls_event_t *e = ls_alloc(device->ctx, sizeof *e);
  if (!e) return LS_ERR_MEMORY;
  e->device = device;
  e->timed = timed;
  status = ls_cuda_check(
      device->ctx, cudaEventCreateWithFlags(&e->handle, timed ? cudaEventDefault : cudaEventDisableTiming),
      "creating an event");
  if (status) {
    ls_free(e);
    return status;
  }
  *event = e;
  return LS_OK;
}

static void event_destroy(ls_event_t *event) {
  if (!event) return;
  (void)cudaEventDestroy(event->handle);
  (void)cudaGetLastError();
  ls_free(event);
}

/* A timed event that is captured becomes a node of the graph: each launch records it. Any other captured event only
 * orders what is captured. */
static ls_status_t record(ls_stream_t *stream, ls_event_t *event) {
  cudaStream_t handle = ls_cuda_stream(stream)->handle;
  enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  ls_status_t status = ls_cuda_stream_status(ls_cuda_stream(stream));
  if (!status && event->timed)
    status = keep(stream, cudaStreamIsCapturing(handle, &capture), "recording an event");
  if (status) return status;
  unsigned flags =
      capture == cudaStreamCaptureStatusActive ? cudaEventRecordExternal : cudaEventRecordDefault;
  return keep(stream, cudaEventRecordWithFlags(event->handle, handle, flags), "recording an event");
}

static ls_status_t wait(ls_stream_t *stream, ls_event_t *event) {
  ls_status_t status = ls_cuda_stream_status(ls_cuda_stream(stream));
  if (status) return status;
  return keep(stream, cudaStreamWaitEvent(ls_cuda_stream(stream)->handle, event->handle, 0),
              "waiting for an event");
}

/* Polls: hot for the length of a small step, then with growing pauses, so that a deadline can pass. */
static ls_status_t sync(ls_stream_t *stream, int64_t deadline_ns) {
  enum { HOT_NS = 2000000, PAUSE_MIN_NS = 20000, PAUSE_MAX_NS = 500000 };
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  int64_t start_ns = ls_clock_ns(), pause_ns = PAUSE_MIN_NS;
  for (;;) {
    cudaError_t error = cudaStreamQuery(s->handle);
    if (error != cudaErrorNotReady) return keep(stream, error, "waiting for the GPU");
    int64_t waited_ns = ls_clock_ns() - start_ns;
    if (deadline_ns > 0 && waited_ns >= deadline_ns) return LS_ERR_TIMEOUT;
    if (waited_ns < HOT_NS) continue;
    nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
    if (pause_ns < PAUSE_MAX_NS) pause_ns += pause_ns / 4;
  }
}

static ls_status_t elapsed(ls_event_t *from, ls_event_t *to, int64_t *ns) {
  float ms = 0;
  ls_status_t status =
      ls_cuda_check(from->device->ctx, cudaEventElapsedTime(&ms, from->handle, to->handle), "reading a time");
  if (status) return status;
  *ns = llrint((double)ms * 1e6);
  return LS_OK;
}

const ls_stream_ops_t ls_cuda_stream_ops = {
    .create = create,
    .destroy = destroy,
    .copy = copy,
    .call = call,
    .launch = launch,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .record = record,
    .wait = wait,
    .sync = sync,
    .elapsed = elapsed,
};
