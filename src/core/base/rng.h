/* Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC'11). A number is a pure
 * function of (key, counter), so any rank can compute any sample's numbers, and no state has to be saved.
 * Keys are built from (seed, stream). A stream is one purpose, such as dropout of op 3 or the initialiser of
 * parameter 7. */
#ifndef LS_BASE_RNG_H
#define LS_BASE_RNG_H

#include <stdint.h>

#ifdef __CUDACC__ /* kernels draw the same words */
#define LS_RNG static __host__ __device__ __forceinline__
#else
#define LS_RNG static inline
#endif

/* Streams, so that no two uses share numbers. Ops and parameters add their ordinal to the base. */
enum {
  LS_RNG_DROPOUT = 0x1000000,
  LS_RNG_INIT = 0x2000000,
  LS_RNG_SYNTHETIC = 0x3000000,
  LS_RNG_ORDER = 0x4000000,
  LS_RNG_WINDOW = 0x5000000,
  LS_RNG_AUGMENT = 0x6000000,
  LS_RNG_MASKED = 0x8000000,
  LS_RNG_GENERATE = 0x9000000,
};

typedef struct {
  uint32_t v[4];
} ls_rng4_t;

/* Four words for (seed, stream, counter). */
LS_RNG ls_rng4_t ls_rng(uint64_t seed, uint32_t stream, uint64_t counter) {
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
  ls_rng4_t words = {{c0, c1, c2, c3}};
  return words;
}

/* A word as a float in [0, 1), 24 bits. */
static inline float ls_rng_unit(uint32_t word) {
  return (float)(word >> 8) * 0x1p-24f;
}

/* Four independent standard normal floats (Box-Muller). */
void ls_rng_normal4(uint64_t seed, uint32_t stream, uint64_t counter, float out[4]);

#endif
