/* A checkpoint's meta data, looked at once as a whole: its hash says that nobody altered it by accident, not
 * that what is in it makes sense. Behind this check a member is absent or as its row says. */
#include "train/compare.h"

#include <stdio.h>
#include <string.h>

typedef enum { OBJECT, INTEGER, NUMBER, NUMBER_OR_NULL, STRING, LIST, STRINGS } kind_t;
static const char *const kind_names[] = {
    [OBJECT] = "an object",         [INTEGER] = "a whole number", [NUMBER] = "a number",
    [NUMBER_OR_NULL] = "a number",  [STRING] = "a string",        [LIST] = "a list of objects",
    [STRINGS] = "a list of strings"};

#define COUNT_MAX (INT64_MAX / 4)

typedef struct {
  const char *path;
  kind_t kind;
  int64_t min, max; /* of numbers */
  bool required;    /* every version has written it */
} row_t;

static const row_t rows[] = {
    {"config", OBJECT, .required = true},
    {"config.model", OBJECT, .required = true},
    {"config.model.layers", LIST, .required = true},
    {"config.data", OBJECT, .required = true},
    {"config.data.kind", STRING},
    {"config.data.columns", STRINGS},
    {"config.data.validation", NUMBER, 0, 1},
    {"config.train", OBJECT, .required = true},
    {"seed", INTEGER, 0, INT64_MAX, .required = true},
    {"global_batch", INTEGER, 1, COUNT_MAX, .required = true},
    {"train_samples", INTEGER, 0, COUNT_MAX, .required = true},
    {"samples", INTEGER, 0, COUNT_MAX},
    {"early_stopping", OBJECT},
    {"early_stopping.best", NUMBER_OR_NULL, INT64_MIN, INT64_MAX},
    {"early_stopping.no_better", INTEGER, 0, INT32_MAX},
    {"columns", STRINGS},
    {"norm", OBJECT},
    {"data", OBJECT},
    {"data.rows", INTEGER, 0, COUNT_MAX},
    {"data.inputs", INTEGER, 0, COUNT_MAX},
    {"data.outputs", INTEGER, 0, COUNT_MAX},
    {"data.xxh3_64", STRING},
    {"data.validation", OBJECT},
    {"data.validation.rows", INTEGER, 0, COUNT_MAX},
    {"data.validation.xxh3_64", STRING},
};

json_t *ls_train_meta_at(const json_t *meta, const char *path) {
  char copy[64], *rest = copy;
  json_t *value = NULL;
  snprintf(copy, sizeof copy, "%s", path);
  for (char *part; (part = strtok_r(rest, ".", &rest)); meta = value)
    value = json_object_get(meta, part);
  return value;
}

static bool all_are(const json_t *list, json_type type) {
  bool good = json_is_array(list);
  for (size_t i = 0; i < json_array_size(list); i++)
    good = good && json_typeof(json_array_get(list, i)) == type;
  return good;
}

static bool has_kind(const json_t *value, kind_t kind) {
  switch (kind) {
  case OBJECT:
    return json_is_object(value);
  case INTEGER:
    return json_is_integer(value);
  case NUMBER:
    return json_is_number(value);
  case NUMBER_OR_NULL:
    return json_is_number(value) || json_is_null(value);
  case STRING:
    return json_is_string(value);
  case LIST:
    return all_are(value, JSON_OBJECT);
  case STRINGS:
    return all_are(value, JSON_STRING);
  }
  return false;
}

static bool in_range(const json_t *value, const row_t *row) {
  if (json_is_integer(value))
    return json_integer_value(value) >= row->min && json_integer_value(value) <= row->max;
  double real = json_number_value(value);
  return !json_is_real(value) || (real >= (double)row->min && real <= (double)row->max) ||
         row->kind == NUMBER_OR_NULL;
}

ls_status_t ls_train_meta_check(ls_ctx_t *ctx, const char *name, const json_t *meta) {
  for (int i = 0; i < LS_COUNT(rows); i++) {
    const row_t *row = &rows[i];
    const json_t *value = ls_train_meta_at(meta, row->path);
    if (!value && !row->required) continue;
    if (!value) return ls_fail(ctx, LS_ERR_CORRUPT, "%s: its manifest has no meta.%s", name, row->path);
    if (!has_kind(value, row->kind))
      return ls_fail(ctx, LS_ERR_CORRUPT, "%s: meta.%s in its manifest is not %s", name, row->path,
                     kind_names[row->kind]);
    if (!in_range(value, row))
      return ls_fail(ctx, LS_ERR_CORRUPT, "%s: meta.%s in its manifest is out of range: %lld to %lld", name,
                     row->path, (long long)row->min, (long long)row->max);
  }
  return LS_OK;
}
