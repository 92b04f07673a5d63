// Layer norms, alone and with what stands around them (graph/ops/layer_norm.c, residual.c). A warp takes a row, a lane N
// neighbours at a time, V times; what it has read stays in registers. V = 0: the row is wider, and is read again.
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

// Calls f(i, column) for every N columns of the warp's lane, after read(i, column) for all of them if they are not kept.
template <int N, int V, class R, class F>
__device__ static void each_column(int64_t width, bool kept, R read, F f) {
  int64_t begin = N * (threadIdx.x % WARP);
  if constexpr (V > 0) {
#pragma unroll
    for (int i = 0; i < V; i++)
      if (!kept && begin + i * N * WARP < width) read(i, begin + i * N * WARP);
#pragma unroll
    for (int i = 0; i < V; i++)
      if (begin + i * N * WARP < width) f(i, begin + i * N * WARP);
  } else {
    for (int64_t c = begin; c < width; c += N * WARP) {
      read(0, c);
      f(0, c);
    }
  }
}

struct drop_t {
  const unsigned char *step;
  uint32_t rng_stream;
  float rate, scale;
  int64_t positions; // rows that share a position in the stream of samples
};

static drop_t drop_of(args_t args, const ls_tensor_t &x, const ls_tensor_t &step, int64_t width) {
  double rate = args->attrs->f[1];
  return {(const unsigned char *)step.data, LS_RNG_DROPOUT + (uint32_t)args->attrs->i[0], (float)rate,
          (float)(1 / (1 - rate)), ls_shape_inner(&x.shape, 1) / width};
}

// The words of a row's elements.
struct dropper {
  uint64_t seed, position, base;
  int64_t behind; // elements of the sample before the row
  __device__ explicit dropper(const drop_t &drop) : seed(0), position(0) {
    if (drop.rate == 0) return;
    seed = load_u64(drop.step + offsetof(ls_step_params_t, seed));
    position = load_u64(drop.step + offsetof(ls_step_params_t, position));
  }
  __device__ void row(const drop_t &drop, int64_t r, int64_t width) {
    int64_t sample = quotient(r, drop.positions);
    base = (position + (uint64_t)sample) * ((uint64_t)(drop.positions * width + 3) / 4);
    behind = (r - sample * drop.positions) * width;
  }
  template <int N> __device__ void drop(const drop_t &drop, int64_t c, float (&v)[N]) const {
    int64_t at = behind + c;
#pragma unroll
    for (int e = 0; e < N; e += 4) {
      ls_rng4_t w = ls_rng(seed, drop.rng_stream, base + (uint64_t)(at + e) / 4);
      if (N == 1) // any element of its counter
        w.v[0] = at % 4 == 0 ? w.v[0] : at % 4 == 1 ? w.v[1] : at % 4 == 2 ? w.v[2] : w.v[3];
#pragma unroll
      for (int i = 0; i < 4 && e + i < N; i++)
        v[e + i] = ls_each_dropout(v[e + i], w.v[i], drop.rate, drop.scale);
    }
  }
};

// The norm of x, or of sum = other + dropout(x).
template <class T> struct norm_t {
  const T *x, *other; // NULL: there is none
  const float *gamma, *beta;
  float eps;
  drop_t drop;
  T *sum, *y;
  float *mean, *rstd;
};

// Sums are of values minus the first of the row, so that a row far from zero keeps its digits in f32.
template <class T, int N, int V>
__global__ void __launch_bounds__(BLOCK, V == 8  ? 1
                                         : V > 2 ? 2
                                                 : 3) norm_kernel(norm_t<T> a, int64_t rows, int64_t width) {
  constexpr int KEPT = V ? V : 1;
  dropper words(a.drop);
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    const T *x = a.x + r * width, *other = a.other + r * width;
    some<T, N> own[KEPT], past[KEPT];
    float v[KEPT][N], first = f32_of(x[0]) + (a.other ? f32_of(other[0]) : 0), part = 0, square = 0;
    if (a.drop.rate > 0) words.row(a.drop, r, width);
    auto read = [&](int i, int64_t c) {
      own[i] = load<N>(x + c);
      if (a.other) past[i] = load<N>(other + c);
    };
    auto make = [&](int i, int64_t c) {
#pragma unroll
      for (int e = 0; e < N; e++)
        v[i][e] = own[i][e];
      if (a.drop.rate > 0) words.drop(a.drop, c, v[i]);
#pragma unroll
      for (int e = 0; e < N; e++)
        if (a.other) v[i][e] = past[i][e] + v[i][e];
    };
    each_column<N, V>(width, false, read, [&](int i, int64_t c) {
      make(i, c);
      if (a.other) store(a.sum + r * width + c, v[i]);
#pragma unroll
      for (int e = 0; e < N; e++)
        part += v[i][e] - first;
    });
    float shift = warp_sum(part) / (float)width; // mean - first
    each_column<N, V>(width, true, read, [&](int i, int64_t c) {
      if (V == 0) make(i, c);
#pragma unroll
      for (int e = 0; e < N; e++)
        square += (v[i][e] - first - shift) * (v[i][e] - first - shift);
    });
    float scale = 1 / sqrtf(warp_sum(square) / (float)width + a.eps);
    each_column<N, V>(width, true, read, [&](int i, int64_t c) {
      if (V == 0) make(i, c);
      some<float, N> g = load<N>(a.gamma + c), b = load<N>(a.beta + c);
      float out[N];
#pragma unroll
      for (int e = 0; e < N; e++)
        out[e] = (v[i][e] - first - shift) * scale * g[e] + b[e];
      store(a.y + r * width + c, out);
    });
    if (threadIdx.x % WARP == 0) {
      a.mean[r] = first + shift;
      a.rstd[r] = scale;
    }
  }
}

// With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - average(g) - h average(g h)) + other, dropped = dropout(dx).
template <class T> struct back_t {
  const T *dy, *x;
  const float *gamma, *mean, *rstd;
  const T *other; // NULL: there is none
  drop_t drop;
  T *dx, *dropped; // dropped NULL: nobody wants it
  float *partial;  // (block, 2, width): the block's rows of dy h and of dy, added up
};

// THREADS of a block that adds up, SUMS, on a multiprocessor of its own: as many as have registers for it; V is not 0.
template <int V, bool SUMS> constexpr int BACK_THREADS = !SUMS ? BLOCK : V <= 2 ? 512 : 384;
template <class T, int N, int V, bool SUMS>
__global__ void __launch_bounds__(BACK_THREADS<V, SUMS>, !SUMS && V > 0 && V <= 3 ? 2 : 1)
    norm_back_kernel(back_t<T> a, int64_t rows, int64_t width) {
  constexpr int KEPT = V ? V : 1;
  float gamma_sum[KEPT][N] = {}, beta_sum[KEPT][N] = {};
  dropper words(a.drop);
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    some<T, N> dy[KEPT], x[KEPT], past[KEPT];
    float m = a.mean[r], s = a.rstd[r], g_sum = 0, gh_sum = 0;
    if (a.dropped) words.row(a.drop, r, width);
    auto read = [&](int i, int64_t c) {
      dy[i] = load<N>(a.dy + r * width + c);
      x[i] = load<N>(a.x + r * width + c);
      if (a.other) past[i] = load<N>(a.other + r * width + c);
    };
    each_column<N, V>(width, false, read, [&](int i, int64_t c) {
      some<float, N> k = load<N>(a.gamma + c);
#pragma unroll
      for (int e = 0; e < N; e++) {
        float d = dy[i][e], h = (x[i][e] - m) * s;
        g_sum += d * k[e];
        gh_sum += d * k[e] * h;
        if (SUMS) gamma_sum[i][e] += d * h;
        if (SUMS) beta_sum[i][e] += d;
      }
    });
    float g_mean = warp_sum(g_sum) / (float)width, gh_mean = warp_sum(gh_sum) / (float)width;
    each_column<N, V>(width, true, read, [&](int i, int64_t c) {
      some<float, N> k = load<N>(a.gamma + c);
      float out[N];
#pragma unroll
      for (int e = 0; e < N; e++) {
        out[e] = s * (dy[i][e] * k[e] - g_mean - (x[i][e] - m) * s * gh_mean);
        if (a.other) out[e] += past[i][e];
      }
      store(a.dx + r * width + c, out);
      if (!a.dropped) return;
      words.drop(a.drop, c, out);
      store(a.dropped + r * width + c, out);
    });
  }
  if constexpr (SUMS) { // 32 N columns at a time, the warps in order
    constexpr int TEAM = BACK_THREADS<V, SUMS> / WARP, SLICE = N * WARP;
    __shared__ float part[2][TEAM][SLICE];
#pragma unroll
    for (int i = 0; i < V; i++) {
      store(&part[0][threadIdx.x / WARP][N * (threadIdx.x % WARP)], gamma_sum[i]);
      store(&part[1][threadIdx.x / WARP][N * (threadIdx.x % WARP)], beta_sum[i]);
      __syncthreads();
      for (int c = threadIdx.x; c < 2 * SLICE; c += TEAM * WARP) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < TEAM; w++)
          sum += part[c / SLICE][w][c % SLICE];
        int column = i * SLICE + c % SLICE;
        if (column < width) a.partial[(blockIdx.x * 2 + c / SLICE) * width + column] = sum;
      }
      __syncthreads();
    }
  }
}

// Runs the statement with N neighbours, where everything is aligned, and V as the width asks.
#define BY_WIDTH(aligned_, width_, ...)                                                                      \
  {                                                                                                          \
    if (!(aligned_) || (width_) % WIDE<T>) {                                                                 \
      constexpr int N = 1, V = 0;                                                                            \
      __VA_ARGS__;                                                                                           \
    } else {                                                                                                 \
      constexpr int N = WIDE<T>;                                                                             \
      switch (((width_)-1) / (N * WARP)) {                                                                   \
        BY_VECTORS(case 0 :, 1, __VA_ARGS__)                                                                 \
        BY_VECTORS(case 1 :, 2, __VA_ARGS__)                                                                 \
        BY_VECTORS(case 2 :, 3, __VA_ARGS__)                                                                 \
        BY_VECTORS(case 3 :, 4, __VA_ARGS__)                                                                 \
        BY_VECTORS(case 4 : case 5 : case 6 : case 7 :, 8, __VA_ARGS__)                                      \
        BY_VECTORS(default:, 0, __VA_ARGS__)                                                                 \
      }                                                                                                      \
    }                                                                                                        \
  }
#define BY_VECTORS(cases_, vectors_, ...)                                                                    \
  cases_ {                                                                                                   \
    constexpr int V = vectors_;                                                                              \
    __VA_ARGS__;                                                                                             \
  }                                                                                                          \
  break;

template <class T> static void norm(ls_stream_t *stream, const norm_t<T> &a, int64_t rows, int64_t width) {
  bool aligned = aligned16(a.x, a.other, a.gamma, a.beta) && aligned16(a.sum, a.y);
  BY_WIDTH(aligned, width,
           norm_kernel<T, N, V>
           <<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(a, rows, width))
}

static ls_status_t layer_norm(ls_stream_t *stream, args_t args) {
  int64_t width = in_count(args, 1), rows = in_count(args, 0) / width;
  BY_DTYPE(in_dtype(args, 0), norm<T>(stream,
                                      {in<T>(args, 0),
                                       nullptr,
                                       in(args, 1),
                                       in(args, 2),
                                       (float)args->attrs->f[0],
                                       {},
                                       nullptr,
                                       out<T>(args, 0),
                                       out(args, 1),
                                       out(args, 2)},
                                      rows, width))
  return launched(stream, "layer_norm");
}

static ls_status_t residual_norm(ls_stream_t *stream, args_t args) {
  int64_t width = in_count(args, 2), rows = in_count(args, 0) / width;
  drop_t drop = drop_of(args, args->in[0], args->in[4], width);
  BY_DTYPE(in_dtype(args, 0),
           norm<T>(stream,
                   {in<T>(args, 0), in<T>(args, 1), in(args, 2), in(args, 3), (float)args->attrs->f[0], drop,
                    out<T>(args, 0), out<T>(args, 1), out(args, 2), out(args, 3)},
                   rows, width))
  return launched(stream, "residual_norm");
}

// dx of the norm, by one warp a row.
template <class T> static void back(ls_stream_t *stream, const back_t<T> &a, int64_t rows, int64_t width) {
  bool aligned = aligned16(a.dy, a.x, a.gamma, a.other) && aligned16(a.dx, a.dropped);
  BY_WIDTH(aligned, width,
           norm_back_kernel<T, N, V, false>
           <<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(a, rows, width))
}

static ls_status_t layer_norm_dx(ls_stream_t *stream, args_t args) {
  int64_t width = in_count(args, 2), rows = in_count(args, 0) / width;
  bool adds = args->in_count > 5;
  BY_DTYPE(in_dtype(args, 0), back<T>(stream,
                                      {in<T>(args, 0),
                                       in<T>(args, 1),
                                       in(args, 2),
                                       in(args, 3),
                                       in(args, 4),
                                       adds ? in<T>(args, 5) : nullptr,
                                       {},
                                       out<T>(args, 0),
                                       nullptr,
                                       nullptr},
                                      rows, width))
  return launched(stream, adds ? "layer_norm_dx_add" : "layer_norm_dx");
}

// Blocks whose sums a second kernel adds up: one on each multiprocessor of today's largest.
constexpr int64_t SUM_BLOCKS = 132;

// The whole gradient. Where rows are too wide for sums in registers, these are read again.
template <class T>
static ls_status_t whole_back(ls_stream_t *stream, args_t args, back_t<T> a, const ls_tensor_t *sums,
                              int64_t rows, int64_t width) {
  bool aligned = aligned16(a.dy, a.x, a.gamma, a.other) && aligned16(a.dx, a.dropped);
  size_t workspace_bytes;
  a.partial = (float *)ls_kernel_workspace(stream, &workspace_bytes);
  int64_t blocks = (int64_t)(workspace_bytes / (2 * sizeof(float))) / width;
  blocks = grid_for(rows, WARPS, blocks < SUM_BLOCKS ? blocks : SUM_BLOCKS);
  if (a.partial && aligned && width % WIDE<T> == 0 && width <= 4 * WIDE<T> * WARP) {
    BY_WIDTH(true, width,
             if constexpr (V > 0 && V <= 4) norm_back_kernel<T, N, V, true>
             <<<(unsigned)blocks, BACK_THREADS<V, true>, 0, ls_kernel_stream(stream)>>>(a, rows, width))
    int error = ls_kernel_join_parts(stream, a.partial, (float *)sums[0].data, (float *)sums[1].data, width,
                                     (int)blocks);
    return ls_kernel_status(stream, error, "layer_norm_back");
  }
  back(stream, a, rows, width);
  const ls_tensor_t in[] = {args->in[0], args->in[1], args->in[3], args->in[4]};
  ls_tensor_t to[] = {sums[0], sums[1]};
  ls_kernel_args_t dgb = *args;
  dgb.in = in;
  dgb.out = to;
  return ls_kernel_layer_norm_dgb(stream, &dgb);
}

static ls_status_t layer_norm_back(ls_stream_t *stream, args_t args) {
  int64_t width = in_count(args, 2), rows = in_count(args, 0) / width;
  bool drops = args->out_count > 3, adds = args->attrs->i[1] != 0;
  drop_t drop = {};
  if (drops) drop = drop_of(args, args->in[0], args->in[6], width);
  BY_DTYPE(in_dtype(args, 0),
           return whole_back<T>(stream, args,
                                {in<T>(args, 0), in<T>(args, 1), in(args, 2), in(args, 3), in(args, 4),
                                 adds ? in<T>(args, 5) : nullptr, drop, out<T>(args, 0),
                                 drops ? out<T>(args, 1) : nullptr, nullptr},
                                args->out + (drops ? 2 : 1), rows, width))
}

// layer_norm_dgb adds over rows: reduce.cu.
const ls_kernel_row_t ls_cuda_norm_rows[] = {{"layer_norm", layer_norm, true},
                                             {"residual_norm", residual_norm, true},
                                             {"layer_norm_dx", layer_norm_dx, true},
                                             {"layer_norm_dx_add", layer_norm_dx, true},
                                             {"layer_norm_back", layer_norm_back, true},
                                             {"layer_norm_back_drop", layer_norm_back, true},
                                             {}};
