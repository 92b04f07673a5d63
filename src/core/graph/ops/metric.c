/* A rank's sums for the figures of an evaluation other than its loss, over the rows whose weight is positive.
 * Counts are whole numbers. Sums of values are f64, each written as two f32 that add up to it. No gradients. */
#include "graph/ops/ops.h"
#include "graph/ops/row.h"

#include <math.h>

/* (prediction (n, c), target, weight (n)): target i32 (n), or f32 (n, c). */
static ls_status_t metric_shape(ls_ctx_t *ctx, const char *op, bool classes, const ls_shape_t *in) {
  ls_status_t status;
  if ((status = ls_rule_tensor(ctx, op, "prediction", &in[0], LS_F32, 2, 2))) return status;
  const ls_shape_t want = classes ? LS_SHAPE(LS_I32, in[0].dim[0]) : in[0];
  if ((status = ls_rule_equal(ctx, op, "target", &in[1], "the prediction's", &want))) return status;
  return ls_rule_vector(ctx, op, "weight", &in[2], in[0].dim[0]);
}

static ls_status_t hits_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)attrs;
  out[0] = LS_SHAPE(LS_F32, 1);
  return metric_shape(ctx, "top_hits", true, in);
}

/* The target's rank among the classes: the number of classes before it. Of equal classes the first one comes first. */
static ls_status_t hits_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *p = ls_in_f32(args, 0), *weight = ls_in_f32(args, 2);
  const int32_t *target = args->in[1].data;
  int64_t rows = ls_in_shape(args, 0)->dim[0], classes = ls_in_shape(args, 0)->dim[1], hits = 0;
  for (int64_t r = 0; r < rows; r++, p += classes) {
    int64_t t = target[r], before = 0;
    if (!(weight[r] > 0) || t < 0 || t >= classes || isnan(p[t])) continue;
    for (int64_t c = 0; c < classes; c++)
      before += p[c] > p[t] || (p[c] == p[t] && c < t);
    hits += before < args->attrs->i[0];
  }
  ls_out_f32(args, 0)[0] = (float)hits;
  return LS_OK;
}

static ls_status_t classes_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                 ls_shape_t *out) {
  (void)attrs;
  out[0] = LS_SHAPE(LS_F32, 3, in[0].dim[1]);
  return metric_shape(ctx, "class_counts", true, in);
}

static ls_status_t classes_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *p = ls_in_f32(args, 0), *weight = ls_in_f32(args, 2);
  const int32_t *target = args->in[1].data;
  int64_t rows = ls_in_shape(args, 0)->dim[0], classes = ls_in_shape(args, 0)->dim[1];
  float *right = ls_out_f32(args, 0), *predicted = right + classes, *true_ = predicted + classes;
  for (int64_t c = 0; c < 3 * classes; c++)
    right[c] = 0;
  for (int64_t r = 0; r < rows; r++, p += classes) {
    int64_t t = target[r], best = 0;
    if (!(weight[r] > 0) || t < 0 || t >= classes) continue;
    for (int64_t c = 1; c < classes; c++)
      if (p[c] > p[best]) best = c;
    right[t] += best == t;
    predicted[best]++;
    true_[t]++;
  }
  return LS_OK;
}

static ls_status_t labels_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)attrs;
  out[0] = LS_SHAPE(LS_F32, 3, in[0].dim[1]);
  return metric_shape(ctx, "label_counts", false, in);
}

static ls_status_t labels_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *p = ls_in_f32(args, 0), *target = ls_in_f32(args, 1), *weight = ls_in_f32(args, 2);
  int64_t rows = ls_in_shape(args, 0)->dim[0], width = ls_in_shape(args, 0)->dim[1];
  float *counts = ls_out_f32(args, 0);
  for (int64_t o = 0; o < width; o++) {
    int64_t count[3] = {0};
    for (int64_t r = 0; r < rows; r++) {
      bool predicted = p[r * width + o] > 0.5f, is = target[r * width + o] > 0.5f, seen = weight[r] > 0;
      count[0] += seen && predicted && is;
      count[1] += seen && predicted;
      count[2] += seen && is;
    }
    for (int k = 0; k < 3; k++)
      counts[k * width + o] = (float)count[k];
  }
  return LS_OK;
}

static ls_status_t values_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in,
                                ls_shape_t *out) {
  (void)attrs;
  out[0] = LS_SHAPE(LS_F32, 2, 4, in[0].dim[1]);
  return metric_shape(ctx, "value_sums", false, in);
}

static ls_status_t values_forward(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *p = ls_in_f32(args, 0), *target = ls_in_f32(args, 1), *weight = ls_in_f32(args, 2);
  int64_t rows = ls_in_shape(args, 0)->dim[0], width = ls_in_shape(args, 0)->dim[1];
  float *high = ls_out_f32(args, 0), *low = high + 4 * width;
  for (int64_t o = 0; o < width; o++) {
    double sum[4] = {0};
    for (int64_t r = 0; r < rows; r++) {
      if (!(weight[r] > 0)) continue;
      double t = target[r * width + o], d = (double)p[r * width + o] - t;
      sum[0] += fabs(d);
      sum[1] += d * d;
      sum[2] += t;
      sum[3] += t * t;
    }
    for (int k = 0; k < 4; k++) {
      high[k * width + o] = (float)sum[k];
      low[k * width + o] = isfinite(high[k * width + o]) ? (float)(sum[k] - high[k * width + o]) : 0;
    }
  }
  return LS_OK;
}

const ls_op_t ls_op_top_hits = {LS_OP("top_hits", LS_OP_REDUCTION, 3, 1, hits_shape, hits_forward),
                                .flops_each = 2};
const ls_op_t ls_op_class_counts = {
    LS_OP("class_counts", LS_OP_REDUCTION, 3, 1, classes_shape, classes_forward), .flops_each = 1};
const ls_op_t ls_op_label_counts = {
    LS_OP("label_counts", LS_OP_REDUCTION, 3, 1, labels_shape, labels_forward), .flops_each = 3};
const ls_op_t ls_op_value_sums = {LS_OP("value_sums", LS_OP_REDUCTION, 3, 1, values_shape, values_forward),
                                  .flops_each = 6};
