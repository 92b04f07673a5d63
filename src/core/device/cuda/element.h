/* The computation of one element by one thread, in the common subset of C and CUDA C++: kernels use it on the
 * GPU, and tests/cuda checks it on the host against the op rows. The rows' files have the formulas and their
 * sources. */
#ifndef LS_DEVICE_CUDA_ELEMENT_H
#define LS_DEVICE_CUDA_ELEMENT_H

#include "base/half.h"
#include "base/rng.h"
#include "device/cuda/kernels.h"
#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define LS_EACH static __host__ __device__ __forceinline__
#else
#define LS_EACH static inline
#endif

/* A NaN stays a NaN, so that the guard of the step can see it. */
LS_EACH float ls_each_relu(float x) {
  return x < 0 ? 0 : x;
}
LS_EACH float ls_each_relu_dy(float dy, float y) {
  return y > 0 ? dy : 0;
}

/* In f64, rounded once: the host's bits. */
LS_EACH float ls_each_normalize(double x, double mean, double scale) {
  return (float)((x - mean) * scale);
}

/* 1 / x, within 2 units in the last place. */
LS_EACH float ls_each_inverse(float x) {
#ifdef __CUDA_ARCH__
  return __fdividef(1, x);
#else
  return 1 / x;
#endif
}
/* The normal distribution function, and e^(-x^2 / 2), of which it is made: the tail beyond |x| is e^(-x^2 / 2) times a polynomial in 1 / (1 + 0.31 |x|), interpolated at Chebyshev's points. Its relative error is 2e-7, so negative x keep
 * their digits. */
LS_EACH float ls_each_normal_cdf(float x, float *density) {
  float a = fabsf(x), t = ls_each_inverse(1 + 0.31f * a);
  float p = 0.036296174f;
  p = p * t - 0.14356861f;
  p = p * t + 0.15857001f;
  p = p * t - 0.018225584f;
  p = p * t + 0.11190991f;
  p = p * t + 0.10721786f;
  p = p * t + 0.12414914f;
  p = p * t + 0.12365120f;
  *density = expf(-0.5f * x * x);
  float tail = *density * (p * t);
  return x < 0 ? tail : 1 - tail;
}
LS_EACH float ls_each_gelu(float x) {
  float density;
  return x * ls_each_normal_cdf(x, &density);
}
LS_EACH float ls_each_gelu_dx(float dy, float x) {
  float density, cdf = ls_each_normal_cdf(x, &density);
  return dy * (cdf + x * (0.39894228f * density));
}

LS_EACH float ls_each_tanh(float x) {
  return tanhf(x);
}
LS_EACH float ls_each_tanh_dy(float dy, float y) {
  return dy * (1 - y * y);
}
LS_EACH float ls_each_sigmoid(float x) {
  return 1 / (1 + expf(-x));
}
LS_EACH float ls_each_sigmoid_dy(float dy, float y) {
  return dy * (y * (1 - y));
}

/* x sigmoid(x). */
LS_EACH float ls_each_silu(float x) {
  return x * ls_each_sigmoid(x);
}
LS_EACH float ls_each_silu_dx(float dy, float x) {
  float s = ls_each_sigmoid(x);
  return dy * (s * (1 + x * (1 - s)));
}

/* x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3). */
LS_EACH float ls_each_bent(float x) {
  return tanhf(0.79788456f * (x + 0.044715f * x * x * x));
}
LS_EACH float ls_each_gelu_tanh(float x) {
  return 0.5f * x * (1 + ls_each_bent(x));
}
LS_EACH float ls_each_gelu_tanh_dx(float dy, float x) {
  float t = ls_each_bent(x);
  return dy * (0.5f * (1 + t) + 0.5f * x * (1 - t * t) * (0.79788456f * (1 + 0.134145f * x * x)));
}

/* The sum of x[0], x[stride] .. in the order of tree_sum: a binary counter of sums. Every sum of 2^k parts
 * waits at bit k of the number of parts so far; what is left at the end is added from the smallest. */
enum { LS_EACH_TREE_LEVELS = 11 }; /* up to 2^10 parts */
LS_EACH float ls_each_tree_sum(const float *x, int64_t parts, int64_t stride) {
  float sum[LS_EACH_TREE_LEVELS];
  int top = 0;
  for (int64_t p = 0; p < parts; p++) {
    float value = x[p * stride];
    for (int64_t bits = p; bits & 1; bits >>= 1)
      value = sum[--top] + value;
    sum[top++] = value;
  }
  while (top > 1) {
    top--;
    sum[top - 1] = sum[top - 1] + sum[top];
  }
  return sum[0];
}

/* 24 bits of the word are a number in [0, 1); it is compared as a whole number, which is exact. */
LS_EACH float ls_each_dropout(float x, uint32_t word, float rate, float scale) {
  return word >= (uint32_t)ceilf(rate * 16777216) << 8 ? x * scale : 0;
}

/* ---- updates: g = grad * scale first; constants of the step are made once by ls_each_update_begin ---- */

/* Constants of an update op; rest = 1 - beta, formed in f64. */
typedef struct {
  float momentum, beta1, rest1, beta2, rest2, eps, weight_decay;
  int nesterov;
} ls_kernel_update_t;

typedef struct {
  float scale, lr, decay, momentum, beta1, rest1, beta2, rest2, eps;
  float size, widen, pull, shrink; /* adam: lr / bias1, 1 / sqrt(bias2), coupled and decoupled weight decay */
  int nesterov;
} ls_each_update_t;

LS_EACH ls_each_update_t ls_each_update_begin(const ls_kernel_update_t *attrs, const float *ctrl,
                                              int decoupled) {
  ls_each_update_t u;
  u.scale = ctrl[LS_CTRL_GRAD_SCALE];
  u.lr = ctrl[LS_CTRL_LR];
  u.decay = attrs->weight_decay;
  u.momentum = attrs->momentum;
  u.beta1 = attrs->beta1;
  u.rest1 = attrs->rest1;
  u.beta2 = attrs->beta2;
  u.rest2 = attrs->rest2;
  u.eps = attrs->eps;
  u.nesterov = attrs->nesterov;
  u.size = u.lr / ctrl[LS_CTRL_BIAS1];
  u.widen = 1.0f / sqrtf(ctrl[LS_CTRL_BIAS2]);
  u.pull = decoupled ? 0 : u.decay;
  u.shrink = decoupled ? u.lr * u.decay : 0;
  return u;
}

LS_EACH void ls_each_sgd(const ls_each_update_t *u, float grad, float *p) {
  float g = grad * u->scale + u->decay * *p;
  *p = *p - u->lr * g;
}

LS_EACH void ls_each_momentum(const ls_each_update_t *u, float grad, float *p, float *buf) {
  float g = grad * u->scale + u->decay * *p;
  *buf = u->momentum * *buf + g;
  *p = *p - u->lr * (u->nesterov ? g + u->momentum * *buf : *buf);
}

LS_EACH void ls_each_adam(const ls_each_update_t *u, float grad, float *p, float *m, float *v) {
  float g = grad * u->scale + u->pull * *p;
  float kept = *p - u->shrink * *p;
  *m = u->beta1 * *m + u->rest1 * g;
  *v = u->beta2 * *v + u->rest2 * g * g;
  *p = kept - u->size * *m / (sqrtf(*v) * u->widen + u->eps);
}

/* ---- the step's decision: ctrl and stats are written whole, counter is updated ---- */

typedef struct {
  double clip_norm, beta1, beta2;
  int64_t growth; /* good steps after which the loss scale is doubled; 0: there is none */
} ls_kernel_control_t;

LS_EACH double ls_each_loss_scale(const float *counter) {
  return ldexp(1.0, LS_SCALE_EXPONENT + (int)counter[LS_COUNTER_SCALE]);
}

LS_EACH void ls_each_next_scale(int64_t growth, int apply, float *counter) {
  float good = apply ? counter[LS_COUNTER_GOOD] + 1 : 0, scale = counter[LS_COUNTER_SCALE];
  int changes = !apply || good >= (float)growth;
  counter[LS_COUNTER_GOOD] = changes ? 0 : good;
  if (changes) counter[LS_COUNTER_SCALE] = fminf(fmaxf(scale + (apply ? 1 : -1), LS_SCALE_MIN), LS_SCALE_MAX);
}

LS_EACH void ls_each_control(const ls_kernel_control_t *attrs, float loss, float correct, float lr,
                             double sumsq, float *ctrl, float *stats, float *counter) {
  const float applied_max = 16777216; /* whole numbers are exact in f32 up to here */
  double scale = attrs->growth > 0 ? ls_each_loss_scale(counter) : 1;
  double norm = sqrt(sumsq) / scale, t = (double)counter[LS_COUNTER_APPLIED] + 1;
  int apply = isfinite(loss) && isfinite(norm);
  for (int i = 0; i < LS_CTRL_COUNT; i++)
    ctrl[i] = 0;
  ctrl[LS_CTRL_APPLY] = (float)apply;
  ctrl[LS_CTRL_GRAD_SCALE] =
      !apply
          ? 0
          : (float)((attrs->clip_norm > 0 && norm > attrs->clip_norm ? attrs->clip_norm / norm : 1) / scale);
  ctrl[LS_CTRL_LR] = lr;
  ctrl[LS_CTRL_BIAS1] = (float)(1 - pow(attrs->beta1, t));
  ctrl[LS_CTRL_BIAS2] = (float)(1 - pow(attrs->beta2, t));
  if (apply && counter[LS_COUNTER_APPLIED] < applied_max) counter[LS_COUNTER_APPLIED] += 1;
  if (!apply) counter[LS_COUNTER_SKIPPED] += 1;
  counter[LS_COUNTER_SKIPPED_ROW] = apply ? 0 : counter[LS_COUNTER_SKIPPED_ROW] + 1;
  if (attrs->growth > 0) ls_each_next_scale(attrs->growth, apply, counter);
  for (int i = 0; i < LS_STAT_COUNT; i++)
    stats[i] = 0;
  stats[LS_STAT_LOSS] = loss;
  stats[LS_STAT_CORRECT] = correct;
  stats[LS_STAT_GRAD_NORM] = (float)norm;
  stats[LS_STAT_APPLIED] = (float)apply;
  stats[LS_STAT_SKIPPED] = counter[LS_COUNTER_SKIPPED];
  stats[LS_STAT_SKIPPED_ROW] = counter[LS_COUNTER_SKIPPED_ROW];
  stats[LS_STAT_LOSS_SCALE] = attrs->growth > 0 ? (float)scale : 0;
}

#endif
