// What has a number for each channel, the last dimension: batch norm in parts, vectors added to the trailing
// dimensions, and factors. Sums over rows are in f64.
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

// The function behind a norm: of(z), and back(dy, z), its gradient.
struct no_function {
  static constexpr bool PLAIN = true;
  __device__ static float of(float z) { return z; }
  __device__ static float back(float dy, float) { return dy; }
};
struct relu_function {
  static constexpr bool PLAIN = false;
  __device__ static float of(float z) { return ls_each_relu(z); }
  __device__ static float back(float dy, float z) { return ls_each_relu_dy(dy, z); }
};
struct silu_function {
  static constexpr bool PLAIN = false;
  __device__ static float of(float z) { return ls_each_silu(z); }
  __device__ static float back(float dy, float z) { return ls_each_silu_dx(dy, z); }
};

// ---- sums over the rows of (rows, channels) ----
// A thread has N neighbouring channels, a block a group of channels and one part of the rows; its stripes of threads are
// added up in order. The parts go to the workspace as f64 (part, 2, channels), and a second kernel adds them up. All of
// that is in f64; but a thread adds 16-bit numbers in f32.

constexpr int64_t PART_ROWS = 32, SUM_BLOCKS = 528;
constexpr int ON_THEIR_WAY = 4; // rows that a thread reads at once

template <class T> struct sum_of { typedef float type; };
template <> struct sum_of<float> { typedef double type; };

// Terms of an element of a sample that counts. of() reads what belongs to the channel.

// x - shift and its square.
template <class S> struct moment_term {
  static constexpr int INPUTS = 1;
  const float *shift;
  struct channel_t {
    S shift;
  };
  __device__ channel_t of(int64_t c) const { return {(S)shift[c]}; }
  __device__ double second(double sum, int64_t) const { return sum; }
  __device__ void at(const channel_t &k, const float *v, S *a, S *b) const {
    S d = (S)v[0] - k.shift;
    *a += d;
    *b += d * d;
  }
};

// g and g xhat, where g is dy through the function F behind the norm; rstd is a factor of the whole sum.
template <class S, class F> struct back_term {
  static constexpr int INPUTS = 2; // dy, x
  const float *mean, *rstd, *gamma, *beta;
  struct channel_t {
    S mean;
    float scale, beta;
  };
  __device__ channel_t of(int64_t c) const {
    if (F::PLAIN) return {(S)mean[c], 0, 0};
    return {(S)mean[c], rstd[c] * gamma[c], beta[c]};
  }
  __device__ double second(double sum, int64_t c) const { return sum * rstd[c]; }
  __device__ void at(const channel_t &k, const float *v, S *a, S *b) const {
    float g = F::PLAIN ? v[0] : F::back(v[0], (v[1] - (float)k.mean) * k.scale + k.beta);
    *a += (S)g;
    *b += (S)g * ((S)v[1] - k.mean);
  }
};

template <class T, int COUNT> struct inputs { const T *of[COUNT]; };

// Samples of weight 0 count nowhere; each has `positions` rows.
template <class T, int N, class F>
__global__ void __launch_bounds__(BLOCK, 2)
    channel_sum_kernel(inputs<T, F::INPUTS> in, F term, const float *weight, double *part, int64_t rows,
                       int64_t positions, int64_t channels) {
  typedef typename sum_of<T>::type S;
  extern __shared__ float4 shared[];
  double *stripe = (double *)shared; // (stripes, 2, channels of the block)
  int wide = (int)blockDim.x * N, lane = (int)threadIdx.x * N;
  int64_t c = (int64_t)blockIdx.x * wide + lane;
  int64_t chunk = (rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * chunk, step = blockDim.y;
  int64_t end = begin + chunk < rows ? begin + chunk : rows;
  S sum[2][N] = {};
  if (c < channels) {
    typename F::channel_t channel[N];
#pragma unroll
    for (int e = 0; e < N; e++)
      channel[e] = term.of(c + e);
    for (int64_t r = begin + threadIdx.y; r < end; r += ON_THEIR_WAY * step) {
      some<T, N> value[ON_THEIR_WAY][F::INPUTS];
      bool counts[ON_THEIR_WAY];
#pragma unroll
      for (int k = 0; k < ON_THEIR_WAY; k++) {
        int64_t at = r + k * step;
        counts[k] = at < end && weight[quotient(at, positions)] > 0;
#pragma unroll
        for (int i = 0; i < F::INPUTS; i++)
          if (at < end) value[k][i] = load<N>(in.of[i] + at * channels + c);
      }
#pragma unroll
      for (int e = 0; e < N; e++) {
#pragma unroll
        for (int k = 0; k < ON_THEIR_WAY; k++) {
          float v[F::INPUTS];
#pragma unroll
          for (int i = 0; i < F::INPUTS; i++)
            v[i] = value[k][i][e];
          if (counts[k]) term.at(channel[e], v, &sum[0][e], &sum[1][e]);
        }
      }
    }
  }
#pragma unroll
  for (int e = 0; e < N; e++) {
    stripe[((int)threadIdx.y * 2 + 0) * wide + lane + e] = sum[0][e];
    stripe[((int)threadIdx.y * 2 + 1) * wide + lane + e] = sum[1][e];
  }
  __syncthreads();
  for (int i = (int)(threadIdx.y * blockDim.x + threadIdx.x); i < 2 * wide;
       i += (int)(blockDim.x * blockDim.y)) {
    int64_t k = i / wide, to = (int64_t)blockIdx.x * wide + i % wide;
    if (to >= channels) continue;
    double total = 0;
    for (int s = 0; s < (int)blockDim.y; s++)
      total += stripe[s * 2 * wide + i];
    part[((int64_t)blockIdx.y * 2 + k) * channels + to] = k ? term.second(total, to) : total;
  }
}

// The parts' sums, as blocks of WARP numbers and JOINERS rows of threads. count NULL: not wanted.
constexpr int JOINERS = 32;
__global__ void channel_sum_join(const double *part, const float *weight, float *out, float *count,
                                 int64_t samples, int64_t positions, int64_t channels, int parts) {
  __shared__ double stripe[JOINERS][WARP];
  int64_t i = (int64_t)blockIdx.x * WARP + threadIdx.x;
  double sum = 0;
  if (i < 2 * channels)
#pragma unroll 4
    for (int p = threadIdx.y; p < parts; p += JOINERS)
      sum += part[(int64_t)p * 2 * channels + i];
  stripe[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && i < 2 * channels) {
    sum = 0;
#pragma unroll
    for (int s = 0; s < JOINERS; s++)
      sum += stripe[s][threadIdx.x];
    out[i] = (float)sum;
  }
  if (!count || blockIdx.x > 0 || threadIdx.y != 1) return;
  double mine = 0;
  for (int64_t n = threadIdx.x; n < samples; n += WARP)
    mine += weight[n] > 0;
  mine = warp_sum(mine);
  if (threadIdx.x == 0) *count = (float)(mine * (double)positions);
}

// Threads and blocks for `width` vectors of channels: as few idle as can be, at most WARP side by side.
static dim3 threads_across(int64_t width, unsigned *groups) {
  *groups = grid_for(width, WARP, INT32_MAX);
  unsigned wide = (unsigned)((width + *groups - 1) / *groups);
  return dim3(wide, BLOCK / wide);
}

template <class T, int N, class F>
static ls_status_t channel_sum_of(ls_stream_t *stream, inputs<T, F::INPUTS> in, F term, const ls_tensor_t *x,
                                  const float *weight, float *out, float *count, const char *op) {
  int64_t channels = x->shape.dim[x->shape.rank - 1], rows = ls_shape_count(&x->shape) / channels;
  int64_t samples = x->shape.dim[0], positions = rows / samples;
  size_t workspace_bytes;
  double *part = (double *)ls_kernel_workspace(stream, &workspace_bytes);
  unsigned groups;
  dim3 block = threads_across(channels / N, &groups);
  int64_t most = (int64_t)(workspace_bytes / (2 * sizeof(double))) / channels;
  if (most < 1) return ls_kernel_status(stream, cudaErrorInvalidValue, "batch norm of too many channels");
  if (most > SUM_BLOCKS / groups) most = SUM_BLOCKS / groups;
  unsigned parts = grid_for(rows, PART_ROWS, most < 1 ? 1 : most);
  size_t shared_bytes = block.x * block.y * N * 2 * sizeof(double);
  channel_sum_kernel<T, N, F><<<dim3(groups, parts), block, shared_bytes, ls_kernel_stream(stream)>>>(
      in, term, weight, part, rows, positions, channels);
  channel_sum_join<<<grid_for(2 * channels, WARP, INT32_MAX), dim3(WARP, JOINERS), 0,
                     ls_kernel_stream(stream)>>>(part, weight, out, count, samples, positions, channels,
                                                 (int)parts);
  return launched(stream, op);
}

// N channels to a thread where all rows begin at a multiple of 16 bytes.
template <class T, class F>
static ls_status_t channel_sum(ls_stream_t *stream, inputs<T, F::INPUTS> in, F term, const ls_tensor_t *x,
                               const float *weight, float *out, float *count, const char *op) {
  bool even = x->shape.dim[x->shape.rank - 1] % WIDE<T> == 0;
  for (int i = 0; i < F::INPUTS; i++)
    even = even && aligned16(in.of[i]);
  auto *run = even ? channel_sum_of<T, WIDE<T>, F> : channel_sum_of<T, 1, F>;
  return run(stream, in, term, x, weight, out, count, op);
}

// (x, weight, shift) -> count, sums, squares.
static ls_status_t bn_sums(ls_stream_t *stream, args_t args) {
  BY_DTYPE(in_dtype(args, 0), inputs<T, 1> from = {{in<T>(args, 0)}};
           moment_term<typename sum_of<T>::type> term = {in(args, 2)}; return channel_sum(
               stream, from, term, &args->in[0], in(args, 1), out(args, 0) + 1, out(args, 0), "bn_sums"))
}

// (dy, x, mean, rstd, weight) -> s1, s2; behind a function: gamma, beta as well.
template <class F> static ls_status_t back_sums(ls_stream_t *stream, args_t args, const char *op) {
  BY_DTYPE(in_dtype(args, 0), inputs<T, 2> from = {{in<T>(args, 0), in<T>(args, 1)}};
           back_term<typename sum_of<T>::type, F> term = {in(args, 2), in(args, 3),
                                                          F::PLAIN ? nullptr : in(args, 5),
                                                          F::PLAIN ? nullptr : in(args, 6)};
           return channel_sum(stream, from, term, &args->in[0], in(args, 4), out(args, 0), nullptr, op))
}
static ls_status_t bn_back_sums(ls_stream_t *stream, args_t args) {
  return back_sums<no_function>(stream, args, "bn_back_sums");
}
static ls_status_t bn_act_back_sums(ls_stream_t *stream, args_t args) {
  auto *run = args->attrs->i[0] == LS_BEHIND_SILU ? back_sums<silu_function> : back_sums<relu_function>;
  return run(stream, args, "bn_act_back_sums");
}

// ---- a thread for each channel ----

__global__ void bn_moments_kernel(const float *sums, const float *shift, double eps, float *mean, float *rstd,
                                  float *variance, int64_t channels) {
  double count = sums[0];
  for (int64_t c = thread_index(); c < channels; c += thread_count()) {
    double d = sums[1 + c] / count, v = sums[1 + channels + c] / count - d * d;
    if (v < 0) v = 0;
    mean[c] = (float)(shift[c] + d);
    rstd[c] = (float)(1 / sqrt(v + eps));
    variance[c] = (float)v;
  }
}

static ls_status_t bn_moments(ls_stream_t *stream, args_t args) {
  int64_t channels = in_count(args, 1);
  bn_moments_kernel<<<grid_for(channels, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), in(args, 1), args->attrs->f[0], out(args, 0), out(args, 1), out(args, 2), channels);
  return launched(stream, "bn_moments");
}

__global__ void bn_running_kernel(const float *mean, const float *variance, const float *count, double keep,
                                  double momentum, float *running_mean, float *running_var,
                                  int64_t channels) {
  double n = *count, widen = n > 1 ? n / (n - 1) : 1;
  for (int64_t c = thread_index(); c < channels; c += thread_count()) {
    running_mean[c] = (float)(keep * running_mean[c] + momentum * mean[c]);
    running_var[c] = (float)(keep * running_var[c] + momentum * (variance[c] * widen));
  }
}

static ls_status_t bn_running(ls_stream_t *stream, args_t args) {
  int64_t channels = in_count(args, 0);
  double momentum = args->attrs->f[0];
  bn_running_kernel<<<grid_for(channels, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), in(args, 1), in(args, 2), 1 - momentum, momentum, out(args, 0), out(args, 1), channels);
  return launched(stream, "bn_running");
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

// ---- each element, with its channel's numbers ----
// y[r, c] = f of the inputs' elements there, with what f.of() reads for channel c once and f.at() for row r. A thread has
// N channels of several rows on their way at once; y may be an input.

constexpr int64_t CHANNEL_BLOCKS = 4096;

template <class T, int N, class F>
__global__ void __launch_bounds__(BLOCK, 2)
    channel_map_kernel(T *y, inputs<T, F::INPUTS> in, int64_t rows, int64_t width, F f) {
  constexpr int WAY = ON_THEIR_WAY;
  int64_t c = N * plane_column(), step = plane_row_step();
  if (c >= width) return;
  typename F::channel_t channel[N];
#pragma unroll
  for (int e = 0; e < N; e++)
    channel[e] = f.of(c + e);
  for (int64_t r = plane_row(); r < rows; r += WAY * step) {
    some<T, N> value[WAY][F::INPUTS];
#pragma unroll
    for (int k = 0; k < WAY; k++)
#pragma unroll
      for (int i = 0; i < F::INPUTS; i++)
        if (r + k * step < rows) value[k][i] = load<N>(in.of[i] + (r + k * step) * width + c);
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
      store(y + (r + k * step) * width + c, result);
    }
  }
}

template <class T, int N, class F>
static void channel_map_of(ls_stream_t *stream, T *y, inputs<T, F::INPUTS> in, int64_t rows, int64_t width,
                           F f) {
  dim3 grid;
  dim3 block = threads_across(width / N, &grid.x);
  int64_t most = CHANNEL_BLOCKS / grid.x;
  grid.y = grid_for(rows, block.y * ON_THEIR_WAY, most < 1 ? 1 : most);
  channel_map_kernel<T, N, F><<<grid, block, 0, ls_kernel_stream(stream)>>>(y, in, rows, width, f);
}

template <class T, class F>
static ls_status_t channel_map(ls_stream_t *stream, T *y, inputs<T, F::INPUTS> in, int64_t count,
                               int64_t width, const char *op, F f) {
  if (count <= 0) return LS_OK;
  bool even = width % WIDE<T> == 0 && aligned16(y, f.aligned());
  for (int i = 0; i < F::INPUTS; i++)
    even = even && aligned16(in.of[i]);
  auto *run = even ? channel_map_of<T, WIDE<T>, F> : channel_map_of<T, 1, F>;
  run(stream, y, in, count / width, width, f);
  return launched(stream, op);
}

// Most have nothing of a row.
struct no_row {};
struct channel_each {
  template <int N> __device__ no_row at(int64_t, int64_t) const { return {}; }
  const void *aligned() const { return nullptr; }
};

// F of the norm, plus what is added before F.
template <class F, bool ADDS> struct bn_apply_each : channel_each {
  static constexpr int INPUTS = ADDS ? 2 : 1;
  const float *mean, *rstd, *gamma, *beta;
  struct channel_t {
    float mean, scale, beta;
  };
  __device__ channel_t of(int64_t c) const { return {mean[c], rstd[c] * gamma[c], beta[c]}; }
  __device__ float operator()(const channel_t &k, no_row, int, const float *v) const {
    float z = (v[0] - k.mean) * k.scale + k.beta;
    return F::of(ADDS ? z + v[INPUTS - 1] : z);
  }
};

template <class F, bool ADDS> static ls_status_t apply(ls_stream_t *stream, args_t args, const char *op) {
  bn_apply_each<F, ADDS> f;
  f.mean = in(args, 1), f.rstd = in(args, 2), f.gamma = in(args, 3), f.beta = in(args, 4);
  BY_DTYPE(in_dtype(args, 0), inputs < T, ADDS ? 2 : 1 > from; from.of[0] = in<T>(args, 0);
           if (ADDS) from.of[ADDS] = in<T>(args, 5);
           return channel_map(stream, out<T>(args, 0), from, out_count(args, 0), in_count(args, 1), op, f))
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
  const float *gamma, *mean, *rstd, *weight, *sums, *count, *beta;
  int64_t positions, channels;
  struct channel_t {
    float mean, scale, s1, s2, beta;
  };
  __device__ channel_t of(int64_t c) const {
    float s2 = rstd[c] * (sums[channels + c] / *count);
    return {mean[c], gamma[c] * rstd[c], sums[c] / *count, s2, F::PLAIN ? 0 : beta[c]};
  }
  template <int N> __device__ bool at(int64_t r, int64_t) const { return weight[quotient(r, positions)] > 0; }
  __device__ float operator()(const channel_t &k, bool counts, int, const float *v) const {
    float d = v[1] - k.mean, g = F::PLAIN ? v[0] : F::back(v[0], d * k.scale + k.beta);
    return counts ? k.scale * (g - k.s1 - d * k.s2) : 0;
  }
};

template <class F> static ls_status_t back_dx(ls_stream_t *stream, args_t args, const char *op) {
  int64_t count = out_count(args, 0), channels = in_count(args, 2);
  bn_dx_each<F> f;
  f.gamma = in(args, 2), f.mean = in(args, 3), f.rstd = in(args, 4), f.weight = in(args, 5);
  f.sums = in(args, 6), f.count = in(args, 7), f.beta = F::PLAIN ? nullptr : in(args, 8);
  f.positions = count / channels / in_rows(args, 0), f.channels = channels;
  BY_DTYPE(in_dtype(args, 0), inputs<T, 2> from = {{in<T>(args, 0), in<T>(args, 1)}};
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
  int64_t positions, channels;
  float part;
  struct channel_t {};
  template <int N> struct row_t { some<T, N> s, b; };
  __device__ channel_t of(int64_t) const { return {}; }
  template <int N> __device__ row_t<N> at(int64_t r, int64_t c) const {
    int64_t from = quotient(r, positions) * channels + c;
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
  BY_DTYPE(in_dtype(args, 0), scale_each<T, ADDS> f = {in<T>(args, 1), ADDS ? in<T>(args, 2) : nullptr,
                                                       positions, channels, 1 / (float)positions};
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

const ls_kernel_row_t ls_cuda_channel_rows[] = {{"bias", bias, true},
                                                {"scale_channels", scale_channels, true},
                                                {"scale_add_mean", scale_add_mean, true},
                                                {"sum_leading", sum_leading, true},
                                                {"bn_sums", bn_sums, true},
                                                {"bn_moments", bn_moments},
                                                {"bn_running", bn_running},
                                                {"bn_apply", bn_apply, true},
                                                {"bn_back_sums", bn_back_sums, true},
                                                {"bn_dx", bn_dx, true},
                                                {"bn_act", bn_act, true},
                                                {"bn_add_act", bn_add_act, true},
                                                {"bn_act_back_sums", bn_act_back_sums, true},
                                                {"bn_act_dx", bn_act_dx, true},
                                                {"rsqrt_eps", rsqrt_eps},
                                                {}};
