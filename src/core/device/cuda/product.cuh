// One product of matrices, as product_tensor.cuh computes it: what, of what, and what becomes of its sums.
#pragma once

#include "device/cuda/convolve.cuh"

// C (m, n) = A (m, k) B (k, n) of each group. FORWARD: m positions of y, n channels of y, k window and channels of x. DX: m
// positions of x, n channels of x, k window and channels of dy. DW: m channels of dy, n window and channels of x, k positions.
enum { FORWARD, DX, DW };
struct product_task {
  conv_shape s;
  const void *a, *b;
  void *out;
  bool wide;                // out is f32 whatever the factors are
  const void *bias, *other; // of the factors' dtype, NULL: none; other has the places of out
  bool relu;
  int m, n, k, groups, a_bytes, b_bytes; // pieces in which A and B may be copied: 16, 4, 2
  int64_t count;                         // of out
  size_t taken;                          // bytes at the end of the workspace that are somebody else's
  int parts;                             // in which k is summed, one after the other in part (parts, count)
  float *part;
};

// Sum v at `at`, a number of this column of y, as the result has it.
template <class T> __device__ static float finished(const product_task &p, float v, int64_t at, int column) {
  if (p.bias) v += f32_of(((const T *)p.bias)[column]);
  if (p.other) v += f32_of(((const T *)p.other)[at]);
  return p.relu && v < 0 ? 0 : v; // a NaN stays one
}

template <class T> __global__ void product_finish_kernel(product_task p, int columns) {
  for (int64_t i = thread_index(); i < p.count; i += thread_count()) {
    float sum = 0;
    for (int part = 0; part < p.parts; part++)
      sum += p.part[part * p.count + i];
    sum = finished<T>(p, sum, i, p.bias ? (int)(i % columns) : 0);
    if (p.wide)
      ((float *)p.out)[i] = sum;
    else
      ((T *)p.out)[i] = rounded<T>(sum);
  }
}
template <class T> static int product_finish(ls_stream_t *stream, const product_task &p) {
  product_finish_kernel<T>
      <<<grid_for(p.count, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(p, p.s.o);
  return launched();
}

// The number of parts in which k is summed: as many as fill the GPU twice, of at least two tiles of `each`, and fit the workspace.
static inline int product_parts(ls_stream_t *stream, const product_task &p, int64_t blocks, int each,
                                float **part) {
  enum { BLOCKS_WANTED = 264, TILES_LEAST = 2 };
  size_t workspace_bytes;
  *part = (float *)ls_kernel_workspace(stream, &workspace_bytes);
  int64_t parts = BLOCKS_WANTED / (blocks > 0 ? blocks : 1),
          most = (p.k + each * TILES_LEAST - 1) / (each * TILES_LEAST);
  int64_t room = (int64_t)((workspace_bytes - p.taken) / sizeof(float)) / (p.count > 0 ? p.count : 1);
  if (parts > most) parts = most;
  if (parts > room) parts = room;
  return parts < 1 ? 1 : (int)parts;
}

// Products of 16-bit tensors (product_low.cu), and of f32 as TF32 or as split factors (product_wide.cu).
int product_low(ls_stream_t *stream, const product_task &p, int pass, ls_dtype_t dtype, int which);
int product_wide(ls_stream_t *stream, const product_task &p, int pass, bool split, int which);
// The product by one of the ways LS_TENSOR_*; cudaErrorNotSupported where that is not one for these factors.
int product_tensor(ls_stream_t *stream, const product_task &p, int pass, ls_dtype_t dtype, int which);
