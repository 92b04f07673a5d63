// Sums over rows, in one order, of what a term makes of them.
#pragma once

#include "device/cuda/block.cuh"

// A thread has N neighbouring columns, a block COLUMNS threads side by side and one part of the rows; its STRIPES rows of
// threads are added up in order. With more than one part the parts go to scratch as f32 (part, term, column) and a second
// kernel adds them up.

enum { COLUMNS = 32, STRIPES = 8, PART_ROWS = 32, PART_MAX = 128, JOINED = WARP };
static_assert(COLUMNS == WARP, "a warp has a column");

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

template <int N, class F>
__global__ void column_sum_kernel(F terms, outputs out, float *partial, int64_t rows, int64_t width) {
  __shared__ float stripe[STRIPES][F::COUNT][COLUMNS * N];
  int64_t c = ((int64_t)blockIdx.x * COLUMNS + threadIdx.x) * N;
  int64_t chunk = (rows + gridDim.y - 1) / gridDim.y;
  int64_t begin = blockIdx.y * chunk, end = begin + chunk < rows ? begin + chunk : rows;
  float sum[F::COUNT][N] = {};
  if (c < width)
#pragma unroll 4
    for (int64_t r = begin + threadIdx.y; r < end; r += STRIPES)
      terms.template add<N>(r * width + c, r, sum);
#pragma unroll
  for (int k = 0; k < F::COUNT; k++)
#pragma unroll
    for (int e = 0; e < N; e++)
      stripe[threadIdx.y][k][threadIdx.x * N + e] = sum[k][e];
  __syncthreads();
  for (int i = threadIdx.y * COLUMNS + threadIdx.x; i < F::COUNT * COLUMNS * N; i += STRIPES * COLUMNS) {
    int k = i / (COLUMNS * N), at = i % (COLUMNS * N);
    int64_t to = (int64_t)blockIdx.x * (COLUMNS * N) + at;
    if (to >= width) continue;
    float total = 0;
#pragma unroll
    for (int s = 0; s < STRIPES; s++)
      total += stripe[s][k][at];
    if (gridDim.y == 1)
      out.to(k)[to] = total;
    else
      partial[((int64_t)blockIdx.y * F::COUNT + k) * width + to] = total;
  }
}

// A block has COLUMNS columns; its JOINED rows of threads take the parts in turns, then a warp has a column.
static __global__ void column_sum_join(const float *partial, outputs out, int64_t width, int terms,
                                       int parts) {
  __shared__ float stripe[JOINED][COLUMNS + 1];
  int64_t first = (int64_t)blockIdx.x * COLUMNS, i = first + threadIdx.x;
  float sum = 0;
  if (i < width * terms)
#pragma unroll 8
    for (int p = threadIdx.y; p < parts; p += JOINED)
      sum += partial[(int64_t)p * terms * width + i];
  stripe[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  i = first + threadIdx.y;
  sum = warp_sum(stripe[threadIdx.x][threadIdx.y]);
  if (threadIdx.x == 0 && i < width * terms) out.to(i / width)[i % width] = sum;
}

static int join(ls_kernel_stream_t stream, const float *partial, outputs out, int64_t width, int terms,
                int parts) {
  column_sum_join<<<(unsigned)((width * terms + COLUMNS - 1) / COLUMNS), dim3(COLUMNS, JOINED), 0, stream>>>(
      partial, out, width, terms, parts);
  return launched();
}

// Columns that a thread has: as 16 bytes hold, where rows begin at such places and are long.
template <class F>
static int column_sum(ls_kernel_stream_t stream, void *scratch, F terms, outputs out, int64_t rows,
                      int64_t width) {
  constexpr int N = WIDE<typename F::type>;
  if (width <= 0) return cudaSuccess;
  int64_t fit = 2 * (int64_t)LS_KERNEL_PARTIAL_MAX / (F::COUNT * width);
  int64_t parts = (rows + PART_ROWS - 1) / PART_ROWS;
  if (parts > PART_MAX) parts = PART_MAX;
  if (parts > fit) parts = fit;
  if (parts < 1) parts = 1;
  float *partial = (float *)partial_of(scratch);
  bool wide = terms.aligned() && width % N == 0 && width >= COLUMNS * N;
  auto *kernel = wide ? column_sum_kernel<N, F> : column_sum_kernel<1, F>;
  int64_t across = wide ? COLUMNS * N : COLUMNS;
  dim3 grid((unsigned)((width + across - 1) / across), (unsigned)parts);
  kernel<<<grid, dim3(COLUMNS, STRIPES), 0, stream>>>(terms, out, partial, rows, width);
  return parts > 1 ? join(stream, partial, out, width, F::COUNT, (int)parts) : launched();
}
