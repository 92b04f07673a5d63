/* A checkpoint's record of its training data, and the comparison with the present data. */
#include "train/saved.h"

#include <math.h>
#include <string.h>

void ls_train_describe_data(const ls_dataset_t *d, ls_saved_t *saved) {
  saved->rows = d->split_rows;
  saved->inputs = d->inputs;
  saved->outputs = d->outputs;
  saved->held_rows = d->rows - d->split_rows;
  saved->held = saved->held_rows > 0;
  ls_dataset_hash(d, 0, d->split_rows, saved->hash);
  if (saved->held) ls_dataset_hash(d, d->split_rows, saved->held_rows, saved->held_hash);
}

bool ls_train_same_data(const ls_saved_t *saved, const ls_dataset_t *d) {
  char hash[LS_DATASET_HASH_BYTES];
  if (!saved->hash[0])
    return saved->train_count == d->split_rows - llround((double)d->split_rows * saved->validation);
  if (saved->rows != d->split_rows || saved->inputs != d->inputs || saved->outputs != d->outputs)
    return false;
  ls_dataset_hash(d, 0, d->split_rows, hash);
  return strcmp(hash, saved->hash) == 0;
}

bool ls_train_same_held(const ls_saved_t *saved, const ls_dataset_t *d) {
  char hash[LS_DATASET_HASH_BYTES];
  int64_t rows = d->rows - d->split_rows;
  if (saved->held_rows != rows || rows == 0) return saved->held_rows == rows;
  ls_dataset_hash(d, d->split_rows, rows, hash);
  return strcmp(hash, saved->held_hash) == 0;
}
