// The end of a step: the decision whether it counts, and the update of parameters and optimizer state in one
// pass. Also the mark that tells the host how far a stream has come.
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

// One warp. `step` is an ls_step_params_t at any address.
__global__ void control_kernel(ls_kernel_control_t attrs, const float *head, const float *partial,
                               int64_t partial_count, const unsigned char *step, float *ctrl, float *stats,
                               float *counter) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < partial_count; i += WARP)
    sum += partial[i];
  sum = warp_sum(sum);
  if (threadIdx.x == 0)
    ls_each_control(&attrs, head[LS_HEAD_LOSS], head[LS_HEAD_CORRECT],
                    load_f32(step + offsetof(ls_step_params_t, lr)), sum, ctrl, stats, counter);
}

static ls_status_t step_control(ls_stream_t *stream, args_t args) {
  const double *f = args->attrs->f;
  ls_kernel_control_t attrs = {f[0], f[1], f[2], args->attrs->i[0]};
  control_kernel<<<1, WARP, 0, ls_kernel_stream(stream)>>>(attrs, in(args, 0), in(args, 1), in_count(args, 1),
                                                           (const unsigned char *)args->in[2].data,
                                                           out(args, 0), out(args, 1), out(args, 2));
  return launched(stream, "step_control");
}

__global__ void loss_scale_kernel(const float *counter, float *scale) {
  *scale = (float)ls_each_loss_scale(counter);
}

static ls_status_t loss_scale(ls_stream_t *stream, args_t args) {
  loss_scale_kernel<<<1, 1, 0, ls_kernel_stream(stream)>>>(in(args, 0), out(args, 0));
  return launched(stream, "loss_scale");
}

// Each update: how many state slots it has, whether decay is decoupled, and its element.
struct sgd_each {
  enum { SLOTS = 0, DECOUPLED = 0 };
  __device__ static void each(const ls_each_update_t &u, float grad, float &p, float &, float &) {
    ls_each_sgd(&u, grad, &p);
  }
};
struct momentum_each {
  enum { SLOTS = 1, DECOUPLED = 0 };
  __device__ static void each(const ls_each_update_t &u, float grad, float &p, float &buf, float &) {
    ls_each_momentum(&u, grad, &p, &buf);
  }
};
template <int D> struct adam_each {
  enum { SLOTS = 2, DECOUPLED = D };
  __device__ static void each(const ls_each_update_t &u, float grad, float &p, float &m, float &v) {
    ls_each_adam(&u, grad, &p, &m, &v);
  }
};

template <class U>
__global__ void update_kernel(ls_kernel_update_t attrs, const float *grad, const float *ctrl, float *param,
                              float *slot0, float *slot1, int64_t count, int64_t vectors) {
  if (ctrl[LS_CTRL_APPLY] == 0) return;
  const ls_each_update_t u = ls_each_update_begin(&attrs, ctrl, U::DECOUPLED);
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    float4 g = ((const float4 *)grad)[i], p = ((const float4 *)param)[i], a = {}, b = {};
    if (U::SLOTS > 0) a = ((const float4 *)slot0)[i];
    if (U::SLOTS > 1) b = ((const float4 *)slot1)[i];
    U::each(u, g.x, p.x, a.x, b.x);
    U::each(u, g.y, p.y, a.y, b.y);
    U::each(u, g.z, p.z, a.z, b.z);
    U::each(u, g.w, p.w, a.w, b.w);
    ((float4 *)param)[i] = p;
    if (U::SLOTS > 0) ((float4 *)slot0)[i] = a;
    if (U::SLOTS > 1) ((float4 *)slot1)[i] = b;
  }
  for (int64_t i = 4 * vectors + thread_index(); i < count; i += thread_count()) {
    float p = param[i], a = 0, b = 0;
    if (U::SLOTS > 0) a = slot0[i];
    if (U::SLOTS > 1) b = slot1[i];
    U::each(u, grad[i], p, a, b);
    param[i] = p;
    if (U::SLOTS > 0) slot0[i] = a;
    if (U::SLOTS > 1) slot1[i] = b;
  }
}

template <class U>
static ls_status_t update(ls_stream_t *stream, args_t args, const ls_kernel_update_t &attrs, const char *op) {
  const float *grad = in(args, 0);
  float *param = out(args, 0), *slot0 = U::SLOTS > 0 ? out(args, 1) : NULL,
        *slot1 = U::SLOTS > 1 ? out(args, 2) : NULL;
  int64_t count = in_count(args, 0), vectors = vectors_of<float>(count, aligned16(grad, param, slot0, slot1));
  if (count <= 0) return LS_OK;
  // As many blocks as can have work: the last of them leave no multiprocessor idle for long.
  update_kernel<U><<<grid_for(count, WIDE<float> * BLOCK, INT32_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      attrs, grad, in(args, 1), param, slot0, slot1, count, vectors);
  return launched(stream, op);
}

static ls_kernel_update_t sgd_attrs(const ls_attrs_t *attrs) {
  ls_kernel_update_t u = {};
  u.momentum = (float)attrs->f[0];
  u.weight_decay = (float)attrs->f[1];
  u.nesterov = attrs->i[0] != 0;
  return u;
}

static ls_kernel_update_t adam_attrs(const ls_attrs_t *attrs) {
  const double *f = attrs->f;
  ls_kernel_update_t u = {};
  u.beta1 = (float)f[0];
  u.rest1 = (float)(1 - f[0]);
  u.beta2 = (float)f[1];
  u.rest2 = (float)(1 - f[1]);
  u.eps = (float)f[2];
  u.weight_decay = (float)f[3];
  return u;
}

static ls_status_t sgd(ls_stream_t *stream, args_t args) {
  return update<sgd_each>(stream, args, sgd_attrs(args->attrs), "sgd");
}
static ls_status_t sgd_momentum(ls_stream_t *stream, args_t args) {
  return update<momentum_each>(stream, args, sgd_attrs(args->attrs), "sgd_momentum");
}
static ls_status_t adam(ls_stream_t *stream, args_t args) {
  return update<adam_each<0>>(stream, args, adam_attrs(args->attrs), "adam");
}
static ls_status_t adamw(ls_stream_t *stream, args_t args) {
  return update<adam_each<1>>(stream, args, adam_attrs(args->attrs), "adamw");
}

const ls_kernel_row_t ls_cuda_update_rows[] = {{"step_control", step_control},
                                               {"loss_scale", loss_scale},
                                               {"sgd", sgd},
                                               {"sgd_momentum", sgd_momentum},
                                               {"adam", adam},
                                               {"adamw", adamw},
                                               {}};

__global__ void mark_kernel(volatile uint64_t *word, uint32_t *count, uint32_t value) {
  const uint32_t run = *count + 1; /* of device memory: a read of host memory takes a microsecond */
  *count = run;
  *word = (uint64_t)run << 32 | value;
  __threadfence_system();
}

int ls_kernel_mark(ls_kernel_stream_t stream, uint64_t *word, uint32_t *count, uint32_t value) {
  mark_kernel<<<1, 1, 0, stream>>>(word, count, value);
  return launched();
}
