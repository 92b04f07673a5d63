/* Devices and memory. Plain allocations only: with managed memory a step could take page faults. */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"

#include <stdio.h>
#include <string.h>

ls_status_t ls_cuda_check(ls_ctx_t *ctx, cudaError_t error, const char *what) {
  if (error == cudaSuccess) return LS_OK;
  (void)cudaGetLastError(); /* so that the next launch's check does not see it again */
  return ls_fail(ctx, error == cudaErrorMemoryAllocation ? LS_ERR_MEMORY : LS_ERR_DEVICE, "%s: CUDA: %s (%s)",
                 what, cudaGetErrorString(error), cudaGetErrorName(error));
}

static int count(ls_ctx_t *ctx) {
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess) return devices;
  (void)cudaGetLastError();
  ls_log(ctx, LS_LOG_DEBUG, "backend cuda: no devices: %s", cudaGetErrorString(error));
  return 0;
}

static ls_status_t find_device(ls_ctx_t *ctx, int index) {
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "backend cuda: no usable GPU: %s", cudaGetErrorString(error));
  }
  if (index < 0 || index >= devices)
    return ls_fail(ctx, LS_ERR_DEVICE, "backend cuda: GPU %d was asked for, but %d %s visible", index,
                   devices, devices == 1 ? "is" : "are");
  return LS_OK;
}

static ls_status_t open_device(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  ls_status_t status = find_device(ctx, options->index);
  if (status) return status;
  struct cudaDeviceProp props;
  status = ls_cuda_check(ctx, cudaGetDeviceProperties(&props, options->index), "opening the GPU");
  if (status) return status;
  status = ls_cuda_check(ctx, cudaSetDevice(options->index), "opening the GPU");
  if (status) return status;
  ls_cuda_device_t *d = ls_alloc(ctx, sizeof *d);
  if (!d) return LS_ERR_MEMORY;
  d->base.backend = &ls_backend_cuda;
  d->base.ctx = ctx;
  d->base.math = options->math;
  d->index = options->index;
  d->reproducible = options->reproducible;
  d->strict = options->strict_sums;
  snprintf(d->base.name, sizeof d->base.name, "%.63s", props.name);
  status = LS_ERR_MEMORY;
  d->product = ls_alloc_array(ctx, LS_CUDA_PRODUCT_MAX, sizeof *d->product);
  if (!d->product) goto device;
  status = ls_blas_open(ctx, &d->blas);
  if (status) goto plan;
  *device = &d->base;
  return LS_OK;
plan:
  ls_free(d->product);
device:
  ls_free(d);
  return status;
}

/* The context stays, because other users of the GPU in this process may have work on it. */
static void close_device(ls_device_t *device) {
  if (!device) return;
  ls_cuda_device_t *d = ls_cuda_device(device);
  if (!d->hung) {
    ls_dnn_handle_close(&d->dnn, d->side_dnn);
    ls_dnn_close(&d->dnn);
    ls_blas_close(&d->blas);
  }
  ls_cuda_forget_choices(d);
  ls_free(d->product);
  ls_free(d);
}

/* Memory in use on the whole GPU: context, modules and libraries of this process, and all other processes. */
static ls_status_t device_memory(ls_device_t *device, int64_t *used_bytes, int64_t *total_bytes) {
  size_t free_now = 0, total = 0;
  cudaError_t error = cudaSetDevice(ls_cuda_device(device)->index);
  if (error == cudaSuccess) error = cudaMemGetInfo(&free_now, &total);
  if (error != cudaSuccess) return ls_cuda_check(device->ctx, error, "asking for the GPU's free memory");
  *used_bytes = (int64_t)(total - free_now);
  *total_bytes = (int64_t)total;
  return LS_OK;
}

/* Once enabled it stays so while the process lives. */
static ls_status_t reach(ls_device_t *device, int index, bool *direct) {
  int own = ls_cuda_device(device)->index, can = 0;
  cudaError_t error = own == index ? cudaSuccess : cudaDeviceCanAccessPeer(&can, own, index);
  if (error == cudaSuccess && can) {
    error = cudaSetDevice(own);
    if (error == cudaSuccess) error = cudaDeviceEnablePeerAccess(index, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
      (void)cudaGetLastError();
      error = cudaSuccess;
    }
  }
  ls_status_t status = ls_cuda_check(device->ctx, error, "enabling access to another GPU's memory");
  if (status == LS_OK) *direct = can != 0;
  return status;
}

/* The counters at the front of the scratch are zero between kernels. */
static void *room(ls_stream_t *stream, int k, size_t *size_bytes) {
  const ls_cuda_stream_t *s = ls_cuda_stream(stream);
  *size_bytes = k == 0 ? s->workspace_bytes : LS_CUDA_SCRATCH_BYTES - LS_KERNEL_COUNTER_BYTES;
  return k == 0 ? s->workspace : k == 1 ? (char *)s->scratch + LS_KERNEL_COUNTER_BYTES : NULL;
}

const ls_device_ops_t ls_cuda_device_ops = {.open = open_device,
                                            .close = close_device,
                                            .kernel = ls_cuda_kernel,
                                            .low = ls_cuda_low,
                                            .count = count,
                                            .memory = device_memory,
                                            .reach = reach,
                                            .room = room};

static ls_status_t fail_memory(ls_device_t *device, ls_mem_t mem, size_t size_bytes, cudaError_t error) {
  size_t free_bytes = 0, total_bytes = 0;
  (void)cudaGetLastError();
  (void)cudaMemGetInfo(&free_bytes, &total_bytes);
  (void)cudaGetLastError();
  return ls_fail(device->ctx, error == cudaErrorMemoryAllocation ? LS_ERR_MEMORY : LS_ERR_DEVICE,
                 "%s: %zu bytes of %s memory: CUDA: %s (%zu of %zu bytes of the GPU are free)", device->name,
                 size_bytes, mem == LS_MEM_DEVICE ? "device" : "pinned host", cudaGetErrorString(error),
                 free_bytes, total_bytes);
}

/* Our streams do not wait for the legacy stream, so this waits until the memory is zeroed. */
static cudaError_t zero_device(void *memory, size_t size_bytes) {
  cudaError_t error = cudaMemsetAsync(memory, 0, size_bytes, cudaStreamLegacy);
  return error == cudaSuccess ? cudaStreamSynchronize(cudaStreamLegacy) : error;
}

static ls_status_t buffer_alloc(ls_device_t *device, ls_mem_t mem, size_t size_bytes, void **memory) {
  size_t some_bytes = size_bytes ? size_bytes : 1;
  void *bytes = NULL;
  cudaError_t error = cudaSetDevice(ls_cuda_device(device)->index);
  if (error == cudaSuccess)
    error = mem == LS_MEM_DEVICE ? cudaMalloc(&bytes, some_bytes)
                                 : cudaHostAlloc(&bytes, some_bytes, cudaHostAllocPortable);
  if (error != cudaSuccess) return fail_memory(device, mem, size_bytes, error);
  if (mem == LS_MEM_HOST) {
    memset(bytes, 0, some_bytes);
  } else if ((error = zero_device(bytes, some_bytes)) != cudaSuccess) {
    (void)cudaFree(bytes);
    return ls_cuda_check(device->ctx, error, "zeroing device memory");
  }
  *memory = bytes;
  return LS_OK;
}

static void buffer_free(ls_device_t *device, ls_mem_t mem, void *memory) {
  if (!memory || ls_cuda_device(device)->hung) return;
  (void)cudaSetDevice(ls_cuda_device(device)->index);
  cudaError_t error = mem == LS_MEM_DEVICE ? cudaFree(memory) : cudaFreeHost(memory);
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();
  ls_log(device->ctx, LS_LOG_DEBUG, "%s: freeing memory: %s", device->name, cudaGetErrorString(error));
}

/* The driver maps device memory in pages of 2 MiB and cuts small allocations out of such pages. */
const ls_buffer_ops_t ls_cuda_buffer_ops = {
    .alloc = buffer_alloc, .free = buffer_free, .page_bytes = (size_t)2 << 20};
