// Recurrent chains (graph/ops/recurrent.c). Samples are independent, so a cluster of blocks takes a few of them through
// all positions in one launch: each block keeps the weights of its share of the units in registers, and the blocks
// send each other what the next position needs (cluster.cuh). Reading shared memory takes longer than arithmetic, so that a thread uses what it has read for several columns; what threads of a warp
// have summed they add up by shuffles. Wider layers, and GPUs without clusters, take a launch for each position.
#include "device/cuda/cluster.cuh"
#include "device/cuda/recurrent.cuh"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// ---- a cluster takes S samples through all positions ----
// A block has `units` units, a multiple of 4, and SHARERS threads for each. A thread has the weights of K numbers, SHARERS or
// SLICES apart, of several columns, in registers. Unused ones, and what they are multiplied with, are 0.

enum { CLUSTER = 8, SHARERS = 16, SLICES = 8, COLUMNS = 4 };

// From one unit's numbers of all samples to the next unit's: eight neighbours' 16 bytes lie in different banks.
template <int S> constexpr int APART = S < 8 ? S : S + 4;

// sum[c][s] += weight[c] * from[s].
template <int C, int S>
__device__ static void multiply_add(const float *weight, const float *from, float (&sum)[C][S]) {
  float v[S];
  if (S == 2) {
    *(float2 *)v = *(const float2 *)from;
  } else {
#pragma unroll
    for (int s = 0; s + 4 <= S; s += 4)
      *(float4 *)(v + s) = *(const float4 *)(from + s);
  }
#pragma unroll
  for (int c = 0; c < C; c++)
#pragma unroll
    for (int s = 0; s < S; s++)
      sum[c][s] += weight[c] * v[s];
}

// Adds up value[.. count) over the threads whose numbers differ in the bits below `threads`. Each thread is left with the
// totals of its share, at the front: the thread's number is the share's, in units of threads / shares threads.
template <int N> __device__ static void add_shared(float (&value)[N], int threads, int count) {
#pragma unroll
  for (int bit = threads / 2; bit > 0; bit /= 2) {
    int half = count / 2;
    bool upper = threadIdx.x & bit;
#pragma unroll
    for (int i = 0; i < N; i++) {
      if (i >= (half ? half : 1)) continue;
      float mine = half && upper ? value[i + half] : value[i],
            other = half && !upper ? value[i + half] : value[i];
      value[i] = mine + __shfl_xor_sync(0xffffffffu, other, bit);
    }
    count = half;
  }
}

template <class OP, int K, int S>
__global__ void __launch_bounds__(WARP *K)
    chain_kernel(OP op, const typename OP::E *w, chain_t k, int units) {
#if __CUDA_ARCH__ >= 900
  constexpr int G = OP::GATES, COPIES = SHARERS / S, TOGETHER = S < 4 ? S : 4;
  static_assert(S == 2 || S >= 8,
                "the sharers of a unit have all samples, or enough of them to send to all blocks");
  extern __shared__ float4 shared[];
  cg::cluster_group cluster = cg::this_cluster();
  arrivals_t *arrivals = (arrivals_t *)shared; // of outputs, two positions in turn
  float *outputs = (float *)(arrivals + 2);    // likewise, (K SHARERS, APART): of all units
  int h = (int)k.h, sharer = threadIdx.x % SHARERS, bytes = CLUSTER * units * S * (int)sizeof(float);
  int first = (int)cluster.block_rank() * units, unit = first + (int)threadIdx.x / SHARERS;
  float weight[K][G];
#pragma unroll
  for (int i = 0; i < K; i++)
#pragma unroll
    for (int g = 0; g < G; g++) {
      int from = i * SHARERS + sharer;
      weight[i][g] = unit < h && from < h ? f32_of(w[((int64_t)g * h + unit) * h + from]) : 0;
    }
  for (int i = threadIdx.x; i < 2 * K * SHARERS * APART<S>; i += blockDim.x)
    outputs[i] = 0;
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; i++) {
      arrivals_begin(arrivals + i);
      arrivals_expect(arrivals + i, bytes);
    }
  // The sharers of a unit have a sample each, or several of them the same one. Where there are many samples, the totals
  // go to threads whose neighbours have neighbouring units, because these lie side by side in memory.
  constexpr bool SPREAD = S >= 8;
  float *totals = outputs + 2 * K * SHARERS * APART<S>;      // (G, S, units + 1)
  float *fresh = totals + (G * S * (units + 1) + 3) / 4 * 4; // (units, S + 4)
  int s = sharer / COPIES, copy = sharer % COPIES, sender = s % TOGETHER * COPIES + copy;
  int u = SPREAD ? threadIdx.x % units : threadIdx.x / SHARERS, mine = SPREAD ? threadIdx.x / units : s;
  int own = first + u;
  int64_t sample = (int64_t)(blockIdx.x / CLUSTER) * S + mine;
  bool real = own < h && mine < S && sample < k.n;
  float state = 0, output = 0;
  typename OP::in_t in = {};
  if (real) in = op.load(k.row(sample, 0), h, own);
  cluster.sync();
  for (int64_t step = 0; step < k.t; step++) {
    const float *now = outputs + (step & 1) * K * SHARERS * APART<S>;
    float *next = outputs + (~step & 1) * K * SHARERS * APART<S>;
    if (step > 0) {
      arrivals_wait(arrivals + (step & 1), chain_t::parity(step));
      if (threadIdx.x == 0) arrivals_expect(arrivals + (step & 1), bytes);
    }
    float sum[G][S] = {}, total[G];
#pragma unroll
    for (int i = 0; i < K; i++)
      multiply_add<G, S>(weight[i], now + (i * SHARERS + sharer) * APART<S>, sum);
#pragma unroll
    for (int g = 0; g < G; g++) {
      add_shared(sum[g], SHARERS, S);
      total[g] = sum[g][0];
    }
    if constexpr (SPREAD) {
#pragma unroll
      for (int g = 0; g < G; g++)
        if (copy == 0) totals[(g * S + s) * (units + 1) + unit - first] = total[g];
      __syncthreads();
#pragma unroll
      for (int g = 0; g < G; g++)
        total[g] = mine < S ? totals[(g * S + mine) * (units + 1) + u] : 0;
    }
    typename OP::kept_t kept = op.step(in, total, &output, &state);
    // Numbers of neighbouring samples travel together. Those of units beyond h are zeros, which are sent as well: a block
    // then hears of all warps that they are done with what they have read.
    if constexpr (SPREAD) {
      if (mine < S) fresh[u * (S + 4) + mine] = output;
      __syncthreads();
      for (int i = threadIdx.x; step + 1 < k.t && i < units * S / TOGETHER * CLUSTER; i += blockDim.x) {
        int to = i / CLUSTER / (S / TOGETHER), part = i / CLUSTER % (S / TOGETHER) * TOGETHER;
        float together[TOGETHER];
        *(float4 *)together = *(const float4 *)(fresh + to * (S + 4) + part);
        send<TOGETHER>(together, next + (first + to) * APART<S> + part, arrivals + (~step & 1), i % CLUSTER);
      }
    } else {
      float together[TOGETHER];
#pragma unroll
      for (int i = 0; i < TOGETHER; i++)
        together[i] = __shfl_sync(0xffffffffu, output, (int)(threadIdx.x % WARP) - sender + i * COPIES);
      if (step + 1 < k.t && sender < CLUSTER)
        send<TOGETHER>(together, next + unit * APART<S>, arrivals + (~step & 1), sender);
    }
    if (real && (SPREAD || copy == 0)) op.keep(k.row(sample, step), h, own, kept);
    if (real && step + 1 < k.t) in = op.load(k.row(sample, step + 1), h, own);
  }
  cluster.sync(); // nobody leaves while others may still send
#else
  (void)op, (void)w, (void)k, (void)units;
#endif
}

// A block multiplies the gradients of its own units' gates; the products are parts of all units' sums, and go to the
// block that has the unit.
template <class OP, int K, int S>
__global__ void __launch_bounds__(WARP *K)
    chain_dx_kernel(OP op, const typename OP::E *w, chain_t k, int units) {
#if __CUDA_ARCH__ >= 900
  constexpr int G = OP::GATES, C = COLUMNS,
                SHARE = C * S / SLICES; // of a thread's products, after all slices are added
  constexpr int TOGETHER = SHARE < 4 ? SHARE : 4;
  extern __shared__ float4 shared[];
  cg::cluster_group cluster = cg::this_cluster();
  int h = (int)k.h, rank = (int)cluster.block_rank(), first = rank * units,
      parts = CLUSTER * units * APART<S>;
  int bytes = CLUSTER * units * S * (int)sizeof(float);
  arrivals_t *arrivals = (arrivals_t *)shared; // of parts, two positions in turn
  float *gates = (float *)(arrivals + 2); // two positions in turn, (K SLICES, APART): d of this block's units
  float *arrived = gates + 2 * K * SLICES * APART<S>; // two positions in turn, (CLUSTER, units, APART)
  int slice = threadIdx.x % SLICES, column = (int)threadIdx.x / SLICES * C;
  float weight[K][C];
#pragma unroll
  for (int i = 0; i < K; i++)
#pragma unroll
    for (int c = 0; c < C; c++) {
      int from = i * SLICES + slice, unit = first + from % units;
      bool used = column + c < h && from < G * units && unit < h;
      weight[i][c] = used ? f32_of(w[((int64_t)(from / units) * h + unit) * h + column + c]) : 0;
    }
  for (int i = threadIdx.x; i < 2 * K * SLICES * APART<S>; i += blockDim.x)
    gates[i] = 0;
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; i++) {
      arrivals_begin(arrivals + i);
      arrivals_expect(arrivals + i, bytes);
    }
  // Units and samples of a block have a thread each, and every thread a share of the products.
  int u = threadIdx.x % units, s = threadIdx.x / units, unit = first + u;
  int64_t sample = (int64_t)(blockIdx.x / CLUSTER) * S + s;
  bool real = s < S && unit < h && sample < k.n;
  int which = slice * SHARE, place = (rank * units + (column + which / S) % units) * APART<S> + which % S;
  int owner = (column + which / S) / units;
  float state = 0;
  typename OP::in_t in = {};
  if (real) in = op.load(k.row(sample, k.t - 1), k.row(sample, k.t - 2), h, unit);
  cluster.sync();
  for (int64_t step = k.t - 1; step >= 0; step--) {
    int64_t done = k.t - 1 - step; // positions
    const float *now = arrived + (done & 1) * parts;
    float *next = arrived + (~done & 1) * parts, *mine = gates + (done & 1) * K * SLICES * APART<S>;
    if (done > 0) {
      arrivals_wait(arrivals + (done & 1), chain_t::parity(done));
      if (threadIdx.x == 0) arrivals_expect(arrivals + (done & 1), bytes);
    }
    typename OP::kept_t kept = {};
    if (real) {
      float dh = 0;
#pragma unroll
      for (int p = 0; p < CLUSTER; p++)
        dh += done > 0 ? now[(p * units + u) * APART<S> + s] : 0;
      kept = op.step(in, dh, &state);
#pragma unroll
      for (int g = 0; g < G; g++)
        mine[(g * units + u) * APART<S> + s] = kept.d[g];
    }
    __syncthreads();
    float total[C * S] = {};
#pragma unroll
    for (int i = 0; i < K; i++)
      multiply_add<C, S>(weight[i], mine + (i * SLICES + slice) * APART<S>, (float(&)[C][S])total);
    add_shared(total, SLICES, C * S);
#pragma unroll
    for (int i = 0; i < SHARE; i += TOGETHER)
      if (step > 0) send<TOGETHER>(total + i, next + place + i, arrivals + (~done & 1), owner);
    if (real) op.keep(k.row(sample, step), h, unit, kept);
    if (real && step > 0) in = op.load(k.row(sample, step - 1), k.row(sample, step - 2), h, unit);
  }
  cluster.sync(); // nobody leaves while others may still send
#else
  (void)op, (void)w, (void)k, (void)units;
#endif
}

// cudaErrorNotSupported: the GPU, or this build, has no clusters.
template <class OP>
static int launch_cluster(cudaStream_t stream, void (*kernel)(OP, const typename OP::E *, chain_t, int),
                          OP op, const typename OP::E *w, const chain_t &k, int units, int samples,
                          size_t bytes) {
  int error = kernel_ready(kernel, 90, bytes);
  if (error) return error;
  return launch_clusters(stream, kernel, CLUSTER, (k.n + samples - 1) / samples, SHARERS * units, bytes, op,
                         w, k, units);
}

template <class OP, int K, int S>
static int cluster_as(cudaStream_t stream, OP op, const typename OP::E *w, const chain_t &k, int units) {
  size_t floats = 2 * K * SHARERS * APART<S> + 4; // and two arrivals_t
  if (S >= 8) floats += OP::GATES * S * (units + 1) + 3 + units * (S + 4);
  if constexpr (OP::GRADIENT) {
    floats = (2 * K * SLICES + 2 * CLUSTER * (size_t)units) * APART<S> + 4;
    return launch_cluster(stream, chain_dx_kernel<OP, K, S>, op, w, k, units, S, floats * sizeof(float));
  } else {
    return launch_cluster(stream, chain_kernel<OP, K, S>, op, w, k, units, S, floats * sizeof(float));
  }
}

// As few samples in a cluster as let all clusters of 8 run at once on a GPU of 132 multiprocessors.
template <class OP>
static int run_cluster(cudaStream_t stream, OP op, const typename OP::E *w, const chain_t &k) {
  typedef int (*version_fn)(cudaStream_t, OP, const typename OP::E *, const chain_t &, int);
  static const struct {
    int64_t units, samples; // of a block; in all
    version_fn run;
  } versions[] = {
      {16, 32, cluster_as<OP, 8, 2>},         {16, 128, cluster_as<OP, 8, 8>},
      {16, INT64_MAX, cluster_as<OP, 8, 16>}, {24, 32, cluster_as<OP, 12, 2>},
      {24, 128, cluster_as<OP, 12, 8>},       {24, INT64_MAX, cluster_as<OP, 12, 16>},
      {32, 32, cluster_as<OP, 16, 2>},        {32, INT64_MAX, cluster_as<OP, 16, 8>},
  };
  int64_t each = (k.h + CLUSTER - 1) / CLUSTER, units = (each + COLUMNS - 1) / COLUMNS * COLUMNS;
  for (auto &v : versions)
    if (units <= v.units && k.n <= v.samples) return v.run(stream, op, w, k, (int)units);
  return cudaErrorNotSupported;
}

// ---- a launch for each position ----
// A block has a square of samples and units; products go through shared memory DEPTH deep.

enum { SIDE = 16, DEPTH = 32 };

template <class OP> __global__ void position_kernel(OP op, const typename OP::E *w, chain_t k, int64_t step) {
  constexpr int G = OP::GATES;
  __shared__ float hs[SIDE][DEPTH], ws[G][SIDE][DEPTH + 1];
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  int64_t unit = (int64_t)blockIdx.x * SIDE + tx, sample = (int64_t)blockIdx.y * SIDE + ty;
  int64_t before = k.row(sample, step - 1);
  float sum[G] = {};
  for (int64_t k0 = 0; step > 0 && k0 < k.h; k0 += DEPTH) {
    __syncthreads();
    for (int i = threadIdx.x; i < SIDE * DEPTH; i += BLOCK) {
      int64_t r = i / DEPTH, c = k0 + i % DEPTH, from = k.row((int64_t)blockIdx.y * SIDE + r, step - 1);
      bool real = (int64_t)blockIdx.y * SIDE + r < k.n && c < k.h;
      hs[r][i % DEPTH] = real ? f32_of(op.y[from * k.h + c]) : 0;
      int64_t e = (int64_t)blockIdx.x * SIDE + r;
#pragma unroll
      for (int g = 0; g < G; g++)
        ws[g][r][i % DEPTH] = e < k.h && c < k.h ? f32_of(w[(g * k.h + e) * k.h + c]) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < DEPTH; c++)
#pragma unroll
      for (int g = 0; g < G; g++)
        sum[g] += hs[ty][c] * ws[g][tx][c];
  }
  if (unit >= k.h || sample >= k.n) return;
  int64_t row = k.row(sample, step);
  float state = before < 0 ? 0 : op.state_at(before, k.h, unit);
  float output = before < 0 ? 0 : f32_of(op.y[before * k.h + unit]);
  op.keep(row, k.h, unit, op.step(op.load(row, k.h, unit), sum, &output, &state));
}

// state (n, h): what goes along the chain.
template <class OP>
__global__ void position_dx_kernel(OP op, const typename OP::E *w, float *state, chain_t k, int64_t step) {
  constexpr int G = OP::GATES;
  __shared__ float ds[SIDE][DEPTH], ws[DEPTH][SIDE];
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  int64_t unit = (int64_t)blockIdx.x * SIDE + tx, sample = (int64_t)blockIdx.y * SIDE + ty;
  bool last = step == k.t - 1;
  float dh = 0;
  for (int64_t k0 = 0; !last && k0 < G * k.h; k0 += DEPTH) {
    __syncthreads();
    for (int i = threadIdx.x; i < SIDE * DEPTH; i += BLOCK) {
      int64_t r = (int64_t)blockIdx.y * SIDE + i / DEPTH, c = k0 + i % DEPTH;
      ds[i / DEPTH][i % DEPTH] =
          r < k.n && c < G * k.h ? f32_of(op.factors()[k.row(r, step + 1) * G * k.h + c]) : 0;
      int64_t e = (int64_t)blockIdx.x * SIDE + i % SIDE, from = k0 + i / SIDE;
      ws[i / SIDE][i % SIDE] = e < k.h && from < G * k.h ? f32_of(w[from * k.h + e]) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < DEPTH; c++)
      dh += ds[ty][c] * ws[c][tx];
  }
  if (unit >= k.h || sample >= k.n) return;
  int64_t row = k.row(sample, step);
  float along = last ? 0 : state[sample * k.h + unit];
  op.keep(row, k.h, unit, op.step(op.load(row, k.row(sample, step - 1), k.h, unit), dh, &along));
  state[sample * k.h + unit] = along;
}

static dim3 squares(const chain_t &k) {
  return dim3((unsigned)((k.h + SIDE - 1) / SIDE), (unsigned)((k.n + SIDE - 1) / SIDE));
}

// ---- launches ----

template <class OP>
static int run_op(ls_stream_t *stream, args_t args, OP op, const ls_tensor_t &w, const ls_tensor_t &y) {
  chain_t k = {y.shape.dim[0], y.shape.dim[1], y.shape.dim[2], args->attrs->i[0] == 1};
  const typename OP::E *weights = (const typename OP::E *)w.data;
  cudaStream_t handle = ls_kernel_stream(stream);
  int error;
  if constexpr (sizeof(typename OP::E) == 2)
    error = chain_tensor(handle, op, weights, k);
  else
    error = run_cluster(handle, op, weights, k);
  if (error != cudaErrorNotSupported) return error;
  for (int64_t s = 0; s < k.t; s++)
    if constexpr (OP::GRADIENT)
      position_dx_kernel<OP>
          <<<squares(k), BLOCK, 0, handle>>>(op, weights, (float *)args->scratch, k, k.t - 1 - s);
    else
      position_kernel<OP><<<squares(k), BLOCK, 0, handle>>>(op, weights, k, s);
  return launched();
}

template <class E> static E *at(const ls_tensor_t *tensors, int i) {
  return (E *)tensors[i].data;
}

template <class E> static int lstm_chain_of(ls_stream_t *stream, args_t args) {
  const ls_tensor_t *from = args->in, *to = args->out;
  lstm_op<E> op = {at<E>(from, 0), at<E>(to, 0), at<float>(to, 1), at<E>(to, 2)};
  return run_op(stream, args, op, from[1], to[0]);
}
template <class E> static int gru_chain_of(ls_stream_t *stream, args_t args) {
  const ls_tensor_t *from = args->in, *to = args->out;
  gru_op<E> op = {at<E>(from, 0), at<float>(from, 2), at<E>(to, 0), at<E>(to, 1), at<E>(to, 2)};
  return run_op(stream, args, op, from[1], to[0]);
}
template <class E> static int lstm_chain_dx_of(ls_stream_t *stream, args_t args) {
  const ls_tensor_t *from = args->in, *to = args->out;
  lstm_dx_op<E> op = {at<E>(from, 0), at<float>(from, 1), at<E>(from, 2), at<E>(to, 0)};
  return run_op(stream, args, op, from[3], from[0]);
}
template <class E> static int gru_chain_dx_of(ls_stream_t *stream, args_t args) {
  const ls_tensor_t *from = args->in, *to = args->out;
  gru_dx_op<E> op = {at<E>(from, 0), at<E>(from, 1), at<E>(from, 2),
                     at<E>(from, 3), at<E>(to, 0),   at<E>(to, 1)};
  return run_op(stream, args, op, from[4], from[0]);
}

#define CHAIN(op)                                                                                            \
  static ls_status_t op(ls_stream_t *stream, args_t args) {                                                  \
    ls_dtype_t dtype = args->in[0].shape.dtype;                                                              \
    int error = dtype == LS_BF16  ? op##_of<bf16_t>(stream, args)                                            \
                : dtype == LS_F16 ? op##_of<f16_t>(stream, args)                                             \
                                  : op##_of<float>(stream, args);                                            \
    return ls_kernel_status(stream, error, #op);                                                             \
  }
CHAIN(lstm_chain)
CHAIN(lstm_chain_dx)
CHAIN(gru_chain)
CHAIN(gru_chain_dx)

const ls_kernel_row_t ls_cuda_recurrent_rows[] = {{"lstm_chain", lstm_chain, true},
                                                  {"lstm_chain_dx", lstm_chain_dx, true},
                                                  {"gru_chain", gru_chain, true},
                                                  {"gru_chain_dx", gru_chain_dx, true},
                                                  {}};
