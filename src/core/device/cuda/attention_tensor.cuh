// Shared by the kernels of attention on tensor cores (Dao 2023, "FlashAttention-2"). A warp has STRIPS strips of 16 rows,
// queries or keys, of one head, and a block of a few warps goes over the columns N at a time, whose tiles arrive in shared
// memory while the ones before are worked on. A product's result has the layout that the next product wants of its left
// factor, so that probabilities never leave registers. Sums, softmax and lse are f32.
#pragma once

#include "device/cuda/attention.cuh"

constexpr int STRIP = 16;

// D: the head's size at most; OF: warps of a block; STRIPS: of a warp; N: columns of a tile; BLOCKS: at once on a
// multiprocessor, at least.
template <class E_, int D_, int OF_, int STRIPS_, int N_, int BLOCKS_ = 1> struct plan_of {
  typedef E_ E;
  static constexpr int D = D_, STRIPS = STRIPS_, N = N_, THREADS = OF_ * WARP, BLOCKS = BLOCKS_;
  static constexpr int SEGMENT = 16 / sizeof(E); // numbers of 16 bytes
  static constexpr int ROWS = OF_ * STRIPS * STRIP, SEGMENTS = D / SEGMENT, DEPTHS = SEGMENTS / 2;
  static constexpr int OWN = ROWS * SEGMENTS, TILE = N * SEGMENTS; // segments of the block's rows, of a tile
};

// A tile is rows of SEGMENTS segments. Eight rows of one column of segments lie in different banks.
template <class K> __device__ static int place(int row, int segment) {
  constexpr int OFF = K::SEGMENTS % 8; // by how many banks of segments a row is off the one before
  return row * K::SEGMENTS + (segment ^ (OFF == 0 ? row & 7 : OFF == 4 ? row >> 1 & 3 : row >> 2 & 1));
}

// `rows` rows from `first` on, `stride` apart; zeros beyond t and beyond the head's size.
template <class K, int rows>
__device__ static void fetch(uint4 *to, const typename K::E *x, int64_t stride, int first,
                             const attention_shape &s) {
  constexpr int SEGMENT = K::SEGMENT;
#pragma unroll
  for (int i = 0; i < rows * K::SEGMENTS; i += K::THREADS) {
    int e = i + (int)threadIdx.x, row = e / K::SEGMENTS, segment = e % K::SEGMENTS;
    bool real = first + row < s.t && segment * SEGMENT < s.size;
    if (rows * K::SEGMENTS % K::THREADS == 0 || e < rows * K::SEGMENTS)
      copy_16(to + place<K>(row, segment), real ? x + (first + row) * stride + segment * SEGMENT : x, real);
  }
}

// Tile j of two arrays side by side; the tiles of even and of odd j have places of their own.
template <class K>
__device__ static void fetch_pair(uint4 *tiles, int j, const typename K::E *x, int64_t x_stride,
                                  const typename K::E *y, int64_t y_stride, const attention_shape &s) {
  uint4 *to = tiles + j % 2 * 2 * K::TILE;
  fetch<K, K::N>(to, x, x_stride, j * K::N, s);
  fetch<K, K::N>(to + K::TILE, y, y_stride, j * K::N, s);
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
// Right factors of two products, whose columns are 16 numbers of each row. Of f32 a lane has rows 2 (l % 4) and one more
// instead of l % 4 and l % 4 + 4, as it has columns of the left factor (add_weighted): sums over rows are the same.
template <class K> __device__ static void right_transposed(uint32_t *to, const uint4 *tile, int row, int k) {
  int lane = threadIdx.x % WARP;
  if constexpr (sizeof(typename K::E) == 2) {
    load_fragments_transposed(to, tile + place<K>(row + lane % 16, 2 * k + lane / 16));
  } else {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      int d = k * 16 + i / 2 * 8 + lane / 4;
      to[i] = ((const uint32_t *)(tile + place<K>(row + lane % 4 * 2 + i % 2, d / 4)))[d % 4];
    }
  }
}

// A strip's product with a tile's columns, and with numbers of its rows.
template <class K> using wide_t = float[K::STRIPS][K::N / 8][4];
template <class K> using deep_t = float[K::STRIPS][K::D / 8][4];

// Steps of k after which sums of split factors start anew: tensor cores cut what they add to a sum instead of rounding it.
template <class E> constexpr int ANEW = PRODUCTS<E> == 1 ? INT32_MAX : 4;

// sum = rows of the strips times the tile's rows.
template <class K, class F> __device__ static void products(wide_t<K> &sum, const uint4 *tile, F rows) {
  typedef typename K::E E;
  wide_t<K> part = {};
#pragma unroll
  for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
    for (int n = 0; n < K::N / 8; n++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        sum[m][n][e] = 0;
#pragma unroll
  for (int k = 0; k < K::DEPTHS; k++) {
    auto &to = K::DEPTHS > ANEW<E> ? part : sum;
    factor<E, 4> a[K::STRIPS];
#pragma unroll
    for (int m = 0; m < K::STRIPS; m++) {
      uint32_t raw[4];
      rows(raw, m, k);
      a[m].set(raw);
    }
#pragma unroll
    for (int n = 0; n < K::N / 16; n++) {
      uint32_t raw[4];
      factor<E, 4> b;
      right<K>(raw, tile, n * 16, k);
      b.set(raw);
#pragma unroll
      for (int which = 0; which < PRODUCTS<E>; which++)
#pragma unroll
        for (int m = 0; m < K::STRIPS; m++) {
          multiply(to[m][2 * n], a[m], b, 0, which);
          multiply(to[m][2 * n + 1], a[m], b, 2, which);
        }
    }
    if (K::DEPTHS > ANEW<E> && (k % ANEW<E> == ANEW<E> - 1 || k == K::DEPTHS - 1))
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
        for (int n = 0; n < K::N / 8; n++)
#pragma unroll
          for (int e = 0; e < 4; e++) {
            sum[m][n][e] += part[m][n][e];
            part[m][n][e] = 0;
          }
  }
}

// The left factor of a product over 16 columns of weights, in two steps of 8 where numbers are f32.
template <class E> __device__ static void left_of(factor<E, 4> &a, const float (*w)[4], E as) {
  uint32_t raw[4];
  if constexpr (sizeof(E) == 2) {
    raw[0] = pack(w[0][0], w[0][1], as);
    raw[1] = pack(w[0][2], w[0][3], as);
    raw[2] = pack(w[1][0], w[1][1], as);
    raw[3] = pack(w[1][2], w[1][3], as);
  } else {
    raw[0] = __float_as_uint(w[0][0]);
    raw[1] = __float_as_uint(w[0][2]);
    raw[2] = __float_as_uint(w[0][1]);
    raw[3] = __float_as_uint(w[0][3]);
  }
  a.set(raw);
}

// sum += weights times the tile's rows.
template <class K>
__device__ static void add_weighted(deep_t<K> &sum, const wide_t<K> &weights, const uint4 *tile) {
  typedef typename K::E E;
  constexpr int DEPTH = 32 / sizeof(E), STEPS = K::N / DEPTH; // columns of a step
  auto columns = [&](factor<E, 4> &b, int k, int d) {
    uint32_t raw[4];
    right_transposed<K>(raw, tile, k * DEPTH, d);
    b.set(raw);
  };
  factor<E, 4> b;
  if constexpr (PRODUCTS<E> == 1) {
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
      factor<E, 4> a[K::STRIPS];
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++)
        left_of(a[m], &weights[m][k * DEPTH / 8], E());
#pragma unroll
      for (int d = 0; d < K::D / 16; d++) {
        columns(b, k, d);
#pragma unroll
        for (int m = 0; m < K::STRIPS; m++) {
          multiply(sum[m][2 * d], a[m], b, 0, 0);
          multiply(sum[m][2 * d + 1], a[m], b, 2, 0);
        }
      }
    }
  } else { // a tile has sums of its own, as in products
    factor<E, 4> a[STEPS][K::STRIPS];
#pragma unroll
    for (int k = 0; k < STEPS; k++)
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++)
        left_of(a[k][m], &weights[m][k * DEPTH / 8], E());
#pragma unroll
    for (int d = 0; d < K::D / 16; d++) {
      float part[K::STRIPS][2][4] = {};
#pragma unroll
      for (int k = 0; k < STEPS; k++) {
        columns(b, k, d);
#pragma unroll
        for (int which = 0; which < PRODUCTS<E>; which++)
#pragma unroll
          for (int m = 0; m < K::STRIPS; m++) {
            multiply(part[m][0], a[k][m], b, 0, which);
            multiply(part[m][1], a[k][m], b, 2, which);
          }
      }
#pragma unroll
      for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          sum[m][2 * d][e] += part[m][0][e];
          sum[m][2 * d + 1][e] += part[m][1][e];
        }
    }
  }
}

// The row and the column of element e of a product, counted from its corner.
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
  // The head's begin in an array whose positions lie `stride` apart.
  __device__ int64_t corner(const attention_shape &s, int64_t stride) const {
    return sample * s.t * stride + head * s.size;
  }
  // The head's begin in an array of one number a query.
  __device__ int64_t queries(const attention_shape &s) const { return (sample * s.heads + head) * s.t; }
  // Tiles of keys that queries of the block see.
  __device__ int tiles_seen(const attention_shape &s) const {
    int end = s.causal && first + K::ROWS < s.t ? first + K::ROWS : (int)s.t;
    return (end + K::N - 1) / K::N;
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
      for (int d = 0; d < K::D / 8; d++) {
        int column = d * 8 + column_of(0);
        typename K::E *to = y + row * stride + column;
        float v[2] = {sum[m][d][2 * half] * by, sum[m][d][2 * half + 1] * by};
        if (row >= s.t || column >= s.size) continue;
        round_pair(to, v[0], v[1]);
      }
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

// ---- launches ----

template <class K> static dim3 grid_of(const attention_shape &s, int64_t samples) {
  return dim3((unsigned)(samples * s.heads * ((s.t + K::ROWS - 1) / K::ROWS)));
}

struct version_t {
  ls_dtype_t dtype;
  int64_t size, t; // at most
  int which;
  int (*run)(ls_stream_t *stream, args_t args);
};

// The first version that takes these heads; cudaErrorNotSupported if none does. Rows of heads are whole segments.
template <int COUNT>
static int serve(ls_stream_t *stream, args_t args, const ls_tensor_t &qkv, const version_t (&versions)[COUNT],
                 int which) {
  int64_t size = qkv.shape.dim[2] / (3 * args->attrs->i[0]);
  const ls_tensor_t &first = args->in[0]; // qkv, or dy and then qkv and y
  const void *y = args->in_count > 2 ? args->in[2].data : first.data;
  if (size * (int64_t)ls_dtype_bytes(qkv.shape.dtype) % 16 != 0 ||
      !aligned16(first.data, qkv.data, y, args->out[0].data))
    return cudaErrorNotSupported;
  for (const version_t &v : versions)
    if (v.dtype == qkv.shape.dtype && size <= v.size && qkv.shape.dim[1] <= v.t && which == v.which)
      return v.run(stream, args);
  return cudaErrorNotSupported;
}
