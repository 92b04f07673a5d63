/* The backend's versions of the ops by name, and what kernels may ask of a stream. */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"

#include <string.h>

/* The first that has an op gives it. */
static const ls_kernel_row_t *const families[] = {
    ls_cuda_attention_rows,   ls_cuda_channel_rows,   ls_cuda_channel_sum_rows, ls_cuda_convolution_rows,
    ls_cuda_elementwise_rows, ls_cuda_embedding_rows, ls_cuda_group_norm_rows,  ls_cuda_image_rows,
    ls_cuda_linear_rows,      ls_cuda_loss_rows,      ls_cuda_move_rows,        ls_cuda_norm_rows,
    ls_cuda_recurrent_rows,   ls_cuda_reduce_rows,    ls_cuda_update_rows,      ls_cuda_value_rows,
    ls_cuda_average_rows,     ls_cuda_padding_rows,   ls_cuda_words_rows};

static const ls_kernel_row_t *find(const char *op) {
  for (int i = 0; i < LS_COUNT(families); i++)
    for (const ls_kernel_row_t *row = families[i]; row->op; row++)
      if (strcmp(row->op, op) == 0) return row;
  return NULL;
}

/* A library that takes long to open is opened here, not while a step is captured; nor is a handle made there, which may
 * wait for the device. */
ls_kernel_fn ls_cuda_kernel(const ls_device_t *device, const char *op) {
  const ls_kernel_row_t *row = find(op);
  if (row && device && strncmp(op, "conv2d", 6) == 0) {
    ls_cuda_device_t *d = (ls_cuda_device_t *)(uintptr_t)device;
    ls_dnn_open(device->ctx, &d->dnn);
    if (d->side_streams > 0) ls_dnn_handle(&d->dnn, &d->side_dnn);
  }
  return row ? row->kernel : NULL;
}

bool ls_cuda_low(const ls_device_t *device, const char *op, ls_dtype_t dtype) {
  (void)device;
  (void)dtype;
  const ls_kernel_row_t *row = find(op);
  return row && row->low;
}

ls_kernel_stream_t ls_kernel_stream(ls_stream_t *stream) {
  return ls_cuda_stream(stream)->handle;
}

void *ls_kernel_scratch(ls_stream_t *stream) {
  return ls_cuda_stream(stream)->scratch;
}

void *ls_kernel_workspace(ls_stream_t *stream, size_t *size_bytes) {
  *size_bytes = ls_cuda_stream(stream)->workspace_bytes;
  return ls_cuda_stream(stream)->workspace;
}

bool ls_kernel_rounds_f32(ls_stream_t *stream) {
  return stream->device->math == LS_MATH_TF32;
}

ls_status_t ls_kernel_status(ls_stream_t *stream, int error, const char *op) {
  return ls_cuda_check(stream->device->ctx, (cudaError_t)error, op);
}
