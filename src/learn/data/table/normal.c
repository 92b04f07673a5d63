/* Normal numbers from Philox words by the Box-Muller transform (Box and Muller, 1958), written so that
 * compilers vectorise its loops: no calls, no branches, float arithmetic only. Logarithm and sine are short
 * series; their error, below 1e-6, is far smaller than any sample could show. Words have 31 bits here, so
 * values reach 6.7 standard deviations. */
#include "data/table/normal.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 32 }; /* counters at a time; each gives four words and four numbers */

typedef struct {
  uint32_t w[4][BLOCK];
} words_t;

/* Philox4x32-10 for BLOCK consecutive counters: the same words as ls_rng. */
static void philox(uint64_t seed, uint32_t stream, uint64_t first, words_t *out) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int i = 0; i < BLOCK; i++) {
    out->w[0][i] = (uint32_t)(first + (uint64_t)i);
    out->w[1][i] = (uint32_t)((first + (uint64_t)i) >> 32);
    out->w[2][i] = stream;
    out->w[3][i] = 0;
  }
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < BLOCK; i++) {
      uint64_t p0 = (uint64_t)0xD2511F53u * out->w[0][i], p1 = (uint64_t)0xCD9E8D57u * out->w[2][i];
      out->w[0][i] = (uint32_t)(p1 >> 32) ^ out->w[1][i] ^ k0;
      out->w[2][i] = (uint32_t)(p0 >> 32) ^ out->w[3][i] ^ k1;
      out->w[1][i] = (uint32_t)p1;
      out->w[3][i] = (uint32_t)p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

/* sqrt(-2 ln u) for u = (word / 2 + 1/2) 2^-31, in (0, 1]. With u = m 2^e and m in [sqrt(1/2), sqrt(2)),
 * ln u = e ln 2 + 2 artanh((m - 1) / (m + 1)). */
static inline float radius(uint32_t word) {
  float u = ((float)(int32_t)(word >> 1) + 0.5f) * 0x1p-31f;
  uint32_t bits;
  memcpy(&bits, &u, sizeof bits);
  bits += 0x3f800000u - 0x3f3504f3u; /* exponent + 1 when the mantissa is at least sqrt(1/2) */
  float e = (float)((int32_t)(bits >> 23) - 127);
  bits = (bits & 0x007fffffu) + 0x3f3504f3u;
  float m;
  memcpy(&m, &bits, sizeof m);
  float s = (m - 1.0f) / (m + 1.0f), q = s * s;
  float ln = 2.0f * s * (1.0f + q * (1.0f / 3 + q * (1.0f / 5 + q * (1.0f / 7 + q * (1.0f / 9)))));
  float r2 = -2.0f * (e * 0.693147181f + ln);
  return sqrtf(r2 > 0.0f ? r2 : 0.0f);
}

/* cos and sin of the angle word / 2^32 of a turn. Moved on by an eighth, its top two bits name the nearest
 * quarter and the rest is the angle from there, in [-pi/4, pi/4): small enough for Taylor's series. */
static inline void direction(uint32_t word, float *c, float *s) {
  word += 0x20000000u;
  uint32_t quarter = word >> 30;
  float t = (float)((int32_t)(word & 0x3fffffffu) - 0x20000000) * (0x1p-30f * 1.57079633f), q = t * t;
  float sine = t * (1.0f + q * (-1.0f / 6 + q * (1.0f / 120 + q * (-1.0f / 5040 + q * (1.0f / 362880)))));
  float cosine = 1.0f + q * (-0.5f + q * (1.0f / 24 + q * (-1.0f / 720 + q * (1.0f / 40320))));
  uint32_t a, b, swap = 0u - (quarter & 1u), x;
  memcpy(&a, &cosine, sizeof a);
  memcpy(&b, &sine, sizeof b);
  x = (a ^ b) & swap; /* every second quarter exchanges the two; signs follow */
  a ^= x ^ ((quarter ^ quarter >> 1) & 1u) << 31;
  b ^= x ^ (quarter >> 1) << 31;
  memcpy(c, &a, sizeof a);
  memcpy(s, &b, sizeof b);
}

static void box_muller(const words_t *words, float out[BLOCK][4]) {
  float n[4][BLOCK];
  for (int pair = 0; pair < 4; pair += 2) {
    for (int i = 0; i < BLOCK; i++) {
      float r = radius(words->w[pair][i]), c, s;
      direction(words->w[pair + 1][i], &c, &s);
      n[pair][i] = r * c;
      n[pair + 1][i] = r * s;
    }
  }
  for (int i = 0; i < BLOCK; i++)
    for (int j = 0; j < 4; j++)
      out[i][j] = n[j][i];
}

void ls_normal_fill(uint64_t seed, uint32_t stream, uint64_t first, int64_t count, float *out) {
  words_t words;
  float block[BLOCK][4];
  for (int64_t done = 0; done < count; done += BLOCK * 4, first += BLOCK) {
    int64_t left = count - done, take = left < BLOCK * 4 ? left : BLOCK * 4;
    philox(seed, stream, first, &words);
    box_muller(&words, block);
    memcpy(out + done, block, (size_t)take * sizeof *out);
  }
}
