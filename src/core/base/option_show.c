/* The rows seen from outside: resolved values as JSON, and the reference text. */
#include "base/json.h"
#include "base/option_value.h"
#include "base/secret.h"

#include <stdlib.h>
#include <string.h>

/* An absent optional number reads as 0. If its row does not allow 0, the saved configuration must say null,
 * or it could not be read again. */
static bool is_absent(const ls_option_t *row, double value) {
  return row->optional && value == 0 && !ls_option_in_range(row, 0);
}

static json_t *value_json(const ls_option_t *row, const void *field) {
  if (row->secret && *(const char *const *)field)
    return ls_json_text(ls_secret_shown(*(const char *const *)field));
  if (row->type == LS_FIELD_INT64 && is_absent(row, (double)*(const int64_t *)field)) return json_null();
  if (row->type == LS_FIELD_REAL && is_absent(row, *(const double *)field)) return json_null();
  return ls_field_json(&(ls_field_t){.type = row->type, .choices = row->choices}, field);
}

json_t *ls_option_default_json(const ls_option_t *row) {
  union {
    int64_t i;
    double d;
    ls_ints_t ints;
    ls_floats_t floats;
    ls_strings_t strings;
  } field;
  ls_arena_t arena;
  ls_arena_init(&arena, NULL);
  const ls_option_source_t source = {NULL, &arena, ""};
  ls_status_t status = ls_option_value_default(&source, row, &field);
  json_t *value = status == LS_OK ? value_json(row, &field) : NULL;
  ls_arena_release(&arena);
  return value;
}

json_t *ls_option_json(const ls_section_t *section, const void *source) {
  json_t *object = json_object();
  const ls_option_t *row;
  for (int i = 0; object && (row = ls_section_row(section, i)); i++) {
    json_t *value = ls_option_value_json(row, source);
    if (json_object_set_new(object, row->name, value) != 0) { /* also when value is NULL */
      json_decref(object);
      return NULL;
    }
  }
  return object;
}

json_t *ls_option_value_json(const ls_option_t *row, const void *source) {
  return value_json(row, (const unsigned char *)source + row->offset);
}

static bool same_json(json_t *a, json_t *b) {
  const bool same = a && b && json_equal(a, b);
  json_decref(a);
  json_decref(b);
  return same;
}

bool ls_option_equal(const ls_option_t *row, const void *a, const void *b) {
  return same_json(ls_option_value_json(row, a), ls_option_value_json(row, b));
}

bool ls_option_is_default(const ls_option_t *row, const void *source) {
  return same_json(ls_option_value_json(row, source), ls_option_default_json(row));
}

const char *ls_option_text(ls_arena_t *arena, const ls_option_t *row, const void *source) {
  json_t *value = ls_option_value_json(row, source);
  char *dumped = value && !json_is_string(value) ? ls_json_dump(value, JSON_COMPACT) : NULL;
  const char *text = json_is_string(value) ? json_string_value(value) : dumped;
  text = text ? ls_arena_strdup(arena, text) : NULL;
  free(dumped);
  json_decref(value);
  return text;
}

static const char *choices_text(ls_arena_t *arena, const char *const *choices) {
  const char *text = "";
  for (int i = 0; text && choices[i]; i++)
    text = ls_arena_printf(arena, "%s%s%s", text, i ? " | " : "", choices[i]);
  return text;
}

const char *ls_option_type_text(ls_arena_t *arena, const ls_option_t *row) {
  static const char *const types[] = {[LS_FIELD_INT64] = "integer",
                                      [LS_FIELD_REAL] = "number",
                                      [LS_FIELD_BOOL] = "true | false",
                                      [LS_FIELD_STRING] = "text",
                                      [LS_FIELD_CHOICE] = NULL,
                                      [LS_FIELD_INTS] = "list of integers",
                                      [LS_FIELD_REALS] = "list of numbers",
                                      [LS_FIELD_STRINGS] = "list of texts",
                                      [LS_FIELD_PATH] = "path"};
  char range[LS_OPT_RANGE_TEXT_BYTES];
  const char *type = row->secret                    ? LS_SECRET_ENV "NAME | " LS_SECRET_FILE "PATH | text"
                     : row->type == LS_FIELD_CHOICE ? choices_text(arena, row->choices)
                                                    : types[row->type];
  ls_option_range_text(row, range);
  if (!type) return NULL;
  return ls_arena_printf(arena, "%s%s%s%s%s, %s%s", type, *range ? ", " : "", range, row->unit ? ", " : "",
                         row->unit ? row->unit : "",
                         row->initial    ? "default "
                         : row->optional ? "optional"
                                         : "required",
                         row->initial ? row->initial : "");
}

const char *ls_option_help(ls_arena_t *arena, const ls_section_t *section) {
  const char *text = ls_arena_printf(arena, "%s: %s\n", section->name, section->help ? section->help : "");
  for (int i = 0; text && i < section->count; i++) {
    const ls_option_t *row = &section->rows[i];
    const char *type = ls_option_type_text(arena, row);
    if (!type) return NULL;
    text = ls_arena_printf(arena, "%s  %-18s %s\n  %-18s   %s\n", text, row->name, type, "",
                           row->help ? row->help : "");
  }
  return text;
}
