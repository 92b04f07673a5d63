/* linear, linear_relu, linear_dx, linear_dwb, linear_dw as cuBLASLt products, and convolutions of single positions, which are the
 * same products. A row-major (r, c) array is a column-major
 * (c x r) matrix:
 *
 *   y  (n, o) = x w^T + b  is  D (o x n) = W^T X, W stored (i x o), bias along the o rows
 *   dx (n, i) = dy w       is  D (i x n) = W Dy
 *   dw (o, i) = dy^T x     is  D (i x o) = X Dy^T
 *
 * A product is described at a shape's first use, and the device keeps it. */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"

static bool same_key(const ls_blas_key_t *a, const ls_blas_key_t *b) {
  return a->m == b->m && a->n == b->n && a->k == b->k && a->type == b->type && a->out_type == b->out_type &&
         a->a_transposed == b->a_transposed && a->b_transposed == b->b_transposed && a->adds == b->adds &&
         a->bias == b->bias && a->relu == b->relu && a->tf32 == b->tf32 && a->align_bytes == b->align_bytes &&
         a->workspace_bytes == b->workspace_bytes && a->way == b->way;
}

/* Products that are only tried, or find the table full, are described in *spare. */
static ls_status_t find_product(ls_cuda_stream_t *s, const ls_blas_key_t *key, ls_blas_product_t *spare,
                                const ls_blas_product_t **product) {
  ls_cuda_device_t *device = ls_cuda_device(s->base.device);
  for (int i = 0; i < device->product_count; i++) {
    if (same_key(&device->product[i].key, key)) {
      *product = &device->product[i];
      return LS_OK;
    }
  }
  bool kept = !s->tries && device->product_count < LS_CUDA_PRODUCT_MAX;
  ls_blas_product_t *slot = kept ? &device->product[device->product_count] : spare;
  ls_status_t status = ls_blas_product(s->tries ? NULL : device->base.ctx, &device->blas, key, slot);
  if (status) return status;
  if (kept) device->product_count++;
  *product = slot;
  return LS_OK;
}

/* The largest power of two up to 256 that divides every address. */
static int common_alignment(const void *a, const void *b, const void *c, const void *d, const void *bias) {
  uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d | (uintptr_t)bias | 256;
  return (int)(bits & (~bits + 1));
}

/* The alignment that arrays of this size have at any place: memory is laid out in lines of 64 bytes, and the
 * parts of an input follow each other. Unlike the addresses of one schedule it is the same for any number of
 * ranks, so the same algorithm is chosen. */
static int size_alignment(const ls_blas_key_t *key) {
  uint64_t bits = (uint64_t)(key->m * key->k) | (uint64_t)(key->k * key->n) | (uint64_t)(key->m * key->n);
  if (key->bias) bits |= (uint64_t)key->m;
  bits = bits * (key->type == CUDA_R_32F ? 4 : 2) | 64;
  return (int)(bits & (~bits + 1));
}

static cudaDataType_t type_of(const ls_tensor_t *t) {
  return t->shape.dtype == LS_BF16 ? CUDA_R_16BF : t->shape.dtype == LS_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* D = op(A) op(B), plus bias (m) and C (m x n) when given. */
static ls_status_t multiply(ls_stream_t *stream, ls_blas_key_t key, const ls_tensor_t *at,
                            const ls_tensor_t *bt, const void *bias, const void *c, const ls_tensor_t *dt) {
  static const float one = 1, zero = 0;
  const void *a = at->data, *b = bt->data;
  void *d = dt->data;
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_cuda_device_t *device = ls_cuda_device(stream->device);
  if (key.m == 0 || key.n == 0) return LS_OK;
  key.bias = bias != NULL;
  key.adds = c != NULL;
  key.type = type_of(at);
  key.out_type = type_of(dt);
  key.tf32 = key.type == CUDA_R_32F && device->base.math == LS_MATH_TF32;
  key.align_bytes = common_alignment(a, b, c, d, bias);
  if (device->reproducible && key.align_bytes > size_alignment(&key)) key.align_bytes = size_alignment(&key);
  key.workspace_bytes = s->workspace_bytes;
  ls_blas_product_t spare;
  const ls_blas_product_t *product;
  ls_status_t status = find_product(s, &key, &spare, &product);
  if (status) return status;
  /* The address of the bias is part of the descriptor, so each call uses a copy. */
  cublasLtMatmulDescOpaque_t desc = product->desc;
  cublasStatus_t r = CUBLAS_STATUS_SUCCESS;
  if (bias)
    r = device->blas.cublasLtMatmulDescSetAttribute((cublasLtMatmulDesc_t)&desc,
                                                    CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  cublasLtMatrixLayout_t layout_d = (cublasLtMatrixLayout_t)(uintptr_t)&product->d;
  if (r == CUBLAS_STATUS_SUCCESS)
    r = device->blas.cublasLtMatmul(device->blas.handle, (cublasLtMatmulDesc_t)&desc, &one, a,
                                    (cublasLtMatrixLayout_t)(uintptr_t)&product->a, b,
                                    (cublasLtMatrixLayout_t)(uintptr_t)&product->b, c ? &one : &zero,
                                    c ? c : d, layout_d, d, layout_d, &product->algo, s->workspace,
                                    s->workspace_bytes, s->handle);
  if (r == CUBLAS_STATUS_SUCCESS) return LS_OK;
  return ls_fail(s->tries ? NULL : stream->device->ctx, LS_ERR_DEVICE,
                 "cuBLASLt: (%lld x %lld) by (%lld x %lld): %s", (long long)key.m, (long long)key.k,
                 (long long)key.k, (long long)key.n, device->blas.cublasLtGetStatusString(r));
}

/* y (n, o) from x (n, i), w (o, i), b (o). `way`: LS_BLAS_RULE, or one of cuBLASLt's. */
static ls_status_t forward(ls_stream_t *stream, const ls_tensor_t *x, const ls_tensor_t *w, const void *bias,
                           bool relu, const ls_tensor_t *y, int way) {
  int64_t o = w->shape.dim[0], i = ls_shape_inner(&w->shape, 1), n = ls_shape_count(&x->shape) / i;
  ls_blas_key_t key = {.m = o, .n = n, .k = i, .a_transposed = true, .relu = relu, .way = way};
  return multiply(stream, key, w, x, bias, NULL, y);
}

/* dx (n, i) from dy (n, o), w (o, i), plus other when given. */
static ls_status_t back_to_x(ls_stream_t *stream, const ls_tensor_t *dy, const ls_tensor_t *w,
                             const void *other, const ls_tensor_t *dx, int way) {
  int64_t o = w->shape.dim[0], i = ls_shape_inner(&w->shape, 1), n = ls_shape_count(&dy->shape) / o;
  ls_blas_key_t key = {.m = i, .n = n, .k = o, .way = way};
  return multiply(stream, key, w, dy, NULL, other, dx);
}

/* dw (o, i) from dy (n, o), x (n, i). */
static ls_status_t back_to_w(ls_stream_t *stream, const ls_tensor_t *dy, const ls_tensor_t *x,
                             const ls_tensor_t *dw, int way) {
  int64_t o = dw->shape.dim[0], i = ls_shape_inner(&dw->shape, 1), n = ls_shape_count(&x->shape) / i;
  ls_blas_key_t key = {.m = i, .n = o, .k = n, .b_transposed = true, .way = way};
  return multiply(stream, key, x, dy, NULL, NULL, dw);
}

/* A window of one place that moves by one, without padding or groups: rows are positions. */
bool ls_cuda_conv_is_product(const ls_attrs_t *attrs, const ls_shape_t *w) {
  const int64_t *i = attrs->i;
  return w->dim[1] == 1 && w->dim[2] == 1 && i[0] == 1 && i[1] == 1 && i[8] == 1 &&
         (i[2] | i[3] | i[4] | i[5]) == 0;
}

ls_status_t ls_cuda_conv_product(ls_stream_t *stream, const ls_kernel_args_t *args, ls_cuda_conv_t pass,
                                 int way) {
  const ls_tensor_t *in = args->in, *out = &args->out[0];
  switch (pass) {
  case LS_CUDA_CONV:
    return forward(stream, &in[0], &in[1], NULL, false, out, way);
  case LS_CUDA_CONV_DX:
    return back_to_x(stream, &in[0], &in[1], NULL, out, way);
  default:
    return back_to_w(stream, &in[0], &in[1], out, way);
  }
}

/* The four ops, in ls_way_t.which above what a way takes. */
enum { LINEAR, LINEAR_RELU, LINEAR_DX, LINEAR_DWB, OP_SHIFT = 16, WAY_MASK = 0xffff };

/* The matrix (outputs, inputs): weights, or their gradient. */
static const ls_tensor_t *matrix_of(const ls_kernel_args_t *args, int which) {
  return which >> OP_SHIFT == LINEAR_DWB ? &args->out[0] : &args->in[1];
}

/* The gradient of the bias, where linear_dwb makes it. */
static int add_up_bias(ls_stream_t *stream, const ls_kernel_args_t *args, int which) {
  if (which >> OP_SHIFT != LINEAR_DWB || args->out_count < 2) return 0;
  int64_t o = args->out[0].shape.dim[0], n = ls_shape_count(&args->in[0].shape) / o;
  return ls_kernel_column_sum(ls_kernel_stream(stream), ls_kernel_scratch(stream), &args->in[0],
                              args->out[1].data, n, o);
}

static int by_blas(ls_stream_t *stream, const ls_kernel_args_t *args, int which) {
  const ls_tensor_t *in = args->in, *out = &args->out[0];
  const int op = which >> OP_SHIFT, way = which & WAY_MASK;
  ls_status_t status =
      op == LINEAR_DWB  ? back_to_w(stream, &in[0], &in[1], out, way)
      : op == LINEAR_DX ? back_to_x(stream, &in[0], &in[1], args->in_count > 2 ? in[2].data : NULL, out, way)
                        : forward(stream, &in[0], &in[1], in[2].data, op == LINEAR_RELU, out, way);
  return status ? cudaErrorNotSupported : add_up_bias(stream, args, which);
}

/* Kernels of our own for few outputs and rows: floats of one type, but for f32 gradients of weights. */
static int by_few(ls_stream_t *stream, const ls_kernel_args_t *args, int which) {
  const ls_shape_t *first = &args->in[0].shape, *w = &matrix_of(args, which)->shape;
  const int op = which >> OP_SHIFT;
  bool same = op == LINEAR_DWB || args->out[0].shape.dtype == first->dtype;
  for (int i = 1; i < args->in_count; i++)
    same &= args->in[i].shape.dtype == first->dtype;
  int64_t rows = ls_shape_count(first) / first->dim[first->rank - 1];
  if (!same || !ls_kernel_linear_few(rows, w->dim[1], w->dim[0], which & WAY_MASK))
    return cudaErrorNotSupported;
  return op == LINEAR_DWB  ? ls_kernel_few_dwb(stream, args)
         : op == LINEAR_DX ? ls_kernel_few_dx(stream, args)
                           : ls_kernel_few(stream, args, op == LINEAR_RELU);
}

static int by_tensor(ls_stream_t *stream, const ls_kernel_args_t *args, int which) {
  const int op = which >> OP_SHIFT;
  int error = ls_kernel_linear_tensor(stream, args,
                                      op == LINEAR_DWB  ? LS_CUDA_CONV_DW
                                      : op == LINEAR_DX ? LS_CUDA_CONV_DX
                                                        : LS_CUDA_CONV,
                                      op == LINEAR_RELU, which & WAY_MASK);
  return error ? error : add_up_bias(stream, args, which);
}

/* The first that can is the fixed rule's. */
#define BLAS(op, way)                                                                                        \
  { "cuBLASLt " #way, by_blas, (op) << OP_SHIFT | (way) }
#define WAYS(op)                                                                                             \
  {"few", by_few, (op) << OP_SHIFT}, {"cuBLASLt, rule", by_blas, (op) << OP_SHIFT}, BLAS(op, 1),             \
      BLAS(op, 2), BLAS(op, 3), BLAS(op, 4), BLAS(op, 5), BLAS(op, 6), BLAS(op, 7), BLAS(op, 8),             \
      {"few, many products", by_few, (op) << OP_SHIFT | 1},                                                  \
      {"tensor", by_tensor, (op) << OP_SHIFT | LS_TENSOR_WIDE},                                              \
      {"tensor, small tiles", by_tensor, (op) << OP_SHIFT | LS_TENSOR_SMALL},                                \
      {"tensor, narrow tiles", by_tensor, (op) << OP_SHIFT | LS_TENSOR_NARROW},                              \
      {"split", by_tensor, (op) << OP_SHIFT | LS_TENSOR_SPLIT, true},                                        \
      {"split, small tiles", by_tensor, (op) << OP_SHIFT | LS_TENSOR_SPLIT | LS_TENSOR_SMALL, true}, {       \
    "split, narrow tiles", by_tensor, (op) << OP_SHIFT | LS_TENSOR_SPLIT | LS_TENSOR_NARROW, true            \
  }

static ls_status_t linear(ls_stream_t *stream, const ls_kernel_args_t *args) {
  static const ls_way_t ways[] = {WAYS(LINEAR)};
  return ls_kernel_best(stream, args, "linear", ways, LS_COUNT(ways));
}
static ls_status_t linear_relu(ls_stream_t *stream, const ls_kernel_args_t *args) {
  static const ls_way_t ways[] = {WAYS(LINEAR_RELU)};
  return ls_kernel_best(stream, args, "linear_relu", ways, LS_COUNT(ways));
}
static ls_status_t linear_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  static const ls_way_t ways[] = {WAYS(LINEAR_DX)};
  return ls_kernel_best(stream, args, "linear_dx", ways, LS_COUNT(ways));
}
static ls_status_t linear_dwb(ls_stream_t *stream, const ls_kernel_args_t *args) {
  static const ls_way_t ways[] = {WAYS(LINEAR_DWB)};
  return ls_kernel_best(stream, args, "linear_dwb", ways, LS_COUNT(ways));
}

/* cuBLASLt makes 0 of a NaN in 16 bits: relu is an op of its own there. */
const ls_kernel_row_t ls_cuda_linear_rows[] = {{"linear", linear, true},
                                               {"linear_relu", linear_relu},
                                               {"linear_dx", linear_dx, true},
                                               {"linear_dx_add", linear_dx, true},
                                               {"linear_dwb", linear_dwb, true},
                                               {"linear_dw", linear_dwb, true},
                                               {0}};
