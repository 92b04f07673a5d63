// Recurrent chains (graph/ops/lstm.c, gru.c). Samples are independent, so a cluster of blocks takes a few of them through
// all positions in one launch: each block keeps the weights of its 32 units in registers, and the blocks send each other
// what the next position needs (cluster.cuh). Wider layers take all multiprocessors (recurrent_grid.cu); where neither fits, a
// position is a launch.
#include "device/cuda/cluster.cuh"
#include "device/cuda/recurrent_positions.cuh"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

// ---- a cluster takes a few samples through all positions ----
// A cluster has C blocks, a block UNITS units. SHARERS lanes share two units: each multiplies every SHARERS-th number, of all
// samples of a chunk, with the weights of all gates, and what they have summed they add up by shuffles. What a number is
// multiplied with is read once for 8 products: shared memory delivers 32 numbers in the time of 128 products.
// A cluster takes several chunks of S samples in turn: while numbers of one travel, it works on another.
// The order of a sample's sums depends on the layer's width alone.
// The bound of a position, for 192 units of an LSTM on an H200 at 1.98 GHz, with 2 samples of 32 for each of 16 clusters:
//   products: 192 for each of 8 warps, two warps on one quarter of a multiprocessor  400 cycles
//   adding up and functions                                                          300
//   what was sent arrives: an empty exchange among 6 blocks takes 0.27 us            540
// about 0.65 us, 38 us for 60 positions; with 4 chunks of 4 samples (256 in all) 4 x 1,100 cycles, 2.2 us, 133 us. Measured
// times are in docs/results.md. What a position needs from global memory goes to shared memory one chunk ahead (copy_4):
// loads to registers share scoreboards with those from shared memory, so that the first product waited for them, a fifth
// of the time.

enum { UNITS = 32, SHARERS = 16, CHAIN_THREADS = UNITS / 2 * SHARERS, BLOCKS_MAX = 8, CHUNKS_MAX = 4 };

// Every LANES-th number of S samples from shared memory. Of two samples all are read before any is used: a warp has only
// one other to wait with.
template <int LANES, int N, int S> __device__ static void read_all(float (&v)[N][S], const float *from) {
#pragma unroll
  for (int i = 0; i < N; i++)
    if constexpr (S == 2)
      *(float2 *)v[i] = *(const float2 *)(from + i * LANES * S);
    else
      *(float4 *)v[i] = *(const float4 *)(from + i * LANES * S);
  if (S == 2) asm volatile("" ::: "memory");
}

// Adds up value[.. N) over LANES lanes. Each is left with the totals of N / LANES, its share, at the front. In the first
// SORTED rounds, which tell lanes apart by their upper bits, each lane has its own half in front already.
template <int LANES, int SORTED, int N> __device__ static void add_shared(float *value) {
  bool upper = threadIdx.x & (LANES / 2);
#pragma unroll
  for (int i = 0; i < N / 2; i++) {
    bool swap = SORTED < 1 && upper;
    float mine = swap ? value[i + N / 2] : value[i], other = swap ? value[i] : value[i + N / 2];
    value[i] = mine + __shfl_xor_sync(0xffffffffu, other, LANES / 2);
  }
  if constexpr (LANES > 2) add_shared<LANES / 2, SORTED - 1, N / 2>(value);
}

// A lane is left with one slot of one unit, of V samples. OUTPUTS: of all units, of a chunk. SENDERS lanes have the four
// that are sent at once. SORTED: a lane has its own slot and unit in front, where there are as many gates as slots.
template <class OP, int C, int S> struct chain_plan {
  static constexpr int V = S / 2, DEPTH = C * UNITS / SHARERS, OUTPUTS = C * UNITS * S, SENDERS = 4 / V;
  static constexpr int SENT = OUTPUTS * (int)sizeof(float); // to each block
  static constexpr int SORTED = (int)OP::GATES == (int)SLOTS ? 3 : 0;
  static constexpr size_t bytes(int chunks) {
    return (size_t)chunks * (2 * sizeof(arrivals_t) + (2 * OUTPUTS + V * CHAIN_THREADS) * sizeof(float)) +
           2 * V * CHAIN_THREADS * sizeof(float);
  }
};

template <class OP, int C, int S>
__global__ void __launch_bounds__(CHAIN_THREADS) chain_kernel(OP op, const float *w, chain_t k, int most) {
#if __CUDA_ARCH__ >= 900
  const int chunks = S == 2 ? 1 : most; // known to the compiler
  typedef chain_plan<OP, C, S> P;
  extern __shared__ float4 shared[];
  cg::cluster_group cluster = cg::this_cluster();
  float *outputs = (float *)shared;                  // two positions in turn: (chunks, C UNITS, S)
  float *states = outputs + 2 * chunks * P::OUTPUTS; // (chunks, V, threads)
  arrivals_t *arrivals = (arrivals_t *)(states + chunks * P::V * CHAIN_THREADS); // of outputs, likewise
  float *inputs = (float *)(arrivals + 2 * chunks); // two chunks in turn: (V, threads)
  int h = k.h, sharer = threadIdx.x % SHARERS, pair = threadIdx.x / SHARERS;
  int first = (int)cluster.block_rank() * UNITS + 2 * pair, slot = sharer / 4, own = sharer / 2 % 2;
  float weight[P::DEPTH][OP::GATES][2];
#pragma unroll
  for (int i = 0; i < P::DEPTH; i++)
#pragma unroll
    for (int g = 0; g < OP::GATES; g++)
#pragma unroll
      for (int u = 0; u < 2; u++) {
        int from = i * SHARERS + sharer, gate = P::SORTED ? g ^ slot : g,
            unit = first + (P::SORTED ? u ^ own : u);
        weight[i][g][u] = unit < h && from < h ? w[(gate * h + unit) * h + from] : 0;
      }
  for (int i = threadIdx.x; i < chunks * (2 * P::OUTPUTS + P::V * CHAIN_THREADS); i += blockDim.x)
    outputs[i] = 0;
  int unit = first + own, s0 = sharer % 2 * P::V, lane = threadIdx.x % WARP;
  // Four outputs that lie side by side are sent at once: of both units, or of one unit's four samples.
  int sent = S == 2 ? first : unit, to = S == 2 ? sharer : slot * 2 + sharer % 2;
  int64_t sample = (int64_t)(blockIdx.x / C) * chunks * S + s0;
  op = op.from(sample * k.t, h);
  int left = unit < h ? k.left(sample) : 0;
  auto fetch = [&](int turn, int step, int chunk) {
#pragma unroll
    for (int v = 0; v < P::V; v++) {
      int at = chunk * S + v;
      bool real = step < k.t && at < left;
      copy_4(inputs + (turn * P::V + v) * CHAIN_THREADS + threadIdx.x,
             op.slot_at(real ? at * k.t + k.position(step) : 0, h, unit, slot), real);
    }
    copies_end();
  };
  fetch(0, 0, 0);
  arrivals_begin<C>(cluster, arrivals, 2 * chunks, P::SENT);
  int turn = 0;
  for (int step = 0; step < k.t; step++)
    for (int chunk = 0; chunk < chunks; chunk++, turn ^= 1) {
      bool last = chunk + 1 == chunks;
      fetch(1 - turn, step + last, last ? 0 : chunk + 1);
      arrivals_t *arrived = arrivals + 2 * chunk;
      float *now = outputs + ((step & 1) * chunks + chunk) * P::OUTPUTS;
      float *next = outputs + ((~step & 1) * chunks + chunk) * P::OUTPUTS;
      if (step > 0) arrivals_wait<C>(arrived + (step & 1), chain_t::parity(step), P::SENT);
      float sum[SLOTS * 2 * S] = {};
      float v[P::DEPTH][S];
      read_all<SHARERS>(v, now + sharer * S);
#pragma unroll
      for (int i = 0; i < P::DEPTH; i++)
#pragma unroll
        for (int g = 0; g < OP::GATES; g++)
#pragma unroll
          for (int u = 0; u < 2; u++)
#pragma unroll
            for (int s = 0; s < S; s++)
              sum[(g * 2 + u) * S + s] += weight[i][g][u] * v[i][s];
      add_shared<SHARERS, P::SORTED, SLOTS * 2 * S>(sum);
      float output[P::V], *state = states + chunk * P::V * CHAIN_THREADS + threadIdx.x;
      const float *in = inputs + turn * P::V * CHAIN_THREADS + threadIdx.x;
      typename OP::kept_t kept[P::V];
      copies_wait<1>();
#pragma unroll
      for (int v = 0; v < P::V; v++) {
        float mine = op.gate(in[v * CHAIN_THREADS] + sum[v], slot), gate[SLOTS];
#pragma unroll
        for (int g = 0; g < SLOTS; g++)
          gate[g] = __shfl_sync(0xffffffffu, mine, lane - sharer + g * 4 + sharer % 4);
        output[v] = now[unit * S + s0 + v];
        kept[v] = op.step(gate, &output[v], state + v * CHAIN_THREADS);
      }
      // Units beyond h are zeros, which are sent as well: a block then hears of all warps that they are done with what
      // they have read.
      if (step + 1 < k.t) {
        float four[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
          four[i] = __shfl_sync(0xffffffffu, output[i % P::V], (lane & -P::SENDERS) + i / P::V);
        if (to < C) send<4, C>(four, next + sent * S, arrived + (~step & 1), to);
      }
#pragma unroll
      for (int v = 0; v < P::V; v++)
        if (chunk * S + v < left)
          op.keep_slot((chunk * S + v) * k.t + k.position(step), h, unit, slot, kept[v]);
    }
  cluster.sync(); // nobody leaves while others may still send
#else
  (void)op, (void)w, (void)k, (void)most;
#endif
}

// A block multiplies the gradients of its own units' gates; the products are parts of all units' sums, and go to the
// block that has the unit. DX_SHARERS lanes share one unit of every block. Each is left with the sums of S samples, for one
// block.
enum { DX_SHARERS = CHAIN_THREADS / UNITS };
static_assert((int)DX_SHARERS == (int)BLOCKS_MAX, "a lane for each block");

template <class OP, int C, int S> struct chain_dx_plan {
  static constexpr int FACTORS = OP::GATES * UNITS, DEPTH = FACTORS / DX_SHARERS;
  static constexpr int SORTED = C % 2 == 0; // a lane has the even or the odd blocks in front
  // The place of a block's sums, and which block's a lane is left with: even ones, then odd ones.
  __device__ static int place_of(int block) { return block % 2 * (BLOCKS_MAX / 2) + block / 2; }
  __device__ static int block_at(int place) {
    return place % (BLOCKS_MAX / 2) * 2 + place / (BLOCKS_MAX / 2);
  }
  static constexpr int SUMS = C * UNITS * S, SENT = SUMS * (int)sizeof(float); // to each block
  static constexpr size_t bytes(int chunks) {
    return (size_t)chunks * (2 * sizeof(arrivals_t) + (2 * SUMS + S * UNITS) * sizeof(float)) +
           2 * S * (FACTORS * sizeof(float) + UNITS * sizeof(typename OP::in_t));
  }
};

template <class OP, int C, int S>
__global__ void __launch_bounds__(CHAIN_THREADS) chain_dx_kernel(OP op, const float *w, chain_t k, int most) {
#if __CUDA_ARCH__ >= 900
  const int chunks = S == 2 ? 1 : most; // known to the compiler
  typedef chain_dx_plan<OP, C, S> P;
  extern __shared__ float4 shared[];
  cg::cluster_group cluster = cg::this_cluster();
  int h = k.h, rank = (int)cluster.block_rank(), sharer = threadIdx.x % DX_SHARERS;
  // The unit of each block that the products are for, and the block whose sums this thread is left with.
  int product = threadIdx.x / DX_SHARERS, own = P::block_at(sharer);
  float *factors = (float *)shared;           // two in turn, (gate, UNITS, S): d of this block's units
  float *sums = factors + 2 * P::FACTORS * S; // two positions in turn: (chunks, C, UNITS, S)
  arrivals_t *arrivals = (arrivals_t *)(sums + 2 * chunks * P::SUMS); // of sums, likewise
  float weight[P::DEPTH][C];
#pragma unroll
  for (int i = 0; i < P::DEPTH; i++)
#pragma unroll
    for (int c = 0; c < C; c++) {
      int part = i * DX_SHARERS + sharer, from = rank * UNITS + part % UNITS;
      int to = (P::SORTED ? c ^ (own & 1) : c) * UNITS + product;
      weight[i][c] = from < h && to < h ? w[(part / UNITS * h + from) * h + to] : 0;
    }
  // Units and samples of a chunk have a thread each, and every thread a share of the products.
  int u = threadIdx.x % UNITS, s = threadIdx.x / UNITS, unit = rank * UNITS + u;
  int64_t sample = (int64_t)(blockIdx.x / C) * chunks * S + s;
  float *states = (float *)(arrivals + 2 * chunks); // (chunks, S UNITS)
  typename OP::in_t *inputs =
      (typename OP::in_t *)(states + chunks * S * UNITS); // two chunks in turn: (S UNITS)
  op = op.from(sample * k.t, h);
  int left = unit < h ? k.left(sample) : 0;
  auto fetch = [&](int turn, int step, int chunk) {
    int first = chunk * S * k.t, before = k.position(step - 1);
    bool real = step >= 0 && chunk * S < left;
    op.load(inputs + turn * S * UNITS + threadIdx.x, real ? first + k.position(step) : 0,
            before == NONE ? NONE : first + before, h, unit,
            [=](raw_t<float> *to, const float *from) { copy_4(to, from, real); });
    copies_end();
  };
  for (int i = 0; i < chunks && s < S; i++)
    states[i * S * UNITS + threadIdx.x] = 0;
  if (s < S) fetch(0, k.t - 1, 0);
  arrivals_begin<C>(cluster, arrivals, 2 * chunks, P::SENT);
  int turn = 0;
  for (int step = k.t - 1; step >= 0; step--)
    for (int chunk = 0; chunk < chunks; chunk++, turn ^= 1) {
      int done = k.t - 1 - step; // positions
      arrivals_t *arrived = arrivals + 2 * chunk;
      const float *now = sums + ((done & 1) * chunks + chunk) * P::SUMS;
      float *next = sums + ((~done & 1) * chunks + chunk) * P::SUMS, *mine = factors + turn * P::FACTORS * S;
      bool real = chunk * S < left, last = chunk + 1 == chunks;
      typename OP::ready_t ready = {};
      if (s < S) {
        fetch(1 - turn, step - last, last ? 0 : chunk + 1);
        copies_wait<1>();
        ready = op.prepare(inputs[turn * S * UNITS + threadIdx.x]);
      }
      if (done > 0) arrivals_wait<C>(arrived + (done & 1), chain_t::parity(done), P::SENT);
      typename OP::kept_t kept = {};
      if (s < S) {
        float dh = 0;
#pragma unroll
        for (int c = 0; c < C; c++)
          dh += done > 0 ? now[(c * UNITS + u) * S + s] : 0;
        if (real) kept = op.step(ready, dh, &states[chunk * S * UNITS + threadIdx.x]);
#pragma unroll
        for (int g = 0; g < OP::GATES; g++)
          mine[(g * UNITS + u) * S + s] = kept.d[g];
      }
      __syncthreads();
      if (step > 0) {
        float sum[BLOCKS_MAX * S] = {};
        float v[P::DEPTH][S];
        read_all<DX_SHARERS>(v, mine + sharer * S);
#pragma unroll
        for (int i = 0; i < P::DEPTH; i++)
#pragma unroll
          for (int c = 0; c < C; c++)
#pragma unroll
            for (int j = 0; j < S; j++)
              sum[P::place_of(c) * S + j] += weight[i][c] * v[i][j];
        add_shared<DX_SHARERS, P::SORTED, BLOCKS_MAX * S>(sum);
        float four[4]; // of two units, or of one
#pragma unroll
        for (int j = 0; j < 4; j++)
          four[j] = j < S ? sum[j < S ? j : 0] : __shfl_down_sync(0xffffffffu, sum[j % S], DX_SHARERS);
        if (own < C && product % (4 / S) == 0)
          send<4, C>(four, next + (rank * UNITS + product) * S, arrived + (~done & 1), own);
      }
      if (s < S && real) op.keep(chunk * S * k.t + k.position(step), h, unit, kept);
    }
  cluster.sync(); // nobody leaves while others may still send
#else
  (void)op, (void)w, (void)k, (void)most;
#endif
}

// The fewest samples in a cluster that let all clusters run at once. places: how many clusters of so many blocks a GPU of 132
// multiprocessors places (cudaOccupancyMaxActiveClusters on an H200). cudaErrorNotSupported: the GPU, or this build, has no
// clusters.
static const int places[BLOCKS_MAX + 1] = {0, 132, 66, 39, 30, 22, 17, 15, 15};

// All shared memory that a block may have: there is none for another one.
static int alone(size_t *bytes) {
  int device, most;
  cudaError_t error = cudaGetDevice(&device);
  if (!error) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (!error) *bytes = (size_t)most;
  return error;
}

template <class OP, int C, int S>
static int cluster_as(cudaStream_t stream, OP op, const float *w, const chain_t &k) {
  int64_t needed = (k.n + places[C] * S - 1) / (places[C] * S);
  int chunks = needed < CHUNKS_MAX ? (int)needed : (int)CHUNKS_MAX;
  size_t bytes;
  void (*kernel)(OP, const float *, chain_t, int);
  if constexpr (OP::GRADIENT) {
    kernel = chain_dx_kernel<OP, C, S>;
    bytes = chain_dx_plan<OP, C, S>::bytes(chunks);
  } else {
    kernel = chain_kernel<OP, C, S>;
    bytes = chain_plan<OP, C, S>::bytes(chunks);
  }
  const bool all_at_once = (k.n + chunks * S - 1) / (chunks * S) <= places[C];
  int error = OP::ALONE && all_at_once ? alone(&bytes) : 0;
  if (!error) error = kernel_ready(kernel, 90, bytes);
  if (error) return error;
  return launch_clusters(stream, kernel, C, (k.n + chunks * S - 1) / (chunks * S), CHAIN_THREADS, bytes, op,
                         w, k, chunks);
}

template <class OP, int C>
static int cluster_of(cudaStream_t stream, OP op, const float *w, const chain_t &k) {
  return k.n <= 2 * places[C] ? cluster_as<OP, C, 2>(stream, op, w, k)
                              : cluster_as<OP, C, 4>(stream, op, w, k);
}

template <class OP> static int run_cluster(cudaStream_t stream, OP op, const float *w, const chain_t &k) {
  typedef int (*version_fn)(cudaStream_t, OP, const float *, const chain_t &);
  static const version_fn versions[] = {cluster_of<OP, 1>, cluster_of<OP, 2>, cluster_of<OP, 4>,
                                        cluster_of<OP, 4>, cluster_of<OP, 5>, cluster_of<OP, 6>,
                                        cluster_of<OP, 8>, cluster_of<OP, 8>};
  int blocks = (k.h + UNITS - 1) / UNITS;
  return blocks <= BLOCKS_MAX ? versions[blocks - 1](stream, op, w, k) : (int)cudaErrorNotSupported;
}

// ---- launches ----

template <class OP>
static int run_op(ls_stream_t *stream, args_t args, OP op, const ls_tensor_t &w, const ls_tensor_t &y,
                  int way) {
  chain_t k = {y.shape.dim[0], (int)y.shape.dim[1], (int)y.shape.dim[2], args->attrs->i[0] == 1};
  const typename OP::E *weights = (const typename OP::E *)w.data;
  cudaStream_t handle = ls_kernel_stream(stream);
  if (way == CLUSTER) { // it counts its elements in 32 bits
    if ((int64_t)k.t * k.h * SLOTS > INT32_MAX / (4 * CHUNKS_MAX)) return cudaErrorNotSupported;
    if constexpr (sizeof(typename OP::E) == 2)
      return chain_tensor(handle, op, weights, k);
    else
      return run_cluster(handle, op, weights, k);
  }
  if (way == GRID) return chain_grid(stream, args, op, weights, k);
  return run_positions(stream, args, op, weights, k, way);
}

template <class E> static E *at(const ls_tensor_t *tensors, int i) {
  return (E *)tensors[i].data;
}

template <class E> static int lstm_chain_of(ls_stream_t *stream, args_t args, int way) {
  const ls_tensor_t *from = args->in, *to = args->out;
  lstm_op<E> op = {at<E>(from, 0), at<E>(to, 0), at<float>(to, 1), at<E>(to, 2)};
  return run_op(stream, args, op, from[1], to[0], way);
}
template <class E> static int gru_chain_of(ls_stream_t *stream, args_t args, int way) {
  const ls_tensor_t *from = args->in, *to = args->out;
  gru_op<E> op = {at<E>(from, 0), at<float>(from, 2), at<E>(to, 0), at<E>(to, 1), at<E>(to, 2)};
  return run_op(stream, args, op, from[1], to[0], way);
}
template <class E> static int lstm_chain_dx_of(ls_stream_t *stream, args_t args, int way) {
  const ls_tensor_t *from = args->in, *to = args->out;
  lstm_dx_op<E> op = {at<E>(from, 0), at<float>(from, 1), at<E>(from, 2), at<E>(to, 0)};
  return run_op(stream, args, op, from[3], from[0], way);
}
template <class E> static int gru_chain_dx_of(ls_stream_t *stream, args_t args, int way) {
  const ls_tensor_t *from = args->in, *to = args->out;
  gru_dx_op<E> op = {at<E>(from, 0), at<E>(from, 1), at<E>(from, 2),
                     at<E>(from, 3), at<E>(to, 0),   at<E>(to, 1)};
  return run_op(stream, args, op, from[4], from[0], way);
}

// The first that can is the fixed rule's.
#define CHAIN(op)                                                                                            \
  static int op##_by(ls_stream_t *stream, args_t args, int way) {                                            \
    ls_dtype_t dtype = args->in[0].shape.dtype;                                                              \
    return dtype == LS_BF16  ? op##_of<bf16_t>(stream, args, way)                                            \
           : dtype == LS_F16 ? op##_of<f16_t>(stream, args, way)                                             \
                             : op##_of<float>(stream, args, way);                                            \
  }                                                                                                          \
  static ls_status_t op(ls_stream_t *stream, args_t args) {                                                  \
    static const ls_way_t ways[] = {                                                                         \
        {"cluster", op##_by, CLUSTER, false},                                                                \
        {"grid", op##_by, GRID, false},                                                                      \
        {"positions", op##_by, POSITIONS, false},                                                            \
        {"products", op##_by, PRODUCTS_OF + LS_TENSOR_WIDE, false},                                          \
        {"products, small tiles", op##_by, PRODUCTS_OF + LS_TENSOR_SMALL, false},                            \
        {"split products", op##_by, PRODUCTS_OF + LS_TENSOR_SPLIT, true},                                    \
        {"split products, small tiles", op##_by, PRODUCTS_OF + LS_TENSOR_SPLIT + LS_TENSOR_SMALL, true}};    \
    return ls_kernel_best(stream, args, #op, ways, (int)(sizeof ways / sizeof *ways));                       \
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
