// What kernels share that have numbers for each channel, the last dimension of (rows, channels): channel_sum.cu and
// channel.cu.
#pragma once
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

constexpr int MULTIPROCESSORS = 132;
constexpr int64_t ROWS_MAX = INT32_MAX / 2; // their numbers are ints

// The function behind a norm: of(z), and back(dy, z), its gradient, for elements of T. A 16-bit result is as good with an
// exponential that is right to a few units of f32.
template <class T> struct no_function {
  static constexpr bool PLAIN = true;
  __device__ static float of(float z) { return z; }
  __device__ static float back(float dy, float) { return dy; }
};
template <class T> struct relu_function {
  static constexpr bool PLAIN = false;
  __device__ static float of(float z) { return ls_each_relu(z); }
  __device__ static float back(float dy, float z) { return ls_each_relu_dy(dy, z); }
};
template <class T> struct silu_function {
  static constexpr bool PLAIN = false;
  __device__ static float sigmoid(float z) { return __fdividef(1, 1 + __expf(-z)); }
  __device__ static float of(float z) { return z * sigmoid(z); }
  __device__ static float back(float dy, float z) {
    float s = sigmoid(z);
    return dy * (s * (1 + z * (1 - s)));
  }
};
template <> struct silu_function<float> {
  static constexpr bool PLAIN = false;
  __device__ static float of(float z) { return ls_each_silu(z); }
  __device__ static float back(float dy, float z) { return ls_each_silu_dx(dy, z); }
};

// What f32 left of a channel's mean (device/mean.h), which goes into what else a channel has.
__device__ static inline float rest_of(const float *rest, int64_t c) {
  return rest ? rest[c] : 0;
}

template <class T, int COUNT> struct inputs { const T *of[COUNT]; };

// What a thread needs of its N channels: the block's threads compute it once, side by side. table: room for the block's.
template <int N, class F>
__device__ static void channels_of(const F &f, int64_t base, int64_t channels, typename F::channel_t *table,
                                   typename F::channel_t (&channel)[N]) {
  int vectors = (int)blockDim.x, threads = vectors * (int)blockDim.y;
  for (int i = (int)threadIdx.y * vectors + (int)threadIdx.x; i < N * vectors; i += threads)
    if (base + i < channels) table[i % N * vectors + i / N] = f.of(base + i);
  __syncthreads();
#pragma unroll
  for (int e = 0; e < N; e++)
    channel[e] = table[e * vectors + (int)threadIdx.x];
}
