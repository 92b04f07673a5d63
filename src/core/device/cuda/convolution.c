/* conv2d, conv2d_dx, conv2d_dw through cuDNN, in true f32 unless TF32 is requested or the operands have 16 bits, by
 * algorithms that are plain f32 sums of products in one order. Its gradient of 16-bit weights has 16 bits: it stands in the
 * workspace and is widened. Where cuDNN needs more workspace than the stream has, a part of the samples is taken at a time.
 * What it cannot do (padding that differs from side to side, a shape without such an algorithm) and convolutions of one
 * channel at a time or of few, for which it is slow, our own kernels do (convolve.cu). */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"

/* The shapes of x, w, y, from whichever of them a pass is given. */
typedef struct {
  const ls_attrs_t *attrs;
  const ls_shape_t *x, *w, *y;
} conv_t;

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

static cudnnDataType_t type_of(const ls_shape_t *s) {
  return s->dtype == LS_BF16 ? CUDNN_DATA_BFLOAT16 : s->dtype == LS_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

static cudnnStatus_t describe_image(const ls_dnn_t *dnn, cudnnTensorDescriptor_t d, const ls_shape_t *s,
                                    int64_t samples) {
  return dnn->cudnnSetTensor4dDescriptor(d, CUDNN_TENSOR_NHWC, type_of(s), (int)samples, (int)s->dim[3],
                                         (int)s->dim[1], (int)s->dim[2]);
}

static cudnnStatus_t describe(const ls_dnn_t *dnn, const conv_t *c, bool tf32, descriptors_t *d) {
  const int64_t *i = c->attrs->i, *w = c->w->dim;
  cudnnStatus_t r = dnn->cudnnCreateTensorDescriptor(&d->x);
  if (!r) r = dnn->cudnnCreateTensorDescriptor(&d->y);
  if (!r) r = dnn->cudnnCreateFilterDescriptor(&d->w);
  if (!r) r = dnn->cudnnCreateConvolutionDescriptor(&d->conv);
  if (!r)
    r = dnn->cudnnSetFilter4dDescriptor(d->w, type_of(c->x), CUDNN_TENSOR_NHWC, (int)w[0], (int)w[3],
                                        (int)w[1], (int)w[2]);
  if (!r)
    r = dnn->cudnnSetConvolution2dDescriptor(d->conv, (int)i[2], (int)i[3], (int)i[0], (int)i[1], (int)i[6],
                                             (int)i[7], CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  if (!r) r = dnn->cudnnSetConvolutionGroupCount(d->conv, (int)i[8]);
  /* The default is TF32 for f32; 16 bits go through tensor cores only where they are asked for. */
  cudnnMathType_t math = c->x->dtype != LS_F32 ? CUDNN_TENSOR_OP_MATH
                         : tf32                ? CUDNN_DEFAULT_MATH
                                               : CUDNN_FMA_MATH;
  if (!r) r = dnn->cudnnSetConvolutionMathType(d->conv, math);
  return r;
}

static const cudnnConvolutionFwdAlgo_t forward_algo = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
static const cudnnConvolutionBwdDataAlgo_t dx_algo = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
static const cudnnConvolutionBwdFilterAlgo_t dw_algo = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

/* Describes `samples` of them; the workspace that the pass then needs. */
static cudnnStatus_t ask(const ls_dnn_t *dnn, const conv_t *c, const descriptors_t *d, ls_cuda_conv_t pass,
                         int64_t samples, size_t *bytes) {
  cudnnStatus_t r = describe_image(dnn, d->x, c->x, samples);
  if (!r) r = describe_image(dnn, d->y, c->y, samples);
  if (r) return r;
  switch (pass) {
  case LS_CUDA_CONV:
    return dnn->cudnnGetConvolutionForwardWorkspaceSize(d->handle, d->x, d->w, d->conv, d->y, forward_algo,
                                                        bytes);
  case LS_CUDA_CONV_DX:
    return dnn->cudnnGetConvolutionBackwardDataWorkspaceSize(d->handle, d->w, d->y, d->conv, d->x, dx_algo,
                                                             bytes);
  default:
    return dnn->cudnnGetConvolutionBackwardFilterWorkspaceSize(d->handle, d->x, d->y, d->conv, d->w, dw_algo,
                                                               bytes);
  }
}

/* x, w, y: two inputs and the output, as the pass has them. `add`: to what dw holds. */
static cudnnStatus_t run(const ls_dnn_t *dnn, const descriptors_t *d, ls_cuda_conv_t pass, void *x, void *w,
                         void *y, bool add, void *workspace, size_t bytes) {
  static const float one = 1, zero = 0;
  switch (pass) {
  case LS_CUDA_CONV:
    return dnn->cudnnConvolutionForward(d->handle, &one, d->x, x, d->w, w, d->conv, forward_algo, workspace,
                                        bytes, &zero, d->y, y);
  case LS_CUDA_CONV_DX:
    return dnn->cudnnConvolutionBackwardData(d->handle, &one, d->w, w, d->y, y, d->conv, dx_algo, workspace,
                                             bytes, &zero, d->x, x);
  default:
    return dnn->cudnnConvolutionBackwardFilter(d->handle, &one, d->x, x, d->y, y, d->conv, dw_algo, workspace,
                                               bytes, add ? &one : &zero, d->w, w);
  }
}

/* Whether cuDNN's functions can describe it, and are worth it. */
static bool suits(const conv_t *c, ls_cuda_conv_t pass) {
  const int64_t *i = c->attrs->i;
  bool small = true;
  for (int k = 0; k < 4; k++)
    small = small && c->x->dim[k] <= INT32_MAX && c->w->dim[k] <= INT32_MAX && c->y->dim[k] <= INT32_MAX;
  bool even = i[2] == i[4] && i[3] == i[5];
  if (pass != LS_CUDA_CONV_DX && ls_kernel_conv_few(c->attrs, c->x, c->w, c->y)) return false;
  return small && even && c->w->dim[3] > 1 && ls_shape_count(c->x) > 0 && ls_shape_count(c->y) > 0;
}

/* The most samples at a time that the workspace allows, and what they need; 0: cuDNN cannot do it. */
static int64_t samples_at_once(const ls_dnn_t *dnn, const conv_t *c, const descriptors_t *d,
                               ls_cuda_conv_t pass, size_t most_bytes) {
  for (int64_t samples = c->x->dim[0];; samples = (samples + 1) / 2) {
    size_t bytes;
    if (ask(dnn, c, d, pass, samples, &bytes)) return 0;
    if (bytes <= most_bytes) return samples;
    if (samples == 1) return 0;
  }
}

/* The bytes of the first `samples` samples. */
static size_t bytes_of(const ls_shape_t *s, int64_t samples) {
  return (size_t)(samples * ls_shape_inner(s, 1)) * ls_dtype_bytes(s->dtype);
}

/* *done: cuDNN did it. The gradient of 16-bit weights is left at the begin of the workspace. */
static ls_status_t try_dnn(ls_stream_t *stream, const conv_t *c, ls_cuda_conv_t pass, char *x, void *w,
                           char *y, bool *done) {
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_cuda_device_t *device = ls_cuda_device(stream->device);
  ls_dnn_t *dnn = &device->dnn;
  ls_dnn_open(device->base.ctx, dnn);
  *done = false;
  if (!dnn->handle || !suits(c, pass)) return LS_OK;
  if (s->side) ls_dnn_handle(dnn, &device->side_dnn);
  descriptors_t d = {.handle = s->side ? device->side_dnn : dnn->handle};
  if (!d.handle) return ls_fail(device->base.ctx, LS_ERR_DEVICE, "cuDNN: no handle for a second stream");
  int64_t total = c->x->dim[0], each = 0;
  char *workspace = s->workspace;
  size_t workspace_bytes = s->workspace_bytes;
  if (pass == LS_CUDA_CONV_DW && c->x->dtype != c->w->dtype) {
    size_t taken = (ls_shape_bytes(c->w) / 2 + 255) & ~(size_t)255;
    if (taken > workspace_bytes) return LS_OK;
    w = workspace;
    workspace += taken;
    workspace_bytes -= taken;
  }
  cudnnStatus_t r = dnn->cudnnSetStream(d.handle, s->handle);
  if (!r) r = describe(dnn, c, device->base.math == LS_MATH_TF32, &d);
  if (!r) each = samples_at_once(dnn, c, &d, pass, workspace_bytes);
  for (int64_t n = 0; !r && each > 0 && n < total; n += each) {
    size_t bytes;
    int64_t samples = n + each < total ? each : total - n;
    r = ask(dnn, c, &d, pass, samples, &bytes);
    if (!r)
      r = run(dnn, &d, pass, x + bytes_of(c->x, n), w, y + bytes_of(c->y, n), n > 0, workspace,
              workspace_bytes);
    *done = *done || !r;
  }
  destroy(dnn, &d);
  if (!r || !*done) return LS_OK; /* what it cannot do at all is no error */
  char text[LS_SHAPE_TEXT_BYTES];
  return ls_fail(stream->device->ctx, LS_ERR_DEVICE, "cuDNN: convolution of %s: %s",
                 ls_shape_text(c->x, text), dnn->cudnnGetErrorString(r));
}

/* A window of one position that skips positions is a product of those that it takes. They are gathered first where they
 * are few numbers each, for which cuDNN is many times slower, and the workspace has room for them and for the product. */
enum { FEW_CHANNELS = 64, PRODUCT_BYTES = 4 << 20 };

static ls_status_t try_gathered(ls_stream_t *stream, const ls_kernel_args_t *args, bool *done) {
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_attrs_t attrs = *args->attrs;
  ls_tensor_t in[] = {args->in[0], args->in[1]};
  const int64_t *to = args->out[0].shape.dim, sh = attrs.i[0], sw = attrs.i[1];
  attrs.i[0] = attrs.i[1] = 1;
  in[0].shape.dim[1] = to[1];
  in[0].shape.dim[2] = to[2];
  in[0].data = s->workspace;
  size_t each = (size_t)in[0].shape.dim[3] * ls_dtype_bytes(in[0].shape.dtype);
  size_t taken = (ls_shape_bytes(&in[0].shape) + 255) & ~(size_t)255;
  *done = ls_cuda_conv_is_product(&attrs, &in[1].shape) && in[0].shape.dim[3] <= FEW_CHANNELS &&
          each % 16 == 0 && (uintptr_t)args->in[0].data % 16 == 0 && taken > 0 &&
          taken + PRODUCT_BYTES <= s->workspace_bytes;
  if (!*done) return LS_OK;
  int error = ls_kernel_take_positions(s->handle, &args->in[0], &in[0], (int)sh, (int)sw);
  if (error) return ls_kernel_status(stream, error, "conv2d");
  ls_kernel_args_t product = *args;
  product.in = in;
  product.attrs = &attrs;
  s->workspace = (char *)s->workspace + taken;
  s->workspace_bytes -= taken;
  ls_status_t status = ls_cuda_conv_product(stream, &product, LS_CUDA_CONV);
  s->workspace = in[0].data;
  s->workspace_bytes += taken;
  return status;
}

/* `own` does it where neither cuBLASLt nor cuDNN does. */
static ls_status_t convolve(ls_stream_t *stream, const ls_kernel_args_t *args, ls_cuda_conv_t pass,
                            const ls_tensor_t *x, const ls_tensor_t *w, const ls_tensor_t *y,
                            ls_kernel_fn own) {
  if (ls_cuda_conv_is_product(args->attrs, &w->shape)) return ls_cuda_conv_product(stream, args, pass);
  conv_t c = {args->attrs, &x->shape, &w->shape, &y->shape};
  bool done = false;
  ls_status_t status = pass == LS_CUDA_CONV ? try_gathered(stream, args, &done) : LS_OK;
  if (status || done) return status;
  status = try_dnn(stream, &c, pass, x->data, w->data, y->data, &done);
  if (status || !done) return status ? status : own(stream, args);
  if (pass != LS_CUDA_CONV_DW || x->shape.dtype == w->shape.dtype) return LS_OK;
  ls_tensor_t low = {ls_cuda_stream(stream)->workspace, w->shape};
  low.shape.dtype = x->shape.dtype;
  const ls_kernel_args_t widen = {.in = &low, .in_count = 1, .out = w, .out_count = 1};
  return ls_cuda_kernel(NULL, "cast")(stream, &widen);
}

static ls_status_t conv2d(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return convolve(stream, args, LS_CUDA_CONV, &args->in[0], &args->in[1], &args->out[0], ls_kernel_conv2d);
}
static ls_status_t conv2d_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return convolve(stream, args, LS_CUDA_CONV_DX, &args->out[0], &args->in[1], &args->in[0],
                  ls_kernel_conv2d_dx);
}
static ls_status_t conv2d_dw(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return convolve(stream, args, LS_CUDA_CONV_DW, &args->in[1], &args->out[0], &args->in[0],
                  ls_kernel_conv2d_dw);
}

const ls_kernel_row_t ls_cuda_convolution_rows[] = {
    {"conv2d", conv2d, true}, {"conv2d_dx", conv2d_dx, true}, {"conv2d_dw", conv2d_dw, true}, {0}};
