// Attention of heads of any size: a block has one query, or one key in the second kernel of the gradient, and notes its
// probabilities in shared memory. Slower than tiles, which all but very wide heads have.
#include "device/cuda/attention.cuh"

// Sum over the warp of a row of a times a row of b.
template <class E> __device__ static float row_product(const E *a, const E *b, int64_t size) {
  float sum = 0;
  for (int64_t d = threadIdx.x % WARP; d < size; d += WARP)
    sum += f32_of(a[d]) * f32_of(b[d]);
  return warp_sum(sum);
}

__device__ static float drop_factor(const attention_shape &s, const dropout_words &drop, int64_t head,
                                    int64_t query, int64_t key) {
  return drop.on ? ls_each_dropout(1, drop.word(s, head, query, key), s.rate, s.widen) : 1;
}

// The head on which a block works.
template <class E> struct place_of_head {
  int64_t sample, head, width, stride, end;
  const E *q; // of position 0; k and v lie width and 2 width behind
  __device__ place_of_head(const attention_shape &s, const E *qkv)
      : sample(blockIdx.x / s.heads), head(blockIdx.x % s.heads), width(s.width()), stride(3 * width),
        end(s.causal ? (int64_t)blockIdx.y + 1 : s.t), q(qkv + sample * s.t * stride + head * s.size) {}
};

// Grid: samples times heads, queries.
template <class E>
__global__ void __launch_bounds__(BLOCK) any_kernel(attention_shape s, const E *qkv, E *y, float *lse) {
  extern __shared__ float p[];
  __shared__ float part[WARPS];
  place_of_head<E> at(s, qkv);
  dropout_words drop(s, at.sample);
  int64_t query = blockIdx.y;
  int warp = threadIdx.x / WARP;
  float top = -INFINITY, sum = 0;
  for (int64_t key = warp; key < at.end; key += WARPS) {
    float score = row_product(at.q + query * at.stride, at.q + at.width + key * at.stride, s.size) * s.scale;
    top = fmaxf(top, score);
    if (threadIdx.x % WARP == 0) p[key] = score;
  }
  if (threadIdx.x % WARP == 0) part[warp] = top;
  __syncthreads();
  for (int w = 0; w < WARPS; w++)
    top = fmaxf(top, part[w]);
  for (int64_t key = threadIdx.x; key < at.end; key += BLOCK) {
    float each = expf(p[key] - top);
    sum += each;
    p[key] = each * drop_factor(s, drop, at.head, query, key);
  }
  sum = block_sum(sum);
  __syncthreads();
  E *to = y + (at.sample * s.t + query) * at.width + at.head * s.size;
  for (int64_t d = threadIdx.x; d < s.size; d += BLOCK) {
    float o = 0;
    for (int64_t key = 0; key < at.end; key++)
      o += p[key] * f32_of(at.q[2 * at.width + key * at.stride + d]);
    to[d] = rounded<E>(o / sum);
  }
  if (threadIdx.x == 0) lse[(at.sample * s.heads + at.head) * s.t + query] = top + logf(sum);
}

// Grid as above. inner: of each query, the sum of dy y.
template <class E>
__global__ void __launch_bounds__(BLOCK) any_dq_kernel(attention_shape s, const E *dy, const E *qkv,
                                                       const E *y, const float *lse, float *inner, E *dqkv) {
  extern __shared__ float ds[];
  place_of_head<E> at(s, qkv);
  dropout_words drop(s, at.sample);
  int64_t query = blockIdx.y, row = (at.sample * s.t + query) * at.width + at.head * s.size;
  int64_t which = (at.sample * s.heads + at.head) * s.t + query;
  float own = row_product(dy + row, y + row, s.size);
  if (threadIdx.x == 0) inner[which] = own;
  for (int64_t key = threadIdx.x / WARP; key < at.end; key += WARPS) {
    const E *k = at.q + at.width + key * at.stride;
    float p = expf(row_product(at.q + query * at.stride, k, s.size) * s.scale - lse[which]);
    float product = row_product(dy + row, k + at.width, s.size);
    if (threadIdx.x % WARP == 0)
      ds[key] = p * (drop_factor(s, drop, at.head, query, key) * product - own) * s.scale;
  }
  __syncthreads();
  E *to = dqkv + (at.sample * s.t + query) * at.stride + at.head * s.size;
  for (int64_t d = threadIdx.x; d < s.size; d += BLOCK) {
    float sum = 0;
    for (int64_t key = 0; key < at.end; key++)
      sum += ds[key] * f32_of(at.q[at.width + key * at.stride + d]);
    to[d] = rounded<E>(sum);
  }
}

// Grid: samples times heads, keys.
template <class E>
__global__ void __launch_bounds__(BLOCK) any_dkv_kernel(attention_shape s, const E *dy, const E *qkv,
                                                        const float *lse, const float *inner, E *dqkv) {
  extern __shared__ float ds[]; // of each query, then its probability with dropout
  float *pf = ds + s.t;
  place_of_head<E> at(s, qkv);
  dropout_words drop(s, at.sample);
  int64_t key = blockIdx.y, first = s.causal ? key : 0, from = at.sample * s.t * at.width + at.head * s.size;
  const E *k = at.q + at.width + key * at.stride;
  const float *lse_of = lse + (at.sample * s.heads + at.head) * s.t,
              *inner_of = inner + (at.sample * s.heads + at.head) * s.t;
  for (int64_t query = first + threadIdx.x / WARP; query < s.t; query += WARPS) {
    float p = expf(row_product(at.q + query * at.stride, k, s.size) * s.scale - lse_of[query]);
    float product = row_product(dy + from + query * at.width, k + at.width, s.size);
    float f = drop_factor(s, drop, at.head, query, key);
    if (threadIdx.x % WARP) continue;
    ds[query] = p * (f * product - inner_of[query]) * s.scale;
    pf[query] = p * f;
  }
  __syncthreads();
  E *to = dqkv + (at.sample * s.t + key) * at.stride + at.width + at.head * s.size;
  for (int64_t d = threadIdx.x; d < s.size; d += BLOCK) {
    float dk = 0, dv = 0;
    for (int64_t query = first; query < s.t; query++) {
      dk += ds[query] * f32_of(at.q[query * at.stride + d]);
      dv += pf[query] * f32_of(dy[from + query * at.width + d]);
    }
    to[d] = rounded<E>(dk);
    to[at.width + d] = rounded<E>(dv);
  }
}

// Shared memory of one row of probabilities. A loop that is unrolled may read ahead of its end.
static size_t bytes_of(const attention_shape &s) {
  return (size_t)(s.t + 4) * sizeof(float);
}

template <class F> static int allow(F *kernel, size_t bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

int attention_any(ls_stream_t *stream, args_t args, int) {
  attention_shape s = attention_shape_of(args, args->in[0], args->in[1]);
  dim3 grid((unsigned)(in_rows(args, 0) * s.heads), (unsigned)s.t);
  size_t bytes = bytes_of(s);
  int error = 0;
  if (s.t > 65535) return cudaErrorNotSupported;
  BY_DTYPE(in_dtype(args, 0), error = allow(any_kernel<T>, bytes); if (!error)
               any_kernel<T><<<grid, BLOCK, bytes, ls_kernel_stream(stream)>>>(s, in<T>(args, 0),
                                                                               out<T>(args, 0), out(args, 1)))
  return error ? error : launched();
}

int attention_any_dx(ls_stream_t *stream, args_t args, int) {
  attention_shape s = attention_shape_of(args, args->in[1], args->in[4]);
  dim3 grid((unsigned)(in_rows(args, 1) * s.heads), (unsigned)s.t);
  size_t bytes = bytes_of(s);
  float *inner = (float *)args->scratch;
  cudaStream_t handle = ls_kernel_stream(stream);
  int error = 0;
  if (s.t > 65535) return cudaErrorNotSupported;
  BY_DTYPE(in_dtype(args, 1), error = allow(any_dq_kernel<T>, bytes);
           if (!error) error = allow(any_dkv_kernel<T>, 2 * bytes); if (!error) any_dq_kernel<T>
           <<<grid, BLOCK, bytes, handle>>>(s, in<T>(args, 0), in<T>(args, 1), in<T>(args, 2), in(args, 3),
                                            inner, out<T>(args, 0));
           if (!error) any_dkv_kernel<T><<<grid, BLOCK, 2 * bytes, handle>>>(
               s, in<T>(args, 0), in<T>(args, 1), in(args, 3), inner, out<T>(args, 0)))
  return error ? error : launched();
}
