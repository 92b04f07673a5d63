/* The layers of a model, one by one: parameters and work, from its graph. For people: lockstep inspect shows it. */
#ifndef LS_MODEL_SUMMARY_H
#define LS_MODEL_SUMMARY_H

#include "model/model.h"

typedef struct {
  const char *name, *kind;
  char own_name[LS_LAYER_NAME_BYTES], output[LS_SHAPE_TEXT_BYTES],
      shapes[128];               /* shapes: of its parameters */
  int64_t params, forward_flops; /* of a micro-batch */
} ls_layer_summary_t;

/* All layers of a kind together. */
typedef struct {
  const char *kind;
  int layers;
  int64_t params, forward_flops;
} ls_kind_summary_t;

typedef struct {
  ls_layer_summary_t *layer;
  int count;
  ls_kind_summary_t *kind; /* by FLOPs, the most first */
  int kind_count;
} ls_model_summary_t;

/* Names point into the model. The caller releases it, also after a failure. LS_ERR_MEMORY. Local. */
ls_status_t ls_model_summarise(ls_ctx_t *ctx, const ls_model_config_t *model, const ls_graph_t *graph,
                               ls_model_summary_t *summary);
void ls_model_summary_release(ls_model_summary_t *summary);

#endif
