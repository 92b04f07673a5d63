// Images (n, h, w, c) and sequences (n, t, c): pooling, means and single positions. Threads of a plane have a channel
// each, so neighbours read neighbouring numbers. Gradients gather instead of adding up: a thread sums, in the order of
// the windows, what reaches its element.
#include "device/cuda/block.cuh"

struct pool_shape {
  int64_t h, w, c, oh, ow;           // x, y
  int64_t kh, kw, sh, sw, top, left; // window, stride, padding
  bool padding_counts;               // in an average
  __device__ int64_t window_count(int64_t oy, int64_t ox) const {
    int64_t y0 = oy * sh - top, x0 = ox * sw - left;
    if (padding_counts) return kh * kw;
    int64_t y1 = y0 + kh < h ? y0 + kh : h, x1 = x0 + kw < w ? x0 + kw : w;
    return (y1 - (y0 > 0 ? y0 : 0)) * (x1 - (x0 > 0 ? x0 : 0));
  }
};

// x and y: shapes of the image and of its windows' results.
static pool_shape pool_of(args_t args, const int64_t x_side[2], int64_t channels, const ls_shape_t &y) {
  const int64_t *i = args->attrs->i;
  return {x_side[0], x_side[1], channels, y.dim[1], y.dim[2], i[0], i[1], i[2], i[3], i[4], i[5], i[10] != 0};
}

// Row r of y (n oh ow rows) as sample, oy, ox.
struct place_t {
  int64_t n, y, x;
};
__device__ static place_t place_of(int64_t r, int64_t h, int64_t w) {
  int64_t line = quotient(r, w), n = quotient(line, h);
  return {n, line - n * h, r - line * w};
}

// Threads of a plane have N channels each: as many as 16 bytes hold, where all positions begin at such places.
// Runs the statement with T and N, and the plane p of `rows`.
#define BY_CHANNELS(dtype, channels, aligned, rows, ...)                                                     \
  BY_DTYPE(                                                                                                  \
      dtype,                                                                                                 \
      if ((aligned) && (channels) % WIDE<T> == 0) {                                                          \
        constexpr int N = WIDE<T>;                                                                           \
        plane p = plane_for(rows, (channels) / N);                                                           \
        __VA_ARGS__;                                                                                         \
      } else {                                                                                               \
        constexpr int N = 1;                                                                                 \
        plane p = plane_for(rows, channels);                                                                 \
        __VA_ARGS__;                                                                                         \
      })

// A NaN is larger than all numbers before it and stays, as in the op's row; of equal values the first wins.
template <class T, int N>
__global__ void max_pool_kernel(const T *x, T *y, unsigned char *place, int64_t rows, pool_shape p) {
  int64_t c = N * plane_column();
  if (c >= p.c) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    place_t at = place_of(r, p.oh, p.ow);
    float best[N];
    some<unsigned char, N> best_at;
    bool any = false;
    for (int64_t ky = 0; ky < p.kh; ky++)
      for (int64_t kx = 0; kx < p.kw; kx++) {
        int64_t iy = at.y * p.sh - p.top + ky, ix = at.x * p.sw - p.left + kx;
        if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
        some<T, N> v = load<N>(x + ((at.n * p.h + iy) * p.w + ix) * p.c + c);
#pragma unroll
        for (int e = 0; e < N; e++)
          if (!any || v[e] > best[e] || (isnan(v[e]) && !isnan(best[e]))) {
            best[e] = v[e];
            best_at.v[e] = (unsigned char)(ky * p.kw + kx);
          }
        any = true;
      }
    store(y + r * p.c + c, best);
    *(some<unsigned char, N> *)(place + r * p.c + c) = best_at;
  }
}

template <class T, int N> __global__ void avg_pool_kernel(const T *x, T *y, int64_t rows, pool_shape p) {
  int64_t c = N * plane_column();
  if (c >= p.c) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    place_t at = place_of(r, p.oh, p.ow);
    float sum[N] = {}, count = (float)p.window_count(at.y, at.x);
    for (int64_t ky = 0; ky < p.kh; ky++)
      for (int64_t kx = 0; kx < p.kw; kx++) {
        int64_t iy = at.y * p.sh - p.top + ky, ix = at.x * p.sw - p.left + kx;
        if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
        some<T, N> v = load<N>(x + ((at.n * p.h + iy) * p.w + ix) * p.c + c);
#pragma unroll
        for (int e = 0; e < N; e++)
          sum[e] += v[e];
      }
#pragma unroll
    for (int e = 0; e < N; e++)
      sum[e] /= count;
    store(y + r * p.c + c, sum);
  }
}

// place NULL: an average.
template <class T, int N>
__global__ void pool_dx_kernel(const T *dy, const unsigned char *place, T *dx, int64_t rows, pool_shape p) {
  int64_t c = N * plane_column();
  if (c >= p.c) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    place_t at = place_of(r, p.h, p.w);
    int64_t y = at.y + p.top, x = at.x + p.left; // within the padded image
    int64_t oy0 = y < p.kh ? 0 : (y - p.kh) / p.sh + 1, ox0 = x < p.kw ? 0 : (x - p.kw) / p.sw + 1;
    float sum[N] = {};
    for (int64_t oy = oy0; oy < p.oh && oy * p.sh <= y; oy++)
      for (int64_t ox = ox0; ox < p.ow && ox * p.sw <= x; ox++) {
        int64_t from = ((at.n * p.oh + oy) * p.ow + ox) * p.c + c,
                here = (y - oy * p.sh) * p.kw + (x - ox * p.sw);
        some<T, N> v = load<N>(dy + from);
        some<unsigned char, N> at_place;
        if (place) at_place = *(const some<unsigned char, N> *)(place + from);
        float count = place ? 1 : (float)p.window_count(oy, ox);
#pragma unroll
        for (int e = 0; e < N; e++)
          if (!place || at_place.v[e] == here) sum[e] += v[e] / count;
      }
    store(dx + r * p.c + c, sum);
  }
}

static ls_status_t max_pool(ls_stream_t *stream, args_t args) {
  const ls_shape_t &x = args->in[0].shape, &y = args->out[0].shape;
  pool_shape s = pool_of(args, x.dim + 1, x.dim[3], y);
  int64_t rows = y.dim[0] * s.oh * s.ow;
  BY_CHANNELS(x.dtype, s.c, aligned16(in(args, 0), out(args, 0), out(args, 1)), rows,
              max_pool_kernel<T, N><<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
                  in<T>(args, 0), out<T>(args, 0), out<unsigned char>(args, 1), rows, s))
  return launched(stream, "max_pool");
}

static ls_status_t avg_pool(ls_stream_t *stream, args_t args) {
  const ls_shape_t &x = args->in[0].shape, &y = args->out[0].shape;
  pool_shape s = pool_of(args, x.dim + 1, x.dim[3], y);
  int64_t rows = y.dim[0] * s.oh * s.ow;
  BY_CHANNELS(x.dtype, s.c, aligned16(in(args, 0), out(args, 0)), rows,
              avg_pool_kernel<T, N>
              <<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(in<T>(args, 0), out<T>(args, 0), rows, s))
  return launched(stream, "avg_pool");
}

static ls_status_t pool_dx(ls_stream_t *stream, args_t args, const unsigned char *place, const char *op) {
  const ls_shape_t &dy = args->in[0].shape, &dx = args->out[0].shape;
  pool_shape s = pool_of(args, dx.dim + 1, dx.dim[3], dy);
  int64_t rows = dx.dim[0] * s.h * s.w;
  BY_CHANNELS(dy.dtype, s.c, aligned16(in(args, 0), out(args, 0), place), rows,
              pool_dx_kernel<T, N><<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
                  in<T>(args, 0), place, out<T>(args, 0), rows, s))
  return launched(stream, op);
}
static ls_status_t max_pool_dx(ls_stream_t *stream, args_t args) {
  return pool_dx(stream, args, in<unsigned char>(args, 1), "max_pool_dx");
}
static ls_status_t avg_pool_dx(ls_stream_t *stream, args_t args) {
  return pool_dx(stream, args, nullptr, "avg_pool_dx");
}

// ---- positions of a sample: (n, t, c), or images with all their positions ----

// y (n, c) = sum of a, or of a b, over the positions / divisor. A block has WARP times N channels of a sample; its rows
// of threads are added up in order.
template <class T, int N, bool PRODUCT>
__global__ void sum_positions_kernel(const T *a, const T *b, T *y, int64_t positions, int64_t channels,
                                     float divisor) {
  __shared__ float stripe[WARPS][WARP * N];
  int64_t n = blockIdx.x, c = ((int64_t)blockIdx.y * WARP + threadIdx.x) * N;
  float sum[N] = {};
  if (c < channels)
#pragma unroll 4
    for (int64_t t = threadIdx.y; t < positions; t += WARPS) {
      int64_t at = (n * positions + t) * channels + c;
      some<T, N> u = load<N>(a + at), v;
      if (PRODUCT) v = load<N>(b + at);
#pragma unroll
      for (int e = 0; e < N; e++)
        sum[e] += PRODUCT ? u[e] * v[e] : u[e];
    }
#pragma unroll
  for (int e = 0; e < N; e++)
    stripe[threadIdx.y][threadIdx.x * N + e] = sum[e];
  __syncthreads();
  for (int i = threadIdx.y * WARP + threadIdx.x; i < WARP * N; i += BLOCK) {
    int64_t to = (int64_t)blockIdx.y * WARP * N + i;
    float total = 0;
#pragma unroll
    for (int s = 0; s < WARPS; s++)
      total += stripe[s][i];
    if (to < channels) y[n * channels + to] = rounded<T>(total / divisor);
  }
}

template <bool PRODUCT>
static ls_status_t sum_positions(ls_stream_t *stream, args_t args, bool mean, const char *op) {
  int64_t n = in_rows(args, 0), c = out_count(args, 0) / n, t = in_count(args, 0) / (n * c);
  bool aligned = aligned16(in(args, 0), PRODUCT ? in(args, 1) : nullptr);
  BY_DTYPE(in_dtype(args, 0), bool wide = aligned && c % WIDE<T> == 0;
           auto *kernel =
               wide ? sum_positions_kernel<T, WIDE<T>, PRODUCT> : sum_positions_kernel<T, 1, PRODUCT>;
           int64_t across = wide ? WARP * WIDE<T> : WARP;
           kernel<<<dim3((unsigned)n, (unsigned)((c + across - 1) / across)), dim3(WARP, WARPS), 0,
                    ls_kernel_stream(stream)>>>(in<T>(args, 0), PRODUCT ? in<T>(args, 1) : nullptr,
                                                out<T>(args, 0), t, c, mean ? (float)t : 1))
  return launched(stream, op);
}

static ls_status_t mean_positions(ls_stream_t *stream, args_t args) {
  return sum_positions<false>(stream, args, true, "mean_positions");
}
static ls_status_t scale_channels_ds(ls_stream_t *stream, args_t args) {
  return sum_positions<true>(stream, args, false, "scale_channels_ds");
}

// Position `only` of each sample gets dy / divisor, the others 0; only -1: all get it.
template <class T, int N>
__global__ void spread_positions_kernel(const T *dy, T *dx, int64_t rows, int64_t positions, int64_t channels,
                                        int64_t only, float divisor) {
  int64_t c = N * plane_column();
  if (c >= channels) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    int64_t n = quotient(r, positions);
    bool here = only < 0 || r - n * positions == only;
    float value[N] = {};
    if (here) {
      some<T, N> v = load<N>(dy + n * channels + c);
#pragma unroll
      for (int e = 0; e < N; e++)
        value[e] = v[e] / divisor;
    }
    store(dx + r * channels + c, value);
  }
}

static ls_status_t spread_positions(ls_stream_t *stream, args_t args, int64_t positions, int64_t only,
                                    float divisor, const char *op) {
  int64_t n = in_rows(args, 0), c = in_width(args, 0);
  BY_CHANNELS(in_dtype(args, 0), c, aligned16(in(args, 0), out(args, 0)), n * positions,
              spread_positions_kernel<T, N><<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
                  in<T>(args, 0), out<T>(args, 0), n * positions, positions, c, only, divisor))
  return launched(stream, op);
}

static ls_status_t mean_positions_dx(ls_stream_t *stream, args_t args) {
  int64_t positions = out_count(args, 0) / in_count(args, 0);
  return spread_positions(stream, args, positions, -1, (float)positions, "mean_positions_dx");
}

// The position that i[0] names, -1 being the last.
static int64_t position_of(args_t args, int64_t positions) {
  int64_t index = args->attrs->i[0];
  return index < 0 ? index + positions : index;
}

static ls_status_t take_position(ls_stream_t *stream, args_t args) {
  int64_t n = in_rows(args, 0), c = out_count(args, 0) / n, t = in_count(args, 0) / (n * c);
  size_t each = (size_t)c * ls_dtype_bytes(in_dtype(args, 0));
  cudaError_t error = cudaMemcpy2DAsync(
      out(args, 0), each, in<char>(args, 0) + (size_t)position_of(args, t) * each, (size_t)t * each, each,
      (size_t)n, cudaMemcpyDeviceToDevice, ls_kernel_stream(stream));
  return ls_kernel_status(stream, error, "take_position");
}

static ls_status_t take_position_dx(ls_stream_t *stream, args_t args) {
  int64_t positions = out_count(args, 0) / in_count(args, 0);
  return spread_positions(stream, args, positions, position_of(args, positions), 1, "take_position_dx");
}

// y[b, t] = x[b, t - by], 0 where that is none: what a chain in time multiplies with its gradients.
template <class T, int N>
__global__ void shift_positions_kernel(const T *x, T *y, int64_t rows, int64_t positions, int64_t channels,
                                       int64_t by) {
  int64_t c = N * plane_column();
  if (c >= channels) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    int64_t from = r - quotient(r, positions) * positions - by;
    some<T, N> v = {};
    if (from >= 0 && from < positions) v = load<N>(x + (r - by) * channels + c);
    *(some<T, N> *)(y + r * channels + c) = v;
  }
}

static ls_status_t shift_positions(ls_stream_t *stream, args_t args) {
  int64_t n = in_rows(args, 0), t = args->in[0].shape.dim[1], c = in_width(args, 0) / t;
  BY_CHANNELS(in_dtype(args, 0), c, aligned16(in(args, 0), out(args, 0)), n * t,
              shift_positions_kernel<T, N><<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
                  in<T>(args, 0), out<T>(args, 0), n * t, t, c, args->attrs->i[0]))
  return launched(stream, "shift_positions");
}

const ls_kernel_row_t ls_cuda_image_rows[] = {{"max_pool", max_pool, true},
                                              {"max_pool_dx", max_pool_dx, true},
                                              {"avg_pool", avg_pool, true},
                                              {"avg_pool_dx", avg_pool_dx, true},
                                              {"mean_positions", mean_positions, true},
                                              {"mean_positions_dx", mean_positions_dx, true},
                                              {"take_position", take_position, true},
                                              {"take_position_dx", take_position_dx, true},
                                              {"shift_positions", shift_positions, true},
                                              {"scale_channels_ds", scale_channels_ds, true},
                                              {}};
