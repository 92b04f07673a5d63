/* A configuration document: the tree of a YAML file (JSON is a subset) with the place of every node, under
 * our own limits (1 MiB, depth 32, no anchors, aliases or tags), because libyaml has none. Duplicate keys are
 * errors. Scalars stay text; options.h gives them types. */
#ifndef LS_BASE_DOC_H
#define LS_BASE_DOC_H

#include "base/arena.h"

enum { LS_DOC_BYTES_MAX = 1 << 20, LS_DOC_DEPTH_MAX = 32, LS_DOC_NODES_MAX = 10000 };

typedef enum { LS_DOC_NULL, LS_DOC_SCALAR, LS_DOC_LIST, LS_DOC_MAP } ls_doc_kind_t;

typedef struct ls_doc_node {
  ls_doc_kind_t kind;
  ls_place_t place; /* of the value */
  bool quoted;      /* scalar was quoted: never a number, bool or null */
  const char *text; /* scalar */
  const char *dir;  /* folder at which a relative path in `text` starts; NULL: the current folder */
  const char *env;  /* environment whose section wrote it (ls_doc_layer); NULL: none */
  const char *key;  /* when the parent is a map */
  ls_place_t key_place;
  struct ls_doc_node *child; /* first child of a list or map */
  struct ls_doc_node *next;  /* next sibling */
  int count;                 /* children */
} ls_doc_node_t;

typedef struct {
  ls_arena_t arena;
  const char *file;
  ls_doc_node_t *root; /* a map */
  const char *env;     /* the chosen environment (ls_doc_layer); NULL: none */
} ls_doc_t;

/* Parses text (borrowed for the call; kept copies are in the document). A UTF-8 byte order mark is skipped.
 * Errors carry file:line:column. On failure the document is released. Errors: LS_ERR_CONFIG, LS_ERR_MEMORY.
 */
ls_status_t ls_doc_parse(ls_ctx_t *ctx, const char *file, const char *text, size_t len, ls_doc_t *doc);
/* Parses a file: relative paths start at the file's folder. */
ls_status_t ls_doc_load(ls_ctx_t *ctx, const char *path, ls_doc_t *doc);
void ls_doc_release(ls_doc_t *doc);

/* Reads a file (`text` NULL) or a text into a struct of `target_bytes` that begins with its arena. `fill`
 * gets the zeroed struct with the arena ready, and reports every error of the document. On success *target is
 * written, and the caller releases its arena. */
typedef ls_status_t (*ls_doc_fill_fn)(ls_ctx_t *ctx, const ls_doc_t *doc, void *target);
ls_status_t ls_doc_read(ls_ctx_t *ctx, const char *name, const char *text, size_t len, ls_doc_fill_fn fill,
                        size_t target_bytes, void *target);

/* Lays the document over the file that its key `base` names (a path as any other; chains are followed, a loop is named),
 * then the section of its key `env` that `env` names over both, and takes both keys away. Maps merge; lists, values and
 * null replace. `env` NULL: none is chosen; needed: it is an error to choose without a section `env`. */
ls_status_t ls_doc_layer(ls_ctx_t *ctx, ls_doc_t *doc, const char *env, bool needed);

/* Lays a map that `text` (YAML) holds over the document, as a file lies over its base. `name`: its file in messages. */
ls_status_t ls_doc_lay(ls_ctx_t *ctx, ls_doc_t *doc, const char *name, const char *text);

/* Child of a map by key, or of a list by index; NULL when absent. */
ls_doc_node_t *ls_doc_get(const ls_doc_node_t *map, const char *key);
ls_doc_node_t *ls_doc_at(const ls_doc_node_t *list, int index);

/* From now on relative paths in `node` and below start at `dir`, which the document copies. Values that
 * ls_doc_set adds later start at the current folder. NULL node: nothing. */
ls_status_t ls_doc_start_paths(ls_doc_t *doc, ls_doc_node_t *node, const char *dir);

#define LS_DOC_SET_FILE "--set"
/* Applies "a.b.0.c=value" (value is YAML, e.g. 3, [1, 2], {name: adam}). Missing maps on the way are created;
 * list indices must exist. literal: a value that is neither quoted nor null is taken as text, even if it
 * contains `,` or `|`. The new node's place is file LS_DOC_SET_FILE, line 1, with the assignment as its
 * source. */
ls_status_t ls_doc_set(ls_ctx_t *ctx, ls_doc_t *doc, const char *assignment, bool literal);

#endif
