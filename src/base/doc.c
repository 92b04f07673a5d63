/* Documents: a file or a text parsed into a tree that owns everything it needs, and finding nodes in it. */
#include "base/doc.h"

#include <string.h>
#include <sys/stat.h>

#include "base/doc_parse.h"
#include "base/file.h"

static ls_status_t fail_large(ls_ctx_t *ctx, const char *file) {
  return ls_fail(ctx, LS_ERR_CONFIG, "%s: more than the limit of %d bytes", file, LS_DOC_BYTES_MAX);
}

ls_status_t ls_doc_parse(ls_ctx_t *ctx, const char *file, const char *text, size_t len, ls_doc_t *doc) {
  if (len > LS_DOC_BYTES_MAX) return fail_large(ctx, file);
  if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
    text += 3;
    len -= 3;
  }
  ls_doc_t made = {0};
  ls_status_t status = LS_ERR_MEMORY;
  ls_arena_init(&made.arena, ctx);
  made.file = ls_arena_strdup(&made.arena, file);
  char *copy = made.file ? ls_arena_strndup(&made.arena, text, len) : NULL;
  if (!copy) goto release;
  const ls_doc_source_t source = {made.file, copy, len};
  status = ls_doc_parse_value(ctx, &made.arena, &source, 0, 1, &made.root);
  if (status != LS_OK) goto release;
  if (made.root->kind != LS_DOC_MAP) {
    status = ls_fail_at(ctx, LS_ERR_CONFIG, &made.root->place, "%s: `section:` lines were expected",
                        made.root->kind == LS_DOC_NULL ? "nothing is configured" : "not a map");
    goto release;
  }
  *doc = made;
  return LS_OK;
release:
  ls_arena_release(&made.arena);
  return status;
}

ls_status_t ls_doc_load(ls_ctx_t *ctx, const char *path, ls_doc_t *doc) {
  char *text;
  size_t len;
  struct stat info;
  if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > LS_DOC_BYTES_MAX)
    return fail_large(ctx, path);
  ls_status_t status = ls_file_read(ctx, path, LS_DOC_BYTES_MAX, &text, &len);
  if (status != LS_OK) return status;
  status = ls_doc_parse(ctx, path, text, len, doc);
  ls_free(text);
  if (status != LS_OK) return status;
  char *dir = ls_path_parent(ctx, path);
  status = dir ? ls_doc_start_paths(doc, doc->root, dir) : LS_ERR_MEMORY;
  ls_free(dir);
  if (status != LS_OK) ls_doc_release(doc);
  return status;
}

/* The tree is at most LS_DOC_DEPTH_MAX deep. */
static void start_below(ls_doc_node_t *node, const char *dir) {
  node->dir = dir;
  for (ls_doc_node_t *child = node->child; child; child = child->next)
    start_below(child, dir);
}

ls_status_t ls_doc_start_paths(ls_doc_t *doc, ls_doc_node_t *node, const char *dir) {
  const char *copy = node ? ls_arena_strdup(&doc->arena, dir) : NULL;
  if (node && !copy) return LS_ERR_MEMORY;
  if (node) start_below(node, copy);
  return LS_OK;
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
