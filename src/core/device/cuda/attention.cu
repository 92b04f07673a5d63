// Attention of every head of every sample, computed in f32, without the table of scores in memory (Dao et al. 2022). A block has
// TILE rows (queries, or keys in the second kernel of the gradient) of one head and goes over the columns TILE at a
// time. Tiles of q, k, v, dy lie in shared memory with the head's dimension first; a product of two tiles then reads
// neighbouring rows at once. Every sum has one order: the gradient of queries and that of keys and values are two
// kernels, which add up nothing in common.
#include "device/cuda/attention.cuh"

constexpr int SIDE = 16; // threads along each side of a tile
static_assert(SIDE * SIDE == BLOCK, "a block is a square of threads");

// A tile of T rows of D numbers, stored [d][row]. M rows of it belong to a thread.
template <int D_, int T_> struct tile_of {
  static constexpr int D = D_, T = T_, M = T / SIDE, C = D / SIDE, STRIDE = T + 4;
  static constexpr int FLOATS = D * STRIDE, WEIGHTS = T * STRIDE;
};

// The column of the tile that is a thread's j-th: neighbouring threads have pairs of neighbours.
__device__ static int column_of(int tx, int j) {
  return 2 * tx + j % 2 + 2 * SIDE * (j / 2);
}

template <int M> __device__ static void load_rows(const float *from, float *to) {
  if (M == 4) {
    float4 v = *(const float4 *)from;
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  } else {
    float2 v = *(const float2 *)from;
    to[0] = v.x, to[1] = v.y;
  }
}
template <int M> __device__ static void store_rows(float *to, const float *from) {
  if (M == 4)
    *(float4 *)to = make_float4(from[0], from[1], from[2], from[3]);
  else
    *(float2 *)to = make_float2(from[0], from[1]);
}

// Rows first .. of x, `stride` apart; zero beyond `rows` and beyond the head's size.
template <class K, class E>
__device__ static void load_tile(float *to, const E *x, int64_t stride, int64_t first, int64_t rows,
                                 int64_t size) {
  for (int r = threadIdx.x / WARP; r < K::T; r += WARPS)
    for (int d = threadIdx.x % WARP; d < K::D; d += WARP)
      to[d * K::STRIDE + r] = first + r < rows && d < size ? f32_of(x[(first + r) * stride + d]) : 0;
}

// s[i][j] = product of row ty M + i of a and row column_of(tx, j) of b.
template <class K>
__device__ static void products(const float *a, const float *b, int ty, int tx, float (*s)[K::M]) {
#pragma unroll
  for (int i = 0; i < K::M; i++)
#pragma unroll
    for (int j = 0; j < K::M; j++)
      s[i][j] = 0;
#pragma unroll 8
  for (int d = 0; d < K::D; d++) {
    float u[K::M], v[K::M];
    load_rows<K::M>(a + d * K::STRIDE + ty * K::M, u);
#pragma unroll
    for (int j = 0; j < K::M; j += 2)
      load_rows<2>(b + d * K::STRIDE + column_of(tx, j), v + j);
#pragma unroll
    for (int i = 0; i < K::M; i++)
#pragma unroll
      for (int j = 0; j < K::M; j++)
        s[i][j] += u[i] * v[j];
  }
}

// weights[column_of(tx, j)][row ty M + i] = s[i][j].
template <class K>
__device__ static void store_weights(float *weights, int ty, int tx, const float (*s)[K::M]) {
#pragma unroll
  for (int j = 0; j < K::M; j++) {
    float column[K::M];
#pragma unroll
    for (int i = 0; i < K::M; i++)
      column[i] = s[i][j];
    store_rows<K::M>(weights + column_of(tx, j) * K::STRIDE + ty * K::M, column);
  }
}

// sum[i][c] += over the columns k, weights[k][ty M + i] times number tx + SIDE c of row k of x.
template <class K>
__device__ static void add_weighted(const float *weights, const float *x, int ty, int tx,
                                    float (*sum)[K::C]) {
#pragma unroll 2
  for (int k = 0; k < K::T; k += 4) {
    float v[K::C][4];
#pragma unroll
    for (int c = 0; c < K::C; c++)
      load_rows<4>(x + (tx + SIDE * c) * K::STRIDE + k, v[c]);
#pragma unroll
    for (int e = 0; e < 4; e++) {
      float w[K::M];
      load_rows<K::M>(weights + (k + e) * K::STRIDE + ty * K::M, w);
#pragma unroll
      for (int i = 0; i < K::M; i++)
#pragma unroll
        for (int c = 0; c < K::C; c++)
          sum[i][c] += w[i] * v[c][e];
    }
  }
}

// The sum and the maximum over the SIDE threads that share rows.
__device__ static float side_sum(float value) {
#pragma unroll
  for (int lane = SIDE / 2; lane > 0; lane /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  return value;
}
__device__ static float side_max(float value) {
#pragma unroll
  for (int lane = SIDE / 2; lane > 0; lane /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
  return value;
}

// The random factors of probabilities: 0, or what makes up for those that are dropped. Where a counter's elements are four
// keys of one query, a thread draws for all four and passes on what its neighbour needs.
struct dropped : dropout_words {
  using dropout_words::dropout_words;
  __device__ float each(const attention_shape &s, int64_t head, int64_t query, int64_t key) const {
    return ls_each_dropout(1, word(s, head, query, key), s.rate, s.widen);
  }
  // f[j]: of one query and keys key + column_of(tx, j). Called by all threads of a warp.
  template <int M>
  __device__ void of_query(const attention_shape &s, int64_t head, int64_t query, int64_t key, int tx,
                           float *f) const {
    if (M == 4 && on &&
        shared) { // pair p of the keys belongs to the counter that the thread of parity p draws
      bool odd = tx % 2;
      ls_rng4_t w = words(s, head, query, key + column_of(tx & ~1, odd ? 2 : 0));
      uint32_t own[2] = {odd ? w.v[2] : w.v[0], odd ? w.v[3] : w.v[1]};
      uint32_t other[2] = {odd ? w.v[0] : w.v[2], odd ? w.v[1] : w.v[3]};
#pragma unroll
      for (int e = 0; e < 2; e++) {
        other[e] = __shfl_xor_sync(0xffffffffu, other[e], 1);
        f[e] = ls_each_dropout(1, odd ? other[e] : own[e], s.rate, s.widen);
        f[M - 2 + e] = ls_each_dropout(1, odd ? own[e] : other[e], s.rate, s.widen);
      }
    } else {
#pragma unroll
      for (int j = 0; j < M; j++)
        f[j] = on ? each(s, head, query, key + column_of(tx, j)) : 1;
    }
  }
  // f[i]: of one query and keys key + i.
  template <int M>
  __device__ void of_keys(const attention_shape &s, int64_t head, int64_t query, int64_t key,
                          float *f) const {
    if (M == 4 && on && shared) {
      ls_rng4_t w = words(s, head, query, key);
#pragma unroll
      for (int i = 0; i < M; i++)
        f[i] = ls_each_dropout(1, w.v[i], s.rate, s.widen);
    } else {
#pragma unroll
      for (int i = 0; i < M; i++)
        f[i] = on ? each(s, head, query, key + i) : 1;
    }
  }
};

// The place of a block: sample, head and first row.
struct task_t {
  int64_t sample, head, first; // of its rows
  __device__ task_t(const attention_shape &s, int tile)
      : sample(blockIdx.x / s.heads), head(blockIdx.x % s.heads), first((int64_t)blockIdx.y * tile) {}
};

// Grid: samples times heads, tiles of queries.
template <class K, class E>
__global__ void __launch_bounds__(BLOCK) attention_kernel(attention_shape s, const E *qkv, E *y, float *lse) {
  extern __shared__ float4 shared[];
  float *qs = (float *)shared, *ks = qs + K::FLOATS, *vs = ks + K::FLOATS, *weights = vs + K::FLOATS;
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  task_t at(s, K::T);
  dropped drop(s, at.sample);
  int64_t width = s.width(), stride = 3 * width;
  const E *q = qkv + at.sample * s.t * stride + at.head * s.size;
  load_tile<K>(qs, q, stride, at.first, s.t, s.size);
  float top[K::M], sum[K::M], o[K::M][K::C] = {}, score[K::M][K::M];
#pragma unroll
  for (int i = 0; i < K::M; i++) {
    top[i] = -INFINITY;
    sum[i] = 0;
  }
  int64_t end = s.causal && at.first + K::T < s.t ? at.first + K::T : s.t;
  for (int64_t key = 0; key < end; key += K::T) {
    __syncthreads();
    load_tile<K>(ks, q + width, stride, key, s.t, s.size);
    load_tile<K>(vs, q + 2 * width, stride, key, s.t, s.size);
    __syncthreads();
    products<K>(qs, ks, ty, tx, score);
#pragma unroll
    for (int i = 0; i < K::M; i++) {
      int64_t query = at.first + ty * K::M + i;
      float most = -INFINITY, part = 0, f[K::M];
#pragma unroll
      for (int j = 0; j < K::M; j++) {
        int64_t k = key + column_of(tx, j);
        bool seen = k < s.t && (!s.causal || k <= query);
        score[i][j] = seen ? score[i][j] * s.scale : -INFINITY;
        most = fmaxf(most, score[i][j]);
      }
      most = fmaxf(top[i], side_max(most)); // every query sees key 0, so this is a number
      float shrink = expf(top[i] - most);
      drop.of_query<K::M>(s, at.head, query, key, tx, f);
#pragma unroll
      for (int j = 0; j < K::M; j++) {
        float p = expf(score[i][j] - most);
        part += p;
        score[i][j] = p * f[j];
      }
      sum[i] = sum[i] * shrink + side_sum(part);
      top[i] = most;
#pragma unroll
      for (int c = 0; c < K::C; c++)
        o[i][c] *= shrink;
    }
    store_weights<K>(weights, ty, tx, score);
    __syncthreads();
    add_weighted<K>(weights, vs, ty, tx, o);
  }
#pragma unroll
  for (int i = 0; i < K::M; i++) {
    int64_t query = at.first + ty * K::M + i;
    if (query >= s.t) continue;
    float each = 1 / sum[i];
    E *to = y + (at.sample * s.t + query) * width + at.head * s.size;
#pragma unroll
    for (int c = 0; c < K::C; c++)
      if (tx + SIDE * c < s.size) to[tx + SIDE * c] = rounded<E>(o[i][c] * each);
    if (tx == 0) lse[(at.sample * s.heads + at.head) * s.t + query] = top[i] + logf(sum[i]);
  }
}

// With p the probability, f its dropout's factor, and the product of a row of dy with the row of v:
//   ds = p (f product - sum of dy y over the row) scale;   dq = ds k,  dk = ds^T q,  dv = (p f)^T dy
// products -> probability times factor, and ds.
__device__ static void gradient_of(const attention_shape &s, int64_t query, int64_t key, float f, float lse,
                                   float inner, float *score, float *product) {
  bool seen = query < s.t && key < s.t && (!s.causal || key <= query);
  float p = seen ? expf(*score * s.scale - lse) : 0;
  *product = seen ? p * (f * *product - inner) * s.scale : 0;
  *score = p * f;
}

// Sums of dy y over each of the T rows from `first` on, and their lse, into shared memory.
template <class K, class E>
__device__ static void load_inner(const attention_shape &s, const E *dy, const E *y, const float *lse,
                                  int64_t first, float *inner, float *lse_of) {
  int lane = threadIdx.x % WARP;
  for (int r = threadIdx.x / WARP; r < K::T; r += WARPS) {
    float sum = 0;
    bool real = first + r < s.t;
    for (int64_t d = lane; real && d < s.size; d += WARP)
      sum += f32_of(dy[(first + r) * s.width() + d]) * f32_of(y[(first + r) * s.width() + d]);
    sum = warp_sum(sum);
    if (lane == 0) {
      inner[r] = sum;
      lse_of[r] = real ? lse[first + r] : 0;
    }
  }
}

// Grid as above.
template <class K, class E>
__global__ void __launch_bounds__(BLOCK)
    attention_dq_kernel(attention_shape s, const E *dy, const E *qkv, const E *y, const float *lse, E *dqkv) {
  extern __shared__ float4 shared[];
  __shared__ float inner[K::T], lse_of[K::T];
  float *qs = (float *)shared, *dys = qs + K::FLOATS, *ks = dys + K::FLOATS, *vs = ks + K::FLOATS,
        *weights = vs + K::FLOATS;
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  task_t at(s, K::T);
  dropped drop(s, at.sample);
  int64_t width = s.width(), stride = 3 * width, from = at.sample * s.t * width + at.head * s.size;
  const E *q = qkv + at.sample * s.t * stride + at.head * s.size;
  load_tile<K>(qs, q, stride, at.first, s.t, s.size);
  load_tile<K>(dys, dy + from, width, at.first, s.t, s.size);
  load_inner<K>(s, dy + from, y + from, lse + (at.sample * s.heads + at.head) * s.t, at.first, inner, lse_of);
  float dq[K::M][K::C] = {}, score[K::M][K::M], product[K::M][K::M];
  int64_t end = s.causal && at.first + K::T < s.t ? at.first + K::T : s.t;
  for (int64_t key = 0; key < end; key += K::T) {
    __syncthreads();
    load_tile<K>(ks, q + width, stride, key, s.t, s.size);
    load_tile<K>(vs, q + 2 * width, stride, key, s.t, s.size);
    __syncthreads();
    products<K>(qs, ks, ty, tx, score);
    products<K>(dys, vs, ty, tx, product);
#pragma unroll
    for (int i = 0; i < K::M; i++) {
      int row = ty * K::M + i;
      float f[K::M];
      drop.of_query<K::M>(s, at.head, at.first + row, key, tx, f);
#pragma unroll
      for (int j = 0; j < K::M; j++)
        gradient_of(s, at.first + row, key + column_of(tx, j), f[j], lse_of[row], inner[row], &score[i][j],
                    &product[i][j]);
    }
    store_weights<K>(weights, ty, tx, product);
    __syncthreads();
    add_weighted<K>(weights, ks, ty, tx, dq);
  }
#pragma unroll
  for (int i = 0; i < K::M; i++) {
    int64_t query = at.first + ty * K::M + i;
    E *to = dqkv + (at.sample * s.t + query) * stride + at.head * s.size;
#pragma unroll
    for (int c = 0; c < K::C; c++)
      if (query < s.t && tx + SIDE * c < s.size) to[tx + SIDE * c] = rounded<E>(dq[i][c]);
  }
}

// Grid: samples times heads, tiles of keys. Rows are keys, columns queries.
template <class K, class E>
__global__ void __launch_bounds__(BLOCK) attention_dkv_kernel(attention_shape s, const E *dy, const E *qkv,
                                                              const E *y, const float *lse, E *dqkv) {
  extern __shared__ float4 shared[];
  __shared__ float inner[K::T], lse_of[K::T];
  float *qs = (float *)shared, *dys = qs + K::FLOATS, *ks = dys + K::FLOATS, *vs = ks + K::FLOATS,
        *p_weights = vs + K::FLOATS, *ds_weights = p_weights + K::WEIGHTS;
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  task_t at(s, K::T);
  dropped drop(s, at.sample);
  int64_t width = s.width(), stride = 3 * width, from = at.sample * s.t * width + at.head * s.size;
  const E *q = qkv + at.sample * s.t * stride + at.head * s.size;
  load_tile<K>(ks, q + width, stride, at.first, s.t, s.size);
  load_tile<K>(vs, q + 2 * width, stride, at.first, s.t, s.size);
  float dk[K::M][K::C] = {}, dv[K::M][K::C] = {}, score[K::M][K::M], product[K::M][K::M];
  for (int64_t query = s.causal ? at.first : 0; query < s.t; query += K::T) {
    __syncthreads();
    load_tile<K>(qs, q, stride, query, s.t, s.size);
    load_tile<K>(dys, dy + from, width, query, s.t, s.size);
    load_inner<K>(s, dy + from, y + from, lse + (at.sample * s.heads + at.head) * s.t, query, inner, lse_of);
    __syncthreads();
    products<K>(ks, qs, ty, tx, score);
    products<K>(vs, dys, ty, tx, product);
#pragma unroll
    for (int j = 0; j < K::M; j++) {
      int column = column_of(tx, j);
      int64_t key = at.first + ty * K::M;
      float f[K::M];
      drop.of_keys<K::M>(s, at.head, query + column, key, f);
#pragma unroll
      for (int i = 0; i < K::M; i++)
        gradient_of(s, query + column, key + i, f[i], lse_of[column], inner[column], &score[i][j],
                    &product[i][j]);
    }
    store_weights<K>(p_weights, ty, tx, score);
    store_weights<K>(ds_weights, ty, tx, product);
    __syncthreads();
    add_weighted<K>(p_weights, dys, ty, tx, dv);
    add_weighted<K>(ds_weights, qs, ty, tx, dk);
  }
#pragma unroll
  for (int i = 0; i < K::M; i++) {
    int64_t key = at.first + ty * K::M + i;
    E *to = dqkv + (at.sample * s.t + key) * stride + width + at.head * s.size;
#pragma unroll
    for (int c = 0; c < K::C; c++)
      if (key < s.t && tx + SIDE * c < s.size) {
        to[tx + SIDE * c] = rounded<E>(dk[i][c]);
        to[width + tx + SIDE * c] = rounded<E>(dv[i][c]);
      }
  }
}

// ---- launches ----

template <class F> static int allow_shared(F *kernel, size_t bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

template <class K, class E> static int attention_as(ls_stream_t *stream, args_t args) {
  attention_shape s = attention_shape_of(args, args->in[0], args->in[1]);
  size_t bytes = (3 * K::FLOATS + K::WEIGHTS) * sizeof(float);
  int error = allow_shared(attention_kernel<K, E>, bytes);
  dim3 grid((unsigned)(in_rows(args, 0) * s.heads), (unsigned)((s.t + K::T - 1) / K::T));
  if (!error)
    attention_kernel<K, E><<<grid, BLOCK, bytes, ls_kernel_stream(stream)>>>(
        s, (const E *)args->in[0].data, (E *)args->out[0].data, out(args, 1));
  return error ? error : launched();
}

template <class K, class E> static int attention_dx_as(ls_stream_t *stream, args_t args) {
  attention_shape s = attention_shape_of(args, args->in[1], args->in[4]);
  const E *dy = (const E *)args->in[0].data, *qkv = (const E *)args->in[1].data,
          *y = (const E *)args->in[2].data;
  const float *lse = in(args, 3);
  E *dqkv = (E *)args->out[0].data;
  size_t dq_bytes = (4 * K::FLOATS + K::WEIGHTS) * sizeof(float);
  size_t dkv_bytes = dq_bytes + K::WEIGHTS * sizeof(float);
  int error = allow_shared(attention_dq_kernel<K, E>, dq_bytes);
  if (!error) error = allow_shared(attention_dkv_kernel<K, E>, dkv_bytes);
  if (error) return error;
  dim3 grid((unsigned)(in_rows(args, 1) * s.heads), (unsigned)((s.t + K::T - 1) / K::T));
  cudaStream_t handle = ls_kernel_stream(stream);
  attention_dq_kernel<K, E><<<grid, BLOCK, dq_bytes, handle>>>(s, dy, qkv, y, lse, dqkv);
  attention_dkv_kernel<K, E><<<grid, BLOCK, dkv_bytes, handle>>>(s, dy, qkv, y, lse, dqkv);
  return launched();
}

// The first version whose size a head does not exceed, that has the tensors' dtype, and that suits the GPU.
typedef int (*version_fn)(ls_stream_t *stream, args_t args);
#define VERSION(type, e, d, t)                                                                               \
  { type, d, attention_as<tile_of<d, t>, e>, attention_dx_as<tile_of<d, t>, e> }
static const struct {
  ls_dtype_t dtype;
  int64_t size;
  version_fn forward, dx;
} versions[] = {
    VERSION(LS_F32, float, 16, 64),  VERSION(LS_F32, float, 32, 64),   VERSION(LS_F32, float, 64, 64),
    VERSION(LS_F32, float, 64, 32),  VERSION(LS_F32, float, 128, 64),  VERSION(LS_F32, float, 128, 32),
    VERSION(LS_F32, float, 256, 32), VERSION(LS_BF16, bf16_t, 64, 32), VERSION(LS_BF16, bf16_t, 256, 32),
    VERSION(LS_F16, f16_t, 64, 32),  VERSION(LS_F16, f16_t, 256, 32)};

static int serve(ls_stream_t *stream, args_t args, const ls_tensor_t &qkv, bool dx) {
  int64_t size = qkv.shape.dim[2] / (3 * args->attrs->i[0]);
  int error = cudaErrorNotSupported;
  for (const auto &v : versions) {
    if (size > v.size || v.dtype != qkv.shape.dtype) continue;
    error = (dx ? v.dx : v.forward)(stream, args);
    if (error != cudaErrorInvalidValue && error != cudaErrorNotSupported) break;
    (void)cudaGetLastError(); // a version that does not fit is no error
    error = cudaErrorNotSupported;
  }
  return error;
}
static int by_tiles(ls_stream_t *stream, args_t args, int) {
  return serve(stream, args, args->in[0], false);
}
static int by_tiles_dx(ls_stream_t *stream, args_t args, int) {
  return serve(stream, args, args->in[1], true);
}

// The first that can is the fixed rule's.
static ls_status_t attention(ls_stream_t *stream, args_t args) {
  static const ls_way_t ways[] = {{"tensor", attention_low, 0, false},
                                  {"tensor, another plan", attention_low, 1, false},
                                  {"tiles", by_tiles, 0, false},
                                  {"split", attention_split, 0, true},
                                  {"split, another plan", attention_split, 1, true},
                                  {"any", attention_any, 0, false}};
  return ls_kernel_best(stream, args, "attention", ways, (int)(sizeof ways / sizeof *ways));
}

static ls_status_t attention_dx(ls_stream_t *stream, args_t args) {
  static const ls_way_t ways[] = {{"tensor", attention_low_dx, 0, false},
                                  {"tensor, another plan", attention_low_dx, 1, false},
                                  {"tiles", by_tiles_dx, 0, false},
                                  {"split", attention_split_dx, 0, true},
                                  {"any", attention_any_dx, 0, false}};
  return ls_kernel_best(stream, args, "attention_dx", ways, (int)(sizeof ways / sizeof *ways));
}

const ls_kernel_row_t ls_cuda_attention_rows[] = {
    {"attention", attention, true}, {"attention_dx", attention_dx, true}, {}};
