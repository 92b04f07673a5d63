// Shared by the kernels: the types of elements, their arguments, launch shapes, sums in a fixed order, and the last block
// that adds up all blocks' parts.
#pragma once

#include "device/cuda/kernels.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <type_traits>

constexpr int BLOCK = 256; // threads of most kernels
constexpr int WARP = 32;
constexpr int WARPS = BLOCK / WARP;
constexpr float LOG2_E = 1.4426950408889634f;
constexpr int64_t GRID_MAX = 2048; // blocks of grid-stride loops: fills any GPU of today several times

static inline unsigned grid_for(int64_t items, int64_t per_block, int64_t most) {
  int64_t blocks = (items + per_block - 1) / per_block;
  return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

static inline bool aligned16(const void *a, const void *b = nullptr, const void *c = nullptr,
                             const void *d = nullptr) {
  return (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) & 15) == 0;
}

// ---- elements ----
// Tensors are of f32, bf16 or f16. All arithmetic is in f32: what is loaded is widened, what is stored is rounded once, to
// nearest, ties to even.

typedef __nv_bfloat16 bf16_t;
typedef __half f16_t;

// Runs as<type of ids>(stream, args).
#define BY_IDS(as, ids)                                                                                      \
  switch (ids) {                                                                                             \
  case LS_U8:                                                                                                \
    as<uint8_t>(stream, args);                                                                               \
    break;                                                                                                   \
  case LS_U16:                                                                                               \
    as<uint16_t>(stream, args);                                                                              \
    break;                                                                                                   \
  case LS_I32:                                                                                               \
    as<int32_t>(stream, args);                                                                               \
    break;                                                                                                   \
  default:                                                                                                   \
    as<float>(stream, args);                                                                                 \
  }

// Runs the statement with T the type of a dtype's elements.
#define BY_DTYPE(dtype_, ...)                                                                                \
  switch (dtype_) {                                                                                          \
  case LS_BF16: {                                                                                            \
    typedef bf16_t T;                                                                                        \
    __VA_ARGS__;                                                                                             \
  } break;                                                                                                   \
  case LS_F16: {                                                                                             \
    typedef f16_t T;                                                                                         \
    __VA_ARGS__;                                                                                             \
  } break;                                                                                                   \
  default: {                                                                                                 \
    typedef float T;                                                                                         \
    __VA_ARGS__;                                                                                             \
  }                                                                                                          \
  }

// Elements of T in an access of 16 bytes, the widest.
template <class T> constexpr int WIDE = 16 / (int)sizeof(T);

__device__ static inline float f32_of(float x) {
  return x;
}
__device__ static inline float f32_of(bf16_t x) {
  return __bfloat162float(x);
}
__device__ static inline float f32_of(f16_t x) {
  return __half2float(x);
}
template <class T> __device__ inline T rounded(float x);
template <> __device__ inline float rounded<float>(float x) {
  return x;
}
template <> __device__ inline bf16_t rounded<bf16_t>(float x) {
  return __float2bfloat16_rn(x);
}
template <> __device__ inline f16_t rounded<f16_t>(float x) {
  return __float2half_rn(x);
}

// N neighbours, as they are in memory: one access, or as many of 16 bytes as they need. Their place is a multiple of
// that.
template <class T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) some {
  T v[N];
  // Out of the word in which it is: two bf16 widen by a shift and a mask, without halves of registers between.
  __device__ float operator[](int i) const {
    if constexpr (N % 2 == 0 && std::is_same<T, bf16_t>::value) {
      uint32_t pair = ((const uint32_t *)v)[i / 2];
      return __uint_as_float(i % 2 ? pair & 0xffff0000u : pair << 16);
    } else {
      return f32_of(v[i]);
    }
  }
};
template <int N, class T> __device__ inline some<T, N> load(const T *from) {
  return *(const some<T, N> *)from;
}
// Two at once: one instruction rounds and packs them.
__device__ static inline void round_pair(float *to, float a, float b) {
  to[0] = a;
  to[1] = b;
}
__device__ static inline void round_pair(bf16_t *to, float a, float b) {
  *(__nv_bfloat162 *)to = __floats2bfloat162_rn(a, b);
}
__device__ static inline void round_pair(f16_t *to, float a, float b) {
  *(__half2 *)to = __floats2half2_rn(a, b);
}
template <int N, class T> __device__ inline void store(T *to, const float (&value)[N]) {
  some<T, N> all;
  if (N % 2) all.v[0] = rounded<T>(value[0]);
#pragma unroll
  for (int i = N % 2; i < N; i += 2)
    round_pair(all.v + i, value[i], value[i + 1]);
  *(some<T, N> *)to = all;
}

// How many vectors of T a loop over `count` elements may use.
template <class T> static inline int64_t vectors_of(int64_t count, bool aligned) {
  return aligned ? count / WIDE<T> : 0;
}

// Threads for vectors plus the elements behind them.
template <class T> static inline unsigned grid_for_each(int64_t count, int64_t vectors) {
  return grid_for(vectors + (count - WIDE<T> * vectors), BLOCK, GRID_MAX);
}

// Threads of a (rows, width) array, one column each: blocks as wide as the row allows, rows in grid strides.
struct plane {
  dim3 grid, block;
};
static inline plane plane_for(int64_t rows, int64_t width) {
  unsigned wide = 1;
  while (wide < width && wide < BLOCK)
    wide *= 2;
  plane p;
  p.block = dim3(wide, BLOCK / wide);
  p.grid = dim3(grid_for(width, wide, INT32_MAX), grid_for(rows, p.block.y, 32768));
  return p;
}
__device__ static inline int64_t plane_column() {
  return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ static inline int64_t plane_row() {
  return (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
}
__device__ static inline int64_t plane_row_step() {
  return (int64_t)gridDim.y * blockDim.y;
}

// Threads of a plane have N channels each: as many as 16 bytes hold, where all positions begin at such places.
// Runs the statement with T and N, and the plane p of `rows`.
#define BY_CHANNELS(dtype, channels, aligned, rows, ...)                                                     \
  BY_DTYPE(                                                                                                  \
      dtype,                                                                                                 \
      if ((aligned) && (channels) % WIDE<T> == 0) {                                                          \
        constexpr int N = WIDE<T>;                                                                           \
        plane p = plane_for(rows, (channels) / N);                                                           \
        __VA_ARGS__;                                                                                         \
      } else {                                                                                               \
        constexpr int N = 1;                                                                                 \
        plane p = plane_for(rows, channels);                                                                 \
        __VA_ARGS__;                                                                                         \
      })

// About `threads` threads as rows over `width` vectors of channels, and groups of these: as few idle as can be, at most
// `most` side by side.
static inline dim3 threads_across(int64_t width, int threads, int most, unsigned *groups) {
  *groups = grid_for(width, most, INT32_MAX);
  unsigned wide = (unsigned)((width + *groups - 1) / *groups);
  return dim3(wide, (unsigned)threads / wide);
}

static inline int launched() {
  return (int)cudaGetLastError();
}
static inline ls_status_t launched(ls_stream_t *stream, const char *op) {
  return ls_kernel_status(stream, launched(), op);
}

// A kernel's arguments.
typedef const ls_kernel_args_t *args_t;
template <class T = float> static inline const T *in(args_t args, int i) {
  return (const T *)args->in[i].data;
}
template <class T = float> static inline T *out(args_t args, int i) {
  return (T *)args->out[i].data;
}
static inline ls_dtype_t in_dtype(args_t args, int i) {
  return args->in[i].shape.dtype;
}
static inline ls_dtype_t out_dtype(args_t args, int i) {
  return args->out[i].shape.dtype;
}
static inline int64_t in_count(args_t args, int i) {
  return ls_shape_count(&args->in[i].shape);
}
static inline int64_t out_count(args_t args, int i) {
  return ls_shape_count(&args->out[i].shape);
}
// Rows of `in[i]`, and elements of each.
static inline int64_t in_rows(args_t args, int i) {
  return args->in[i].shape.dim[0];
}
static inline int64_t in_width(args_t args, int i) {
  return ls_shape_inner(&args->in[i].shape, 1);
}

// At any address.
__device__ static inline float load_f32(const unsigned char *bytes) {
  uint32_t word = 0;
  for (int i = 3; i >= 0; i--)
    word = word << 8 | bytes[i];
  return __uint_as_float(word);
}

// The step's parameters may stand at any address.
__device__ static inline uint64_t load_u64(const unsigned char *bytes) {
  if (((uintptr_t)bytes & 7) == 0) return *(const uint64_t *)bytes;
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--)
    value = value << 8 | bytes[i];
  return value;
}

// a / b of numbers that are not negative: fast where both have 32 bits.
__device__ static inline int64_t quotient(int64_t a, int64_t b) {
  return (uint64_t)(a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

// x / d for 0 <= x < 2^31 by a product and a shift; d is known before the launch.
struct quick_divisor {
  uint32_t factor;
  int shift;
  explicit quick_divisor(int64_t d) : shift(0) {
    while ((int64_t)1 << shift < d)
      shift++;
    factor = (uint32_t)((((uint64_t)1 << shift) - (uint64_t)d << 32) / (uint64_t)d + 1);
  }
  __device__ uint32_t of(uint32_t x) const { return ((uint32_t)((uint64_t)x * factor >> 32) + x) >> shift; }
};

__device__ static inline int64_t thread_index() {
  return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ static inline int64_t thread_count() {
  return (int64_t)gridDim.x * blockDim.x;
}

// The sum over the warp, in every lane.
template <class T> __device__ inline T warp_sum(T value) {
#pragma unroll
  for (int lane = WARP / 2; lane > 0; lane /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  return value;
}

// The sum over a block of THREADS threads, in every thread. May be called repeatedly.
template <int THREADS = BLOCK, class T = float> __device__ inline T block_sum(T value) {
  __shared__ T part[THREADS / WARP];
  value = warp_sum(value);
  __syncthreads(); // the last call's readers are done
  if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = value;
  __syncthreads();
  T sum = 0;
#pragma unroll
  for (int w = 0; w < THREADS / WARP; w++)
    sum += part[w];
  return sum;
}

// Scratch of a kernel whose last block finishes the work: a counter, then up to LS_KERNEL_PARTIAL_MAX
// doubles.
__host__ __device__ static inline unsigned *counter_of(void *scratch) {
  return (unsigned *)scratch;
}
__host__ __device__ static inline double *partial_of(void *scratch) {
  return (double *)((char *)scratch + LS_KERNEL_COUNTER_BYTES);
}

// True in all threads of the block that arrives last of `blocks` at a counter; what every block wrote before is then
// visible (read it with __ldcg). Leaves the counter zero. Pattern: threadFenceReduction in the CUDA samples.
__device__ static inline bool last_of(unsigned *counter, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last = atomicAdd(counter, 1u) == blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}
__device__ static inline bool last_block(void *scratch) {
  return last_of(counter_of(scratch), gridDim.x);
}
