/* Names that the data gave a checkpoint: columns, classes, characters. Another run takes them over or is refused. */
#include "train/saved.h"

#include <limits.h>
#include <string.h>

/* A list of strings as an option has it, borrowed from `names`. */
static ls_status_t take_names(ls_arena_t *arena, const json_t *names, ls_strings_t *out) {
  size_t count = json_array_size(names);
  if (count == 0 || count > INT_MAX) return LS_OK;
  const char **list = ls_arena_array(arena, count, sizeof *list);
  if (!list) return LS_ERR_MEMORY;
  for (size_t i = 0; i < count; i++)
    list[i] = json_string_value(json_array_get(names, i));
  *out = (ls_strings_t){(int)count, list};
  return LS_OK;
}

/* Before there was a list of them every column had an indicator of gaps. */
static ls_status_t take_indicators(ls_arena_t *arena, const json_t *meta, ls_data_config_t *data) {
  const json_t *names = json_object_get(meta, "indicators");
  data->indicators_trained = meta != NULL;
  return take_names(arena, names ? names : ls_config_saved_columns(meta), &data->indicators);
}

ls_status_t ls_train_take_names(ls_arena_t *arena, const json_t *meta, ls_data_config_t *data) {
  if (data->kind == LS_DATA_TEXT)
    return take_names(arena, json_object_get(meta, "vocabulary"), &data->vocabulary);
  if (data->kind != LS_DATA_CSV && data->kind != LS_DATA_IMAGES) return LS_OK;
  ls_status_t status = take_names(arena, json_object_get(meta, "labels"), &data->labels);
  data->classes_trained = meta;
  if (status == LS_OK && data->missing == LS_MISSING_INDICATOR) status = take_indicators(arena, meta, data);
  if (status != LS_OK || data->columns.count > 0 || data->kind == LS_DATA_IMAGES) return status;
  status = take_names(arena, ls_config_saved_columns(meta), &data->columns);
  data->columns_trained = data->columns.count > 0;
  return status;
}

/* The names of classes or tokens, where both have some. */
static ls_status_t compare_names(ls_ctx_t *ctx, const char *file, const json_t *was, const ls_dataset_t *d,
                                 const ls_strings_t *is, const char *what) {
  size_t count = json_array_size(was), same = 0;
  if (count == 0 || is->count == 0) return LS_OK;
  while (same < count && same < (size_t)is->count &&
         strcmp(json_string_value(json_array_get(was, same)), is->v[same]) == 0)
    same++;
  if (same == count && same == (size_t)is->count) return LS_OK;
  const char *theirs = same < count ? json_string_value(json_array_get(was, same)) : NULL;
  const char *ours = same < (size_t)is->count ? is->v[same] : NULL;
  return ls_fail(
      ctx, LS_ERR_MISMATCH,
      "%s was trained with other %s than %s has: %zu and %d of them; number %zu (from 0) is %s%s%s there "
      "and %s%s%s here, so its weights mean something else",
      file, what, d->source, count, is->count, same, theirs ? "'" : "", theirs ? LS_SHOWN(theirs) : "none",
      theirs ? "'" : "", ours ? "'" : "", ours ? LS_SHOWN(ours) : "none", ours ? "'" : "");
}

ls_status_t ls_train_compare_names(ls_ctx_t *ctx, const char *file, const json_t *meta,
                                   const ls_dataset_t *d) {
  ls_status_t status =
      compare_names(ctx, file, json_object_get(meta, "vocabulary"), d, &d->vocabulary, "characters");
  return status == LS_OK ? compare_names(ctx, file, json_object_get(meta, "labels"), d, &d->labels, "classes")
                         : status;
}

ls_status_t ls_train_compare_columns(ls_ctx_t *ctx, const json_t *meta, const ls_dataset_t *d) {
  const json_t *names = json_object_get(meta, "columns");
  if (!d->columns || !json_is_array(names)) return LS_OK;
  for (int64_t i = 0; i < d->column_count; i++) {
    const char *was = json_string_value(json_array_get(names, (size_t)i));
    if (was && strcmp(was, d->columns[i]) == 0) continue;
    return ls_fail(ctx, LS_ERR_MISMATCH,
                   "%s: feature column %lld is '%s', but the checkpoint was trained with '%s' there; name "
                   "the columns in "
                   "its order: data.columns",
                   d->source, (long long)i + 1, LS_SHOWN(d->columns[i]), LS_SHOWN(was ? was : "nothing"));
  }
  return LS_OK;
}
