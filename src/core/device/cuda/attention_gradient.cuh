// Attention on tensor cores: the gradient, which is two kernels, over queries and over keys. Neither adds to
// what another block adds to: the same bits in every run.
#pragma once

#include "device/cuda/attention_tensor.cuh"

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
  int64_t width = s.width(), stride = 3 * width, from = at.corner(s, width);
  int64_t which = at.queries(s);
  const typename K::E *q = qkv + at.corner(s, stride);
  auto fetch_tile = [&](int j) {
    fetch_pair<K>(tiles, j, q + width, stride, q + 2 * width, stride, s);
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
      for (int d = (int)threadIdx.x % 4 * K::SEGMENT; query < s.t && d < s.size; d += 4 * K::SEGMENT) {
        uint4 a = *(const uint4 *)(dy + from + query * width + d),
              b = *(const uint4 *)(y + from + query * width + d);
        const typename K::E *u = (const typename K::E *)&a, *v = (const typename K::E *)&b;
#pragma unroll
        for (int i = 0; i < K::SEGMENT; i++)
          inner += f32_of(u[i]) * f32_of(v[i]);
      }
      row[m][half] = {query < s.t ? lse[which + query] * LOG2_E : 0, quad_sum(inner)};
      if (query < s.t && threadIdx.x % 4 == 0) rows[which + query] = row[m][half];
    }
  deep_t<K> dq = {};
  float factor = s.scale * LOG2_E;
  int count = at.tiles_seen(s);
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
  store<K>(dqkv + at.corner(s, stride), stride, at.strips, s, dq, [&](int, int) { return s.scale; });
#else
  (void)s, (void)dy, (void)qkv, (void)y, (void)lse, (void)rows, (void)masks, (void)dqkv;
#endif
}

// Rows are keys, columns queries. WHAT: the gradients of keys, of values, or both where registers have room for their sums.
enum { KEYS = 1, VALUES = 2 };
template <class K, bool DROP, int WHAT>
__global__ void __launch_bounds__(K::THREADS, K::BLOCKS)
    tensor_dkv_kernel(attention_shape s, const typename K::E *dy, const typename K::E *qkv, const row_t *rows,
                      const unsigned char *masks, typename K::E *dqkv) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ float4 shared[];
  uint4 *ks = (uint4 *)shared, *vs = ks + K::OWN, *tiles = vs + K::OWN; // two of queries and of dy
  row_t *row_tiles = (row_t *)(tiles + 4 * K::TILE);
  unsigned char *mask_tiles = (unsigned char *)(row_tiles + 2 * K::N); // of the block's keys
  task_t<K> at(s, false);
  int64_t width = s.width(), stride = 3 * width, from = at.corner(s, width);
  int64_t which = at.queries(s);
  const typename K::E *q = qkv + at.corner(s, stride);
  auto fetch_tile = [&](int j) {
    fetch_pair<K>(tiles, j, q, stride, dy + from, width, s);
    int query = j * K::N + (int)threadIdx.x;
    if (threadIdx.x < K::N) {
      int64_t at_row = which + (query < s.t ? query : 0);
      int place = j % 2 * K::N + (int)threadIdx.x;
      copy_8(row_tiles + place, rows + at_row, query < s.t);
#pragma unroll
      for (int i = 0; DROP && i < K::ROWS / 8; i += 4)
        copy_4(mask_tiles + place * (K::ROWS / 8) + i, masks + at_row * mask_bytes(s.t) + at.first / 8 + i,
               query < s.t);
    }
    copies_end();
  };
  int begin = s.causal ? at.first / K::N : 0, count = ((int)s.t + K::N - 1) / K::N;
  fetch<K, K::ROWS>(ks, q + width, stride, at.first, s);
  if (WHAT & KEYS) fetch<K, K::ROWS>(vs, q + 2 * width, stride, at.first, s);
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
    if constexpr ((WHAT & KEYS) != 0)
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
          float p = power_of_2(score[m][n][e] * factor - (e % 2 ? pair.z : pair.x));
          float d = WHAT & KEYS ? product[m][n][e] : 0;
          bool stays = !DROP || keep[e % 2] >> row_of(e) & 1;
          if (DROP) d = stays ? d * s.widen : 0;
          product[m][n][e] = p * (d - (e % 2 ? pair.w : pair.y));
          score[m][n][e] = stays ? p : 0;
        }
      }
    }
    if constexpr ((WHAT & VALUES) != 0) add_weighted<K>(dv, score, dys);
    if constexpr ((WHAT & KEYS) != 0) add_weighted<K>(dk, product, qs);
  }
  typename K::E *to = dqkv + at.corner(s, stride) + width;
  if (WHAT & KEYS) store<K>(to, stride, at.strips, s, dk, [&](int, int) { return s.scale; });
  if (WHAT & VALUES) store<K>(to + width, stride, at.strips, s, dv, [&](int, int) { return s.widen; });
#else
  (void)s, (void)dy, (void)qkv, (void)rows, (void)masks, (void)dqkv;
#endif
}

// Scratch: a row_t of every query, then the masks.
template <class Q, class K, bool DROP> static int dx_with(ls_stream_t *stream, args_t args) {
  typedef typename K::E E;
  static_assert(K::ROWS % 32 == 0 && MASK_KEYS % K::ROWS == 0 && MASK_KEYS % Q::N == 0,
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
  constexpr bool APART = K::STRIPS * (K::D + K::N) > 192; // keys and values: too many sums for one kernel
  constexpr int FIRST = APART ? KEYS : KEYS | VALUES;
  int error = kernel_ready(tensor_dq_kernel<Q, DROP>, 80, bytes);
  if (!error) error = kernel_ready(tensor_dkv_kernel<K, DROP, FIRST>, 80, dkv_bytes);
  if (APART && !error)
    error = kernel_ready(tensor_dkv_kernel < K, DROP, APART ? VALUES : FIRST >, 80, dkv_bytes);
  if (error) return error;
  cudaStream_t handle = ls_kernel_stream(stream);
  tensor_dq_kernel<Q, DROP>
      <<<grid_of<Q>(s, samples), Q::THREADS, bytes, handle>>>(s, dy, qkv, y, in(args, 3), rows, masks, dqkv);
  tensor_dkv_kernel<K, DROP, FIRST>
      <<<grid_of<K>(s, samples), K::THREADS, dkv_bytes, handle>>>(s, dy, qkv, rows, masks, dqkv);
  if (APART)
    tensor_dkv_kernel<K, DROP, APART ? VALUES : FIRST>
        <<<grid_of<K>(s, samples), K::THREADS, dkv_bytes, handle>>>(s, dy, qkv, rows, masks, dqkv);
  return launched();
}

template <class Q, class K> static int dx_as(ls_stream_t *stream, args_t args) {
  return args->attrs->f[0] > 0 ? dx_with<Q, K, true>(stream, args) : dx_with<Q, K, false>(stream, args);
}
