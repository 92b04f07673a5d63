// Sums over rows, in one order, of what a term makes of them.
#pragma once

#include "device/cuda/block.cuh"

// A thread has N neighbouring columns and one part of the rows, a block ACROSS threads side by side. The block's threads of a
// column are added up in order. With more than one part these go to scratch as f32 (part, term, column), and the last block of
// the same columns adds them up; where the columns are too many to count their blocks, a second kernel does.

constexpr int64_t PART_ROWS = 128, PART_MAX = 64, PART_BLOCKS = 800; // fill any GPU of today
constexpr int64_t COUNTERS = LS_KERNEL_COUNTER_BYTES / (int64_t)sizeof(unsigned);

template <class T> struct plain_term {
  static constexpr int COUNT = 1;
  typedef T type;
  const T *x;
  template <int N> __device__ void add(int64_t i, int64_t, float (*sum)[N]) const {
    some<T, N> v = load<N>(x + i);
#pragma unroll
    for (int e = 0; e < N; e++)
      sum[0][e] += v[e];
  }
  bool aligned() const {
    return aligned16(x);
  }
};

struct outputs {
  float *first, *second;
  __device__ float *to(int64_t k) const { return k == 0 ? first : second; }
};

template <int N, int ACROSS, class F>
__global__ void __launch_bounds__(BLOCK)
    column_sum_kernel(F terms, outputs out, float *partial, unsigned *arrived, int64_t rows, int64_t width) {
  constexpr int STRIPES = BLOCK / ACROSS, SIDE = ACROSS * N, ITEMS = F::COUNT * SIDE, TEAMS = BLOCK / ITEMS;
  static_assert(ITEMS <= BLOCK && TEAMS <= WARPS, "a thread has a sum of the block's columns");
  __shared__ float part[WARPS][ITEMS];
  int x = threadIdx.x % ACROSS, warp = threadIdx.x / WARP;
  int64_t first = (int64_t)blockIdx.x * SIDE, c = first + x * N;
  int64_t chunk = (rows + gridDim.y - 1) / gridDim.y;
  int64_t begin = blockIdx.y * chunk, end = begin + chunk < rows ? begin + chunk : rows;
  float sum[F::COUNT][N] = {};
  if (c < width)
#pragma unroll 4
    for (int64_t r = begin + threadIdx.x / ACROSS; r < end; r += STRIPES)
      terms.template add<N>(r * width + c, r, sum);
#pragma unroll
  for (int k = 0; k < F::COUNT; k++)
#pragma unroll
    for (int e = 0; e < N; e++) {
#pragma unroll
      for (int lane = ACROSS; lane < WARP; lane *= 2)
        sum[k][e] += __shfl_xor_sync(0xffffffffu, sum[k][e], lane);
      if (threadIdx.x % WARP < ACROSS) part[warp][k * SIDE + x * N + e] = sum[k][e];
    }
  __syncthreads();
  int item = threadIdx.x % ITEMS, team = threadIdx.x / ITEMS, term = item / SIDE;
  int64_t column = first + item % SIDE;
  bool mine = column < width && team < TEAMS;
  float total = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++)
    total += part[w][item];
  if (gridDim.y == 1) {
    if (mine && team == 0) out.to(term)[column] = total;
    return;
  }
  if (mine && team == 0) partial[((int64_t)blockIdx.y * F::COUNT + term) * width + column] = total;
  if (!arrived || !last_of(arrived + blockIdx.x, gridDim.y)) return;
  total = 0;
  if (mine)
#pragma unroll 8
    for (unsigned p = team; p < gridDim.y; p += TEAMS)
      total += __ldcg(partial + ((int64_t)p * F::COUNT + term) * width + column);
  __syncthreads();
  if (team < TEAMS) part[team][item] = total;
  __syncthreads();
  if (!mine || team > 0) return;
  total = 0;
#pragma unroll
  for (int t = 0; t < TEAMS; t++)
    total += part[t][item];
  out.to(term)[column] = total;
}

// A block has 32 columns; its warps take the parts in turns, then a warp has a column.
static __global__ void column_sum_join(const float *partial, outputs out, int64_t width, int terms,
                                       int parts) {
  __shared__ float stripe[WARP][WARP + 1];
  int x = threadIdx.x, y = threadIdx.y;
  int64_t first = (int64_t)blockIdx.x * WARP, i = first + x;
  float sum = 0;
  if (i < width * terms)
#pragma unroll 8
    for (int p = y; p < parts; p += WARP)
      sum += partial[(int64_t)p * terms * width + i];
  stripe[y][x] = sum;
  __syncthreads();
  i = first + y;
  sum = warp_sum(stripe[x][y]);
  if (x == 0 && i < width * terms) out.to(i / width)[i % width] = sum;
}

static int join(ls_kernel_stream_t stream, const float *partial, outputs out, int64_t width, int terms,
                int parts) {
  column_sum_join<<<(unsigned)((width * terms + WARP - 1) / WARP), dim3(WARP, WARP), 0, stream>>>(
      partial, out, width, terms, parts);
  return launched();
}

// Columns that a thread has: as 16 bytes hold, where rows begin at such places and are long.
template <class F>
static int column_sum(ls_kernel_stream_t stream, void *scratch, F terms, outputs out, int64_t rows,
                      int64_t width) {
  constexpr int N = WIDE<typename F::type>, LONG = 8;
  if (width <= 0) return cudaSuccess;
  bool wide = terms.aligned() && width % N == 0 && width >= LONG * N;
  int64_t across = wide ? LONG * N : WARP, blocks = (width + across - 1) / across;
  int64_t fit = 2 * (int64_t)LS_KERNEL_PARTIAL_MAX / (F::COUNT * width);
  int64_t parts = PART_BLOCKS / blocks < PART_MAX ? PART_BLOCKS / blocks : PART_MAX;
  if (parts > fit) parts = fit;
  parts = grid_for(rows, PART_ROWS, parts > 1 ? parts : 1);
  float *partial = (float *)partial_of(scratch);
  unsigned *arrived = blocks <= COUNTERS ? counter_of(scratch) : nullptr;
  auto *kernel = wide ? column_sum_kernel<N, LONG, F> : column_sum_kernel<1, WARP, F>;
  kernel<<<dim3((unsigned)blocks, (unsigned)parts), BLOCK, 0, stream>>>(terms, out, partial, arrived, rows,
                                                                        width);
  return parts > 1 && !arrived ? join(stream, partial, out, width, F::COUNT, (int)parts) : launched();
}
