// Batch norm's sums over rows, for each channel, and what they give: moments and running statistics.
// A thread has N neighbouring channels, a block a group of channels and one part of the rows. Its rows of threads are added
// up in order and go to the workspace as f64 (part, 2, channels); the last block of the group adds up the parts. All of
// that is in f64; but a thread adds 16-bit numbers in f32.
#include "device/cuda/channel.cuh"
#include "device/mean.h"

constexpr int SUM_THREADS = 512, SUM_CHANNELS = 64, SUM_GROUPS = 64, PART_ROWS = 32;
static_assert(SUM_GROUPS * sizeof(unsigned) <= LS_KERNEL_COUNTER_BYTES,
              "a counter for each group of a launch");

template <class T> struct sum_of { typedef float type; };
template <> struct sum_of<float> { typedef double type; };

// Terms of an element of a sample that counts. of() reads what belongs to the channel. Where a term MAKES, make() is the
// first input's value from then on, and is written. result() is what the channel gets of both sums, of which `count` rows
// were terms.
struct reading_term {
  static constexpr bool MAKES = false;
  const void *aligned() const { return nullptr; }
};

// x - centre and its square, where the centre is the channel's first element: nothing cancels, however far the shift is. The
// result is around the shift.
template <class T> struct moment_term : reading_term {
  typedef typename sum_of<T>::type S;
  typedef double result_t;
  static constexpr int INPUTS = 1, RESIDENT = sizeof(S) == 4 ? 2 : 1, ON_THEIR_WAY = 3;
  const T *x;
  const float *weight, *shift;
  struct channel_t {
    S centre;
  };
  __device__ float centre(int64_t c) const { return weight[0] > 0 ? f32_of(x[c]) : shift[c]; }
  __device__ channel_t of(int64_t c) const { return {(S)centre(c)}; }
  __device__ double result(int which, const double *sum, double count, int64_t c) const {
    double d = (double)centre(c) - shift[c];
    return which ? sum[1] + d * (2 * sum[0] + count * d) : sum[0] + count * d;
  }
  __device__ void at(const channel_t &k, const float *v, S *a, S *b) const {
    S d = (S)v[0] - k.centre;
    *a += d;
    *b += d * d;
  }
};

// g and g xhat, where g is dy through the function F behind the norm; rstd is a factor of the whole sum.
template <class S, class F> struct back_term : reading_term {
  typedef float result_t;
  static constexpr int INPUTS = 2, RESIDENT = 1, ON_THEIR_WAY = 3; // dy, x
  const float *mean, *rest, *rstd, *gamma, *beta;
  struct channel_t {
    S mean;
    float scale, beta;
  };
  __device__ channel_t of(int64_t c) const {
    if (F::PLAIN) return {(S)mean[c], 0, 0};
    float scale = rstd[c] * gamma[c];
    return {(S)mean[c], scale, beta[c] - rest_of(rest, c) * scale};
  }
  __device__ float result(int which, const double *sum, double, int64_t c) const {
    return (float)(which ? (sum[1] - (double)rest_of(rest, c) * sum[0]) * rstd[c] : sum[0]);
  }
  __device__ void at(const channel_t &k, const float *v, S *a, S *b) const {
    float g = F::PLAIN ? v[0] : F::back(v[0], (v[1] - (float)k.mean) * k.scale + k.beta);
    *a += (S)g;
    *b += (S)g * ((S)v[1] - k.mean);
  }
};

// The sum of what comes back to a residual block's relu, through that relu: a, x, b, the relu's result.
template <class T> struct residual_term : back_term<typename sum_of<T>::type, no_function<T>> {
  static constexpr int INPUTS = 4, ON_THEIR_WAY = 2;
  static constexpr bool MAKES = true;
  T *made;
  __device__ float make(const float *v) const { return ls_each_relu_dy(v[0] + v[2], v[3]); }
  const void *aligned() const { return made; }
};

// Where the results of a channel go: `both` (2, channels), and one by one where wanted. count: of the rows that count.
template <class R> struct channel_sums { R *both, *each[2], *count; };

// The column's sum over `rows` rows of at(row, column), for the threads below `columns`; added up in an order that depends
// on the block alone. slice: SUM_THREADS numbers. AT_ONCE of them are on their way together.
template <class F> __device__ static double column_sum(double *slice, int rows, int columns, F at) {
  constexpr int AT_ONCE = 16;
  int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x),
      slices = (int)(blockDim.x * blockDim.y) / columns;
  int c = thread % columns;
  double sum = 0;
  for (int r = thread / columns; r < rows && thread / columns < slices; r += AT_ONCE * slices) {
    double value[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
      value[k] = at(r + k * slices < rows ? r + k * slices : r, c);
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
      sum += r + k * slices < rows ? value[k] : 0;
  }
  slice[thread] = sum;
  __syncthreads();
  sum = 0;
  for (int k = 0; k < slices && thread < columns; k++)
    sum += slice[k * columns + thread];
  __syncthreads();
  return sum;
}

// Samples of weight 0 count nowhere. first: the first group of this launch; arrived: a counter for each.
template <class T, int N, class F>
__global__ void __launch_bounds__(SUM_THREADS, F::RESIDENT)
    channel_sum_kernel(inputs<T, F::INPUTS> in, F term, const float *weight,
                       channel_sums<typename F::result_t> out, double *part, unsigned *arrived, int rows,
                       quick_divisor positions, int samples, int64_t channels, int first) {
  typedef typename sum_of<T>::type S;
  constexpr int WAY = F::ON_THEIR_WAY; // rows that a thread reads at once, while it adds as many
  extern __shared__ float4 shared[];
  int wide = (int)blockDim.x * N, stripes = (int)blockDim.y, columns = 2 * wide;
  double *slice = (double *)shared;       // SUM_THREADS
  S *stripe = (S *)(slice + SUM_THREADS); // (2, stripes, channels of the block)
  int64_t base = (int64_t)(first + blockIdx.x) * wide, c = base + (int)threadIdx.x * N;
  int chunk = (rows + (int)gridDim.y - 1) / (int)gridDim.y, begin = (int)blockIdx.y * chunk;
  int end = begin + chunk < rows ? begin + chunk : rows;
  S sum[2][N] = {};
  typename F::channel_t channel[N];
  struct {
    some<T, N> value[WAY][F::INPUTS];
    bool counts[WAY];
  } now, next;
  auto fetch = [&](int r) {
#pragma unroll
    for (int k = 0; k < WAY; k++) {
      int at = r + k * stripes;
      next.counts[k] = at < end && weight[positions.of((uint32_t)at)] > 0;
#pragma unroll
      for (int i = 0; i < F::INPUTS; i++)
        if (at < end) next.value[k][i] = load<N>(in.of[i] + (int64_t)at * channels + c);
    }
  };
  if (c < channels) fetch(begin + (int)threadIdx.y);
  channels_of<N>(term, base, channels, (typename F::channel_t *)(stripe + 2 * SUM_THREADS * N), channel);
  if (c < channels) {
#pragma unroll 2
    for (int r = begin + (int)threadIdx.y; r < end; r += WAY * stripes) {
      now = next;
      fetch(r + WAY * stripes);
#pragma unroll
      for (int k = 0; k < WAY; k++) {
        float made[N];
#pragma unroll
        for (int e = 0; e < N; e++) {
          float v[F::INPUTS];
#pragma unroll
          for (int i = 0; i < F::INPUTS; i++)
            v[i] = now.value[k][i][e];
          if constexpr (F::MAKES) made[e] = v[0] = term.make(v);
          if (now.counts[k]) term.at(channel[e], v, &sum[0][e], &sum[1][e]);
        }
        if constexpr (F::MAKES)
          if (r + k * stripes < end) store(term.made + (int64_t)(r + k * stripes) * channels + c, made);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < 2; k++)
#pragma unroll
    for (int e = 0; e < N; e++)
      stripe[(k * stripes + (int)threadIdx.y) * wide + (int)threadIdx.x * N + e] = sum[k][e];
  __syncthreads();
  int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x), which = thread / wide;
  int64_t to = base + thread % wide;
  bool mine = thread < columns && to < channels;
  double total = column_sum(slice, stripes, columns, [&](int r, int column) {
    return (double)stripe[(column / wide * stripes + r) * wide + column % wide];
  });
  if (mine) part[((int64_t)blockIdx.y * 2 + which) * channels + to] = total;
  if (!last_of(arrived + blockIdx.x, gridDim.y)) return;
  __shared__ double counted;
  if (out.count && thread < WARP) {
    int count = 0;
#pragma unroll 8
    for (int n = thread; n < samples; n += WARP)
      count += weight[n] > 0;
    count = warp_sum(count);
    if (thread == 0) counted = (double)count * (double)(rows / samples);
    if (thread == 0 && base == 0) *out.count = counted;
  }
  const double *from = part + which % 2 * channels + (to < channels ? to : base);
  total = column_sum(slice, (int)gridDim.y, columns,
                     [&](int r, int) { return __ldcg(from + (int64_t)r * 2 * channels); });
  slice[thread] = total;
  __syncthreads();
  if (mine) {
    const double both[] = {slice[thread % wide], slice[wide + thread % wide]};
    typename F::result_t value = term.result(which, both, counted, to);
    out.both[which * channels + to] = value;
    if (out.each[which]) out.each[which][to] = value;
  }
}

template <class T, int N, class F>
static ls_status_t channel_sum_of(ls_stream_t *stream, inputs<T, F::INPUTS> in, F term, const ls_tensor_t *x,
                                  const float *weight, channel_sums<typename F::result_t> out,
                                  const char *op) {
  int64_t channels = x->shape.dim[x->shape.rank - 1], rows = ls_shape_count(&x->shape) / channels;
  int64_t samples = x->shape.dim[0];
  size_t workspace_bytes;
  double *part = (double *)ls_kernel_workspace(stream, &workspace_bytes);
  unsigned groups;
  dim3 block = threads_across(channels / N, SUM_THREADS, SUM_CHANNELS / N, &groups);
  int64_t most = (int64_t)(workspace_bytes / (2 * sizeof(double))) / channels;
  if (most < 1 || rows > ROWS_MAX)
    return ls_kernel_status(stream, cudaErrorInvalidValue, "batch norm of too many channels or positions");
  if (most > MULTIPROCESSORS * F::RESIDENT / groups) most = MULTIPROCESSORS * F::RESIDENT / groups;
  unsigned parts = grid_for(rows, PART_ROWS, most < 1 ? 1 : most);
  size_t shared_bytes = SUM_THREADS * (sizeof(double) + 2 * N * sizeof(typename sum_of<T>::type)) +
                        block.x * N * sizeof(typename F::channel_t);
  for (unsigned first = 0; first < groups; first += SUM_GROUPS) {
    unsigned count = groups - first < SUM_GROUPS ? groups - first : SUM_GROUPS;
    channel_sum_kernel<T, N, F><<<dim3(count, parts), block, shared_bytes, ls_kernel_stream(stream)>>>(
        in, term, weight, out, part, (unsigned *)ls_kernel_scratch(stream), (int)rows,
        quick_divisor(rows / samples), (int)samples, channels, (int)first);
  }
  return launched(stream, op);
}

// N channels to a thread where all rows begin at a multiple of 16 bytes.
template <class T, class F>
static ls_status_t channel_sum(ls_stream_t *stream, inputs<T, F::INPUTS> in, F term, const ls_tensor_t *x,
                               const float *weight, channel_sums<typename F::result_t> out, const char *op) {
  bool even = x->shape.dim[x->shape.rank - 1] % WIDE<T> == 0 && aligned16(term.aligned());
  for (int i = 0; i < F::INPUTS; i++)
    even = even && aligned16(in.of[i]);
  auto *run = even ? channel_sum_of<T, WIDE<T>, F> : channel_sum_of<T, 1, F>;
  return run(stream, in, term, x, weight, out, op);
}

// (x, weight, shift) -> f64: count, sums, squares.
static ls_status_t bn_sums(ls_stream_t *stream, args_t args) {
  double *sums = (double *)args->out[0].data;
  channel_sums<double> to = {sums + 1, {}, sums};
  BY_DTYPE(in_dtype(args, 0), inputs<T, 1> from = {{in<T>(args, 0)}};
           moment_term<T> term = {{}, in<T>(args, 0), in(args, 1), in(args, 2)};
           return channel_sum(stream, from, term, &args->in[0], in(args, 1), to, "bn_sums"))
}

// (dy, x, mean, rstd, weight) -> s1 and s2, s1, s2; behind a function: gamma, beta as well.
template <template <class> class F>
static ls_status_t back_sums(ls_stream_t *stream, args_t args, const char *op) {
  channel_sums<float> to = {out(args, 0), {out(args, 1), out(args, 2)}, nullptr};
  BY_DTYPE(in_dtype(args, 0), inputs<T, 2> from = {{in<T>(args, 0), in<T>(args, 1)}};
           back_term<typename sum_of<T>::type, F<T>> term = {{},
                                                             in(args, 2),
                                                             ls_mean_rest(&args->in[2]),
                                                             in(args, 3),
                                                             F<T>::PLAIN ? nullptr : in(args, 5),
                                                             F<T>::PLAIN ? nullptr : in(args, 6)};
           return channel_sum(stream, from, term, &args->in[0], in(args, 4), to, op))
}
static ls_status_t bn_back_sums(ls_stream_t *stream, args_t args) {
  return back_sums<no_function>(stream, args, "bn_back_sums");
}
static ls_status_t bn_act_back_sums(ls_stream_t *stream, args_t args) {
  auto *run = args->attrs->i[0] == LS_BEHIND_SILU ? back_sums<silu_function> : back_sums<relu_function>;
  return run(stream, args, "bn_act_back_sums");
}

// (a, b, y, x, mean, rstd, weight) -> dz, s1 and s2, s1, s2.
static ls_status_t bn_add_act_back_sums(ls_stream_t *stream, args_t args) {
  channel_sums<float> to = {out(args, 1), {out(args, 2), out(args, 3)}, nullptr};
  BY_DTYPE(
      in_dtype(args, 0),
      inputs<T, 4> from = {{in<T>(args, 0), in<T>(args, 3), in<T>(args, 1), in<T>(args, 2)}};
      residual_term<T> term = {{{}, in(args, 4), ls_mean_rest(&args->in[4]), in(args, 5)}, out<T>(args, 0)};
      return channel_sum(stream, from, term, &args->in[0], in(args, 6), to, "bn_add_act_back_sums"))
}

// ---- a thread for each channel ----

// running_mean NULL: moments alone; else it is the shift. mean: (2, channels).
__global__ void bn_moments_kernel(const double *sums, const float *shift, double eps, double momentum,
                                  float *mean, float *rstd, float *running_mean, float *running_var,
                                  int64_t channels) {
  double count = sums[0] > 0 ? sums[0] : 1, widen = count > 1 ? count / (count - 1) : 1;
  if (!(sums[0] > 0)) momentum = 0; // nothing counts
  for (int64_t c = thread_index(); c < channels; c += thread_count()) {
    double d = sums[1 + c] / count, v = sums[1 + channels + c] / count - d * d;
    double m = (running_mean ? running_mean : shift)[c] + d;
    if (v < 0) v = 0;
    mean[c] = (float)m;
    mean[channels + c] = (float)(m - (float)m);
    rstd[c] = (float)(1 / sqrt(v + eps));
    if (!running_mean) continue;
    running_mean[c] = (float)((1 - momentum) * running_mean[c] + momentum * m);
    running_var[c] = (float)((1 - momentum) * running_var[c] + momentum * (v * widen));
  }
}

static ls_status_t moments(ls_stream_t *stream, args_t args, bool track, const char *op) {
  int64_t channels = out_count(args, 1);
  const double *f = args->attrs->f;
  bn_moments_kernel<<<grid_for(channels, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      (const double *)args->in[0].data, track ? nullptr : in(args, 1), f[0], f[1], out(args, 0), out(args, 1),
      track ? out(args, 2) : nullptr, track ? out(args, 3) : nullptr, channels);
  return launched(stream, op);
}
static ls_status_t bn_moments(ls_stream_t *stream, args_t args) {
  return moments(stream, args, false, "bn_moments");
}
static ls_status_t bn_track(ls_stream_t *stream, args_t args) {
  return moments(stream, args, true, "bn_track");
}

const ls_kernel_row_t ls_cuda_channel_sum_rows[] = {{"bn_sums", bn_sums, true},
                                                    {"bn_moments", bn_moments},
                                                    {"bn_track", bn_track},
                                                    {"bn_back_sums", bn_back_sums, true},
                                                    {"bn_act_back_sums", bn_act_back_sums, true},
                                                    {"bn_add_act_back_sums", bn_add_act_back_sums, true},
                                                    {}};
