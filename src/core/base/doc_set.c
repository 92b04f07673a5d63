/* Assignments from the command line, "train.optimizer.lr=3e-4": the part before = is a path, the value is
 * YAML. The document changes only if the whole assignment is valid. */
#include <string.h>

#include "base/doc.h"
#include "base/doc_parse.h"

typedef struct {
  const char *name; /* in the document's arena */
  ls_place_t place;
} part_t;

/* The path, cut at its dots. */
typedef struct {
  part_t part[LS_DOC_DEPTH_MAX];
  int count;
} path_t;

static ls_status_t cut_path(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_source_t *source, size_t len,
                            path_t *path) {
  size_t begin = 0;
  for (size_t at = 0; at <= len; at++) {
    if (at < len && source->text[at] != '.') continue;
    ls_place_t place = ls_doc_place(source, begin);
    if (at == begin) return ls_fail_at(ctx, LS_ERR_CONFIG, &place, "a name is missing in the path");
    if (path->count == LS_DOC_DEPTH_MAX - 1)
      return ls_fail_at(ctx, LS_ERR_CONFIG, &place, "nested deeper than %d levels", LS_DOC_DEPTH_MAX);
    part_t *part = &path->part[path->count++];
    part->place = place;
    part->name = ls_arena_strndup(arena, source->text + begin, at - begin);
    if (!part->name) return LS_ERR_MEMORY;
    begin = at + 1;
  }
  return LS_OK;
}

/* The list's entry that `part` means. */
static ls_status_t find_entry(ls_ctx_t *ctx, const ls_doc_node_t *list, const part_t *part,
                              ls_doc_node_t **out) {
  size_t digits = strspn(part->name, "0123456789");
  if (digits == 0 || part->name[digits] != '\0')
    return ls_fail_at(ctx, LS_ERR_CONFIG, &part->place,
                      "`%s` is not an index, but a list of %d entries stands here: 0 is the first",
                      LS_SHOWN(part->name), list->count);
  int index = 0;
  for (size_t i = 0; i < digits && index < list->count; i++)
    index = index * 10 + (part->name[i] - '0');
  *out = ls_doc_at(list, index);
  if (*out) return LS_OK;
  return ls_fail_at(ctx, LS_ERR_CONFIG, &part->place, "there is no entry %s: the list has %d, 0 is the first",
                    LS_SHOWN(part->name), list->count);
}

/* Puts `value` below the map or null `parent` as path.part[from..]; the maps in between are new. */
static ls_status_t append(ls_arena_t *arena, ls_doc_node_t *parent, const path_t *path, int from,
                          ls_doc_node_t *value) {
  for (int i = path->count - 1;; i--) {
    value->key = path->part[i].name;
    value->key_place = path->part[i].place;
    if (i == from) break;
    ls_doc_node_t *map = ls_arena_alloc(arena, sizeof *map);
    if (!map) return LS_ERR_MEMORY;
    map->kind = LS_DOC_MAP;
    map->place = path->part[i].place;
    map->child = value;
    map->count = 1;
    value = map;
  }
  ls_doc_node_t **tail = &parent->child;
  while (*tail)
    tail = &(*tail)->next;
  *tail = value;
  parent->kind = LS_DOC_MAP;
  parent->count++;
  return LS_OK;
}

/* The node keeps its key and its place among its siblings, and gets new contents. */
static void replace(ls_doc_node_t *node, const ls_doc_node_t *value) {
  ls_doc_node_t old = *node;
  *node = *value;
  node->key = old.key;
  node->key_place = old.key_place;
  node->next = old.next;
}

static ls_status_t assign(ls_ctx_t *ctx, ls_doc_t *doc, const path_t *path, ls_doc_node_t *value) {
  ls_doc_node_t *node = doc->root;
  for (int i = 0; i < path->count; i++) {
    const part_t *part = &path->part[i];
    ls_doc_node_t *below = NULL;
    if (node->kind == LS_DOC_SCALAR)
      return ls_fail_at(ctx, LS_ERR_CONFIG, &part->place, "`%s` cannot be set: `%s` is a value, not a map",
                        LS_SHOWN(part->name), LS_SHOWN(i > 0 ? path->part[i - 1].name : "the document"));
    if (node->kind == LS_DOC_LIST) {
      ls_status_t status = find_entry(ctx, node, part, &below);
      if (status != LS_OK) return status;
    } else {
      below = ls_doc_get(node, part->name);
    }
    if (!below) return append(&doc->arena, node, path, i, value);
    node = below;
  }
  replace(node, value);
  return LS_OK;
}

/* A text, whatever it means in YAML. */
static ls_status_t take_literal(ls_arena_t *arena, const ls_doc_source_t *source, size_t begin,
                                ls_doc_node_t **out) {
  ls_doc_node_t *node = ls_arena_alloc(arena, sizeof *node);
  if (!node) return LS_ERR_MEMORY;
  *node = (ls_doc_node_t){.kind = LS_DOC_SCALAR,
                          .place = ls_doc_place(source, begin),
                          .quoted = true,
                          .text = source->text + begin};
  *out = node;
  return LS_OK;
}

ls_status_t ls_doc_set(ls_ctx_t *ctx, ls_doc_t *doc, const char *assignment, bool literal) {
  size_t len = strlen(assignment);
  if (len > LS_DOC_BYTES_MAX)
    return ls_fail(ctx, LS_ERR_CONFIG, "--set: %zu bytes, more than the limit of %d", len, LS_DOC_BYTES_MAX);
  const ls_doc_source_t source = {LS_DOC_SET_FILE, ls_arena_strndup(&doc->arena, assignment, len), len};
  if (!source.text) return LS_ERR_MEMORY;
  const char *equals = memchr(source.text, '=', len);
  if (!equals) {
    ls_place_t end = ls_doc_place(&source, len);
    return ls_fail_at(ctx, LS_ERR_CONFIG, &end, "`=` is missing: section.option=value was expected");
  }
  path_t path = {.count = 0};
  ls_status_t status = cut_path(ctx, &doc->arena, &source, (size_t)(equals - source.text), &path);
  if (status != LS_OK) return status;
  ls_doc_node_t *value;
  size_t begin = (size_t)(equals - source.text) + 1;
  const char *text = equals + 1;
  /* YAML refuses what is not UTF-8 */
  literal = literal && *text != '"' && *text != '\'' && !ls_doc_is_null(text) && ls_text_utf8(text);
  status = literal ? take_literal(&doc->arena, &source, begin, &value)
                   : ls_doc_parse_value(ctx, &doc->arena, &source, begin, path.count + 1, &value);
  if (status != LS_OK) return status;
  return assign(ctx, doc, &path, value);
}
