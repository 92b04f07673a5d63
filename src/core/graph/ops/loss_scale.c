/* The loss scale of fp16 (Micikevicius et al. 2018), from the counter in which step_control keeps it: gradients that
 * would be rounded to 0 are multiplied by it on their way back. A power of two, so it changes no digit. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>

static ls_status_t scale_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                               ls_shape_t *out) {
  (void)attrs;
  out[0] = LS_SHAPE(LS_F32, 1);
  return ls_rule_vector(ctx, "loss_scale", "counter", &in[0], LS_COUNTER_COUNT);
}

static ls_status_t scale_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  ls_out_f32(args, 0)[0] = ldexpf(1, LS_SCALE_EXPONENT + (int)ls_in_f32(args, 0)[LS_COUNTER_SCALE]);
  return LS_OK;
}

const ls_op_t ls_op_loss_scale = {LS_OP("loss_scale", LS_OP_ELEMENTWISE, 1, 1, scale_shape, scale_forward)};
