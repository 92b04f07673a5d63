/* Turns the configured layers into a graph: inputs, layers, loss and, for training, the backward nodes. */
#include "graph/ops/ops.h"
#include "graph/rewrite.h"
#include "model/layer.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

ls_shape_t ls_model_sample(const ls_model_config_t *model, int layer) {
  if (layer >= 0) return model->layer[layer].sample;
  ls_shape_t shape = {.dtype = LS_F32, .rank = model->input.count};
  for (int i = 0; i < shape.rank; i++)
    shape.dim[i] = model->input.v[i];
  return shape;
}

ls_shape_t ls_model_rows(int64_t rows, ls_shape_t one) {
  ls_shape_t shape = {.dtype = one.dtype, .rank = one.rank + 1, .dim = {rows}};
  for (int i = 0; i < one.rank; i++)
    shape.dim[i + 1] = one.dim[i];
  return shape;
}

ls_shape_t ls_model_x(const ls_model_config_t *model) {
  ls_shape_t shape = ls_model_sample(model, -1);
  shape.dtype = model->dtype;
  return shape;
}

ls_shape_t ls_model_target(const ls_model_config_t *model) {
  if (ls_model_positions(model)) return LS_SHAPE(LS_I32, ls_model_positions(model));
  if (ls_model_loss(model)->classes) return (ls_shape_t){.dtype = LS_I32};
  return LS_SHAPE(LS_F32, ls_model_outputs(model));
}

int64_t ls_model_samples_bytes(const ls_model_config_t *model, int64_t rows) {
  const ls_shape_t x = ls_model_x(model), target = ls_model_target(model);
  int64_t bytes;
  if (__builtin_mul_overflow(rows, (int64_t)(ls_shape_bytes(&x) + ls_shape_bytes(&target)), &bytes))
    return INT64_MAX;
  return bytes;
}

int64_t ls_model_inputs(const ls_model_config_t *model) {
  const ls_shape_t shape = ls_model_sample(model, -1);
  return ls_shape_count(&shape);
}

int64_t ls_model_outputs(const ls_model_config_t *model) {
  const ls_shape_t shape = ls_model_sample(model, model->layer_count - 1);
  return ls_shape_count(&shape);
}

const char *ls_model_layer_name(const ls_model_config_t *model, int layer, char text[LS_LAYER_NAME_BYTES]) {
  const char *name = ls_layer_common(&model->layer[layer])->name;
  if (!name) snprintf(text, LS_LAYER_NAME_BYTES, "layers.%d", layer);
  return name ? name : text;
}

const char *ls_model_layer_kind(const ls_model_config_t *model, int layer) {
  return model->layer[layer].kind->name;
}

int64_t ls_model_positions(const ls_model_config_t *model) {
  const ls_shape_t y = ls_model_sample(model, model->layer_count - 1);
  return ls_model_loss(model)->classes && y.rank > 1 ? ls_shape_count(&y) / y.dim[y.rank - 1] : 0;
}

int64_t ls_model_classes(const ls_model_config_t *model) {
  int64_t positions = ls_model_positions(model);
  return ls_model_outputs(model) / (positions ? positions : 1);
}

int64_t ls_model_ids(const ls_model_config_t *model) {
  int64_t least = INT64_MAX;
  bool any = false;
  for (int i = 0; i < model->layer_count; i++) {
    const ls_layer_t *layer = &model->layer[i];
    if (!layer->kind || !layer->kind->ids) continue;
    int64_t ids = layer->kind->ids(layer->options);
    least = ids < least ? ids : least;
    any = true;
  }
  return any ? least : 0;
}

typedef struct {
  ls_tensor_id_t out, param[LS_LAYER_PARAM_MAX];
} built_t;

/* Lists the parameters of layer `i`; their number. *own: the first that is not one of the layer that it shares them with. */
static int params_of(const ls_model_config_t *model, int i, ls_layer_param_t list[LS_LAYER_PARAM_MAX],
                     int *own) {
  const ls_layer_t *layer = &model->layer[i];
  ls_shape_t sample[LS_LAYER_FROM_MAX];
  *own = layer->owner == i ? 0 : params_of(model, layer->owner, list, own);
  for (int k = 0; k < layer->from_count; k++)
    sample[k] = ls_model_sample(model, layer->from[k]);
  return layer->kind->params ? layer->kind->params(layer->options, sample, list) : 0;
}

bool ls_model_any_param(const ls_model_config_t *model,
                        bool (*is)(const void *user, const char *name, bool trained), const void *user) {
  ls_layer_param_t list[LS_LAYER_PARAM_MAX];
  char text[LS_LAYER_NAME_BYTES], name[256];
  for (int i = 0; i < model->layer_count; i++) {
    const bool frozen = ls_layer_common(&model->layer[i])->freeze;
    int k, count = params_of(model, i, list, &k);
    for (; k < count; k++) {
      snprintf(name, sizeof name, "%s.%s", ls_model_layer_name(model, i, text), list[k].name);
      if (!list[k].state && is(user, name, !frozen && !ls_patterns_choose(&model->freeze, name))) return true;
    }
  }
  return false;
}

static bool matches(const void *pattern, const char *name, bool trained) {
  (void)trained;
  return fnmatch(pattern, name, 0) == 0;
}

bool ls_model_has_param(const ls_model_config_t *model, const char *pattern) {
  return ls_model_any_param(model, matches, pattern);
}

static bool trains(const void *unused, const char *name, bool trained) {
  (void)unused, (void)name;
  return trained;
}

bool ls_model_trains(const ls_model_config_t *model) {
  return ls_model_any_param(model, trains, NULL);
}

static void add_params(ls_graph_t *graph, const ls_model_config_t *model, int i, built_t *built) {
  ls_layer_param_t list[LS_LAYER_PARAM_MAX];
  const ls_layer_common_t *common = ls_layer_common(&model->layer[i]);
  ls_tensor_id_t *param = built[i].param;
  int k, count = params_of(model, i, list, &k);
  memcpy(param, built[model->layer[i].owner].param, (size_t)k * sizeof *param);
  for (; k < count; k++) {
    param[k] =
        (list[k].state ? ls_graph_state : ls_graph_param)(graph, list[k].name, list[k].shape, list[k].init);
    ls_graph_tensor_t *t = param[k] >= 0 ? &graph->tensors[param[k]] : NULL;
    if (t && !list[k].state) t->trainable = !common->freeze && !ls_patterns_choose(&model->freeze, t->name);
  }
}

/* `built` has an entry per layer. Returns the outputs, (rows, outputs). */
static ls_tensor_id_t add_layers(ls_layer_builder_t *b, const ls_model_config_t *model, ls_tensor_id_t x,
                                 built_t *built) {
  for (int i = 0; i < model->layer_count && b->graph->status == LS_OK; i++) {
    const ls_layer_t *layer = &model->layer[i];
    char name[LS_LAYER_NAME_BYTES];
    ls_tensor_id_t in[LS_LAYER_FROM_MAX];
    ls_shape_t sample[LS_LAYER_FROM_MAX];
    for (int k = 0; k < layer->from_count; k++) {
      in[k] = layer->from[k] < 0 ? x : built[layer->from[k]].out;
      sample[k] = ls_model_sample(model, layer->from[k]);
    }
    ls_graph_scope(b->graph, "%s", ls_model_layer_name(model, i, name));
    add_params(b->graph, model, i, built);
    b->in_count = layer->from_count;
    b->in = in;
    b->sample = sample;
    b->param = built[i].param;
    built[i].out = layer->kind->build(b, layer->options);
  }
  ls_graph_scope(b->graph, "%s", "");
  const ls_attrs_t flat = {.i = {2, b->rows, ls_model_outputs(model)}};
  ls_tensor_id_t *y = &built[model->layer_count - 1].out;
  bool is_flat = ls_model_sample(model, model->layer_count - 1).rank == 1;
  return is_flat ? *y : ls_graph_op(b->graph, &ls_op_reshape, &flat, 1, y, NULL);
}

/* Channels of images in colour, which may have a mean and scale each; 0: one serves all values. */
static int64_t channels_of(const ls_shape_t *x) {
  return x->rank == 4 && x->dim[3] > 1 && x->dim[3] <= LS_STEP_CHANNELS ? x->dim[3] : 0;
}

/* Samples as layers take them: f32, or whole numbers as they are. */
static ls_tensor_id_t add_samples(ls_layer_builder_t *b, const ls_model_config_t *model, ls_tensor_id_t x) {
  const ls_tensor_id_t in[] = {x, b->step};
  const ls_attrs_t attrs = {.i = {channels_of(&b->graph->tensors[x].shape)}};
  return model->dtype != LS_F32 && !ls_model_ids(model)
             ? ls_graph_op(b->graph, &ls_op_normalize, &attrs, 2, in, NULL)
             : x;
}

/* A convolution of integers without bias takes the batch norm that alone reads it. */
static void join_norms(ls_graph_t *graph) {
  for (int i = 0; i < graph->node_count; i++) {
    const ls_graph_node_t *norm = &graph->nodes[i];
    int conv = norm->op == &ls_op_bn_apply ? graph->tensors[norm->in[0]].producer : -1;
    if (conv < 0 || graph->nodes[conv].op != &ls_op_conv2d_int8) continue;
    const ls_graph_node_t *c = &graph->nodes[conv];
    const int bias = graph->tensors[c->in[2]].producer; /* -1: a parameter */
    if (bias < 0 || graph->nodes[bias].op != &ls_op_fill) continue;
    const ls_tensor_id_t in[] = {c->in[0], c->in[1], norm->in[1], norm->in[2], norm->in[3], norm->in[4]};
    const ls_attrs_t attrs = c->attrs;
    ls_graph_replace(graph, 2, (int[]){conv, i}, &ls_op_conv2d_int8_norm, &attrs, 6, in, norm->out);
  }
  ls_graph_sweep(graph);
}

static ls_status_t fill_graph(ls_graph_t *graph, const ls_model_config_t *model, int64_t rows,
                              bool training) {
  ls_layer_builder_t b = {.graph = graph,
                          .rows = rows,
                          .training = training,
                          .int8 = training ? NULL : model->int8,
                          .ranges = -1,
                          .lengths = -1,
                          .places = model->input.v[0]};
  const ls_attrs_t pad = {.i = {model->pad}};
  built_t *built = ls_arena_array(&graph->arena, (size_t)model->layer_count, sizeof *built);
  if (!built) return LS_ERR_MEMORY;
  ls_tensor_id_t x = ls_graph_input(graph, "x", ls_model_rows(rows, ls_model_x(model)));
  ls_tensor_id_t target = ls_graph_input(graph, "target", ls_model_rows(rows, ls_model_target(model)));
  ls_tensor_id_t weight = b.weight = ls_graph_input(graph, "weight", LS_SHAPE(LS_F32, rows));
  b.step = ls_graph_input(graph, "step", LS_SHAPE(LS_U8, (int64_t)sizeof(ls_step_params_t)));
  if (model->pad >= 0) b.lengths = ls_graph_op(graph, &ls_op_lengths, &pad, 1, &x, NULL);
  ls_tensor_id_t y = add_layers(&b, model, add_samples(&b, model, x), built);
  ls_tensor_id_t loss = ls_model_add_loss(&b, model, y, target, weight);
  if (b.ranges >= 0) ls_graph_rename(graph, b.ranges, "ranges");
  if (graph->status == LS_OK && b.int8) join_norms(graph);
  if (graph->status != LS_OK || !training) return graph->status;
  return ls_graph_backward(graph, loss, -1);
}

ls_status_t ls_model_build(ls_ctx_t *ctx, const ls_model_config_t *model, int64_t rows, bool training,
                           ls_graph_t **out) {
  const int64_t rows_max = (int64_t)1 << 28; /* times the widest layer this is far from overflow */
  if (rows < 1 || rows > rows_max)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "a graph of %lld samples was asked for; 1 to %lld are possible",
                   (long long)rows, (long long)rows_max);
  ls_graph_t *graph;
  ls_status_t status = ls_graph_create(ctx, &graph);
  if (status != LS_OK) return status;
  status = fill_graph(graph, model, rows, training);
  if (status != LS_OK) {
    ls_graph_destroy(graph);
    return status;
  }
  *out = graph;
  return LS_OK;
}
