// Images (n, h, w, c) and sequences (n, t, c): pooling, means and single positions. Threads of a plane have a channel
// each, so neighbours read neighbouring numbers. Gradients gather instead of adding up: a thread sums, in the order of
// the windows, what reaches its element.
#include "device/cuda/block.cuh"

struct pool_shape {
  int h, w, c, oh, ow;           // x, y
  int kh, kw, sh, sw, top, left; // window, stride, padding
  bool padding_counts;           // in an average
  int rows, columns;             // of an image that the kernel writes
  quick_divisor line, image;
  __device__ int window_count(int oy, int ox) const {
    int y0 = oy * sh - top, x0 = ox * sw - left;
    if (padding_counts) return kh * kw;
    int y1 = y0 + kh < h ? y0 + kh : h, x1 = x0 + kw < w ? x0 + kw : w;
    return (y1 - (y0 > 0 ? y0 : 0)) * (x1 - (x0 > 0 ? x0 : 0));
  }
  // Row r of what the kernel writes as sample, y, x.
  struct place {
    int n, y, x;
  };
  __device__ place of(int r) const {
    int at = (int)line.of((uint32_t)r), n = (int)image.of((uint32_t)at);
    return {n, at - n * rows, r - at * columns};
  }
};

// x: height and width of the image; y: the shape of its windows' results; out: what is written.
static pool_shape pool_of(args_t args, const int64_t x_side[2], const ls_shape_t &y, const ls_shape_t &out) {
  const int64_t *i = args->attrs->i;
  return {(int)x_side[0],
          (int)x_side[1],
          (int)y.dim[3],
          (int)y.dim[1],
          (int)y.dim[2],
          (int)i[0],
          (int)i[1],
          (int)i[2],
          (int)i[3],
          (int)i[4],
          (int)i[5],
          i[10] != 0,
          (int)out.dim[1],
          (int)out.dim[2],
          quick_divisor(out.dim[2]),
          quick_divisor(out.dim[1])};
}

// A NaN is larger than all numbers before it and stays, as in the op's row; of equal values the first wins. K: the side of
// the window, whose numbers then are on their way at once; 0: any.
template <class T, int N, int K>
__global__ void max_pool_kernel(const T *x, T *y, unsigned char *place, int rows, pool_shape p) {
  int c = N * (int)plane_column(), kh = K ? K : p.kh, kw = K ? K : p.kw;
  if (c >= p.c) return;
  for (int r = (int)plane_row(); r < rows; r += (int)plane_row_step()) {
    pool_shape::place at = p.of(r);
    int y0 = at.y * p.sh - p.top, x0 = at.x * p.sw - p.left;
    float best[N] = {};
    some<unsigned char, N> best_at = {};
    bool any = false;
#pragma unroll
    for (int ky = 0; ky < kh; ky++)
#pragma unroll
      for (int kx = 0; kx < kw; kx++) {
        int iy = y0 + ky, ix = x0 + kx;
        bool inside = iy >= 0 && iy < p.h && ix >= 0 && ix < p.w;
        int64_t from = inside ? ((int64_t)at.n * p.h + iy) * p.w + ix : 0;
        some<T, N> v = load<N>(x + from * p.c + c);
#pragma unroll
        for (int e = 0; e < N; e++)
          if (inside && (!any || (!(v[e] <= best[e]) && best[e] == best[e]))) {
            best[e] = v[e];
            best_at.v[e] = (unsigned char)(ky * kw + kx);
          }
        any |= inside;
      }
    store(y + (int64_t)r * p.c + c, best);
    *(some<unsigned char, N> *)(place + (int64_t)r * p.c + c) = best_at;
  }
}

template <class T, int N> __global__ void avg_pool_kernel(const T *x, T *y, int rows, pool_shape p) {
  int c = N * (int)plane_column();
  if (c >= p.c) return;
  for (int r = (int)plane_row(); r < rows; r += (int)plane_row_step()) {
    pool_shape::place at = p.of(r);
    float sum[N] = {}, count = (float)p.window_count(at.y, at.x);
    for (int ky = 0; ky < p.kh; ky++)
      for (int kx = 0; kx < p.kw; kx++) {
        int iy = at.y * p.sh - p.top + ky, ix = at.x * p.sw - p.left + kx;
        if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
        some<T, N> v = load<N>(x + (((int64_t)at.n * p.h + iy) * p.w + ix) * p.c + c);
#pragma unroll
        for (int e = 0; e < N; e++)
          sum[e] += v[e];
      }
#pragma unroll
    for (int e = 0; e < N; e++)
      sum[e] /= count;
    store(y + (int64_t)r * p.c + c, sum);
  }
}

// place NULL: an average. W: the windows along a side that may cover an element, all on their way at once; 0: any number.
template <class T, int N, int W>
__global__ void pool_dx_kernel(const T *dy, const unsigned char *place, T *dx, int rows, pool_shape p) {
  int c = N * (int)plane_column();
  if (c >= p.c) return;
  for (int r = (int)plane_row(); r < rows; r += (int)plane_row_step()) {
    pool_shape::place at = p.of(r);
    int y = at.y + p.top, x = at.x + p.left; // within the padded image
    int deep = W ? W : (p.kh - 1) / p.sh + 1, wide = W ? W : (p.kw - 1) / p.sw + 1;
    int oy0 = y / p.sh - deep + 1, ox0 = x / p.sw - wide + 1;
    float sum[N] = {};
#pragma unroll
    for (int i = 0; i < deep; i++)
#pragma unroll
      for (int k = 0; k < wide; k++) {
        int oy = oy0 + i, ox = ox0 + k, ky = y - oy * p.sh, kx = x - ox * p.sw;
        bool reaches = oy >= 0 && oy < p.oh && ox >= 0 && ox < p.ow && ky < p.kh && kx < p.kw;
        int64_t from = (reaches ? ((int64_t)at.n * p.oh + oy) * p.ow + ox : 0) * p.c + c;
        some<T, N> v = load<N>(dy + from);
        some<unsigned char, N> at_place = {};
        if (place) at_place = *(const some<unsigned char, N> *)(place + from);
        float count = place ? 1 : (float)p.window_count(oy, ox);
#pragma unroll
        for (int e = 0; e < N; e++)
          if (reaches && (!place || at_place.v[e] == ky * p.kw + kx)) sum[e] += place ? v[e] : v[e] / count;
      }
    store(dx + (int64_t)r * p.c + c, sum);
  }
}

// Windows of 3 x 3, stride 2: a thread makes the 2 x 2 elements that the same four windows cover, in the padded image from
// (2 y, 2 x) on. Window (y - 1 + a, x - 1 + b) has of element (u, w) the place (u + 2 - 2 a, w + 2 - 2 b), if it is below 3.
template <class T, int N>
__global__ void max_pool_dx_halved_kernel(const T *dy, const unsigned char *place, T *dx, int rows,
                                          pool_shape p) {
  int c = N * (int)plane_column();
  if (c >= p.c) return;
  for (int r = (int)plane_row(); r < rows; r += (int)plane_row_step()) {
    pool_shape::place at = p.of(r);
    some<T, N> v[2][2];
    some<unsigned char, N> from[2][2];
    bool reaches[2][2];
#pragma unroll
    for (int a = 0; a < 2; a++)
#pragma unroll
      for (int b = 0; b < 2; b++) {
        int oy = at.y - 1 + a, ox = at.x - 1 + b;
        reaches[a][b] = oy >= 0 && oy < p.oh && ox >= 0 && ox < p.ow;
        int64_t of = (reaches[a][b] ? ((int64_t)at.n * p.oh + oy) * p.ow + ox : 0) * p.c + c;
        v[a][b] = load<N>(dy + of);
        from[a][b] = *(const some<unsigned char, N> *)(place + of);
      }
#pragma unroll
    for (int u = 0; u < 2; u++)
#pragma unroll
      for (int w = 0; w < 2; w++) {
        int y = 2 * at.y + u - p.top, x = 2 * at.x + w - p.left;
        float sum[N] = {};
#pragma unroll
        for (int a = u; a < 2; a++)
#pragma unroll
          for (int b = w; b < 2; b++)
#pragma unroll
            for (int e = 0; e < N; e++)
              if (reaches[a][b] && from[a][b].v[e] == (u + 2 - 2 * a) * 3 + w + 2 - 2 * b)
                sum[e] += v[a][b][e];
        if (y >= 0 && y < p.h && x >= 0 && x < p.w)
          store(dx + (((int64_t)at.n * p.h + y) * p.w + x) * p.c + c, sum);
      }
  }
}

static ls_status_t max_pool(ls_stream_t *stream, args_t args) {
  const ls_shape_t &x = args->in[0].shape, &y = args->out[0].shape;
  pool_shape s = pool_of(args, x.dim + 1, y, y);
  int64_t rows = y.dim[0] * s.oh * s.ow;
  if (rows > INT32_MAX / 2) return ls_kernel_status(stream, cudaErrorInvalidValue, "max_pool");
  BY_CHANNELS(x.dtype, s.c, aligned16(in(args, 0), out(args, 0), out(args, 1)), rows,
              auto *run = s.kh == 3 && s.kw == 3 ? max_pool_kernel<T, N, 3> : max_pool_kernel<T, N, 0>;
              run<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
                  in<T>(args, 0), out<T>(args, 0), out<unsigned char>(args, 1), (int)rows, s))
  return launched(stream, "max_pool");
}

static ls_status_t avg_pool(ls_stream_t *stream, args_t args) {
  const ls_shape_t &x = args->in[0].shape, &y = args->out[0].shape;
  pool_shape s = pool_of(args, x.dim + 1, y, y);
  int64_t rows = y.dim[0] * s.oh * s.ow;
  if (rows > INT32_MAX / 2) return ls_kernel_status(stream, cudaErrorInvalidValue, "avg_pool");
  BY_CHANNELS(x.dtype, s.c, aligned16(in(args, 0), out(args, 0)), rows,
              avg_pool_kernel<T, N><<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
                  in<T>(args, 0), out<T>(args, 0), (int)rows, s))
  return launched(stream, "avg_pool");
}

static ls_status_t pool_dx(ls_stream_t *stream, args_t args, const unsigned char *place, const char *op) {
  const ls_shape_t &dy = args->in[0].shape, &dx = args->out[0].shape;
  const int64_t *i = args->attrs->i;
  bool halved = place && i[0] == 3 && i[1] == 3 && i[2] == 2 && i[3] == 2;
  ls_shape_t made = dx; // what a thread makes one of
  if (halved) made.dim[1] = (dx.dim[1] + i[4] + 1) / 2, made.dim[2] = (dx.dim[2] + i[5] + 1) / 2;
  pool_shape s = pool_of(args, dx.dim + 1, dy, made);
  int64_t rows = made.dim[0] * made.dim[1] * made.dim[2];
  bool two = (s.kh - 1) / s.sh == 1 && (s.kw - 1) / s.sw == 1;
  if (rows > INT32_MAX / 2) return ls_kernel_status(stream, cudaErrorInvalidValue, op);
  BY_CHANNELS(dy.dtype, s.c, aligned16(in(args, 0), out(args, 0), place), rows,
              auto *run = halved ? max_pool_dx_halved_kernel<T, N>
                          : two  ? pool_dx_kernel<T, N, 2>
                                 : pool_dx_kernel<T, N, 0>;
              run<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(in<T>(args, 0), place, out<T>(args, 0),
                                                                    (int)rows, s))
  return launched(stream, op);
}
static ls_status_t max_pool_dx(ls_stream_t *stream, args_t args) {
  return pool_dx(stream, args, in<unsigned char>(args, 1), "max_pool_dx");
}
static ls_status_t avg_pool_dx(ls_stream_t *stream, args_t args) {
  return pool_dx(stream, args, nullptr, "avg_pool_dx");
}

// ---- positions of a sample: (n, t, c), or images with all their positions ----

// y (n, c) = sum of a, or of a b, over the positions / divisor. A block has a group of channels of a sample, a thread N of
// them; its rows of threads are added up in order.
constexpr int SUM_THREADS = 512, SUM_VECTORS = 8;

template <class T, int N, bool PRODUCT>
__global__ void __launch_bounds__(SUM_THREADS)
    sum_positions_kernel(const T *a, const T *b, T *y, int positions, int64_t channels, float divisor) {
  __shared__ float stripe[SUM_THREADS * N];
  int stripes = (int)blockDim.y, wide = (int)blockDim.x * N, lane = (int)threadIdx.x * N;
  int64_t n = blockIdx.x, base = (int64_t)blockIdx.y * wide, c = base + lane;
  float sum[N] = {};
  if (c < channels)
#pragma unroll 4
    for (int t = (int)threadIdx.y; t < positions; t += stripes) {
      int64_t at = (n * positions + t) * channels + c;
      some<T, N> u = load<N>(a + at), v;
      if (PRODUCT) v = load<N>(b + at);
#pragma unroll
      for (int e = 0; e < N; e++)
        sum[e] += PRODUCT ? u[e] * v[e] : u[e];
    }
#pragma unroll
  for (int e = 0; e < N; e++)
    stripe[(int)threadIdx.y * wide + lane + e] = sum[e];
  __syncthreads();
  for (int i = (int)(threadIdx.y * blockDim.x + threadIdx.x); i < wide; i += SUM_THREADS) {
    float total = 0;
#pragma unroll 8
    for (int s = 0; s < stripes; s++)
      total += stripe[s * wide + i];
    if (base + i < channels) y[n * channels + base + i] = rounded<T>(total / divisor);
  }
}

template <bool PRODUCT>
static ls_status_t sum_positions(ls_stream_t *stream, args_t args, bool mean, const char *op) {
  int64_t n = in_rows(args, 0), c = out_count(args, 0) / n, t = in_count(args, 0) / (n * c);
  bool aligned = aligned16(in(args, 0), PRODUCT ? in(args, 1) : nullptr);
  if (t > INT32_MAX / 2) return ls_kernel_status(stream, cudaErrorInvalidValue, op);
  BY_DTYPE(
      in_dtype(args, 0), bool even = aligned && c % WIDE<T> == 0;
      auto *kernel = even ? sum_positions_kernel<T, WIDE<T>, PRODUCT> : sum_positions_kernel<T, 1, PRODUCT>;
      unsigned groups; dim3 block = even ? threads_across(c / WIDE<T>, SUM_THREADS, SUM_VECTORS, &groups)
                                         : threads_across(c, SUM_THREADS, SUM_VECTORS * WIDE<T>, &groups);
      kernel<<<dim3((unsigned)n, groups), block, 0, ls_kernel_stream(stream)>>>(
          in<T>(args, 0), PRODUCT ? in<T>(args, 1) : nullptr, out<T>(args, 0), (int)t, c,
          mean ? (float)t : 1))
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
