/* Many normal numbers at once. */
#ifndef LS_DATA_NORMAL_H
#define LS_DATA_NORMAL_H

#include "base/base.h"

/* out[0..count): standard normal numbers of (seed, stream), four from each of the counters first, first + 1,
 * ... A pure function, and the same bits on every machine: only operations that IEEE 754 rounds exactly are
 * used. */
void ls_normal_fill(uint64_t seed, uint32_t stream, uint64_t first, int64_t count, float *out);

#endif
