/* What a checkpoint says about the data that it was trained on, and whether those at hand are the same. */
#include "train/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t whole(const json_t *object, const char *name) {
  return json_integer_value(json_object_get(object, name));
}

void ls_train_saved_data(const json_t *meta, ls_saved_data_t *saved) {
  const json_t *data = json_object_get(meta, "data"), *config = json_object_get(meta, "config");
  const char *hash = json_string_value(json_object_get(data, "xxh3_64"));
  *saved = (ls_saved_data_t){
      .known = meta != NULL,
      .validation = json_number_value(json_object_get(json_object_get(config, "data"), "validation")),
      .seed = (uint64_t)whole(meta, "seed"),
      .train_count = whole(meta, "train_samples"),
      .rows = whole(data, "rows"),
      .inputs = whole(data, "inputs"),
      .outputs = whole(data, "outputs")};
  snprintf(saved->hash, sizeof saved->hash, "%s", hash ? hash : "");
}

json_t *ls_train_data_json(const ls_dataset_t *d) {
  char hash[LS_DATASET_HASH_BYTES];
  ls_dataset_hash(d, hash);
  return json_pack("{s:I, s:I, s:I, s:s}", "rows", (json_int_t)d->rows, "inputs", (json_int_t)d->inputs,
                   "outputs", (json_int_t)d->outputs, "xxh3_64", hash);
}

bool ls_train_same_data(const ls_saved_data_t *saved, const ls_dataset_t *d) {
  char hash[LS_DATASET_HASH_BYTES];
  if (!saved->hash[0]) return saved->train_count == d->rows - llround((double)d->rows * saved->validation);
  if (saved->rows != d->rows || saved->inputs != d->inputs || saved->outputs != d->outputs) return false;
  ls_dataset_hash(d, hash);
  return strcmp(hash, saved->hash) == 0;
}
