/* A machine from JSON. What comes back is checked value by value, because recorded and hand-written machines
 * come from outside. */
#include "machine/json_fields.h"
#include "machine/parts.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 << 20 };

/* Where a value stands, for messages: "file: gpu[1].name". */
typedef struct {
  ls_ctx_t *ctx;
  const char *file;
  char path[64];
} place_t;

static ls_status_t bad(const place_t *place, const char *key, const char *expected) {
  return ls_fail(place->ctx, LS_ERR_CONFIG, "%s: machine: %s%s: %s expected", place->file, place->path, key,
                 expected);
}

/* Names are printed on terminals: no control characters. */
static bool plain(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 0x7f) return false;
  return true;
}

static ls_status_t field_read(const place_t *place, const ls_machine_field_t *field, const json_t *value,
                              void *to) {
  char *at = (char *)to + field->offset;
  if (!value || json_is_null(value)) return LS_OK;
  if (field->type == LS_FIELD_TEXT) {
    if (!json_is_string(value) || json_string_length(value) >= field->size ||
        !plain(json_string_value(value)))
      return bad(place, field->name, "a short text");
    memcpy(at, json_string_value(value), json_string_length(value) + 1);
    return LS_OK;
  }
  if (field->type == LS_FIELD_REAL) {
    double number = json_number_value(value);
    if (!json_is_number(value) || !isfinite(number) || number < 0)
      return bad(place, field->name, "a number >= 0");
    *(double *)at = number;
    return LS_OK;
  }
  json_int_t limit = field->type == LS_FIELD_INT ? INT_MAX : INT64_MAX, number = json_integer_value(value);
  if (!json_is_integer(value) || number < 0 || number > limit)
    return bad(place, field->name, "a whole number >= 0");
  if (field->type == LS_FIELD_INT)
    *(int *)at = (int)number;
  else
    *(int64_t *)at = (int64_t)number;
  return LS_OK;
}

/* Keys that no row knows, with the nearest name that exists. */
static ls_status_t keys_check(const place_t *place, const json_t *object, const ls_machine_field_t *fields,
                              int count, const char *const *others) {
  const char *names[LS_MACHINE_FIELDS + LS_GPU_FIELDS + 8];
  int known = 0;
  for (int i = 0; i < count; i++)
    names[known++] = fields[i].name;
  for (int i = 0; others[i]; i++)
    names[known++] = others[i];
  names[known] = NULL;
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)object, key,
                      value) { /* the macro's type is not const; nothing is changed */
    bool found = false;
    for (int i = 0; i < known && !found; i++)
      found = !strcmp(key, names[i]);
    if (found) continue;
    const char *nearest = ls_nearest(key, names);
    return ls_fail(place->ctx, LS_ERR_CONFIG, "%s: machine: %sunknown key \"%s\"%s%s%s", place->file,
                   place->path, key, nearest ? " (did you mean " : "", nearest ? nearest : "",
                   nearest ? "?)" : "");
  }
  return LS_OK;
}

static ls_status_t fields_read(const place_t *place, const json_t *object, const ls_machine_field_t *fields,
                               int count, void *to) {
  for (int i = 0; i < count; i++) {
    ls_status_t status = field_read(place, &fields[i], json_object_get(object, fields[i].name), to);
    if (status != LS_OK) return status;
  }
  return LS_OK;
}

static ls_status_t cell_read(const place_t *place, ls_gpu_matrix_t matrix, const json_t *value, int i, int j,
                             ls_machine_t *m) {
  if (matrix == LS_MATRIX_LINK) {
    const char *name = json_string_value(value);
    for (int link = 0; name && link <= LS_LINK_UNKNOWN; link++) {
      if (strcmp(name, ls_link_name((ls_link_t)link)) != 0 || (i == j) != (link == LS_LINK_SELF)) continue;
      m->link[i][j] = (ls_link_t)link;
      return LS_OK;
    }
    return bad(place, "",
               i == j ? "\"self\" on the diagonal"
                      : "\"nvlink\", \"pcie-switch\", \"host-bridge\", \"node\", \"system\" or \"unknown\"");
  }
  if (json_is_null(value)) return LS_OK;
  if (matrix == LS_MATRIX_PEER) {
    if (!json_is_boolean(value)) return bad(place, "", "true, false or null");
    m->peer_access[i][j] = json_is_true(value);
    return LS_OK;
  }
  if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > INT_MAX)
    return bad(place, "", "a whole number >= 0 or null");
  m->nvlinks[i][j] = (int)json_integer_value(value);
  return LS_OK;
}

static ls_status_t matrix_read(place_t *place, ls_gpu_matrix_t matrix, const json_t *rows, ls_machine_t *m) {
  if (!rows || json_is_null(rows)) return LS_OK;
  place->path[0] = '\0';
  if (json_array_size(rows) != (size_t)m->gpu_count || !json_is_array(rows))
    return bad(place, ls_gpu_matrix_names[matrix], "one row per GPU");
  for (int i = 0; i < m->gpu_count; i++) {
    const json_t *row = json_array_get(rows, (size_t)i);
    snprintf(place->path, sizeof place->path, "%s[%d]", ls_gpu_matrix_names[matrix], i);
    if (!json_is_array(row) || json_array_size(row) != (size_t)m->gpu_count)
      return bad(place, "", "one value per GPU");
    for (int j = 0; j < m->gpu_count; j++) {
      snprintf(place->path, sizeof place->path, "%s[%d][%d]", ls_gpu_matrix_names[matrix], i, j);
      ls_status_t status = cell_read(place, matrix, json_array_get(row, (size_t)j), i, j, m);
      if (status != LS_OK) return status;
    }
  }
  place->path[0] = '\0';
  for (int i = 0; i < m->gpu_count && matrix == LS_MATRIX_LINK; i++)
    for (int j = 0; j < i; j++)
      if (m->link[i][j] != m->link[j][i]) return bad(place, "link", "the same from both sides");
  return LS_OK;
}

static ls_status_t gpus_read(place_t *place, const json_t *gpus, ls_machine_t *m) {
  static const char *const others[] = {"source", "note", NULL};
  if (!gpus || json_is_null(gpus)) return LS_OK;
  if (!json_is_array(gpus) || json_array_size(gpus) > LS_GPU_MAX)
    return bad(place, "gpu", "a list of at most 16 GPUs");
  m->gpu_count = (int)json_array_size(gpus);
  for (int i = 0; i < m->gpu_count; i++) {
    const json_t *gpu = json_array_get(gpus, (size_t)i);
    snprintf(place->path, sizeof place->path, "gpu[%d].", i);
    if (!json_is_object(gpu)) return bad(place, "", "an object");
    ls_status_t status = keys_check(place, gpu, ls_gpu_fields, LS_GPU_FIELDS, others);
    if (status == LS_OK) status = fields_read(place, gpu, ls_gpu_fields, LS_GPU_FIELDS, &m->gpu[i]);
    if (status != LS_OK) return status;
  }
  return LS_OK;
}

ls_status_t ls_machine_from_json(ls_ctx_t *ctx, const char *name, const json_t *json, ls_machine_t *out) {
  static const char *const others[] = {"gpu", "link", "peer_access", "nvlinks", "source", "note", NULL};
  place_t place = {.ctx = ctx, .file = name};
  if (!json_is_object(json)) return bad(&place, "", "an object");
  ls_machine_t *m = ls_alloc(ctx, sizeof *m);
  if (!m) return LS_ERR_MEMORY;
  ls_machine_clear(m);
  ls_status_t status = keys_check(&place, json, ls_machine_fields, LS_MACHINE_FIELDS, others);
  if (status == LS_OK) status = fields_read(&place, json, ls_machine_fields, LS_MACHINE_FIELDS, m);
  if (status == LS_OK) status = gpus_read(&place, json_object_get(json, "gpu"), m);
  for (int k = 0; k < LS_MATRIX_COUNT && status == LS_OK; k++)
    status = matrix_read(&place, (ls_gpu_matrix_t)k, json_object_get(json, ls_gpu_matrix_names[k]), m);
  if (status == LS_OK) *out = *m;
  ls_free(m);
  return status;
}

ls_status_t ls_machine_load(ls_ctx_t *ctx, const char *path, ls_machine_t *machine) {
  json_t *json;
  ls_status_t status = ls_json_read(ctx, path, FILE_BYTES_MAX, LS_ERR_CONFIG, "", &json);
  if (status != LS_OK) return status;
  const json_t *inner = json_object_get(json, "machine");
  status = ls_machine_from_json(ctx, path, inner ? inner : json, machine);
  json_decref(json);
  return status;
}
