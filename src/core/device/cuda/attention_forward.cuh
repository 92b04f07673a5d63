// Attention on tensor cores: the forward pass.
#pragma once

#include "device/cuda/attention_tensor.cuh"

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
  const typename K::E *q = qkv + at.corner(s, stride);
  auto fetch_tile = [&](int j) {
    fetch_pair<K>(tiles, j, q + width, stride, q + 2 * width, stride, s);
    copies_end();
  };
  fetch<K, K::ROWS>(qs, q, stride, at.first, s);
  fetch_tile(0);
  // A warp keeps its rows of q in registers, where these have room.
  constexpr bool KEEPS = K::STRIPS * (K::DEPTHS * 4 + K::D / 2 + K::N / 2) <= 176;
  uint32_t own[KEEPS ? K::DEPTHS : 1][K::STRIPS][4];
  float top[K::STRIPS][2], most[K::STRIPS][2], sum[K::STRIPS][2], factor = s.scale * LOG2_E;
  deep_t<K> o = {};
#pragma unroll
  for (int m = 0; m < K::STRIPS; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      top[m][half] = -INFINITY;
      sum[m][half] = 0;
    }
  int count = at.tiles_seen(s);
  for (int j = 0; j < count; j++) {
    copies_wait<0>();
    __syncthreads(); // all have this tile, and are done with the one that the next takes the place of
    if (j + 1 < count) fetch_tile(j + 1);
    const uint4 *ks = tiles + j % 2 * 2 * K::TILE, *vs = ks + K::TILE;
    if (KEEPS && j == 0)
#pragma unroll
      for (int k = 0; k < (KEEPS ? K::DEPTHS : 0); k++)
#pragma unroll
        for (int m = 0; m < K::STRIPS; m++)
          left<K>(own[k][m], qs, at.strips - at.first + m * STRIP, k);
    int key = j * K::N;
    if (s.causal && key >= at.strips + K::STRIPS * STRIP) continue; // no row of the warp sees these
    wide_t<K> score;
    products<K>(score, ks, [&](uint32_t *a, int m, int k) {
      if constexpr (KEEPS) {
#pragma unroll
        for (int i = 0; i < 4; i++)
          a[i] = own[k][m][i];
      } else {
        left<K>(a, qs, at.strips - at.first + m * STRIP, k);
      }
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
        lse[at.queries(s) + query] = top[m][half] * s.scale + logf(sum[m][half]);
    }
  store<K>(y + at.corner(s, width), width, at.strips, s, o,
           [&](int m, int half) { return s.widen / sum[m][half]; });
#else
  (void)s, (void)qkv, (void)y, (void)lse;
#endif
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
