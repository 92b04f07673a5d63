/* linear, linear_relu, linear_dx, linear_dwb as cuBLASLt products. A row-major (r, c) array is a column-major
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
  return a->m == b->m && a->n == b->n && a->k == b->k && a->a_transposed == b->a_transposed &&
         a->b_transposed == b->b_transposed && a->bias == b->bias && a->relu == b->relu &&
         a->tf32 == b->tf32 && a->align_bytes == b->align_bytes && a->workspace_bytes == b->workspace_bytes;
}

/* A full table only costs time: the product is then described again in *spare. */
static ls_status_t find_product(ls_cuda_device_t *device, const ls_blas_key_t *key, ls_blas_product_t *spare,
                                const ls_blas_product_t **product) {
  for (int i = 0; i < device->product_count; i++) {
    if (same_key(&device->product[i].key, key)) {
      *product = &device->product[i];
      return LS_OK;
    }
  }
  bool full = device->product_count == LS_CUDA_PRODUCT_MAX;
  ls_blas_product_t *slot = full ? spare : &device->product[device->product_count];
  ls_status_t status = ls_blas_product(device->base.ctx, &device->blas, key, slot);
  if (status) return status;
  if (!full) device->product_count++;
  *product = slot;
  return LS_OK;
}

/* The largest power of two up to 256 that divides every address. */
static int common_alignment(const void *a, const void *b, const void *d, const void *bias) {
  uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)d | (uintptr_t)bias | 256;
  return (int)(bits & (~bits + 1));
}

/* The alignment that arrays of this size have at any place: memory is laid out in lines of 64 bytes, and the
 * parts of an input follow each other. Unlike the addresses of one schedule it is the same for any number of
 * ranks, so the same algorithm is chosen. */
static int size_alignment(const ls_blas_key_t *key) {
  uint64_t bits = (uint64_t)(key->m * key->k) | (uint64_t)(key->k * key->n) | (uint64_t)(key->m * key->n);
  if (key->bias) bits |= (uint64_t)key->m;
  bits = bits * sizeof(float) | 64;
  return (int)(bits & (~bits + 1));
}

/* D = op(A) op(B), plus bias (m) when given. */
static ls_status_t multiply(ls_stream_t *stream, ls_blas_key_t key, const float *a, const float *b,
                            const float *bias, float *d) {
  static const float one = 1, zero = 0;
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_cuda_device_t *device = ls_cuda_device(stream->device);
  if (key.m == 0 || key.n == 0) return LS_OK;
  key.bias = bias != NULL;
  key.tf32 = device->base.math == LS_MATH_TF32;
  key.align_bytes = common_alignment(a, b, d, bias);
  if (device->reproducible && key.align_bytes > size_alignment(&key)) key.align_bytes = size_alignment(&key);
  key.workspace_bytes = s->workspace_bytes;
  ls_blas_product_t spare;
  const ls_blas_product_t *product;
  ls_status_t status = find_product(device, &key, &spare, &product);
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
                                    (cublasLtMatrixLayout_t)(uintptr_t)&product->b, &zero, d, layout_d, d,
                                    layout_d, &product->algo, s->workspace, s->workspace_bytes, s->handle);
  if (r == CUBLAS_STATUS_SUCCESS) return LS_OK;
  return ls_fail(stream->device->ctx, LS_ERR_DEVICE, "cuBLASLt: (%lld x %lld) by (%lld x %lld): %s",
                 (long long)key.m, (long long)key.k, (long long)key.k, (long long)key.n,
                 device->blas.cublasLtGetStatusString(r));
}

/* (x (n, i), w (o, i), b (o)) -> y (n, o). Leading dimensions of x are rows. */
static ls_status_t forward(ls_stream_t *stream, const ls_kernel_args_t *args, bool relu) {
  const ls_tensor_t *x = &args->in[0], *w = &args->in[1];
  int64_t i = w->shape.dim[1], o = w->shape.dim[0], n = ls_shape_outer(&x->shape, x->shape.rank - 1);
  ls_blas_key_t key = {.m = o, .n = n, .k = i, .a_transposed = true, .relu = relu};
  return multiply(stream, key, w->data, x->data, args->in[2].data, args->out[0].data);
}

static ls_status_t linear(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return forward(stream, args, false);
}

static ls_status_t linear_relu(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return forward(stream, args, true);
}

/* (dy (n, o), w (o, i)) -> dx (n, i). */
static ls_status_t linear_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_tensor_t *dy = &args->in[0], *w = &args->in[1];
  int64_t i = w->shape.dim[1], o = w->shape.dim[0], n = ls_shape_outer(&dy->shape, dy->shape.rank - 1);
  ls_blas_key_t key = {.m = i, .n = n, .k = o};
  return multiply(stream, key, w->data, dy->data, NULL, args->out[0].data);
}

/* (dy (n, o), x (n, i)) -> dw (o, i), db (o). */
static ls_status_t linear_dwb(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_tensor_t *dy = &args->in[0], *x = &args->in[1];
  int64_t o = dy->shape.dim[dy->shape.rank - 1], i = x->shape.dim[x->shape.rank - 1];
  int64_t n = ls_shape_outer(&dy->shape, dy->shape.rank - 1);
  ls_blas_key_t key = {.m = i, .n = o, .k = n, .b_transposed = true};
  ls_status_t status = multiply(stream, key, x->data, dy->data, NULL, args->out[0].data);
  if (status) return status;
  int error = ls_kernel_column_sum(ls_kernel_stream(stream), ls_kernel_scratch(stream), dy->data,
                                   args->out[1].data, n, o);
  return ls_kernel_status(stream, error, "linear_dwb");
}

const ls_kernel_row_t ls_cuda_linear_rows[] = {{"linear", linear},
                                               {"linear_relu", linear_relu},
                                               {"linear_dx", linear_dx},
                                               {"linear_dwb", linear_dwb},
                                               {0}};
