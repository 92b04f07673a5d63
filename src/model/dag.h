/* Inside of reading a list of layers: what is known of each while it is read, and what names mean. */
#ifndef LS_MODEL_DAG_H
#define LS_MODEL_DAG_H

#include "model/layer.h"

enum { LS_LAYER_UNKNOWN = -2 };

/* One layer, beside what the model keeps of it. */
typedef struct {
  const ls_doc_node_t *entry; /* of the list */
  const char *name;           /* with the blocks that it is in */
  bool read;                  /* by a later layer */
  bool sized;                 /* its sample is known */
} ls_layer_site_t;

typedef struct {
  ls_ctx_t *ctx;
  ls_arena_t *arena;
  ls_model_config_t *model;
  bool sized, full;
  bool broken; /* layers are missing that were not read: that a name is unknown means nothing */
  ls_layer_site_t site[LS_LAYER_MAX];
} ls_layer_reader_t;

/* The top of the model, or one turn of a block. */
typedef struct ls_layer_scope {
  const struct ls_layer_scope *outer;
  const char *prefix;         /* of names: "", "block.0." */
  int input;                  /* what `input` means: a layer, -1 = the model's input */
  const ls_doc_node_t *entry; /* being read */
} ls_layer_scope_t;

/* Kind and options of an entry as they are written: the kind's name (NULL: it is no entry), where it stands, an
 * option's value (NULL: none). An entry may be a kind alone: `layer_norm`. */
static inline bool ls_entry_is_alone(const ls_doc_node_t *entry) {
  return entry->kind == LS_DOC_SCALAR;
}
const char *ls_entry_kind(const ls_doc_node_t *entry);
const ls_place_t *ls_entry_place(const ls_doc_node_t *entry);
const ls_doc_node_t *ls_entry_option(const ls_doc_node_t *entry, const char *key);

static inline ls_layer_common_t *ls_layer_options_of(const ls_layer_reader_t *r, int i) {
  return (ls_layer_common_t *)r->model->layer[i].options;
}

/* Checks a name that is given to a layer or block. Reported. */
ls_status_t ls_layer_check_name(const ls_layer_reader_t *r, const ls_doc_node_t *entry, const char *name);
/* Gives layer `i` its whole name; `position`: of its entry in the list. Reported. */
ls_status_t ls_layer_set_name(ls_layer_reader_t *r, const ls_layer_scope_t *scope, int i, int position);
/* The layer that `name` means in `scope`, among the first `count`: -1 = the model's input, LS_LAYER_UNKNOWN after
 * a report. `option` is where the name is written. */
int ls_layer_resolve(const ls_layer_reader_t *r, const ls_layer_scope_t *scope, int count, const char *name,
                     const char *option, const ls_place_t *place);

#endif
