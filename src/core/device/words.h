/* Words of memory that is burned in. A word's pattern depends on its place, so that a wrong address line is found, too,
 * and turns over with every sweep, so that each bit is written and read as 0 and as 1. Plain C, and included by CUDA
 * C++. */
#ifndef LS_DEVICE_WORDS_H
#define LS_DEVICE_WORDS_H

#include <stdint.h>

#ifdef __CUDACC__
#define LS_WORDS static __host__ __device__ __forceinline__
#else
#define LS_WORDS static inline
#endif

/* attrs.i of op turn_words. CHECK 0: the words have no pattern yet. */
enum { LS_TURN_COUNT, LS_TURN_FIRST, LS_TURN_SWEEP, LS_TURN_CHECK };

LS_WORDS uint32_t ls_word_pattern(uint64_t word, int64_t sweep) {
  return ((uint32_t)word * 2654435761u + (uint32_t)(word >> 32)) ^ (sweep & 1 ? UINT32_MAX : 0);
}

/* Returns how many of words [begin, end) differ from the pattern of `sweep` (if `check`), and writes the next
 * pattern. words[0] is word `first`. Works block by block while a block is in the cache. */
static inline int64_t ls_words_turn(uint32_t *words, int64_t begin, int64_t end, int64_t first, int64_t sweep,
                                    int check) {
  enum { BLOCK_WORDS = 4096 };
  int64_t wrong = 0;
  for (int64_t next; begin < end; begin = next) {
    next = end - begin < BLOCK_WORDS ? end : begin + BLOCK_WORDS;
    if (check)
      for (int64_t k = begin; k < next; k++)
        wrong += words[k] != ls_word_pattern((uint64_t)(first + k), sweep);
    for (int64_t k = begin; k < next; k++)
      words[k] = ls_word_pattern((uint64_t)(first + k), sweep + 1);
  }
  return wrong;
}
static inline int64_t ls_words_differ(const uint32_t *a, const uint32_t *b, int64_t begin, int64_t end) {
  int64_t wrong = 0;
  for (int64_t k = begin; k < end; k++)
    wrong += a[k] != b[k];
  return wrong;
}

#endif
