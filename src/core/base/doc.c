/* Documents: a file or a text parsed into a tree that owns everything it needs, and finding nodes in it. */
#include "base/doc.h"

#include <string.h>
#include <sys/stat.h>

#include "base/doc_parse.h"
#include "base/file.h"

static ls_status_t fail_large(ls_ctx_t *ctx, const char *file) {
  return ls_fail(ctx, LS_ERR_CONFIG, "%s: more than the limit of %d bytes", file, LS_DOC_BYTES_MAX);
}

/* Parses into the arena: the name of the file, kept with the nodes, and the root, a map. */
static ls_status_t parse_in(ls_ctx_t *ctx, ls_arena_t *arena, const char *file, const char *text, size_t len,
                            ls_doc_node_t **root) {
  if (len > LS_DOC_BYTES_MAX) return fail_large(ctx, file);
  if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
    text += 3;
    len -= 3;
  }
  const ls_doc_source_t source = {ls_arena_strdup(arena, file), ls_arena_strndup(arena, text, len), len};
  if (!source.file || !source.text) return LS_ERR_MEMORY;
  ls_status_t status = ls_doc_parse_value(ctx, arena, &source, 0, 1, root);
  if (status != LS_OK || (*root)->kind == LS_DOC_MAP) return status;
  return ls_fail_at(ctx, LS_ERR_CONFIG, &(*root)->place, "%s: `section:` lines were expected",
                    (*root)->kind == LS_DOC_NULL ? "nothing is configured" : "not a map");
}

/* The tree is at most LS_DOC_DEPTH_MAX deep. */
static void start_below(ls_doc_node_t *node, const char *dir) {
  node->dir = dir;
  for (ls_doc_node_t *child = node->child; child; child = child->next)
    start_below(child, dir);
}

static ls_status_t start_paths(ls_arena_t *arena, ls_doc_node_t *node, const char *dir) {
  const char *copy = ls_arena_strdup(arena, dir);
  if (!copy) return LS_ERR_MEMORY;
  start_below(node, copy);
  return LS_OK;
}

ls_status_t ls_doc_load_in(ls_ctx_t *ctx, ls_arena_t *arena, const char *path, ls_doc_node_t **root) {
  char *text;
  size_t len;
  struct stat info;
  if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > LS_DOC_BYTES_MAX)
    return fail_large(ctx, path);
  ls_status_t status = ls_file_read(ctx, path, LS_DOC_BYTES_MAX, &text, &len);
  if (status != LS_OK) return status;
  status = parse_in(ctx, arena, path, text, len, root);
  ls_free(text);
  if (status != LS_OK) return status;
  char *dir = ls_path_parent(ctx, path);
  status = dir ? start_paths(arena, *root, dir) : LS_ERR_MEMORY;
  ls_free(dir);
  return status;
}

/* A document from a text or, where that is NULL, from the file. */
static ls_status_t make(ls_ctx_t *ctx, const char *file, const char *text, size_t len, ls_doc_t *doc) {
  ls_doc_t made = {0};
  ls_arena_init(&made.arena, ctx);
  made.file = ls_arena_strdup(&made.arena, file);
  ls_status_t status = !made.file ? LS_ERR_MEMORY
                       : text     ? parse_in(ctx, &made.arena, file, text, len, &made.root)
                                  : ls_doc_load_in(ctx, &made.arena, file, &made.root);
  if (status == LS_OK)
    *doc = made;
  else
    ls_arena_release(&made.arena);
  return status;
}

ls_status_t ls_doc_parse(ls_ctx_t *ctx, const char *file, const char *text, size_t len, ls_doc_t *doc) {
  return make(ctx, file, text, len, doc);
}

ls_status_t ls_doc_load(ls_ctx_t *ctx, const char *path, ls_doc_t *doc) {
  return make(ctx, path, NULL, 0, doc);
}

ls_status_t ls_doc_start_paths(ls_doc_t *doc, ls_doc_node_t *node, const char *dir) {
  return node ? start_paths(&doc->arena, node, dir) : LS_OK;
}

ls_status_t ls_doc_read(ls_ctx_t *ctx, const char *name, const char *text, size_t len, ls_doc_fill_fn fill,
                        size_t target_bytes, void *target) {
  ls_doc_t doc;
  ls_status_t status = text ? ls_doc_parse(ctx, name, text, len, &doc) : ls_doc_load(ctx, name, &doc);
  if (status != LS_OK) return status;
  ls_arena_t *made = ls_alloc(ctx, target_bytes); /* the struct's first member */
  if (!made) {
    ls_doc_release(&doc);
    return LS_ERR_MEMORY;
  }
  ls_arena_init(made, ctx);
  status = fill(ctx, &doc, made);
  ls_doc_release(&doc);
  if (status == LS_OK)
    memcpy(target, made, target_bytes);
  else
    ls_arena_release(made);
  ls_free(made);
  return status;
}

void ls_doc_release(ls_doc_t *doc) {
  ls_arena_release(&doc->arena);
  doc->root = NULL;
  doc->file = NULL;
}

ls_doc_node_t *ls_doc_get(const ls_doc_node_t *map, const char *key) {
  if (!map || map->kind != LS_DOC_MAP) return NULL;
  for (ls_doc_node_t *child = map->child; child; child = child->next)
    if (child->key && strcmp(child->key, key) == 0) return child;
  return NULL;
}

ls_doc_node_t *ls_doc_at(const ls_doc_node_t *list, int index) {
  if (!list || list->kind != LS_DOC_LIST || index < 0) return NULL;
  ls_doc_node_t *child = list->child;
  while (child && index-- > 0)
    child = child->next;
  return child;
}
