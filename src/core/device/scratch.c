/* Counts memory that libraries use again and again, and names what probe measures of their code. */
#include "device/device.h"

enum { WORD_BITS = 64, GRANULES = LS_BLOCK_WORDS * WORD_BITS };

const char *ls_code_name(ls_code_t part) {
  static const char *const names[LS_CODE_COUNT] = {[LS_CODE_PRODUCTS] = "products",
                                                   [LS_CODE_LOW] = "bf16",
                                                   [LS_CODE_LOW_PACKED] = "bf16-packed",
                                                   [LS_CODE_LOW_EACH] = "bf16-each",
                                                   [LS_CODE_LOW_REST] = "bf16-rest",
                                                   [LS_CODE_LOW_ODD] = "bf16-odd",
                                                   [LS_CODE_CONVOLUTIONS] = "convolutions",
                                                   [LS_CODE_LOW_CONVOLUTIONS] = "bf16-convolutions",
                                                   [LS_CODE_CONVOLUTION_EACH] = "convolution-each",
                                                   [LS_CODE_CONVOLUTION_ONE] = "convolution-1x1",
                                                   [LS_CODE_CONVOLUTION_DEPTHWISE] = "convolution-depthwise",
                                                   [LS_CODE_LOW_PACKED_EACH] = "bf16-packed-each"};
  return (unsigned)part < LS_CODE_COUNT ? names[part] : "";
}

static void mark(uint64_t *words, int64_t begin, int64_t end) {
  for (int64_t g = begin; g < end && g < GRANULES; g++)
    words[g / WORD_BITS] |= UINT64_C(1) << g % WORD_BITS;
}

void ls_block_use(ls_block_use_t *use, bool all_threads, int64_t from_bytes, int64_t until_bytes) {
  int64_t begin = from_bytes / LS_BLOCK_GRANULE_BYTES;
  int64_t end = (until_bytes + LS_BLOCK_GRANULE_BYTES - 1) / LS_BLOCK_GRANULE_BYTES;
  if (until_bytes <= from_bytes) return;
  mark(use->first, begin, end);
  if (all_threads) mark(use->others, begin, end);
}

void ls_block_use_add(ls_block_use_t *use, const ls_block_use_t *other) {
  for (int w = 0; w < LS_BLOCK_WORDS; w++) {
    use->first[w] |= other->first[w];
    use->others[w] |= other->others[w];
  }
}

static int64_t used_bytes(const uint64_t *words) {
  int64_t granules = 0;
  for (int w = 0; w < LS_BLOCK_WORDS; w++)
    granules += __builtin_popcountll(words[w]);
  return granules * LS_BLOCK_GRANULE_BYTES;
}

int64_t ls_block_use_bytes(const ls_block_use_t *use, int threads) {
  return used_bytes(use->first) + (threads - 1) * used_bytes(use->others);
}
