// Attention of 16-bit tensors on tensor cores (Dao 2023, "FlashAttention-2"). A warp has STRIPS strips of 16 rows, queries or
// keys, of one head, and a block of a few warps goes over the columns N at a time, whose tiles arrive in shared memory while the
// ones before are worked on. A product's result has the layout that the next product wants of its left factor, so that
// probabilities never leave registers. The gradient is two kernels, over queries and over keys, and neither adds to what
// another block adds to: the same bits in every run. Sums, softmax and lse are f32.
#include "device/cuda/attention.cuh"

constexpr int SEGMENT = 8; // numbers of 16 bytes
constexpr int STRIP = 16;

// D: the head's size at most; OF: warps of a block; STRIPS: of a warp; N: columns of a tile; BLOCKS: at once on a
// multiprocessor, at least.
template <class E_, int D_, int OF_, int STRIPS_, int N_, int BLOCKS_ = 1> struct plan_of {
  typedef E_ E;
  static constexpr int D = D_, STRIPS = STRIPS_, N = N_, THREADS = OF_ * WARP, BLOCKS = BLOCKS_;
  static constexpr int ROWS = OF_ * STRIPS * STRIP, DEPTHS = D / 16, SEGMENTS = D / SEGMENT;
  static constexpr int OWN = ROWS * SEGMENTS, TILE = N * SEGMENTS; // segments of the block's rows, of a tile
};

// A tile is rows of SEGMENTS segments. Eight rows of one column of segments lie in different banks.
template <class K> __device__ static int place(int row, int segment) {
  return row * K::SEGMENTS + (K::SEGMENTS == 4 ? segment ^ (row >> 1 & 3) : segment ^ (row & 7));
}

// `rows` rows from `first` on, `stride` apart; zeros beyond t and beyond the head's size.
template <class K, int rows>
__device__ static void fetch(uint4 *to, const typename K::E *x, int64_t stride, int first,
                             const attention_shape &s) {
#pragma unroll
  for (int i = 0; i < rows * K::SEGMENTS; i += K::THREADS) {
    int e = i + (int)threadIdx.x, row = e / K::SEGMENTS, segment = e % K::SEGMENTS;
    bool real = first + row < s.t && segment * SEGMENT < s.size;
    if (rows * K::SEGMENTS % K::THREADS == 0 || e < rows * K::SEGMENTS)
      copy_16(to + place<K>(row, segment), real ? x + (first + row) * stride + segment * SEGMENT : x, real);
  }
}

// Left factors: 16 rows of a tile from `row`, 16 numbers of each from 16 k.
template <class K> __device__ static void left(uint32_t *to, const uint4 *tile, int row, int k) {
  int lane = threadIdx.x % WARP;
  load_fragments(to, tile + place<K>(row + lane % 16, 2 * k + lane / 16));
}
// Right factors of two products, whose columns are 16 rows of a tile.
template <class K> __device__ static void right(uint32_t *to, const uint4 *tile, int row, int k) {
  int lane = threadIdx.x % WARP;
  load_fragments(to, tile + place<K>(row + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
}
// Right factors of two products, whose columns are 16 numbers of each row.
template <class K> __device__ static void right_transposed(uint32_t *to, const uint4 *tile, int row, int k) {
  int lane = threadIdx.x % WARP;
  load_fragments_transposed(to, tile + place<K>(row + lane % 16, 2 * k + lane / 16));
}

// A strip's product with a tile's columns, and with numbers of its rows.
template <class K> using wide_t = float[K::STRIPS][K::N / 8][4];
template <class K> using deep_t = float[K::STRIPS][K::D / 8][4];

// sum = rows of the strips times the tile's rows.
template <class K, class F> __device__ static void products(wide_t<K> &sum, const uint4 *tile, F rows) {
#pragma unroll
  for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
    for (int n = 0; n < K::N / 8; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        sum[m][n][e] = 0;
#pragma unroll
  for (int k = 0; k < K::DEPTHS; k++) {
    uint32_t a[K::STRIPS][4];
#pragma unroll
    for (int m = 0; m < K::STRIPS; m++)
      rows(a[m], m, k);
#pragma unroll
    for (int n = 0; n < K::N / 16; n++) {
      uint32_t b[4];
      right<K>(b, tile, n * 16, k);
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++) {
        multiply(sum[m][2 * n], a[m], b, typename K::E());
        multiply(sum[m][2 * n + 1], a[m], b + 2, typename K::E());
      }
    }
  }
}

// sum += weights times the tile's rows.
template <class K>
__device__ static void add_weighted(deep_t<K> &sum, const wide_t<K> &weights, const uint4 *tile) {
  typename K::E as = {};
#pragma unroll
  for (int k = 0; k < K::N / 16; k++) {
    uint32_t a[K::STRIPS][4];
#pragma unroll
    for (int m = 0; m < K::STRIPS; m++) {
      const float *w = weights[m][2 * k], *v = weights[m][2 * k + 1];
      a[m][0] = pack(w[0], w[1], as);
      a[m][1] = pack(w[2], w[3], as);
      a[m][2] = pack(v[0], v[1], as);
      a[m][3] = pack(v[2], v[3], as);
    }
#pragma unroll
    for (int d = 0; d < K::D / 16; d++) {
      uint32_t b[4];
      right_transposed<K>(b, tile, k * 16, d);
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++) {
        multiply(sum[m][2 * d], a[m], b, as);
        multiply(sum[m][2 * d + 1], a[m], b + 2, as);
      }
    }
  }
}

// Where element e of a product lies from its corner.
__device__ static int row_of(int e) {
  return (int)threadIdx.x % WARP / 4 + e / 2 * 8;
}
__device__ static int column_of(int e) {
  return (int)threadIdx.x % 4 * 2 + e % 2;
}

// Sum and maximum over the four lanes that share rows.
template <class T> __device__ static T quad_sum(T value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}
template <class T> __device__ static T quad_max(T value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

// Which probabilities stay: bit e for element e of an 8-wide product whose corner is given. A thread draws one counter's four
// keys of one query and passes on what its neighbours need. Called by whole warps.
struct dropped : dropout_words {
  using dropout_words::dropout_words;
  __device__ static bool stays(const attention_shape &s, uint32_t word) {
    return ls_each_dropout(1, word, s.rate, 1) != 0;
  }
  __device__ unsigned four(const attention_shape &s, int64_t head, int64_t query, int64_t key) const {
    ls_rng4_t w = words(s, head, query, key);
    return stays(s, w.v[0]) | stays(s, w.v[1]) << 1 | stays(s, w.v[2]) << 2 | stays(s, w.v[3]) << 3;
  }
  // Rows are queries.
  __device__ unsigned of_queries(const attention_shape &s, int64_t head, int64_t query, int64_t key) const {
    unsigned keep = 0, odd = threadIdx.x % 2;
    if (!shared) {
      for (int e = 0; e < 4; e++)
        keep |= stays(s, word(s, head, query + row_of(e), key + column_of(e))) << e;
      return keep;
    }
    keep = four(s, head, query + row_of(0) + 8 * odd, key + threadIdx.x % 4 / 2 * 4) << 4 * odd;
    keep |= __shfl_xor_sync(0xffffffffu, keep, 1);
    return (keep >> 2 * odd & 3) | (keep >> (4 + 2 * odd) & 3) << 2;
  }
  // Rows are keys.
  __device__ unsigned of_keys(const attention_shape &s, int64_t head, int64_t query, int64_t key) const {
    unsigned keep = 0, own = threadIdx.x % WARP / 4 % 4;
    if (!shared) {
      for (int e = 0; e < 4; e++)
        keep |= stays(s, word(s, head, query + column_of(e), key + row_of(e))) << e;
      return keep;
    }
    keep = four(s, head, query + column_of((int)own), key + row_of((int)own) / 4 * 4) << 4 * own;
    keep |= __shfl_xor_sync(0xffffffffu, keep, 4);
    keep |= __shfl_xor_sync(0xffffffffu, keep, 8);
    keep >>= own;
    return (keep & 1) | (keep >> 3 & 2) | (keep >> 6 & 4) | (keep >> 9 & 8);
  }
};

// A block's head of a sample and its first row. Blocks of one head follow each other, those with most columns first.
template <class K> struct task_t {
  int64_t sample, head;
  int first, strips; // strips: first row of the warp's
  __device__ task_t(const attention_shape &s, bool last_first) {
    int tiles = ((int)s.t + K::ROWS - 1) / K::ROWS, tile = (int)(blockIdx.x % tiles);
    int64_t which = blockIdx.x / tiles;
    sample = which / s.heads;
    head = which % s.heads;
    first = (last_first ? tiles - 1 - tile : tile) * K::ROWS;
    strips = first + (int)threadIdx.x / WARP * K::STRIPS * STRIP;
  }
};

// Rows of the strips, times `factor` each, to y with rows `stride` apart.
template <class K, class F>
__device__ static void store(typename K::E *y, int64_t stride, int first, const attention_shape &s,
                             const deep_t<K> &sum, F factor) {
#pragma unroll
  for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int row = first + m * STRIP + row_of(2 * half);
      float by = factor(m, half);
#pragma unroll
      for (int d = 0; d < K::D / 8; d++)
        if (row < s.t && d * 8 < s.size)
          *(uint32_t *)(y + row * stride + d * 8 + column_of(0)) =
              pack(sum[m][d][2 * half] * by, sum[m][d][2 * half + 1] * by, typename K::E());
    }
}

constexpr float LOG2_E = 1.4426950408889634f;

template <class K>
__global__ void __launch_bounds__(K::THREADS, K::BLOCKS)
    tensor_kernel(attention_shape s, const typename K::E *qkv, typename K::E *y, float *lse) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ float4 shared[];
  uint4 *qs = (uint4 *)shared, *tiles = qs + K::OWN; // two of keys and of values
  task_t<K> at(s, true);
  dropped drop(s, at.sample);
  int64_t width = s.width(), stride = 3 * width;
  const typename K::E *q = qkv + at.sample * s.t * stride + at.head * s.size;
  auto fetch_tile = [&](int j) {
    uint4 *to = tiles + j % 2 * 2 * K::TILE;
    fetch<K, K::N>(to, q + width, stride, j * K::N, s);
    fetch<K, K::N>(to + K::TILE, q + 2 * width, stride, j * K::N, s);
    copies_end();
  };
  fetch<K, K::ROWS>(qs, q, stride, at.first, s);
  fetch_tile(0);
  uint32_t own[K::DEPTHS][K::STRIPS][4];
  float top[K::STRIPS][2], sum[K::STRIPS][2], factor = s.scale * LOG2_E;
  deep_t<K> o = {};
#pragma unroll
  for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      top[m][half] = -INFINITY;
      sum[m][half] = 0;
    }
  int end = s.causal && at.first + K::ROWS < s.t ? at.first + K::ROWS : (int)s.t;
  int count = (end + K::N - 1) / K::N;
  for (int j = 0; j < count; j++) {
    copies_wait<0>();
    __syncthreads(); // all have this tile, and are done with the one that the next takes the place of
    if (j + 1 < count) fetch_tile(j + 1);
    const uint4 *ks = tiles + j % 2 * 2 * K::TILE, *vs = ks + K::TILE;
    if (j == 0)
#pragma unroll
      for (int k = 0; k < K::DEPTHS; k++)
#pragma unroll
        for (int m = 0; m < K::STRIPS; m++)
          left<K>(own[k][m], qs, at.strips - at.first + m * STRIP, k);
    int key = j * K::N;
    if (s.causal && key >= at.strips + K::STRIPS * STRIP) continue; // no row of the warp sees these
    wide_t<K> score;
    products<K>(score, ks, [&](uint32_t *a, int m, int k) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        a[i] = own[k][m][i];
    });
    bool edge = key + K::N > s.t || (s.causal && key + K::N - 1 > at.strips);
#pragma unroll
    for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int query = at.strips + m * STRIP + row_of(2 * half);
        int last = s.causal && query < s.t ? query : (int)s.t - 1;
        float most = top[m][half];
#pragma unroll
        for (int n = 0; n < K::N / 8; n++)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; e++) {
            if (edge && key + n * 8 + column_of(e) > last) score[m][n][e] = -INFINITY;
            most = fmaxf(most, score[m][n][e]);
          }
        most = quad_max(most); // every row sees key 0, so this is a number
        float shrink = power_of_2((top[m][half] - most) * factor), part = 0;
#pragma unroll
        for (int n = 0; n < K::N / 8; n++)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; e++)
            part += score[m][n][e] = power_of_2(score[m][n][e] * factor - most * factor);
        sum[m][half] = sum[m][half] * shrink + part;
        top[m][half] = most;
#pragma unroll
        for (int d = 0; d < K::D / 8; d++)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; e++)
            o[m][d][e] *= shrink;
      }
    if (drop.on)
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
        for (int n = 0; n < K::N / 8; n++) {
          unsigned keep = drop.of_queries(s, at.head, at.strips + m * STRIP, key + n * 8);
#pragma unroll
          for (int e = 0; e < 4; e++)
            score[m][n][e] = keep >> e & 1 ? score[m][n][e] : 0;
        }
    add_weighted<K>(o, score, vs);
  }
#pragma unroll
  for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int query = at.strips + m * STRIP + row_of(2 * half);
      sum[m][half] = quad_sum(sum[m][half]);
      if (query < s.t && threadIdx.x % 4 == 0)
        lse[(at.sample * s.heads + at.head) * s.t + query] = top[m][half] * s.scale + logf(sum[m][half]);
    }
  store<K>(y + at.sample * s.t * width + at.head * s.size, width, at.strips, s, o,
           [&](int m, int half) { return s.widen / sum[m][half]; });
#else
  (void)s, (void)qkv, (void)y, (void)lse;
#endif
}

// The parts of the gradient that a query's row needs: its lse as a power of 2, and the sum of dy y.
struct row_t {
  float lse, inner;
};

// With p the probability, f its dropout's factor, and the product of a row of dy with the row of v:
//   ds = p (f product - sum of dy y over the row);   dq = ds k scale,  dk = ds^T q scale,  dv = (p f)^T dy
template <class K>
__global__ void __launch_bounds__(K::THREADS, K::BLOCKS)
    tensor_dq_kernel(attention_shape s, const typename K::E *dy, const typename K::E *qkv,
                     const typename K::E *y, const float *lse, row_t *rows, typename K::E *dqkv) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ float4 shared[];
  uint4 *qs = (uint4 *)shared, *dys = qs + K::OWN, *tiles = dys + K::OWN; // two of keys and of values
  task_t<K> at(s, true);
  dropped drop(s, at.sample);
  int64_t width = s.width(), stride = 3 * width, from = at.sample * s.t * width + at.head * s.size;
  int64_t which = (at.sample * s.heads + at.head) * s.t;
  const typename K::E *q = qkv + at.sample * s.t * stride + at.head * s.size;
  auto fetch_tile = [&](int j) {
    uint4 *to = tiles + j % 2 * 2 * K::TILE;
    fetch<K, K::N>(to, q + width, stride, j * K::N, s);
    fetch<K, K::N>(to + K::TILE, q + 2 * width, stride, j * K::N, s);
    copies_end();
  };
  fetch<K, K::ROWS>(qs, q, stride, at.first, s);
  fetch<K, K::ROWS>(dys, dy + from, width, at.first, s);
  fetch_tile(0);
  row_t row[K::STRIPS][2];
#pragma unroll
  for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int query = at.strips + m * STRIP + row_of(2 * half);
      float inner = 0;
      for (int d = (int)threadIdx.x % 4 * SEGMENT; query < s.t && d < s.size; d += 4 * SEGMENT) {
        uint4 a = *(const uint4 *)(dy + from + query * width + d),
              b = *(const uint4 *)(y + from + query * width + d);
        const typename K::E *u = (const typename K::E *)&a, *v = (const typename K::E *)&b;
#pragma unroll
        for (int i = 0; i < SEGMENT; i++)
          inner += widen(u[i]) * widen(v[i]);
      }
      row[m][half] = {query < s.t ? lse[which + query] * LOG2_E : 0, quad_sum(inner)};
      if (query < s.t && threadIdx.x % 4 == 0) rows[which + query] = row[m][half];
    }
  deep_t<K> dq = {};
  float factor = s.scale * LOG2_E;
  int end = s.causal && at.first + K::ROWS < s.t ? at.first + K::ROWS : (int)s.t;
  int count = (end + K::N - 1) / K::N;
  for (int j = 0; j < count; j++) {
    copies_wait<0>();
    __syncthreads();
    if (j + 1 < count) fetch_tile(j + 1);
    const uint4 *ks = tiles + j % 2 * 2 * K::TILE, *vs = ks + K::TILE;
    int key = j * K::N;
    if (s.causal && key >= at.strips + K::STRIPS * STRIP) continue;
    wide_t<K> score, product;
    products<K>(score, ks,
                [&](uint32_t *a, int m, int k) { left<K>(a, qs, at.strips - at.first + m * STRIP, k); });
    products<K>(product, vs,
                [&](uint32_t *a, int m, int k) { left<K>(a, dys, at.strips - at.first + m * STRIP, k); });
    bool edge = key + K::N > s.t || (s.causal && key + K::N - 1 > at.strips);
#pragma unroll
    for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
      for (int n = 0; n < K::N / 8; n++) {
        unsigned keep = drop.on ? drop.of_queries(s, at.head, at.strips + m * STRIP, key + n * 8) : 15;
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int query = at.strips + m * STRIP + row_of(e), column = key + n * 8 + column_of(e);
          float p = power_of_2(score[m][n][e] * factor - row[m][e / 2].lse);
          if (edge && (column >= s.t || (s.causal && column > query))) p = 0;
          score[m][n][e] = p * ((keep >> e & 1 ? product[m][n][e] * s.widen : 0) - row[m][e / 2].inner);
        }
      }
    add_weighted<K>(dq, score, ks);
  }
  store<K>(dqkv + at.sample * s.t * stride + at.head * s.size, stride, at.strips, s, dq,
           [&](int, int) { return s.scale; });
#else
  (void)s, (void)dy, (void)qkv, (void)y, (void)lse, (void)rows, (void)dqkv;
#endif
}

// Rows are keys, columns queries.
template <class K>
__global__ void __launch_bounds__(K::THREADS, K::BLOCKS)
    tensor_dkv_kernel(attention_shape s, const typename K::E *dy, const typename K::E *qkv, const row_t *rows,
                      typename K::E *dqkv) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ float4 shared[];
  uint4 *ks = (uint4 *)shared, *vs = ks + K::OWN, *tiles = vs + K::OWN; // two of queries and of dy
  row_t *row_tiles = (row_t *)(tiles + 4 * K::TILE);
  task_t<K> at(s, false);
  dropped drop(s, at.sample);
  int64_t width = s.width(), stride = 3 * width, from = at.sample * s.t * width + at.head * s.size;
  int64_t which = (at.sample * s.heads + at.head) * s.t;
  const typename K::E *q = qkv + at.sample * s.t * stride + at.head * s.size;
  auto fetch_tile = [&](int j) {
    uint4 *to = tiles + j % 2 * 2 * K::TILE;
    fetch<K, K::N>(to, q, stride, j * K::N, s);
    fetch<K, K::N>(to + K::TILE, dy + from, width, j * K::N, s);
    int query = j * K::N + (int)threadIdx.x;
    if (threadIdx.x < K::N)
      copy_8(row_tiles + j % 2 * K::N + threadIdx.x, rows + which + (query < s.t ? query : 0), query < s.t);
    copies_end();
  };
  int begin = s.causal ? at.first / K::N : 0, count = ((int)s.t + K::N - 1) / K::N;
  fetch<K, K::ROWS>(ks, q + width, stride, at.first, s);
  fetch<K, K::ROWS>(vs, q + 2 * width, stride, at.first, s);
  fetch_tile(begin);
  deep_t<K> dk = {}, dv = {};
  float factor = s.scale * LOG2_E;
  for (int j = begin; j < count; j++) {
    copies_wait<0>();
    __syncthreads();
    if (j + 1 < count) fetch_tile(j + 1);
    const uint4 *qs = tiles + j % 2 * 2 * K::TILE, *dys = qs + K::TILE;
    const row_t *row = row_tiles + j % 2 * K::N;
    int query = j * K::N;
    if (s.causal && query + K::N <= at.strips) continue;
    wide_t<K> score, product;
    products<K>(score, qs,
                [&](uint32_t *a, int m, int k) { left<K>(a, ks, at.strips - at.first + m * STRIP, k); });
    products<K>(product, dys,
                [&](uint32_t *a, int m, int k) { left<K>(a, vs, at.strips - at.first + m * STRIP, k); });
    bool edge = s.causal && query < at.strips + K::STRIPS * STRIP - 1;
#pragma unroll
    for (int n = 0; n < K::N / 8; n++) {
      float4 pair = *(const float4 *)(row + n * 8 + column_of(0));
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++) {
        unsigned keep = drop.on ? drop.of_keys(s, at.head, query + n * 8, at.strips + m * STRIP) : 15;
#pragma unroll
        for (int e = 0; e < 4; e++) {
          float p = power_of_2(score[m][n][e] * factor - (e % 2 ? pair.z : pair.x));
          if (edge && at.strips + m * STRIP + row_of(e) > query + n * 8 + column_of(e)) p = 0;
          bool stays = keep >> e & 1;
          product[m][n][e] = p * ((stays ? product[m][n][e] * s.widen : 0) - (e % 2 ? pair.w : pair.y));
          score[m][n][e] = stays ? p : 0;
        }
      }
    }
    add_weighted<K>(dv, score, dys);
    add_weighted<K>(dk, product, qs);
  }
  typename K::E *to = dqkv + at.sample * s.t * stride + at.head * s.size + width;
  store<K>(to, stride, at.strips, s, dk, [&](int, int) { return s.scale; });
  store<K>(to + width, stride, at.strips, s, dv, [&](int, int) { return s.widen; });
#else
  (void)s, (void)dy, (void)qkv, (void)rows, (void)dqkv;
#endif
}

// ---- launches ----

template <class K> static dim3 grid_of(const attention_shape &s, int64_t samples) {
  return dim3((unsigned)(samples * s.heads * ((s.t + K::ROWS - 1) / K::ROWS)));
}

template <class K> static int forward_as(ls_stream_t *stream, args_t args) {
  typedef typename K::E E;
  attention_shape s = attention_shape_of(args, args->in[0], args->in[1]);
  size_t bytes = (K::OWN + 4 * K::TILE) * sizeof(uint4);
  int error = kernel_ready(tensor_kernel<K>, 80, bytes);
  if (error) return error;
  tensor_kernel<K><<<grid_of<K>(s, in_rows(args, 0)), K::THREADS, bytes, ls_kernel_stream(stream)>>>(
      s, (const E *)args->in[0].data, (E *)args->out[0].data, out(args, 1));
  return launched();
}

template <class Q, class K> static int dx_as(ls_stream_t *stream, args_t args) {
  typedef typename K::E E;
  attention_shape s = attention_shape_of(args, args->in[1], args->in[4]);
  const E *dy = (const E *)args->in[0].data, *qkv = (const E *)args->in[1].data,
          *y = (const E *)args->in[2].data;
  E *dqkv = (E *)args->out[0].data;
  row_t *rows = (row_t *)args->scratch;
  size_t bytes = (2 * Q::OWN + 4 * Q::TILE) * sizeof(uint4);
  size_t dkv_bytes = (2 * K::OWN + 4 * K::TILE) * sizeof(uint4) + 2 * K::N * sizeof(row_t);
  int error = kernel_ready(tensor_dq_kernel<Q>, 80, bytes);
  if (!error) error = kernel_ready(tensor_dkv_kernel<K>, 80, dkv_bytes);
  if (error) return error;
  int64_t samples = in_rows(args, 1);
  cudaStream_t handle = ls_kernel_stream(stream);
  tensor_dq_kernel<Q>
      <<<grid_of<Q>(s, samples), Q::THREADS, bytes, handle>>>(s, dy, qkv, y, in(args, 3), rows, dqkv);
  tensor_dkv_kernel<K><<<grid_of<K>(s, samples), K::THREADS, dkv_bytes, handle>>>(s, dy, qkv, rows, dqkv);
  return launched();
}

typedef int (*version_fn)(ls_stream_t *stream, args_t args);
template <class E> static int serve(ls_stream_t *stream, args_t args, const ls_tensor_t &qkv, bool dx) {
  static const struct {
    int64_t size, t; // at most; t 0: any
    version_fn forward, dx;
  } versions[] = {
      {32, 0, forward_as<plan_of<E, 32, 4, 1, 64>>,
       dx_as<plan_of<E, 32, 4, 1, 64>, plan_of<E, 32, 4, 1, 64>>},
      {64, 64, forward_as<plan_of<E, 64, 4, 1, 64>>,
       dx_as<plan_of<E, 64, 4, 1, 64>, plan_of<E, 64, 4, 1, 64>>},
      {64, 0, forward_as<plan_of<E, 64, 4, 2, 64>>,
       dx_as<plan_of<E, 64, 4, 1, 64>, plan_of<E, 64, 4, 1, 64>>},
      {128, 0, forward_as<plan_of<E, 128, 4, 1, 64>>,
       dx_as<plan_of<E, 128, 4, 1, 32>, plan_of<E, 128, 4, 1, 32>>},
  };
  int64_t size = qkv.shape.dim[2] / (3 * args->attrs->i[0]);
  if (size % SEGMENT != 0) return cudaErrorNotSupported;
  for (auto &v : versions)
    if (size <= v.size && (v.t == 0 || qkv.shape.dim[1] <= v.t)) return (dx ? v.dx : v.forward)(stream, args);
  return cudaErrorNotSupported;
}

static int serve_any(ls_stream_t *stream, args_t args, const ls_tensor_t &qkv, bool dx) {
  bool aligned = aligned16(args->in[0].data, args->in[1].data, args->out[0].data, args->in[dx ? 2 : 0].data);
  if (!aligned) return cudaErrorNotSupported;
  return qkv.shape.dtype == LS_BF16  ? serve<bf16_t>(stream, args, qkv, dx)
         : qkv.shape.dtype == LS_F16 ? serve<f16_t>(stream, args, qkv, dx)
                                     : cudaErrorNotSupported;
}

int attention_tensor(ls_stream_t *stream, args_t args) {
  return serve_any(stream, args, args->in[0], false);
}
int attention_tensor_dx(ls_stream_t *stream, args_t args) {
  return serve_any(stream, args, args->in[1], true);
}
