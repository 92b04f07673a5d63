/* Sums a graph's tensors and nodes by the layers that they are named after. */
#include "model/summary.h"

#include <stdlib.h>
#include <string.h>

/* Finds the layer with the longest name that begins `text`, followed by the character `next`. */
static ls_layer_summary_t *layer_of(const ls_model_summary_t *s, const char *text, char next) {
  ls_layer_summary_t *found = NULL;
  for (int i = 0; i < s->count; i++) {
    size_t len = strlen(s->layer[i].name);
    if (strncmp(text, s->layer[i].name, len) != 0 || text[len] != next) continue;
    if (!found || len > strlen(found->name)) found = &s->layer[i];
  }
  return found;
}

static void add_param(ls_layer_summary_t *row, const ls_graph_tensor_t *t) {
  char text[LS_SHAPE_TEXT_BYTES];
  size_t used = strlen(row->shapes);
  bool state = t->role == LS_ROLE_STATE;
  snprintf(row->shapes + used, sizeof row->shapes - used, "%s%s%s", used ? " " : "",
           ls_shape_text(&t->shape, text) + 4,
           state          ? " state"
           : t->trainable ? ""
                          : " frozen");
  if (!state) row->params += ls_shape_count(&t->shape);
}

/* A layer's nodes are called "LAYER op", its parameters "LAYER.name". */
static ls_status_t collect_layers(ls_ctx_t *ctx, const ls_model_config_t *model, const ls_graph_t *g,
                                  ls_model_summary_t *s) {
  char text[LS_SHAPE_TEXT_BYTES];
  s->count = model->layer_count;
  s->layer = ls_alloc_array(ctx, (size_t)s->count, sizeof *s->layer);
  if (!s->layer) return LS_ERR_MEMORY;
  for (int i = 0; i < s->count; i++) {
    ls_layer_summary_t *row = &s->layer[i];
    const ls_layer_t *layer = &model->layer[i];
    row->name = ls_model_layer_name(model, i, row->own_name);
    row->kind = ls_model_layer_kind(model, i);
    snprintf(row->output, sizeof row->output, "%s", ls_shape_text(&layer->sample, text) + 4);
    if (layer->owner != i)
      snprintf(row->shapes, sizeof row->shapes, "those of %s", s->layer[layer->owner].name);
  }
  for (int i = 0; i < g->tensor_count; i++) {
    const ls_graph_tensor_t *t = &g->tensors[i];
    bool kept = t->role == LS_ROLE_PARAM || t->role == LS_ROLE_STATE;
    ls_layer_summary_t *row = kept ? layer_of(s, t->name, '.') : NULL;
    if (row) add_param(row, t);
  }
  for (int i = 0; i < g->node_count; i++) {
    const ls_graph_node_t *node = &g->nodes[i];
    ls_layer_summary_t *row = node->phase == LS_PHASE_FORWARD ? layer_of(s, node->name, ' ') : NULL;
    if (row) row->forward_flops += ls_graph_node_flops(g, node);
  }
  return LS_OK;
}

static int by_flops(const void *a, const void *b) {
  const ls_kind_summary_t *x = a, *y = b;
  if (x->forward_flops != y->forward_flops) return x->forward_flops < y->forward_flops ? 1 : -1;
  if (x->params != y->params) return x->params < y->params ? 1 : -1;
  return strcmp(x->kind, y->kind);
}

static ls_status_t collect_kinds(ls_ctx_t *ctx, ls_model_summary_t *s) {
  s->kind = ls_alloc_array(ctx, (size_t)s->count, sizeof *s->kind);
  if (!s->kind) return LS_ERR_MEMORY;
  for (int i = 0; i < s->count; i++) {
    int k = 0;
    while (k < s->kind_count && strcmp(s->kind[k].kind, s->layer[i].kind) != 0)
      k++;
    s->kind_count += k == s->kind_count;
    ls_kind_summary_t *kind = &s->kind[k];
    kind->kind = s->layer[i].kind;
    kind->layers++;
    kind->params += s->layer[i].params;
    kind->forward_flops += s->layer[i].forward_flops;
  }
  qsort(s->kind, (size_t)s->kind_count, sizeof *s->kind, by_flops);
  return LS_OK;
}

ls_status_t ls_model_summarise(ls_ctx_t *ctx, const ls_model_config_t *model, const ls_graph_t *g,
                               ls_model_summary_t *s) {
  *s = (ls_model_summary_t){.count = 0};
  ls_status_t status = collect_layers(ctx, model, g, s);
  return status == LS_OK ? collect_kinds(ctx, s) : status;
}

void ls_model_summary_release(ls_model_summary_t *s) {
  ls_free(s->layer);
  ls_free(s->kind);
}
