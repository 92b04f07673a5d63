/* Sums in a fixed order. Floating-point addition is not associative: the order is part of the result, so it
 * is always rank 0 + rank 1 + ..., for every element, whatever the transport, the chunk or the timing. */
#include "base/half.h"
#include "comm/host.h"

#include <string.h>

enum { BLOCK_BYTES = 4096 }; /* small enough to stay in the first-level cache between the additions */

/* One block: `acc` is private memory, so the loops vectorise although the buffers may overlap. Integers are
 * summed as unsigned: they wrap around. */
#define DEFINE_SUM_BLOCK(type)                                                                               \
  static void sum_##type(void *restrict acc_bytes, const void *const *in, int in_count, int64_t first,       \
                         int64_t count) {                                                                    \
    type *restrict acc = acc_bytes;                                                                          \
    const type *restrict a = (const type *)in[0] + first;                                                    \
    const type *restrict b = (const type *)in[1] + first;                                                    \
    for (int64_t i = 0; i < count; i++)                                                                      \
      acc[i] = a[i] + b[i];                                                                                  \
    for (int k = 2; k < in_count; k++) {                                                                     \
      const type *restrict next = (const type *)in[k] + first;                                               \
      for (int64_t i = 0; i < count; i++)                                                                    \
        acc[i] += next[i];                                                                                   \
    }                                                                                                        \
  }
DEFINE_SUM_BLOCK(float)
DEFINE_SUM_BLOCK(double)
DEFINE_SUM_BLOCK(uint32_t)
DEFINE_SUM_BLOCK(uint64_t)

/* 16-bit floats are added in f32; the sum is rounded once. */
#define DEFINE_SUM_HALF(name)                                                                                \
  static void sum_##name(void *restrict acc_bytes, const void *const *in, int in_count, int64_t first,       \
                         int64_t count) {                                                                    \
    uint16_t *restrict acc = acc_bytes;                                                                      \
    float sum[BLOCK_BYTES / sizeof(uint16_t)] = {0};                                                         \
    for (int k = 0; k < in_count; k++) {                                                                     \
      const uint16_t *restrict next = (const uint16_t *)in[k] + first;                                       \
      for (int64_t i = 0; i < count; i++)                                                                    \
        sum[i] += ls_f32_of_##name(next[i]);                                                                 \
    }                                                                                                        \
    for (int64_t i = 0; i < count; i++)                                                                      \
      acc[i] = ls_##name##_of_f32(sum[i]);                                                                   \
  }
DEFINE_SUM_HALF(bf16)
DEFINE_SUM_HALF(f16)

typedef void (*sum_block_fn)(void *restrict acc, const void *const *in, int in_count, int64_t first,
                             int64_t count);
static const sum_block_fn sum_block[LS_DTYPE_COUNT] = {
    [LS_F32] = sum_float,    [LS_F64] = sum_double, [LS_I32] = sum_uint32_t,
    [LS_I64] = sum_uint64_t, [LS_BF16] = sum_bf16,  [LS_F16] = sum_f16};
/* The dtypes whose row says `sums`; transports refuse the others earlier. */
_Static_assert(LS_DTYPE_COUNT == 8, "a new dtype: can it be summed?");

void ls_comm_sum(ls_dtype_t dtype, void *out, void *copy, const void *const *in, int in_count,
                 int64_t count) {
  _Alignas(64) unsigned char acc[BLOCK_BYTES];
  const size_t bytes = ls_dtype_bytes(dtype);
  const int64_t block = (int64_t)(BLOCK_BYTES / bytes);
  for (int64_t first = 0; first < count; first += block) {
    int64_t n = count - first < block ? count - first : block;
    const void *sum = acc;
    if (in_count == 1)
      sum = (const unsigned char *)in[0] + (size_t)first * bytes;
    else
      sum_block[dtype](acc, in, in_count, first, n);
    memmove((unsigned char *)out + (size_t)first * bytes, sum, (size_t)n * bytes);
    if (copy) memcpy((unsigned char *)copy + (size_t)first * bytes, sum, (size_t)n * bytes);
  }
}
