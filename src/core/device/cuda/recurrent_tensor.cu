// Recurrent chains of 16-bit tensors on tensor cores. A cluster of OF blocks takes 8 samples through all positions. A warp
// has 8 units, and keeps as fragments in registers the rows of w_hh that they need; what the next position is multiplied
// with travels between blocks in the order in which lanes want it (cluster.cuh), rounded to 16 bits like what is kept.
// The bound of a position, for 192 units of an LSTM on an H200 at 1.98 GHz, 8 samples for each cluster:
//   products: 8 warps of 24 each, two warps on one tensor core, 3 cycles each       150 cycles
//   fragments of the first, functions (10 for each thread, 8 cycles for a warp)      200
//   what was sent arrives: an empty exchange among 4 blocks takes 0.26 us            510
// about 0.45 us, and 0.55 us of the gradient, which sends sums of f32: 27 and 33 us for 60 positions, however many samples
// there are up to 8 for each cluster that runs at once. Measured times are in docs/results.md. Clusters of 3 blocks,
// because a GPU of 132 multiprocessors places 39 of these, but only 30 of 4: 256 samples need 32.
// The sums of a sample do not depend on the others.
#include "device/cuda/cluster.cuh"
#include "device/cuda/recurrent.cuh"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

enum { SAMPLES = 8, GROUP = 8 /* units of a warp */ };

// Which lane has what of a product of GROUP rows and SAMPLES columns, and of how many warps' units the cluster's are.
struct lane_t {
  int lane, warp, rank, row;
  int64_t sample; // and the next
  __device__ lane_t(int rank_, int of)
      : lane(threadIdx.x % WARP), warp(threadIdx.x / WARP), rank(rank_), row(lane / 4),
        sample((int64_t)(blockIdx.x / of) * SAMPLES + 2 * (lane % 4)) {}
};

template <class E> __device__ static uint32_t pair_of(const E *w, bool first, int a, bool second, int b) {
  return pack(first ? f32_of(w[a]) : 0, second ? f32_of(w[b]) : 0, E());
}
#if __CUDA_ARCH__ >= 900
template <int OF> __device__ static void send_word(uint32_t word, uint32_t *to, arrivals_t *a, int rank) {
  float value = __uint_as_float(word);
  send<1, OF>(&value, (float *)to, a, rank);
}
#endif

// sum = the warp's tiles of 16 rows times 16 DEPTH numbers of SAMPLES samples, which lie in shared memory as (2 DEPTH, SAMPLES,
// 8). Even and odd depths are summed apart: neighbours wait less for each other.
template <class E, int TILES, int DEPTH>
__device__ static void products(float (&sum)[TILES][4], const uint32_t (&weight)[TILES][DEPTH][4],
                                const uint32_t *from) {
  float odd[TILES][4] = {};
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      sum[i][e] = 0;
#pragma unroll
  for (int d = 0; d < DEPTH; d += 2) {
    uint32_t b[4];
    load_fragments(b, from + d * 2 * WARP + threadIdx.x % WARP * 4);
#pragma unroll
    for (int i = 0; i < TILES; i++) {
      multiply(sum[i], weight[i][d], b, E());
      multiply(odd[i], weight[i][d + 1], b + 2, E());
    }
  }
#pragma unroll
  for (int i = 0; i < TILES; i++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      sum[i][e] += odd[i][e];
}

// OF: blocks of a cluster. W: warps of a block. Tile i of a warp has gates 2 i and 2 i + 1 of its units.
template <class OP, int OF, int W> struct forward_plan {
  static constexpr int TILES = 2, DEPTH = (OF * W + 3) / 4 * 2,
                       OUTPUTS = 2 * DEPTH * WARP; // words of a position
  static constexpr int SENT = OF * W * WARP * (int)sizeof(uint32_t);
  static constexpr size_t BYTES = 2 * sizeof(arrivals_t) + 2 * OUTPUTS * sizeof(uint32_t);
};

template <class OP, int OF, int W>
__global__ void __launch_bounds__(W *WARP) tensor_chain_kernel(OP op, const typename OP::E *w, chain_t k) {
#if __CUDA_ARCH__ >= 900
  typedef forward_plan<OP, OF, W> P;
  typedef typename OP::E E;
  extern __shared__ float4 shared[];
  cg::cluster_group cluster = cg::this_cluster();
  arrivals_t *arrivals = (arrivals_t *)shared;    // of outputs, two positions in turn
  uint32_t *outputs = (uint32_t *)(arrivals + 2); // likewise, of all units: (OF W, SAMPLES, GROUP)
  const lane_t l((int)cluster.block_rank(), OF);
  int h = k.h, own = l.rank * W + l.warp, unit = own * GROUP + l.row;
  uint32_t weight[P::TILES][P::DEPTH][4];
#pragma unroll
  for (int i = 0; i < P::TILES; i++)
#pragma unroll
    for (int d = 0; d < P::DEPTH; d++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int gate = 2 * i + e % 2, from = (2 * d + e / 2) * GROUP + 2 * (l.lane % 4);
        int at = (gate * h + unit) * h + from;
        bool used = gate < OP::GATES && unit < h;
        weight[i][d][e] = pair_of(w, used && from < h, at, used && from + 1 < h, at + 1);
      }
  for (int i = threadIdx.x; i < 2 * P::OUTPUTS; i += blockDim.x)
    outputs[i] = 0;
  bool real[2] = {unit < h && l.sample < k.n, unit < h && l.sample + 1 < k.n};
  float output[2] = {}, state[2] = {};
  typename OP::in_t even[2] = {}, odd[2] = {}; // of two positions in turn, read two ahead
  op = op.from(l.sample * k.t, h);
  auto fetch = [&](int step, typename OP::in_t(&in)[2]) {
#pragma unroll
    for (int s = 0; s < 2; s++)
      if (real[s] && step < k.t) in[s] = op.load(s * k.t + k.position(step), h, unit);
  };
  auto position = [&](int step, typename OP::in_t(&in)[2]) {
    int p = step & 1;
    if (step > 0) arrivals_wait<OF>(arrivals + p, chain_t::parity(step), P::SENT);
    float sum[P::TILES][4];
    products<E>(sum, weight, outputs + p * P::OUTPUTS);
    typename OP::kept_t kept[2];
#pragma unroll
    for (int s = 0; s < 2; s++) {
      float gate[SLOTS];
#pragma unroll
      for (int g = 0; g < SLOTS; g++)
        gate[g] = op.gate(in[s].slot(g) + sum[g / 2][g % 2 * 2 + s], g);
      kept[s] = op.step(gate, &output[s], &state[s]);
    }
    // Units beyond h are zeros, which are sent as well: a block then hears of all warps that they are done with what they
    // have read.
    uint32_t word = transposed(pack(output[0], output[1], E()));
    if (step + 1 < k.t)
#pragma unroll
      for (int i = 0; i < OF; i++)
        send_word<OF>(word, outputs + (1 - p) * P::OUTPUTS + own * WARP + l.lane, arrivals + (1 - p),
                      (l.rank + i) % OF);
    fetch(step + 2, in);
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
      for (int g = 0; g < SLOTS; g++)
        if (real[s]) op.keep_slot(s * k.t + k.position(step), h, unit, g, kept[s]);
  };
  fetch(0, even);
  fetch(1, odd);
  arrivals_begin<OF>(cluster, arrivals, 2, P::SENT);
  for (int step = 0; step < k.t; step += 2) {
    position(step, even);
    if (step + 1 < k.t) position(step + 1, odd);
  }
  cluster.sync(); // nobody leaves while others may still send
#else
  (void)op, (void)w, (void)k;
#endif
}

// A block multiplies the gradients of its own units' gates. Tile i of a warp are sums of blocks 2 i and 2 i + 1, for the
// warp of the same number there.
template <class OP, int OF, int W> struct backward_plan {
  static constexpr int TILES = (OF + 1) / 2, PARTS = OP::GATES * W, DEPTH = (PARTS + 3) / 4 * 2;
  static constexpr int FACTORS = 2 * DEPTH * WARP, SUMS = OF * W * WARP; // words and pairs of a position
  static constexpr int SENT = SUMS * (int)sizeof(float2);
  static constexpr size_t BYTES =
      2 * sizeof(arrivals_t) + 2 * FACTORS * sizeof(uint32_t) + 2 * SUMS * sizeof(float2);
};

template <class OP, int OF, int W>
__global__ void __launch_bounds__(W *WARP) tensor_chain_dx_kernel(OP op, const typename OP::E *w, chain_t k) {
#if __CUDA_ARCH__ >= 900
  typedef backward_plan<OP, OF, W> P;
  typedef typename OP::E E;
  extern __shared__ float4 shared[];
  cg::cluster_group cluster = cg::this_cluster();
  arrivals_t *arrivals = (arrivals_t *)shared;    // of sums, two positions in turn
  uint32_t *factors = (uint32_t *)(arrivals + 2); // likewise, d of this block's: (gate, W, SAMPLES, GROUP)
  float2 *arrived = (float2 *)(factors + 2 * P::FACTORS); // likewise: (OF, W, lane)
  const lane_t l((int)cluster.block_rank(), OF);
  int h = k.h, unit = (l.rank * W + l.warp) * GROUP + l.row;
  uint32_t weight[P::TILES][P::DEPTH][4];
#pragma unroll
  for (int d = 0; d < P::DEPTH; d++) {
#pragma unroll
    for (int i = 0; i < P::TILES; i++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int part = 2 * d + e / 2, from = (l.rank * W + part % W) * GROUP + 2 * (l.lane % 4);
        int to = ((2 * i + e % 2) * W + l.warp) * GROUP + l.row;
        int at = (part / W * h + from) * h + to;
        bool used = part < P::PARTS && 2 * i + e % 2 < OF && to < h;
        weight[i][d][e] = pair_of(w, used && from < h, at, used && from + 1 < h, at + h);
      }
    if (d % 4 == 3) asm volatile("" ::: "memory"); // no more loads at once than registers
  }
  for (int i = threadIdx.x; i < 2 * P::FACTORS; i += blockDim.x)
    factors[i] = 0;
  bool real[2] = {unit < h && l.sample < k.n, unit < h && l.sample + 1 < k.n};
  float state[2] = {};
  typename OP::in_t even[2] = {}, odd[2] = {}; // of two positions in turn, read two ahead
  op = op.from(l.sample * k.t, h);
  auto fetch = [&](int step, typename OP::in_t(&in)[2]) {
    int before = k.position(step - 1);
#pragma unroll
    for (int s = 0; s < 2; s++)
      if (real[s] && step >= 0)
        op.load(&in[s], s * k.t + k.position(step), before == NONE ? NONE : s * k.t + before, h, unit,
                read_t());
  };
  auto position = [&](int step, typename OP::in_t(&in)[2]) {
    int done = k.t - 1 - step; // positions
    int p = done & 1;
    float dh[2] = {};
    const typename OP::ready_t ready[2] = {op.prepare(in[0]), op.prepare(in[1])};
    if (done > 0) {
      arrivals_wait<OF>(arrivals + p, chain_t::parity(done), P::SENT);
#pragma unroll
      for (int i = 0; i < OF; i++) {
        float2 part = arrived[p * P::SUMS + i * W * WARP + (int)threadIdx.x];
        dh[0] += part.x;
        dh[1] += part.y;
      }
    }
    uint32_t *own = factors + p * P::FACTORS;
    typename OP::kept_t kept[2];
#pragma unroll
    for (int s = 0; s < 2; s++)
      kept[s] = op.step(ready[s], dh[s], &state[s]);
#pragma unroll
    for (int g = 0; g < OP::GATES; g++)
      own[g * W * WARP + (int)threadIdx.x] = transposed(pack(kept[0].d[g], kept[1].d[g], E()));
    __syncthreads();
    if (step > 0) {
      float sum[P::TILES][4];
      products<E>(sum, weight, own);
      fetch(step - 2, in); // no earlier: what waits for shared memory may wait for these loads as well
#pragma unroll
      for (int i = 0; i < OF; i++)
        send<2, OF>(sum[i / 2] + i % 2 * 2,
                    (float *)(arrived + (1 - p) * P::SUMS + l.rank * W * WARP + (int)threadIdx.x),
                    arrivals + (1 - p), i);
    }
#pragma unroll
    for (int s = 0; s < 2; s++)
      if (real[s]) op.keep(s * k.t + k.position(step), h, unit, kept[s]);
  };
  fetch(k.t - 1, even);
  fetch(k.t - 2, odd);
  arrivals_begin<OF>(cluster, arrivals, 2, P::SENT);
  for (int step = k.t - 1; step >= 0; step -= 2) {
    position(step, even);
    if (step > 0) position(step - 1, odd);
  }
  cluster.sync(); // nobody leaves while others may still send
#else
  (void)op, (void)w, (void)k;
#endif
}

template <class OP, int OF, int W>
static int launch_tensor(cudaStream_t stream, OP op, const typename OP::E *w, const chain_t &k) {
  void (*kernel)(OP, const typename OP::E *, chain_t);
  size_t bytes;
  if constexpr (OP::GRADIENT) {
    kernel = tensor_chain_dx_kernel<OP, OF, W>;
    bytes = backward_plan<OP, OF, W>::BYTES;
  } else {
    kernel = tensor_chain_kernel<OP, OF, W>;
    bytes = forward_plan<OP, OF, W>::BYTES;
  }
  int error = kernel_ready(kernel, 90, bytes);
  if (error) return error;
  return launch_clusters(stream, kernel, OF, (k.n + SAMPLES - 1) / SAMPLES, W * WARP, bytes, op, w, k);
}

template <class OP> int chain_tensor(cudaStream_t stream, OP op, const typename OP::E *w, const chain_t &k) {
  typedef int (*version_fn)(cudaStream_t, OP, const typename OP::E *, const chain_t &);
  static const struct {
    int units;
    version_fn run;
  } versions[] = {{24, launch_tensor<OP, 3, 1>},  {48, launch_tensor<OP, 3, 2>},
                  {96, launch_tensor<OP, 3, 4>},  {144, launch_tensor<OP, 3, 6>},
                  {168, launch_tensor<OP, 3, 7>}, {192, launch_tensor<OP, 3, 8>},
                  {256, launch_tensor<OP, 4, 8>}};
  for (auto &v : versions)
    if (k.h <= v.units) return v.run(stream, op, w, k);
  return cudaErrorNotSupported;
}

#define FOR_TYPE(E)                                                                                          \
  template int chain_tensor(cudaStream_t, lstm_op<E>, const E *, const chain_t &);                           \
  template int chain_tensor(cudaStream_t, gru_op<E>, const E *, const chain_t &);                            \
  template int chain_tensor(cudaStream_t, lstm_dx_op<E>, const E *, const chain_t &);                        \
  template int chain_tensor(cudaStream_t, gru_dx_op<E>, const E *, const chain_t &);
FOR_TYPE(bf16_t)
FOR_TYPE(f16_t)
