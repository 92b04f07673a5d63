/* A factor for each channel of each sample, at all its positions (squeeze-and-excitation: Hu et al. 2018):
 *   scale_channels     (x (n, .., c), s (n, c)) -> y like x
 *   scale_channels_ds  (dy, x) -> (n, c): the sum over positions of dy x, in f64 */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

static ls_shape_t channels_of(const ls_shape_t *x) {
  return LS_SHAPE(LS_F32, x->dim[0], x->dim[x->rank - 1]);
}

static ls_status_t scale_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = ls_rule_tensor(ctx, "scale_channels", "x", &in[0], LS_F32, 3, 0);
  if (status) return status;
  const ls_shape_t want = channels_of(&in[0]);
  out[0] = in[0];
  return ls_rule_equal(ctx, "scale_channels", "s", &in[1], "x's samples and channels", &want);
}

static ls_status_t scale_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *s = ls_in_f32(args, 1);
  const int64_t rows = ls_in_shape(args, 1)->dim[0], channels = ls_in_shape(args, 1)->dim[1];
  const int64_t each = ls_shape_count(ls_in_shape(args, 0)) / rows;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t e = 0; e < each; e++)
      ls_out_f32(args, 0)[r * each + e] = x[r * each + e] * s[r * channels + e % channels];
  return LS_OK;
}

static ls_status_t scale_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                  const ls_tensor_id_t *grad_out, const bool *wanted,
                                  ls_tensor_id_t *grad_in) {
  const ls_tensor_id_t dx_in[] = {grad_out[0], node->in[1]}, ds_in[] = {grad_out[0], node->in[0]};
  if (wanted[0]) grad_in[0] = ls_graph_op(graph, &ls_op_scale_channels, NULL, 2, dx_in, NULL);
  if (wanted[1]) grad_in[1] = ls_graph_op(graph, &ls_op_scale_channels_ds, NULL, 2, ds_in, NULL);
  return graph->status;
}

static ls_status_t ds_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = ls_rule_tensor(ctx, "scale_channels_ds", "x", &in[1], LS_F32, 3, 0);
  if (status) return status;
  out[0] = channels_of(&in[1]);
  return ls_rule_equal(ctx, "scale_channels_ds", "dy", &in[0], "x", &in[1]);
}

static ls_status_t ds_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0), *x = ls_in_f32(args, 1);
  const int64_t rows = args->out[0].shape.dim[0], channels = args->out[0].shape.dim[1];
  const int64_t each = ls_shape_count(ls_in_shape(args, 0)) / rows;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < channels; c++) {
      double sum = 0;
      for (int64_t e = r * each + c; e < (r + 1) * each; e += channels)
        sum += (double)dy[e] * x[e];
      ls_out_f32(args, 0)[r * channels + c] = (float)sum;
    }
  return LS_OK;
}

const ls_op_t ls_op_scale_channels = {
    LS_OP("scale_channels", LS_OP_ELEMENTWISE, 2, 1, scale_shape, scale_forward),
    .backward = scale_backward,
    .flops_each = 1,
    .inplace = 1,
    .low_in = 3,
    .low_out = 1};

const ls_op_t ls_op_scale_channels_ds = {
    LS_OP("scale_channels_ds", LS_OP_REDUCTION, 2, 1, ds_shape, ds_forward), .flops_each = 2, .low_in = 3,
    .low_out = 1};
