// Recurrent chains (graph/ops/recurrent.c). Samples are independent, so a cluster of blocks takes a few of them through
// all positions in one launch: each block keeps the weights of its share of the units in registers, and the blocks
// exchange what the next position needs through each other's shared memory, with one barrier a position. Wider layers,
// and GPUs without clusters, take a launch for each position.
#include "device/cuda/block.cuh"
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

struct chain_t {
  int64_t n, t, h;
  bool back;
  // The s-th position of the chain's order, as a row of (n t); -1: there is none.
  __device__ int64_t row(int64_t sample, int64_t s) const {
    return s < 0 || s >= t ? -1 : sample * t + (back ? t - 1 - s : s);
  }
};

__device__ static float sigmoid_of(float x) {
  return 1 / (1 + expf(-x));
}

// ---- one unit at one position ----
// load: what the step needs from memory. step: writes what the op keeps. `sum`: products with w_hh; `before`: the unit's
// output one position before. `state` goes along the chain. In the gradients d is what w_hh's rows are multiplied with.

struct lstm_op {
  static constexpr int GATES = 4;
  const float *x;
  float *y, *c, *gates;
  struct in_t {
    float x[GATES];
  };
  __device__ in_t load(int64_t row, int64_t h, int64_t e) const {
    in_t v;
#pragma unroll
    for (int g = 0; g < GATES; g++)
      v.x[g] = x[(row * GATES + g) * h + e];
    return v;
  }
  __device__ float state_at(int64_t row, int64_t h, int64_t e) const {
    return c[row * h + e];
  }
  __device__ float step(int64_t row, int64_t h, int64_t e, const in_t &v, const float *sum, float,
                        float *state) const {
    float a[GATES];
#pragma unroll
    for (int g = 0; g < GATES; g++) {
      a[g] = v.x[g] + sum[g];
      a[g] = g == 2 ? tanhf(a[g]) : sigmoid_of(a[g]);
      gates[(row * GATES + g) * h + e] = a[g];
    }
    *state = a[1] * *state + a[0] * a[2];
    float out = a[3] * tanhf(*state);
    c[row * h + e] = *state;
    y[row * h + e] = out;
    return out;
  }
};

struct gru_op {
  static constexpr int GATES = 3;
  const float *x, *b;
  float *y, *gates, *m;
  struct in_t {
    float x[GATES], b;
  };
  __device__ in_t load(int64_t row, int64_t h, int64_t e) const {
    in_t v;
#pragma unroll
    for (int g = 0; g < GATES; g++)
      v.x[g] = x[(row * GATES + g) * h + e];
    v.b = b[e];
    return v;
  }
  __device__ float state_at(int64_t, int64_t, int64_t) const {
    return 0;
  }
  __device__ float step(int64_t row, int64_t h, int64_t e, const in_t &v, const float *sum, float before,
                        float *) const {
    float reset = sigmoid_of(v.x[0] + sum[0]), update = sigmoid_of(v.x[1] + sum[1]), inner = sum[2] + v.b;
    float fresh = tanhf(v.x[2] + reset * inner), out = (1 - update) * fresh + update * before;
    float *to = gates + row * GATES * h + e;
    to[0] = reset;
    to[h] = update;
    to[2 * h] = fresh;
    m[row * h + e] = inner;
    y[row * h + e] = out;
    return out;
  }
};

struct lstm_dx_op {
  static constexpr int GATES = 4;
  const float *dy, *c, *gates;
  float *dx;
  struct in_t {
    float dy, c, before, gate[GATES];
  };
  __device__ in_t load(int64_t row, int64_t before, int64_t h, int64_t e) const {
    in_t v = {dy[row * h + e], c[row * h + e], before < 0 ? 0 : c[before * h + e], {}};
#pragma unroll
    for (int g = 0; g < GATES; g++)
      v.gate[g] = gates[(row * GATES + g) * h + e];
    return v;
  }
  __device__ void step(int64_t row, int64_t h, int64_t e, const in_t &v, float dh, float *state,
                       float *d) const {
    float i = v.gate[0], f = v.gate[1], g = v.gate[2], o = v.gate[3], q = tanhf(v.c), up = v.dy + dh;
    float dc = *state + up * o * (1 - q * q);
    d[0] = dc * g * i * (1 - i);
    d[1] = dc * v.before * f * (1 - f);
    d[2] = dc * i * (1 - g * g);
    d[3] = up * q * o * (1 - o);
#pragma unroll
    for (int k = 0; k < GATES; k++)
      dx[(row * GATES + k) * h + e] = d[k];
    *state = dc * f;
  }
  __device__ const float *factors() const {
    return dx;
  }
};

struct gru_dx_op {
  static constexpr int GATES = 3;
  const float *dy, *y, *gates, *m;
  float *dx, *dhidden;
  struct in_t {
    float dy, before, m, gate[GATES];
  };
  __device__ in_t load(int64_t row, int64_t before, int64_t h, int64_t e) const {
    in_t v = {dy[row * h + e], before < 0 ? 0 : y[before * h + e], m[row * h + e], {}};
#pragma unroll
    for (int g = 0; g < GATES; g++)
      v.gate[g] = gates[(row * GATES + g) * h + e];
    return v;
  }
  __device__ void step(int64_t row, int64_t h, int64_t e, const in_t &v, float dh, float *state,
                       float *d) const {
    float reset = v.gate[0], update = v.gate[1], fresh = v.gate[2], up = v.dy + dh + *state;
    float inner = up * (1 - update) * (1 - fresh * fresh);
    d[0] = inner * v.m * reset * (1 - reset);
    d[1] = up * (v.before - fresh) * update * (1 - update);
    d[2] = inner * reset;
    float *a = dx + row * GATES * h + e, *b = dhidden + row * GATES * h + e;
    a[0] = b[0] = d[0];
    a[h] = b[h] = d[1];
    a[2 * h] = inner;
    b[2 * h] = d[2];
    *state = up * update;
  }
  __device__ const float *factors() const {
    return dhidden;
  }
};

// ---- a cluster takes S samples through all positions ----
// A thread has K weights of one column in registers. Unused ones, and what they are multiplied with, are 0.

enum { CLUSTER = 8, THREADS_MAX = 512 };

// How the work of a cluster is cut: units of a block; columns of a block's product, rounded up to warps; slices of its
// depth, a thread for each column of each.
struct cut_t {
  int units, wide, slices;
};

template <int S> __device__ static void multiply_add(float weight, const float *from, float *sum) {
#pragma unroll
  for (int s = 0; s < S; s += 4) {
    float4 v = *(const float4 *)(from + s);
    sum[s] += weight * v.x;
    sum[s + 1] += weight * v.y;
    sum[s + 2] += weight * v.z;
    sum[s + 3] += weight * v.w;
  }
}

template <class OP, int K, int S>
__global__ void __launch_bounds__(THREADS_MAX) chain_kernel(OP op, const float *w, chain_t k, cut_t cut) {
#if __CUDA_ARCH__ >= 900
  constexpr int G = OP::GATES;
  extern __shared__ float4 shared[];
  cg::cluster_group cluster = cg::this_cluster();
  int h = (int)k.h, depth = K * cut.slices, first = (int)cluster.block_rank() * cut.units;
  float *outputs = (float *)shared;      // two positions in turn, (depth, S): of all units
  float *part = outputs + 2 * depth * S; // (slices, S, wide)
  int column = threadIdx.x % cut.wide, slice = threadIdx.x / cut.wide;
  float weight[K];
#pragma unroll
  for (int i = 0; i < K; i++) {
    int unit = first + column % cut.units, from = slice * K + i;
    bool real = column < G * cut.units && unit < h && from < h;
    weight[i] = real ? w[((int64_t)(column / cut.units) * h + unit) * h + from] : 0;
  }
  for (int i = threadIdx.x; i < 2 * depth * S; i += blockDim.x)
    outputs[i] = 0;
  // Units and samples of a block have a thread each.
  int u = threadIdx.x % cut.units, s = threadIdx.x / cut.units, unit = first + u;
  int64_t sample = (int64_t)(blockIdx.x / CLUSTER) * S + s;
  bool real = s < S && unit < h && sample < k.n;
  float state = 0;
  cluster.sync();
  for (int64_t step = 0; step < k.t; step++) {
    float *now = outputs + (step & 1) * depth * S, *next = outputs + (~step & 1) * depth * S;
    typename OP::in_t in = {};
    if (real) in = op.load(k.row(sample, step), h, unit);
    if (slice < cut.slices) {
      float sum[S] = {};
#pragma unroll
      for (int i = 0; i < K; i++)
        multiply_add<S>(weight[i], now + (slice * K + i) * S, sum);
#pragma unroll
      for (int i = 0; i < S; i++)
        part[(slice * S + i) * cut.wide + column] = sum[i];
    }
    __syncthreads();
    if (real) {
      float sum[G] = {};
      for (int i = 0; i < cut.slices; i++)
#pragma unroll
        for (int g = 0; g < G; g++)
          sum[g] += part[(i * S + s) * cut.wide + g * cut.units + u];
      float out = op.step(k.row(sample, step), h, unit, in, sum, now[unit * S + s], &state);
#pragma unroll
      for (int r = 0; r < CLUSTER; r++)
        *cluster.map_shared_rank(next + unit * S + s, r) = out;
    }
    cluster.sync();
  }
#else
  (void)op, (void)w, (void)k, (void)cut;
#endif
}

// A block multiplies the gradients of its own units' gates; the products are parts of all units' sums, and go to the
// block that has the unit.
template <class OP, int K, int S>
__global__ void __launch_bounds__(THREADS_MAX) chain_dx_kernel(OP op, const float *w, chain_t k, cut_t cut) {
#if __CUDA_ARCH__ >= 900
  constexpr int G = OP::GATES;
  extern __shared__ float4 shared[];
  cg::cluster_group cluster = cg::this_cluster();
  int h = (int)k.h, depth = K * cut.slices, rank = (int)cluster.block_rank(), first = rank * cut.units;
  int parts = CLUSTER * cut.slices;
  float *gates = (float *)shared;     // (depth, S): d of this block's units
  float *arrived = gates + depth * S; // two positions in turn, (parts, units, S)
  int column = threadIdx.x % cut.wide, slice = threadIdx.x / cut.wide;
  float weight[K];
#pragma unroll
  for (int i = 0; i < K; i++) {
    int from = slice * K + i, unit = first + from % cut.units;
    bool real = column < h && from < G * cut.units && unit < h;
    weight[i] = real ? w[((int64_t)(from / cut.units) * h + unit) * h + column] : 0;
  }
  for (int i = threadIdx.x; i < depth * S; i += blockDim.x)
    gates[i] = 0;
  int u = threadIdx.x % cut.units, s = threadIdx.x / cut.units, unit = first + u;
  int64_t sample = (int64_t)(blockIdx.x / CLUSTER) * S + s;
  bool real = s < S && unit < h && sample < k.n;
  float state = 0;
  typename OP::in_t in = {};
  if (real) in = op.load(k.row(sample, k.t - 1), k.row(sample, k.t - 2), h, unit);
  cluster.sync();
  for (int64_t step = k.t - 1; step >= 0; step--) {
    float *now = arrived + (step & 1) * parts * cut.units * S;
    float *next = arrived + (~step & 1) * parts * cut.units * S;
    if (real) {
      float dh = 0, d[G];
      for (int p = 0; step < k.t - 1 && p < parts; p++)
        dh += now[(p * cut.units + u) * S + s];
      op.step(k.row(sample, step), h, unit, in, dh, &state, d);
#pragma unroll
      for (int g = 0; g < G; g++)
        gates[(g * cut.units + u) * S + s] = d[g];
      if (step > 0) in = op.load(k.row(sample, step - 1), k.row(sample, step - 2), h, unit);
    }
    __syncthreads();
    if (slice < cut.slices && column < h) {
      float sum[S] = {};
#pragma unroll
      for (int i = 0; i < K; i++)
        multiply_add<S>(weight[i], gates + (slice * K + i) * S, sum);
      float *to = next + ((rank * cut.slices + slice) * cut.units + column % cut.units) * S;
      float4 *there = (float4 *)cluster.map_shared_rank(to, column / cut.units);
#pragma unroll
      for (int i = 0; i < S / 4; i++)
        there[i] = make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
    }
    cluster.sync();
  }
#else
  (void)op, (void)w, (void)k, (void)cut;
#endif
}

// False: it does not fit.
static bool cut_for(int64_t columns, int64_t depth, int64_t units, int weights, int samples, cut_t *cut,
                    unsigned *threads) {
  int64_t wide = (columns + WARP - 1) / WARP * WARP, slices = (depth + weights - 1) / weights;
  int64_t each = (units * samples + WARP - 1) / WARP * WARP,
          most = wide * slices > each ? wide * slices : each;
  if (most > THREADS_MAX) return false;
  *cut = {(int)units, (int)wide, (int)slices};
  *threads = (unsigned)most;
  return true;
}

static bool has_clusters() {
  int device = 0, value = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&value, cudaDevAttrClusterLaunch, device) == cudaSuccess && value != 0;
}

template <class OP>
static int launch_cluster(cudaStream_t stream, void (*kernel)(OP, const float *, chain_t, cut_t), OP op,
                          const float *w, const chain_t &k, const cut_t &cut, unsigned threads, int samples,
                          size_t bytes) {
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = CLUSTER;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3((unsigned)((k.n + samples - 1) / samples * CLUSTER));
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, kernel, op, w, k, cut);
}

// Few samples: many clusters of 4; many samples: as many in a cluster as registers allow, so that all run at once.
enum { FEW = 4, MANY = 16, FEW_SAMPLES = 64 };

// cudaErrorNotSupported: it does not fit.
template <class OP, int K, int S>
static int cluster_as(cudaStream_t stream, OP op, const float *w, chain_t k) {
  cut_t cut;
  unsigned threads;
  int64_t units = (k.h + CLUSTER - 1) / CLUSTER;
  if (!cut_for(OP::GATES * units, k.h, units, K, S, &cut, &threads)) return cudaErrorNotSupported;
  size_t floats = 2 * (size_t)(K * cut.slices * S) + (size_t)(cut.slices * S * cut.wide);
  return launch_cluster(stream, chain_kernel<OP, K, S>, op, w, k, cut, threads, S, floats * sizeof(float));
}
template <class OP, int K, int S>
static int cluster_dx_as(cudaStream_t stream, OP op, const float *w, chain_t k) {
  cut_t cut;
  unsigned threads;
  int64_t units = (k.h + CLUSTER - 1) / CLUSTER;
  if (!cut_for(k.h, OP::GATES * units, units, K, S, &cut, &threads)) return cudaErrorNotSupported;
  size_t floats = (size_t)(K * cut.slices * S) + 2 * (size_t)(CLUSTER * cut.slices * cut.units * S);
  return launch_cluster(stream, chain_dx_kernel<OP, K, S>, op, w, k, cut, threads, S, floats * sizeof(float));
}

// ---- a launch for each position ----
// A block has a square of samples and units; products go through shared memory DEPTH deep.

enum { SIDE = 16, DEPTH = 32 };

template <class OP> __global__ void position_kernel(OP op, const float *w, chain_t k, int64_t step) {
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
      hs[r][i % DEPTH] = real ? op.y[from * k.h + c] : 0;
      int64_t e = (int64_t)blockIdx.x * SIDE + r;
#pragma unroll
      for (int g = 0; g < G; g++)
        ws[g][r][i % DEPTH] = e < k.h && c < k.h ? w[(g * k.h + e) * k.h + c] : 0;
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
  float output = before < 0 ? 0 : op.y[before * k.h + unit];
  op.step(row, k.h, unit, op.load(row, k.h, unit), sum, output, &state);
}

// state (n, h): what goes along the chain.
template <class OP>
__global__ void position_dx_kernel(OP op, const float *w, float *state, chain_t k, int64_t step) {
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
      ds[i / DEPTH][i % DEPTH] = r < k.n && c < G * k.h ? op.factors()[k.row(r, step + 1) * G * k.h + c] : 0;
      int64_t e = (int64_t)blockIdx.x * SIDE + i % SIDE, from = k0 + i / SIDE;
      ws[i / SIDE][i % SIDE] = e < k.h && from < G * k.h ? w[from * k.h + e] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < DEPTH; c++)
      dh += ds[ty][c] * ws[c][tx];
  }
  if (unit >= k.h || sample >= k.n) return;
  int64_t row = k.row(sample, step);
  float along = last ? 0 : state[sample * k.h + unit], d[G];
  op.step(row, k.h, unit, op.load(row, k.row(sample, step - 1), k.h, unit), dh, &along, d);
  state[sample * k.h + unit] = along;
}

static dim3 squares(const chain_t &k) {
  return dim3((unsigned)((k.h + SIDE - 1) / SIDE), (unsigned)((k.n + SIDE - 1) / SIDE));
}

// ---- launches ----

static chain_t chain_of(args_t args, const ls_tensor_t &y) {
  return {y.shape.dim[0], y.shape.dim[1], y.shape.dim[2], args->attrs->i[0] == 1};
}

template <class OP>
static ls_status_t run(ls_stream_t *stream, OP op, const ls_tensor_t &w, const chain_t &k, const char *name) {
  typedef int (*version_fn)(cudaStream_t, OP, const float *, chain_t);
  static const version_fn versions[][2] = {{cluster_as<OP, 32, FEW>, cluster_as<OP, 32, MANY>},
                                           {cluster_as<OP, 48, FEW>, cluster_as<OP, 48, MANY>},
                                           {cluster_as<OP, 64, FEW>, cluster_as<OP, 64, MANY>}};
  cudaStream_t handle = ls_kernel_stream(stream);
  const float *weights = (const float *)w.data;
  int error = cudaErrorNotSupported;
  for (int i = 0; i < 3 && error == cudaErrorNotSupported && has_clusters(); i++)
    error = versions[i][k.n > FEW_SAMPLES](handle, op, weights, k);
  if (error != cudaErrorNotSupported) return ls_kernel_status(stream, error, name);
  for (int64_t s = 0; s < k.t; s++)
    position_kernel<<<squares(k), BLOCK, 0, handle>>>(op, weights, k, s);
  return launched(stream, name);
}

template <class OP>
static ls_status_t run_dx(ls_stream_t *stream, args_t args, OP op, const ls_tensor_t &w, const chain_t &k,
                          const char *name) {
  typedef int (*version_fn)(cudaStream_t, OP, const float *, chain_t);
  static const version_fn versions[][2] = {{cluster_dx_as<OP, 32, FEW>, cluster_dx_as<OP, 32, MANY>},
                                           {cluster_dx_as<OP, 48, FEW>, cluster_dx_as<OP, 48, MANY>},
                                           {cluster_dx_as<OP, 64, FEW>, cluster_dx_as<OP, 64, MANY>}};
  cudaStream_t handle = ls_kernel_stream(stream);
  const float *weights = (const float *)w.data;
  int error = cudaErrorNotSupported;
  for (int i = 0; i < 3 && error == cudaErrorNotSupported && has_clusters(); i++)
    error = versions[i][k.n > FEW_SAMPLES](handle, op, weights, k);
  if (error != cudaErrorNotSupported) return ls_kernel_status(stream, error, name);
  for (int64_t s = k.t - 1; s >= 0; s--)
    position_dx_kernel<<<squares(k), BLOCK, 0, handle>>>(op, weights, (float *)args->scratch, k, s);
  return launched(stream, name);
}

static ls_status_t lstm_chain(ls_stream_t *stream, args_t args) {
  lstm_op op = {in(args, 0), out(args, 0), out(args, 1), out(args, 2)};
  return run(stream, op, args->in[1], chain_of(args, args->out[0]), "lstm_chain");
}
static ls_status_t gru_chain(ls_stream_t *stream, args_t args) {
  gru_op op = {in(args, 0), in(args, 2), out(args, 0), out(args, 1), out(args, 2)};
  return run(stream, op, args->in[1], chain_of(args, args->out[0]), "gru_chain");
}
static ls_status_t lstm_chain_dx(ls_stream_t *stream, args_t args) {
  lstm_dx_op op = {in(args, 0), in(args, 1), in(args, 2), out(args, 0)};
  return run_dx(stream, args, op, args->in[3], chain_of(args, args->in[0]), "lstm_chain_dx");
}
static ls_status_t gru_chain_dx(ls_stream_t *stream, args_t args) {
  gru_dx_op op = {in(args, 0), in(args, 1), in(args, 2), in(args, 3), out(args, 0), out(args, 1)};
  return run_dx(stream, args, op, args->in[4], chain_of(args, args->in[0]), "gru_chain_dx");
}

const ls_kernel_row_t ls_cuda_recurrent_rows[] = {{"lstm_chain", lstm_chain},
                                                  {"lstm_chain_dx", lstm_chain_dx},
                                                  {"gru_chain", gru_chain},
                                                  {"gru_chain_dx", gru_chain_dx},
                                                  {}};
