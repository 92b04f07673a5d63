#include "build.h"

#include <stdio.h>

static ls_status_t same_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)ctx;
  (void)attrs;
  out[0] = in[0];
  return LS_OK;
}

static ls_status_t source_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)ctx;
  (void)in;
  out[0] = LS_SHAPE(LS_F32, attrs->i[0]);
  return LS_OK;
}

static int64_t one_flop_each(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)in;
  return ls_shape_count(&out[0]);
}

static size_t scratch_like_output(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)in;
  return ls_shape_bytes(&out[0]);
}

#define EACH(name, expression)                                                                               \
  static ls_status_t name(ls_stream_t *stream, const ls_kernel_args_t *args) {                               \
    (void)stream;                                                                                            \
    const float *x = args->in_count > 0 ? args->in[0].data : NULL;                                           \
    const float *z = args->in_count > 1 ? args->in[1].data : NULL;                                           \
    float *y = args->out[0].data, *scratch = args->scratch;                                                  \
    for (int64_t k = 0; k < ls_shape_count(&args->out[0].shape); k++)                                        \
      y[k] = (expression);                                                                                   \
    (void)x;                                                                                                 \
    (void)z;                                                                                                 \
    (void)scratch;                                                                                           \
    return LS_OK;                                                                                            \
  }
EACH(source_forward, (float)(k + 1))
EACH(double_forward, 2 * x[k])
EACH(inplace_forward, x[k] + 1)
EACH(sum_forward, x[k] + z[k])
EACH(update_forward, y[k] + x[k])
EACH(scratch_forward, (scratch[k] = 2 * x[k], scratch[k] + x[k]))

#define ROW .shape = same_shape, .flops = one_flop_each, .out_count = 1
const ls_op_t op_source = {.name = "source",
                           .shape = source_shape,
                           .flops = one_flop_each,
                           .out_count = 1,
                           .forward = source_forward};
const ls_op_t op_double = {.name = "double", ROW, .in_count = 1, .forward = double_forward};
const ls_op_t op_inplace = {.name = "inplace", ROW, .in_count = 1, .forward = inplace_forward, .inplace = 1};
const ls_op_t op_sum = {.name = "sum", ROW, .in_count = 2, .forward = sum_forward, .inplace = 3};
const ls_op_t op_update = {.name = "update", ROW, .in_count = 1, .forward = update_forward, .inout = 1};
const ls_op_t op_scratch = {
    .name = "scratch", ROW, .in_count = 1, .forward = scratch_forward, .scratch_bytes = scratch_like_output};
const ls_op_t op_device_only = {.name = "device_only", ROW, .in_count = 1};

ls_schedule_t *build_begin(ls_ctx_t *ctx, int rank, int world_size, int input_slots) {
  const ls_state_row_t rows[] = {
      {.name = "param",
       .part = "parameters",
       .shape = LS_SHAPE(LS_F32, BUILD_PARAM_COUNT),
       .life = LS_STATE_CARRIED},
      {.name = "grad", .part = "gradients", .shape = LS_SHAPE(LS_F32, BUILD_GRAD_COUNT)},
      {.name = "data",
       .part = "data",
       .shape = LS_SHAPE(LS_F32, BUILD_DATA_COUNT),
       .life = LS_STATE_CONSTANT}};
  ls_schedule_t *s = NULL;
  ls_state_table_t *table = NULL;
  int index;
  ls_status_t status = ls_state_table_create(ctx, NULL, 1, &table);
  for (int i = 0; i < LS_COUNT(rows) && !status; i++)
    status = ls_state_declare(table, &rows[i], &index);
  if (!status) ls_schedule_create(ctx, table, rank, world_size, input_slots, &s);
  ls_state_table_release(table);
  return s;
}

int build_transient(ls_schedule_t *s, const char *name, int64_t count) {
  return ls_schedule_tensor(s, name, LS_SHAPE(LS_F32, count), LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
}

int build_at(ls_schedule_t *s, const char *name, ls_region_t region, int64_t begin, int64_t end) {
  return ls_schedule_tensor(s, name, LS_SHAPE(LS_F32, end - begin), region, (size_t)begin * sizeof(float));
}

int build_source(ls_schedule_t *s, const char *name, int out) {
  ls_attrs_t attrs = {.i = {out < 0 ? 0 : ls_shape_count(&s->tensors[out].shape)}};
  int none = 0;
  return ls_schedule_op(s, LS_LANE_COMPUTE, LS_PHASE_STEP_FORWARD, name, &op_source, &attrs, 0, &none, 1,
                        &out);
}

int build_op1(ls_schedule_t *s, const ls_op_t *op, const char *name, int in, int out) {
  return ls_schedule_op(s, LS_LANE_COMPUTE, LS_PHASE_STEP_FORWARD, name, op, NULL, 1, &in, 1, &out);
}

int build_op2(ls_schedule_t *s, const ls_op_t *op, const char *name, int a, int b, int out) {
  return ls_schedule_op(s, LS_LANE_COMPUTE, LS_PHASE_STEP_FORWARD, name, op, NULL, 2, (int[]){a, b}, 1, &out);
}
