#include "graph/cases/row.h"

extern const op_cases_t cases_attention[];
extern const op_cases_t cases_average[];
extern const op_cases_t cases_batch_norm[];
extern const op_cases_t cases_batch_norm_fused[];
extern const op_cases_t cases_bias[];
extern const op_cases_t cases_cast[];
extern const op_cases_t cases_concat[];
extern const op_cases_t cases_control[];
extern const op_cases_t cases_conv[];
extern const op_cases_t cases_dropout[];
extern const op_cases_t cases_elementwise[];
extern const op_cases_t cases_embedding[];
extern const op_cases_t cases_gather[];
extern const op_cases_t cases_group_norm[];
extern const op_cases_t cases_gru[];
extern const op_cases_t cases_int8[];
extern const op_cases_t cases_layer_norm[];
extern const op_cases_t cases_linear[];
extern const op_cases_t cases_loss[];
extern const op_cases_t cases_loss_scale[];
extern const op_cases_t cases_lstm[];
extern const op_cases_t cases_metric[];
extern const op_cases_t cases_normalize[];
extern const op_cases_t cases_padding[];
extern const op_cases_t cases_pool[];
extern const op_cases_t cases_recurrent[];
extern const op_cases_t cases_reduce[];
extern const op_cases_t cases_residual[];
extern const op_cases_t cases_rows[];
extern const op_cases_t cases_scale[];
extern const op_cases_t cases_scale_fused[];
extern const op_cases_t cases_shape[];
extern const op_cases_t cases_tree_sum[];
extern const op_cases_t cases_update[];
extern const op_cases_t cases_value_loss[];
extern const op_cases_t cases_words[];

const op_cases_t *const case_files[] = {
    cases_attention,
    cases_average,
    cases_batch_norm,
    cases_batch_norm_fused,
    cases_bias,
    cases_cast,
    cases_concat,
    cases_control,
    cases_conv,
    cases_dropout,
    cases_elementwise,
    cases_embedding,
    cases_gather,
    cases_group_norm,
    cases_gru,
    cases_int8,
    cases_layer_norm,
    cases_linear,
    cases_loss,
    cases_loss_scale,
    cases_lstm,
    cases_metric,
    cases_normalize,
    cases_padding,
    cases_pool,
    cases_recurrent,
    cases_reduce,
    cases_residual,
    cases_rows,
    cases_scale,
    cases_scale_fused,
    cases_shape,
    cases_tree_sum,
    cases_update,
    cases_value_loss,
    cases_words,
    NULL,
};
