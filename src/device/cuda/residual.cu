// Residual sums and layer norms at once (graph/ops/residual.c). A warp takes a row, a lane N neighbours at a time, V times;
// what it has computed stays in registers. V = 0: the row is wider, and what is needed again is computed again.
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

// Calls f(column, numbers) for every N columns of the warp's lane. make(column, numbers) computes these; they are made anew
// if they are not kept.
template <int N, int V, int W, class M, class F>
__device__ static void each_column(int64_t width, float (&kept)[V ? V : 1][W], bool fresh, M make, F f) {
  int64_t begin = N * (threadIdx.x % WARP);
  if constexpr (V > 0) {
#pragma unroll
    for (int i = 0; i < V; i++) {
      int64_t c = begin + i * N * WARP;
      if (c >= width) continue;
      if (fresh) make(c, kept[i]);
      f(c, kept[i]);
    }
  } else {
    for (int64_t c = begin; c < width; c += N * WARP) {
      make(c, kept[0]);
      f(c, kept[0]);
    }
  }
}

struct drop_t {
  const unsigned char *step;
  uint32_t rng_stream;
  float rate, scale;
  int64_t row; // elements that share a position in the stream of samples
};

template <class T, int N, int V>
__global__ void residual_norm_kernel(const T *x, const T *other, const float *gamma, const float *beta,
                                     drop_t drop, float eps, T *sum, T *y, float *mean, float *rstd,
                                     int64_t rows, int64_t width) {
  uint64_t seed = 0, position = 0, quads = (uint64_t)(drop.row + 3) / 4;
  if (drop.rate > 0) {
    seed = load_u64(drop.step + offsetof(ls_step_params_t, seed));
    position = load_u64(drop.step + offsetof(ls_step_params_t, position));
  }
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    auto make = [&](int64_t c, float *v) {
      some<T, N> a = load<N>(x + r * width + c), b = load<N>(other + r * width + c);
#pragma unroll
      for (int e = 0; e < N; e++)
        v[e] = a[e];
      if (drop.rate > 0) {
        int64_t sample = quotient(r * width + c, drop.row), at = r * width + c - sample * drop.row;
        uint64_t counter = (position + (uint64_t)sample) * quads + (uint64_t)at / 4;
#pragma unroll
        for (int e = 0; e < N; e += 4) {
          ls_rng4_t w = ls_rng(seed, drop.rng_stream, counter + e / 4);
          if (N == 1) // any element of its counter
            w.v[0] = at % 4 == 0 ? w.v[0] : at % 4 == 1 ? w.v[1] : at % 4 == 2 ? w.v[2] : w.v[3];
#pragma unroll
          for (int i = 0; i < 4 && e + i < N; i++)
            v[e + i] = ls_each_dropout(v[e + i], w.v[i], drop.rate, drop.scale);
        }
      }
#pragma unroll
      for (int e = 0; e < N; e++)
        v[e] = b[e] + v[e];
    };
    // Sums are of values minus the first of the row, so that a row far from zero keeps its digits in f32.
    float kept[V ? V : 1][N], first = f32_of(x[r * width]) + f32_of(other[r * width]), part = 0, square = 0;
    each_column<N, V>(width, kept, true, make, [&](int64_t c, const float(&v)[N]) {
      store(sum + r * width + c, v);
#pragma unroll
      for (int e = 0; e < N; e++)
        part += v[e] - first;
    });
    float shift = warp_sum(part) / (float)width; // mean - first
    each_column<N, V>(width, kept, false, make, [&](int64_t, const float(&v)[N]) {
#pragma unroll
      for (int e = 0; e < N; e++)
        square += (v[e] - first - shift) * (v[e] - first - shift);
    });
    float scale = 1 / sqrtf(warp_sum(square) / (float)width + eps);
    each_column<N, V>(width, kept, false, make, [&](int64_t c, const float(&v)[N]) {
      some<float, N> g = load<N>(gamma + c), b = load<N>(beta + c);
      float out[N];
#pragma unroll
      for (int e = 0; e < N; e++)
        out[e] = (v[e] - first - shift) * scale * g[e] + b[e];
      store(y + r * width + c, out);
    });
    if (threadIdx.x % WARP == 0) {
      mean[r] = first + shift;
      rstd[r] = scale;
    }
  }
}

// With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - average(g) - h average(g h)) + other. Kept: g and h.
template <class T, int N, int V>
__global__ void layer_norm_dx_add_kernel(const T *dy, const T *x, const float *gamma, const float *mean,
                                         const float *rstd, const T *other, T *dx, int64_t rows,
                                         int64_t width) {
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    float m = mean[r], s = rstd[r], g_sum = 0, gh_sum = 0, kept[V ? V : 1][2 * N];
    auto make = [&](int64_t c, float *v) {
      some<T, N> d = load<N>(dy + r * width + c), a = load<N>(x + r * width + c);
      some<float, N> k = load<N>(gamma + c);
#pragma unroll
      for (int e = 0; e < N; e++) {
        v[e] = d[e] * k[e];
        v[N + e] = (a[e] - m) * s;
      }
    };
    each_column<N, V>(width, kept, true, make, [&](int64_t, const float *v) {
#pragma unroll
      for (int e = 0; e < N; e++) {
        g_sum += v[e];
        gh_sum += v[e] * v[N + e];
      }
    });
    float g_mean = warp_sum(g_sum) / (float)width, gh_mean = warp_sum(gh_sum) / (float)width;
    each_column<N, V>(width, kept, false, make, [&](int64_t c, const float *v) {
      some<T, N> past = load<N>(other + r * width + c);
      float out[N];
#pragma unroll
      for (int e = 0; e < N; e++)
        out[e] = s * (v[e] - g_mean - v[N + e] * gh_mean) + past[e];
      store(dx + r * width + c, out);
    });
  }
}

// Calls run with the kernel's parameters: N neighbours where everything is aligned, V as the width asks.
#define BY_WIDTH(kernel_, aligned_, width_, ...)                                                             \
  {                                                                                                          \
    constexpr int N = WIDE<T>;                                                                               \
    auto *kernel = !(aligned_) || (width_) % N ? kernel_<T, 1, 0>                                            \
                   : (width_) <= 2 * N * WARP  ? kernel_<T, N, 2>                                            \
                   : (width_) <= 4 * N * WARP  ? kernel_<T, N, 4>                                            \
                   : (width_) <= 8 * N * WARP  ? kernel_<T, N, 8>                                            \
                                               : kernel_<T, N, 0>;                                            \
    kernel<<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(__VA_ARGS__);            \
  }

static ls_status_t residual_norm(ls_stream_t *stream, args_t args) {
  int64_t width = in_count(args, 2), rows = in_count(args, 0) / width;
  double rate = args->attrs->f[1];
  drop_t drop = {in<unsigned char>(args, 4), LS_RNG_DROPOUT + (uint32_t)args->attrs->i[0], (float)rate,
                 (float)(1 / (1 - rate)), in_width(args, 0)};
  bool aligned =
      aligned16(in(args, 0), in(args, 1), in(args, 2), in(args, 3)) && aligned16(out(args, 0), out(args, 1));
  BY_DTYPE(in_dtype(args, 0),
           BY_WIDTH(residual_norm_kernel, aligned, width, in<T>(args, 0), in<T>(args, 1), in(args, 2),
                    in(args, 3), drop, (float)args->attrs->f[0], out<T>(args, 0), out<T>(args, 1),
                    out(args, 2), out(args, 3), rows, width))
  return launched(stream, "residual_norm");
}

static ls_status_t layer_norm_dx_add(ls_stream_t *stream, args_t args) {
  int64_t width = in_count(args, 2), rows = in_count(args, 0) / width;
  bool aligned = aligned16(in(args, 0), in(args, 1), in(args, 2), in(args, 5)) && aligned16(out(args, 0));
  BY_DTYPE(in_dtype(args, 0),
           BY_WIDTH(layer_norm_dx_add_kernel, aligned, width, in<T>(args, 0), in<T>(args, 1), in(args, 2),
                    in(args, 3), in(args, 4), in<T>(args, 5), out<T>(args, 0), rows, width))
  return launched(stream, "layer_norm_dx_add");
}

const ls_kernel_row_t ls_cuda_residual_rows[] = {
    {"residual_norm", residual_norm, true}, {"layer_norm_dx_add", layer_norm_dx_add, true}, {}};
