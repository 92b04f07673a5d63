// linear and its gradients with few outputs and rows, as heads of networks have them: what a product of cuBLASLt costs at
// least, often two launches, is then most of its time. Sums are in one order, which depends on the sizes alone.
#include "device/cuda/block.cuh"

enum { OUTPUTS_MAX = 16, ROWS_MAX = 512, PRODUCTS_MAX = 1 << 20, ROW_THREADS = 128, TURNS = 32, MANY = 64 };

bool ls_kernel_linear_few(int64_t rows, int64_t inputs, int64_t outputs, bool many) {
  int64_t times = many ? MANY : 1;
  return rows > 0 && outputs <= OUTPUTS_MAX && rows <= times * ROWS_MAX &&
         rows * inputs * outputs <= times * PRODUCTS_MAX;
}

// Runs the statement with O, the outputs rounded up to 1, 4, 8 or 16.
#define BY_OUTPUTS(outputs, ...)                                                                             \
  if ((outputs) > 8) {                                                                                       \
    constexpr int O = 16;                                                                                    \
    __VA_ARGS__;                                                                                             \
  } else if ((outputs) > 4) {                                                                                \
    constexpr int O = 8;                                                                                     \
    __VA_ARGS__;                                                                                             \
  } else if ((outputs) > 1) {                                                                                \
    constexpr int O = 4;                                                                                     \
    __VA_ARGS__;                                                                                             \
  } else {                                                                                                   \
    constexpr int O = 1;                                                                                     \
    __VA_ARGS__;                                                                                             \
  }

// A block has a row, and its warps parts of it.
template <class T, int O>
__global__ void __launch_bounds__(ROW_THREADS)
    few_kernel(const T *x, const T *w, const T *b, T *y, bool relu, int inputs, int outputs) {
  __shared__ float part[ROW_THREADS / WARP][O];
  int row = blockIdx.x, lane = threadIdx.x % WARP;
  float sum[O] = {};
#pragma unroll 2
  for (int i = threadIdx.x; i < inputs; i += ROW_THREADS) {
    float v = f32_of(x[row * inputs + i]);
#pragma unroll
    for (int o = 0; o < O; o++)
      sum[o] += o < outputs ? v * f32_of(w[o * inputs + i]) : 0;
  }
#pragma unroll
  for (int o = 0; o < O; o++) {
    float total = warp_sum(sum[o]);
    if (o == lane) part[threadIdx.x / WARP][o] = total;
  }
  __syncthreads();
  int o = threadIdx.x;
  if (o >= outputs) return;
  float total = f32_of(b[o]);
#pragma unroll
  for (int p = 0; p < ROW_THREADS / WARP; p++)
    total += part[p][o];
  y[row * outputs + o] = rounded<T>(relu && total < 0 ? 0 : total); // a NaN stays one
}

// A thread has an input of a row.
template <class T, int O>
__global__ void few_dx_kernel(const T *dy, const T *w, const T *other, T *dx, int64_t rows, int64_t inputs,
                              int outputs) {
  int64_t i = plane_column(), row = plane_row();
  if (i >= inputs || row >= rows) return;
  float sum = 0;
#pragma unroll
  for (int o = 0; o < O; o++)
    if (o < outputs) sum += f32_of(dy[row * outputs + o]) * f32_of(w[o * inputs + i]);
  if (other) sum += f32_of(other[row * inputs + i]);
  dx[row * inputs + i] = rounded<T>(sum);
}

// The threads of a warp have an input each, and the block's warps take the rows in turns. The input behind the last is 1: its
// sums are the gradient of the bias.
template <class T, int O>
__global__ void __launch_bounds__(TURNS *WARP)
    few_dwb_kernel(const T *dy, const T *x, float *dw, float *db, int rows, int inputs, int outputs) {
  constexpr int AT_ONCE = O < 4 ? O : 4;
  __shared__ float part[TURNS][AT_ONCE][WARP];
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, i = blockIdx.x * WARP + lane;
  float sum[O] = {};
#pragma unroll 4
  for (int row = warp; row < rows; row += TURNS) {
    float v = i < inputs ? f32_of(x[row * inputs + i]) : 1;
#pragma unroll
    for (int o = 0; o < O; o++)
      sum[o] += o < outputs ? v * f32_of(dy[row * outputs + o]) : 0;
  }
#pragma unroll
  for (int first = 0; first < O; first += AT_ONCE) {
    __syncthreads();
#pragma unroll
    for (int o = 0; o < AT_ONCE; o++)
      part[warp][o][lane] = sum[first + o];
    __syncthreads();
    int o = first + warp;
    if (warp >= AT_ONCE || o >= outputs || i > inputs) continue;
    float total = 0;
#pragma unroll
    for (int p = 0; p < TURNS; p++)
      total += part[p][warp][lane];
    if (i < inputs)
      dw[o * inputs + i] = total;
    else if (db)
      db[o] = total;
  }
}

int ls_kernel_few(ls_stream_t *stream, args_t args, bool relu) {
  const int outputs = (int)args->in[1].shape.dim[0], inputs = (int)in_width(args, 1);
  const int rows = (int)(in_count(args, 0) / inputs);
  BY_DTYPE(in_dtype(args, 0),
           BY_OUTPUTS(outputs, few_kernel<T, O><<<rows, ROW_THREADS, 0, ls_kernel_stream(stream)>>>(
                                   in<T>(args, 0), in<T>(args, 1), in<T>(args, 2), out<T>(args, 0), relu,
                                   inputs, outputs)))
  return launched();
}

int ls_kernel_few_dx(ls_stream_t *stream, args_t args) {
  const int64_t outputs = args->in[1].shape.dim[0], inputs = in_width(args, 1);
  const int64_t rows = in_count(args, 0) / outputs;
  plane p = plane_for(rows, inputs);
  BY_DTYPE(
      in_dtype(args, 0),
      BY_OUTPUTS(outputs, few_dx_kernel<T, O><<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
                              in<T>(args, 0), in<T>(args, 1), args->in_count > 2 ? in<T>(args, 2) : nullptr,
                              out<T>(args, 0), rows, inputs, (int)outputs)))
  return launched();
}

int ls_kernel_few_dwb(ls_stream_t *stream, args_t args) {
  const int outputs = (int)args->out[0].shape.dim[0], inputs = (int)args->out[0].shape.dim[1];
  const int rows = (int)(in_count(args, 1) / inputs);
  float *db = args->out_count > 1 ? out(args, 1) : nullptr;
  BY_DTYPE(in_dtype(args, 0),
           BY_OUTPUTS(outputs,
                      few_dwb_kernel<T, O><<<inputs / WARP + 1, TURNS * WARP, 0, ls_kernel_stream(stream)>>>(
                          in<T>(args, 0), in<T>(args, 1), out(args, 0), db, rows, inputs, outputs)))
  return launched();
}
