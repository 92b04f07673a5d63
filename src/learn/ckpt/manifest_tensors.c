/* The manifest's list of tensors in pieces, with the place of each piece. A manifest comes from outside, so
 * every number is checked before it is used, and pieces must cover their tensor exactly. */
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"

#include <string.h>

/* ---- writing ---- */

static json_t *pieces_json(const ls_manifest_t *m, const ls_manifest_tensor_t *t) {
  json_t *list = json_array();
  for (int i = 0; list && i < t->piece_count; i++) {
    const ls_manifest_piece_t *p = &t->piece[i];
    json_t *one = json_pack("{s:s, s:I, s:I}", "file", m->file[p->file].name, "begin",
                            (json_int_t)p->range.begin, "end", (json_int_t)p->range.end);
    if (one && json_array_append_new(list, one) == 0) continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

json_t *ls_manifest_tensors_json(const ls_manifest_t *m) {
  json_t *list = json_array();
  for (int i = 0; list && i < m->tensor_count; i++) {
    const ls_manifest_tensor_t *t = &m->tensor[i];
    json_t *shape = json_array();
    for (int d = 0; shape && d < t->shape.rank; d++)
      if (json_array_append_new(shape, json_integer(t->shape.dim[d])) != 0) {
        json_decref(shape);
        shape = NULL;
      }
    json_t *one =
        json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", t->name, "part", ls_ckpt_parts[t->part].name, "dtype",
                  ls_dtype_row(t->shape.dtype)->safetensors, "shape", shape, "pieces", pieces_json(m, t));
    if (one && json_array_append_new(list, one) == 0) continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

/* ---- reading ---- */

/* Subjects of the messages. */
typedef struct {
  ls_ctx_t *ctx;
  const char *file, *tensor;
  const json_t *files; /* name -> index */
  ls_manifest_t *manifest;
} where_t;

static ls_status_t bad(const where_t *w, const char *fault) {
  return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: tensor '%s' %s", w->file, LS_SHOWN(w->tensor), fault);
}

/* The value is an object of exactly these members. */
static bool has_keys(const json_t *value, const char *const *keys, int count) {
  bool good = json_is_object(value) && json_object_size(value) == (size_t)count;
  for (int i = 0; i < count; i++)
    good = good && json_object_get(value, keys[i]);
  return good;
}

static ls_status_t parse_piece(const where_t *w, const json_t *value, int64_t next, int64_t count,
                               ls_manifest_piece_t *piece) {
  static const char *const keys[] = {"file", "begin", "end"};
  if (!has_keys(value, keys, LS_COUNT(keys))) return bad(w, "has a piece that is not {file, begin, end}");
  const char *name = json_string_value(json_object_get(value, "file"));
  const json_t *index = name ? json_object_get(w->files, name) : NULL;
  const json_t *begin = json_object_get(value, "begin"), *end = json_object_get(value, "end");
  if (!index) return bad(w, "has a piece in a file that is not listed");
  if (!json_is_integer(begin) || !json_is_integer(end))
    return bad(w, "has a piece whose begin or end is not a whole number");
  piece->file = (int)json_integer_value(index);
  piece->range = (ls_range_t){json_integer_value(begin), json_integer_value(end)};
  if (piece->range.begin < next) return bad(w, "has pieces that overlap or are not in order");
  if (piece->range.begin > next) return bad(w, "has a gap between its pieces");
  if (piece->range.end <= piece->range.begin) return bad(w, "has a piece that is empty or runs backwards");
  if (piece->range.end > count) return bad(w, "has a piece beyond its end");
  w->manifest->file[piece->file].pieces = true;
  return LS_OK;
}

static ls_status_t parse_pieces(const where_t *w, const json_t *list, ls_manifest_tensor_t *t) {
  int64_t next = 0, count = ls_shape_count(&t->shape);
  if (!json_is_array(list)) return bad(w, "has no list of pieces");
  if (json_array_size(list) > INT32_MAX) return bad(w, "has too many pieces");
  t->piece = ls_arena_array(&w->manifest->arena, json_array_size(list) + 1, sizeof *t->piece);
  if (!t->piece) return LS_ERR_MEMORY;
  for (size_t i = 0; i < json_array_size(list); i++) {
    ls_status_t status = parse_piece(w, json_array_get(list, i), next, count, &t->piece[i]);
    if (status) return status;
    next = t->piece[i].range.end;
  }
  t->piece_count = (int)json_array_size(list);
  return next == count ? LS_OK : bad(w, "lacks its last pieces");
}

/* seen: the names before, of each part. */
static ls_status_t parse_tensor(where_t *w, const json_t *value, json_t *const *seen,
                                ls_manifest_tensor_t *t) {
  static const char *const keys[] = {"name", "part", "dtype", "shape", "pieces"};
  const char *name = json_string_value(json_object_get(value, "name"));
  const char *part = json_string_value(json_object_get(value, "part"));
  w->tensor = name ? name : "";
  if (!has_keys(value, keys, LS_COUNT(keys)) || !name || !name[0])
    return bad(w, "is not {name, part, dtype, shape, pieces}");
  int p = 0;
  while (p < LS_PART_COUNT && !(part && strcmp(part, ls_ckpt_parts[p].name) == 0))
    p++;
  if (p == LS_PART_COUNT) return bad(w, "belongs to no known part");
  if (json_object_get(seen[p], name)) return bad(w, "is listed twice");
  if (json_object_set_new(seen[p], name, json_true()) != 0)
    return ls_fail(w->ctx, LS_ERR_MEMORY, "out of memory: tensors of %s", w->file);
  uint64_t size_bytes;
  ls_status_t status = ls_safetensors_shape(w->ctx, w->file, name, value, &t->shape, &size_bytes);
  if (status) return status;
  t->part = (ls_ckpt_part_t)p;
  t->name = ls_arena_strdup(&w->manifest->arena, name);
  return t->name ? parse_pieces(w, json_object_get(value, "pieces"), t) : LS_ERR_MEMORY;
}

ls_status_t ls_manifest_tensors_parse(ls_ctx_t *ctx, const char *name, const json_t *list,
                                      const json_t *files, ls_manifest_t *m) {
  where_t w = {ctx, name, "", files, m};
  json_t *seen[LS_PART_COUNT] = {json_object(), json_object()};
  ls_status_t status = LS_OK;
  if (!seen[0] || !seen[1]) status = ls_fail(ctx, LS_ERR_MEMORY, "out of memory: tensors of %s", name);
  if (!status && (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > INT32_MAX))
    status = ls_fail(ctx, LS_ERR_CORRUPT, "%s: \"tensors\" is not a list, or empty", name);
  if (!status) m->tensor = ls_arena_array(&m->arena, json_array_size(list), sizeof *m->tensor);
  if (!status && !m->tensor) status = LS_ERR_MEMORY;
  for (size_t i = 0; i < json_array_size(list) && !status; i++, m->tensor_count++)
    status = parse_tensor(&w, json_array_get(list, i), seen, &m->tensor[i]);
  json_decref(seen[1]);
  json_decref(seen[0]);
  return status;
}
