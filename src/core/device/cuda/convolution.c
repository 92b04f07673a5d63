/* conv2d, conv2d_dx, conv2d_dw. Their ways (ways.c) are products by cuBLASLt, algorithms of cuDNN that add in one order, and
 * kernels of our own. */
#include "device/cuda/convolution.h"
#include "device/cuda/kernels.h"

enum {
  FIRST = 256,
  PASS_SHIFT = 16
}; /* of ls_way_t.which: what the way takes below, channels first, pass above */

static ls_conv_t conv_of(const ls_kernel_args_t *args, int which) {
  const ls_tensor_t *in = args->in, *out = args->out;
  switch (which >> PASS_SHIFT) {
  case LS_CUDA_CONV:
    return (ls_conv_t){args->attrs, &in[0], &in[1], &out[0], LS_CUDA_CONV};
  case LS_CUDA_CONV_DX:
    return (ls_conv_t){args->attrs, &out[0], &in[1], &in[0], LS_CUDA_CONV_DX};
  default:
    return (ls_conv_t){args->attrs, &in[1], &out[0], &in[0], LS_CUDA_CONV_DW};
  }
}

static int by_dnn(ls_stream_t *stream, const ls_kernel_args_t *args, int which) {
  const ls_conv_t c = conv_of(args, which);
  return ls_dnn_convolve(stream, &c, which % FIRST, (which & FIRST) != 0);
}

static int by_product(ls_stream_t *stream, const ls_kernel_args_t *args, int which) {
  const ls_conv_t c = conv_of(args, which);
  if (!ls_cuda_conv_is_product(args->attrs, &c.w->shape)) return cudaErrorNotSupported;
  return ls_cuda_conv_product(stream, args, c.pass, which % FIRST) ? cudaErrorNotSupported : 0;
}

/* A window of one position that skips positions is a product of those that it takes. They are gathered first, if the
 * workspace has room for them and for the product. */
enum { PRODUCT_BYTES = 4 << 20 };

static int by_gathered(ls_stream_t *stream, const ls_kernel_args_t *args, int which) {
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_attrs_t attrs = *args->attrs;
  ls_tensor_t in[] = {args->in[0], args->in[1]};
  if (which >> PASS_SHIFT != LS_CUDA_CONV) return cudaErrorNotSupported;
  const int64_t *to = args->out[0].shape.dim, sh = attrs.i[0], sw = attrs.i[1];
  attrs.i[0] = attrs.i[1] = 1;
  in[0].shape.dim[1] = to[1];
  in[0].shape.dim[2] = to[2];
  in[0].data = s->workspace;
  size_t each = (size_t)in[0].shape.dim[3] * ls_dtype_bytes(in[0].shape.dtype);
  size_t taken = (ls_shape_bytes(&in[0].shape) + 255) & ~(size_t)255;
  if (!ls_cuda_conv_is_product(&attrs, &in[1].shape) || each % 16 != 0 ||
      (uintptr_t)args->in[0].data % 16 != 0 || taken == 0 || taken + PRODUCT_BYTES > s->workspace_bytes)
    return cudaErrorNotSupported;
  int error = ls_kernel_take_positions(s->handle, &args->in[0], &in[0], (int)sh, (int)sw);
  if (error) return error;
  ls_kernel_args_t product = *args;
  product.in = in;
  product.attrs = &attrs;
  s->workspace = (char *)s->workspace + taken;
  s->workspace_bytes -= taken;
  ls_status_t status = ls_cuda_conv_product(stream, &product, LS_CUDA_CONV, LS_BLAS_RULE);
  s->workspace = in[0].data;
  s->workspace_bytes += taken;
  return status ? cudaErrorNotSupported : 0;
}

/* `which` 0: only what cuDNN does worst, one channel at a time or few. */
static int by_own(ls_stream_t *stream, const ls_kernel_args_t *args, int which) {
  static int (*const own[])(ls_stream_t *, const ls_kernel_args_t *) = {ls_kernel_conv2d, ls_kernel_conv2d_dx,
                                                                        ls_kernel_conv2d_dw};
  const ls_conv_t c = conv_of(args, which);
  bool few = c.w->shape.dim[3] == 1 || (c.pass != LS_CUDA_CONV_DX &&
                                        ls_kernel_conv_few(c.attrs, &c.x->shape, &c.w->shape, &c.y->shape));
  return which % FIRST || few ? own[c.pass](stream, args) : cudaErrorNotSupported;
}

static int by_tensor(ls_stream_t *stream, const ls_kernel_args_t *args, int which) {
  const ls_conv_t c = conv_of(args, which);
  return ls_kernel_conv_tensor(stream, c.attrs, c.x, c.w, c.y, (int)c.pass, which % FIRST);
}

#define DNN(pass, name, algorithm)                                                                           \
  {"cuDNN " name, by_dnn, (pass) << PASS_SHIFT | (algorithm), (algorithm) >= LS_DNN_WINOGRAD}, {             \
    "cuDNN channels first, " name, by_dnn, (pass) << PASS_SHIFT | FIRST | (algorithm),                       \
        (algorithm) >= LS_DNN_WINOGRAD                                                                       \
  }
#define PRODUCT(pass, way)                                                                                   \
  { "product " #way, by_product, (pass) << PASS_SHIFT | (way) }
/* The first that can is the fixed rule's. cuDNN's Fourier transforms are not among them: some end a capture. */
#define WAYS(pass)                                                                                           \
  {"product, rule", by_product, (pass) << PASS_SHIFT}, PRODUCT(pass, 1), PRODUCT(pass, 2), PRODUCT(pass, 3), \
      PRODUCT(pass, 4), PRODUCT(pass, 5), PRODUCT(pass, 6),                                                  \
      {"gathered product", by_gathered, (pass) << PASS_SHIFT},                                               \
      {"few channels", by_own, (pass) << PASS_SHIFT}, DNN(pass, "precomputed", LS_DNN_PRECOMPUTED),          \
      {"tiles", by_own, (pass) << PASS_SHIFT | 1},                                                           \
      {"tensor", by_tensor, (pass) << PASS_SHIFT | LS_TENSOR_WIDE},                                          \
      {"tensor, small tiles", by_tensor, (pass) << PASS_SHIFT | LS_TENSOR_SMALL},                            \
      {"tensor, narrow tiles", by_tensor, (pass) << PASS_SHIFT | LS_TENSOR_NARROW},                          \
      {"split", by_tensor, (pass) << PASS_SHIFT | LS_TENSOR_SPLIT, true},                                    \
      {"split, small tiles", by_tensor, (pass) << PASS_SHIFT | LS_TENSOR_SPLIT | LS_TENSOR_SMALL, true},     \
      {"split, narrow tiles", by_tensor, (pass) << PASS_SHIFT | LS_TENSOR_SPLIT | LS_TENSOR_NARROW, true},   \
      DNN(pass, "implicit", LS_DNN_IMPLICIT), DNN(pass, "explicit", LS_DNN_EXPLICIT),                        \
      DNN(pass, "winograd", LS_DNN_WINOGRAD), DNN(pass, "winograd nonfused", LS_DNN_WINOGRAD_NONFUSED)

static const ls_way_t forward_ways[] = {WAYS(LS_CUDA_CONV)}, dx_ways[] = {WAYS(LS_CUDA_CONV_DX)},
                      dw_ways[] = {WAYS(LS_CUDA_CONV_DW)};

static ls_status_t conv2d(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return ls_kernel_best(stream, args, "conv2d", forward_ways, LS_COUNT(forward_ways));
}
static ls_status_t conv2d_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return ls_kernel_best(stream, args, "conv2d_dx", dx_ways, LS_COUNT(dx_ways));
}
static ls_status_t conv2d_dw(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return ls_kernel_best(stream, args, "conv2d_dw", dw_ways, LS_COUNT(dw_ways));
}

const ls_kernel_row_t ls_cuda_convolution_rows[] = {
    {"conv2d", conv2d, true}, {"conv2d_dx", conv2d_dx, true}, {"conv2d_dw", conv2d_dw, true}, {0}};
