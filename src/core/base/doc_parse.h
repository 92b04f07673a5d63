/* Inside the document module: one YAML value out of a stretch of text, shared by files and assignments. */
#ifndef LS_BASE_DOC_PARSE_H
#define LS_BASE_DOC_PARSE_H

#include "base/doc.h"

/* The text that places point into. Its memory outlives the nodes. */
typedef struct {
  const char *file;
  const char *text;
  size_t len;
} ls_doc_source_t;

/* Parses the bytes of `source` from `begin` on as one value at `depth` (1 = the root). An empty text gives a
 * null node. Nodes live in `arena`. Reports all errors; *node is written only on success. */
ls_status_t ls_doc_parse_value(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_source_t *source, size_t begin,
                               int depth, ls_doc_node_t **node);

/* Reads a file into `arena`: *root is its map, whose relative paths start at the file's folder. */
ls_status_t ls_doc_load_in(ls_ctx_t *ctx, ls_arena_t *arena, const char *path, ls_doc_node_t **root);

/* Whether a plain text means null: "", ~, null. */
bool ls_doc_is_null(const char *text);

/* The place of byte `offset` of the source: line and column from 1, and the line's text. */
ls_place_t ls_doc_place(const ls_doc_source_t *source, size_t offset);

#endif
