/* The losses of a model, a row each: its op, what it wants as targets, and what the model then gives. */
#include "graph/ops/ops.h"
#include "model/layer.h"

const ls_loss_t ls_losses[] = {
    [LS_LOSS_CROSS_ENTROPY] = {.op = &ls_op_softmax_xent, .classes = true, .probabilities = true},
    [LS_LOSS_MSE] = {.op = &ls_op_mse},
    [LS_LOSS_L1] = {.op = &ls_op_l1},
    [LS_LOSS_HUBER] = {.op = &ls_op_huber},
    [LS_LOSS_BCE] = {.op = &ls_op_bce, .labels = true, .probabilities = true}};
const char *const ls_loss_names[] = {[LS_LOSS_CROSS_ENTROPY] = "cross-entropy",
                                     [LS_LOSS_MSE] = "mse",
                                     [LS_LOSS_L1] = "l1",
                                     [LS_LOSS_HUBER] = "huber",
                                     [LS_LOSS_BCE] = "binary-cross-entropy",
                                     NULL};
static_assert(LS_COUNT(ls_loss_names) == LS_COUNT(ls_losses) + 1, "a name for every loss");

const ls_loss_t *ls_model_loss(const ls_model_config_t *model) {
  return &ls_losses[model->loss];
}

/* The argument of the loss. Labels are smoothed in training alone. */
static double argument(const ls_layer_builder_t *b, const ls_model_config_t *model) {
  if (model->loss == LS_LOSS_HUBER) return model->huber_delta;
  return ls_model_loss(model)->classes && b->training ? model->label_smoothing : 0;
}

/* With a class for every position, a position is a row of the loss. */
ls_tensor_id_t ls_model_add_loss(const ls_layer_builder_t *b, const ls_model_config_t *model,
                                 ls_tensor_id_t y, ls_tensor_id_t target, ls_tensor_id_t weight) {
  ls_graph_t *graph = b->graph;
  const ls_loss_t *loss = ls_model_loss(model);
  ls_tensor_id_t in[] = {y, target, weight}, out[LS_NODE_OUT_MAX] = {-1, -1, -1, -1};
  if (ls_model_positions(model)) {
    const ls_attrs_t rows = {.i = {2, b->rows * ls_model_positions(model), ls_model_classes(model)}},
                     ignored = {.i = {model->ignore}};
    if (b->lengths >= 0 && ls_model_positions(model) == b->places)
      in[1] =
          ls_graph_op(graph, &ls_op_mask_targets, &ignored, 2, (ls_tensor_id_t[]){target, b->lengths}, NULL);
    ls_graph_op(graph, &ls_op_position_weights, &ignored, 2, &in[1], out);
    in[0] = ls_graph_op(graph, &ls_op_reshape, &rows, 1, &y, NULL);
    in[1] = out[1];
    in[2] = out[0];
  }
  const ls_attrs_t attrs = {.f = {argument(b, model)}};
  ls_graph_op(graph, loss->op, &attrs, 3, in, out);
  if (loss->probabilities) in[0] = out[2];
  if (!b->training) ls_model_add_scores(graph, model, in);
  ls_graph_rename(graph, loss->probabilities ? out[2] : y, "output");
  ls_graph_rename(graph, out[0], "loss");
  ls_graph_rename(graph, out[1], "correct");
  return out[0];
}
