/* Shared by the ways to convolve. */
#ifndef LS_DEVICE_CUDA_CONVOLUTION_H
#define LS_DEVICE_CUDA_CONVOLUTION_H

#include "device/cuda/cuda.h"

/* Tensors of a pass: two inputs and the output. */
typedef struct {
  const ls_attrs_t *attrs;
  const ls_tensor_t *x, *w, *y;
  ls_cuda_conv_t pass;
} ls_conv_t;

/* Families of cuDNN's algorithms. Those from LS_DNN_WINOGRAD on do not sum products alone. */
enum {
  LS_DNN_PRECOMPUTED,
  LS_DNN_IMPLICIT,
  LS_DNN_EXPLICIT,
  LS_DNN_WINOGRAD,
  LS_DNN_WINOGRAD_NONFUSED,
  LS_DNN_ALGORITHM_COUNT
};

/* `first`: on copies with channels first. Returns a cudaError_t; cudaErrorNotSupported: cuDNN cannot, or is not there. */
#ifdef LS_HAVE_CUDNN
int ls_dnn_convolve(ls_stream_t *stream, const ls_conv_t *conv, int algorithm, bool first);
#else
static inline int ls_dnn_convolve(ls_stream_t *stream, const ls_conv_t *conv, int algorithm, bool first) {
  (void)stream, (void)conv, (void)algorithm, (void)first;
  return cudaErrorNotSupported;
}
#endif

#endif
