// Gathers a batch from tables in the GPU's memory. Nothing is computed: 32-bit words are moved, four at a
// time where rows of features begin at a multiple of 16 bytes. A row is read by neighbouring threads, each
// with several loads on their way at once.
#include "device/cuda/block.cuh"

constexpr int EACH = 4; // words, or vectors, that a thread has on their way

template <class T>
__device__ static void copy_row(const T *__restrict__ from, T *__restrict__ to, int64_t width) {
  for (int64_t c = threadIdx.x; c < width; c += (int64_t)EACH * blockDim.x) {
    T word[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++)
      if (c + e * blockDim.x < width) word[e] = __ldg(from + c + e * blockDim.x);
#pragma unroll
    for (int e = 0; e < EACH; e++)
      if (c + e * blockDim.x < width) to[c + e * blockDim.x] = word[e];
  }
}

// Threads of a row along x, rows along y. Widths in words of T for features, in 32-bit words for targets.
template <class T>
__global__ void gather_kernel(const int32_t *row, const T *features, const unsigned *targets, T *x,
                              unsigned *target, int64_t rows, int64_t x_width, int64_t target_width) {
  int64_t step = (int64_t)gridDim.x * blockDim.y;
  for (int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; r < rows; r += step) {
    int64_t from = row[r];
    copy_row(features + from * x_width, x + r * x_width, x_width);
    copy_row(targets + from * target_width, target + r * target_width, target_width);
  }
}

template <class T>
static int gather(ls_kernel_stream_t stream, const int32_t *row, const void *features, const void *targets,
                  void *x, void *target, int64_t rows, int64_t x_width, int64_t target_width) {
  unsigned wide = 1;
  while ((int64_t)wide * EACH < x_width && wide < BLOCK)
    wide *= 2;
  dim3 block(wide, BLOCK / wide);
  unsigned blocks = grid_for(rows, block.y, 65536);
  gather_kernel<T><<<blocks, block, 0, stream>>>(row, (const T *)features, (const unsigned *)targets, (T *)x,
                                                 (unsigned *)target, rows, x_width, target_width);
  return launched();
}

int ls_kernel_gather(ls_kernel_stream_t stream, const int32_t *row, const void *features, const void *targets,
                     void *x, void *target, int64_t rows, int64_t x_width, int64_t target_width) {
  if (rows <= 0) return cudaSuccess;
  if (x_width % 4 == 0 && aligned16(features, x))
    return gather<uint4>(stream, row, features, targets, x, target, rows, x_width / 4, target_width);
  return gather<unsigned>(stream, row, features, targets, x, target, rows, x_width, target_width);
}
