// Products of 16-bit matrices (product_tensor.cuh).
#include "device/cuda/product_tensor.cuh"

int product_low(ls_stream_t *stream, const product_task &p, int pass, ls_dtype_t dtype, int which) {
  return dtype == LS_BF16 ? product_with<bf16_t, 2>(stream, p, pass, which)
                          : product_with<f16_t, 2>(stream, p, pass, which);
}
