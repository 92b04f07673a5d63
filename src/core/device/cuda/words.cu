// Words of memory that is burned in (device/words.h), four of them in an access of 16 bytes.
#include "device/cuda/block.cuh"
#include "device/words.h"

typedef unsigned long long count_t;

__global__ void turn_kernel(uint32_t *words, int64_t count, int64_t first, int64_t sweep, bool check,
                            count_t *wrong) {
  count_t bad = 0;
  int64_t vectors = count / 4;
  uint4 *v = (uint4 *)words;
  for (int64_t k = thread_index(); k < vectors; k += thread_count()) {
    uint64_t at = (uint64_t)(first + 4 * k);
    if (check) {
      uint4 had = v[k];
      bad += (had.x != ls_word_pattern(at, sweep)) + (had.y != ls_word_pattern(at + 1, sweep)) +
             (had.z != ls_word_pattern(at + 2, sweep)) + (had.w != ls_word_pattern(at + 3, sweep));
    }
    uint4 next;
    next.x = ls_word_pattern(at, sweep + 1);
    next.y = ls_word_pattern(at + 1, sweep + 1);
    next.z = ls_word_pattern(at + 2, sweep + 1);
    next.w = ls_word_pattern(at + 3, sweep + 1);
    v[k] = next;
  }
  for (int64_t k = 4 * vectors + thread_index(); k < count; k += thread_count()) {
    uint64_t at = (uint64_t)(first + k);
    if (check) bad += words[k] != ls_word_pattern(at, sweep);
    words[k] = ls_word_pattern(at, sweep + 1);
  }
  if (bad) atomicAdd(wrong, bad);
}

static ls_status_t turn_words(ls_stream_t *stream, args_t args) {
  const int64_t *i = args->attrs->i, count = i[LS_TURN_COUNT];
  turn_kernel<<<grid_for(count, 4 * BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      out<uint32_t>(args, 0), count, i[LS_TURN_FIRST], i[LS_TURN_SWEEP], i[LS_TURN_CHECK] != 0,
      out<count_t>(args, 1));
  return launched(stream, "turn_words");
}

__global__ void differ_kernel(const uint32_t *a, const uint32_t *b, int64_t count, count_t *wrong) {
  count_t bad = 0;
  int64_t vectors = count / 4;
  const uint4 *va = (const uint4 *)a, *vb = (const uint4 *)b;
  for (int64_t k = thread_index(); k < vectors; k += thread_count()) {
    uint4 x = va[k], y = vb[k];
    bad += (x.x != y.x) + (x.y != y.y) + (x.z != y.z) + (x.w != y.w);
  }
  for (int64_t k = 4 * vectors + thread_index(); k < count; k += thread_count())
    bad += a[k] != b[k];
  if (bad) atomicAdd(wrong, bad);
}

static ls_status_t differing_words(ls_stream_t *stream, args_t args) {
  const int64_t count = in_count(args, 0);
  differ_kernel<<<grid_for(count, 4 * BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      in<uint32_t>(args, 0), in<uint32_t>(args, 1), count, out<count_t>(args, 0));
  return launched(stream, "differing_words");
}

const ls_kernel_row_t ls_cuda_words_rows[] = {
    {"turn_words", turn_words}, {"differing_words", differing_words}, {}};
