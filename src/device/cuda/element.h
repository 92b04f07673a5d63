/* What one thread computes for one element, in the common subset of C and CUDA C++: kernels use it on the GPU, and
 * tests/cuda checks it on the host against the op rows. Formulas and their sources are in the rows' files. */
#ifndef LS_DEVICE_CUDA_ELEMENT_H
#define LS_DEVICE_CUDA_ELEMENT_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define LS_EACH static __host__ __device__ __forceinline__
#else
#define LS_EACH static inline
#endif

/* A NaN stays a NaN, so that the guard of the step can see it. */
LS_EACH float ls_each_relu(float x) { return x < 0 ? 0 : x; }
LS_EACH float ls_each_relu_dy(float dy, float y) { return y > 0 ? dy : 0; }

/* The normal distribution function through erfc, which keeps its digits for negative x. */
LS_EACH float ls_each_normal_cdf(float x) { return 0.5f * erfcf(-0.70710678f * x); }
LS_EACH float ls_each_gelu(float x) { return x * ls_each_normal_cdf(x); }
LS_EACH float ls_each_gelu_dx(float dy, float x) {
  return dy * (ls_each_normal_cdf(x) + x * (0.39894228f * expf(-0.5f * x * x)));
}

LS_EACH float ls_each_tanh(float x) { return tanhf(x); }
LS_EACH float ls_each_tanh_dy(float dy, float y) { return dy * (1 - y * y); }
LS_EACH float ls_each_sigmoid(float x) { return 1 / (1 + expf(-x)); }
LS_EACH float ls_each_sigmoid_dy(float dy, float y) { return dy * (y * (1 - y)); }

/* Philox4x32-10 as in base/rng.h, bit for bit. */
typedef struct {
  uint32_t v[4];
} ls_each_words_t;

LS_EACH ls_each_words_t ls_each_philox(uint64_t seed, uint32_t stream, uint64_t counter) {
  uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = stream, c3 = 0;
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  ls_each_words_t words;
  words.v[0] = c0;
  words.v[1] = c1;
  words.v[2] = c2;
  words.v[3] = c3;
  return words;
}

LS_EACH float ls_each_dropout(float x, uint32_t word, float rate, float scale) {
  return (float)(word >> 8) * 5.9604644775390625e-8f >= rate ? x * scale : 0; /* 2^-24: exact */
}

#endif
