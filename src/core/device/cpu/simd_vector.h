/* One vector of floats of the instruction set that the including file is compiled for, with GCC's vector extensions
 * (also in clang). A program file includes it once, so it has no include guard. */
#include "base/half.h"
#include "device/cpu/simd.h"
#include "device/int8.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if LS_VECTOR_BYTES == 64
enum { TILE_ROWS = 8, TILE_VECS = 3 }; /* 24 of 32 registers hold sums */
#elif LS_VECTOR_BYTES == 32
enum { TILE_ROWS = 4, TILE_VECS = 3 }; /* 12 of 16 */
#else
enum { TILE_ROWS = 4, TILE_VECS = 2 };
#endif
enum { TILE_SUMS = TILE_ROWS * TILE_VECS, TALL_ROWS = TILE_SUMS > 16 ? 16 : TILE_SUMS };
enum { LANES = LS_VECTOR_BYTES / 4 };

typedef float vec_t __attribute__((vector_size(LS_VECTOR_BYTES)));
typedef int32_t veci_t __attribute__((vector_size(LS_VECTOR_BYTES)));
typedef float vec_mem_t __attribute__((vector_size(LS_VECTOR_BYTES), aligned(4), may_alias));
typedef int32_t veci_mem_t __attribute__((vector_size(LS_VECTOR_BYTES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 24")
#endif

/* Cuts rows [r, end) into tiles of `most`, 4, 2 and 1 rows, and runs the statement for each. TILE is its number of rows,
 * which the compiler knows: it unrolls each kind of tile. */
#define IN_TILES(most, r, end, ...)                                                                          \
  do {                                                                                                       \
    TILES_OF(most, r, end, __VA_ARGS__)                                                                      \
    if ((most) > 4) TILES_OF(4, r, end, __VA_ARGS__)                                                         \
    TILES_OF(2, r, end, __VA_ARGS__)                                                                         \
    TILES_OF(1, r, end, __VA_ARGS__)                                                                         \
  } while (0)
#define TILES_OF(rows, r, end, ...)                                                                          \
  for (; r + (rows) <= (end); r += (rows)) {                                                                 \
    const int TILE = (rows);                                                                                 \
    __VA_ARGS__;                                                                                             \
  }

INLINE vec_t load(const float *p) {
  return *(const vec_mem_t *)p;
}
INLINE void store(float *p, vec_t v) {
  *(vec_mem_t *)p = v;
}
INLINE vec_t mask_keep(vec_t v, veci_t mask) {
  return (vec_t)((veci_t)v & mask);
}

/* a b + c, rounded once if the instruction set can. Products use it. Everything else is compiled without
 * contraction, so that it gives the same bits on every CPU: replicas of the parameters on different machines must
 * stay equal after the same update. */
INLINE vec_t fused(vec_t a, vec_t b, vec_t c) {
#if LS_VECTOR_BYTES == 64
  return (vec_t)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif LS_VECTOR_BYTES == 32
  return (vec_t)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

INLINE vec_t all_lanes(float x) {
#if LS_VECTOR_BYTES == 64
  return (vec_t)_mm512_set1_ps(x);
#elif LS_VECTOR_BYTES == 32
  return (vec_t)_mm256_set1_ps(x);
#else
  return (vec_t){x, x, x, x};
#endif
}

/* sum + a b of both halves of a lane, integers of 16 bits. */
INLINE veci_t add_pairs(veci_t sum, veci_t a, veci_t b) {
#if LS_VECTOR_BYTES == 64
  return sum + (veci_t)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif LS_VECTOR_BYTES == 32
  return sum + (veci_t)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
  return sum + (veci_t)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  return sum + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
#endif
}

/* All ones in the lanes from `first` on. */
INLINE veci_t mask_from(int first) {
  veci_t lane;
  for (int i = 0; i < LANES; i++)
    lane[i] = i;
  return lane >= first;
}

/* Sum of the lanes, as a tree. */
INLINE float lanes_sum(vec_t v) {
  typedef float v4_t __attribute__((vector_size(16)));
#if LS_VECTOR_BYTES == 64
  typedef float v8_t __attribute__((vector_size(32)));
  v8_t h = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  v4_t q = __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
#elif LS_VECTOR_BYTES == 32
  v4_t q = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
  v4_t q = v;
#endif
  q += __builtin_shufflevector(q, q, 2, 3, 0, 1);
  return q[0] + q[1];
}
