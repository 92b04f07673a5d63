/* Names of layers: which are allowed, how a layer is called inside blocks, which layer a name refers to. */
#include "model/dag.h"

#include <ctype.h>
#include <string.h>

enum { NAME_LEN_MAX = 64, WHOLE_NAME_LEN_MAX = 128, UNKNOWN = LS_LAYER_UNKNOWN };

const char *ls_entry_kind(const ls_doc_node_t *entry) {
  if (ls_entry_is_alone(entry)) return entry->text;
  return entry->kind == LS_DOC_MAP && entry->count == 1 ? entry->child->key : NULL;
}

const ls_place_t *ls_entry_place(const ls_doc_node_t *entry) {
  return ls_entry_kind(entry) && !ls_entry_is_alone(entry) ? &entry->child->key_place : &entry->place;
}

const ls_doc_node_t *ls_entry_option(const ls_doc_node_t *entry, const char *key) {
  const ls_doc_node_t *options = ls_entry_kind(entry) && !ls_entry_is_alone(entry) ? entry->child : NULL;
  const ls_doc_node_t *value = options && options->kind == LS_DOC_MAP ? ls_doc_get(options, key) : NULL;
  return value && value->kind != LS_DOC_NULL ? value : NULL;
}

static bool is_called(const ls_doc_node_t *entry, const char *name) {
  const ls_doc_node_t *own = ls_entry_option(entry, "name");
  return own && own->kind == LS_DOC_SCALAR && strcmp(own->text, name) == 0;
}

static bool is_name(const char *text) {
  size_t len = strlen(text);
  for (size_t i = 0; i < len; i++)
    if (!isascii(text[i]) || (!isalnum((unsigned char)text[i]) && !strchr("_-.", text[i]))) return false;
  return len > 0 && len <= NAME_LEN_MAX;
}

static int find_site(const ls_layer_reader_t *r, const char *prefix, const char *name, int count) {
  size_t len = strlen(prefix);
  for (int i = 0; i < count; i++)
    if (strncmp(r->site[i].name, prefix, len) == 0 && strcmp(r->site[i].name + len, name) == 0) return i;
  return UNKNOWN;
}

ls_status_t ls_layer_check_name(const ls_layer_reader_t *r, const ls_doc_node_t *entry, const char *name) {
  const ls_doc_node_t *node = ls_entry_option(entry, "name");
  const ls_place_t *place = node ? &node->place : ls_entry_place(entry);
  if (strcmp(name, "input") == 0)
    return ls_fail_at(
        r->ctx, LS_ERR_CONFIG, place,
        "model.layers.%s.name: `input` is what the model, or a block, reads; choose another name",
        ls_entry_kind(entry));
  if (is_name(name)) return LS_OK;
  return ls_fail_at(
      r->ctx, LS_ERR_CONFIG, place,
      "model.layers.%s.name: `%.80s` is no name: letters, digits and `_-.` are possible, at most %d",
      ls_entry_kind(entry), LS_SHOWN(name), NAME_LEN_MAX);
}

ls_status_t ls_layer_set_name(ls_layer_reader_t *r, const ls_layer_scope_t *scope, int i, int position) {
  ls_layer_site_t *site = &r->site[i];
  ls_layer_common_t *common = ls_layer_options_of(r, i);
  const ls_doc_node_t *node = ls_entry_option(site->entry, "name");
  const char *usual = ls_arena_printf(r->arena, "layers.%d", i);
  ls_status_t status = common->name ? ls_layer_check_name(r, site->entry, common->name) : LS_OK;
  if (status == LS_OK && common->name)
    site->name = ls_arena_printf(r->arena, "%s%s", scope->prefix, common->name);
  else
    site->name = scope->outer ? ls_arena_printf(r->arena, "%s%d", scope->prefix, position) : usual;
  if (!site->name || !usual) {
    site->name = ""; /* no layer has this name */
    return LS_ERR_MEMORY;
  }
  common->name = strcmp(site->name, usual) == 0 ? NULL : site->name;
  const ls_place_t *place = node ? &node->place : ls_entry_place(site->entry);
  int first = find_site(r, "", site->name, i);
  if (strlen(site->name) > WHOLE_NAME_LEN_MAX)
    return ls_fail_at(r->ctx, LS_ERR_CONFIG, place,
                      "model.layers: with its blocks the name `%s` has more than %d characters", site->name,
                      WHOLE_NAME_LEN_MAX);
  if (first == UNKNOWN) return status;
  return ls_fail_at(r->ctx, LS_ERR_CONFIG, place,
                    "model.layers: the name `%s` is used twice, first in line %d; give each layer, and each "
                    "block, a `name` of its own",
                    site->name, ls_entry_place(r->site[first].entry)->line);
}

/* The names that a scope can refer to, without its prefix, and the nearest one. */
static const char *nearest_name(const ls_layer_reader_t *r, const ls_layer_scope_t *scope, const char *name,
                                int count) {
  const char *names[LS_LAYER_MAX + 2];
  size_t len = strlen(scope->prefix);
  for (int i = 0; i < count; i++)
    names[i] = r->site[i].name + (strncmp(r->site[i].name, scope->prefix, len) == 0 ? len : 0);
  names[count] = "input";
  names[count + 1] = NULL;
  return ls_nearest(name, names);
}

static bool is_later(const ls_layer_scope_t *scope, const char *name) {
  for (; scope; scope = scope->outer)
    for (const ls_doc_node_t *entry = scope->entry; entry; entry = entry->next)
      if (is_called(entry, name)) return true;
  return false;
}

int ls_layer_resolve(const ls_layer_reader_t *r, const ls_layer_scope_t *scope, int count, const char *name,
                     const char *option, const ls_place_t *place) {
  const char *kind = ls_entry_kind(scope->entry);
  if (strcmp(name, "input") == 0) return scope->input;
  for (const ls_layer_scope_t *s = scope; s; s = s->outer) {
    int found = find_site(r, s->prefix, name, count);
    if (found != UNKNOWN) return found;
  }
  if (r->broken) return UNKNOWN;
  if (is_later(scope, name)) {
    ls_fail_at(r->ctx, LS_ERR_CONFIG, place,
               "model.layers.%s.%s: `%s` is not before this layer in the list; move it up", kind, option,
               name);
    return UNKNOWN;
  }
  const char *nearest = nearest_name(r, scope, name, count);
  ls_fail_at(r->ctx, LS_ERR_CONFIG, place,
             "model.layers.%s.%s: no earlier layer is called `%.80s`; %s `%s%.80s`%s", kind, option,
             LS_SHOWN(name), nearest ? "did you mean" : "a layer with",
             nearest ? "" : "name: ", nearest ? nearest : LS_SHOWN(name), nearest ? "?" : " would be");
  return UNKNOWN;
}
