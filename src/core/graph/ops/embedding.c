/* Rows of a table by number, and the table's gradient. Ids may be f32, as samples from a program are; they take no
 * gradient. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>
#include <string.h>

/* -1: not a row of a table of `rows`. */
static int64_t id_at(const ls_tensor_t *ids, int64_t k, int64_t rows) {
  double id = ids->shape.dtype == LS_U8    ? ((const uint8_t *)ids->data)[k]
              : ids->shape.dtype == LS_U16 ? ((const uint16_t *)ids->data)[k]
              : ids->shape.dtype == LS_I32 ? ((const int32_t *)ids->data)[k]
                                           : (double)((const float *)ids->data)[k];
  return id >= 0 && id < (double)rows ? (int64_t)id : -1;
}

static ls_status_t check_ids(ls_ctx_t *ctx, const char *op, const ls_shape_t *ids) {
  ls_dtype_t t = ids->dtype;
  bool known = t == LS_U8 || t == LS_U16 || t == LS_I32;
  return ls_rule_tensor(ctx, op, "ids", ids, known ? t : LS_F32, 1, LS_DIMS_MAX - 1);
}

static ls_shape_t rows_of(const ls_shape_t *ids, int64_t width) {
  ls_shape_t shape = *ids;
  shape.dtype = LS_F32;
  shape.dim[shape.rank++] = width;
  return shape;
}

static ls_status_t embedding_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                   ls_shape_t *out) {
  (void)attrs;
  ls_status_t status;
  if ((status = check_ids(ctx, "embedding", &in[0]))) return status;
  if ((status = ls_rule_tensor(ctx, "embedding", "table", &in[1], LS_F32, 2, 2))) return status;
  out[0] = rows_of(&in[0], in[1].dim[1]);
  return LS_OK;
}

static ls_status_t embedding_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *table = ls_in_f32(args, 1);
  float *y = ls_out_f32(args, 0);
  int64_t rows = ls_in_shape(args, 1)->dim[0], width = ls_in_shape(args, 1)->dim[1];
  int64_t count = ls_shape_count(ls_in_shape(args, 0));
  for (int64_t k = 0; k < count; k++) {
    int64_t id = id_at(&args->in[0], k, rows);
    for (int64_t c = 0; c < width; c++)
      y[k * width + c] = id >= 0 ? table[id * width + c] : NAN;
  }
  return LS_OK;
}

static ls_status_t embedding_backward(ls_graph_t *graph, const ls_graph_node_t *node,
                                      const ls_tensor_id_t *grad_out, const bool *wanted,
                                      ls_tensor_id_t *grad_in) {
  if (wanted[0]) return ls_fail(graph->ctx, LS_ERR_UNSUPPORTED, "%s: ids take no gradient", node->name);
  const ls_attrs_t attrs = {.i = {graph->tensors[node->in[1]].shape.dim[0]}};
  const ls_tensor_id_t in[] = {grad_out[0], node->in[0]};
  grad_in[1] = ls_graph_op(graph, &ls_op_embedding_dw, &attrs, 2, in, NULL);
  return graph->status;
}

static int64_t embedding_bytes(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  return (int64_t)ls_shape_bytes(&in[0]) + 2 * (int64_t)ls_shape_bytes(&out[0]);
}

static ls_status_t dw_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, "embedding_dw", "dy", &in[0], LS_F32, 2, 0))) return status;
  if ((status = check_ids(ctx, "embedding_dw", &in[1]))) return status;
  int64_t width = in[0].dim[in[0].rank - 1];
  ls_shape_t rows = rows_of(&in[1], width);
  if ((status = ls_rule_equal(ctx, "embedding_dw", "dy", &in[0], "the rows of ids", &rows))) return status;
  if (attrs->i[0] < 1)
    return ls_fail(ctx, LS_ERR_SHAPE, "embedding_dw: a table of %lld rows", (long long)attrs->i[0]);
  out[0] = LS_SHAPE(LS_F32, attrs->i[0], width);
  return LS_OK;
}

/* A column at a time is summed in scratch, f64 (v). */
static ls_status_t dw_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *dy = ls_in_f32(args, 0);
  float *dw = ls_out_f32(args, 0);
  int64_t rows = args->out[0].shape.dim[0], width = args->out[0].shape.dim[1];
  int64_t count = ls_shape_count(ls_in_shape(args, 1));
  double *sum = args->scratch;
  for (int64_t c = 0; c < width; c++) {
    memset(sum, 0, (size_t)rows * sizeof *sum);
    for (int64_t k = 0; k < count; k++) {
      int64_t id = id_at(&args->in[1], k, rows);
      if (id >= 0) sum[id] += dy[k * width + c];
    }
    for (int64_t r = 0; r < rows; r++)
      dw[r * width + c] = (float)sum[r];
  }
  return LS_OK;
}

static size_t dw_scratch(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)in;
  return (size_t)out[0].dim[0] * sizeof(double);
}

static int64_t dw_flops(const ls_attrs_t *attrs, const ls_shape_t *in, const ls_shape_t *out) {
  (void)attrs;
  (void)out;
  return ls_shape_count(&in[0]);
}

const ls_op_t ls_op_embedding = {LS_OP("embedding", LS_OP_GATHER, 2, 1, embedding_shape, embedding_forward),
                                 .backward = embedding_backward, .bytes = embedding_bytes, .low_out = 1,
                                 .low_wants = true};

const ls_op_t ls_op_embedding_dw = {LS_OP("embedding_dw", LS_OP_GATHER, 2, 1, dw_shape, dw_forward),
                                    .flops = dw_flops, .scratch_bytes = dw_scratch, .low_in = 1};
