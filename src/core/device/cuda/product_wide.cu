// Products of f32 matrices (product_tensor.cuh).
#include "device/cuda/product_tensor.cuh"

int product_wide(ls_stream_t *stream, const product_task &p, int pass, bool split, int which) {
  return split ? product_with<split_t, 1>(stream, p, pass, which)
               : product_with<tf32_t, 2>(stream, p, pass, which);
}

int product_tensor(ls_stream_t *stream, const product_task &p, int pass, ls_dtype_t dtype, int which) {
  bool split = which & LS_TENSOR_SPLIT;
  if (p.m == 0 || p.n == 0) return 0;
  if (dtype != LS_F32) return split ? cudaErrorNotSupported : product_low(stream, p, pass, dtype, which);
  if (split == ls_kernel_rounds_f32(stream)) return cudaErrorNotSupported;
  return product_wide(stream, p, pass, split, which);
}
