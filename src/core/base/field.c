/* Records as rows: writing, clearing, reading. */
#include "base/field.h"

#include "base/ctx.h"
#include "base/file.h"
#include "base/json.h"
#include "base/option.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void *field_at(const ls_field_t *f, const void *record) {
  return (char *)(uintptr_t)record + f->offset; /* one function for both directions */
}

static int *count_of(const ls_field_t *f, const void *record) {
  return (int *)(void *)((char *)(uintptr_t)record + f->count_offset);
}

/* ---- writing ---- */

static json_t *number_json(const ls_field_t *f, double value, bool whole) {
  bool unknown = (f->known == LS_KNOWN_FROM_0 && value < 0) || (f->known == LS_KNOWN_ABOVE_0 && !(value > 0));
  if (unknown || whole) return unknown ? json_null() : json_integer((json_int_t)value);
  return ls_json_number(f->scale != 0 ? value * f->scale : value);
}

static json_t *integer_json(const ls_field_t *f, int64_t value) {
  bool exact = f->scale == 0 && (f->known == LS_KNOWN_ALL || value > 0);
  return exact ? json_integer(value) : number_json(f, (double)value, f->scale == 0);
}

static json_t *text_json(const ls_field_t *f, const char *text) {
  return text && (*text || f->known == LS_KNOWN_ALL) ? ls_json_text(text) : json_null();
}

static json_t *element_json(const ls_field_t *f, const void *at, const void *record);

static json_t *list_json(const ls_field_t *each, const void *at, int count, const void *record) {
  json_t *list = json_array();
  for (int i = 0; list && i < count; i++)
    if (json_array_append_new(list,
                              element_json(each, (const char *)at + (size_t)i * each->size_bytes, record))) {
      json_decref(list);
      list = NULL;
    }
  return list;
}

/* Paths are absolute, so they mean the same wherever they are saved. */
static json_t *path_json(const char *path) {
  char *absolute = path ? ls_path_absolute(NULL, path) : NULL;
  json_t *json = path ? (absolute ? ls_json_text(absolute) : NULL) : json_null();
  ls_free(absolute);
  return json;
}

static const ls_field_t each_int = {.type = LS_FIELD_INT64, .size_bytes = sizeof(int64_t)},
                        each_real = {.type = LS_FIELD_REAL, .size_bytes = sizeof(double)},
                        each_string = {.type = LS_FIELD_STRING, .size_bytes = sizeof(char *)};

size_t ls_field_type_bytes(ls_field_type_t type) {
  static const size_t bytes[] = {
      [LS_FIELD_STRING] = sizeof(char *),     [LS_FIELD_BOOL] = sizeof(bool),
      [LS_FIELD_MAYBE] = sizeof(int),         [LS_FIELD_INT] = sizeof(int),
      [LS_FIELD_INT64] = sizeof(int64_t),     [LS_FIELD_REAL] = sizeof(double),
      [LS_FIELD_CHOICE] = sizeof(int),        [LS_FIELD_JSON] = sizeof(json_t *),
      [LS_FIELD_PATH] = sizeof(char *),       [LS_FIELD_INTS] = sizeof(ls_ints_t),
      [LS_FIELD_REALS] = sizeof(ls_floats_t), [LS_FIELD_STRINGS] = sizeof(ls_strings_t)};
  return bytes[type];
}

/* The value at `at`; counts are in the record, also those of lists within lists. */
static json_t *element_json(const ls_field_t *f, const void *at, const void *record) {
  switch (f->type) {
  case LS_FIELD_TEXT:
    return text_json(f, at);
  case LS_FIELD_STRING:
    return text_json(f, *(const char *const *)at);
  case LS_FIELD_BOOL:
    return json_boolean(*(const bool *)at);
  case LS_FIELD_MAYBE:
    return *(const int *)at < 0 ? json_null() : json_boolean(*(const int *)at);
  case LS_FIELD_INT:
    return integer_json(f, *(const int *)at);
  case LS_FIELD_INT64:
    return integer_json(f, *(const int64_t *)at);
  case LS_FIELD_REAL:
    return number_json(f, *(const double *)at, false);
  case LS_FIELD_CHOICE:
    return json_string(f->choices[*(const int *)at]);
  case LS_FIELD_RECORD:
    return ls_record_json(f->record, at);
  case LS_FIELD_LIST:
    return list_json(f->each, at, *count_of(f, record), record);
  case LS_FIELD_LIST_AT:
    return list_json(f->each, *(const char *const *)at, *count_of(f, record), record);
  case LS_FIELD_PATH:
    return path_json(*(const char *const *)at);
  case LS_FIELD_INTS:
    return list_json(&each_int, ((const ls_ints_t *)at)->v, ((const ls_ints_t *)at)->count, NULL);
  case LS_FIELD_REALS:
    return list_json(&each_real, ((const ls_floats_t *)at)->v, ((const ls_floats_t *)at)->count, NULL);
  case LS_FIELD_STRINGS:
    return list_json(&each_string, ((const ls_strings_t *)at)->v, ((const ls_strings_t *)at)->count, NULL);
  case LS_FIELD_JSON: {
    json_t *json = *(json_t *const *)at;
    return json ? json_incref(json) : json_null();
  }
  }
  return NULL;
}

json_t *ls_field_json(const ls_field_t *f, const void *record) {
  bool flag = f->when && *(const bool *)((const char *)record + f->flag_offset);
  if (f->when && flag != (f->when == LS_FIELD_WHERE)) return json_null();
  return element_json(f, field_at(f, record), record);
}

bool ls_record_put(json_t *object, const ls_record_t *record, const void *from) {
  bool whole = object != NULL;
  for (int i = 0; i < record->count && whole; i++) {
    const ls_field_t *f = &record->rows[i];
    json_t *value = ls_field_json(f, from);
    if (!f->left_out || !json_is_null(value)) whole = json_object_set_new(object, f->name, value) == 0;
  }
  return whole;
}

json_t *ls_record_json(const ls_record_t *record, const void *from) {
  json_t *object = json_object();
  if (ls_record_put(object, record, from)) return object;
  json_decref(object);
  return NULL;
}

const char *ls_field_text(const ls_field_t *f, const void *record, char *text, size_t size) {
  const void *at = field_at(f, record);
  if (f->type == LS_FIELD_TEXT)
    snprintf(text, size, "%s", (const char *)at);
  else if (f->type == LS_FIELD_REAL)
    snprintf(text, size, "%g", *(const double *)at);
  else
    snprintf(text, size, "%" PRId64, f->type == LS_FIELD_INT ? *(const int *)at : *(const int64_t *)at);
  return text;
}

/* ---- clearing ---- */

static void clear_element(const ls_field_t *f, void *at) {
  int unknown = f->known == LS_KNOWN_FROM_0 ? -1 : 0;
  memset(at, 0, f->size_bytes);
  if (f->type == LS_FIELD_INT)
    *(int *)at = unknown;
  else if (f->type == LS_FIELD_MAYBE)
    *(int *)at = -1;
  else if (f->type == LS_FIELD_INT64)
    *(int64_t *)at = unknown;
  else if (f->type == LS_FIELD_REAL)
    *(double *)at = f->known == LS_KNOWN_ALL ? (double)NAN : unknown;
  else if (f->type == LS_FIELD_RECORD)
    ls_record_clear(f->record, at);
  for (size_t i = 0; f->type == LS_FIELD_LIST && i < f->size_bytes; i += f->each->size_bytes)
    clear_element(f->each, (char *)at + i);
}

void ls_record_clear(const ls_record_t *record, void *to) {
  for (int i = 0; i < record->count; i++)
    clear_element(&record->rows[i], field_at(&record->rows[i], to));
}

/* ---- reading ---- */

/* A value's position: its record, and its name or index there. */
typedef struct place {
  const ls_field_source_t *source;
  const struct place *up;
  const char *name; /* NULL: an element */
  size_t index;
} place_t;

enum { PLACE_BYTES = 160 };

static void write_place(const place_t *p, char text[PLACE_BYTES]) {
  text[0] = '\0';
  if (!p->up) return;
  write_place(p->up, text);
  size_t used = strlen(text);
  if (p->name)
    snprintf(text + used, PLACE_BYTES - used, "%s%s", used ? "." : "", p->name);
  else
    snprintf(text + used, PLACE_BYTES - used, "[%zu]", p->index);
}

static ls_status_t bad(const place_t *p, const char *expected) {
  char place[PLACE_BYTES];
  write_place(p, place);
  return ls_fail(p->source->ctx, p->source->status, "%s: %s%s%s expected", p->source->name, place,
                 *place ? ": " : "", expected);
}

static ls_status_t bad_number(const place_t *p, const ls_field_t *f, const char *kind) {
  char text[96];
  if (f->max != 0)
    snprintf(text, sizeof text, "%s from %.0f to %.0f", kind, f->min, f->max);
  else
    snprintf(text, sizeof text, f->min >= 0 ? "%s >= %.0f" : "%s", kind, f->min);
  return bad(p, text);
}

/* Names are printed on terminals: no control characters. */
static bool plain(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 0x7f) return false;
  return true;
}

static ls_status_t read_text(const place_t *p, const ls_field_t *f, const json_t *json, void *at) {
  const char *text = json_string_value(json);
  size_t len = json_string_length(json);
  bool fits = text && strlen(text) == len && (f->type == LS_FIELD_STRING || len < f->size_bytes);
  if (!fits || !(f->good ? f->good : plain)(text)) return bad(p, f->expected ? f->expected : "a short text");
  if (f->type == LS_FIELD_TEXT) {
    memcpy(at, text, len + 1);
    return LS_OK;
  }
  *(const char **)at = ls_arena_strdup(p->source->arena, text);
  return *(const char **)at ? LS_OK : LS_ERR_MEMORY;
}

static bool in_range(const ls_field_t *f, double value) {
  return isfinite(value) && value >= f->min && (f->max == 0 || value <= f->max);
}

/* Null means whatever is written as null. */
static ls_status_t read_number(const place_t *p, const ls_field_t *f, const json_t *json, void *at) {
  if (json_is_null(json) && (f->known != LS_KNOWN_ALL || f->type == LS_FIELD_REAL)) return LS_OK;
  if (f->type == LS_FIELD_REAL) {
    if (!json_is_number(json) || !in_range(f, json_number_value(json))) return bad_number(p, f, "a number");
    *(double *)at = json_number_value(json);
    return LS_OK;
  }
  json_int_t value = json_integer_value(json);
  if (!json_is_integer(json) || !in_range(f, (double)value) || (f->type == LS_FIELD_INT && value > INT_MAX))
    return bad_number(p, f, "a whole number");
  if (f->type == LS_FIELD_INT)
    *(int *)at = (int)value;
  else
    *(int64_t *)at = value;
  return LS_OK;
}

static ls_status_t read_choice(const place_t *p, const ls_field_t *f, const json_t *json, void *at) {
  char text[256] = "one of";
  for (int i = 0; f->choices[i]; i++) {
    size_t used = strlen(text);
    if (json_is_string(json) && !strcmp(json_string_value(json), f->choices[i])) {
      *(int *)at = i;
      return LS_OK;
    }
    snprintf(text + used, sizeof text - used, " \"%s\"", f->choices[i]);
  }
  return bad(p, text);
}

static ls_status_t read_object(const place_t *p, const ls_record_t *record, const json_t *json, void *to);
static ls_status_t read_value(const place_t *p, const ls_field_t *f, const json_t *json, void *at,
                              const void *record);

static ls_status_t read_list(const place_t *p, const ls_field_t *f, const json_t *json, void *at,
                             const void *record) {
  char text[96];
  size_t size = f->each->size_bytes, count = json_array_size(json), known = (size_t)*count_of(f, record),
         most = f->type == LS_FIELD_LIST ? f->size_bytes / size
                : f->max > 0             ? (size_t)f->max
                                         : INT_MAX;
  snprintf(text, sizeof text, "a list of at most %zu", most);
  if (!json_is_array(json) || count > most || (f->counted && count != known))
    return bad(p, f->expected ? f->expected : text);
  if (f->type == LS_FIELD_LIST_AT) {
    void *made = ls_arena_array(p->source->arena, count + 1, size);
    if (!made) return LS_ERR_MEMORY;
    *(void **)at = made;
    at = made;
  }
  *count_of(f, record) = (int)count;
  ls_status_t status = LS_OK;
  for (size_t i = 0; i < count && status == LS_OK; i++) {
    const place_t place = {p->source, p, NULL, i};
    if (f->type == LS_FIELD_LIST_AT) clear_element(f->each, (char *)at + i * size);
    status = read_value(&place, f->each, json_array_get(json, i), (char *)at + i * size, record);
  }
  return status;
}

static ls_status_t read_value(const place_t *p, const ls_field_t *f, const json_t *json, void *at,
                              const void *record) {
  switch (f->type) {
  case LS_FIELD_TEXT:
  case LS_FIELD_STRING:
    return read_text(p, f, json, at);
  case LS_FIELD_BOOL:
    if (!json_is_boolean(json)) return bad(p, "true or false");
    *(bool *)at = json_is_true(json);
    return LS_OK;
  case LS_FIELD_MAYBE:
    if (!json_is_boolean(json) && !json_is_null(json)) return bad(p, "true, false or null");
    *(int *)at = json_is_null(json) ? -1 : json_is_true(json);
    return LS_OK;
  case LS_FIELD_INT:
  case LS_FIELD_INT64:
  case LS_FIELD_REAL:
    return read_number(p, f, json, at);
  case LS_FIELD_CHOICE:
    return read_choice(p, f, json, at);
  case LS_FIELD_RECORD:
    return read_object(p, f->record, json, at);
  case LS_FIELD_LIST:
  case LS_FIELD_LIST_AT:
    return read_list(p, f, json, at, record);
  case LS_FIELD_JSON:
    if (!json_is_object(json)) return bad(p, "an object");
    *(const json_t **)at = json;
    return LS_OK;
  case LS_FIELD_PATH:
  case LS_FIELD_INTS:
  case LS_FIELD_REALS:
  case LS_FIELD_STRINGS:
    break;
  }
  return LS_ERR_INTERNAL;
}

/* A member without a row is an error; the message suggests the nearest name that exists. */
static ls_status_t refuse_unknown(const place_t *p, const ls_record_t *record, const char *key) {
  enum { NAMES_MAX = 64 };
  const char *names[NAMES_MAX + 1], *const *others = record->others;
  char place[PLACE_BYTES];
  int known = 0;
  for (int i = 0; i < record->count && known < NAMES_MAX; i++)
    names[known++] = record->rows[i].name;
  for (int i = 0; others[i] && known < NAMES_MAX; i++)
    names[known++] = others[i];
  names[known] = NULL;
  for (int i = 0; i < known; i++)
    if (!strcmp(key, names[i])) return LS_OK;
  const char *nearest = ls_nearest(key, names);
  write_place(p, place);
  return ls_fail(p->source->ctx, p->source->status, "%s: %s%sunknown key \"%s\"%s%s%s", p->source->name,
                 place, *place ? ": " : "", LS_SHOWN(key), nearest ? " (did you mean " : "",
                 nearest ? nearest : "", nearest ? "?)" : "");
}

static ls_status_t read_object(const place_t *p, const ls_record_t *record, const json_t *json, void *to) {
  if (!json_is_object(json)) return bad(p, "an object");
  ls_status_t status = LS_OK;
  const char *key;
  json_t *ignored;
  if (record->others)
    json_object_foreach((json_t *)(uintptr_t)json, key, ignored) { /* takes no const, and changes nothing */
      if (status == LS_OK) status = refuse_unknown(p, record, key);
    }
  for (int i = 0; i < record->count && status == LS_OK; i++) {
    const ls_field_t *f = &record->rows[i];
    const place_t place = {p->source, p, f->name, 0};
    const json_t *value = json_object_get(json, f->name);
    if ((value && !json_is_null(value)) || f->required)
      status = value ? read_value(&place, f, value, field_at(f, to), to) : bad(&place, "this member is");
  }
  return status;
}

ls_status_t ls_record_read(const ls_field_source_t *source, const ls_record_t *record, const json_t *json,
                           void *to) {
  const place_t root = {.source = source};
  return read_object(&root, record, json, to);
}
