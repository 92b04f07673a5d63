// Gathers a batch from tables in the GPU's memory. Nothing is computed: 32-bit words are moved, four at a
// time where rows of features begin at a multiple of 16 bytes, bytes where they do not begin at a word. A row is read by neighbouring threads, each
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

// Threads of a row along x, rows along y. Widths in words of T for features, of U for targets.
template <class T, class U>
__global__ void gather_kernel(const int32_t *row, const T *features, const U *targets, T *x, U *target,
                              int64_t rows, int64_t x_width, int64_t target_width) {
  int64_t step = (int64_t)gridDim.x * blockDim.y;
  for (int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; r < rows; r += step) {
    int64_t from = row[r];
    copy_row(features + from * x_width, x + r * x_width, x_width);
    copy_row(targets + from * target_width, target + r * target_width, target_width);
  }
}

template <class T, class U>
static int gather(ls_kernel_stream_t stream, const int32_t *row, const void *features, const void *targets,
                  void *x, void *target, int64_t rows, int64_t x_bytes, int64_t target_bytes) {
  int64_t x_width = x_bytes / (int64_t)sizeof(T), target_width = target_bytes / (int64_t)sizeof(U);
  unsigned wide = 1;
  while ((int64_t)wide * EACH < x_width && wide < BLOCK)
    wide *= 2;
  dim3 block(wide, BLOCK / wide);
  unsigned blocks = grid_for(rows, block.y, 65536);
  gather_kernel<T, U><<<blocks, block, 0, stream>>>(row, (const T *)features, (const U *)targets, (T *)x,
                                                    (U *)target, rows, x_width, target_width);
  return launched();
}

// Whether both begin at a multiple of `unit` bytes, and so do all of their rows.
static bool in_units(int64_t unit, const void *a, const void *b, int64_t row_bytes) {
  return ((int64_t)((uintptr_t)a | (uintptr_t)b) | row_bytes) % unit == 0;
}

int ls_kernel_gather(ls_kernel_stream_t stream, const int32_t *row, const void *features, const void *targets,
                     void *x, void *target, int64_t rows, int64_t x_bytes, int64_t target_bytes) {
  if (rows <= 0) return cudaSuccess;
  auto *run = gather<unsigned char, unsigned char>;
  if (in_units(4, targets, target, target_bytes)) {
    run = gather<unsigned char, unsigned>;
    if (in_units(4, features, x, x_bytes)) run = gather<unsigned, unsigned>;
    if (in_units(16, features, x, x_bytes)) run = gather<uint4, unsigned>;
  }
  return run(stream, row, features, targets, x, target, rows, x_bytes, target_bytes);
}
