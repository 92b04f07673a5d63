/* The backend's versions of the ops by name, and what kernels may ask of a stream. */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"

#include <string.h>

static const ls_kernel_row_t *const families[] = {
    ls_cuda_linear_rows, ls_cuda_elementwise_rows, ls_cuda_move_rows,  ls_cuda_norm_rows,
    ls_cuda_reduce_rows, ls_cuda_loss_rows,        ls_cuda_update_rows};

ls_kernel_fn ls_cuda_kernel(const ls_device_t *device, const char *op) {
  (void)device;
  for (int i = 0; i < LS_COUNT(families); i++)
    for (const ls_kernel_row_t *row = families[i]; row->op; row++)
      if (strcmp(row->op, op) == 0) return row->kernel;
  return NULL;
}

ls_kernel_stream_t ls_kernel_stream(ls_stream_t *stream) {
  return ls_cuda_stream(stream)->handle;
}

void *ls_kernel_scratch(ls_stream_t *stream) {
  return ls_cuda_stream(stream)->scratch;
}

ls_status_t ls_kernel_status(ls_stream_t *stream, int error, const char *op) {
  return ls_cuda_check(stream->device->ctx, (cudaError_t)error, op);
}
