/* The op rows and their builders. Shapes: n rows (samples), i inputs, o outputs, c classes. The file of a row
 * explains its attributes. */
#ifndef LS_GRAPH_OPS_OPS_H
#define LS_GRAPH_OPS_OPS_H

#include "graph/op.h"

/* y (n, o) = x (n, i) w (o, i)^T + b (o); all dimensions of x but the last count as rows. */
extern const ls_op_t ls_op_linear;
/* y = max(x w^T + b, 0) in one op, with the bits of linear and relu. A pass creates it if the backend has
 * it. */
extern const ls_op_t ls_op_linear_relu;
extern const ls_op_t ls_op_linear_dx_add; /* (dy, w, other (n, i)) -> dx + other; made by a pass */
extern const ls_op_t ls_op_linear_dx;     /* (dy (n, o), w (o, i)) -> dx (n, i) */
extern const ls_op_t ls_op_linear_dwb;    /* (dy (n, o), x (n, i)) -> dw (o, i), db (o) */
extern const ls_op_t ls_op_linear_dw;     /* .. -> dw alone, of the same bits */

/* Inference with 8-bit integers, on hosts (int8.c): the range of a tensor, and products whose inputs have it. */
extern const ls_op_t ls_op_value_range, ls_op_linear_int8, ls_op_conv2d_int8, ls_op_conv2d_int8_norm;

/* Elementwise, any shape. Gradients take (dy, y) or (dy, x) as their names say. GELU is the exact form
 * (erf). */
extern const ls_op_t ls_op_relu, ls_op_relu_dy;           /* dx = dy * (y > 0), from (dy, y) */
extern const ls_op_t ls_op_gelu, ls_op_gelu_dx;           /* from (dy, x) */
extern const ls_op_t ls_op_gelu_tanh, ls_op_gelu_tanh_dx; /* the tanh form, from (dy, x) */
extern const ls_op_t ls_op_silu, ls_op_silu_dx;           /* x sigmoid(x), from (dy, x) */
extern const ls_op_t ls_op_tanh, ls_op_tanh_dy;           /* from (dy, y) */
extern const ls_op_t ls_op_sigmoid, ls_op_sigmoid_dy;     /* from (dy, y) */

/* Dropout: (x (n, ...), step u8 (64)) -> y; f[0] rate in [0, 1), i[0] ordinal. Element e of row r is kept
 * when the unit float of word (e % 4) of ls_rng(step.seed, LS_RNG_DROPOUT + ordinal, (step.position + r) *
 * ceil(row / 4) + e / 4) is >= rate, and scaled by 1 / (1 - rate). Its gradient is itself, applied to dy. */
extern const ls_op_t ls_op_dropout;
/* Stochastic depth, with the inputs and attributes of dropout: all of row r is kept when the unit float of word 0 of
 * ls_rng(step.seed, LS_RNG_DROPOUT + ordinal, step.position + r) is >= rate. Its gradient is itself. */
extern const ls_op_t ls_op_drop_rows;

/* Layer norm over the last dimension: (x (n, d), gamma (d), beta (d)) -> y (n, d), mean (n), rstd (n); f[0]
 * eps. */
extern const ls_op_t ls_op_layer_norm;
extern const ls_op_t ls_op_layer_norm_dx; /* (dy, x, gamma, mean, rstd) -> dx */
/* (x, other, gamma, beta, step) -> sum, y, mean, rstd; (dy, x, gamma, mean, rstd, other) -> dx: passes make them. */
extern const ls_op_t ls_op_residual_norm, ls_op_layer_norm_dx_add;
/* (dy, x, gamma, mean, rstd, other, step) -> dx, [dropped,] dgamma, dbeta; passes make them. */
extern const ls_op_t ls_op_layer_norm_back, ls_op_layer_norm_back_drop;
extern const ls_op_t ls_op_layer_norm_dgb; /* (dy, x, mean, rstd) -> dgamma (d), dbeta (d) */

/* Rows of a table: (ids u8, u16, i32, or f32 with whole numbers, of any shape (n..), table (v, d)) -> (n.., d). An
 * id outside [0, v) gives NaN. embedding_dw: (dy (n.., d), ids (n..)), i[0] v -> (v, d): sums in f64, in the order
 * of the ids. */
extern const ls_op_t ls_op_embedding, ls_op_embedding_dw;

/* Attention of every head of every sample (Vaswani et al. 2017): (qkv (n, t, 3 d): queries, keys, values, each with
 * its heads side by side; step u8 (64)) -> y (n, t, d), lse (n, heads, t). i[0] heads, i[1] 1: causal (a query sees keys
 * up to its own place), i[2] ordinal of the dropout, f[0] its rate. Scores are scaled by 1 / sqrt(d / heads); lse is the
 * logarithm of the sum of their exponentials. Dropout of probabilities is that of ls_op_dropout on rows of (heads, t,
 * t): head, query, key. lse takes no gradient.
 * attention_dx: (dy, qkv, y, lse, step) -> dqkv. */
extern const ls_op_t ls_op_attention, ls_op_attention_dx;
/* Attention with lengths i32 (n) as a last input: keys at places from a sample's length on take no part. Queries
 * there give 0, and lse 0. */
extern const ls_op_t ls_op_attention_padded, ls_op_attention_padded_dx;
/* Samples that end before their last place. lengths: (ids u8, u16, i32 or f32 (n, t)), i[0] the id of padding ->
 * i32 (n): the places up to the last other id.
 * segments: (ids (n, t)), i[0] the id of a separator, i[1] first, i[2] last -> i32 (n, t): first, and one more
 * after each separator, at most last.
 * mask_targets: (target i32 (n, t), lengths), i[0] ignored -> target, ignored from the length on.
 * mask_places: (x (n, t, c), lengths), f[0] value -> x, the value from the length on.
 * pool_valid: (x (n, t, c), lengths), i[0] 0: mean of the places before the length, 1: the last of them -> (n, c);
 * 0 without places. pool_valid_dx: (dy (n, c), lengths), i[0], i[1] t -> (n, t, c). */
extern const ls_op_t ls_op_lengths, ls_op_segments, ls_op_mask_targets, ls_op_mask_places, ls_op_pool_valid,
    ls_op_pool_valid_dx;

/* Group norm (Wu and He 2018): (x (n, .., c), gamma (c), beta (c)), i[0] groups of channels, f[0] eps -> y, mean (n,
 * groups), rstd (n, groups), over the positions and channels of a group. group_norm_dx: (dy, x, gamma, mean, rstd) -> dx.
 * group_norm_dgb: (dy, x, mean, rstd) -> dgamma, dbeta. */
extern const ls_op_t ls_op_group_norm, ls_op_group_norm_dx, ls_op_group_norm_dgb;

extern const ls_op_t ls_op_add, ls_op_mul; /* same shapes */
/* A factor for each channel of each sample: (x (n, .., c), s (n, c)) -> x s at every position. scale_channels_ds: (dy,
 * x) -> (n, c). */
extern const ls_op_t ls_op_scale_channels, ls_op_scale_channels_ds;
extern const ls_op_t ls_op_scale_add_mean; /* (x, s, m (n, c)) -> x s + m / positions; made by a pass */
extern const ls_op_t ls_op_reshape;        /* i[0] rank (1..6), i[1..6] dimensions; a view of any dtype */

/* concat joins rows side by side: (a (n, i), b (n, j)) -> (n, i + j). columns takes i[1] columns of x (n, k)
 * from i[0] on; it is the gradient of concat. */
extern const ls_op_t ls_op_concat, ls_op_columns;
/* x (r, ..) -> y (i[0], ..): rows that are missing are 0, rows that are too many are left out. */
extern const ls_op_t ls_op_resize_rows;

/* Reduce over i[0] trailing dimensions (>= 1): sum, or mean when i[1] is 1. reduce (n..., d...) -> (n...). */
extern const ls_op_t ls_op_reduce;
extern const ls_op_t ls_op_reduce_dx; /* (dy (n...), x (n..., d...)) -> dx like x */

/* Recurrent chains, order of time i[0]: 0 forwards, 1 backwards. gates_x = x w_ih^T + b of every position comes from
 * op linear; gates are kept after their functions.
 * lstm_chain: (gates_x (n, t, 4 h), w_hh (4 h, h)) -> y (n, t, h), c (n, t, h), gates (n, t, 4 h); order i, f, g, o.
 * gru_chain: (gates_x (n, t, 3 h), w_hh (3 h, h), b_hn (h)) -> y (n, t, h), gates (n, t, 3 h), m (n, t, h); order
 *   r, z, n; m = w_hn h + b_hn, which r multiplies. */
extern const ls_op_t ls_op_lstm_chain, ls_op_gru_chain;
extern const ls_op_t ls_op_lstm_chain_dx; /* (dy, c, gates, w_hh) -> dgates_x */
extern const ls_op_t
    ls_op_gru_chain_dx; /* (dy, y, gates, m, w_hh) -> dgates_x, and d (w_hh h + b) (n, t, 3 h) */
/* (x (n, t, h)) -> x of the position before (i[0] = 1) or after (-1), 0 where there is none. */
extern const ls_op_t ls_op_shift_positions;

/* Losses: sums over samples of weight times the sample's loss; weights (n) carry 1 / samples of the global
 * batch, 0 for padding rows, so that partial sums over ranks and micro-batches just add up.
 * softmax_xent: (logits (n, c), target i32 (n), weight (n)) -> loss (1), correct (1), probabilities (n, c).
 *   i[0] above 0: only so many columns are classes; the probability and the gradient of the others are 0.
 *   correct counts the rows of positive weight whose largest logit is the target (first one wins ties).
 *   f[0] label smoothing s: the target has 1 - s + s / c, every other class s / c (Szegedy et al. 2016).
 * position_weights: (target i32 (n, t), weight (n)), i[0] ignored -> weight of every position (n t): weight / positions of
 *   the sample that count, 0 where the target is i[0]; target (n t) i32, there 0. softmax_xent over (n t, c) then gives
 *   the sum over samples of weight times the mean over the positions that count. Not differentiable.
 * mse, l1, huber: (prediction (n, o), target (n, o), weight (n)) -> loss (1), correct (1) = 0: mean over outputs. huber:
 *   f[0] delta.
 * bce: (logits (n, o), target (n, o) in [0, 1], weight (n)) -> loss (1), correct (1), probabilities (n, o). correct counts
 *   the outputs of rows of positive weight whose probability is on the target's side of 1/2. */
extern const ls_op_t ls_op_softmax_xent,
    ls_op_softmax_xent_dx; /* dx from (dloss (1), prob, target, weight) */
extern const ls_op_t ls_op_position_weights;
/* dx from (dloss (1), prediction, target, weight); bce: from its probabilities. */
extern const ls_op_t ls_op_mse, ls_op_mse_dx, ls_op_l1, ls_op_l1_dx, ls_op_huber, ls_op_huber_dx, ls_op_bce,
    ls_op_bce_dx;

/* Sums for figures of an evaluation, of the rows of positive weight; p: predictions (n, c).
 * top_hits: (p, target i32 (n), weight (n)), i[0] k -> f32 (1): the rows whose target is among the k largest.
 * class_counts: the same inputs -> f32 (3, c): of each class the rows rightly predicted, predicted (the largest; of equal
 *   ones the first), and true.
 * label_counts: (p, target f32 (n, c), weight (n)) -> the same of each label, which is there above 1/2.
 * value_sums: as label_counts -> f32 (2, 4, c): of each column the sums of |p - t|, (p - t)^2, t, t^2, each as two f32
 *   that add up to it. */
extern const ls_op_t ls_op_top_hits, ls_op_class_counts, ls_op_label_counts, ls_op_value_sums;

/* Rows of two tables, of any dtypes: (rows i32 (n), features (t, ..), targets (t, ..)) -> x (n, ..), target
 * (n, ..). Every row number is in [0, t). Not differentiable: data are not trained. */
extern const ls_op_t ls_op_gather_rows;
/* Samples as numbers: (x u8, u16 or i32 (n, ..), step u8 (64)) -> f32 (n, ..) = (x - step.mean) * step.scale, in
 * f64 and rounded once. Not differentiable. */
extern const ls_op_t ls_op_normalize;
/* Floats of another dtype: i[0] f32, bf16 or f16; to nearest, ties to even. Its gradient is cast back. */
extern const ls_op_t ls_op_cast;

/* Convolution: (x (n, h, w, c), w (o, kh, kw, c / groups)) -> y (n, oh, ow, o), without bias. conv.c names the
 * attributes. */
extern const ls_op_t ls_op_conv2d, ls_op_conv2d_dx, ls_op_conv2d_dw; /* (dy, w) -> dx; (dy, x) -> dw */
/* Batch norm in parts, for statistics of one rank or of all; batch_norm.c explains each part. */
extern const ls_op_t ls_op_bn_sums, ls_op_sum_ranks, ls_op_bn_moments, ls_op_bn_track, ls_op_rsqrt_eps;
extern const ls_op_t ls_op_bn_apply, ls_op_bn_back_sums, ls_op_bn_dx;
/* Batch norm and the function after it in one op (batch_norm_fused.c); a pass creates them if the backend has them. */
extern const ls_op_t ls_op_bn_act, ls_op_bn_add_act, ls_op_bn_act_back_sums, ls_op_bn_add_act_back_sums;
extern const ls_op_t ls_op_bn_act_dx;
/* bias: (x (n.., d..), b (d..)) -> x + b, which has the trailing dimensions of x. sum_leading: (dy) -> the sum over
 * all but the i[0] trailing dimensions. */
extern const ls_op_t ls_op_bias, ls_op_sum_leading;
/* Pooling of x (n, h, w, c); pool.c names the attributes. max_pool -> y, place u8: the largest one's place in the
 * window. */
extern const ls_op_t ls_op_max_pool, ls_op_max_pool_dx; /* (dy, place) -> dx */
extern const ls_op_t ls_op_avg_pool, ls_op_avg_pool_dx; /* (dy) -> dx */
/* (x (n, t, c)) -> (n, c): the mean over positions; the position i[0], -1 the last. */
extern const ls_op_t ls_op_mean_positions, ls_op_mean_positions_dx; /* (dy), i[0] t -> dx */
extern const ls_op_t ls_op_take_position, ls_op_take_position_dx;   /* (dy), i[0], i[1] t -> dx */

/* (counter f32 (16)) -> f32 (1): the loss scale (device/kernel.h). seeds backward with fp16 instead of 1; `counter` is
 * then an input of the graph that lowering finds in the optimizer's state. */
extern const ls_op_t ls_op_loss_scale;
#define LS_COUNTER_NAME "counter"
extern const ls_op_t ls_op_fill; /* () -> out f32 of shape i[0] elements, value f[0]; seeds backward with 1 */
extern const ls_op_t ls_op_accumulate; /* (x) -> acc (inout, same shape): acc += x. Not differentiable */
/* Ops of lockstep stress (device/words.h has the pattern and the attributes). turn_words () -> words i32 (count,
 * inout), wrong i64 (1, inout): checks the pattern and writes the next one. differing_words (a i32 (n), b i32 (n))
 * -> count i64 (1, inout). Both add to their counters. Not differentiable. */
extern const ls_op_t ls_op_turn_words, ls_op_differing_words;
/* tree_sum: (parts f32 (p, n)) -> (n): the sum of the parts in the order of tree_sum.c, which is part of the
 * result: every version gives the same bits. Not differentiable. */
enum { LS_TREE_PARTS_MAX = 1024 };
extern const ls_op_t ls_op_tree_sum;
extern const ls_op_t ls_op_copy; /* (x) -> y = x: gives a value bytes of its own */

#endif
