/* The configured layers become a graph: inputs, layers, loss and, for training, the way back. */
#include "graph/ops/ops.h"
#include "model/layer.h"

static ls_shape_t input_shape(const ls_model_config_t *model) {
  ls_shape_t shape = {.dtype = LS_F32, .rank = model->input.count};
  for (int i = 0; i < shape.rank; i++)
    shape.dim[i] = model->input.v[i];
  return shape;
}

/* Shape of one sample after `layers` layers. */
static ls_shape_t shape_after(const ls_model_config_t *model, int layers) {
  ls_shape_t shape = input_shape(model);
  for (int i = 0; i < layers; i++)
    shape = model->layer[i].kind->shape(model->layer[i].options, &shape);
  return shape;
}

int64_t ls_model_inputs(const ls_model_config_t *model) {
  const ls_shape_t shape = input_shape(model);
  return ls_shape_count(&shape);
}

int64_t ls_model_outputs(const ls_model_config_t *model) {
  const ls_shape_t shape = shape_after(model, model->layer_count);
  return ls_shape_count(&shape);
}

static void add_layers(ls_layer_builder_t *b, const ls_model_config_t *model) {
  b->sample = input_shape(model);
  for (int i = 0; i < model->layer_count && b->graph->status == LS_OK; i++) {
    const ls_layer_t *layer = &model->layer[i];
    ls_graph_scope(b->graph, "layers.%d", i);
    layer->kind->build(b, layer->options);
    b->sample = layer->kind->shape(layer->options, &b->sample);
  }
  ls_graph_scope(b->graph, "%s", "");
}

/* Returns the loss. The output is what a user of the model wants: probabilities of classes, or
 * predictions. */
static ls_tensor_id_t add_loss(ls_layer_builder_t *b, bool classes, ls_tensor_id_t target,
                               ls_tensor_id_t weight) {
  const ls_tensor_id_t in[] = {b->x, target, weight};
  ls_tensor_id_t out[LS_NODE_OUT_MAX] = {-1, -1, -1, -1};
  ls_graph_op(b->graph, classes ? &ls_op_softmax_xent : &ls_op_mse, NULL, 3, in, out);
  ls_graph_rename(b->graph, classes ? out[2] : b->x, "output");
  ls_graph_rename(b->graph, out[0], "loss");
  ls_graph_rename(b->graph, out[1], "correct");
  return out[0];
}

static ls_status_t fill_graph(ls_graph_t *graph, const ls_model_config_t *model, int64_t rows,
                              bool training) {
  bool classes = model->loss == LS_LOSS_CROSS_ENTROPY;
  int64_t outputs = ls_model_outputs(model);
  const ls_shape_t target_shape = classes ? LS_SHAPE(LS_I32, rows) : LS_SHAPE(LS_F32, rows, outputs);
  ls_layer_builder_t b = {.graph = graph, .rows = rows, .training = training};
  b.x = ls_graph_input(graph, "x", LS_SHAPE(LS_F32, rows, ls_model_inputs(model)));
  ls_tensor_id_t target = ls_graph_input(graph, "target", target_shape);
  ls_tensor_id_t weight = ls_graph_input(graph, "weight", LS_SHAPE(LS_F32, rows));
  b.step = ls_graph_input(graph, "step", LS_SHAPE(LS_U8, (int64_t)sizeof(ls_step_params_t)));
  add_layers(&b, model);
  ls_tensor_id_t loss = add_loss(&b, classes, target, weight);
  if (graph->status != LS_OK || !training) return graph->status;
  return ls_graph_backward(graph, loss);
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
