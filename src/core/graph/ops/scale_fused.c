/* The gradient of a value that squeeze-and-excitation reads twice, once as a mean: (x (n, .., c), s (n, c), m (n, c)) ->
 * x s + m / positions at every position. A pass makes it of scale_channels, mean_positions_dx and add. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

static ls_status_t shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status = ls_op_scale_channels.shape(ctx, attrs, in, out);
  return status ? status : ls_rule_equal(ctx, "scale_add_mean", "m", &in[2], "s", &in[1]);
}

static ls_status_t forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0), *s = ls_in_f32(args, 1), *m = ls_in_f32(args, 2);
  const int64_t rows = ls_in_shape(args, 1)->dim[0], channels = ls_in_shape(args, 1)->dim[1];
  const int64_t each = ls_shape_count(ls_in_shape(args, 0)) / rows;
  const float positions = (float)(each / channels);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t e = 0; e < each; e++) {
      int64_t c = r * channels + e % channels;
      ls_out_f32(args, 0)[r * each + e] = x[r * each + e] * s[c] + m[c] / positions;
    }
  return LS_OK;
}

const ls_op_t ls_op_scale_add_mean = {LS_OP("scale_add_mean", LS_OP_ELEMENTWISE, 3, 1, shape, forward),
                                      .flops_each = 3, .inplace = 1, .low_in = 7, .low_out = 1};
