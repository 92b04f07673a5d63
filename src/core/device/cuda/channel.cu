// Each element with its channel's numbers: batch norm applied and its gradient, vectors added to the trailing dimensions,
// factors. y[r, c] = f of the inputs' elements there, with what f.of() reads for channel c once and f.at() for row r. A thread
// has N channels of several rows on their way at once; y may be an input.
#include "device/cuda/channel.cuh"
#include "device/mean.h"

constexpr int64_t CHANNEL_BLOCKS = 8 * MULTIPROCESSORS;
constexpr int ON_THEIR_WAY = 4; // rows that a thread reads at once

template <class T, int N, class F>
__global__ void __launch_bounds__(BLOCK, 2)
    channel_map_kernel(T *y, inputs<T, F::INPUTS> in, int rows, int64_t width, F f) {
  constexpr int WAY = ON_THEIR_WAY;
  extern __shared__ float4 shared[];
  int64_t base = (int64_t)blockIdx.x * blockDim.x * N, c = base + (int)threadIdx.x * N;
  int step = (int)plane_row_step(), r = c < width ? (int)plane_row() : rows;
  some<T, N> value[WAY][F::INPUTS];
  auto fetch = [&] {
#pragma unroll
    for (int k = 0; k < WAY; k++)
#pragma unroll
      for (int i = 0; i < F::INPUTS; i++)
        if (r + k * step < rows) value[k][i] = load<N>(in.of[i] + (int64_t)(r + k * step) * width + c);
  };
  fetch();
  typename F::channel_t channel[N];
  channels_of<N>(f, base, width, (typename F::channel_t *)shared, channel);
  for (; r < rows; r += WAY * step, fetch())
#pragma unroll
    for (int k = 0; k < WAY; k++) {
      if (r + k * step >= rows) break;
      auto row = f.template at<N>(r + k * step, c);
      float result[N];
#pragma unroll
      for (int e = 0; e < N; e++) {
        float v[F::INPUTS];
#pragma unroll
        for (int i = 0; i < F::INPUTS; i++)
          v[i] = value[k][i][e];
        result[e] = f(channel[e], row, e, v);
      }
      store(y + (int64_t)(r + k * step) * width + c, result);
    }
}

template <class T, int N, class F>
static void channel_map_of(ls_stream_t *stream, T *y, inputs<T, F::INPUTS> in, int rows, int64_t width, F f) {
  dim3 grid;
  dim3 block = threads_across(width / N, BLOCK, WARP, &grid.x);
  int64_t most = CHANNEL_BLOCKS / grid.x;
  grid.y = grid_for(rows, block.y * ON_THEIR_WAY, most < 1 ? 1 : most);
  size_t shared_bytes = block.x * N * sizeof(typename F::channel_t);
  channel_map_kernel<T, N, F><<<grid, block, shared_bytes, ls_kernel_stream(stream)>>>(y, in, rows, width, f);
}

template <class T, class F>
static ls_status_t channel_map(ls_stream_t *stream, T *y, inputs<T, F::INPUTS> in, int64_t count,
                               int64_t width, const char *op, F f) {
  if (count <= 0) return LS_OK;
  if (count / width > ROWS_MAX) return ls_kernel_status(stream, cudaErrorInvalidValue, op);
  bool even = width % WIDE<T> == 0 && aligned16(y, f.aligned());
  for (int i = 0; i < F::INPUTS; i++)
    even = even && aligned16(in.of[i]);
  auto *run = even ? channel_map_of<T, WIDE<T>, F> : channel_map_of<T, 1, F>;
  run(stream, y, in, (int)(count / width), width, f);
  return launched(stream, op);
}

// Most have nothing of a row.
struct no_row {};
struct channel_each {
  template <int N> __device__ no_row at(int, int64_t) const { return {}; }
  const void *aligned() const { return nullptr; }
};

// F of the norm, plus what is added before F.
template <class F, bool ADDS> struct bn_apply_each : channel_each {
  static constexpr int INPUTS = ADDS ? 2 : 1;
  const float *mean, *rest, *rstd, *gamma, *beta;
  struct channel_t {
    float mean, scale, beta;
  };
  __device__ channel_t of(int64_t c) const {
    float scale = rstd[c] * gamma[c];
    return {mean[c], scale, beta[c] - rest_of(rest, c) * scale};
  }
  __device__ float operator()(const channel_t &k, no_row, int, const float *v) const {
    float z = (v[0] - k.mean) * k.scale + k.beta;
    return F::of(ADDS ? z + v[INPUTS - 1] : z);
  }
};

template <template <class> class F, bool ADDS>
static ls_status_t apply(ls_stream_t *stream, args_t args, const char *op) {
  BY_DTYPE(in_dtype(args, 0), bn_apply_each<F<T>, ADDS> f;
           f.mean = in(args, 1), f.rest = ls_mean_rest(&args->in[1]); f.rstd = in(args, 2);
           f.gamma = in(args, 3), f.beta = in(args, 4); inputs < T, ADDS ? 2 : 1 > from;
           from.of[0] = in<T>(args, 0); if (ADDS) from.of[ADDS] = in<T>(args, 5);
           return channel_map(stream, out<T>(args, 0), from, out_count(args, 0), in_count(args, 2), op, f))
}
static ls_status_t bn_apply(ls_stream_t *stream, args_t args) {
  return apply<no_function, false>(stream, args, "bn_apply");
}
static ls_status_t bn_act(ls_stream_t *stream, args_t args) {
  auto *run = args->attrs->i[0] == LS_BEHIND_SILU ? apply<silu_function, false> : apply<relu_function, false>;
  return run(stream, args, "bn_act");
}
static ls_status_t bn_add_act(ls_stream_t *stream, args_t args) {
  auto *run = args->attrs->i[0] == LS_BEHIND_RELU ? apply<relu_function, true> : apply<no_function, true>;
  return run(stream, args, "bn_add_act");
}

// g = dy through F; dx = gamma rstd (g - s1 / count - xhat s2 / count).
template <class F> struct bn_dx_each : channel_each {
  static constexpr int INPUTS = 2; // dy, x
  const float *gamma, *mean, *rest, *rstd, *weight, *sums;
  const double *count;
  const float *beta;
  quick_divisor positions;
  int64_t channels;
  struct channel_t {
    float mean, scale, s1, s2, beta;
  };
  __device__ channel_t of(int64_t c) const {
    float each = (float)(1 / *count), scale = gamma[c] * rstd[c], left = rest_of(rest, c);
    float s2 = rstd[c] * (sums[channels + c] * each);
    return {mean[c], scale, sums[c] * each - left * s2, s2, F::PLAIN ? 0 : beta[c] - left * scale};
  }
  template <int N> __device__ bool at(int r, int64_t) const { return weight[positions.of((uint32_t)r)] > 0; }
  __device__ float operator()(const channel_t &k, bool counts, int, const float *v) const {
    float d = v[1] - k.mean, g = F::PLAIN ? v[0] : F::back(v[0], d * k.scale + k.beta);
    return counts ? k.scale * (g - k.s1 - d * k.s2) : 0;
  }
};

template <template <class> class F>
static ls_status_t back_dx(ls_stream_t *stream, args_t args, const char *op) {
  int64_t count = out_count(args, 0), channels = in_count(args, 2);
  quick_divisor positions(count / channels / in_rows(args, 0));
  BY_DTYPE(in_dtype(args, 0), inputs<T, 2> from = {{in<T>(args, 0), in<T>(args, 1)}};
           bn_dx_each<F<T>> f = {{},
                                 in(args, 2),
                                 in(args, 3),
                                 ls_mean_rest(&args->in[3]),
                                 in(args, 4),
                                 in(args, 5),
                                 in(args, 6),
                                 (const double *)args->in[7].data,
                                 F<T>::PLAIN ? nullptr : in(args, 8),
                                 positions,
                                 channels};
           return channel_map(stream, out<T>(args, 0), from, count, channels, op, f))
}
static ls_status_t bn_dx(ls_stream_t *stream, args_t args) {
  return back_dx<no_function>(stream, args, "bn_dx");
}
static ls_status_t bn_act_dx(ls_stream_t *stream, args_t args) {
  auto *run = args->attrs->i[0] == LS_BEHIND_SILU ? back_dx<silu_function> : back_dx<relu_function>;
  return run(stream, args, "bn_act_dx");
}

template <class T> struct bias_each : channel_each {
  static constexpr int INPUTS = 1;
  const T *b;
  struct channel_t {
    float b;
  };
  __device__ channel_t of(int64_t c) const { return {f32_of(b[c])}; }
  __device__ float operator()(const channel_t &k, no_row, int, const float *v) const { return v[0] + k.b; }
};

static ls_status_t bias(ls_stream_t *stream, args_t args) {
  BY_DTYPE(
      in_dtype(args, 0), bias_each<T> f; f.b = in<T>(args, 1); inputs<T, 1> from = {{in<T>(args, 0)}};
      return channel_map(stream, out<T>(args, 0), from, out_count(args, 0), in_count(args, 1), "bias", f))
}

// A factor, and with ADDS what is added, for each channel of each sample.
template <class T, bool ADDS> struct scale_each {
  static constexpr int INPUTS = 1;
  const T *s, *b;
  quick_divisor positions;
  int64_t channels;
  float part;
  struct channel_t {};
  template <int N> struct row_t { some<T, N> s, b; };
  __device__ channel_t of(int64_t) const { return {}; }
  template <int N> __device__ row_t<N> at(int r, int64_t c) const {
    int64_t from = positions.of((uint32_t)r) * channels + c;
    row_t<N> row;
    row.s = load<N>(s + from);
    if (ADDS) row.b = load<N>(b + from);
    return row;
  }
  const void *aligned() const { return (const void *)((uintptr_t)s | (uintptr_t)b); }
  template <class R> __device__ float operator()(channel_t, const R &row, int e, const float *v) const {
    return ADDS ? v[0] * row.s[e] + row.b[e] * part : v[0] * row.s[e];
  }
};

template <bool ADDS> static ls_status_t scale(ls_stream_t *stream, args_t args, const char *op) {
  int64_t count = out_count(args, 0), channels = in_width(args, 1), positions = count / in_count(args, 1);
  BY_DTYPE(in_dtype(args, 0),
           scale_each<T, ADDS> f = {in<T>(args, 1), ADDS ? in<T>(args, 2) : nullptr, quick_divisor(positions),
                                    channels, 1 / (float)positions};
           inputs<T, 1> from = {{in<T>(args, 0)}};
           return channel_map(stream, out<T>(args, 0), from, count, channels, op, f))
}
static ls_status_t scale_channels(ls_stream_t *stream, args_t args) {
  return scale<false>(stream, args, "scale_channels");
}
static ls_status_t scale_add_mean(ls_stream_t *stream, args_t args) {
  return scale<true>(stream, args, "scale_add_mean");
}

static ls_status_t sum_leading(ls_stream_t *stream, args_t args) {
  int64_t width = out_count(args, 0);
  int error = ls_kernel_column_sum(ls_kernel_stream(stream), ls_kernel_scratch(stream), &args->in[0],
                                   out(args, 0), in_count(args, 0) / width, width);
  return ls_kernel_status(stream, error, "sum_leading");
}

__global__ void rsqrt_eps_kernel(const float *x, double eps, float *y, int64_t count) {
  for (int64_t i = thread_index(); i < count; i += thread_count())
    y[i] = (float)(1 / sqrt((double)x[i] + eps));
}

static ls_status_t rsqrt_eps(ls_stream_t *stream, args_t args) {
  int64_t count = in_count(args, 0);
  rsqrt_eps_kernel<<<grid_for(count, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), args->attrs->f[0], out(args, 0), count);
  return launched(stream, "rsqrt_eps");
}

const ls_kernel_row_t ls_cuda_channel_rows[] = {{"bias", bias, true},
                                                {"scale_channels", scale_channels, true},
                                                {"scale_add_mean", scale_add_mean, true},
                                                {"sum_leading", sum_leading, true},
                                                {"bn_apply", bn_apply, true},
                                                {"bn_dx", bn_dx, true},
                                                {"bn_act", bn_act, true},
                                                {"bn_add_act", bn_add_act, true},
                                                {"bn_act_dx", bn_act_dx, true},
                                                {"rsqrt_eps", rsqrt_eps},
                                                {}};
