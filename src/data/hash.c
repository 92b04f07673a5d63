/* A fingerprint of the samples, by which a checkpoint knows its data again. */
#include "data/data.h"

#include <stdio.h>
#include <xxhash.h>

enum { HASHED_BYTES_MAX = 64 << 20 }; /* some 10 ms; larger data are sampled */

static uint64_t add(uint64_t hash, const void *bytes, size_t size) {
  return XXH3_64bits_withSeed(bytes, size, hash);
}

void ls_dataset_hash(const ls_dataset_t *d, int64_t first, int64_t count, char hex[LS_DATASET_HASH_BYTES]) {
  const int64_t sizes[] = {count, d->inputs, d->outputs, d->classes};
  size_t x_bytes = (size_t)d->inputs * sizeof(float), y_bytes = (size_t)d->outputs * sizeof(float);
  uint64_t hash = add(0, sizes, sizeof sizes);
  int64_t stride = 1 + (int64_t)((double)count * (double)(x_bytes + y_bytes) / HASHED_BYTES_MAX);
  for (int64_t row = first; row < first + count; row += stride) {
    hash = add(hash, d->features + row * d->inputs, x_bytes);
    hash = d->classes ? add(hash, d->labels + row, sizeof *d->labels)
                      : add(hash, d->targets + row * d->outputs, y_bytes);
  }
  snprintf(hex, LS_DATASET_HASH_BYTES, "%016llx", (unsigned long long)hash);
}
