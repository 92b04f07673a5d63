/* Reads safetensors strictly, because a file that differs from the format was torn or altered. Every refusal
 * names the file, the tensor and the fault. */
#include "ckpt/safetensors.h"
#include "ckpt/store.h"

#include "base/magic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX_BYTES = 100000000 };

/* Subjects of the messages. */
typedef struct {
  ls_ctx_t *ctx;
  const char *file;
  const char *tensor;
} where_t;

static ls_status_t bad(const where_t *w, const char *fault) {
  return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: tensor '%s' %s", w->file, LS_SHOWN(w->tensor), fault);
}

/* Other programs' files also hold masks and counts, which nothing here computes with: they count as a type of their
 * size. */
static ls_dtype_t dtype_named(const char *name) {
  static const struct {
    const char *name;
    ls_dtype_t as;
  } others[] = {{"BOOL", LS_U8}, {"I8", LS_U8}, {"I16", LS_U16}, {"U32", LS_I32}, {"U64", LS_I64}};
  for (int i = 0; i < LS_COUNT(others); i++)
    if (strcmp(others[i].name, name) == 0) return others[i].as;
  int i = 0;
  while (i < LS_DTYPE_COUNT && strcmp(ls_dtype_row((ls_dtype_t)i)->safetensors, name) != 0)
    i++;
  return (ls_dtype_t)i;
}

static ls_status_t parse_dtype(const where_t *w, const json_t *value, ls_dtype_t *dtype) {
  if (!json_is_string(value)) return bad(w, "has no dtype");
  ls_dtype_t found = dtype_named(json_string_value(value));
  if (found < LS_DTYPE_COUNT) {
    *dtype = found;
    return LS_OK;
  }
  char known[16 * LS_DTYPE_COUNT] = "";
  for (int i = 0; i < LS_DTYPE_COUNT; i++)
    snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
             ls_dtype_row((ls_dtype_t)i)->safetensors);
  return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: tensor '%s' has the dtype '%s', which is not one of %s",
                 w->file, LS_SHOWN(w->tensor), LS_SHOWN(json_string_value(value)), known);
}

/* The shape and the bytes that it needs. */
static ls_status_t parse_shape(const where_t *w, const json_t *value, ls_shape_t *shape,
                               uint64_t *size_bytes) {
  if (!json_is_array(value)) return bad(w, "has no shape");
  size_t rank = json_array_size(value);
  if (rank > LS_DIMS_MAX) return bad(w, "has more than 6 dimensions");
  int64_t count = 1;
  bool overflow = false;
  shape->rank = (int)rank;
  for (size_t i = 0; i < rank; i++) {
    const json_t *dim = json_array_get(value, i);
    if (!json_is_integer(dim)) return bad(w, "has a dimension that is not an integer");
    shape->dim[i] = json_integer_value(dim);
    if (shape->dim[i] < 0) return bad(w, "has a negative dimension");
    overflow |= __builtin_mul_overflow(count, shape->dim[i], &count);
  }
  int64_t size = 0;
  overflow |= __builtin_mul_overflow(count, (int64_t)ls_dtype_bytes(shape->dtype), &size);
  if (overflow) return bad(w, "has a shape whose size overflows");
  *size_bytes = (uint64_t)size;
  return LS_OK;
}

ls_status_t ls_safetensors_shape(ls_ctx_t *ctx, const char *file, const char *tensor, const json_t *object,
                                 ls_shape_t *shape, uint64_t *size_bytes) {
  const where_t w = {ctx, file, tensor};
  ls_status_t status = parse_dtype(&w, json_object_get(object, "dtype"), &shape->dtype);
  return status ? status : parse_shape(&w, json_object_get(object, "shape"), shape, size_bytes);
}

static ls_status_t parse_offsets(const where_t *w, const json_t *value, uint64_t data_bytes,
                                 ls_safetensors_entry_t *entry) {
  const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
  if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end))
    return bad(w, "has no data_offsets of two integers");
  json_int_t b = json_integer_value(begin), e = json_integer_value(end);
  if (b < 0 || e < b) return bad(w, "has data_offsets that are negative or run backwards");
  if ((uint64_t)e > data_bytes) return bad(w, "ends after the end of the file");
  if ((uint64_t)(e - b) != entry->size_bytes) return bad(w, "has data_offsets that do not fit its shape");
  entry->offset_bytes = (uint64_t)b;
  return LS_OK;
}

static ls_status_t parse_entry(const where_t *w, json_t *value, uint64_t data_bytes,
                               ls_safetensors_entry_t *entry) {
  if (!json_is_object(value)) return bad(w, "is not described by an object");
  const char *key;
  json_t *ignored;
  json_object_foreach(value, key, ignored) {
    if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 && strcmp(key, "data_offsets") != 0)
      return bad(w, "has a key other than dtype, shape and data_offsets");
  }
  ls_status_t status =
      ls_safetensors_shape(w->ctx, w->file, w->tensor, value, &entry->shape, &entry->size_bytes);
  if (status) return status;
  return parse_offsets(w, json_object_get(value, "data_offsets"), data_bytes, entry);
}

static int by_offset(const void *a, const void *b) {
  const ls_safetensors_entry_t *x = a, *y = b;
  if (x->offset_bytes != y->offset_bytes) return x->offset_bytes < y->offset_bytes ? -1 : 1;
  if (x->size_bytes != y->size_bytes) return x->size_bytes < y->size_bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Entries in file order must follow each other exactly and fill the data. */
static ls_status_t check_cover(where_t *w, const ls_safetensors_entry_t *entries, int count,
                               uint64_t data_bytes) {
  uint64_t end = 0;
  for (int i = 0; i < count; i++) {
    w->tensor = entries[i].name;
    if (entries[i].offset_bytes > end) return bad(w, "begins after a hole in the data");
    if (entries[i].offset_bytes < end) return bad(w, "overlaps another tensor");
    end += entries[i].size_bytes;
  }
  if (end == data_bytes) return LS_OK;
  return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: %llu bytes after the last tensor", w->file,
                 (unsigned long long)(data_bytes - end));
}

static ls_status_t check_metadata(const where_t *w, json_t *value) {
  const char *key;
  json_t *text;
  bool good = json_is_object(value);
  if (good) json_object_foreach(value, key, text) good = good && json_is_string(text);
  if (good) return LS_OK;
  return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: __metadata__ must map names to strings", w->file);
}

static ls_status_t load_json(const where_t *w, const char *json, size_t json_bytes, json_t **root) {
  if (json_bytes == 0 || json[0] != '{')
    return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: the header does not begin with '{'", w->file);
  json_error_t error;
  *root = json_loadb(json, json_bytes, JSON_REJECT_DUPLICATES, &error);
  if (*root) return LS_OK;
  if (ls_ckpt_json_short_of_memory(&error))
    return ls_fail(w->ctx, LS_ERR_MEMORY, "out of memory: header of %s", w->file);
  return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: the header is not valid JSON at byte %d: %s", w->file,
                 error.position, LS_SHOWN(error.text));
}

static ls_status_t parse_entries(where_t *w, ls_arena_t *arena, json_t *root, uint64_t data_bytes,
                                 ls_safetensors_entry_t *entries, int *count) {
  const char *name;
  json_t *value;
  int filled = 0;
  json_object_foreach(root, name, value) {
    w->tensor = name;
    bool metadata = strcmp(name, "__metadata__") == 0;
    ls_safetensors_entry_t *entry = &entries[filled];
    ls_status_t status = metadata ? check_metadata(w, value) : parse_entry(w, value, data_bytes, entry);
    if (status) return status;
    if (metadata) continue;
    entry->name = ls_arena_strdup(arena, name);
    if (!entry->name) return LS_ERR_MEMORY;
    filled++;
  }
  *count = filled;
  return LS_OK;
}

ls_status_t ls_safetensors_length(ls_ctx_t *ctx, const char *name, const void *first, uint64_t file_bytes,
                                  size_t *json_bytes) {
  uint64_t length;
  if (file_bytes < sizeof length)
    return ls_fail(ctx, LS_ERR_CORRUPT, "%s: %llu bytes are too few for a safetensors file", name,
                   (unsigned long long)file_bytes);
  memcpy(&length, first, sizeof length);
  const bool possible = length <= HEADER_MAX_BYTES && length <= file_bytes - sizeof length;
  const char *other =
      possible ? NULL : ls_magic_text(first, sizeof length); /* a length may look like anything */
  if (other)
    return ls_fail(ctx, LS_ERR_CORRUPT,
                   "%s: not a safetensors file, but %s: safetensors.torch.save_file(model.state_dict(), "
                   "\"FILE\") writes one",
                   name, other);
  if (length > HEADER_MAX_BYTES)
    return ls_fail(ctx, LS_ERR_CORRUPT,
                   "%s: not a safetensors file: it does not begin with the length of a header", name);
  if (length > file_bytes - sizeof length)
    return ls_fail(ctx, LS_ERR_CORRUPT, "%s: the header should have %llu bytes, the file ends after %llu",
                   name, (unsigned long long)length, (unsigned long long)(file_bytes - sizeof length));
  *json_bytes = (size_t)length;
  return LS_OK;
}

ls_status_t ls_safetensors_header(ls_ctx_t *ctx, ls_arena_t *arena, const char *name, const char *json,
                                  size_t json_bytes, uint64_t data_bytes, ls_safetensors_entry_t **entries,
                                  int *count) {
  where_t w = {ctx, name, NULL};
  json_t *root;
  ls_status_t status = load_json(&w, json, json_bytes, &root);
  if (status) return status;
  int found = 0;
  ls_safetensors_entry_t *all = ls_arena_array(arena, json_object_size(root) + 1, sizeof *all);
  if (!all) {
    status = LS_ERR_MEMORY;
    goto free_root;
  }
  status = parse_entries(&w, arena, root, data_bytes, all, &found);
  if (status) goto free_root;
  qsort(all, (size_t)found, sizeof *all, by_offset);
  status = check_cover(&w, all, found, data_bytes);
  if (status) goto free_root;
  *entries = all;
  *count = found;
free_root:
  json_decref(root);
  return status;
}
