/* Checks that shape rules share. Every message names the op, the input with its name in ops.h, and the
 * shapes. */
#include "graph/ops/row.h"

ls_status_t ls_rule_tensor(ls_ctx_t *ctx, const char *op, const char *what, const ls_shape_t *shape,
                           ls_dtype_t dtype, int rank_min, int rank_max) {
  char text[LS_SHAPE_TEXT_BYTES];
  if (shape->dtype != dtype)
    return ls_fail(ctx, LS_ERR_SHAPE, "%s: %s is %s, must be %s", op, what, ls_shape_text(shape, text),
                   ls_dtype_name(dtype));
  if (shape->rank < rank_min)
    return ls_fail(ctx, LS_ERR_SHAPE, "%s: %s is %s, must have at least %d dimension%s", op, what,
                   ls_shape_text(shape, text), rank_min, LS_PLURAL(rank_min));
  if (rank_max > 0 && shape->rank > rank_max)
    return ls_fail(ctx, LS_ERR_SHAPE, "%s: %s is %s, must have at most %d dimension%s", op, what,
                   ls_shape_text(shape, text), rank_max, LS_PLURAL(rank_max));
  return LS_OK;
}

ls_status_t ls_rule_equal(ls_ctx_t *ctx, const char *op, const char *what_a, const ls_shape_t *a,
                          const char *what_b, const ls_shape_t *b) {
  if (ls_shape_equal(a, b)) return LS_OK;
  char text_a[LS_SHAPE_TEXT_BYTES], text_b[LS_SHAPE_TEXT_BYTES];
  return ls_fail(ctx, LS_ERR_SHAPE, "%s: %s %s and %s %s must have the same shape", op, what_a,
                 ls_shape_text(a, text_a), what_b, ls_shape_text(b, text_b));
}

ls_status_t ls_rule_vector(ls_ctx_t *ctx, const char *op, const char *what, const ls_shape_t *shape,
                           int64_t count) {
  if (shape->dtype == LS_F32 && shape->rank == 1 && shape->dim[0] == count) return LS_OK;
  char text[LS_SHAPE_TEXT_BYTES];
  return ls_fail(ctx, LS_ERR_SHAPE, "%s: %s is %s, must be f32 (%lld)", op, what, ls_shape_text(shape, text),
                 (long long)count);
}

ls_status_t ls_rule_step(ls_ctx_t *ctx, const char *op, const ls_shape_t *shape) {
  if (shape->dtype == LS_U8 && ls_shape_count(shape) == (int64_t)sizeof(ls_step_params_t)) return LS_OK;
  char text[LS_SHAPE_TEXT_BYTES];
  return ls_fail(ctx, LS_ERR_SHAPE, "%s: step is %s, must be u8 (%d)", op, ls_shape_text(shape, text),
                 (int)sizeof(ls_step_params_t));
}
