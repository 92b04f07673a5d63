// Convolutions of 16-bit images of three channels, as networks begin with: square windows of 3 or 7, stride 2. What a row
// of the window covers are neighbours in a row of the image, so that factors of products on tensor cores are read where the
// image lies in shared memory. It lies there from ORIGIN on, between zeros, two strips at a time: one is worked on while
// the next arrives. A row of the window begins at an even place of the strip, for which the taps are moved by one number
// where that is needed, and takes GROUPS groups of 8; numbers that are not of the window meet a tap of zero.
#include "device/cuda/convolve.cuh"
#include "device/cuda/mma.cuh"

constexpr int CHANNELS = 3, STRIDE = 2, ORIGIN = 16, STRIP_ROWS = 2, TILE_ROWS = 16, FEW_BLOCKS = 132;

template <class T_, int K_, int O_> struct few_plan {
  typedef T_ T;
  static constexpr int K = K_, O = O_, RUN = CHANNELS * K, GROUPS = (RUN + 1 + 7) / 8;
  static constexpr int STEPS = (K * GROUPS + 1) / 2;            // of 16 taps
  static constexpr int IN_ROWS = (STRIP_ROWS - 1) * STRIDE + K; // of the image for a strip of outputs
  static constexpr int SPLIT = K == 7 ? 1 : 2; // parts of a block's outputs, in the sum over them
  static constexpr int DW_THREADS = K * SPLIT * WARP, PITCH = O + 8; // of dy in shared memory
};

struct few_shape {
  int h, w, oh, ow, top;
  int pitch, shift,
      begin;         // of a row in shared memory; numbers before the window; where that of output 0 begins
  int strips, count; // of an image, of all
};

template <class P> static few_shape few_of(const conv_shape &s) {
  few_shape f = {s.h, s.w, s.oh, s.ow, s.top};
  f.shift = CHANNELS * s.left % 2;
  f.begin = ORIGIN - CHANNELS * s.left - f.shift;
  int last = f.begin + CHANNELS * STRIDE * (s.ow - 1) + 8 * P::GROUPS, wide = ORIGIN + CHANNELS * s.w;
  f.pitch = ((last > wide ? last : wide) + 7) / 8 * 8;
  f.strips = (s.oh + STRIP_ROWS - 1) / STRIP_ROWS;
  f.count = s.n * f.strips;
  return f;
}

template <class P> static size_t few_image_bytes(const few_shape &s) {
  return 2 * sizeof(uint16_t) * (size_t)(P::IN_ROWS * s.pitch);
}

// Zeros around the images of both strips stay.
template <class P> __device__ static void clear(uint4 *image, const few_shape &s) {
  for (int i = threadIdx.x; i < 2 * P::IN_ROWS * s.pitch / 8; i += blockDim.x)
    image[i] = make_uint4(0, 0, 0, 0);
  __syncthreads();
}

// Rows of the image under a strip.
template <class P>
__device__ static void fetch_image(uint16_t *to, const uint16_t *x, const few_shape &s, int strip) {
  int chunks = CHANNELS * s.w / 8, n = strip / s.strips, y = strip % s.strips * STRIP_ROWS * STRIDE - s.top;
  for (int i = threadIdx.x; i < P::IN_ROWS * chunks; i += blockDim.x) {
    int row = i / chunks, at = i % chunks * 8;
    bool real = y + row >= 0 && y + row < s.h;
    const uint16_t *from = real ? x + ((int64_t)n * s.h + y + row) * (CHANNELS * s.w) + at : x;
    copy_16(to + row * s.pitch + ORIGIN + at, from, real);
  }
}

// Which channel column c of tile j of the products is: a lane's results of four tiles are neighbours.
#if __CUDA_ARCH__ >= 800
__device__ static int few_channel(int j, int c) {
  return j / 4 * 32 + c / 2 * 8 + j % 4 * 2 + c % 2;
}
#endif

// y: a warp has two tiles of 16 neighbouring outputs of a row at a time, and all channels.
template <class P>
__global__ void __launch_bounds__(BLOCK, 2)
    few_forward_kernel(few_shape s, const uint16_t *x, const uint16_t *weight, uint16_t *y) {
#if __CUDA_ARCH__ >= 800
  typedef typename P::T T;
  constexpr int TILES = P::O / 8;
  extern __shared__ float4 shared[];
  uint4 *taps = (uint4 *)shared; // (steps, pairs of tiles, lanes)
  uint16_t *image = (uint16_t *)(taps + P::STEPS * (TILES / 2) * WARP);
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
  clear<P>((uint4 *)image, s);
  if ((int)blockIdx.x < s.count) fetch_image<P>(image, x, s, (int)blockIdx.x);
  copies_end();
  for (int i = threadIdx.x; i < P::STEPS * (TILES / 2) * WARP * 4; i += blockDim.x) {
    int q = i % 4, of = i / 4 % WARP, j = i / 4 / WARP % (TILES / 2) * 2 + q / 2;
    int group = i / 4 / WARP / (TILES / 2) * 2 + q % 2, ky = group / P::GROUPS;
    int k = group % P::GROUPS * 8 + of % 4 * 2 - s.shift;
    const uint16_t *from = weight + (few_channel(j, of / 4) * P::K + ky) * P::RUN;
    uint32_t low = ky < P::K && k >= 0 && k < P::RUN ? from[k] : 0;
    uint32_t high = ky < P::K && k + 1 < P::RUN ? from[k + 1] : 0;
    ((uint32_t *)taps)[i] = low | high << 16;
  }
  // A word of the strip without what is not of the window: that may be no number.
  uint32_t mask[P::GROUPS];
#pragma unroll
  for (int part = 0; part < P::GROUPS; part++) {
    int k = part * 8 + t * 2 - s.shift;
    mask[part] = (k >= 0 && k < P::RUN ? 0xffffu : 0) | (k + 1 < P::RUN ? 0xffff0000u : 0);
  }
  int words = s.pitch / 2, across = s.ow / TILE_ROWS, side = 0;
  for (int strip = (int)blockIdx.x; strip < s.count; strip += (int)gridDim.x, side ^= 1) {
    if (strip + (int)gridDim.x < s.count)
      fetch_image<P>(image + (side ^ 1) * P::IN_ROWS * s.pitch, x, s, strip + (int)gridDim.x);
    copies_end();
    copies_wait<1>();
    __syncthreads();
    const uint32_t *rows = (const uint32_t *)(image + side * P::IN_ROWS * s.pitch) + s.begin / 2 + t;
    for (int pair = warp; pair < across * STRIP_ROWS / 2; pair += (int)blockDim.x / WARP) {
      const uint32_t *from[2];
      float sum[2][TILES][4] = {};
#pragma unroll
      for (int m = 0; m < 2; m++) {
        int tile = 2 * pair + m, column = tile % across * TILE_ROWS + g;
        from[m] = rows + tile / across * STRIDE * words + column * (CHANNELS * STRIDE / 2);
      }
#pragma unroll
      for (int step = 0; step < P::STEPS; step++) {
        uint32_t a[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
          for (int i = 0; i < 4; i++) {
            int group = 2 * step + i / 2, ky = group / P::GROUPS, part = group % P::GROUPS;
            int at = ky * words + part * 4 + i % 2 * 8 * (CHANNELS * STRIDE / 2);
            a[m][i] = ky < P::K ? from[m][at] & mask[part] : 0;
          }
#pragma unroll
        for (int j = 0; j < TILES; j += 2) {
          uint4 b = taps[(step * (TILES / 2) + j / 2) * WARP + lane];
          uint32_t first[2] = {b.x, b.y}, second[2] = {b.z, b.w};
#pragma unroll
          for (int m = 0; m < 2; m++) {
            multiply(sum[m][j], a[m], first, T());
            multiply(sum[m][j + 1], a[m], second, T());
          }
        }
      }
#pragma unroll
      for (int m = 0; m < 2; m++) {
        int tile = 2 * pair + m, oy = strip % s.strips * STRIP_ROWS + tile / across;
        int64_t row = ((int64_t)(strip / s.strips) * s.oh + oy) * s.ow + tile % across * TILE_ROWS + g;
        if (oy >= s.oh) continue;
#pragma unroll
        for (int i = 0; i < 4; i++) {
          if (i / 2 * 4 >= TILES) continue;
          int j = i / 2 * 4, half = i % 2 * 2; // of the rows g and g + 8
          uint4 all = make_uint4(pack(sum[m][j][half], sum[m][j][half + 1], T()),
                                 pack(sum[m][j + 1][half], sum[m][j + 1][half + 1], T()),
                                 pack(sum[m][j + 2][half], sum[m][j + 2][half + 1], T()),
                                 pack(sum[m][j + 3][half], sum[m][j + 3][half + 1], T()));
          *(uint4 *)(y + (row + i % 2 * 8) * P::O + few_channel(j, 2 * t)) = all;
        }
      }
    }
    __syncthreads();
  }
#endif
}

template <class P> static size_t few_forward_bytes(const few_shape &s) {
  return sizeof(uint4) * P::STEPS * (P::O / 16) * WARP + few_image_bytes<P>(s);
}

// Part p of dw, dw + p (o K RUN): a warp has a row of the window and all channels, and sums over outputs, 16 at a time.
template <class P>
__global__ void __launch_bounds__(P::DW_THREADS, 2)
    few_dw_kernel(few_shape s, const uint16_t *dy, const uint16_t *x, float *dw) {
#if __CUDA_ARCH__ >= 800
  typedef typename P::T T;
  constexpr int STRIPS = P::O / 16;
  extern __shared__ float4 shared[];
  uint16_t *image = (uint16_t *)shared, *slope = image + 2 * P::IN_ROWS * s.pitch; // dy, two strips
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
  int ky = warp % P::K, split = warp / P::K, outputs = STRIP_ROWS * s.ow;
  auto fetch = [&](int strip, int side) {
    fetch_image<P>(image + side * P::IN_ROWS * s.pitch, x, s, strip);
    int n = strip / s.strips, oy = strip % s.strips * STRIP_ROWS;
    int rows = (s.oh - oy < STRIP_ROWS ? s.oh - oy : STRIP_ROWS) * s.ow;
    const uint16_t *from = dy + ((int64_t)n * s.oh + oy) * s.ow * P::O;
    for (int i = threadIdx.x; i < rows * (P::O / 8); i += blockDim.x)
      copy_16(slope + (side * outputs + i / (P::O / 8)) * P::PITCH + i % (P::O / 8) * 8, from + 8 * i, true);
  };
  clear<P>((uint4 *)image, s);
  if ((int)blockIdx.x < s.count) fetch((int)blockIdx.x, 0);
  copies_end();
  float sum[STRIPS][P::GROUPS][4] = {};
  int words = s.pitch / 2, across = s.ow / TILE_ROWS, side = 0;
  for (int strip = (int)blockIdx.x; strip < s.count; strip += (int)gridDim.x, side ^= 1) {
    if (strip + (int)gridDim.x < s.count) fetch(strip + (int)gridDim.x, side ^ 1);
    copies_end();
    copies_wait<1>();
    __syncthreads();
    const uint32_t *rows = (const uint32_t *)(image + side * P::IN_ROWS * s.pitch) + s.begin / 2;
    int oy = strip % s.strips * STRIP_ROWS,
        tiles = (s.oh - oy < STRIP_ROWS ? s.oh - oy : STRIP_ROWS) * across;
    for (int tile = split; tile < tiles; tile += P::SPLIT) {
      uint32_t a[STRIPS][4], b[P::GROUPS][2];
      const uint16_t *from =
          slope + (side * outputs + tile * TILE_ROWS + lane / 16 * 8 + lane % 8) * P::PITCH;
#pragma unroll
      for (int m = 0; m < STRIPS; m++)
        load_fragments_transposed(a[m], from + m * 16 + lane / 8 % 2 * 8);
      const uint32_t *place = rows + (tile / across * STRIDE + ky) * words +
                              (tile % across * TILE_ROWS + 2 * t) * (CHANNELS * STRIDE / 2);
      // Tiles 0 and 1 are the first and second numbers of 8 words, tile 2 is the numbers of the 4 words behind.
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const uint32_t *one = place + i * 8 * (CHANNELS * STRIDE / 2), *two = one + CHANNELS * STRIDE / 2;
        uint32_t u = one[g], v = two[g];
        b[0][i] = (u & 0xffffu) | v << 16;
        b[1][i] = u >> 16 | (v & 0xffff0000u);
        if (P::GROUPS == 3) {
          u = one[8 + g / 2], v = two[8 + g / 2];
          b[P::GROUPS - 1][i] = g % 2 ? u >> 16 | (v & 0xffff0000u) : (u & 0xffffu) | v << 16;
        }
      }
#pragma unroll
      for (int m = 0; m < STRIPS; m++)
#pragma unroll
        for (int n = 0; n < P::GROUPS; n++)
          multiply(sum[m][n], a[m], b[n], T());
    }
    __syncthreads();
  }
  dw += ((int64_t)blockIdx.x * P::SPLIT + split) * (P::O * P::K * P::RUN) + ky * P::RUN;
#pragma unroll
  for (int m = 0; m < STRIPS; m++)
#pragma unroll
    for (int n = 0; n < P::GROUPS; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) {
        int column = 2 * t + e % 2, k = (n < 2 ? 2 * column + n : 16 + column) - s.shift;
        if (k >= 0 && k < P::RUN) dw[(m * 16 + g + e / 2 * 8) * (P::K * P::RUN) + k] = sum[m][n][e];
      }
#endif
}

template <class P> static size_t few_dw_bytes(const few_shape &s) {
  return few_image_bytes<P>(s) + 2 * sizeof(uint16_t) * (size_t)(STRIP_ROWS * s.ow * P::PITCH);
}

// Whole vectors, whole tiles; ORIGIN has room for the padding.
static bool few_suits(const conv_shape &s, ls_dtype_t dtype) {
  return (dtype == LS_BF16 || dtype == LS_F16) && s.c == CHANNELS && s.cg == CHANNELS && s.kh == s.kw &&
         (s.kh == 3 || s.kh == 7) && (s.o == 32 || s.o == 64) && s.sh == STRIDE && s.sw == STRIDE &&
         s.dh == 1 && s.dw == 1 && s.left <= ORIGIN / CHANNELS && s.w % 8 == 0 && s.w <= 512 &&
         s.ow % TILE_ROWS == 0;
}

template <class P> static bool few_ready(const conv_shape &s) {
  few_shape f = few_of<P>(s);
  return !kernel_ready(few_forward_kernel<P>, 80, few_forward_bytes<P>(f)) &&
         !kernel_ready(few_dw_kernel<P>, 80, few_dw_bytes<P>(f));
}

template <class P>
static int run_few(ls_stream_t *stream, const conv_shape &s, const void *x, const void *weight, void *y) {
  few_shape f = few_of<P>(s);
  int tiles = s.ow * STRIP_ROWS / TILE_ROWS / 2, warps = tiles < WARPS ? tiles : WARPS;
  few_forward_kernel<P>
      <<<grid_for(f.count, 1, 2 * FEW_BLOCKS), warps * WARP, few_forward_bytes<P>(f),
         ls_kernel_stream(stream)>>>(f, (const uint16_t *)x, (const uint16_t *)weight, (uint16_t *)y);
  return launched();
}

template <class P>
static int run_few_dw(ls_stream_t *stream, const conv_shape &s, const void *dy, const void *x, float *dw) {
  few_shape f = few_of<P>(s);
  size_t workspace_bytes;
  float *part = (float *)ls_kernel_workspace(stream, &workspace_bytes);
  const int64_t count = P::O * P::K * P::RUN;
  unsigned blocks = grid_for(f.count, 1, 2 * FEW_BLOCKS);
  if ((int64_t)blocks * P::SPLIT * count * (int64_t)sizeof(float) > (int64_t)workspace_bytes)
    return cudaErrorInvalidValue;
  few_dw_kernel<P><<<blocks, P::DW_THREADS, few_dw_bytes<P>(f), ls_kernel_stream(stream)>>>(
      f, (const uint16_t *)dy, (const uint16_t *)x, part);
  int error = launched();
  return error ? error : ls_kernel_add_parts(stream, part, dw, count, (int)blocks * P::SPLIT);
}

// Calls f with the plan of a shape that suits.
template <class F> static auto few_with(const conv_shape &s, ls_dtype_t dtype, F f) {
  bool large = s.kh == 7, wide = s.o == 64;
#define FEW(T_)                                                                                              \
  large  ? wide ? f(few_plan<T_, 7, 64>()) : f(few_plan<T_, 7, 32>())                                        \
   : wide ? f(few_plan<T_, 3, 64>())                                                                         \
         : f(few_plan<T_, 3, 32>())
  return dtype == LS_BF16 ? FEW(bf16_t) : FEW(f16_t);
#undef FEW
}

bool few_channels(const conv_shape &s, ls_dtype_t dtype) {
  return few_suits(s, dtype) && few_with(s, dtype, [&](auto plan) { return few_ready<decltype(plan)>(s); });
}
int few_forward(ls_stream_t *stream, const conv_shape &s, ls_dtype_t dtype, const void *x, const void *weight,
                void *y) {
  return few_with(s, dtype, [&](auto plan) { return run_few<decltype(plan)>(stream, s, x, weight, y); });
}
int few_dw(ls_stream_t *stream, const conv_shape &s, ls_dtype_t dtype, const void *dy, const void *x,
           float *dw) {
  return few_with(s, dtype, [&](auto plan) { return run_few_dw<decltype(plan)>(stream, s, dy, x, dw); });
}
