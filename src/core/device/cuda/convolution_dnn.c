/* Convolutions by cuDNN: an algorithm on images with channels last, or in f32 on copies with channels first, which its
 * Winograd algorithms ask for. Arithmetic is f32 unless TF32 is requested or the operands have 16 bits. cuDNN's
 * gradient of 16-bit weights has 16 bits: it stands in the workspace and is widened. Where an algorithm needs more workspace
 * than the stream has, it takes a part of the samples at a time. */
#include "device/cuda/convolution.h"
#include "device/cuda/kernels.h"

typedef struct {
  const ls_attrs_t *attrs;
  const ls_tensor_t *x, *w, *y;
  ls_cuda_conv_t pass;
  int algorithm; /* cuDNN's, of the pass */
  bool first;    /* channels */
} conv_t;

/* By pass; -1: there is none, or it adds in no fixed order. */
static const int algorithms[][LS_DNN_ALGORITHM_COUNT] = {
    [LS_CUDA_CONV] = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
                      CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED},
    [LS_CUDA_CONV_DX] = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, -1, -1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
                         CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED},
    [LS_CUDA_CONV_DW] = {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, -1, -1, -1,
                         CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED}};

typedef struct {
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t conv;
  cudnnHandle_t handle; /* of the stream; borrowed */
} descriptors_t;

static void destroy(const ls_dnn_t *dnn, descriptors_t *d) {
  if (d->conv) (void)dnn->cudnnDestroyConvolutionDescriptor(d->conv);
  if (d->w) (void)dnn->cudnnDestroyFilterDescriptor(d->w);
  if (d->y) (void)dnn->cudnnDestroyTensorDescriptor(d->y);
  if (d->x) (void)dnn->cudnnDestroyTensorDescriptor(d->x);
}

static cudnnDataType_t type_of(const ls_tensor_t *t) {
  return t->shape.dtype == LS_BF16  ? CUDNN_DATA_BFLOAT16
         : t->shape.dtype == LS_F16 ? CUDNN_DATA_HALF
                                    : CUDNN_DATA_FLOAT;
}

static cudnnTensorFormat_t layout_of(const conv_t *c) {
  return c->first ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC;
}

static cudnnStatus_t describe_image(const ls_dnn_t *dnn, const conv_t *c, cudnnTensorDescriptor_t d,
                                    const ls_tensor_t *t, int64_t samples) {
  const int64_t *dim = t->shape.dim;
  return dnn->cudnnSetTensor4dDescriptor(d, layout_of(c), type_of(t), (int)samples, (int)dim[3], (int)dim[1],
                                         (int)dim[2]);
}

static cudnnStatus_t describe(const ls_dnn_t *dnn, const conv_t *c, bool tf32, descriptors_t *d) {
  const int64_t *i = c->attrs->i, *w = c->w->shape.dim;
  cudnnStatus_t r = dnn->cudnnCreateTensorDescriptor(&d->x);
  if (!r) r = dnn->cudnnCreateTensorDescriptor(&d->y);
  if (!r) r = dnn->cudnnCreateFilterDescriptor(&d->w);
  if (!r) r = dnn->cudnnCreateConvolutionDescriptor(&d->conv);
  if (!r)
    r = dnn->cudnnSetFilter4dDescriptor(d->w, type_of(c->x), layout_of(c), (int)w[0], (int)w[3], (int)w[1],
                                        (int)w[2]);
  if (!r)
    r = dnn->cudnnSetConvolution2dDescriptor(d->conv, (int)i[2], (int)i[3], (int)i[0], (int)i[1], (int)i[6],
                                             (int)i[7], CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  if (!r) r = dnn->cudnnSetConvolutionGroupCount(d->conv, (int)i[8]);
  /* The default is TF32 for f32. 16 bits go through tensor cores only where that is asked for. */
  cudnnMathType_t math = c->x->shape.dtype != LS_F32 ? CUDNN_TENSOR_OP_MATH
                         : tf32                      ? CUDNN_DEFAULT_MATH
                                                     : CUDNN_FMA_MATH;
  if (!r) r = dnn->cudnnSetConvolutionMathType(d->conv, math);
  return r;
}

/* Describes `samples` of them; the workspace that the pass then needs. */
static cudnnStatus_t ask(const ls_dnn_t *dnn, const conv_t *c, const descriptors_t *d, int64_t samples,
                         size_t *bytes) {
  cudnnStatus_t r = describe_image(dnn, c, d->x, c->x, samples);
  if (!r) r = describe_image(dnn, c, d->y, c->y, samples);
  if (r) return r;
  switch (c->pass) {
  case LS_CUDA_CONV:
    return dnn->cudnnGetConvolutionForwardWorkspaceSize(d->handle, d->x, d->w, d->conv, d->y,
                                                        (cudnnConvolutionFwdAlgo_t)c->algorithm, bytes);
  case LS_CUDA_CONV_DX:
    return dnn->cudnnGetConvolutionBackwardDataWorkspaceSize(
        d->handle, d->w, d->y, d->conv, d->x, (cudnnConvolutionBwdDataAlgo_t)c->algorithm, bytes);
  default:
    return dnn->cudnnGetConvolutionBackwardFilterWorkspaceSize(
        d->handle, d->x, d->y, d->conv, d->w, (cudnnConvolutionBwdFilterAlgo_t)c->algorithm, bytes);
  }
}

/* x, w, y: two inputs and the output, as the pass has them. `add`: to what dw holds. */
static cudnnStatus_t run(const ls_dnn_t *dnn, const conv_t *c, const descriptors_t *d, void *x, void *w,
                         void *y, bool add, void *workspace, size_t bytes) {
  static const float one = 1, zero = 0;
  switch (c->pass) {
  case LS_CUDA_CONV:
    return dnn->cudnnConvolutionForward(d->handle, &one, d->x, x, d->w, w, d->conv,
                                        (cudnnConvolutionFwdAlgo_t)c->algorithm, workspace, bytes, &zero,
                                        d->y, y);
  case LS_CUDA_CONV_DX:
    return dnn->cudnnConvolutionBackwardData(d->handle, &one, d->w, w, d->y, y, d->conv,
                                             (cudnnConvolutionBwdDataAlgo_t)c->algorithm, workspace, bytes,
                                             &zero, d->x, x);
  default:
    return dnn->cudnnConvolutionBackwardFilter(d->handle, &one, d->x, x, d->y, y, d->conv,
                                               (cudnnConvolutionBwdFilterAlgo_t)c->algorithm, workspace,
                                               bytes, add ? &one : &zero, d->w, w);
  }
}

/* Whether cuDNN's functions can describe it. */
static bool suits(const conv_t *c) {
  const int64_t *i = c->attrs->i;
  bool small = true;
  for (int k = 0; k < 4; k++)
    small = small && c->x->shape.dim[k] <= INT32_MAX && c->w->shape.dim[k] <= INT32_MAX &&
            c->y->shape.dim[k] <= INT32_MAX;
  return small && i[2] == i[4] && i[3] == i[5] && ls_shape_count(&c->x->shape) > 0 &&
         ls_shape_count(&c->y->shape) > 0 && !(c->first && c->x->shape.dtype != LS_F32);
}

/* The bytes of the first `samples` samples, rounded up if something follows. */
static size_t bytes_of(const ls_tensor_t *t, int64_t samples) {
  return (size_t)(samples * ls_shape_inner(&t->shape, 1)) * ls_dtype_bytes(t->shape.dtype);
}
static size_t padded(size_t bytes) {
  return (bytes + 255) & ~(size_t)255;
}

/* Memory of a call: copies with other layouts or dtypes, then cuDNN's workspace. */
typedef struct {
  char *x, *y, *w, *rest;
  size_t rest_bytes;
} room_t;

/* False where that is too much. */
static bool lay_out(const conv_t *c, const ls_cuda_stream_t *s, int64_t samples, room_t *room) {
  size_t taken = 0;
  char *at = s->workspace;
  bool narrow = c->pass == LS_CUDA_CONV_DW && c->x->shape.dtype != c->w->shape.dtype;
  *room = (room_t){NULL, NULL, NULL, NULL, 0};
  if (c->first || narrow) {
    room->w = at;
    taken += padded(ls_shape_bytes(&c->w->shape) / (narrow ? 2 : 1));
  }
  if (c->first) {
    room->x = at + taken;
    taken += padded(bytes_of(c->x, samples));
    room->y = at + taken;
    taken += padded(bytes_of(c->y, samples));
  }
  if (taken > s->workspace_bytes) return false;
  room->rest = at + taken;
  room->rest_bytes = s->workspace_bytes - taken;
  return true;
}

/* The most samples at a time that the workspace allows; 0: cuDNN cannot do it. */
static int64_t samples_at_once(const ls_dnn_t *dnn, const conv_t *c, const descriptors_t *d,
                               const ls_cuda_stream_t *s, room_t *room) {
  for (int64_t samples = c->x->shape.dim[0];; samples = (samples + 1) / 2) {
    size_t bytes;
    if (ask(dnn, c, d, samples, &bytes)) return 0;
    if (lay_out(c, s, samples, room) && bytes <= room->rest_bytes) return samples;
    if (samples == 1) return 0;
  }
}

/* Channels of n images to the front, or back behind their positions. */
static int turn(const ls_cuda_stream_t *s, const ls_tensor_t *t, int64_t images, const void *from, void *to,
                bool front) {
  int64_t positions = t->shape.dim[1] * t->shape.dim[2], channels = t->shape.dim[3];
  return ls_kernel_transpose(s->handle, from, to, images, front ? positions : channels,
                             front ? channels : positions);
}

/* One part of the samples. */
static int run_part(const ls_cuda_stream_t *s, const ls_dnn_t *dnn, const conv_t *c, const descriptors_t *d,
                    const room_t *room, int64_t first, int64_t samples) {
  char *x = (char *)c->x->data + bytes_of(c->x, first), *y = (char *)c->y->data + bytes_of(c->y, first);
  void *w = room->w ? room->w : c->w->data;
  size_t bytes;
  int error = 0;
  if (c->first && first == 0 && c->pass != LS_CUDA_CONV_DW)
    error = turn(s, c->w, c->w->shape.dim[0], c->w->data, room->w, true);
  if (!error && c->first && c->pass != LS_CUDA_CONV_DX) error = turn(s, c->x, samples, x, room->x, true);
  if (!error && c->first && c->pass != LS_CUDA_CONV) error = turn(s, c->y, samples, y, room->y, true);
  if (error) return error;
  cudnnStatus_t r = ask(dnn, c, d, samples, &bytes);
  if (!r && bytes > room->rest_bytes) return cudaErrorNotSupported;
  if (!r)
    r = run(dnn, c, d, c->first ? room->x : x, w, c->first ? room->y : y, first > 0, room->rest,
            room->rest_bytes);
  if (r) return cudaErrorNotSupported;
  if (c->first && c->pass == LS_CUDA_CONV) return turn(s, c->y, samples, room->y, y, false);
  if (c->first && c->pass == LS_CUDA_CONV_DX) return turn(s, c->x, samples, room->x, x, false);
  return 0;
}

/* dw out of the workspace. */
static int deliver(ls_stream_t *stream, const conv_t *c, const room_t *room) {
  if (c->pass != LS_CUDA_CONV_DW || !room->w) return 0;
  if (c->first) return turn(ls_cuda_stream(stream), c->w, c->w->shape.dim[0], room->w, c->w->data, false);
  ls_tensor_t low = {room->w, c->w->shape};
  low.shape.dtype = c->x->shape.dtype;
  const ls_kernel_args_t widen = {.in = &low, .in_count = 1, .out = c->w, .out_count = 1};
  return ls_cuda_kernel(NULL, "cast")(stream, &widen) ? cudaErrorUnknown : 0;
}

int ls_dnn_convolve(ls_stream_t *stream, const ls_conv_t *conv, int algorithm, bool first) {
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_cuda_device_t *device = ls_cuda_device(stream->device);
  ls_dnn_t *dnn = &device->dnn;
  conv_t c = {conv->attrs, conv->x, conv->w, conv->y, conv->pass, algorithms[conv->pass][algorithm], first};
  room_t room;
  ls_dnn_open(device->base.ctx, dnn);
  if (!dnn->handle || c.algorithm < 0 || !suits(&c)) return cudaErrorNotSupported;
  if (s->side) ls_dnn_handle(dnn, &device->side_dnn);
  descriptors_t d = {.handle = s->side ? device->side_dnn : dnn->handle};
  if (!d.handle || dnn->cudnnSetStream(d.handle, s->handle)) return cudaErrorNotSupported;
  int error = describe(dnn, &c, device->base.math == LS_MATH_TF32, &d) ? cudaErrorNotSupported : 0;
  int64_t total = c.x->shape.dim[0], each = error ? 0 : samples_at_once(dnn, &c, &d, s, &room);
  if (each == 0) error = cudaErrorNotSupported;
  for (int64_t n = 0; !error && n < total; n += each)
    error = run_part(s, dnn, &c, &d, &room, n, n + each < total ? each : total - n);
  destroy(dnn, &d);
  return error ? error : deliver(stream, &c, &room);
}
