// Transposes matrices of f32 that lie one after the other: images with channels last and channels first.
#include "device/cuda/block.cuh"

constexpr int SIDE = 32;

__global__ void transpose_kernel(const float *from, float *to, int64_t rows, int64_t columns) {
  __shared__ float tile[SIDE][SIDE + 1];
  int64_t row = (int64_t)blockIdx.y * SIDE, column = (int64_t)blockIdx.x * SIDE;
  from += blockIdx.z * rows * columns;
  to += blockIdx.z * rows * columns;
#pragma unroll
  for (int i = threadIdx.y; i < SIDE; i += WARPS)
    if (row + i < rows && column + threadIdx.x < columns)
      tile[i][threadIdx.x] = from[(row + i) * columns + column + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = threadIdx.y; i < SIDE; i += WARPS)
    if (column + i < columns && row + threadIdx.x < rows)
      to[(column + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
}

int ls_kernel_transpose(ls_kernel_stream_t stream, const void *from, void *to, int64_t n, int64_t rows,
                        int64_t columns) {
  dim3 grid((unsigned)((columns + SIDE - 1) / SIDE), (unsigned)((rows + SIDE - 1) / SIDE), (unsigned)n);
  if (n > 65535 || (rows + SIDE - 1) / SIDE > 65535) return cudaErrorNotSupported;
  transpose_kernel<<<grid, dim3(SIDE, WARPS), 0, stream>>>((const float *)from, (float *)to, rows, columns);
  return launched();
}
