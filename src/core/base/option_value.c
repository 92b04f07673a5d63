/* Text to typed values, strictly: a text counts as a number of the requested kind only if all of it is
 * one. */
#include "base/option_value.h"

#include "base/file.h"
#include "base/secret.h"

#include <errno.h>
#include <fnmatch.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_limits(const ls_option_t *row) {
  return row->min != 0 || row->max != 0;
}
static bool is_open_end(double limit) {
  return fabs(limit) >= 1e18;
} /* means "no limit on this side" */

bool ls_option_in_range(const ls_option_t *row, double value) {
  if (row->apart && value < 0) return value == row->min;
  return !has_limits(row) || (value >= row->min && value <= row->max);
}

const char *ls_option_range_text(const ls_option_t *row, char buf[LS_OPT_RANGE_TEXT_BYTES]) {
  const size_t size = LS_OPT_RANGE_TEXT_BYTES;
  bool low = has_limits(row) && !is_open_end(row->min), high = has_limits(row) && !is_open_end(row->max);
  buf[0] = '\0';
  if (row->apart && high)
    snprintf(buf, size, "%.15g or in [0, %.15g]", row->min, row->max);
  else if (low && high)
    snprintf(buf, size, "in [%.15g, %.15g]", row->min, row->max);
  else if (low)
    snprintf(buf, size, "at least %.15g", row->min);
  else if (high)
    snprintf(buf, size, "at most %.15g", row->max);
  return buf;
}

static ls_status_t fail_value(const ls_option_source_t *s, const ls_option_t *row, const ls_doc_node_t *node,
                              const char *what) {
  char text[84];
  const char *shown = !node->text ? "" : row->secret ? ls_secret_shown(node->text) : node->text;
  ls_text_shown(shown, SIZE_MAX, text, sizeof text);
  return ls_fail_at(s->ctx, LS_ERR_CONFIG, &node->place, "%s%s%s: `%s` %s", s->section,
                    *s->section ? "." : "", row->name, text, what);
}

static ls_status_t fail_kind(const ls_option_source_t *s, const ls_option_t *row, const ls_doc_node_t *node,
                             const char *expected) {
  static const char *const kinds[] = {[LS_DOC_NULL] = "nothing",
                                      [LS_DOC_SCALAR] = "a value",
                                      [LS_DOC_LIST] = "a list",
                                      [LS_DOC_MAP] = "a map"};
  return ls_fail_at(s->ctx, LS_ERR_CONFIG, &node->place, "%s%s%s: %s is given, %s was expected", s->section,
                    *s->section ? "." : "", row->name, kinds[node->kind], expected);
}

static ls_status_t check_range(const ls_option_source_t *s, const ls_option_t *row, const ls_doc_node_t *node,
                               double value) {
  if (ls_option_in_range(row, value)) return LS_OK;
  char range[LS_OPT_RANGE_TEXT_BYTES], what[LS_OPT_RANGE_TEXT_BYTES + 64];
  const bool above = value > row->max;
  if (is_open_end(above ? row->max : row->min)) /* no limit that the reference mentions */
    snprintf(range, sizeof range, "at %s %.15g", above ? "most" : "least", above ? row->max : row->min);
  else
    ls_option_range_text(row, range);
  snprintf(what, sizeof what, "must be %s%s%s", range, row->unit ? " " : "", row->unit ? row->unit : "");
  return fail_value(s, row, node, what);
}

/* The whole text as a number in the C locale, whatever the program's locale. False if it is none or does not
 * fit. */
static bool read_number(const char *text, double *value) {
  const char *t = text + (*text == '-' || *text == '+');
  size_t whole = strspn(t, "0123456789"), fraction = 0;
  t += whole;
  if (*t == '.') fraction = strspn(++t, "0123456789");
  t += fraction;
  if (whole + fraction == 0) return false;
  if (*t == 'e' || *t == 'E') {
    t += 1 + (t[1] == '-' || t[1] == '+');
    size_t digits = strspn(t, "0123456789");
    if (digits == 0) return false;
    t += digits;
  }
  if (*t != '\0') return false;
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c == (locale_t)0) return false;
  *value = strtod_l(text, NULL, c);
  freelocale(c);
  return isfinite(*value);
}

static bool is_integer_text(const char *text) {
  const char *digits = text + (*text == '-' || *text == '+');
  size_t count = strspn(digits, "0123456789");
  return count > 0 && digits[count] == '\0' && (digits[0] != '0' || count == 1);
}

static ls_status_t parse_int(const ls_option_source_t *s, const ls_option_t *row, const ls_doc_node_t *node,
                             int64_t *out) {
  if (node->kind != LS_DOC_SCALAR) return fail_kind(s, row, node, "an integer");
  if (node->quoted) return fail_value(s, row, node, "is quoted text, not an integer");
  if (!is_integer_text(node->text)) {
    double number;
    bool whole = read_number(node->text, &number) && number == floor(number);
    return fail_value(s, row, node,
                      whole ? "is not an integer: write all of its digits, without leading zeros"
                            : "is not an integer");
  }
  errno = 0;
  int64_t value = strtoll(node->text, NULL, 10);
  if (errno == ERANGE) return fail_value(s, row, node, "does not fit in 64 bits");
  ls_status_t status = check_range(s, row, node, (double)value);
  if (status == LS_OK) *out = value;
  return status;
}

static ls_status_t parse_float(const ls_option_source_t *s, const ls_option_t *row, const ls_doc_node_t *node,
                               double *out) {
  double value;
  if (node->kind != LS_DOC_SCALAR) return fail_kind(s, row, node, "a number");
  if (node->quoted) return fail_value(s, row, node, "is quoted text, not a number");
  if (!read_number(node->text, &value)) return fail_value(s, row, node, "is not a finite decimal number");
  ls_status_t status = check_range(s, row, node, value);
  if (status == LS_OK) *out = value;
  return status;
}

static ls_status_t parse_bool(const ls_option_source_t *s, const ls_option_t *row, const ls_doc_node_t *node,
                              bool *out) {
  if (node->kind != LS_DOC_SCALAR) return fail_kind(s, row, node, "true or false");
  bool yes = strcmp(node->text, "true") == 0, no = strcmp(node->text, "false") == 0;
  if (node->quoted || (!yes && !no)) return fail_value(s, row, node, "is neither true nor false");
  *out = yes;
  return LS_OK;
}

static ls_status_t parse_string(const ls_option_source_t *s, const ls_option_t *row,
                                const ls_doc_node_t *node, const char **out) {
  if (node->kind != LS_DOC_SCALAR) return fail_kind(s, row, node, "a text");
  const char *text = s->arena ? ls_arena_strdup(s->arena, node->text) : node->text;
  if (!text) return LS_ERR_MEMORY;
  *out = text;
  return LS_OK;
}

/* A text without an arena is a default, which starts at the current folder. */
static ls_status_t parse_path(const ls_option_source_t *s, const ls_option_t *row, const ls_doc_node_t *node,
                              const char **out) {
  if (node->kind != LS_DOC_SCALAR) return fail_kind(s, row, node, "a path");
  if (!*node->text) return fail_value(s, row, node, "is empty, a path was expected");
  if (!node->dir || !s->arena) return parse_string(s, row, node, out);
  char *resolved = ls_path_resolve(s->ctx, node->dir, node->text);
  const char *text = resolved ? ls_arena_strdup(s->arena, resolved) : NULL;
  ls_free(resolved);
  if (!text) return LS_ERR_MEMORY;
  *out = text;
  return LS_OK;
}

/* A file's relative path starts where its document says. */
static ls_status_t parse_secret(const ls_option_source_t *s, const ls_option_t *row,
                                const ls_doc_node_t *node, const char **out) {
  ls_status_t status = parse_string(s, row, node, out);
  if (status != LS_OK || ls_secret_is_value(*out)) return status;
  const char *source = *out + strcspn(*out, ":");
  if (*source && !source[1])
    return fail_value(s, row, node, "names no source: env:NAME or file:PATH was expected");
  if (!node->dir || strncmp(*out, LS_SECRET_FILE, strlen(LS_SECRET_FILE)) != 0) return LS_OK;
  char *resolved = ls_path_resolve(s->ctx, node->dir, source + 1);
  *out = resolved ? ls_arena_printf(s->arena, LS_SECRET_FILE "%s", resolved) : NULL;
  ls_free(resolved);
  return *out ? LS_OK : LS_ERR_MEMORY;
}

static ls_status_t fail_choice(const ls_option_source_t *s, const ls_option_t *row,
                               const ls_doc_node_t *node) {
  char list[LS_NAMES_TEXT_BYTES], nearest[LS_NAMES_TEXT_BYTES], what[2 * LS_NAMES_TEXT_BYTES + 16],
      where[128];
  snprintf(where, sizeof where, "%s.%s", s->section, row->name);
  snprintf(what, sizeof what, "is not one of %s%s", ls_names_text(row->choices, list),
           ls_nearest_text(where, node->text, row->choices, nearest));
  return fail_value(s, row, node, what);
}

static ls_status_t parse_enum(const ls_option_source_t *s, const ls_option_t *row, const ls_doc_node_t *node,
                              int *out) {
  bool scalar = node->kind == LS_DOC_SCALAR || (node->kind == LS_DOC_NULL && node->text && *node->text);
  if (!scalar) return fail_kind(s, row, node, "a name");
  for (int i = 0; row->choices[i]; i++) {
    if (strcmp(node->text, row->choices[i]) != 0) continue;
    *out = i;
    return LS_OK;
  }
  return fail_choice(s, row, node);
}

bool ls_patterns_choose(const ls_strings_t *patterns, const char *name) {
  bool chosen = false;
  for (int i = 0; i < patterns->count; i++) {
    bool back = patterns->v[i][0] == '!';
    if (fnmatch(patterns->v[i] + back, name, 0) == 0) chosen = !back;
  }
  return chosen;
}

/* A single value stands for a list of one. */
static ls_status_t parse_list(const ls_option_source_t *s, const ls_option_t *row, const ls_doc_node_t *node,
                              void *field) {
  bool one = node->kind == LS_DOC_SCALAR;
  if (!one && node->kind != LS_DOC_LIST) return fail_kind(s, row, node, "a list");
  ls_ints_t *ints = row->type == LS_FIELD_INTS ? field : NULL;
  ls_floats_t *floats = row->type == LS_FIELD_REALS ? field : NULL;
  bool texted = !ints && !floats;
  int count = one ? 1 : node->count, least = row->optional ? 0 : 1,
      most = texted ? LS_DOC_NODES_MAX : LS_OPT_LIST_MAX, index = 0;
  if (count < least || count > most)
    return ls_fail_at(s->ctx, LS_ERR_CONFIG, &node->place,
                      "%s%s%s: %d entries, between %d and %d are possible", s->section,
                      *s->section ? "." : "", row->name, count, least, most);
  const char **texts = texted ? ls_arena_array(s->arena, (size_t)count + 1, sizeof *texts) : NULL;
  if (texted && !texts) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  for (const ls_doc_node_t *child = one ? node : node->child; index < count; child = child->next, index++) {
    ls_status_t this = ints     ? parse_int(s, row, child, &ints->v[index])
                       : floats ? parse_float(s, row, child, &floats->v[index])
                                : parse_string(s, row, child, &texts[index]);
    if (this != LS_OK) status = this;
  }
  if (status != LS_OK) count = 0;
  if (ints)
    ints->count = count;
  else if (floats)
    floats->count = count;
  else
    *(ls_strings_t *)field = (ls_strings_t){count, texts};
  return status;
}

ls_status_t ls_option_value_parse(const ls_option_source_t *s, const ls_option_t *row,
                                  const ls_doc_node_t *node, void *field) {
  switch (row->type) {
  case LS_FIELD_INT64:
    return parse_int(s, row, node, field);
  case LS_FIELD_REAL:
    return parse_float(s, row, node, field);
  case LS_FIELD_BOOL:
    return parse_bool(s, row, node, field);
  case LS_FIELD_STRING:
    return row->secret ? parse_secret(s, row, node, field) : parse_string(s, row, node, field);
  case LS_FIELD_PATH:
    return parse_path(s, row, node, field);
  case LS_FIELD_CHOICE:
    return parse_enum(s, row, node, field);
  case LS_FIELD_INTS:
  case LS_FIELD_REALS:
  case LS_FIELD_STRINGS:
    return parse_list(s, row, node, field);
  default:
    break;
  }
  return ls_fail(s->ctx, LS_ERR_INTERNAL, "option %s.%s has no type", s->section, row->name);
}

/* Defaults are parsed by the same rules as configured values; a list's default is "28, 28". */
ls_status_t ls_option_value_default(const ls_option_source_t *s, const ls_option_t *row, void *field) {
  memset(field, 0, ls_field_type_bytes(row->type)); /* of an absent optional row */
  if (!row->initial) return LS_OK;
  ls_doc_node_t elements[LS_OPT_LIST_MAX] = {0}, node = {.kind = LS_DOC_SCALAR, .text = row->initial};
  char copy[256];
  bool list = row->type == LS_FIELD_INTS || row->type == LS_FIELD_REALS || row->type == LS_FIELD_STRINGS;
  ls_option_source_t source = {s->ctx, list ? s->arena : NULL, s->section};
  if (list) {
    node = (ls_doc_node_t){.kind = LS_DOC_LIST};
    snprintf(copy, sizeof copy, "%s", row->initial);
    char *rest = copy;
    for (char *piece; node.count < LS_OPT_LIST_MAX && (piece = strtok_r(rest, ", []", &rest)); node.count++) {
      elements[node.count] = (ls_doc_node_t){.kind = LS_DOC_SCALAR, .text = piece};
      if (node.count > 0) elements[node.count - 1].next = &elements[node.count];
    }
    if (node.count > 0) node.child = elements;
  }
  ls_status_t status = ls_option_value_parse(&source, row, &node, field);
  return status == LS_ERR_CONFIG ? LS_ERR_INTERNAL : status;
}
