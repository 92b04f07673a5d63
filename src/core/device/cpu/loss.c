/* Losses: threads share the rows; their sums are added in a fixed order. */
#include "device/cpu/cpu.h"

#include <math.h>

typedef enum { MSE, L1, HUBER, BCE } value_loss_t;

typedef struct {
  const ls_simd_t *simd;
  int64_t width, classes_count; /* columns of a row; how many of them are classes */
  const float *x, *weight, *target;
  const int32_t *classes;
  float *p, *dx;
  float dloss, hit, each; /* hit, each: the target's probability of its class, and of each other class */
  double smoothing;
  value_loss_t values;
  float delta; /* of huber */
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

static ls_status_t softmax_xent(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *shape = &args->in[0].shape;
  loss_t l = {.simd = ls_cpu_simd(stream),
              .width = shape->dim[1],
              .classes_count = ls_attrs_classes(args->attrs, shape->dim[1]),
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
              .classes_count = ls_attrs_classes(args->attrs, shape->dim[1]),
              .x = args->in[1].data,
              .classes = args->in[2].data,
              .weight = args->in[3].data,
              .dx = args->out[0].data,
              .each = (float)(args->attrs->f[0] / (double)ls_attrs_classes(args->attrs, shape->dim[1]))};
  l.hit = (float)(1 - args->attrs->f[0]) + l.each;
  ls_cpu_loop(stream, shape->dim[0], 1, LS_CPU_BYTES(ls_shape_count(shape) * 8), rows_xent_dx, &l);
  return LS_OK;
}

/* ---- values: a sum of each row's losses, and slopes ---- */

static double row_loss(const loss_t *l, value_loss_t loss, int64_t r) {
  const float *x = l->x + r * l->width, *target = l->target + r * l->width;
  switch (loss) {
  case MSE:
    return l->simd->squared_distance(l->width, x, target);
  case L1:
    return l->simd->absolute_distance(l->width, x, target);
  case HUBER:
    return l->simd->huber_distance(l->width, l->delta, x, target);
  default:
    return l->simd->bce_distance(l->width, x, target, l->p + r * l->width);
  }
}

static int64_t right_signs(const loss_t *l, int64_t r) {
  int64_t right = 0;
  for (int64_t k = r * l->width; k < (r + 1) * l->width; k++)
    right += (l->x[k] > 0) == (l->target[k] > 0.5f);
  return right;
}

static void rows_values(const void *arg, int64_t begin, int64_t end, double sums[2]) {
  const loss_t *l = arg;
  for (int64_t r = begin; r < end; r++) {
    sums[0] += l->weight[r] * (row_loss(l, l->values, r) / (double)l->width);
    if (l->values == BCE && l->weight[r] > 0) sums[1] += (double)right_signs(l, r);
  }
}

static ls_status_t value_loss(ls_stream_t *stream, const ls_kernel_args_t *args, value_loss_t loss) {
  const ls_shape_t *shape = &args->in[0].shape;
  loss_t l = {.simd = ls_cpu_simd(stream),
              .values = loss,
              .delta = (float)args->attrs->f[0],
              .width = ls_shape_inner(shape, 1),
              .x = args->in[0].data,
              .target = args->in[1].data,
              .weight = args->in[2].data,
              .p = loss == BCE ? args->out[2].data : NULL};
  double sums[2];
  ls_cpu_sum(stream, shape->dim[0], 1, LS_CPU_BYTES(ls_shape_count(shape) * (loss == BCE ? 64 : 8)),
             rows_values, &l, sums);
  ((float *)args->out[0].data)[0] = (float)sums[0];
  ((float *)args->out[1].data)[0] = (float)sums[1];
  return LS_OK;
}

static void rows_slopes(const void *arg, int64_t begin, int64_t end) {
  const loss_t *l = arg;
  for (int64_t r = begin; r < end; r++) {
    const float *x = l->x + r * l->width, *target = l->target + r * l->width;
    float *dx = l->dx + r * l->width,
          scale = l->dloss * l->weight[r] * ((l->values == MSE ? 2.0f : 1.0f) / (float)l->width);
    if (l->values == L1)
      l->simd->l1_slope(l->width, scale, x, target, dx);
    else if (l->values == HUBER)
      l->simd->huber_slope(l->width, scale, l->delta, x, target, dx);
    else
      l->simd->scaled_difference(l->width, scale, x, target, dx);
  }
}

static ls_status_t value_slopes(ls_stream_t *stream, const ls_kernel_args_t *args, value_loss_t loss) {
  const ls_shape_t *shape = &args->in[1].shape;
  loss_t l = {.simd = ls_cpu_simd(stream),
              .values = loss,
              .delta = (float)args->attrs->f[0],
              .width = ls_shape_inner(shape, 1),
              .dloss = ((const float *)args->in[0].data)[0],
              .x = args->in[1].data,
              .target = args->in[2].data,
              .weight = args->in[3].data,
              .dx = args->out[0].data};
  ls_cpu_loop(stream, shape->dim[0], 1, LS_CPU_BYTES(ls_shape_count(shape) * 12), rows_slopes, &l);
  return LS_OK;
}

#define VALUES(name, loss)                                                                                   \
  static ls_status_t name(ls_stream_t *stream, const ls_kernel_args_t *args) {                               \
    return value_loss(stream, args, loss);                                                                   \
  }                                                                                                          \
  static ls_status_t name##_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {                          \
    return value_slopes(stream, args, loss);                                                                 \
  }
VALUES(mse, MSE)
VALUES(l1, L1)
VALUES(huber, HUBER)
VALUES(bce, BCE)
#undef VALUES

const ls_cpu_row_t ls_cpu_loss_rows[] = {{"softmax_xent", softmax_xent},
                                         {"softmax_xent_dx", softmax_xent_dx},
                                         {"mse", mse},
                                         {"mse_dx", mse_dx},
                                         {"l1", l1},
                                         {"l1_dx", l1_dx},
                                         {"huber", huber},
                                         {"huber_dx", huber_dx},
                                         {"bce", bce},
                                         {"bce_dx", bce_dx},
                                         {0}};
