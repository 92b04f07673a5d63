/* Inside the reader of a list of layers: the facts about each layer while the list is read, and the meaning
 * of names. */
#ifndef LS_MODEL_DAG_H
#define LS_MODEL_DAG_H

#include "model/layer.h"

enum { LS_LAYER_UNKNOWN = -2 };

/* One layer: facts that only the reader needs. */
typedef struct {
  const ls_doc_node_t *entry; /* of the list */
  const char *name;           /* including the blocks around it */
  bool read;                  /* by a later layer */
  bool sized;                 /* its sample is known */
} ls_layer_site_t;

typedef struct {
  ls_ctx_t *ctx;
  ls_arena_t *arena;
  ls_model_config_t *model;
  bool sized, full;
  bool broken; /* some layers could not be read, so an unknown name need not be an error */
  ls_layer_site_t site[LS_LAYER_MAX];
} ls_layer_reader_t;

/* A scope of names: the top of the model, or one repetition of a block. */
typedef struct ls_layer_scope {
  const struct ls_layer_scope *outer;
  const char *prefix;         /* prefix of names: "", "block.0." */
  int input;                  /* the layer that `input` means; -1 = the model's input */
  const ls_doc_node_t *entry; /* being read */
} ls_layer_scope_t;

/* Kind and options of an entry as written: the kind's name (NULL: not an entry), its place, and an option's
 * value (NULL: none). An entry may be just a kind: `layer_norm`. */
static inline bool ls_entry_is_alone(const ls_doc_node_t *entry) {
  return entry->kind == LS_DOC_SCALAR;
}
const char *ls_entry_kind(const ls_doc_node_t *entry);
const ls_place_t *ls_entry_place(const ls_doc_node_t *entry);
const ls_doc_node_t *ls_entry_option(const ls_doc_node_t *entry, const char *key);

static inline ls_layer_common_t *ls_layer_options_of(const ls_layer_reader_t *r, int i) {
  return (ls_layer_common_t *)r->model->layer[i].options;
}

/* Checks a name given to a layer or block. Reports errors. */
ls_status_t ls_layer_check_name(const ls_layer_reader_t *r, const ls_doc_node_t *entry, const char *name);
/* Gives layer `i` its whole name; `position` is that of its entry in the list. Reports errors. */
ls_status_t ls_layer_set_name(ls_layer_reader_t *r, const ls_layer_scope_t *scope, int i, int position);
/* The layer that `name` refers to in `scope`, among the first `count`: -1 = the model's input,
 * LS_LAYER_UNKNOWN after a report. `option` is the place of the name. */
int ls_layer_resolve(const ls_layer_reader_t *r, const ls_layer_scope_t *scope, int count, const char *name,
                     const char *option, const ls_place_t *place);

#endif
