/* The module's one exported symbol and the backend's table. */
#include "device/cuda/cuda.h"

const ls_backend_t ls_backend_cuda = {
    .name = "cuda",
    .tf32 = true,
    .side_bytes = LS_CUDA_WORKSPACE_BYTES + LS_CUDA_SCRATCH_BYTES,
    .captured_bytes = LS_CUDA_CAPTURED_BYTES,
    .device = &ls_cuda_device_ops,
    .buffer = &ls_cuda_buffer_ops,
    .stream = &ls_cuda_stream_ops,
    .capture = &ls_cuda_capture_ops,
};

LS_API const ls_cuda_module_t *ls_cuda_module(void);
const ls_cuda_module_t *ls_cuda_module(void) {
  static const ls_cuda_module_t module = {
    .abi = LS_CUDA_ABI,
    .backend = &ls_backend_cuda,
#if LS_HAVE_NCCL
    .nccl_create = ls_comm_nccl_create,
#endif
  };
  return &module;
}
