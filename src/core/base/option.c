/* Checks a section of the configuration against its rows: every key must be a row, every value must fit its
 * row, every row without a default must be present. All errors are reported at once. */
#include "base/option.h"

#include <stdio.h>
#include <string.h>

#include "base/option_value.h"

enum { NAMES_MAX = 128 };

typedef struct {
  ls_option_source_t source;
  const ls_section_t *section;
  const char *const *nested;
  unsigned char *target;
} parse_t;

const ls_option_t *ls_section_row(const ls_section_t *section, int index) {
  if (index < section->count) return &section->rows[index];
  return section->shared ? ls_section_row(section->shared, index - section->count) : NULL;
}

static const ls_option_t *find_row(const ls_section_t *section, const char *name) {
  const ls_option_t *row;
  for (int i = 0; (row = ls_section_row(section, i)); i++)
    if (strcmp(row->name, name) == 0) return row;
  return NULL;
}

static bool is_nested(const parse_t *p, const char *name) {
  for (int i = 0; p->nested && p->nested[i]; i++)
    if (strcmp(p->nested[i], name) == 0) return true;
  return false;
}

/* All keys the section knows, NULL-terminated. */
static void known_names(const parse_t *p, const char *names[NAMES_MAX + 1]) {
  int count = 0;
  const ls_option_t *row;
  for (int i = 0; (row = ls_section_row(p->section, i)) && count < NAMES_MAX; i++)
    names[count++] = row->name;
  for (int i = 0; p->nested && p->nested[i] && count < NAMES_MAX; i++)
    names[count++] = p->nested[i];
  names[count] = NULL;
}

static ls_status_t fail_unknown(const parse_t *p, const ls_doc_node_t *node) {
  const char *names[NAMES_MAX + 1], *section = p->section->name;
  char text[LS_NAMES_TEXT_BYTES], where[128];
  known_names(p, names);
  snprintf(where, sizeof where, "in %s", section);
  bool near = *ls_nearest_text(where, node->key, names, text);
  return ls_fail_at(p->source.ctx, LS_ERR_CONFIG, &node->key_place, "unknown option `%.80s`%s%s%s%s",
                    LS_SHOWN(node->key), *section ? " in " : "", section,
                    near ? "" : "; possible: ", near ? text : ls_names_text(names, text));
}

/* `key:` without a value: allowed only for options that may be absent. */
static ls_status_t parse_null(const parse_t *p, const ls_option_t *row, const ls_doc_node_t *node) {
  if (row->optional) return LS_OK; /* the field is cleared already */
  return ls_fail_at(p->source.ctx, LS_ERR_CONFIG, &node->key_place, "%s%s%s: a value is missing",
                    p->section->name, *p->section->name ? "." : "", row->name);
}

static ls_status_t parse_child(const parse_t *p, const ls_doc_node_t *node) {
  const ls_option_t *row = find_row(p->section, node->key);
  if (!row) return is_nested(p, node->key) ? LS_OK : fail_unknown(p, node);
  bool names_null =
      row->type == LS_FIELD_CHOICE && node->text && *node->text; /* a choice may be called null */
  if (node->kind == LS_DOC_NULL && !(names_null && !row->optional)) return parse_null(p, row, node);
  return ls_option_value_parse(&p->source, row, node, p->target + row->offset);
}

static ls_status_t fail_missing(const parse_t *p, const ls_doc_node_t *map, const ls_option_t *row) {
  const char *section = p->section->name, *dot = *section ? "." : "", *help = row->help ? row->help : "";
  if (!map)
    return ls_fail(p->source.ctx, LS_ERR_CONFIG, "%s%s%s is missing: %s", section, dot, row->name, help);
  return ls_fail_at(p->source.ctx, LS_ERR_CONFIG, map->key ? &map->key_place : &map->place,
                    "%s%s%s is missing: %s", section, dot, row->name, help);
}

static ls_status_t fill_defaults(const parse_t *p, const ls_doc_node_t *map) {
  ls_status_t status = LS_OK;
  const ls_option_t *row;
  for (int i = 0; (row = ls_section_row(p->section, i)); i++) {
    status = ls_worse(status, ls_option_value_default(&p->source, row, p->target + row->offset));
    if (!row->initial && !row->optional && !ls_doc_get(map, row->name))
      status = ls_worse(status, fail_missing(p, map, row));
  }
  return status;
}

/* `optimizer: adamw` names what `optimizer: {name: adamw}` does. */
static ls_status_t fail_no_map(const parse_t *p, const ls_doc_node_t *map) {
  const ls_option_t *name = find_row(p->section, "name");
  const bool named = map->kind == LS_DOC_SCALAR && name && name->type == LS_FIELD_CHOICE;
  return ls_fail_at(p->source.ctx, LS_ERR_CONFIG, &map->place,
                    "%s: %s is given, a map of options was expected%s%.80s%s", p->section->name,
                    map->kind == LS_DOC_LIST ? "a list" : "a value", named ? ": {name: " : "",
                    named ? LS_SHOWN(map->text) : "", named ? "}" : "");
}

ls_status_t ls_option_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_section_t *section,
                            const ls_doc_node_t *map, const char *const *nested, void *target) {
  const parse_t p = {{ctx, arena, section->name}, section, nested, target};
  if (map && map->kind != LS_DOC_MAP && map->kind != LS_DOC_NULL) return fail_no_map(&p, map);
  ls_status_t status = fill_defaults(&p, map);
  if (!map || map->kind != LS_DOC_MAP) return status;
  for (const ls_doc_node_t *node = map->child; node; node = node->next)
    status = ls_worse(status, parse_child(&p, node));
  return status;
}
