/* Samples that are shorter than their places: the remaining tokens are padding, which does not count. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>
#include <string.h>

enum { POOL_MEAN, POOL_LAST };

static ls_status_t lengths_rule(ls_ctx_t *ctx, const char *op, const ls_shape_t *lengths, int64_t rows) {
  const ls_shape_t want = LS_SHAPE(LS_I32, rows);
  return ls_rule_equal(ctx, op, "lengths", lengths, "one a row", &want);
}

static int64_t length_at(const ls_kernel_args_t *args, int in, int64_t row, int64_t places) {
  int64_t length = ((const int32_t *)args->in[in].data)[row];
  return length < 0 ? 0 : length > places ? places : length;
}

static ls_status_t lengths_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  (void)attrs;
  out[0] = LS_SHAPE(LS_I32, in[0].dim[0]);
  return ls_rule_tensor(ctx, "lengths", "ids", &in[0], in[0].dtype, 2, 2);
}

static double id_at(const ls_tensor_t *ids, int64_t i) {
  switch (ids->shape.dtype) {
  case LS_U8:
    return ((const uint8_t *)ids->data)[i];
  case LS_U16:
    return ((const uint16_t *)ids->data)[i];
  case LS_I32:
    return ((const int32_t *)ids->data)[i];
  default:
    return ((const float *)ids->data)[i];
  }
}

static ls_status_t lengths_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  int64_t rows = ls_in_shape(args, 0)->dim[0], places = ls_in_shape(args, 0)->dim[1];
  for (int64_t r = 0; r < rows; r++) {
    int64_t length = places;
    while (length > 0 && id_at(&args->in[0], r * places + length - 1) == (double)args->attrs->i[0])
      length--;
    ((int32_t *)args->out[0].data)[r] = (int32_t)length;
  }
  return LS_OK;
}

static ls_status_t segments_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                  ls_shape_t *out) {
  (void)attrs;
  out[0] = in[0];
  out[0].dtype = LS_I32;
  return ls_rule_tensor(ctx, "segments", "ids", &in[0], in[0].dtype, 2, 2);
}

static ls_status_t segments_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const int64_t rows = ls_in_shape(args, 0)->dim[0], places = ls_in_shape(args, 0)->dim[1];
  const int64_t separator = args->attrs->i[0], first = args->attrs->i[1], last = args->attrs->i[2];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t t = 0, at = first; t < places; t++) {
      ((int32_t *)args->out[0].data)[r * places + t] = (int32_t)at;
      at += at < last && id_at(&args->in[0], r * places + t) == (double)separator;
    }
  return LS_OK;
}

static ls_status_t mask_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  out[0] = in[0];
  ls_status_t status = ls_rule_tensor(ctx, "mask_targets", "target", &in[0], LS_I32, 2, 2);
  return status ? status : lengths_rule(ctx, "mask_targets", &in[1], in[0].dim[0]);
}

static ls_status_t mask_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const int32_t *target = args->in[0].data;
  int32_t *to = args->out[0].data;
  int64_t rows = ls_in_shape(args, 0)->dim[0], places = ls_in_shape(args, 0)->dim[1];
  for (int64_t i = 0; i < rows * places; i++)
    to[i] = i % places < length_at(args, 1, i / places, places) ? target[i] : (int32_t)args->attrs->i[0];
  return LS_OK;
}

static ls_status_t places_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)attrs;
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "mask_places", "x", &in[0], LS_F32, 3, 3))) return status;
  out[0] = in[0];
  return lengths_rule(ctx, "mask_places", &in[1], in[0].dim[0]);
}

static ls_status_t places_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *shape = ls_in_shape(args, 0);
  const int64_t each = shape->dim[1] * shape->dim[2];
  for (int64_t r = 0; r < shape->dim[0]; r++) {
    const float *x = ls_in_f32(args, 0) + r * each;
    float *y = ls_out_f32(args, 0) + r * each;
    const int64_t kept = length_at(args, 1, r, shape->dim[1]) * shape->dim[2];
    if (y != x) memcpy(y, x, (size_t)kept * sizeof *y);
    for (int64_t k = kept; k < each; k++)
      y[k] = (float)args->attrs->f[0];
  }
  return LS_OK;
}

static ls_status_t places_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                   const ls_tensor_id_t *grad_out, const bool *wanted,
                                   ls_tensor_id_t *grad_in) {
  const ls_tensor_id_t in[] = {grad_out[0], node->in[1]};
  if (wanted[0]) grad_in[0] = ls_graph_op(graph, &ls_op_mask_places, NULL, 2, in, NULL);
  return graph->status;
}

static ls_status_t pool_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "pool_valid", "x", &in[0], LS_F32, 3, 3))) return status;
  out[0] = LS_SHAPE(LS_F32, in[0].dim[0], in[0].dim[2]);
  return lengths_rule(ctx, "pool_valid", &in[1], in[0].dim[0]);
}

static ls_status_t pool_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *shape = ls_in_shape(args, 0);
  int64_t places = shape->dim[1], width = shape->dim[2];
  for (int64_t r = 0; r < shape->dim[0]; r++) {
    const float *x = ls_in_f32(args, 0) + r * places * width;
    float *y = ls_out_f32(args, 0) + r * width;
    int64_t length = length_at(args, 1, r, places);
    for (int64_t c = 0; c < width; c++) {
      double sum = 0;
      for (int64_t t = args->attrs->i[0] == POOL_LAST && length > 0 ? length - 1 : 0; t < length; t++)
        sum += x[t * width + c];
      y[c] = (float)(args->attrs->i[0] == POOL_MEAN && length > 0 ? sum / (double)length : sum);
    }
  }
  return LS_OK;
}

static ls_status_t pool_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                 const ls_tensor_id_t *grad_out, const bool *wanted,
                                 ls_tensor_id_t *grad_in) {
  ls_attrs_t attrs = node->attrs;
  attrs.i[1] = graph->tensors[node->in[0]].shape.dim[1];
  const ls_tensor_id_t in[] = {grad_out[0], node->in[1]};
  if (wanted[0]) grad_in[0] = ls_graph_op(graph, &ls_op_pool_valid_dx, &attrs, 2, in, NULL);
  return graph->status;
}

static ls_status_t pool_dx_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "pool_valid_dx", "dy", &in[0], LS_F32, 2, 2))) return status;
  out[0] = LS_SHAPE(LS_F32, in[0].dim[0], attrs->i[1], in[0].dim[1]);
  return lengths_rule(ctx, "pool_valid_dx", &in[1], in[0].dim[0]);
}

static ls_status_t pool_dx_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *shape = &args->out[0].shape;
  int64_t places = shape->dim[1], width = shape->dim[2];
  for (int64_t r = 0; r < shape->dim[0]; r++) {
    const float *dy = ls_in_f32(args, 0) + r * width;
    int64_t length = length_at(args, 1, r, places);
    for (int64_t t = 0; t < places; t++)
      for (int64_t c = 0; c < width; c++)
        ls_out_f32(args, 0)[(r * places + t) * width + c] = args->attrs->i[0] == POOL_LAST
                                                                ? (t == length - 1 ? dy[c] : 0)
                                                            : t < length ? dy[c] / (float)length
                                                                         : 0;
  }
  return LS_OK;
}

const ls_op_t ls_op_lengths = {LS_OP("lengths", LS_OP_ELEMENTWISE, 1, 1, lengths_shape, lengths_forward),
                               .flops_each = 1};
const ls_op_t ls_op_segments = {LS_OP("segments", LS_OP_ELEMENTWISE, 1, 1, segments_shape, segments_forward),
                                .flops_each = 1};
const ls_op_t ls_op_mask_targets = {LS_OP("mask_targets", LS_OP_ELEMENTWISE, 2, 1, mask_shape, mask_forward),
                                    .flops_each = 1};
const ls_op_t ls_op_mask_places = {
    LS_OP("mask_places", LS_OP_ELEMENTWISE, 2, 1, places_shape, places_forward),
    .flops_each = 1,
    .backward = places_backward,
    .inplace = 1,
    .low_in = 1,
    .low_out = 1};
const ls_op_t ls_op_pool_valid = {LS_OP("pool_valid", LS_OP_ELEMENTWISE, 2, 1, pool_shape, pool_forward),
                                  .flops_each = 1, .backward = pool_backward};
const ls_op_t ls_op_pool_valid_dx = {
    LS_OP("pool_valid_dx", LS_OP_ELEMENTWISE, 2, 1, pool_dx_shape, pool_dx_forward), .flops_each = 1};
