// Recurrent chains of layers that are wider than what a cluster holds (recurrent.cu): blocks on all multiprocessors take a
// layer through all positions in one launch. A block has up to 24 units, keeps the rows of w_hh that they need in shared
// memory, and takes some of the samples. What a position is multiplied with goes through global memory, that is the L2
// cache, in the order in which lanes want it. Blocks with the same samples meet after each position at a counter. All
// blocks of a launch are resident (a cooperative launch), so everybody whom a block waits for is running.
//
// The bound of a position of an H200 at 1.98 GHz: a meeting takes 1.3 us. Every block reads all outputs of its samples: 64
// samples of an LSTM of 1024 units in bf16 are 128 KB, 8 MB for 64 blocks, 1.7 us at 5 TB/s; gradients four times as much.
// In f32 the products of 32 samples take 4 us at full rate.
// Rows that shared memory has no room for are read from a packed copy in global memory at each position.
// The order of a sample's sums depends on the width of the layer and on how many samples a block takes.
#include "device/cuda/recurrent.cuh"

enum { GRID_THREADS = 256, GRID_WARPS = GRID_THREADS / WARP, PARTS = GRID_WARPS / 2, PASS = 32, ACROSS = 8 };
enum { GROUP_MAX = LS_KERNEL_COUNTER_BYTES / (2 * (int)sizeof(unsigned)) };

// How a layer is spread over blocks. A pass of a position takes PASS samples. Factors are what weights are multiplied with.
struct spread_t {
  int groups;        // of units: blocks that take the same samples
  int batches;       // groups of samples
  int samples;       // that a batch has, of which the last may be short
  int padded;        // samples, a multiple of PASS
  int width;         // units with padding: factors of one gate
  int slices;        // of the factors: of as many as a lane reads for a product
  int resident;      // of them, whose weights are in shared memory
  char *factors;     // (2 positions, batches, factors of one)
  char *weights;     // packed, of slices that are not resident: (blocks, slices, rows of a slice)
  unsigned *counter; // of each batch: blocks that have arrived, and that are done
};

// ---- products ----
// A slice has, of each row, the numbers that one lane (f32: all lanes) multiplies at once. The warps of a block take slices in
// turn. Each is left with sums of a pass, adds them up by halves, and PARTS sums of each stay in `part`: (PARTS, PASS, STRIDE).

template <class E, int ROWS> struct product_t {
  // 16 bits: a slice is 32 factors. Lane l has 8 of them, from 8 (l % 4) on, of sample l / 4 of a tile of 8, and of row l / 4 of a
  // tile of 8: what one product of 16 x 16 by 16 x 8 takes for its factors 2 (l % 4) is the lane's first pair and the third.
  static constexpr int SLICE = 32, TILES = ROWS / ACROSS,
                       WORDS = TILES * WARP;                      // of 16 bytes, of a slice's weights
  static constexpr int STRIDE = TILES % 2 ? ROWS : ROWS + ACROSS; // banks of neighbouring samples differ
  // 16 bytes of a slice: of which row, and from which factor on.
  __device__ static int row_of(int word) { return word / WARP * ACROSS + word % WARP / 4; }
  __device__ static int factor_of(int word) { return word % 4 * 8; }
  static constexpr int FACTORS = 8; // of 16 bytes
  static constexpr size_t STAGE_BYTES = 0;
  // Where the factor of a sample is.
  __device__ static int64_t place(int factor, int sample, int padded) {
    int tile = sample / ACROSS, lane = sample % ACROSS * 4 + factor % SLICE / 8;
    return (((int64_t)(factor / SLICE) * (padded / ACROSS) + tile) * WARP + lane) * 8 + factor % 8;
  }
  template <class WEIGHTS>
  __device__ static void run(const spread_t &g, const E *factors, int first, int live, int used,
                             WEIGHTS weights, float *part, float4 *) {
    constexpr int M = PASS / 16;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, across = g.padded / ACROSS;
    const int of_gate = g.width / SLICE;
    float sum[M][TILES][4] = {};
#pragma unroll(TILES <= 3 ? 4 : 2)
    for (int slice = warp; slice < g.slices; slice += GRID_WARPS) {
      const bool real = slice % of_gate * SLICE + lane % 4 * 8 < used;
      const uint4 *from = (const uint4 *)factors + ((int64_t)slice * across + first / ACROSS) * WARP + lane;
      uint4 a[M][2];
#pragma unroll
      for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++)
          a[m][half] = real && m * 16 < live ? __ldcg(from + (2 * m + half) * WARP) : make_uint4(0, 0, 0, 0);
      const uint4 *w = weights(slice) + lane;
#pragma unroll
      for (int t = 0; t < TILES; t++) {
        const uint4 v = w[t * WARP];
        const uint32_t low[] = {v.x, v.y}, high[] = {v.z, v.w};
#pragma unroll
        for (int m = 0; m < M; m++) {
          const uint32_t first_half[] = {a[m][0].x, a[m][1].x, a[m][0].y, a[m][1].y},
                         second_half[] = {a[m][0].z, a[m][1].z, a[m][0].w, a[m][1].w};
          multiply(sum[m][t], first_half, low, E());
          multiply(sum[m][t], second_half, high, E());
        }
      }
    }
    float *own = part + warp % PARTS * PASS * STRIDE + lane / 4 * STRIDE + lane % 4 * 2;
#pragma unroll
    for (int turn = 0; turn < 2; turn++) { // the upper half of the warps first
      if (warp / PARTS == 1 - turn)
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
          for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
              float2 *to = (float2 *)(own + (m * 16 + half * 8) * STRIDE + t * ACROSS);
              const float2 before = turn ? *to : make_float2(0, 0);
              *to = make_float2(before.x + sum[m][t][2 * half], before.y + sum[m][t][2 * half + 1]);
            }
      __syncthreads();
    }
  }
};

template <int ROWS> struct product_t<float, ROWS> {
  // f32: a slice is 4 factors. A lane has every fourth row and every eighth sample of a pass, and multiplies 4 factors of each.
  // A warp copies chunks of its slices, factors and weights that are not resident, while it multiplies the one before.
  static constexpr int SLICE = 4, WORDS = ROWS, OWN_ROWS = ROWS / 4, CHUNK = 256;
  static constexpr int STRIDE = ROWS / ACROSS % 2 ? ROWS : ROWS + ACROSS;
  static constexpr size_t STAGE_BYTES = sizeof(float4) * GRID_WARPS * 2 * CHUNK;
  __device__ static int row_of(int word) { return word; }
  __device__ static int factor_of(int) { return 0; }
  static constexpr int FACTORS = 4;
  __device__ static int64_t place(int factor, int sample, int padded) {
    return ((int64_t)(factor / SLICE) * padded + sample) * SLICE + factor % SLICE;
  }
  // SHIFT: as many samples as 2^SHIFT.
  template <int SHIFT, class WEIGHTS>
  __device__ static void run_as(const spread_t &g, const float *factors, int first, WEIGHTS weights,
                                float *part, float4 *stages) {
    constexpr int shift = SHIFT, samples = 1 << shift, OWN_SAMPLES = samples / 8;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const int slices = (g.slices - warp + GRID_WARPS - 1) / GRID_WARPS; // of this warp, resident ones first
    const int resident = min(slices, max(0, (g.resident - warp + GRID_WARPS - 1) / GRID_WARPS));
    float4 *stage = stages + warp * 2 * CHUNK;
    float sum[OWN_ROWS][OWN_SAMPLES] = {};
    auto slice_of = [&](int i) { return warp + i * GRID_WARPS; };
    auto count_of = [&](int i) {
      return i < resident ? min(CHUNK >> shift, resident - i) : min(CHUNK / (samples + ROWS), slices - i);
    };
    auto copy = [&](int i, float4 *to) {
      const int count = i < slices ? count_of(i) : 0;
      for (int u = lane; u < count << shift; u += WARP)
        copy_16(to + u,
                (const float4 *)factors + (int64_t)slice_of(i + (u >> shift)) * g.padded + first +
                    (u & (samples - 1)),
                true);
      if (i >= resident)
        for (int d = 0; d < count; d++)
          for (int r = lane; r < ROWS; r += WARP)
            copy_16(to + (count << shift) + d * ROWS + r, weights(slice_of(i + d)) + r, true);
      copies_end();
    };
    copy(0, stage);
    for (int i = 0, turn = 0; i < slices; turn ^= 1) {
      const int count = count_of(i);
      const float4 *now = stage + turn * CHUNK;
      copy(i + count, stage + (1 - turn) * CHUNK);
      copies_wait<1>();
      __syncwarp();
#pragma unroll 2
      for (int d = 0; d < count; d++) {
        const float4 *w =
            (i < resident ? (const float4 *)weights(slice_of(i + d)) : now + (count << shift) + d * ROWS) +
            lane / 8;
        float4 x[OWN_SAMPLES];
#pragma unroll
        for (int s = 0; s < OWN_SAMPLES; s++)
          x[s] = now[(d << shift) + s * 8 + lane % 8];
#pragma unroll
        for (int r = 0; r < OWN_ROWS; r++) {
          const float4 v = w[r * 4];
#pragma unroll
          for (int s = 0; s < OWN_SAMPLES; s++) {
            sum[r][s] += x[s].x * v.x;
            sum[r][s] += x[s].y * v.y;
            sum[r][s] += x[s].z * v.z;
            sum[r][s] += x[s].w * v.w;
          }
        }
      }
      __syncwarp();
      i += count;
    }
    float *own = part + (warp % PARTS * PASS + lane % 8) * STRIDE + lane / 8;
#pragma unroll
    for (int turn = 0; turn < 2; turn++) {
      if (warp / PARTS == 1 - turn)
#pragma unroll
        for (int s = 0; s < OWN_SAMPLES; s++)
#pragma unroll
          for (int r = 0; r < OWN_ROWS; r++) {
            float *to = own + s * 8 * STRIDE + r * 4;
            *to = (turn ? *to : 0) + sum[r][s];
          }
      __syncthreads();
    }
  }
  template <class WEIGHTS>
  __device__ static void run(const spread_t &g, const float *factors, int first, int live, int,
                             WEIGHTS weights, float *part, float4 *stages) {
    if (live > 16)
      run_as<5>(g, factors, first, weights, part, stages);
    else if (live > 8)
      run_as<4>(g, factors, first, weights, part, stages);
    else
      run_as<3>(g, factors, first, weights, part, stages);
  }
};

// ---- a block ----

// Arrives after all writes of the block; waits until the count is reached. By all threads.
__device__ static void arrive(unsigned *count) {
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
}
__device__ static void wait_for(const unsigned *count, unsigned arrivals) {
  if (threadIdx.x == 0) {
    unsigned seen;
    do
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(count) : "memory");
    while (seen < arrivals);
  }
  __syncthreads();
}

template <class OP, int UNITS> struct grid_plan {
  typedef typename OP::E E;
  static constexpr int ROWS = OP::GRADIENT ? UNITS : OP::GATES * UNITS;
  static constexpr int PARTS_OF_FACTORS = OP::GRADIENT ? OP::GATES : 1; // one for each gate
  static constexpr int ITEMS = UNITS * PASS / GRID_THREADS; // units of samples that a thread has in a pass
  typedef product_t<E, ROWS> P;
  static constexpr size_t PART_BYTES = sizeof(float) * PARTS * PASS * P::STRIDE + P::STAGE_BYTES;
  static constexpr size_t SLICE_BYTES = 16 * P::WORDS;
  static size_t state_bytes(int padded) { return 2 * sizeof(float) * UNITS * (size_t)padded; }
};

template <class OP, int UNITS>
__global__ void __launch_bounds__(GRID_THREADS, 1)
    grid_kernel(OP op, const typename OP::E *w, chain_t k, spread_t g) {
#if __CUDA_ARCH__ >= 800
  typedef grid_plan<OP, UNITS> plan;
  typedef typename plan::P P;
  typedef typename OP::E E;
  extern __shared__ float4 shared[];
  float4 *stages = shared;
  float *part = (float *)(stages + P::STAGE_BYTES / sizeof *stages);
  float *states = part + PARTS * PASS * P::STRIDE; // (padded, UNITS)
  float *outputs = states + UNITS * g.padded;      // likewise, forward
  uint4 *held = (uint4 *)(outputs + UNITS * g.padded);
  const int h = k.h, batch = blockIdx.x / g.groups, first_unit = blockIdx.x % g.groups * UNITS;
  const int64_t first_sample = (int64_t)batch * g.samples;
  const int used = g.groups * UNITS; // factors of a gate that somebody writes
  const int live = min(g.samples, k.left(first_sample));
  uint4 *streamed = (uint4 *)g.weights + (int64_t)blockIdx.x * (g.slices - g.resident) * P::WORDS;
  auto weights = [&](int slice) {
    return slice < g.resident ? held + slice * P::WORDS : streamed + (slice - g.resident) * P::WORDS;
  };
  for (int64_t i = threadIdx.x; i < (int64_t)g.slices * P::WORDS; i += GRID_THREADS) {
    const int slice = (int)(i / P::WORDS), word = (int)(i % P::WORDS), row = P::row_of(word);
    const int factor = slice * P::SLICE + P::factor_of(word);
    union {
      E e[P::FACTORS];
      uint4 all;
    } v;
    const int unit = first_unit + row % UNITS;
#pragma unroll
    for (int f = 0; f < P::FACTORS; f++) {
      const int from = factor + f, gate = OP::GRADIENT ? from / g.width : row / UNITS, other = from % g.width;
      const bool real = row < plan::ROWS && unit < h && other < h;
      const int64_t at =
          OP::GRADIENT ? ((int64_t)gate * h + other) * h + unit : ((int64_t)gate * h + unit) * h + other;
      v.e[f] = real ? w[at] : rounded<E>(0);
    }
    weights(slice)[word] = v.all;
  }
  for (int i = threadIdx.x; i < 2 * UNITS * g.padded; i += GRID_THREADS)
    states[i] = 0;
  __threadfence(); // copies read what was packed past the first cache
  __syncthreads();

  unsigned *arrived = g.counter + 2 * batch;
  const int64_t position_factors = (int64_t)g.slices * P::SLICE * g.padded;
  for (int s = 0; s < k.t; s++) {
    const int step = OP::GRADIENT ? k.t - 1 - s : s, at = k.position(step), before = k.position(step - 1);
    E *to = (E *)g.factors + ((s & 1) * g.batches + batch) * position_factors;
    const E *from = (const E *)g.factors + ((~s & 1) * g.batches + batch) * position_factors;
    for (int first = 0; first < g.padded; first += PASS) {
      typename OP::in_t in[plan::ITEMS] = {};
      typename OP::kept_t kept[plan::ITEMS];
      OP mine[plan::ITEMS];
      bool real[plan::ITEMS];
#pragma unroll
      for (int i = 0; i < plan::ITEMS; i++) {
        const int item = i * GRID_THREADS + threadIdx.x, unit = first_unit + item % UNITS,
                  sample = first + item / UNITS;
        real[i] = sample < live && unit < h;
        mine[i] = op.from((first_sample + (real[i] ? sample : 0)) * k.t, h);
        if (real[i]) {
          if constexpr (OP::GRADIENT)
            mine[i].load(&in[i], at, before, h, unit, read_t());
          else
            in[i] = mine[i].load(at, h, unit);
        }
      }
      if (s > 0 && first == 0) wait_for(arrived, (unsigned)(g.groups * s));
      if (s > 0) P::run(g, from, first, live - first, used, weights, part, stages);
#pragma unroll
      for (int i = 0; i < plan::ITEMS; i++) {
        const int item = i * GRID_THREADS + threadIdx.x, e = item % UNITS, sample = item / UNITS;
        float sum[plan::ROWS / UNITS] = {};
        if (s > 0)
#pragma unroll
          for (int r = 0; r < plan::ROWS / UNITS; r++)
#pragma unroll
            for (int p = 0; p < PARTS; p++)
              sum[r] += part[(p * PASS + sample) * P::STRIDE + r * UNITS + e];
        const int state_at = (first + sample) * UNITS + e;
        float state = states[state_at];
        auto write = [&](int gate, float value) {
          to[P::place(gate * g.width + first_unit + e, first + sample, g.padded)] =
              rounded<E>(real[i] ? value : 0);
        };
        if constexpr (OP::GRADIENT) {
          kept[i] = mine[i].step(mine[i].prepare(in[i]), sum[0], &state);
#pragma unroll
          for (int gate = 0; gate < OP::GATES; gate++)
            write(gate, kept[i].d[gate]);
        } else {
          float gate[SLOTS], output = outputs[state_at];
#pragma unroll
          for (int n = 0; n < SLOTS; n++)
            gate[n] = mine[i].gate(in[i].slot(n) + (n < OP::GATES ? sum[n < OP::GATES ? n : 0] : 0), n);
          kept[i] = mine[i].step(gate, &output, &state);
          outputs[state_at] = output;
          write(0, output);
        }
        states[state_at] = state;
      }
      if (first + PASS >= g.padded && s + 1 < k.t) arrive(arrived); // what is kept may be written later
#pragma unroll
      for (int i = 0; i < plan::ITEMS; i++) {
        const int unit = first_unit + (i * GRID_THREADS + threadIdx.x) % UNITS;
        if (!real[i]) continue;
        if constexpr (OP::GRADIENT)
          mine[i].keep(at, h, unit, kept[i]);
        else
#pragma unroll
          for (int n = 0; n < SLOTS; n++)
            mine[i].keep_slot(at, h, unit, n, kept[i]);
      }
      if (first + PASS < g.padded) __syncthreads(); // the next pass writes to `part`
    }
  }
  // Nobody waits any more when the last one is done: the counters are left as they were found.
  if (threadIdx.x == 0 && atomicAdd(arrived + 1, 1) + 1 == g.groups) arrived[0] = arrived[1] = 0;
#else
  (void)op, (void)w, (void)k, (void)g;
#endif
}

// ---- launches ----

// Cycles of a position that the spread leads to, as in the bound above; INFINITY: it does not fit.
struct room_t {
  int blocks;              // that run at once, one on each multiprocessor
  size_t shared;           // bytes of a block
  size_t factors, weights; // bytes of global memory
};

template <class OP, int UNITS> static float spread_of(const chain_t &k, const room_t &room, spread_t *g) {
  typedef grid_plan<OP, UNITS> plan;
  typedef typename plan::P P;
  constexpr int whole = P::SLICE < ACROSS ? ACROSS : P::SLICE;
  g->groups = (k.h + UNITS - 1) / UNITS;
  if (g->groups > room.blocks) return INFINITY;
  int64_t batches = room.blocks / g->groups;
  if (batches > GROUP_MAX) batches = GROUP_MAX;
  g->samples = (int)((k.n + batches - 1) / batches);
  g->batches = (int)((k.n + g->samples - 1) / g->samples);
  g->padded = (g->samples + PASS - 1) / PASS * PASS;
  g->width = (g->groups * UNITS + whole - 1) / whole * whole;
  g->slices = plan::PARTS_OF_FACTORS * g->width / P::SLICE;
  const size_t other = plan::PART_BYTES + plan::state_bytes(g->padded);
  if (other > room.shared) return INFINITY;
  size_t fitting = (room.shared - other) / plan::SLICE_BYTES;
  g->resident = fitting < (size_t)g->slices ? (int)fitting : g->slices;
  const size_t factors = sizeof(typename OP::E) * P::SLICE * (size_t)g->slices * (size_t)g->padded;
  const size_t streamed = plan::SLICE_BYTES * (size_t)(g->slices - g->resident);
  if (2 * (size_t)g->batches * factors > room.factors) return INFINITY;
  if ((size_t)(g->groups * g->batches) * streamed > room.weights) return INFINITY;
  const float l2 = 20, passes = (float)(g->padded / PASS);
  const float tile =
      (float)(g->samples < 16 ? 16 : g->samples) / (float)g->padded; // of the factors that are read
  const float eighths = g->samples > 16 ? 4 : g->samples > 8 ? 2 : 1;
  const float multiplied = sizeof(typename OP::E) == 2 ? (float)(plan::SLICE_BYTES * (size_t)g->slices) / 128
                                                       : 0.33f * (float)(g->slices * plan::ROWS) * eighths;
  return (tile * (float)factors + passes * (float)streamed) / l2 + passes * (multiplied + 400);
}

template <class OP, int UNITS>
static int launch_grid(cudaStream_t stream, OP op, const typename OP::E *w, const chain_t &k, spread_t g) {
  typedef grid_plan<OP, UNITS> plan;
  const size_t bytes =
      plan::PART_BYTES + plan::state_bytes(g.padded) + plan::SLICE_BYTES * (size_t)g.resident;
  const auto kernel = grid_kernel<OP, UNITS>;
  int error = kernel_ready(kernel, 80, bytes);
  if (error) return error;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)(g.groups * g.batches));
  config.blockDim = dim3(GRID_THREADS);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, op, w, k, g);
}

static int room_of(ls_stream_t *stream, size_t weights, room_t *room) {
  int device, most = 0, together = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (!error) error = cudaDeviceGetAttribute(&room->blocks, cudaDevAttrMultiProcessorCount, device);
  if (!error) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (!error) error = cudaDeviceGetAttribute(&together, cudaDevAttrCooperativeLaunch, device);
  if (error) return error;
  room->shared = (size_t)most;
  room->weights = weights;
  return together && ls_kernel_workspace(stream, &room->factors) ? 0 : (int)cudaErrorNotSupported;
}

template <class OP>
int chain_grid(ls_stream_t *stream, args_t args, OP op, const typename OP::E *w, const chain_t &k) {
  room_t room = {};
  const int error = room_of(stream, args->scratch_bytes, &room);
  if (error) return error;
  spread_t g[3] = {};
  const float cycles[] = {spread_of<OP, 8>(k, room, &g[0]), spread_of<OP, 16>(k, room, &g[1]),
                          spread_of<OP, 24>(k, room, &g[2])};
  int best = 0;
  for (int i = 1; i < 3; i++)
    if (cycles[i] < cycles[best]) best = i;
  if (cycles[best] == INFINITY) return cudaErrorNotSupported;
  size_t size;
  g[best].factors = (char *)ls_kernel_workspace(stream, &size);
  g[best].weights = (char *)args->scratch;
  g[best].counter = (unsigned *)ls_kernel_scratch(stream);
  const cudaStream_t handle = ls_kernel_stream(stream);
  return best == 0   ? launch_grid<OP, 8>(handle, op, w, k, g[0])
         : best == 1 ? launch_grid<OP, 16>(handle, op, w, k, g[1])
                     : launch_grid<OP, 24>(handle, op, w, k, g[2]);
}

#define FOR_TYPE(E)                                                                                          \
  template int chain_grid(ls_stream_t *, args_t, lstm_op<E>, const E *, const chain_t &);                    \
  template int chain_grid(ls_stream_t *, args_t, gru_op<E>, const E *, const chain_t &);                     \
  template int chain_grid(ls_stream_t *, args_t, lstm_dx_op<E>, const E *, const chain_t &);                 \
  template int chain_grid(ls_stream_t *, args_t, gru_dx_op<E>, const E *, const chain_t &);
FOR_TYPE(float)
FOR_TYPE(bf16_t)
FOR_TYPE(f16_t)
