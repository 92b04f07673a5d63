/* Dropout with Philox4x32-10 (base/rng.h), several counters at a time: every 32-bit word of the state sits in
 * the lower half of a 64-bit lane, where one instruction gives the full product. */
typedef uint64_t wide_t __attribute__((vector_size(LS_VECTOR_BYTES)));
enum { COUNTERS = LANES / 2, DROPOUT_BLOCK = 4 * COUNTERS };

/* Product of the lower halves of the lanes; the upper halves are ignored. */
INLINE wide_t product_low(wide_t a, wide_t b) {
#if LS_VECTOR_BYTES == 64
  return (wide_t)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif LS_VECTOR_BYTES == 32
  return (wide_t)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
  return (wide_t)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

INLINE wide_t wide_of(uint64_t x) {
  return (wide_t){0} + x;
}

/* The words of COUNTERS counters, in order of elements, as two vectors. */
INLINE void philox_block(uint64_t seed, uint32_t stream, uint64_t counter, veci_t *first, veci_t *second) {
  wide_t lane;
  for (int i = 0; i < COUNTERS; i++)
    lane[i] = (uint64_t)i;
  wide_t c0 = lane + counter, c1 = c0 >> 32, c2 = wide_of(stream), c3 = wide_of(0);
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  const wide_t m0 = wide_of(0xD2511F53u), m1 = wide_of(0xCD9E8D57u);
  for (int round = 0; round < 10; round++) {
    wide_t p0 = product_low(c0, m0), p1 = product_low(c2, m1);
    c0 = (p1 >> 32) ^ c1 ^ wide_of(k0);
    c2 = (p0 >> 32) ^ c3 ^ wide_of(k1);
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  wide_t low = (c0 & 0xffffffffu) | (c1 << 32), high = (c2 & 0xffffffffu) | (c3 << 32);
#if LS_VECTOR_BYTES == 64
  *first = (veci_t)__builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
  *second = (veci_t)__builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
#elif LS_VECTOR_BYTES == 32
  *first = (veci_t)__builtin_shufflevector(low, high, 0, 4, 1, 5);
  *second = (veci_t)__builtin_shufflevector(low, high, 2, 6, 3, 7);
#else
  *first = (veci_t)__builtin_shufflevector(low, high, 0, 2);
  *second = (veci_t)__builtin_shufflevector(low, high, 1, 3);
#endif
}

typedef uint32_t vecu_t __attribute__((vector_size(LS_VECTOR_BYTES)));

INLINE vec_t drop(vec_t x, veci_t word, int32_t threshold, float scale) {
  veci_t upper = (veci_t)((vecu_t)word >> 8); /* 24 bits: never negative */
  return mask_keep(x * scale, upper >= threshold);
}

static void dropout(int64_t count, uint64_t seed, uint32_t stream, uint64_t counter, uint32_t threshold,
                    float scale, const float *x, float *y) {
  int64_t e = 0;
  veci_t first, second;
  for (; e + DROPOUT_BLOCK <= count; e += DROPOUT_BLOCK) {
    philox_block(seed, stream, counter + (uint64_t)e / 4, &first, &second);
    vec_t x0 = load(x + e), x1 = load(x + e + LANES);
    store(y + e, drop(x0, first, (int32_t)threshold, scale));
    store(y + e + LANES, drop(x1, second, (int32_t)threshold, scale));
  }
  if (e == count) return;
  uint32_t word[DROPOUT_BLOCK];
  philox_block(seed, stream, counter + (uint64_t)e / 4, &first, &second);
  memcpy(word, &first, sizeof first);
  memcpy(word + LANES, &second, sizeof second);
  for (int64_t i = 0; e + i < count; i++)
    y[e + i] = word[i] >> 8 >= threshold ? x[e + i] * scale : 0;
}
