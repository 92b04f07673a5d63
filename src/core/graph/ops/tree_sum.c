/* Adds equal parts in one fixed order, so that a value has the same bits whoever adds it up and however its
 * parts were distributed before:
 *
 *   sum(p, 1) = p[0];  sum(p, n) = sum(p, h) + sum(p + h, n - h), h the largest power of two below n
 *
 * For a power of two this is the pairwise tree, in which the sum of an aligned block of parts is a node.
 * Every version of this op must add in this order; the compare test requires equal bits. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

static ls_status_t tree_sum_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                  ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = ls_rule_tensor(ctx, "tree_sum", "parts", &in[0], LS_F32, 2, 2);
  if (status) return status;
  if (in[0].dim[0] < 1 || in[0].dim[0] > LS_TREE_PARTS_MAX)
    return ls_fail(ctx, LS_ERR_SHAPE, "tree_sum: %lld parts (1 to %d)", (long long)in[0].dim[0],
                   LS_TREE_PARTS_MAX);
  out[0] = LS_SHAPE(LS_F32, in[0].dim[1]);
  return LS_OK;
}

static float sum_parts(const float *x, int64_t parts, int64_t stride) {
  int64_t half = 1;
  if (parts == 1) return x[0];
  while (2 * half < parts)
    half *= 2;
  return sum_parts(x, half, stride) + sum_parts(x + half * stride, parts - half, stride);
}

static ls_status_t tree_sum_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *x = ls_in_f32(args, 0);
  float *y = ls_out_f32(args, 0);
  int64_t parts = ls_in_shape(args, 0)->dim[0], count = ls_in_shape(args, 0)->dim[1];
  for (int64_t k = 0; k < count; k++)
    y[k] = sum_parts(x + k, parts, count);
  return LS_OK;
}

static int64_t tree_sum_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  return (in[0].dim[0] - 1) * ls_shape_count(&out[0]);
}

const ls_op_t ls_op_tree_sum = {LS_OP("tree_sum", LS_OP_REDUCTION, 1, 1, tree_sum_shape, tree_sum_forward),
                                .flops = tree_sum_flops};
