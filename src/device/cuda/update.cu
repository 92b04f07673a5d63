// The end of a step: the decision whether it counts, and the update of parameters and optimizer state in one
// pass. Also the mark that tells the host how far a stream has come.
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

// One warp. `step` is an ls_step_params_t at any address; its lr stands behind two u64.
__global__ void control_kernel(ls_kernel_control_t attrs, const float *head, const float *partial,
                               int64_t partial_count, const unsigned char *step, float *ctrl, float *stats,
                               float *counter) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < partial_count; i += WARP)
    sum += partial[i];
  sum = warp_sum(sum);
  if (threadIdx.x == 0)
    ls_each_control(&attrs, head[0], head[1], load_f32(step + 16), sum, ctrl, stats, counter);
}

int ls_kernel_control(ls_kernel_stream_t stream, const ls_kernel_control_t *attrs, const float *head,
                      const float *partial, int64_t partial_count, const void *step, float *ctrl,
                      float *stats, float *counter) {
  control_kernel<<<1, WARP, 0, stream>>>(*attrs, head, partial, partial_count, (const unsigned char *)step,
                                         ctrl, stats, counter);
  return launched();
}

// Each update: how many state slots it has, whether decay is decoupled, and its element.
struct sgd {
  enum { SLOTS = 0, DECOUPLED = 0 };
  __device__ static void each(const ls_each_update_t &u, float grad, float &p, float &, float &) {
    ls_each_sgd(&u, grad, &p);
  }
};
struct momentum {
  enum { SLOTS = 1, DECOUPLED = 0 };
  __device__ static void each(const ls_each_update_t &u, float grad, float &p, float &buf, float &) {
    ls_each_momentum(&u, grad, &p, &buf);
  }
};
template <int D> struct adam {
  enum { SLOTS = 2, DECOUPLED = D };
  __device__ static void each(const ls_each_update_t &u, float grad, float &p, float &m, float &v) {
    ls_each_adam(&u, grad, &p, &m, &v);
  }
};

template <class U>
__global__ void update_kernel(ls_kernel_update_t attrs, const float *grad, const float *ctrl, float *param,
                              float *slot0, float *slot1, int64_t count, int64_t vectors) {
  if (ctrl[LS_KC_APPLY] == 0) return;
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
static int update(ls_kernel_stream_t stream, const ls_kernel_update_t *attrs, const float *grad,
                  const float *ctrl, float *param, float *slot0, float *slot1, int64_t count) {
  int64_t vectors = vectors_of(count, aligned16(grad, param, slot0, slot1));
  update_kernel<U><<<grid_for_each(count, vectors), BLOCK, 0, stream>>>(*attrs, grad, ctrl, param, slot0,
                                                                        slot1, count, vectors);
  return launched();
}

int ls_kernel_update(ls_kernel_stream_t stream, int which, const ls_kernel_update_t *attrs, const float *grad,
                     const float *ctrl, float *param, float *slot0, float *slot1, int64_t count) {
  if (count <= 0) return cudaSuccess;
  switch (which) {
  case LS_UPDATE_SGD:
    return update<sgd>(stream, attrs, grad, ctrl, param, slot0, slot1, count);
  case LS_UPDATE_MOMENTUM:
    return update<momentum>(stream, attrs, grad, ctrl, param, slot0, slot1, count);
  case LS_UPDATE_ADAM:
    return update<adam<0>>(stream, attrs, grad, ctrl, param, slot0, slot1, count);
  case LS_UPDATE_ADAMW:
    return update<adam<1>>(stream, attrs, grad, ctrl, param, slot0, slot1, count);
  default:
    return cudaErrorInvalidValue;
  }
}

__global__ void mark_kernel(volatile uint32_t *word, uint32_t value) {
  *word = value;
  __threadfence_system();
}

int ls_kernel_mark(ls_kernel_stream_t stream, uint32_t *word, uint32_t value) {
  mark_kernel<<<1, 1, 0, stream>>>(word, value);
  return launched();
}
