// Sums: over columns, over rows, of squares. Each has one order of adding, whatever the GPU does first.
#include "device/cuda/column_sum.cuh"

// ---- out[r] = sum of row r / divisor ----

enum { WARP_ROW_MAX = 1024, SPLIT_ROW = 8192, SPLIT_MAX = 64, SPLIT_ROWS_MAX = 512 };
static_assert(SPLIT_MAX * SPLIT_ROWS_MAX <= LS_KERNEL_PARTIAL_MAX, "partial sums fit the scratch");

__global__ void row_sum_warp(const float *x, double divisor, float *out, int64_t rows, int64_t width) {
  int lane = threadIdx.x % WARP;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    double sum = 0;
    for (int64_t c = lane; c < width; c += WARP)
      sum += x[r * width + c];
    sum = warp_sum(sum);
    if (lane == 0) out[r] = (float)(sum / divisor);
  }
}

// Block b adds up part b % parts of row b / parts.
__global__ void row_sum_part(const float *x, double *partial, int64_t width, int parts) {
  int64_t r = blockIdx.x / parts, part = blockIdx.x % parts, chunk = (width + parts - 1) / parts;
  int64_t begin = part * chunk, end = begin + chunk < width ? begin + chunk : width;
  double sum = 0;
  for (int64_t c = begin + threadIdx.x; c < end; c += BLOCK)
    sum += x[r * width + c];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void row_sum_join(const double *partial, double divisor, float *out, int64_t rows, int parts) {
  for (int64_t r = thread_index(); r < rows; r += thread_count()) {
    double sum = 0;
    for (int p = 0; p < parts; p++)
      sum += partial[r * parts + p];
    out[r] = (float)(sum / divisor);
  }
}

static ls_status_t reduce(ls_stream_t *stream, args_t args) {
  cudaStream_t handle = ls_kernel_stream(stream);
  const float *x = in(args, 0);
  float *y = out(args, 0);
  int64_t rows = out_count(args, 0), width = in_count(args, 0) / rows;
  double divisor = args->attrs->i[1] ? (double)width : 1;
  if (width <= WARP_ROW_MAX || rows > SPLIT_ROWS_MAX) {
    row_sum_warp<<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, handle>>>(x, divisor, y, rows, width);
    return launched(stream, "reduce");
  }
  double *partial = partial_of(ls_kernel_scratch(stream));
  int parts = (int)((width + SPLIT_ROW - 1) / SPLIT_ROW);
  if (parts > SPLIT_MAX) parts = SPLIT_MAX;
  row_sum_part<<<(unsigned)(rows * parts), BLOCK, 0, handle>>>(x, partial, width, parts);
  row_sum_join<<<grid_for(rows, BLOCK, GRID_MAX), BLOCK, 0, handle>>>(partial, divisor, y, rows, parts);
  return launched(stream, "reduce");
}

__global__ void row_spread_kernel(const float *dy, float divisor, float *dx, int64_t rows, int64_t width) {
  int64_t c = plane_column();
  if (c >= width) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step())
    dx[r * width + c] = dy[r] / divisor;
}

static ls_status_t reduce_dx(ls_stream_t *stream, args_t args) {
  int64_t rows = in_count(args, 0), width = in_count(args, 1) / rows;
  plane p = plane_for(rows, width);
  row_spread_kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), args->attrs->i[1] ? (float)width : 1, out(args, 0), rows, width);
  return launched(stream, "reduce_dx");
}

// ---- sums over rows: column_sum.cuh ----

// dgamma adds dy h with h = (x - mean) rstd, dbeta adds dy.
template <class T> struct norm_term {
  static constexpr int COUNT = 2;
  typedef T type;
  const T *dy, *x;
  const float *mean, *rstd;
  template <int N> __device__ void add(int64_t i, int64_t r, float (*sum)[N]) const {
    some<T, N> d = load<N>(dy + i), v = load<N>(x + i);
    float m = mean[r], s = rstd[r];
#pragma unroll
    for (int e = 0; e < N; e++) {
      sum[0][e] += d[e] * ((v[e] - m) * s);
      sum[1][e] += d[e];
    }
  }
  bool aligned() const {
    return aligned16(dy, x);
  }
};

int ls_kernel_column_sum(ls_kernel_stream_t stream, void *scratch, const ls_tensor_t *x, float *out,
                         int64_t rows, int64_t width) {
  outputs to = {out, nullptr};
  BY_DTYPE(x->shape.dtype,
           return column_sum(stream, scratch, plain_term<T>{(const T *)x->data}, to, rows, width))
}

int ls_kernel_add_parts(ls_stream_t *stream, const float *part, float *out, int64_t count, int parts) {
  outputs to = {out, nullptr};
  return column_sum(ls_kernel_stream(stream), ls_kernel_scratch(stream), plain_term<float>{part}, to, parts,
                    count);
}

int ls_kernel_join_parts(ls_stream_t *stream, const float *part, float *first, float *second, int64_t count,
                         int parts) {
  return join(ls_kernel_stream(stream), part, {first, second}, count, 2, parts);
}

ls_status_t ls_kernel_layer_norm_dgb(ls_stream_t *stream, args_t args) {
  int64_t width = out_count(args, 0), rows = in_count(args, 0) / width;
  outputs to = {out(args, 0), out(args, 1)};
  int error;
  BY_DTYPE(in_dtype(args, 0), norm_term<T> terms = {in<T>(args, 0), in<T>(args, 1), in(args, 2), in(args, 3)};
           error = column_sum(ls_kernel_stream(stream), ls_kernel_scratch(stream), terms, to, rows, width))
  return ls_kernel_status(stream, error, "layer_norm_dgb");
}

// ---- sum of squares ----

__global__ void sumsq_kernel(void *scratch, const float *x, float *out, int64_t count, int64_t vectors) {
  double sum = 0, *partial = partial_of(scratch);
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    float4 v = ((const float4 *)x)[i];
    sum += ((double)v.x * v.x + (double)v.y * v.y) + ((double)v.z * v.z + (double)v.w * v.w);
  }
  for (int64_t i = 4 * vectors + thread_index(); i < count; i += thread_count())
    sum += (double)x[i] * x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
  if (!last_block(scratch)) return;
  sum = 0;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += BLOCK)
    sum += __ldcg(partial + b);
  sum = block_sum(sum);
  if (threadIdx.x == 0) *out = (float)sum;
}

static ls_status_t sumsq(ls_stream_t *stream, args_t args) {
  int64_t count = in_count(args, 0), vectors = vectors_of<float>(count, aligned16(in(args, 0)));
  unsigned blocks = grid_for(vectors + (count - 4 * vectors), 4 * BLOCK, GRID_MAX);
  sumsq_kernel<<<blocks, BLOCK, 0, ls_kernel_stream(stream)>>>(ls_kernel_scratch(stream), in(args, 0),
                                                               out(args, 0), count, vectors);
  return launched(stream, "sumsq");
}

const ls_kernel_row_t ls_cuda_reduce_rows[] = {{"reduce", reduce},
                                               {"reduce_dx", reduce_dx},
                                               {"layer_norm_dgb", ls_kernel_layer_norm_dgb, true},
                                               {"sumsq", sumsq},
                                               {}};
