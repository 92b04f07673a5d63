/* cuDNN, opened when a convolution is first looked up. Its fixed-function convolutions are deprecated, but complete and
 * the same in all 9.x; nothing newer than 9.14 is used. */
#ifndef LS_DEVICE_CUDA_DNN_H
#define LS_DEVICE_CUDA_DNN_H

#include "base/base.h"
#ifdef LS_HAVE_CUDNN
#include <cudnn.h>

#define LS_DNN_FUNCTIONS(X)                                                                                  \
  X(cudnnCreate)                                                                                             \
  X(cudnnDestroy)                                                                                            \
  X(cudnnGetVersion)                                                                                         \
  X(cudnnGetErrorString)                                                                                     \
  X(cudnnSetStream)                                                                                          \
  X(cudnnCreateTensorDescriptor)                                                                             \
  X(cudnnDestroyTensorDescriptor)                                                                            \
  X(cudnnSetTensor4dDescriptor)                                                                              \
  X(cudnnCreateFilterDescriptor)                                                                             \
  X(cudnnDestroyFilterDescriptor)                                                                            \
  X(cudnnSetFilter4dDescriptor)                                                                              \
  X(cudnnCreateConvolutionDescriptor)                                                                        \
  X(cudnnDestroyConvolutionDescriptor)                                                                       \
  X(cudnnSetConvolution2dDescriptor)                                                                         \
  X(cudnnSetConvolutionGroupCount)                                                                           \
  X(cudnnSetConvolutionMathType)                                                                             \
  X(cudnnGetConvolutionForwardWorkspaceSize)                                                                 \
  X(cudnnGetConvolutionBackwardDataWorkspaceSize)                                                            \
  X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                                          \
  X(cudnnConvolutionForward)                                                                                 \
  X(cudnnConvolutionBackwardData)                                                                            \
  X(cudnnConvolutionBackwardFilter)

typedef struct {
  bool tried; /* to open it */
  void *library;
  cudnnHandle_t handle; /* NULL: there is none */
#define LS_DNN_POINTER(name) __typeof__(name) *name;
  LS_DNN_FUNCTIONS(LS_DNN_POINTER)
#undef LS_DNN_POINTER
} ls_dnn_t;

/* Once for each device. Without cuDNN our own kernels convolve, slower; a line of the log says so. */
void ls_dnn_open(ls_ctx_t *ctx, ls_dnn_t *dnn);
void ls_dnn_close(ls_dnn_t *dnn);
/* A further handle, for streams that convolve beside others: a handle may have streams and memory inside, which two
 * streams must not use at once. It is made in *handle unless it is there; it stays NULL without cuDNN. */
void ls_dnn_handle(const ls_dnn_t *dnn, void **handle);
void ls_dnn_handle_close(const ls_dnn_t *dnn, void *handle);

#else /* built without its headers */
typedef struct {
  bool tried;
} ls_dnn_t;
static inline void ls_dnn_open(ls_ctx_t *ctx, ls_dnn_t *dnn) {
  (void)ctx, (void)dnn;
}
static inline void ls_dnn_close(ls_dnn_t *dnn) {
  (void)dnn;
}
static inline void ls_dnn_handle(const ls_dnn_t *dnn, void **handle) {
  (void)dnn, (void)handle;
}
static inline void ls_dnn_handle_close(const ls_dnn_t *dnn, void *handle) {
  (void)dnn, (void)handle;
}
#endif
#endif
