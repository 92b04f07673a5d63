// Convolutions of one channel at a time: windows of 3 x 3 and 5 x 5, strides of 1 and 2. They are bound by memory, so a
// thread has N neighbouring channels (16 bytes) of several neighbouring outputs, whose windows overlap, and a block a patch
// of the image, whose rows its threads share through the cache.
#include "device/cuda/convolve.cuh"

// What of an image a block has: `rows` x `tiles` places, a tile being what a thread makes of a row.
struct patches {
  int tiles, rows;         // of a patch
  int across, down, count; // patches of an image, and of all images
  struct place {
    int n, y, tile; // n < 0: none
  };
  __device__ place of(int patch, int thread) const {
    if (thread >= tiles * rows) return {-1, 0, 0};
    int line = patch / across;
    return {line / down, line % down * rows + thread / tiles, patch % across * tiles + thread % tiles};
  }
};

// The taps of the block's channels as f32 (K K, channels); the order of a flipped window is the reverse.
template <class T, int K> __device__ static void load_taps(const T *weight, float *taps, bool flip) {
  int across = (int)blockDim.x * WIDE<T>;
  int64_t first = (int64_t)blockIdx.x * across;
  int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x), threads = (int)(blockDim.x * blockDim.y);
  for (int i = thread; i < across * K * K; i += threads) {
    int c = i / (K * K), k = i % (K * K);
    taps[(flip ? K * K - 1 - k : k) * across + c] = f32_of(weight[(first + c) * (K * K) + k]);
  }
  __syncthreads();
}

// y (oh, ow) from x (h, w).
template <class T, int K, int S, int TILE>
__global__ void __launch_bounds__(BLOCK)
    forward_kernel(conv_shape s, const T *x, const T *weight, T *y, patches p, bool flip) {
  constexpr int N = WIDE<T>, COLUMNS = (TILE - 1) * S + K;
  extern __shared__ float4 shared[];
  float *taps = (float *)shared;
  load_taps<T, K>(weight, taps, flip);
  int lane = (int)threadIdx.x * N, across = (int)blockDim.x * N, c = (int)blockIdx.x * across + lane;
  for (int patch = (int)blockIdx.y; patch < p.count; patch += (int)gridDim.y) {
    patches::place at = p.of(patch, (int)threadIdx.y);
    int ox = at.tile * TILE;
    if (at.n < 0 || at.y >= s.oh || ox >= s.ow) continue;
    float sum[TILE][N] = {};
#pragma unroll
    for (int ky = 0; ky < K; ky++) {
      int iy = at.y * S - s.top + ky;
      if (iy < 0 || iy >= s.h) continue;
      const T *row = x + ((int64_t)at.n * s.h + iy) * s.w * s.c + c;
      some<T, N> v[COLUMNS];
#pragma unroll
      for (int l = 0; l < COLUMNS; l++) {
        int ix = ox * S - s.left + l;
        v[l] = ix >= 0 && ix < s.w ? load<N>(row + (int64_t)ix * s.c) : some<T, N>{};
      }
#pragma unroll
      for (int kx = 0; kx < K; kx++) {
        some<float, N> tap = load<N>(taps + (ky * K + kx) * across + lane);
#pragma unroll
        for (int t = 0; t < TILE; t++)
#pragma unroll
          for (int e = 0; e < N; e++)
            sum[t][e] += v[t * S + kx][e] * tap[e];
      }
    }
    T *to = y + (((int64_t)at.n * s.oh + at.y) * s.ow + ox) * s.c + c;
#pragma unroll
    for (int t = 0; t < TILE; t++)
      if (ox + t < s.ow) store(to + (int64_t)t * s.c, sum[t]);
  }
}

// dx (h, w) from dy (oh, ow), stride 2. Place x of a tile and tap kx belong to output (x + left - kx) / 2, where that is
// whole; ODD: x + left - (K - 1) is odd for the tile's first x.
template <class T, int K, int TILE, int ODD>
__global__ void __launch_bounds__(BLOCK)
    dx_kernel(conv_shape s, const T *dy, const T *weight, T *dx, patches p) {
  constexpr int N = WIDE<T>, COLUMNS = (TILE + K - 2 + ODD) / 2 + 1;
  extern __shared__ float4 shared[];
  float *taps = (float *)shared;
  load_taps<T, K>(weight, taps, false);
  int lane = (int)threadIdx.x * N, across = (int)blockDim.x * N, c = (int)blockIdx.x * across + lane;
  for (int patch = (int)blockIdx.y; patch < p.count; patch += (int)gridDim.y) {
    patches::place at = p.of(patch, (int)threadIdx.y);
    int ix = at.tile * TILE, first = (ix + s.left - (K - 1) - ODD) / 2;
    if (at.n < 0 || at.y >= s.h || ix >= s.w) continue;
    float sum[TILE][N] = {};
#pragma unroll
    for (int ky = 0; ky < K; ky++) {
      int y = at.y + s.top - ky, oy = y / 2;
      if (y < 0 || y % 2 || oy >= s.oh) continue;
      const T *row = dy + ((int64_t)at.n * s.oh + oy) * s.ow * s.c + c;
      some<T, N> v[COLUMNS];
#pragma unroll
      for (int l = 0; l < COLUMNS; l++)
        v[l] = first + l >= 0 && first + l < s.ow ? load<N>(row + (int64_t)(first + l) * s.c) : some<T, N>{};
#pragma unroll
      for (int kx = 0; kx < K; kx++) {
        some<float, N> tap = load<N>(taps + (ky * K + kx) * across + lane);
#pragma unroll
        for (int t = 0; t < TILE; t++) {
          constexpr int back = K - 1 + ODD;
          if ((t + back - kx) % 2) continue;
#pragma unroll
          for (int e = 0; e < N; e++)
            sum[t][e] += v[(t + back - kx) / 2][e] * tap[e];
        }
      }
    }
    T *to = dx + (((int64_t)at.n * s.h + at.y) * s.w + ix) * s.c + c;
#pragma unroll
    for (int t = 0; t < TILE; t++)
      if (ix + t < s.w) store(to + (int64_t)t * s.c, sum[t]);
  }
}

// A thread sums over rows of outputs for one row of the window; a block has all rows of the window, one part of the
// outputs' rows, and adds up its threads in order. Part p is dw + p (c K K).
template <class T, int K, int S>
__global__ void __launch_bounds__(BLOCK)
    dw_kernel(conv_shape s, const T *dy, const T *x, float *dw, int rows) {
  constexpr int N = WIDE<T>, TILE = 4, KEPT = K - S;
  extern __shared__ float4 shared[];
  float *stripe = (float *)shared; // (threads along z, K, K, channels)
  int lane = (int)threadIdx.x * N, across = (int)blockDim.x * N, c = (int)blockIdx.x * across + lane;
  int ky = (int)threadIdx.y, chunk = (rows + (int)gridDim.y - 1) / (int)gridDim.y;
  int begin = (int)blockIdx.y * chunk, end = begin + chunk < rows ? begin + chunk : rows;
  float sum[K][N] = {};
  for (int r = begin + (int)threadIdx.z; r < end; r += (int)blockDim.z) {
    int n = r / s.oh, iy = r % s.oh * S - s.top + ky;
    if (iy < 0 || iy >= s.h) continue;
    const T *from = x + ((int64_t)n * s.h + iy) * s.w * s.c + c, *row = dy + (int64_t)r * s.ow * s.c + c;
    some<T, N> v[KEPT + TILE * S], d[TILE];
#pragma unroll
    for (int l = 0; l < KEPT; l++)
      v[l] = l >= s.left && l - s.left < s.w ? load<N>(from + (int64_t)(l - s.left) * s.c) : some<T, N>{};
    for (int ox = 0; ox < s.ow; ox += TILE) {
#pragma unroll
      for (int l = 0; l < TILE * S; l++) {
        int ix = ox * S - s.left + KEPT + l;
        v[KEPT + l] = ix >= 0 && ix < s.w ? load<N>(from + (int64_t)ix * s.c) : some<T, N>{};
      }
#pragma unroll
      for (int t = 0; t < TILE; t++)
        d[t] = ox + t < s.ow ? load<N>(row + (int64_t)(ox + t) * s.c) : some<T, N>{};
#pragma unroll
      for (int t = 0; t < TILE; t++)
#pragma unroll
        for (int kx = 0; kx < K; kx++)
#pragma unroll
          for (int e = 0; e < N; e++)
            sum[kx][e] += d[t][e] * v[t * S + kx][e];
#pragma unroll
      for (int l = 0; l < KEPT; l++)
        v[l] = v[TILE * S + l];
    }
  }
#pragma unroll
  for (int kx = 0; kx < K; kx++)
#pragma unroll
    for (int e = 0; e < N; e++)
      stripe[(((int)threadIdx.z * K + ky) * K + kx) * across + lane + e] = sum[kx][e];
  __syncthreads();
  int thread = (int)((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
  int threads = (int)(blockDim.x * blockDim.y * blockDim.z);
  for (int i = thread; i < K * K * across; i += threads) {
    int k = i % (K * K), at = i / (K * K); // neighbours in dw
    float total = 0;
    for (int z = 0; z < (int)blockDim.z; z++)
      total += stripe[(z * K * K + k) * across + at];
    dw[((int64_t)blockIdx.y * s.c + (int64_t)blockIdx.x * across + at) * (K * K) + k] = total;
  }
}

// ---- launches ----

constexpr int WIDE_MAX = 12, DEEP_MAX = 64, FORWARD_BLOCKS = 2048, DW_BLOCKS = 1056, DW_ROWS = 2;

// Vectors of a block's channels: the largest divisor of `vectors` up to WIDE_MAX.
static int divisor(int vectors) {
  int wide = vectors < WIDE_MAX ? vectors : WIDE_MAX;
  while (vectors % wide)
    wide--;
  return wide;
}

// K x K windows and strides of 1 or 2, K and stride being equal along both sides; whole vectors.
static bool common(const conv_shape &s, ls_dtype_t dtype, const void *a, const void *b, const void *c) {
  int n = 16 / (int)ls_dtype_bytes(dtype);
  return s.og == 1 && s.kh == s.kw && (s.kh == 3 || s.kh == 5) && s.sh == s.sw && s.sh <= 2 && s.dh == 1 &&
         s.dw == 1 && s.c % n == 0 && aligned16(a, b, c);
}

// Launches for an image of (h, w) whose rows are cut into tiles.
struct grid_of_patches {
  patches p;
  dim3 grid, block;
  size_t shared_bytes;
};
static grid_of_patches cut(const conv_shape &s, int n, int h, int w, int tile) {
  grid_of_patches g;
  int wide = divisor(s.c / n), threads = BLOCK / wide, tiles = (w + tile - 1) / tile;
  g.p.tiles = tiles < 4 ? tiles : 4;
  g.p.rows = threads / g.p.tiles < h ? threads / g.p.tiles : h;
  g.p.across = (tiles + g.p.tiles - 1) / g.p.tiles;
  g.p.down = (h + g.p.rows - 1) / g.p.rows;
  g.p.count = s.n * g.p.across * g.p.down;
  int groups = s.c / n / wide, most = FORWARD_BLOCKS / groups;
  g.grid = dim3((unsigned)groups, grid_for(g.p.count, 1, most < 1 ? 1 : most));
  g.block = dim3((unsigned)wide, (unsigned)(g.p.tiles * g.p.rows));
  g.shared_bytes = sizeof(float) * (size_t)(s.kh * s.kw * wide * n);
  return g;
}

template <class T, int K, int S, int TILE>
static cudaError_t run_forward(cudaStream_t stream, const conv_shape &s, const void *x, const void *weight,
                               void *y, bool flip) {
  grid_of_patches g = cut(s, WIDE<T>, s.oh, s.ow, TILE);
  forward_kernel<T, K, S, TILE>
      <<<g.grid, g.block, g.shared_bytes, stream>>>(s, (const T *)x, (const T *)weight, (T *)y, g.p, flip);
  return cudaGetLastError();
}

cudaError_t depthwise_forward(cudaStream_t stream, const conv_shape &s, ls_dtype_t dtype, const void *x,
                              const void *weight, void *y, bool *done) {
  *done = common(s, dtype, x, y, nullptr);
  if (!*done) return cudaSuccess;
  BY_DTYPE(dtype, auto *run = s.kh == 3   ? s.sh == 1 ? run_forward<T, 3, 1, 4> : run_forward<T, 3, 2, 2>
                                : s.sh == 1 ? run_forward<T, 5, 1, 4>
                                          : run_forward<T, 5, 2, 2>;
           return run(stream, s, x, weight, y, false))
}

template <class T, int K, int ODD>
static cudaError_t run_dx(cudaStream_t stream, const conv_shape &s, const void *dy, const void *weight,
                          void *dx) {
  constexpr int TILE = 4;
  grid_of_patches g = cut(s, WIDE<T>, s.h, s.w, TILE);
  dx_kernel<T, K, TILE, ODD>
      <<<g.grid, g.block, g.shared_bytes, stream>>>(s, (const T *)dy, (const T *)weight, (T *)dx, g.p);
  return cudaGetLastError();
}

// With stride 1 it is the convolution of dy with the flipped window.
cudaError_t depthwise_dx(cudaStream_t stream, const conv_shape &s, ls_dtype_t dtype, const void *dy,
                         const void *weight, void *dx, bool *done) {
  *done = common(s, dtype, dy, dx, nullptr);
  if (!*done) return cudaSuccess;
  conv_shape back = s;
  back.h = s.oh, back.w = s.ow, back.oh = s.h, back.ow = s.w;
  back.top = s.kh - 1 - s.top, back.left = s.kw - 1 - s.left;
  bool odd = (s.left - (s.kw - 1)) % 2 != 0;
  BY_DTYPE(
      dtype,
      if (s.sh == 1) {
        auto *run = s.kh == 3 ? run_forward<T, 3, 1, 4> : run_forward<T, 5, 1, 4>;
        return run(stream, back, dy, weight, dx, true);
      } auto *run = s.kh == 3 ? odd ? run_dx<T, 3, 1> : run_dx<T, 3, 0>
                    : odd ? run_dx<T, 5, 1>
                              : run_dx<T, 5, 0>;
      return run(stream, s, dy, weight, dx))
}

template <class T, int K, int S>
static void run_dw(cudaStream_t stream, const conv_shape &s, dim3 grid, const void *dy, const void *x,
                   float *to) {
  int wide = divisor(s.c / WIDE<T>), deep = BLOCK / (wide * K);
  if (deep > DEEP_MAX) deep = DEEP_MAX;
  dw_kernel<T, K, S><<<grid, dim3((unsigned)wide, K, (unsigned)deep),
                       sizeof(float) * (size_t)(deep * K * K * wide * WIDE<T>), stream>>>(
      s, (const T *)dy, (const T *)x, to, s.n * s.oh);
}

cudaError_t depthwise_dw(ls_stream_t *stream, const conv_shape &s, ls_dtype_t dtype, const void *dy,
                         const void *x, float *dw, bool *done) {
  *done = common(s, dtype, dy, x, nullptr);
  if (!*done) return cudaSuccess;
  int64_t count = (int64_t)s.c * s.kh * s.kw;
  size_t workspace_bytes;
  float *workspace = (float *)ls_kernel_workspace(stream, &workspace_bytes);
  int vectors = s.c / (16 / (int)ls_dtype_bytes(dtype)), wide = divisor(vectors), groups = vectors / wide;
  int64_t most = (int64_t)(workspace_bytes / sizeof(float)) / count;
  if (most > DW_BLOCKS / groups) most = DW_BLOCKS / groups;
  unsigned parts = grid_for((int64_t)s.n * s.oh, DW_ROWS * BLOCK / (wide * s.kh), most < 1 ? 1 : most);
  float *to = parts > 1 ? workspace : dw;
  dim3 grid((unsigned)groups, parts);
  BY_DTYPE(dtype, auto *run = s.kh == 3   ? s.sh == 1 ? run_dw<T, 3, 1> : run_dw<T, 3, 2>
                                : s.sh == 1 ? run_dw<T, 5, 1>
                                          : run_dw<T, 5, 2>;
           run(ls_kernel_stream(stream), s, grid, dy, x, to))
  cudaError_t error = cudaGetLastError();
  if (!error && parts > 1) error = (cudaError_t)ls_kernel_add_parts(stream, workspace, dw, count, (int)parts);
  return error;
}
