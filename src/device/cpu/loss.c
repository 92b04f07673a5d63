/* Losses: rows are shared between threads, their sums added in a fixed order. */
#include "device/cpu/cpu.h"

#include <math.h>

typedef struct {
  const ls_simd_t *simd;
  int64_t width, classes_count; /* columns of a row; how many of them are classes */
  const float *x, *weight, *target;
  const int32_t *classes;
  float *p, *dx;
  float dloss, hit, each; /* hit, each: what a target asks of its class, and of the others */
  double smoothing;
} loss_t;

static int64_t first_largest(const float *x, int64_t count) {
  int64_t best = 0;
  for (int64_t c = 1; c < count; c++)
    if (x[c] > x[best]) best = c;
  return best;
}

/* A target outside the classes makes the loss NaN, as in the op's row. */
static void rows_xent(const void *arg, int64_t begin, int64_t end, double sums[2]) {
  const loss_t *l = arg;
  for (int64_t r = begin; r < end; r++) {
    const float *x = l->x + r * l->width;
    int64_t target = l->classes[r];
    double log_sum = l->simd->softmax_row(l->classes_count, 1, x, l->p + r * l->width);
    double wanted = target >= 0 && target < l->classes_count ? x[target] : (double)NAN;
    if (l->smoothing > 0)
      wanted += l->smoothing * (l->simd->sum(l->classes_count, x) / (double)l->classes_count - wanted);
    sums[0] += l->weight[r] * (log_sum - wanted);
    sums[1] += l->weight[r] > 0 && first_largest(x, l->classes_count) == target;
    for (int64_t c = l->classes_count; c < l->width; c++)
      l->p[r * l->width + c] = 0;
  }
}

static int64_t classes_of(const ls_attrs_t *attrs, const ls_shape_t *logits) {
  return attrs->i[0] > 0 ? attrs->i[0] : logits->dim[1];
}

static ls_status_t softmax_xent(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *shape = &args->in[0].shape;
  loss_t l = {.simd = ls_cpu_simd(stream),
              .width = shape->dim[1],
              .classes_count = classes_of(args->attrs, shape),
              .x = args->in[0].data,
              .classes = args->in[1].data,
              .weight = args->in[2].data,
              .p = args->out[2].data,
              .smoothing = args->attrs->f[0]};
  double sums[2];
  ls_cpu_sum(stream, shape->dim[0], 1, LS_CPU_FLOPS(ls_shape_count(shape) * 32 * 16), rows_xent, &l, sums);
  ((float *)args->out[0].data)[0] = (float)sums[0];
  ((float *)args->out[1].data)[0] = (float)sums[1];
  return LS_OK;
}

/* dlogits may be written over the probabilities. */
static void rows_xent_dx(const void *arg, int64_t begin, int64_t end) {
  const loss_t *l = arg;
  for (int64_t r = begin; r < end; r++) {
    const float *p = l->x + r * l->width;
    float *dx = l->dx + r * l->width, scale = l->dloss * l->weight[r];
    int64_t target = l->classes[r];
    float p_target = target >= 0 && target < l->classes_count ? p[target] : 0;
    for (int64_t c = 0; c < l->classes_count; c++)
      dx[c] = scale * (p[c] - l->each);
    for (int64_t c = l->classes_count; c < l->width; c++)
      dx[c] = 0;
    if (target >= 0 && target < l->classes_count) dx[target] = scale * (p_target - l->hit);
  }
}

static ls_status_t softmax_xent_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *shape = &args->in[1].shape;
  loss_t l = {.dloss = ((const float *)args->in[0].data)[0],
              .width = shape->dim[1],
              .classes_count = classes_of(args->attrs, shape),
              .x = args->in[1].data,
              .classes = args->in[2].data,
              .weight = args->in[3].data,
              .dx = args->out[0].data,
              .each = (float)(args->attrs->f[0] / (double)classes_of(args->attrs, shape))};
  l.hit = (float)(1 - args->attrs->f[0]) + l.each;
  ls_cpu_loop(stream, shape->dim[0], 1, LS_CPU_BYTES(ls_shape_count(shape) * 8), rows_xent_dx, &l);
  return LS_OK;
}

static void rows_mse(const void *arg, int64_t begin, int64_t end, double sums[2]) {
  const loss_t *l = arg;
  for (int64_t r = begin; r < end; r++)
    sums[0] +=
        l->weight[r] * (l->simd->squared_distance(l->width, l->x + r * l->width, l->target + r * l->width) /
                        (double)l->width);
}

static ls_status_t mse(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *shape = &args->in[0].shape;
  loss_t l = {.simd = ls_cpu_simd(stream),
              .width = ls_shape_inner(shape, 1),
              .x = args->in[0].data,
              .target = args->in[1].data,
              .weight = args->in[2].data};
  double sums[2];
  ls_cpu_sum(stream, shape->dim[0], 1, LS_CPU_BYTES(ls_shape_count(shape) * 8), rows_mse, &l, sums);
  ((float *)args->out[0].data)[0] = (float)sums[0];
  ((float *)args->out[1].data)[0] = 0;
  return LS_OK;
}

static void rows_mse_dx(const void *arg, int64_t begin, int64_t end) {
  const loss_t *l = arg;
  for (int64_t r = begin; r < end; r++)
    l->simd->scaled_difference(l->width, l->dloss * l->weight[r] * (2.0f / (float)l->width),
                               l->x + r * l->width, l->target + r * l->width, l->dx + r * l->width);
}

static ls_status_t mse_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *shape = &args->in[1].shape;
  loss_t l = {.simd = ls_cpu_simd(stream),
              .width = ls_shape_inner(shape, 1),
              .dloss = ((const float *)args->in[0].data)[0],
              .x = args->in[1].data,
              .target = args->in[2].data,
              .weight = args->in[3].data,
              .dx = args->out[0].data};
  ls_cpu_loop(stream, shape->dim[0], 1, LS_CPU_BYTES(ls_shape_count(shape) * 12), rows_mse_dx, &l);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_loss_rows[] = {{"softmax_xent", softmax_xent},
                                         {"softmax_xent_dx", softmax_xent_dx},
                                         {"mse", mse},
                                         {"mse_dx", mse_dx},
                                         {0}};
