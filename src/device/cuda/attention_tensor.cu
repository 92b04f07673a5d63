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

// Which probabilities stay: bit e for element e of an 8-wide product.
struct dropped : dropout_words {
  int64_t head;
  uint64_t counter; // of the keys that the thread draws for: the row of its half of the quad, of strip 0
  __device__ dropped(const attention_shape &s, int64_t sample, int64_t head_, int strips)
      : dropout_words(s, sample), head(head_), counter(0) {
    int64_t query = strips + row_of(0) + 8 * (threadIdx.x % 2);
    if (shared) counter = row + (uint64_t)((head * s.t + query) * (s.t / 4)) + threadIdx.x % 4 / 2;
  }
  __device__ static bool stays(const attention_shape &s, uint32_t word) {
    return ls_each_dropout(1, word, s.rate, 1) != 0;
  }
  // Rows are queries, those of strip m; the corner's key is a multiple of 8. Where a counter has four keys of one query,
  // the two lanes that need them draw for a row each. Called by whole warps.
  __device__ unsigned of(const attention_shape &s, int strips, int m, int key) const {
    unsigned keep = 0, odd = threadIdx.x % 2;
    if (!shared) {
      for (int e = 0; e < 4; e++)
        keep |= stays(s, word(s, head, strips + m * STRIP + row_of(e), key + column_of(e))) << e;
      return keep;
    }
    ls_rng4_t w = ls_rng(seed, s.rng_stream, counter + (uint64_t)(m * STRIP * (s.t / 4) + key / 4));
#pragma unroll
    for (int i = 0; i < 4; i++)
      keep |= stays(s, w.v[i]) << (4 * odd + i);
    keep |= __shfl_xor_sync(0xffffffffu, keep, 1);
    return (keep >> 2 * odd & 3) | (keep >> (4 + 2 * odd) & 3) << 2;
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

// Scores of keys that a query does not see become -INFINITY. Rows are queries.
template <class K>
__device__ static void hide(wide_t<K> &score, const attention_shape &s, int strips, int key) {
  if (key + K::N <= s.t && !(s.causal && key + K::N - 1 > strips)) return;
#pragma unroll
  for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      int query = strips + m * STRIP + row_of(e), last = s.causal && query < s.t ? query : (int)s.t - 1;
#pragma unroll
      for (int n = 0; n < K::N / 8; n++)
        if (key + n * 8 + column_of(e) > last) score[m][n][e] = -INFINITY;
    }
}

// DROP: some probabilities are dropped.
template <class K, bool DROP>
__global__ void __launch_bounds__(K::THREADS, K::BLOCKS)
    tensor_kernel(attention_shape s, const typename K::E *qkv, typename K::E *y, float *lse) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ float4 shared[];
  uint4 *qs = (uint4 *)shared, *tiles = qs + K::OWN; // two of keys and of values
  task_t<K> at(s, true);
  dropped drop(s, at.sample, at.head, at.strips);
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
  float top[K::STRIPS][2], most[K::STRIPS][2], sum[K::STRIPS][2], factor = s.scale * LOG2_E;
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
    hide<K>(score, s, at.strips, key);
    // Sums are relative to the largest score so far, or to one that it exceeds by little: then nothing has to shrink.
    bool grows = false;
#pragma unroll
    for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        most[m][half] = score[m][0][2 * half];
#pragma unroll
        for (int n = 0; n < K::N / 8; n++)
          most[m][half] = fmaxf(most[m][half], fmaxf(score[m][n][2 * half], score[m][n][2 * half + 1]));
        most[m][half] = quad_max(most[m][half]);
        grows |= (most[m][half] - top[m][half]) * factor > GROWTH;
      }
    if (__any_sync(0xffffffffu, grows))
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          float new_top = fmaxf(top[m][half], most[m][half]); // every row sees key 0, so this is a number
          float shrink = power_of_2((top[m][half] - new_top) * factor);
          top[m][half] = new_top;
          sum[m][half] *= shrink;
#pragma unroll
          for (int d = 0; d < K::D / 8; d++) {
            o[m][d][2 * half] *= shrink;
            o[m][d][2 * half + 1] *= shrink;
          }
        }
#pragma unroll
    for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float base = top[m][half] * factor;
#pragma unroll
        for (int n = 0; n < K::N / 8; n++)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; e++)
            sum[m][half] += score[m][n][e] = power_of_2(score[m][n][e] * factor - base);
      }
    if constexpr (DROP)
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
        for (int n = 0; n < K::N / 8; n++) {
          unsigned keep = drop.of(s, at.strips, m, key + n * 8);
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
template <class K, bool DROP>
__global__ void __launch_bounds__(K::THREADS, K::BLOCKS)
    tensor_dq_kernel(attention_shape s, const typename K::E *dy, const typename K::E *qkv,
                     const typename K::E *y, const float *lse, row_t *rows, unsigned char *masks,
                     typename K::E *dqkv) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ float4 shared[];
  uint4 *qs = (uint4 *)shared, *dys = qs + K::OWN, *tiles = dys + K::OWN; // two of keys and of values
  task_t<K> at(s, true);
  dropped drop(s, at.sample, at.head, at.strips);
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
          inner += f32_of(u[i]) * f32_of(v[i]);
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
    hide<K>(score, s, at.strips, key);
#pragma unroll
    for (int m = 0; m < K::STRIPS; m++) {
      uint32_t note[2][K::N / 32] = {}; // of the thread's two rows
#pragma unroll
      for (int n = 0; n < K::N / 8; n++) {
        unsigned keep = DROP ? drop.of(s, at.strips, m, key + n * 8) : 15;
#pragma unroll
        for (int half = 0; DROP && half < 2; half++)
          note[half][n / 4] |= (keep >> 2 * half & 3) << (n % 4 * 8 + column_of(0));
#pragma unroll
        for (int e = 0; e < 4; e++) {
          float p = power_of_2(score[m][n][e] * factor - row[m][e / 2].lse), d = product[m][n][e];
          if (DROP) d = keep >> e & 1 ? d * s.widen : 0;
          score[m][n][e] = p * (d - row[m][e / 2].inner);
        }
      }
#pragma unroll
      for (int i = 0; DROP && i < 2 * (K::N / 32); i++) {
        uint32_t bits = note[i % 2][i / 2];
        bits |= __shfl_xor_sync(0xffffffffu, bits, 1);
        bits |= __shfl_xor_sync(0xffffffffu, bits, 2);
        int query = at.strips + m * STRIP + row_of(i % 2 * 2);
        if (threadIdx.x % 4 == 0 && query < s.t)
          *(uint32_t *)(masks + (which + query) * mask_bytes(s.t) + key / 8 + i / 2 * 4) = bits;
      }
    }
    add_weighted<K>(dq, score, ks);
  }
  store<K>(dqkv + at.sample * s.t * stride + at.head * s.size, stride, at.strips, s, dq,
           [&](int, int) { return s.scale; });
#else
  (void)s, (void)dy, (void)qkv, (void)y, (void)lse, (void)rows, (void)masks, (void)dqkv;
#endif
}

// Rows are keys, columns queries.
template <class K, bool DROP>
__global__ void __launch_bounds__(K::THREADS, K::BLOCKS)
    tensor_dkv_kernel(attention_shape s, const typename K::E *dy, const typename K::E *qkv, const row_t *rows,
                      const unsigned char *masks, typename K::E *dqkv) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ float4 shared[];
  uint4 *ks = (uint4 *)shared, *vs = ks + K::OWN, *tiles = vs + K::OWN; // two of queries and of dy
  row_t *row_tiles = (row_t *)(tiles + 4 * K::TILE);
  unsigned char *mask_tiles = (unsigned char *)(row_tiles + 2 * K::N); // of the block's keys
  task_t<K> at(s, false);
  int64_t width = s.width(), stride = 3 * width, from = at.sample * s.t * width + at.head * s.size;
  int64_t which = (at.sample * s.heads + at.head) * s.t;
  const typename K::E *q = qkv + at.sample * s.t * stride + at.head * s.size;
  auto fetch_tile = [&](int j) {
    uint4 *to = tiles + j % 2 * 2 * K::TILE;
    fetch<K, K::N>(to, q, stride, j * K::N, s);
    fetch<K, K::N>(to + K::TILE, dy + from, width, j * K::N, s);
    int query = j * K::N + (int)threadIdx.x;
    if (threadIdx.x < K::N) {
      int64_t at_row = which + (query < s.t ? query : 0);
      int place = j % 2 * K::N + (int)threadIdx.x;
      copy_8(row_tiles + place, rows + at_row, query < s.t);
#pragma unroll
      for (int i = 0; DROP && i < K::ROWS / 8; i += 8)
        copy_8(mask_tiles + place * (K::ROWS / 8) + i, masks + at_row * mask_bytes(s.t) + at.first / 8 + i,
               query < s.t);
    }
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
    if (s.causal && query < at.strips + K::STRIPS * STRIP - 1)
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
        for (int n = 0; n < K::N / 8; n++)
#pragma unroll
          for (int e = 0; e < 4; e++)
            if (at.strips + m * STRIP + row_of(e) > query + n * 8 + column_of(e)) score[m][n][e] = -INFINITY;
#pragma unroll
    for (int n = 0; n < K::N / 8; n++) {
      float4 pair = *(const float4 *)(row + n * 8 + column_of(0));
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++) {
        unsigned keep[2]; // bit: row of the strip
        if (DROP)
#pragma unroll
          for (int e = 0; e < 2; e++)
            keep[e] = *(const uint16_t *)(mask_tiles + (j % 2 * K::N + n * 8 + column_of(e)) * (K::ROWS / 8) +
                                          (at.strips - at.first + m * STRIP) / 8);
#pragma unroll
        for (int e = 0; e < 4; e++) {
          float p = power_of_2(score[m][n][e] * factor - (e % 2 ? pair.z : pair.x)), d = product[m][n][e];
          bool stays = !DROP || keep[e % 2] >> row_of(e) & 1;
          if (DROP) d = stays ? d * s.widen : 0;
          product[m][n][e] = p * (d - (e % 2 ? pair.w : pair.y));
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
  (void)s, (void)dy, (void)qkv, (void)rows, (void)masks, (void)dqkv;
#endif
}

// ---- launches ----

template <class K> static dim3 grid_of(const attention_shape &s, int64_t samples) {
  return dim3((unsigned)(samples * s.heads * ((s.t + K::ROWS - 1) / K::ROWS)));
}

template <class K, bool DROP> static int forward_with(ls_stream_t *stream, args_t args) {
  typedef typename K::E E;
  attention_shape s = attention_shape_of(args, args->in[0], args->in[1]);
  size_t bytes = (K::OWN + 4 * K::TILE) * sizeof(uint4);
  int error = kernel_ready(tensor_kernel<K, DROP>, 80, bytes);
  if (error) return error;
  tensor_kernel<K, DROP><<<grid_of<K>(s, in_rows(args, 0)), K::THREADS, bytes, ls_kernel_stream(stream)>>>(
      s, (const E *)args->in[0].data, (E *)args->out[0].data, out(args, 1));
  return launched();
}

template <class K> static int forward_as(ls_stream_t *stream, args_t args) {
  return args->attrs->f[0] > 0 ? forward_with<K, true>(stream, args) : forward_with<K, false>(stream, args);
}

// Scratch: a row_t of every query, then the masks.
template <class Q, class K, bool DROP> static int dx_with(ls_stream_t *stream, args_t args) {
  typedef typename K::E E;
  static_assert(K::ROWS % 64 == 0 && MASK_KEYS % K::ROWS == 0 && MASK_KEYS % Q::N == 0,
                "masks are copied whole");
  attention_shape s = attention_shape_of(args, args->in[1], args->in[4]);
  const E *dy = (const E *)args->in[0].data, *qkv = (const E *)args->in[1].data,
          *y = (const E *)args->in[2].data;
  E *dqkv = (E *)args->out[0].data;
  int64_t samples = in_rows(args, 1);
  row_t *rows = (row_t *)args->scratch;
  unsigned char *masks = (unsigned char *)(rows + (samples * s.heads * s.t + 1) / 2 * 2);
  size_t bytes = (2 * Q::OWN + 4 * Q::TILE) * sizeof(uint4);
  size_t dkv_bytes = (2 * K::OWN + 4 * K::TILE) * sizeof(uint4) + 2 * K::N * (sizeof(row_t) + K::ROWS / 8);
  int error = kernel_ready(tensor_dq_kernel<Q, DROP>, 80, bytes);
  if (!error) error = kernel_ready(tensor_dkv_kernel<K, DROP>, 80, dkv_bytes);
  if (error) return error;
  cudaStream_t handle = ls_kernel_stream(stream);
  tensor_dq_kernel<Q, DROP>
      <<<grid_of<Q>(s, samples), Q::THREADS, bytes, handle>>>(s, dy, qkv, y, in(args, 3), rows, masks, dqkv);
  tensor_dkv_kernel<K, DROP>
      <<<grid_of<K>(s, samples), K::THREADS, dkv_bytes, handle>>>(s, dy, qkv, rows, masks, dqkv);
  return launched();
}

template <class Q, class K> static int dx_as(ls_stream_t *stream, args_t args) {
  return args->attrs->f[0] > 0 ? dx_with<Q, K, true>(stream, args) : dx_with<Q, K, false>(stream, args);
}

typedef int (*version_fn)(ls_stream_t *stream, args_t args);
template <class E> static int serve(ls_stream_t *stream, args_t args, const ls_tensor_t &qkv, bool dx) {
  typedef plan_of<E, 64, 4, 1, 64> dkv_64;
  static const struct {
    int64_t size, t; // at most
    version_fn forward, dx;
  } versions[] = {
      {32, INT64_MAX, forward_as<plan_of<E, 32, 4, 1, 64, 4>>,
       dx_as<plan_of<E, 32, 4, 1, 32, 4>, plan_of<E, 32, 4, 1, 64, 3>>},
      {64, 1024, forward_as<plan_of<E, 64, 4, 1, 64, 3>>, dx_as<plan_of<E, 64, 4, 1, 64, 3>, dkv_64>},
      {64, INT64_MAX, forward_as<plan_of<E, 64, 4, 2, 64>>, dx_as<plan_of<E, 64, 4, 1, 64, 3>, dkv_64>},
      {128, INT64_MAX, forward_as<plan_of<E, 128, 4, 1, 64>>,
       dx_as<plan_of<E, 128, 4, 1, 32>, plan_of<E, 128, 4, 1, 32>>},
  };
  int64_t size = qkv.shape.dim[2] / (3 * args->attrs->i[0]);
  if (size % SEGMENT != 0) return cudaErrorNotSupported;
  for (auto &v : versions)
    if (size <= v.size && qkv.shape.dim[1] <= v.t) return (dx ? v.dx : v.forward)(stream, args);
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
