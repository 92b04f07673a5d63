/* Counting memory that libraries use again and again, by what the calls have in common. */
#include "device/device.h"

enum { WORD_BITS = 64, GRANULES = LS_SCRATCH_WORDS * WORD_BITS };

static void mark(uint64_t *words, int64_t begin, int64_t end) {
  for (int64_t g = begin; g < end && g < GRANULES; g++)
    words[g / WORD_BITS] |= UINT64_C(1) << g % WORD_BITS;
}

void ls_scratch_use(ls_scratch_t *scratch, bool all_threads, int64_t from_bytes, int64_t until_bytes) {
  int64_t begin = from_bytes / LS_SCRATCH_GRANULE_BYTES;
  int64_t end = (until_bytes + LS_SCRATCH_GRANULE_BYTES - 1) / LS_SCRATCH_GRANULE_BYTES;
  if (until_bytes <= from_bytes) return;
  mark(scratch->first, begin, end);
  if (all_threads) mark(scratch->others, begin, end);
}

static int64_t used_bytes(const uint64_t *words) {
  int64_t granules = 0;
  for (int w = 0; w < LS_SCRATCH_WORDS; w++)
    granules += __builtin_popcountll(words[w]);
  return granules * LS_SCRATCH_GRANULE_BYTES;
}

int64_t ls_scratch_bytes(const ls_scratch_t *scratch, int threads) {
  return used_bytes(scratch->first) + (threads - 1) * used_bytes(scratch->others);
}
