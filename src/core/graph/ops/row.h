/* Shared by the files of op rows: access to a kernel's arguments, and checks for shape rules. */
#ifndef LS_GRAPH_OPS_ROW_H
#define LS_GRAPH_OPS_ROW_H

#include "graph/op.h"

/* The members that every row has; the others follow by name. */
#define LS_OP(name_, class_, ins, outs, shape_, forward_)                                                    \
  .name = (name_), .class = (class_), .in_count = (ins), .out_count = (outs), .shape = (shape_),             \
  .forward = (forward_)

static inline const float *ls_in_f32(const ls_kernel_args_t *args, int i) {
  return args->in[i].data;
}
static inline float *ls_out_f32(const ls_kernel_args_t *args, int i) {
  return args->out[i].data;
}
static inline const ls_shape_t *ls_in_shape(const ls_kernel_args_t *args, int i) {
  return &args->in[i].shape;
}

/* The plain versions of ops that treat each element alone: `value`, of one input's x or of two inputs' a and b. */
#define LS_MAP(function, value)                                                                              \
  static ls_status_t function(ls_stream_t *stream, const ls_kernel_args_t *args) {                           \
    (void)stream;                                                                                            \
    const float *in = ls_in_f32(args, 0);                                                                    \
    float *out = ls_out_f32(args, 0);                                                                        \
    int64_t count = ls_shape_count(ls_in_shape(args, 0));                                                    \
    for (int64_t k = 0; k < count; k++) {                                                                    \
      float x = in[k];                                                                                       \
      out[k] = (float)(value);                                                                               \
    }                                                                                                        \
    return LS_OK;                                                                                            \
  }
#define LS_ZIP(function, value)                                                                              \
  static ls_status_t function(ls_stream_t *stream, const ls_kernel_args_t *args) {                           \
    (void)stream;                                                                                            \
    const float *in_a = ls_in_f32(args, 0), *in_b = ls_in_f32(args, 1);                                      \
    float *out = ls_out_f32(args, 0);                                                                        \
    int64_t count = ls_shape_count(ls_in_shape(args, 0));                                                    \
    for (int64_t k = 0; k < count; k++) {                                                                    \
      float a = in_a[k], b = in_b[k];                                                                        \
      out[k] = (float)(value);                                                                               \
    }                                                                                                        \
    return LS_OK;                                                                                            \
  }

/* Shape checks; each reports "op: what ..." with the shapes and returns LS_ERR_SHAPE. rank_max 0 = any. */
ls_status_t ls_rule_tensor(ls_ctx_t *ctx, const char *op, const char *what, const ls_shape_t *shape,
                           ls_dtype_t dtype, int rank_min, int rank_max);
ls_status_t ls_rule_equal(ls_ctx_t *ctx, const char *op, const char *what_a, const ls_shape_t *a,
                          const char *what_b, const ls_shape_t *b);
/* `shape` must be f32 (count). */
ls_status_t ls_rule_vector(ls_ctx_t *ctx, const char *op, const char *what, const ls_shape_t *shape,
                           int64_t count);
/* The step input: u8 (64). */
ls_status_t ls_rule_step(ls_ctx_t *ctx, const char *op, const ls_shape_t *shape);

#endif
