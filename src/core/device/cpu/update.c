/* Sum of squares and parameter updates on flat views. */
#include "device/cpu/cpu.h"

#include <math.h>

enum { GRAIN = 64 };

typedef struct {
  const ls_simd_t *simd;
  const float *x;
} sumsq_t;

static void part_sumsq(const void *arg, int64_t begin, int64_t end, double sums[2]) {
  const sumsq_t *s = arg;
  sums[0] = s->simd->sumsq(end - begin, s->x + begin);
}

static ls_status_t sumsq(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int64_t count = ls_shape_count(&args->in[0].shape);
  sumsq_t s = {ls_cpu_simd(stream), args->in[0].data};
  double sums[2];
  ls_cpu_sum(stream, count, GRAIN, LS_CPU_BYTES(count * 4), part_sumsq, &s, sums);
  ((float *)args->out[0].data)[0] = (float)sums[0];
  return LS_OK;
}

typedef struct {
  const ls_simd_t *simd;
  const float *g;
  float *p, *slot0, *slot1;
  float lr, grad_scale, decay, momentum;
  bool nesterov;
  ls_simd_adam_t adam;
} update_t;

static void part_sgd(const void *arg, int64_t begin, int64_t end) {
  const update_t *u = arg;
  u->simd->sgd(end - begin, u->lr, u->grad_scale, u->decay, u->g + begin, u->p + begin);
}

static void part_sgd_momentum(const void *arg, int64_t begin, int64_t end) {
  const update_t *u = arg;
  u->simd->sgd_momentum(end - begin, u->lr, u->grad_scale, u->decay, u->momentum, u->nesterov, u->g + begin,
                        u->p + begin, u->slot0 + begin);
}

static void part_adam(const void *arg, int64_t begin, int64_t end) {
  const update_t *u = arg;
  u->simd->adam(end - begin, &u->adam, u->g + begin, u->p + begin, u->slot0 + begin, u->slot1 + begin);
}

/* False when the step is to be skipped. */
static bool update_begin(ls_stream_t *stream, const ls_kernel_args_t *args, update_t *u) {
  const float *ctrl = args->in[1].data;
  if (ctrl[LS_CTRL_APPLY] == 0) return false;
  *u = (update_t){.simd = ls_cpu_simd(stream),
                  .g = args->in[0].data,
                  .p = args->out[0].data,
                  .slot0 = args->out_count > 1 ? args->out[1].data : NULL,
                  .slot1 = args->out_count > 2 ? args->out[2].data : NULL,
                  .lr = ctrl[LS_CTRL_LR],
                  .grad_scale = ctrl[LS_CTRL_GRAD_SCALE]};
  return true;
}

static ls_status_t sgd(ls_stream_t *stream, const ls_kernel_args_t *args) {
  update_t u;
  int64_t count = ls_shape_count(&args->out[0].shape);
  if (!update_begin(stream, args, &u)) return LS_OK;
  u.decay = (float)args->attrs->f[1];
  ls_cpu_loop(stream, count, GRAIN, LS_CPU_BYTES(count * 12), part_sgd, &u);
  return LS_OK;
}

static ls_status_t sgd_momentum(ls_stream_t *stream, const ls_kernel_args_t *args) {
  update_t u;
  int64_t count = ls_shape_count(&args->out[0].shape);
  if (!update_begin(stream, args, &u)) return LS_OK;
  u.momentum = (float)args->attrs->f[0];
  u.decay = (float)args->attrs->f[1];
  u.nesterov = args->attrs->i[0] != 0;
  ls_cpu_loop(stream, count, GRAIN, LS_CPU_BYTES(count * 20), part_sgd_momentum, &u);
  return LS_OK;
}

static ls_status_t adam_with(ls_stream_t *stream, const ls_kernel_args_t *args, bool decoupled) {
  update_t u;
  int64_t count = ls_shape_count(&args->out[0].shape);
  if (!update_begin(stream, args, &u)) return LS_OK;
  const float *ctrl = args->in[1].data;
  const double *f = args->attrs->f;
  u.adam = (ls_simd_adam_t){.beta1 = (float)f[0],
                            .beta2 = (float)f[1],
                            .rest1 = (float)(1 - f[0]),
                            .rest2 = (float)(1 - f[1]),
                            .eps = (float)f[2],
                            .grad_scale = u.grad_scale,
                            .decay_grad = decoupled ? 0 : (float)f[3],
                            .shrink = decoupled ? u.lr * (float)f[3] : 0,
                            .step_size = u.lr / ctrl[LS_CTRL_BIAS1],
                            .inv_sqrt_bias2 = 1 / sqrtf(ctrl[LS_CTRL_BIAS2])};
  ls_cpu_loop(stream, count, GRAIN, LS_CPU_BYTES(count * 28), part_adam, &u);
  return LS_OK;
}

static ls_status_t adam(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return adam_with(stream, args, false);
}

static ls_status_t adamw(ls_stream_t *stream, const ls_kernel_args_t *args) {
  return adam_with(stream, args, true);
}

const ls_cpu_row_t ls_cpu_update_rows[] = {{"sumsq", sumsq}, {"sgd", sgd},     {"sgd_momentum", sgd_momentum},
                                           {"adam", adam},   {"adamw", adamw}, {0}};
