/* Joins samples side by side, and splits them again. A row is a sample; a row of y is a row of a followed by
 * one of b.
 *   concat   (a f32 (n, i), b f32 (n, j)) -> y (n, i + j)
 *   columns  (x f32 (n, k)) -> y (n, i[1]): the columns from i[0] on */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <string.h>

static ls_status_t concat_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)attrs;
  ls_status_t status = ls_rule_tensor(ctx, "concat", "a", &in[0], LS_F32, 2, 2);
  if (!status) status = ls_rule_tensor(ctx, "concat", "b", &in[1], LS_F32, 2, 2);
  if (status) return status;
  char a[LS_SHAPE_TEXT_BYTES], b[LS_SHAPE_TEXT_BYTES];
  if (in[0].dim[0] != in[1].dim[0])
    return ls_fail(ctx, LS_ERR_SHAPE, "concat: a %s and b %s must have as many rows",
                   ls_shape_text(&in[0], a), ls_shape_text(&in[1], b));
  out[0] = in[0];
  out[0].dim[1] += in[1].dim[1];
  return LS_OK;
}

static ls_status_t columns_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  ls_status_t status = ls_rule_tensor(ctx, "columns", "x", &in[0], LS_F32, 2, 2);
  if (status) return status;
  char x[LS_SHAPE_TEXT_BYTES];
  int64_t first = attrs->i[0], count = attrs->i[1], width = in[0].dim[1];
  if (first < 0 || count < 1 || first > width || count > width - first)
    return ls_fail(ctx, LS_ERR_SHAPE, "columns: x %s has no %lld columns from %lld on",
                   ls_shape_text(&in[0], x), (long long)count, (long long)first);
  out[0] = in[0];
  out[0].dim[1] = count;
  return LS_OK;
}

/* Copies `count` columns between two matrices that may be wider. */
static void copy_columns(int64_t rows, int64_t count, const float *from, int64_t from_width, float *to,
                         int64_t to_width) {
  for (int64_t r = 0; r < rows; r++)
    memcpy(to + r * to_width, from + r * from_width, (size_t)count * sizeof *to);
}

static ls_status_t concat_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *a = ls_in_shape(args, 0), *b = ls_in_shape(args, 1);
  int64_t width = a->dim[1] + b->dim[1];
  float *y = ls_out_f32(args, 0);
  copy_columns(a->dim[0], a->dim[1], ls_in_f32(args, 0), a->dim[1], y, width);
  copy_columns(b->dim[0], b->dim[1], ls_in_f32(args, 1), b->dim[1], y + a->dim[1], width);
  return LS_OK;
}

static ls_status_t columns_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const ls_shape_t *x = ls_in_shape(args, 0);
  int64_t count = args->attrs->i[1];
  copy_columns(x->dim[0], count, ls_in_f32(args, 0) + args->attrs->i[0], x->dim[1], ls_out_f32(args, 0),
               count);
  return LS_OK;
}

static ls_status_t concat_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                   const ls_tensor_id_t *grad_out, const bool *wanted,
                                   ls_tensor_id_t *grad_in) {
  int64_t first = 0;
  for (int i = 0; i < 2 && !graph->status; i++) {
    const ls_attrs_t attrs = {.i = {first, graph->tensors[node->in[i]].shape.dim[1]}};
    if (wanted[i]) grad_in[i] = ls_graph_op(graph, &ls_op_columns, &attrs, 1, grad_out, NULL);
    first += attrs.i[1];
  }
  return graph->status;
}

/* dy between zeros. */
static ls_status_t columns_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                    const ls_tensor_id_t *grad_out, const bool *wanted,
                                    ls_tensor_id_t *grad_in) {
  (void)wanted;
  const ls_shape_t x = graph->tensors[node->in[0]].shape;
  int64_t left = node->attrs.i[0], right = x.dim[1] - left - node->attrs.i[1];
  const int64_t width[] = {left, right};
  ls_tensor_id_t dx = grad_out[0];
  for (int i = 0; i < 2 && !graph->status; i++) {
    const ls_attrs_t zeros = {.i = {x.dim[0] * width[i]}}, shape = {.i = {2, x.dim[0], width[i]}};
    if (width[i] == 0) continue;
    ls_tensor_id_t none = ls_graph_op(graph, &ls_op_fill, &zeros, 0, NULL, NULL);
    none = ls_graph_op(graph, &ls_op_reshape, &shape, 1, &none, NULL);
    const ls_tensor_id_t in[] = {i == 0 ? none : dx, i == 0 ? dx : none};
    dx = ls_graph_op(graph, &ls_op_concat, NULL, 2, in, NULL);
  }
  grad_in[0] = dx;
  return graph->status;
}

static int64_t bytes_2(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)in;
  return 2 * (int64_t)ls_shape_bytes(&out[0]);
}

const ls_op_t ls_op_concat = {LS_OP("concat", LS_OP_ELEMENTWISE, 2, 1, concat_shape, concat_forward),
                              .backward = concat_backward, .low_in = 3, .low_out = 1};

const ls_op_t ls_op_columns = {LS_OP("columns", LS_OP_ELEMENTWISE, 1, 1, columns_shape, columns_forward),
                               .backward = columns_backward, .bytes = bytes_2, .low_in = 1, .low_out = 1};
