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
  const json_t *held = json_object_get(data, "validation");
  const char *hash = json_string_value(json_object_get(data, "xxh3_64")),
             *held_hash = json_string_value(json_object_get(held, "xxh3_64"));
  *saved = (ls_saved_data_t){
      .known = meta != NULL,
      .validation = json_number_value(json_object_get(json_object_get(config, "data"), "validation")),
      .seed = (uint64_t)whole(meta, "seed"),
      .train_count = whole(meta, "train_samples"),
      .rows = whole(data, "rows"),
      .inputs = whole(data, "inputs"),
      .outputs = whole(data, "outputs"),
      .held_rows = whole(held, "rows")};
  snprintf(saved->hash, sizeof saved->hash, "%s", hash ? hash : "");
  snprintf(saved->held_hash, sizeof saved->held_hash, "%s", held_hash ? held_hash : "");
}

json_t *ls_train_data_json(const ls_dataset_t *d) {
  char hash[LS_DATASET_HASH_BYTES];
  ls_dataset_hash(d, 0, d->split_rows, hash);
  json_t *json = json_pack("{s:I, s:I, s:I, s:s}", "rows", (json_int_t)d->split_rows, "inputs",
                           (json_int_t)d->inputs, "outputs", (json_int_t)d->outputs, "xxh3_64", hash);
  if (d->split_rows == d->rows) return json;
  ls_dataset_hash(d, d->split_rows, d->rows - d->split_rows, hash);
  json_object_set_new(
      json, "validation",
      json_pack("{s:I, s:s}", "rows", (json_int_t)(d->rows - d->split_rows), "xxh3_64", hash));
  return json;
}

bool ls_train_same_data(const ls_saved_data_t *saved, const ls_dataset_t *d) {
  char hash[LS_DATASET_HASH_BYTES];
  if (!saved->hash[0])
    return saved->train_count == d->split_rows - llround((double)d->split_rows * saved->validation);
  if (saved->rows != d->split_rows || saved->inputs != d->inputs || saved->outputs != d->outputs)
    return false;
  ls_dataset_hash(d, 0, d->split_rows, hash);
  return strcmp(hash, saved->hash) == 0;
}

bool ls_train_same_held(const ls_saved_data_t *saved, const ls_dataset_t *d) {
  char hash[LS_DATASET_HASH_BYTES];
  int64_t rows = d->rows - d->split_rows;
  if (saved->held_rows != rows || rows == 0) return saved->held_rows == rows;
  ls_dataset_hash(d, d->split_rows, rows, hash);
  return strcmp(hash, saved->held_hash) == 0;
}
