/* The fingerprint of the samples, by which a checkpoint recognises its data. */
#include "data/picture/images.h"
#include "data/text/corpus.h"

#include <stdio.h>
#define XXH_INLINE_ALL /* a state on the stack, of whatever version */
#include <xxhash.h>

enum { HASHED_BYTES_MAX = 64 << 20 /* takes about 10 ms; larger data are sampled */, BLOCK = 512 };

/* Reads in blocks; the hash equals that of the whole row. */
static uint64_t add_features(uint64_t hash, const ls_dataset_t *d, int64_t row) {
  float block[BLOCK];
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset_withSeed(&state, hash);
  for (int64_t first = 0; first < d->inputs; first += BLOCK) {
    int64_t count = d->inputs - first < BLOCK ? d->inputs - first : BLOCK;
    ls_dataset_features(d, row, first, count, block);
    XXH3_64bits_update(&state, block, (size_t)count * sizeof *block);
  }
  return XXH3_64bits_digest(&state);
}

void ls_dataset_hash(const ls_dataset_t *d, int64_t first, int64_t count, char hex[LS_DATASET_HASH_BYTES]) {
  const int64_t sizes[] = {count, d->inputs, d->outputs, d->classes};
  size_t y_bytes = ls_shape_bytes(&d->sample.target);
  double row_bytes = (double)(d->inputs + d->outputs) * sizeof(float);
  uint64_t hash = XXH3_64bits_withSeed(sizes, sizeof sizes, 0);
  int64_t stride = 1 + (int64_t)((double)count * row_bytes / HASHED_BYTES_MAX);
  if (d->corpus) hash = ls_corpus_hash(d->corpus, first > 0, hash);
  if (d->images) hash = ls_images_hash(d, first, count, hash);
  for (int64_t row = first; row < first + count && !d->corpus && !d->images; row += stride) {
    hash = add_features(hash, d, row);
    hash = XXH3_64bits_withSeed((const char *)d->targets + (size_t)row * y_bytes, y_bytes, hash);
  }
  snprintf(hex, LS_DATASET_HASH_BYTES, "%016llx", (unsigned long long)hash);
}
