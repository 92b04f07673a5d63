/* Gathering samples: rows of two tables by their numbers, as they are. One op for both, because a step begins
 * with it and every task has a price of its own. No attributes.
 *   rows i32 (n), features (t, ..), targets (t, ..), of any dtypes -> x (n, ..), target (n, ..) */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <string.h>

static ls_status_t gather_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)attrs;
  const ls_shape_t *rows = &in[0], *features = &in[1], *targets = &in[2];
  ls_status_t status = ls_rule_tensor(ctx, "gather_rows", "rows", rows, LS_I32, 1, 1);
  if (!status) status = ls_rule_tensor(ctx, "gather_rows", "features", features, features->dtype, 1, 0);
  if (!status) status = ls_rule_tensor(ctx, "gather_rows", "targets", targets, targets->dtype, 1, 0);
  if (status) return status;
  char a[LS_SHAPE_TEXT_BYTES], b[LS_SHAPE_TEXT_BYTES];
  if (features->dim[0] != targets->dim[0])
    return ls_fail(ctx, LS_ERR_SHAPE, "gather_rows: features %s and targets %s must have as many rows",
                   ls_shape_text(features, a), ls_shape_text(targets, b));
  out[0] = *features;
  out[1] = *targets;
  out[0].dim[0] = out[1].dim[0] = rows->dim[0];
  return LS_OK;
}

static void gather(const ls_tensor_t *rows, const ls_tensor_t *table, const ls_tensor_t *out) {
  const int32_t *row = rows->data;
  size_t row_bytes = (size_t)ls_shape_inner(&table->shape, 1) * ls_dtype_bytes(table->shape.dtype);
  for (int64_t r = 0; r < ls_shape_count(&rows->shape); r++)
    memcpy((char *)out->data + (size_t)r * row_bytes, (const char *)table->data + (size_t)row[r] * row_bytes,
           row_bytes);
}

static ls_status_t gather_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  gather(&args->in[0], &args->in[1], &args->out[0]);
  gather(&args->in[0], &args->in[2], &args->out[1]);
  return LS_OK;
}

/* Counts only the requested rows of the tables. */
static int64_t gather_bytes(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  return (int64_t)(ls_shape_bytes(&in[0]) + 2 * ls_shape_bytes(&out[0]) + 2 * ls_shape_bytes(&out[1]));
}

const ls_op_t ls_op_gather_rows = {LS_OP("gather_rows", LS_OP_GATHER, 3, 2, gather_shape, gather_forward),
                                   .bytes = gather_bytes};
