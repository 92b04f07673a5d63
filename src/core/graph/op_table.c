/* The table of op rows, and the FLOPs and bytes of an op. */
#include "graph/ops/ops.h"

#include <string.h>

/* clang-format off */
const ls_op_t *const ls_ops[] = {
    &ls_op_linear,
    &ls_op_linear_dx, &ls_op_linear_dx_add,
    &ls_op_linear_dwb, &ls_op_linear_dw,
    &ls_op_linear_relu,
    &ls_op_value_range,
    &ls_op_linear_int8,
    &ls_op_conv2d_int8,
    &ls_op_conv2d_int8_norm,
    &ls_op_relu,
    &ls_op_relu_dy,
    &ls_op_gelu,
    &ls_op_gelu_dx,
    &ls_op_gelu_tanh,
    &ls_op_gelu_tanh_dx,
    &ls_op_silu,
    &ls_op_silu_dx,
    &ls_op_tanh,
    &ls_op_tanh_dy,
    &ls_op_sigmoid,
    &ls_op_sigmoid_dy,
    &ls_op_dropout,
    &ls_op_layer_norm,
    &ls_op_layer_norm_dx,
    &ls_op_layer_norm_dgb,
    &ls_op_residual_norm,
    &ls_op_layer_norm_dx_add, &ls_op_layer_norm_back, &ls_op_layer_norm_back_drop,
    &ls_op_drop_rows,
    &ls_op_scale_channels,
    &ls_op_scale_channels_ds,
    &ls_op_scale_add_mean,
    &ls_op_embedding,
    &ls_op_embedding_dw,
    &ls_op_attention,
    &ls_op_attention_dx,
    &ls_op_attention_padded,
    &ls_op_attention_padded_dx,
    &ls_op_lengths,
    &ls_op_segments,
    &ls_op_mask_targets,
    &ls_op_mask_places,
    &ls_op_pool_valid,
    &ls_op_pool_valid_dx,
    &ls_op_group_norm,
    &ls_op_group_norm_dx,
    &ls_op_group_norm_dgb,
    &ls_op_add,
    &ls_op_mul,
    &ls_op_reshape,
    &ls_op_concat,
    &ls_op_columns,
    &ls_op_resize_rows,
    &ls_op_reduce,
    &ls_op_reduce_dx,
    &ls_op_lstm_chain,
    &ls_op_lstm_chain_dx,
    &ls_op_gru_chain,
    &ls_op_gru_chain_dx,
    &ls_op_shift_positions,
    &ls_op_position_weights,
    &ls_op_softmax_xent,
    &ls_op_softmax_xent_dx,
    &ls_op_mse,
    &ls_op_mse_dx,
    &ls_op_l1,
    &ls_op_l1_dx,
    &ls_op_huber,
    &ls_op_huber_dx,
    &ls_op_bce,
    &ls_op_bce_dx,
    &ls_op_top_hits,
    &ls_op_class_counts,
    &ls_op_label_counts,
    &ls_op_value_sums,
    &ls_op_conv2d,
    &ls_op_conv2d_dx,
    &ls_op_conv2d_dw,
    &ls_op_bn_sums,
    &ls_op_sum_ranks,
    &ls_op_bn_moments,
    &ls_op_bn_track,
    &ls_op_rsqrt_eps,
    &ls_op_bn_apply,
    &ls_op_bn_back_sums,
    &ls_op_bn_dx,
    &ls_op_bn_act,
    &ls_op_bn_add_act,
    &ls_op_bn_act_back_sums,
    &ls_op_bn_add_act_back_sums,
    &ls_op_bn_act_dx,
    &ls_op_bias,
    &ls_op_sum_leading,
    &ls_op_max_pool,
    &ls_op_max_pool_dx,
    &ls_op_avg_pool,
    &ls_op_avg_pool_dx,
    &ls_op_mean_positions,
    &ls_op_mean_positions_dx,
    &ls_op_take_position,
    &ls_op_take_position_dx,
    &ls_op_gather_rows,
    &ls_op_normalize,
    &ls_op_cast,
    &ls_op_fill,
    &ls_op_loss_scale,
    &ls_op_accumulate,
    &ls_op_tree_sum,
    &ls_op_copy,
    &ls_op_turn_words,
    &ls_op_differing_words,
    NULL,
};
/* clang-format on */

const ls_op_t *ls_op_find(const char *name) {
  for (int i = 0; ls_ops[i]; i++)
    if (strcmp(ls_ops[i]->name, name) == 0) return ls_ops[i];
  return NULL;
}

int64_t ls_op_flops(const ls_op_t *op, const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  if (op->flops) return op->flops(attrs, in, out);
  if (op->flops_each == 0) return 0;
  int64_t of_in = op->in_count ? ls_shape_count(&in[0]) : 0, of_out = ls_shape_count(&out[0]);
  return op->flops_each * (of_in > of_out ? of_in : of_out);
}

int64_t ls_op_bytes(const ls_op_t *op, const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  if (op->bytes) return op->bytes(attrs, in, out);
  int64_t bytes = 0;
  for (int i = 0; i < op->in_count; i++)
    bytes += (int64_t)ls_shape_bytes(&in[i]);
  for (int i = 0; i < op->out_count; i++) /* an inout output is read too */
    bytes += (int64_t)ls_shape_bytes(&out[i]) * (op->inout >> i & 1 ? 2 : 1);
  return bytes;
}

int64_t ls_graph_node_flops(const ls_graph_t *graph, const ls_graph_node_t *node) {
  ls_shape_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  for (int i = 0; i < node->in_count; i++)
    in[i] = graph->tensors[node->in[i]].shape;
  for (int i = 0; i < node->out_count; i++)
    out[i] = graph->tensors[node->out[i]].shape;
  return ls_op_flops(node->op, &node->attrs, in, out);
}

int64_t ls_graph_flops(const ls_graph_t *graph, ls_graph_phase_t phase) {
  int64_t flops = 0;
  for (int n = 0; n < graph->node_count; n++)
    if (graph->nodes[n].phase == phase) flops += ls_graph_node_flops(graph, &graph->nodes[n]);
  return flops;
}
