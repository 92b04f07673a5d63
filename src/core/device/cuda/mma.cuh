// Work of a whole warp: products of matrices on tensor cores, fragments from shared memory, copies
// into shared memory behind the arithmetic. From compute capability 8.0 on; PTX ISA, sections on mma.m16n8k16 and ldmatrix:
// in a product of 16 x 16 by 16 x 8, lane l has rows l / 4 and l / 4 + 8 of the result, columns 2 (l % 4) and one more.
#pragma once

#include "device/cuda/block.cuh"
#include <stddef.h>
#include <stdint.h>

// Two numbers side by side, the first in the lower half.
__device__ static inline uint32_t pack(float first, float second, bf16_t) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
__device__ static inline uint32_t pack(float first, float second, f16_t) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// sum += a b, sums in f32.
__device__ static inline void multiply(float *sum, const uint32_t *a, const uint32_t *b, bf16_t) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ static inline void multiply(float *sum, const uint32_t *a, const uint32_t *b, f16_t) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
      "%1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// ---- f32 factors: 8 numbers of k at a time, of which lane l has l % 4 and l % 4 + 4 ----

// An f32 factor of which products use TF32's 10 bits of mantissa, and one as the sum of two such: products of those lack only
// the smallest of the four partial products, so that their error is about that of f32.
struct tf32_t {
  float v;
};
struct split_t {
  float v;
};
__device__ static inline float f32_of(tf32_t x) {
  return x.v;
}
__device__ static inline float f32_of(split_t x) {
  return x.v;
}
template <> __device__ inline tf32_t rounded<tf32_t>(float x) {
  return {x};
}
template <> __device__ inline split_t rounded<split_t>(float x) {
  return {x};
}

__device__ static inline void round_pair(tf32_t *to, float a, float b) {
  *(float2 *)to = make_float2(a, b);
}
__device__ static inline void round_pair(split_t *to, float a, float b) {
  *(float2 *)to = make_float2(a, b);
}

__device__ static inline void multiply(float *sum, const uint32_t *a, const uint32_t *b, tf32_t) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// N registers of a factor, ready to be multiplied; `low`: what rounding left of each.
template <class E, int N> struct factor {
  static constexpr bool SPLIT = std::is_same<E, split_t>::value;
  uint32_t high[N], low[SPLIT ? N : 1];
  __device__ void set(int i, uint32_t raw) {
    high[i] = raw;
    if constexpr (SPLIT) { // to nearest; a NaN, of which the sum may make a number, stays one in `low`
      high[i] = (raw + 0x1000) & 0xffffe000;
      low[i] = __float_as_uint(__uint_as_float(raw) - __uint_as_float(high[i]));
    }
  }
  __device__ void set(const uint32_t *raw) {
#pragma unroll
    for (int i = 0; i < N; i++)
      set(i, raw[i]);
  }
};
// sum += a b, b from register `at` on. Of split factors: one of three products; the smaller ones come first.
template <class E> constexpr int PRODUCTS = factor<E, 1>::SPLIT ? 3 : 1;
template <class E, int A, int B>
__device__ static inline void multiply(float *sum, const factor<E, A> &a, const factor<E, B> &b, int at,
                                       int which) {
  if constexpr (sizeof(E) == 2)
    multiply(sum, a.high, b.high + at, E());
  else if (!factor<E, A>::SPLIT || which == 2)
    multiply(sum, a.high, b.high + at, tf32_t());
  else if (which == 0)
    multiply(sum, a.low, b.high + at, tf32_t());
  else
    multiply(sum, a.high, b.low + at, tf32_t());
}

__device__ static inline uint32_t shared_place(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

// Four 8 x 8 matrices of 16-bit numbers: lane l names row l % 8 of matrix l / 8, 16 bytes, and gets columns 2 (l % 4) and
// one more of row l / 4 of each; transposed: the matrices' columns take the place of rows.
__device__ static inline void load_fragments(uint32_t *to, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_place(row)));
}
__device__ static inline void load_fragments_transposed(uint32_t *to, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_place(row)));
}

// Copies to shared memory that a thread starts and goes on; zeros in place of what is not real. copies_end closes a group,
// copies_wait waits for all but the last `left` groups of the thread.
__device__ static inline void copy_16(void *to, const void *from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_place(to)), "l"(from),
               "r"(real ? 16 : 0));
}
__device__ static inline void copy_8(void *to, const void *from, bool real) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_place(to)), "l"(from),
               "r"(real ? 8 : 0));
}
__device__ static inline void copy_4(void *to, const void *from, bool real) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_place(to)), "l"(from),
               "r"(real ? 4 : 0));
}
__device__ static inline void copies_end() {
  asm volatile("cp.async.commit_group;");
}
template <int left> __device__ static inline void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

// Transposes an 8 x 8 matrix of 16-bit numbers: lane l has columns 2 (l % 4) and one more of row l / 4, and gets these of the
// transposed one.
__device__ static inline uint32_t transposed(uint32_t pair) {
  uint32_t turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
  return turned;
}

// tanh x, within 2^-11 of it.
__device__ static inline float tanh_rough(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 2^x, within 2 units in the last place; 0 for -INFINITY.
__device__ static inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Whether this build has code for the GPU that uses what compute capability `needed` (80: 8.0) has; then the kernel may take
// `bytes` of shared memory.
template <class F> static int kernel_ready(F *kernel, int needed, size_t bytes) {
  cudaFuncAttributes attributes;
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (!error && attributes.ptxVersion < needed) return cudaErrorNotSupported;
  return error ? error
               : cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}
