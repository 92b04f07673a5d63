// Ops that move numbers and compute nothing. A batch is gathered from tables in the GPU's memory: 32-bit words are
// moved, four at a time where rows of features begin at a multiple of 16 bytes, bytes where they do not begin at a
// word. A row is read by neighbouring threads, each with several loads on their way at once. concat and columns copy
// blocks of columns, resize_rows copies rows: the runtime does that.
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
static void gather(ls_stream_t *stream, args_t args, int64_t x_bytes, int64_t target_bytes) {
  int64_t rows = in_count(args, 0), x_width = x_bytes / (int64_t)sizeof(T),
          target_width = target_bytes / (int64_t)sizeof(U);
  unsigned wide = 1;
  while ((int64_t)wide * EACH < x_width && wide < BLOCK)
    wide *= 2;
  dim3 block(wide, BLOCK / wide);
  unsigned blocks = grid_for(rows, block.y, 65536);
  gather_kernel<T, U><<<blocks, block, 0, ls_kernel_stream(stream)>>>(
      (const int32_t *)args->in[0].data, (const T *)args->in[1].data, (const U *)args->in[2].data,
      (T *)args->out[0].data, (U *)args->out[1].data, rows, x_width, target_width);
}

static int64_t row_bytes(const ls_tensor_t *table) {
  return ls_shape_inner(&table->shape, 1) * (int64_t)ls_dtype_bytes(table->shape.dtype);
}

// Whether table and result `i` begin at a multiple of `unit` bytes, and so do all of their rows.
static bool in_units(int64_t unit, args_t args, int i) {
  uintptr_t begins = (uintptr_t)args->in[1 + i].data | (uintptr_t)args->out[i].data;
  return ((int64_t)begins | row_bytes(&args->in[1 + i])) % unit == 0;
}

static ls_status_t gather_rows(ls_stream_t *stream, args_t args) {
  auto *run = gather<unsigned char, unsigned char>;
  if (in_units(4, args, 1)) {
    run = gather<unsigned char, unsigned>;
    if (in_units(4, args, 0)) run = gather<unsigned, unsigned>;
    if (in_units(16, args, 0)) run = gather<uint4, unsigned>;
  }
  run(stream, args, row_bytes(&args->in[1]), row_bytes(&args->in[2]));
  return launched(stream, "gather_rows");
}

// `count` columns from column `first` of one table to column `to_first` of another, of any dtype.
static int copy_columns(ls_stream_t *stream, const ls_tensor_t &from, int64_t first, const ls_tensor_t &to,
                        int64_t to_first, int64_t count) {
  size_t each = ls_dtype_bytes(from.shape.dtype);
  size_t pitch = (size_t)row_bytes(&from), to_pitch = (size_t)row_bytes(&to);
  return (int)cudaMemcpy2DAsync((char *)to.data + (size_t)to_first * each, to_pitch,
                                (const char *)from.data + (size_t)first * each, pitch, (size_t)count * each,
                                (size_t)from.shape.dim[0], cudaMemcpyDeviceToDevice,
                                ls_kernel_stream(stream));
}

static ls_status_t concat(ls_stream_t *stream, args_t args) {
  int64_t a = in_width(args, 0), b = in_width(args, 1);
  int error = copy_columns(stream, args->in[0], 0, args->out[0], 0, a);
  if (!error) error = copy_columns(stream, args->in[1], 0, args->out[0], a, b);
  return ls_kernel_status(stream, error, "concat");
}

static ls_status_t columns(ls_stream_t *stream, args_t args) {
  int64_t first = args->attrs->i[0], count = args->attrs->i[1];
  return ls_kernel_status(stream, copy_columns(stream, args->in[0], first, args->out[0], 0, count),
                          "columns");
}

static ls_status_t resize_rows(ls_stream_t *stream, args_t args) {
  size_t from_bytes = ls_shape_bytes(&args->in[0].shape), to_bytes = ls_shape_bytes(&args->out[0].shape);
  size_t both_bytes = from_bytes < to_bytes ? from_bytes : to_bytes;
  char *to = (char *)args->out[0].data;
  cudaStream_t on = ls_kernel_stream(stream);
  int error = cudaMemcpyAsync(to, args->in[0].data, both_bytes, cudaMemcpyDeviceToDevice, on);
  if (!error && to_bytes > both_bytes) error = cudaMemsetAsync(to + both_bytes, 0, to_bytes - both_bytes, on);
  return ls_kernel_status(stream, error, "resize_rows");
}

__global__ void copy_words_kernel(uint32_t *to, const uint32_t *from, int words) {
  for (int i = threadIdx.x; i < words; i += blockDim.x)
    to[i] = from[i];
}

int ls_kernel_copy(ls_kernel_stream_t stream, void *to, const void *from, size_t size_bytes) {
  const int words = (int)(size_bytes / sizeof(uint32_t));
  const int threads = words > BLOCK ? BLOCK : (words + WARP - 1) / WARP * WARP;
  copy_words_kernel<<<1, threads, 0, stream>>>((uint32_t *)to, (const uint32_t *)from, words);
  return launched();
}

const ls_kernel_row_t ls_cuda_move_rows[] = {
    {"gather_rows", gather_rows},
    {"concat", concat, true},
    {"columns", columns, true},
    {"resize_rows", resize_rows, true},
    {"sum_ranks", resize_rows}, // alone; strategies make a collective of it
    {}};
