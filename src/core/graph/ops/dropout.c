/* Dropout (Srivastava et al. 2014), scaled while training so that evaluation needs no op at all.
 *   f[0] rate in [0, 1)   i[0] ordinal: which dropout of the model this is
 * The mask is a pure function of (seed, ordinal, position of the row in the run's stream of samples,
 * element): the same for any number of ranks, and never stored. The gradient is the op itself on dy. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <string.h>

static ls_status_t dropout_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "dropout", "x", &in[0], LS_F32, 1, 0))) return status;
  if ((status = ls_rule_step(ctx, "dropout", &in[1]))) return status;
  if (!(attrs->f[0] >= 0 && attrs->f[0] < 1))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "dropout: rate %g must be in [0, 1)", attrs->f[0]);
  out[0] = in[0];
  return LS_OK;
}

static ls_status_t dropout_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  float *y = ls_out_f32(args, 0);
  ls_step_params_t step;
  memcpy(&step, args->in[1].data, sizeof step);
  float rate = (float)args->attrs->f[0], scale = (float)(1 / (1 - args->attrs->f[0]));
  uint32_t rng_stream = LS_RNG_DROPOUT + (uint32_t)args->attrs->i[0];
  int64_t rows = ls_in_shape(args, 0)->dim[0], row_size = ls_shape_inner(ls_in_shape(args, 0), 1);
  uint64_t row_counters = (uint64_t)(row_size + 3) / 4;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t e = 0; e < row_size; e++) {
      uint64_t counter = (step.position + (uint64_t)r) * row_counters + (uint64_t)e / 4;
      ls_rng4_t words = ls_rng(step.seed, rng_stream, counter);
      bool keep = ls_rng_unit(words.v[e % 4]) >= rate;
      int64_t k = r * row_size + e;
      y[k] = keep ? x[k] * scale : 0;
    }
  return LS_OK;
}

static ls_status_t dropout_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                    const ls_tensor_id_t *grad_out, const bool *wanted,
                                    ls_tensor_id_t *grad_in) {
  (void)wanted;
  ls_tensor_id_t in[] = {grad_out[0], node->in[1]};
  grad_in[0] = ls_graph_op(graph, &ls_op_dropout, &node->attrs, 2, in, NULL);
  return graph->status;
}

/* Stochastic depth (Huang et al. 2016): whole rows. Counters are positions. */
static ls_status_t rows_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  float *y = ls_out_f32(args, 0), scale = (float)(1 / (1 - args->attrs->f[0]));
  ls_step_params_t step;
  memcpy(&step, args->in[1].data, sizeof step);
  int64_t rows = ls_in_shape(args, 0)->dim[0], size = ls_shape_inner(ls_in_shape(args, 0), 1);
  for (int64_t r = 0; r < rows; r++) {
    ls_rng4_t words =
        ls_rng(step.seed, LS_RNG_DROPOUT + (uint32_t)args->attrs->i[0], step.position + (uint64_t)r);
    bool keep = ls_rng_unit(words.v[0]) >= (float)args->attrs->f[0];
    for (int64_t e = r * size; e < (r + 1) * size; e++)
      y[e] = keep ? x[e] * scale : 0;
  }
  return LS_OK;
}

static ls_status_t rows_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  (void)wanted;
  ls_tensor_id_t in[] = {grad_out[0], node->in[1]};
  grad_in[0] = ls_graph_op(graph, &ls_op_drop_rows, &node->attrs, 2, in, NULL);
  return graph->status;
}

const ls_op_t ls_op_drop_rows = {LS_OP("drop_rows", LS_OP_ELEMENTWISE, 2, 1, dropout_shape, rows_forward),
                                 .backward = rows_backward,
                                 .flops_each = 1,
                                 .inplace = 1,
                                 .low_in = 1,
                                 .low_out = 1};

const ls_op_t ls_op_dropout = {
    .name = "dropout",
    .class = LS_OP_ELEMENTWISE,
    .in_count = 2,
    .out_count = 1,
    .shape = dropout_shape,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .flops_each = 1, /* the random numbers are integer work */
    .inplace = 1,
    .low_in = 1,
    .low_out = 1,
};
