/* Every option's value and its place. The values are those of the saved configuration, so none can be forgotten here; the
 * document says which of them are written, and where. */
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 512 };

typedef struct {
  json_t *list; /* of {option, value, from} */
  const ls_doc_node_t *model;
} resolved_t;

static json_t *from(const ls_doc_node_t *node) {
  if (!node || !node->place.file) return json_string("default");
  if (strcmp(node->place.file, LS_DOC_SET_FILE) == 0) return json_string(LS_DOC_SET_FILE);
  char *file = NULL;
  size_t len;
  FILE *to = open_memstream(&file, &len);
  if (!to) return NULL;
  fprintf(to, "%s:%d", node->place.file, node->place.line);
  if (node->env) fprintf(to, " (env %s)", node->env);
  json_t *text = fclose(to) == 0 ? json_string(file) : NULL;
  free(file);
  return text;
}

/* The node that gives `key` of `node` its value; NULL: the default does. A value in place of a map, such as the name of
 * an optimizer, gives all that is below it; a preset gives what the model has of it. */
static const ls_doc_node_t *giver(const resolved_t *r, const ls_doc_node_t *node, const char *key) {
  if (!node || node->kind == LS_DOC_SCALAR || node->kind == LS_DOC_LIST) return node;
  const ls_doc_node_t *below = ls_doc_get(node, key);
  if (!below && node == r->model && (strcmp(key, "layers") == 0 || strcmp(key, "input") == 0))
    below = ls_doc_get(node, "preset");
  return below && below->kind != LS_DOC_NULL ? below : NULL;
}

static bool all_plain(const json_t *list) {
  for (size_t i = 0; i < json_array_size(list); i++)
    if (json_is_object(json_array_get(list, i)) || json_is_array(json_array_get(list, i))) return false;
  return true;
}

static void collect(resolved_t *r, const char *name, json_t *value, const ls_doc_node_t *node) {
  char below[NAME_BYTES];
  const char *key;
  json_t *child;
  size_t i;
  if (json_is_object(value)) {
    json_object_foreach(value, key, child) {
      snprintf(below, sizeof below, "%s%s%s", name, *name ? "." : "", key);
      collect(r, below, child, giver(r, node, key));
    }
  } else if (json_is_array(value) &&
             !all_plain(value)) { /* blocks that repeat have more entries than are written */
    bool same = node && node->kind == LS_DOC_LIST && (size_t)node->count == json_array_size(value);
    json_array_foreach(value, i, child) {
      snprintf(below, sizeof below, "%s.%zu", name, i);
      collect(r, below, child, same ? ls_doc_at(node, (int)i) : node);
    }
  } else {
    json_array_append_new(r->list,
                          json_pack("{s:s, s:O, s:o?}", "option", name, "value", value, "from", from(node)));
  }
}

json_t *ls_config_resolved(const ls_config_t *config) {
  resolved_t r = {json_array(), ls_doc_get(config->doc.root, "model")};
  json_t *values = ls_config_json(config);
  if (r.list && values) collect(&r, "", values, config->doc.root);
  if (!values) json_decref(r.list);
  json_decref(values);
  return values ? r.list : NULL;
}
