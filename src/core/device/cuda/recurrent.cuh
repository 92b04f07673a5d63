// Shared by the versions of recurrent chains: sizes, and what one unit does at one position. The versions differ in how
// they multiply with w_hh.
#pragma once

#include "device/cuda/block.cuh"
#include "device/cuda/mma.cuh"

constexpr int NONE = INT32_MIN;

struct chain_t {
  int64_t n;
  int t, h;
  bool back;
  // The s-th position of the chain's order; NONE: there is none.
  __host__ __device__ int position(int s) const { return s < 0 || s >= t ? NONE : back ? t - 1 - s : s; }
  // Samples from that one on.
  __device__ int left(int64_t sample) const {
    return sample >= n ? 0 : n - sample < INT32_MAX ? (int)(n - sample) : INT32_MAX;
  }
  // A position's arrivals have the parity of its own use of one of two places.
  __device__ static int parity(int position) { return (position - 1) >> 1 & 1; }
};

// Within a few units in the last place of 1; of bf16 tensors within 2^-11, a fourth of what their rounding takes.
template <class E> __device__ static inline float sigmoid_of(float x, E) {
  return __fdividef(1, 1 + __expf(-x));
}
__device__ static inline float sigmoid_of(float x, bf16_t) {
  return 0.5f * tanh_rough(0.5f * x) + 0.5f;
}
template <class E> __device__ static inline float tanh_of(float x, E e) {
  return 2 * sigmoid_of(2 * x, e) - 1;
}

// A number from memory, in a register of its own: two of 16 bits would be put into one at once, and wait for that.
template <class E> struct raw_t {
  uint32_t bits;
  __device__ void read(const E *from) { bits = *(const uint16_t *)from; }
  __device__ operator float() const {
    const uint16_t half = (uint16_t)bits;
    return f32_of(*(const E *)&half);
  }
};
template <> struct raw_t<float> {
  float value;
  __device__ void read(const float *from) { value = *from; }
  __device__ operator float() const { return value; }
};

// ---- one unit at one position ----
// from     the op of the rows from that one on; the others count rows from there, and 32 bits suffice for what a cluster sees
// load     reads what the step needs from memory, as it is there, so that it can be read ahead; gradients: through get(to, from)
// prepare  gradients: the arithmetic that needs nothing of the position behind
// gate     forward: the function of one slot
// step     the rest; takes the gates' values, or what was prepared
// keep     writes what the op keeps
// `state` goes along the chain; `output`: the unit's, one position before, and now. Forward there are SLOTS sums: the product
// with the rows of w_hh of that gate, if there is one, and what load_slot gives; a thread for each slot may share in gates and
// keeping. Slots of a GRU are r, z, w_hn h + b_hn, and x of n. In the gradients d is what w_hh's rows are multiplied with.
// E: elements of tensors; c is f32 always. ALONE: whether blocks of f32 keep those of other kernels off their multiprocessor.
// On an H200 (batches of 32 and 256) that makes a step of a GRU of 160 units 3 to 7 % shorter, whose blocks leave most registers
// free, and one of an LSTM of 192 units 1 to 2 % longer.

enum { SLOTS = 4 };

// value[i] of an array in registers.
template <int N> __device__ static float chosen(const float (&value)[N], int i) {
  float v = value[0];
#pragma unroll
  for (int n = 1; n < N; n++)
    v = i == n ? value[n] : v;
  return v;
}

template <class E_> struct lstm_op {
  typedef E_ E;
  static constexpr int GATES = 4;
  static constexpr bool GRADIENT = false;
  static constexpr bool ALONE = false;
  const E *x;
  E *y;
  float *c;
  E *gates;
  struct in_t {
    raw_t<E> x[GATES];
    __device__ float slot(int g) const { return x[g]; }
  };
  struct kept_t {
    float gate[GATES], c, y;
  };
  __device__ lstm_op from(int64_t row, int64_t h) const {
    return {x + row * GATES * h, y + row * h, c + row * h, gates + row * GATES * h};
  }
  __device__ const E *slot_at(int row, int h, int e, int g) const { return x + (row * GATES + g) * h + e; }
  __device__ float load_slot(int row, int h, int e, int g) const { return f32_of(*slot_at(row, h, e, g)); }
  __device__ in_t load(int row, int h, int e) const {
    in_t v;
#pragma unroll
    for (int g = 0; g < GATES; g++)
      v.x[g].read(x + (row * GATES + g) * h + e);
    return v;
  }
  __device__ float state_at(int row, int h, int e) const {
    return c[row * h + e];
  }
  // tanh(x) = 2 sigmoid(2 x) - 1, so that lanes with different slots do the same.
  __device__ static float gate(float slot, int g) {
    float scale = g == 2 ? 2 : 1;
    return scale * sigmoid_of(scale * slot, E()) + (1 - scale);
  }
  __device__ kept_t step(const float (&gate)[SLOTS], float *output, float *state) const {
    kept_t kept;
#pragma unroll
    for (int g = 0; g < GATES; g++)
      kept.gate[g] = gate[g];
    kept.c = *state = kept.gate[1] * *state + kept.gate[0] * kept.gate[2];
    kept.y = *output = kept.gate[3] * tanh_of(*state, E());
    return kept;
  }
  __device__ void keep_slot(int row, int h, int e, int g, const kept_t &kept) const {
    gates[(row * GATES + g) * h + e] = rounded<E>(chosen(kept.gate, g));
    if (g == 0) c[row * h + e] = kept.c;
    if (g == 1) y[row * h + e] = rounded<E>(kept.y);
  }
};

template <class E_> struct gru_op {
  typedef E_ E;
  static constexpr int GATES = 3;
  static constexpr bool GRADIENT = false;
  static constexpr bool ALONE = true;
  const E *x;
  const float *b;
  E *y, *gates, *m;
  struct in_t {
    raw_t<E> x[GATES];
    float b;
    __device__ float slot(int g) const { return g == 2 ? b : (float)x[gate_of(g)]; }
  };
  struct kept_t {
    float gate[GATES], m, y;
  };
  __host__ __device__ static constexpr int gate_of(int slot) { return slot == 3 ? 2 : slot; }
  __device__ gru_op from(int64_t row, int64_t h) const {
    return {x + row * GATES * h, b, y + row * h, gates + row * GATES * h, m + row * h};
  }
  __device__ const float *slot_at(int row, int h, int e, int g) const { // of f32 tensors
    return g == 2 ? b + e : x + (row * GATES + gate_of(g)) * h + e;
  }
  __device__ float load_slot(int row, int h, int e, int g) const {
    return g == 2 ? b[e] : f32_of(x[(row * GATES + gate_of(g)) * h + e]);
  }
  __device__ in_t load(int row, int h, int e) const {
    in_t v;
#pragma unroll
    for (int g = 0; g < GATES; g++)
      v.x[g].read(x + (row * GATES + g) * h + e);
    v.b = b[e];
    return v;
  }
  __device__ float state_at(int, int, int) const {
    return 0;
  }
  __device__ static float gate(float slot, int g) {
    return g < 2 ? sigmoid_of(slot, E()) : slot;
  }
  __device__ kept_t step(const float (&gate)[SLOTS], float *output, float *) const {
    float reset = gate[0], update = gate[1], fresh = tanh_of(gate[3] + reset * gate[2], E());
    *output = (1 - update) * fresh + update * *output;
    return {{reset, update, fresh}, gate[2], *output};
  }
  __device__ void keep_slot(int row, int h, int e, int g, const kept_t &kept) const {
    if (g == 3)
      m[row * h + e] = rounded<E>(kept.m);
    else
      gates[(row * GATES + g) * h + e] = rounded<E>(chosen(kept.gate, g));
    if (g == 0) y[row * h + e] = rounded<E>(kept.y);
  }
};

template <class E_> struct lstm_dx_op {
  typedef E_ E;
  static constexpr int GATES = 4;
  static constexpr bool GRADIENT = true;
  static constexpr bool ALONE = false;
  const E *dy;
  const float *c;
  const E *gates;
  E *dx;
  struct in_t {
    raw_t<E> dy, gate[GATES];
    raw_t<float> c, before;
  };
  struct ready_t {
    float dy, along, forget, d[GATES];
  };
  struct kept_t {
    float d[GATES];
  };
  __device__ lstm_dx_op from(int64_t row, int64_t h) const {
    return {dy + row * h, c + row * h, gates + row * GATES * h, dx + row * GATES * h};
  }
  template <class GET> __device__ void load(in_t *v, int row, int before, int h, int e, GET get) const {
    get(&v->dy, dy + row * h + e);
    get(&v->c, c + row * h + e);
    if (before == NONE)
      v->before = {};
    else
      get(&v->before, c + before * h + e);
#pragma unroll
    for (int g = 0; g < GATES; g++)
      get(&v->gate[g], gates + (row * GATES + g) * h + e);
  }
  __device__ static ready_t prepare(const in_t &v) {
    float i = v.gate[0], f = v.gate[1], g = v.gate[2], o = v.gate[3], q = tanh_of(v.c, E());
    return {v.dy,
            o * (1 - q * q),
            f,
            {g * i * (1 - i), v.before * f * (1 - f), i * (1 - g * g), q * o * (1 - o)}};
  }
  __device__ kept_t step(const ready_t &v, float dh, float *state) const {
    float up = v.dy + dh, dc = *state + up * v.along;
    *state = dc * v.forget;
    return {{dc * v.d[0], dc * v.d[1], dc * v.d[2], up * v.d[3]}};
  }
  __device__ void keep(int row, int h, int e, const kept_t &kept) const {
#pragma unroll
    for (int g = 0; g < GATES; g++)
      dx[(row * GATES + g) * h + e] = rounded<E>(kept.d[g]);
  }
  __host__ __device__ const E *factors() const {
    return dx;
  }
};

template <class E_> struct gru_dx_op {
  typedef E_ E;
  static constexpr int GATES = 3;
  static constexpr bool GRADIENT = true;
  static constexpr bool ALONE = true;
  const E *dy, *y, *gates, *m;
  E *dx, *dhidden;
  struct in_t {
    raw_t<E> dy, before, m, gate[GATES];
  };
  struct ready_t {
    float dy, update, inner, d[GATES];
  };
  struct kept_t {
    float d[GATES], inner;
  };
  __device__ gru_dx_op from(int64_t row, int64_t h) const {
    return {dy + row * h, y + row * h,          gates + row * GATES * h,
            m + row * h,  dx + row * GATES * h, dhidden + row * GATES * h};
  }
  template <class GET> __device__ void load(in_t *v, int row, int before, int h, int e, GET get) const {
    get(&v->dy, dy + row * h + e);
    get(&v->m, m + row * h + e);
    if (before == NONE)
      v->before = {};
    else
      get(&v->before, y + before * h + e);
#pragma unroll
    for (int g = 0; g < GATES; g++)
      get(&v->gate[g], gates + (row * GATES + g) * h + e);
  }
  __device__ static ready_t prepare(const in_t &v) {
    float reset = v.gate[0], update = v.gate[1], fresh = v.gate[2];
    float inner = (1 - update) * (1 - fresh * fresh);
    return {v.dy,
            update,
            inner,
            {inner * v.m * reset * (1 - reset), (v.before - fresh) * update * (1 - update), inner * reset}};
  }
  __device__ kept_t step(const ready_t &v, float dh, float *state) const {
    float up = v.dy + dh + *state;
    *state = up * v.update;
    return {{up * v.d[0], up * v.d[1], up * v.d[2]}, up * v.inner};
  }
  __device__ void keep(int row, int h, int e, const kept_t &kept) const {
#pragma unroll
    for (int g = 0; g < GATES; g++) {
      dx[(row * GATES + g) * h + e] = rounded<E>(g < 2 ? kept.d[g] : kept.inner);
      dhidden[(row * GATES + g) * h + e] = rounded<E>(kept.d[g]);
    }
  }
  __host__ __device__ const E *factors() const {
    return dhidden;
  }
};

struct read_t {
  template <class T> __device__ void operator()(raw_t<T> *to, const T *from) const { to->read(from); }
};

// A launch of `count` clusters of `of` blocks each.
template <class... A>
static int launch_clusters(cudaStream_t stream, void (*kernel)(A...), int of, int64_t count, int threads,
                           size_t bytes, A... args) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = (unsigned)of;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)(count * of));
  config.blockDim = dim3((unsigned)threads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, args...);
}

// ---- recurrent_tensor.cu ----

// The version of 16-bit tensors on tensor cores; cudaErrorNotSupported where the GPU or the width does not suit it.
template <class OP> int chain_tensor(cudaStream_t stream, OP op, const typename OP::E *w, const chain_t &k);

// ---- recurrent_grid.cu ----

// The version of wide layers, on all multiprocessors; cudaErrorNotSupported where it does not fit.
template <class OP>
int chain_grid(ls_stream_t *stream, args_t args, OP op, const typename OP::E *w, const chain_t &k);
