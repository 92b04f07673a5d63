/* Documents in layers: a file over the one that its key `base` names, and the chosen section of its key `env` over
 * both. Every node keeps the place at which it is written, so that messages and listings show it. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/doc.h"
#include "base/doc_parse.h"
#include "base/file.h"
#include "base/option.h"

enum { CHAIN_MAX = 16, ENVS_MAX = 64 };

typedef struct {
  ls_ctx_t *ctx;
  ls_arena_t *arena;
  struct stat file[CHAIN_MAX]; /* of the files in the chain so far */
  int count;
} chain_t;

/* Takes the entry out of the map. */
static ls_doc_node_t *cut(ls_doc_node_t *map, const char *key) {
  for (ls_doc_node_t **at = &map->child; *at; at = &(*at)->next) {
    ls_doc_node_t *node = *at;
    if (strcmp(node->key, key) != 0) continue;
    *at = node->next;
    node->next = NULL;
    map->count--;
    return node;
  }
  return NULL;
}

/* Lays the map `over` on the map `under`, whose order of keys stays. */
static void merge(ls_doc_node_t *under, ls_doc_node_t *over) {
  for (ls_doc_node_t *node = over->child, *next; node; node = next) {
    ls_doc_node_t **at = &under->child;
    next = node->next;
    while (*at && strcmp((*at)->key, node->key) != 0)
      at = &(*at)->next;
    ls_doc_node_t *old = *at;
    if (old && old->kind == LS_DOC_MAP && node->kind == LS_DOC_MAP) {
      merge(old, node);
      old->place = node->place;
      old->key_place = node->key_place;
      continue;
    }
    node->next = old ? old->next : NULL;
    *at = node;
    under->count += old == NULL;
  }
}

static ls_status_t lay_on_base(chain_t *chain, ls_doc_node_t **root);

/* Reads the file at `path`, which `base` names, with its own bases. */
static ls_status_t load_base(chain_t *chain, const ls_doc_node_t *base, const char *path,
                             ls_doc_node_t **root) {
  struct stat *info = &chain->file[chain->count];
  if (chain->count == CHAIN_MAX)
    return ls_fail_at(chain->ctx, LS_ERR_CONFIG, &base->place, "base: more than %d files build on each other",
                      CHAIN_MAX);
  if (stat(path, info) != 0)
    return ls_fail_at(chain->ctx, LS_ERR_CONFIG, &base->place, "base: %s cannot be read: %s", LS_SHOWN(path),
                      strerror(errno));
  for (int i = 0; i < chain->count; i++)
    if (chain->file[i].st_dev == info->st_dev && chain->file[i].st_ino == info->st_ino)
      return ls_fail_at(chain->ctx, LS_ERR_CONFIG, &base->place,
                        "base: a loop: %s builds on this file already; leave out one `base`", LS_SHOWN(path));
  chain->count++;
  ls_status_t status = ls_doc_load_in(chain->ctx, chain->arena, path, root);
  return status == LS_OK ? lay_on_base(chain, root) : status;
}

/* *root becomes its base with its own entries over it. */
static ls_status_t lay_on_base(chain_t *chain, ls_doc_node_t **root) {
  ls_doc_node_t *base = cut(*root, "base"), *under;
  if (!base) return LS_OK;
  if (base->kind != LS_DOC_SCALAR || !*base->text)
    return ls_fail_at(chain->ctx, LS_ERR_CONFIG, &base->place, "base: the path of one file was expected");
  char *path =
      base->dir ? ls_path_resolve(chain->ctx, base->dir, base->text) : ls_strdup(chain->ctx, base->text);
  if (!path) return LS_ERR_MEMORY;
  ls_status_t status = load_base(chain, base, path, &under);
  ls_free(path);
  if (status != LS_OK) return status;
  merge(under, *root);
  under->place = (*root)->place;
  *root = under;
  return LS_OK;
}

static void name_env(ls_doc_node_t *node, const char *env) {
  node->env = env;
  for (ls_doc_node_t *child = node->child; child; child = child->next)
    name_env(child, env);
}

/* Lays the section of `envs` that `chosen` names over the document. */
static ls_status_t lay_env(ls_ctx_t *ctx, ls_doc_t *doc, ls_doc_node_t *envs, const char *chosen) {
  const char *names[ENVS_MAX + 1], *found = NULL;
  char list[LS_NAMES_TEXT_BYTES], near[LS_NAMES_TEXT_BYTES];
  int count = 0;
  if (envs->kind != LS_DOC_MAP)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &envs->place,
                      "env: a section for each environment was expected, by its name");
  for (const ls_doc_node_t *node = envs->child; node; node = node->next) {
    if (node->kind != LS_DOC_MAP && node->kind != LS_DOC_NULL)
      return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place, "env.%s: sections of a configuration were expected",
                        LS_SHOWN(node->key));
    for (int i = 0; i < 2; i++) {
      const ls_doc_node_t *own = ls_doc_get(node, i ? "env" : "base");
      if (own)
        return ls_fail_at(ctx, LS_ERR_CONFIG, &own->key_place, "env.%s: `%s` belongs at the top of the file",
                          LS_SHOWN(node->key), own->key);
    }
    if (chosen && strcmp(node->key, chosen) == 0) found = node->key;
    if (count < ENVS_MAX) names[count++] = node->key;
  }
  names[count] = NULL;
  if (!chosen) return LS_OK;
  if (!found)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &envs->key_place, "no environment is called `%s`: there are %s%s",
                      LS_SHOWN(chosen), ls_names_text(names, list), ls_nearest_text("", chosen, names, near));
  ls_doc_node_t *over = ls_doc_get(envs, chosen);
  name_env(over, found);
  doc->env = found;
  if (over->kind == LS_DOC_MAP) merge(doc->root, over);
  return LS_OK;
}

ls_status_t ls_doc_layer(ls_ctx_t *ctx, ls_doc_t *doc, const char *env, bool needed) {
  chain_t chain = {.ctx = ctx, .arena = &doc->arena};
  if (stat(doc->file, &chain.file[0]) == 0) chain.count = 1;
  ls_status_t status = lay_on_base(&chain, &doc->root);
  if (status != LS_OK) return status;
  ls_doc_node_t *envs = cut(doc->root, "env");
  if (envs) return lay_env(ctx, doc, envs, env);
  if (!env || !needed) return LS_OK;
  const ls_place_t whole = {.file = doc->file};
  return ls_fail_at(ctx, LS_ERR_CONFIG, &whole,
                    "environment `%s` is asked for, but there is no section `env`", LS_SHOWN(env));
}

ls_status_t ls_doc_lay(ls_ctx_t *ctx, ls_doc_t *doc, const char *name, const char *text) {
  const size_t len = strlen(text);
  const ls_doc_source_t source = {ls_arena_strdup(&doc->arena, name),
                                  ls_arena_strndup(&doc->arena, text, len), len};
  ls_doc_node_t *over;
  if (!source.file || !source.text) return LS_ERR_MEMORY;
  ls_status_t status = ls_doc_parse_value(ctx, &doc->arena, &source, 0, 1, &over);
  if (status != LS_OK) return status;
  if (over->kind != LS_DOC_MAP) return ls_fail_at(ctx, LS_ERR_CONFIG, &over->place, "a map was expected");
  merge(doc->root, over);
  return LS_OK;
}
