/* Words of memory for `lockstep stress`, checked in place; wrong ones are counted. Not differentiable. */
#include "device/words.h"
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

static ls_status_t turn_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)in;
  if (attrs->i[LS_TURN_COUNT] < 1) return ls_fail(ctx, LS_ERR_SHAPE, "turn_words: no words");
  out[0] = LS_SHAPE(LS_I32, attrs->i[LS_TURN_COUNT]);
  out[1] = LS_SHAPE(LS_I64, 1);
  return LS_OK;
}

static ls_status_t turn_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const int64_t *i = args->attrs->i;
  *(int64_t *)args->out[1].data += ls_words_turn(args->out[0].data, 0, i[LS_TURN_COUNT], i[LS_TURN_FIRST],
                                                 i[LS_TURN_SWEEP], i[LS_TURN_CHECK] != 0);
  return LS_OK;
}

static ls_status_t differ_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)attrs;
  out[0] = LS_SHAPE(LS_I64, 1);
  ls_status_t status = ls_rule_tensor(ctx, "differing_words", "a", &in[0], LS_I32, 1, 1);
  return status ? status : ls_rule_equal(ctx, "differing_words", "a", &in[0], "b", &in[1]);
}

static ls_status_t differ_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  *(int64_t *)args->out[0].data +=
      ls_words_differ(args->in[0].data, args->in[1].data, 0, ls_shape_count(ls_in_shape(args, 0)));
  return LS_OK;
}

const ls_op_t ls_op_turn_words = {LS_OP("turn_words", LS_OP_ELEMENTWISE, 0, 2, turn_shape, turn_forward),
                                  .inout = 3};

const ls_op_t ls_op_differing_words = {
    LS_OP("differing_words", LS_OP_REDUCTION, 2, 1, differ_shape, differ_forward), .inout = 1};
