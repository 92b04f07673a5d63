// What has a number for each channel, the last dimension: batch norm in parts, vectors added to the trailing
// dimensions, and factors. Sums over rows are in f64.
#include "device/cuda/block.cuh"

// ---- sums over the rows of (rows, channels) ----
// A block takes 32 channels and one part of the rows; its STRIPES rows of threads are added up in order. The parts go to
// scratch as f64 (part, 2, channels), and a second kernel adds them up.

constexpr int STRIPES = 8;
constexpr int64_t PART_ROWS = 64, PART_MAX = 512;

// Terms of element i, 0 if its sample has no weight. of() reads what belongs to the channel.

// Sums of x - shift and of its square.
struct moment_term {
  const float *x, *shift;
  struct channel_t {
    double shift;
  };
  __device__ channel_t of(int64_t c) const { return {shift[c]}; }
  __device__ void at(const channel_t &k, int64_t i, bool counts, double *a, double *b) const {
    double v = x[i], d = counts ? v - k.shift : 0;
    *a += d;
    *b += d * d;
  }
};

// Sums of dy and of dy xhat.
struct back_term {
  const float *dy, *x, *mean, *rstd;
  struct channel_t {
    double mean, rstd;
  };
  __device__ channel_t of(int64_t c) const { return {mean[c], rstd[c]}; }
  __device__ void at(const channel_t &k, int64_t i, bool counts, double *a, double *b) const {
    double d = dy[i], v = x[i];
    *a += counts ? d : 0;
    *b += counts ? d * ((v - k.mean) * k.rstd) : 0;
  }
};

// Samples of weight 0 count nowhere; each has `positions` rows.
template <class T>
__global__ void channel_sum_kernel(T term, const float *weight, double *part, int64_t rows, int64_t positions,
                                   int64_t channels) {
  __shared__ double stripe[STRIPES][2][WARP];
  int64_t c = (int64_t)blockIdx.x * WARP + threadIdx.x;
  int64_t chunk = (rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * chunk;
  int64_t end = begin + chunk < rows ? begin + chunk : rows;
  double sum[2] = {};
  if (c < channels) {
    const typename T::channel_t channel = term.of(c);
#pragma unroll 4
    for (int64_t r = begin + threadIdx.y; r < end; r += STRIPES)
      term.at(channel, r * channels + c, weight[quotient(r, positions)] > 0, &sum[0], &sum[1]);
  }
  stripe[threadIdx.y][0][threadIdx.x] = sum[0];
  stripe[threadIdx.y][1][threadIdx.x] = sum[1];
  __syncthreads();
  int k = threadIdx.y;
  if (k >= 2 || c >= channels) return;
  double total = 0;
#pragma unroll
  for (int s = 0; s < STRIPES; s++)
    total += stripe[s][k][threadIdx.x];
  part[((int64_t)blockIdx.y * 2 + k) * channels + c] = total;
}

// The parts' sums, as blocks of WARP numbers and STRIPES rows of threads. count NULL: not wanted.
__global__ void channel_sum_join(const double *part, const float *weight, float *out, float *count,
                                 int64_t samples, int64_t positions, int64_t channels, int parts) {
  __shared__ double stripe[STRIPES][WARP];
  int64_t i = (int64_t)blockIdx.x * WARP + threadIdx.x;
  double sum = 0;
  if (i < 2 * channels)
    for (int p = threadIdx.y; p < parts; p += STRIPES)
      sum += part[(int64_t)p * 2 * channels + i];
  stripe[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && i < 2 * channels) {
    sum = 0;
#pragma unroll
    for (int s = 0; s < STRIPES; s++)
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

template <class T>
static ls_status_t channel_sum(ls_stream_t *stream, T term, const ls_tensor_t *x, const float *weight,
                               float *out, float *count, const char *op) {
  int64_t channels = x->shape.dim[x->shape.rank - 1], rows = ls_shape_count(&x->shape) / channels;
  int64_t samples = x->shape.dim[0], positions = rows / samples;
  int64_t fit = LS_KERNEL_PARTIAL_MAX / (2 * channels);
  if (fit < 1)
    return ls_kernel_status(stream, cudaErrorInvalidValue, "batch norm of more than 32768 channels");
  unsigned parts = grid_for(rows, PART_ROWS, fit < PART_MAX ? fit : PART_MAX);
  double *part = partial_of(ls_kernel_scratch(stream));
  dim3 grid(grid_for(channels, WARP, INT32_MAX), parts);
  channel_sum_kernel<<<grid, dim3(WARP, STRIPES), 0, ls_kernel_stream(stream)>>>(term, weight, part, rows,
                                                                                 positions, channels);
  channel_sum_join<<<grid_for(2 * channels, WARP, INT32_MAX), dim3(WARP, STRIPES), 0,
                     ls_kernel_stream(stream)>>>(part, weight, out, count, samples, positions, channels,
                                                 (int)parts);
  return launched(stream, op);
}

// (x, weight, shift) -> count, sums, squares.
static ls_status_t bn_sums(ls_stream_t *stream, args_t args) {
  return channel_sum(stream, moment_term{in(args, 0), in(args, 2)}, &args->in[0], in(args, 1),
                     out(args, 0) + 1, out(args, 0), "bn_sums");
}

// (dy, x, mean, rstd, weight) -> s1, s2.
static ls_status_t bn_back_sums(ls_stream_t *stream, args_t args) {
  back_term term = {in(args, 0), in(args, 1), in(args, 2), in(args, 3)};
  return channel_sum(stream, term, &args->in[0], in(args, 4), out(args, 0), nullptr, "bn_back_sums");
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
// y[r, c] = f of element i in row r, with what f.of() reads for channel c once. A thread has several elements on their
// way at once; y may be an input.

constexpr int ON_THEIR_WAY = 4;
constexpr int64_t CHANNEL_BLOCKS = 4096;

template <class F> __global__ void channel_map_kernel(float *y, int64_t rows, int64_t width, F f) {
  int64_t c = plane_column(), step = plane_row_step();
  if (c >= width) return;
  const typename F::channel_t channel = f.of(c);
  for (int64_t r = plane_row(); r < rows; r += ON_THEIR_WAY * step) {
    float value[ON_THEIR_WAY];
#pragma unroll
    for (int e = 0; e < ON_THEIR_WAY; e++)
      if (r + e * step < rows) value[e] = f(channel, (r + e * step) * width + c, r + e * step);
#pragma unroll
    for (int e = 0; e < ON_THEIR_WAY; e++)
      if (r + e * step < rows) y[(r + e * step) * width + c] = value[e];
  }
}

template <class F>
static ls_status_t channel_map(ls_stream_t *stream, float *y, int64_t count, int64_t width, const char *op,
                               F f) {
  if (count <= 0) return LS_OK;
  int64_t rows = count / width;
  plane p = plane_for(rows, width);
  int64_t most = CHANNEL_BLOCKS / p.grid.x;
  p.grid.y = grid_for(rows, p.block.y, most < 1 ? 1 : most);
  channel_map_kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(y, rows, width, f);
  return launched(stream, op);
}

struct bn_apply_each {
  const float *x, *mean, *rstd, *gamma, *beta;
  struct channel_t {
    float mean, rstd, gamma, beta;
  };
  __device__ channel_t of(int64_t c) const { return {mean[c], rstd[c], gamma[c], beta[c]}; }
  __device__ float operator()(const channel_t &k, int64_t i, int64_t) const {
    return (x[i] - k.mean) * k.rstd * k.gamma + k.beta;
  }
};

static ls_status_t bn_apply(ls_stream_t *stream, args_t args) {
  bn_apply_each f = {in(args, 0), in(args, 1), in(args, 2), in(args, 3), in(args, 4)};
  return channel_map(stream, out(args, 0), out_count(args, 0), in_count(args, 1), "bn_apply", f);
}

struct bn_dx_each {
  const float *dy, *x, *gamma, *mean, *rstd, *weight, *sums, *count;
  int64_t positions, channels;
  struct channel_t {
    float mean, rstd, scale, s1, s2;
  };
  __device__ channel_t of(int64_t c) const {
    return {mean[c], rstd[c], gamma[c] * rstd[c], sums[c] / *count, sums[channels + c] / *count};
  }
  __device__ float operator()(const channel_t &k, int64_t i, int64_t r) const {
    float h = (x[i] - k.mean) * k.rstd;
    return weight[quotient(r, positions)] > 0 ? k.scale * (dy[i] - k.s1 - h * k.s2) : 0;
  }
};

static ls_status_t bn_dx(ls_stream_t *stream, args_t args) {
  int64_t count = out_count(args, 0), channels = in_count(args, 2);
  bn_dx_each f = {in(args, 0), in(args, 1), in(args, 2),
                  in(args, 3), in(args, 4), in(args, 5),
                  in(args, 6), in(args, 7), count / channels / in_rows(args, 0),
                  channels};
  return channel_map(stream, out(args, 0), count, channels, "bn_dx", f);
}

struct bias_each {
  const float *x, *b;
  struct channel_t {
    float b;
  };
  __device__ channel_t of(int64_t c) const { return {b[c]}; }
  __device__ float operator()(const channel_t &k, int64_t i, int64_t) const { return x[i] + k.b; }
};

static ls_status_t bias(ls_stream_t *stream, args_t args) {
  return channel_map(stream, out(args, 0), out_count(args, 0), in_count(args, 1), "bias",
                     bias_each{in(args, 0), in(args, 1)});
}

struct scale_each {
  const float *x, *s;
  int64_t positions, channels;
  struct channel_t {
    int64_t c;
  };
  __device__ channel_t of(int64_t c) const { return {c}; }
  __device__ float operator()(const channel_t &k, int64_t i, int64_t r) const {
    return x[i] * s[quotient(r, positions) * channels + k.c];
  }
};

static ls_status_t scale_channels(ls_stream_t *stream, args_t args) {
  int64_t count = out_count(args, 0), channels = in_width(args, 1);
  scale_each f = {in(args, 0), in(args, 1), count / in_count(args, 1), channels};
  return channel_map(stream, out(args, 0), count, channels, "scale_channels", f);
}

static ls_status_t sum_leading(ls_stream_t *stream, args_t args) {
  int64_t width = out_count(args, 0);
  int error = ls_kernel_column_sum(ls_kernel_stream(stream), ls_kernel_scratch(stream), in(args, 0),
                                   out(args, 0), in_count(args, 0) / width, width);
  return ls_kernel_status(stream, error, "sum_leading");
}

const ls_kernel_row_t ls_cuda_channel_rows[] = {{"bias", bias},
                                                {"scale_channels", scale_channels},
                                                {"sum_leading", sum_leading},
                                                {"bn_sums", bn_sums},
                                                {"bn_moments", bn_moments},
                                                {"bn_running", bn_running},
                                                {"bn_apply", bn_apply},
                                                {"bn_back_sums", bn_back_sums},
                                                {"bn_dx", bn_dx},
                                                {"rsqrt_eps", rsqrt_eps},
                                                {}};
