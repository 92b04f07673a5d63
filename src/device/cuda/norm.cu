// Layer norm: a warp takes a row, a lane N neighbours at a time.
#include "device/cuda/block.cuh"

// Sums are of x minus the row's first element, so that a row far from zero keeps its digits in f32.
template <class T, int N>
__global__ void layer_norm_kernel(const T *x, const float *gamma, const float *beta, float eps, T *y,
                                  float *mean, float *rstd, int64_t rows, int64_t width) {
  int64_t begin = N * (threadIdx.x % WARP);
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    const T *row = x + r * width;
    float first = f32_of(row[0]), sum = 0, square = 0;
    for (int64_t c = begin; c < width; c += N * WARP) {
      some<T, N> v = load<N>(row + c);
#pragma unroll
      for (int e = 0; e < N; e++)
        sum += v[e] - first;
    }
    float shift = warp_sum(sum) / (float)width; // mean - first
    for (int64_t c = begin; c < width; c += N * WARP) {
      some<T, N> v = load<N>(row + c);
#pragma unroll
      for (int e = 0; e < N; e++) {
        float d = v[e] - first - shift;
        square += d * d;
      }
    }
    float scale = 1 / sqrtf(warp_sum(square) / (float)width + eps);
    for (int64_t c = begin; c < width; c += N * WARP) {
      some<T, N> v = load<N>(row + c);
      some<float, N> g = load<N>(gamma + c), b = load<N>(beta + c);
      float out[N];
#pragma unroll
      for (int e = 0; e < N; e++)
        out[e] = (v[e] - first - shift) * scale * g[e] + b[e];
      store(y + r * width + c, out);
    }
    if (begin == 0) {
      mean[r] = first + shift;
      rstd[r] = scale;
    }
  }
}

static ls_status_t layer_norm(ls_stream_t *stream, args_t args) {
  int64_t width = in_count(args, 1), rows = in_count(args, 0) / width;
  bool aligned = aligned16(in(args, 0), in(args, 1), in(args, 2), out(args, 0));
  BY_DTYPE(in_dtype(args, 0), auto *kernel = aligned && width % WIDE<T> == 0 ? layer_norm_kernel<T, WIDE<T>>
                                                                             : layer_norm_kernel<T, 1>;
           kernel<<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
               in<T>(args, 0), in(args, 1), in(args, 2), (float)args->attrs->f[0], out<T>(args, 0),
               out(args, 1), out(args, 2), rows, width))
  return launched(stream, "layer_norm");
}

// With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - average(g) - h average(g h)).
template <class T, int N>
__global__ void layer_norm_dx_kernel(const T *dy, const T *x, const float *gamma, const float *mean,
                                     const float *rstd, T *dx, int64_t rows, int64_t width) {
  int64_t begin = N * (threadIdx.x % WARP);
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    float m = mean[r], s = rstd[r], g_sum = 0, gh_sum = 0;
    for (int64_t c = begin; c < width; c += N * WARP) {
      some<T, N> d = load<N>(dy + r * width + c), v = load<N>(x + r * width + c);
      some<float, N> k = load<N>(gamma + c);
#pragma unroll
      for (int e = 0; e < N; e++) {
        float g = d[e] * k[e];
        g_sum += g;
        gh_sum += g * ((v[e] - m) * s);
      }
    }
    float g_mean = warp_sum(g_sum) / (float)width, gh_mean = warp_sum(gh_sum) / (float)width;
    for (int64_t c = begin; c < width; c += N * WARP) {
      some<T, N> d = load<N>(dy + r * width + c), v = load<N>(x + r * width + c);
      some<float, N> k = load<N>(gamma + c);
      float out[N];
#pragma unroll
      for (int e = 0; e < N; e++)
        out[e] = s * (d[e] * k[e] - g_mean - (v[e] - m) * s * gh_mean);
      store(dx + r * width + c, out);
    }
  }
}

static ls_status_t layer_norm_dx(ls_stream_t *stream, args_t args) {
  int64_t width = in_count(args, 2), rows = in_count(args, 0) / width;
  bool aligned = aligned16(in(args, 0), in(args, 1), in(args, 2), out(args, 0));
  BY_DTYPE(in_dtype(args, 0), auto *kernel = aligned && width % WIDE<T> == 0
                                                 ? layer_norm_dx_kernel<T, WIDE<T>>
                                                 : layer_norm_dx_kernel<T, 1>;
           kernel<<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
               in<T>(args, 0), in<T>(args, 1), in(args, 2), in(args, 3), in(args, 4), out<T>(args, 0), rows,
               width))
  return launched(stream, "layer_norm_dx");
}

// layer_norm_dgb adds over rows: reduce.cu.
const ls_kernel_row_t ls_cuda_norm_rows[] = {
    {"layer_norm", layer_norm, true}, {"layer_norm_dx", layer_norm_dx, true}, {}};
