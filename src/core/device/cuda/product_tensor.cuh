// Products of matrices on tensor cores for operands that cuBLASLt and cuDNN serve badly or not at all: convolutions of any
// window, stride, dilation, groups and number of channels, and linear layers of any width. An operand is gathered from an image
// while its tile is copied into shared memory, STAGES tiles ahead, 16, 4 or 2 bytes at a time, as channels and addresses allow.
// f32 is multiplied as TF32, or as split factors (mma.cuh), whose sums are as exact as plain ones.
#pragma once

#include "device/cuda/mma.cuh"
#include "device/cuda/product.cuh"

constexpr int ROW_BYTES = 128, STAGES = 3; // of a row of a tile along k

// A block makes BM x BN sums, a warp WM x WN of them.
template <class E_, int BM_, int BN_, int WM_, int WN_, int BLOCKS_> struct tile_plan {
  typedef E_ E;
  static constexpr int BM = BM_, BN = BN_, WM = WM_, WN = WN_, BLOCKS = BLOCKS_;
  static constexpr int THREADS = BM / WM * (BN / WN) * WARP, SIZE = sizeof(E), KB = ROW_BYTES / SIZE;
  static constexpr int STRIPS = WM / 16, PAIRS = WN / 16; // of a warp: 16 rows, 16 columns
  // A tile across k: rows are k, with room between them, so that eight lie in different banks.
  static constexpr int A_PITCH = BM * SIZE + 8 * SIZE, B_PITCH = BN * SIZE + 8 * SIZE;
  static constexpr int A_BYTES = BM * ROW_BYTES > KB *A_PITCH ? BM *ROW_BYTES : KB *A_PITCH;
  static constexpr int B_BYTES = BN * ROW_BYTES > KB *B_PITCH ? BN *ROW_BYTES : KB *B_PITCH;
  static constexpr int SHARED = STAGES * (A_BYTES + B_BYTES);
};

// The begin of an operand's row in an image: the image's first position, and the window's corner. base < 0: none.
struct place_t {
  int base, y, x;
};
// An index along k: the window's displacement and the channel; c < 0: none.
struct tap_t {
  int y, x, c;
};

struct gather_t {
  product_task p;
  quick_divisor by_channels, by_kw, by_columns, by_rows, by_sh, by_sw; // of k in taps; of positions in images
};

// Row m of A (FORWARD, DX), or index k of DW's operands.
template <int PASS> __device__ static place_t place_of(const gather_t &t, int i, int count) {
  const conv_shape &s = t.p.s;
  if (i >= count) return {-1, 0, 0};
  int columns = PASS == DX ? s.w : s.ow, rows = PASS == DX ? s.h : s.oh;
  int line = (int)t.by_columns.of((uint32_t)i), n = (int)t.by_rows.of((uint32_t)line);
  int y = line - n * rows, x = i - line * columns;
  if (PASS == DX) return {n * s.oh * s.ow, y + s.top, x + s.left};
  return {n * s.h * s.w, y * s.sh - s.top, x * s.sw - s.left};
}

template <int PASS> __device__ static tap_t tap_of(const gather_t &t, int k, int count) {
  const conv_shape &s = t.p.s;
  if (k >= count) return {0, 0, -1};
  int channels = PASS == DX ? s.og : s.cg;
  int window = (int)t.by_channels.of((uint32_t)k), ky = (int)t.by_kw.of((uint32_t)window);
  return {ky * s.dh, (window - ky * s.kw) * s.dw, k - window * channels};
}

// NULL: zero.
template <class T>
__device__ static const T *in_image(const gather_t &t, const T *x, int g, place_t r, tap_t k) {
  const conv_shape &s = t.p.s;
  int y = r.y + k.y, column = r.x + k.x;
  if (r.base < 0 || k.c < 0 || (unsigned)y >= (unsigned)s.h || (unsigned)column >= (unsigned)s.w)
    return nullptr;
  return x + (int64_t)(r.base + y * s.w + column) * s.c + g * s.cg + k.c;
}
template <class T>
__device__ static const T *in_slope(const gather_t &t, const T *dy, int g, place_t r, tap_t k) {
  const conv_shape &s = t.p.s;
  int y = r.y - k.y, x = r.x - k.x;
  if (r.base < 0 || k.c < 0 || y < 0 || x < 0) return nullptr;
  if (s.sh > 1) {
    int q = (int)t.by_sh.of((uint32_t)y);
    if (q * s.sh != y) return nullptr;
    y = q;
  }
  if (s.sw > 1) {
    int q = (int)t.by_sw.of((uint32_t)x);
    if (q * s.sw != x) return nullptr;
    x = q;
  }
  if (y >= s.oh || x >= s.ow) return nullptr;
  return dy + (int64_t)(r.base + y * s.ow + x) * s.o + g * s.og + k.c;
}

// Copies TURNS pieces of BYTES each; from(i) is where piece i lies, to(i) its place in shared memory.
template <int BYTES, int TURNS, class T, class F, class G>
__device__ static void copy_pieces(const T *any, F from, G to) {
  if constexpr (BYTES == 2) {
    constexpr int BATCH = TURNS < 8 ? TURNS : 8; // loads in flight
#pragma unroll
    for (int first = 0; first < TURNS; first += BATCH) {
      uint16_t v[BATCH];
#pragma unroll
      for (int i = 0; i < BATCH; i++) {
        const T *x = from(first + i);
        v[i] = x ? *(const uint16_t *)x : 0;
      }
#pragma unroll
      for (int i = 0; i < BATCH; i++)
        *(uint16_t *)to(first + i) = v[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
      const T *x = from(i);
      if (BYTES == 16)
        copy_16(to(i), x ? x : any, x != nullptr);
      else
        copy_4(to(i), x ? x : any, x != nullptr);
    }
  }
}

__device__ static int swizzled(int row, int segment) {
  return row * ROW_BYTES + ((segment ^ (row & 7)) << 4);
}

// A tile of ROWS rows along k; at(k)(row) is where they lie.
template <class P, int BYTES, int ROWS, class F>
__device__ static void fetch_along(char *tile, const typename P::E *any, F at) {
  constexpr int EACH = BYTES / P::SIZE, ACROSS = ROW_BYTES / BYTES, STEP = P::THREADS / ACROSS;
  int column = threadIdx.x % ACROSS, first = threadIdx.x / ACROSS;
  auto row_at = at(column * EACH);
  copy_pieces<BYTES, ROWS / STEP>(
      any, [&](int i) { return row_at(first + i * STEP); },
      [&](int i) { return tile + swizzled(first + i * STEP, column * BYTES / 16) + column * BYTES % 16; });
}
// The same in pieces of 16 bytes; from(i) is where the thread's row i lies.
template <class P, int ROWS, class F>
__device__ static void fetch_own(char *tile, const typename P::E *any, F from) {
  constexpr int ACROSS = ROW_BYTES / 16, STEP = P::THREADS / ACROSS;
  int column = threadIdx.x % ACROSS, first = threadIdx.x / ACROSS;
  copy_pieces<16, ROWS / STEP>(any, from, [&](int i) { return tile + swizzled(first + i * STEP, column); });
}
// A tile of KB rows across k, COLUMNS numbers each; at(column)(k) is where they lie.
template <class P, int BYTES, int COLUMNS, int PITCH, class F>
__device__ static void fetch_across(char *tile, const typename P::E *any, F at) {
  constexpr int EACH = BYTES / P::SIZE, ACROSS = COLUMNS / EACH, STEP = P::THREADS / ACROSS;
  int column = threadIdx.x % ACROSS, first = threadIdx.x / ACROSS;
  auto row_at = at(column * EACH);
  copy_pieces<BYTES, P::KB / STEP>(
      any, [&](int i) { return row_at(first + i * STEP); },
      [&](int i) { return tile + (first + i * STEP) * PITCH + column * BYTES; });
}
// Runs the statement with BYTES, the piece that `bytes` names.
#define BY_PIECE(bytes, ...)                                                                                 \
  if ((bytes) == 16) {                                                                                       \
    constexpr int BYTES = 16;                                                                                \
    __VA_ARGS__;                                                                                             \
  } else                                                                                                     \
    BY_SMALL_PIECE(bytes, __VA_ARGS__)
#define BY_SMALL_PIECE(bytes, ...)                                                                           \
  if (P::SIZE == 4 || (bytes) == 4) {                                                                        \
    constexpr int BYTES = 4;                                                                                 \
    __VA_ARGS__;                                                                                             \
  } else if constexpr (P::SIZE == 2) {                                                                       \
    constexpr int BYTES = 2;                                                                                 \
    __VA_ARGS__;                                                                                             \
  }

// 16 rows of A and 16 columns of B, and a step of k: 32 bytes of a row.
template <class P, bool ALONG>
__device__ static void rows_of(factor<typename P::E, 4> *a, const char *tile, int row, int step) {
  int lane = threadIdx.x % WARP;
  uint32_t raw[4];
  if constexpr (ALONG) {
    load_fragments(raw, tile + swizzled(row + lane % 16, 2 * step + lane / 16));
  } else if constexpr (P::SIZE == 2) {
    load_fragments_transposed(raw, tile + (step * 16 + lane / 16 * 8 + lane % 8) * P::A_PITCH +
                                       (row + lane / 8 % 2 * 8) * 2);
  } else {
    const uint32_t *at = (const uint32_t *)(tile + (step * 8 + lane % 4) * P::A_PITCH) + row + lane / 4;
    raw[0] = at[0], raw[1] = at[8], raw[2] = at[P::A_PITCH], raw[3] = at[P::A_PITCH + 8];
  }
  a->set(raw);
}
template <class P, bool ALONG>
__device__ static void columns_of(factor<typename P::E, 4> *b, const char *tile, int column, int step) {
  int lane = threadIdx.x % WARP;
  uint32_t raw[4];
  if constexpr (ALONG) {
    load_fragments(raw, tile + swizzled(column + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
  } else if constexpr (P::SIZE == 2) {
    load_fragments_transposed(raw,
                              tile + (step * 16 + lane % 16) * P::B_PITCH + (column + lane / 16 * 8) * 2);
  } else {
    const uint32_t *at = (const uint32_t *)(tile + (step * 8 + lane % 4) * P::B_PITCH) + column + lane / 4;
    raw[0] = at[0], raw[1] = at[P::B_PITCH], raw[2] = at[8], raw[3] = at[P::B_PITCH + 8];
  }
  b->set(raw);
}

template <class P> using sums_t = float[P::STRIPS][P::PAIRS * 2][4];

template <class P, bool A_ALONG, bool B_ALONG>
__device__ static void add_steps(sums_t<P> &sum, const char *a_tile, const char *b_tile, int row,
                                 int column) {
#pragma unroll
  for (int step = 0; step < ROW_BYTES / 32; step++) {
    factor<typename P::E, 4> a[P::STRIPS], b[P::PAIRS];
#pragma unroll
    for (int m = 0; m < P::STRIPS; m++)
      rows_of<P, A_ALONG>(&a[m], a_tile, row + m * 16, step);
#pragma unroll
    for (int n = 0; n < P::PAIRS; n++)
      columns_of<P, B_ALONG>(&b[n], b_tile, column + n * 16, step);
#pragma unroll
    for (int which = 0; which < PRODUCTS<typename P::E>; which++)
#pragma unroll
      for (int m = 0; m < P::STRIPS; m++)
#pragma unroll
        for (int n = 0; n < P::PAIRS * 2; n++)
          multiply(sum[m][n], a[m], b[n / 2], n % 2 * 2, which);
  }
}

// Tensor cores cut what they add to a sum instead of rounding it. Split factors would lose their exactness to that over many
// additions, so a tile has sums of its own.
template <class P, bool A_ALONG, bool B_ALONG>
__device__ static void add_tile(sums_t<P> &sum, const char *a_tile, const char *b_tile, int row, int column) {
  if constexpr (PRODUCTS<typename P::E> == 1) {
    add_steps<P, A_ALONG, B_ALONG>(sum, a_tile, b_tile, row, column);
  } else {
    sums_t<P> part = {};
    add_steps<P, A_ALONG, B_ALONG>(part, a_tile, b_tile, row, column);
#pragma unroll
    for (int m = 0; m < P::STRIPS; m++)
#pragma unroll
      for (int n = 0; n < P::PAIRS * 2; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          sum[m][n][e] += part[m][n][e];
  }
}

// Writes two neighbouring sums, or their parts.
template <class T>
__device__ static void put(const product_task &p, int64_t at, int column, int part, const float *v,
                           bool second) {
  if (p.parts > 1) {
    float *to = p.part + part * p.count + at;
    to[0] = v[0];
    if (second) to[1] = v[1];
    return;
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (i == 1 && !second) return;
    float y = finished<T>(p, v[i], at + i, column + i);
    if (p.wide)
      ((float *)p.out)[at + i] = y;
    else
      ((T *)p.out)[at + i] = rounded<T>(y);
  }
}

// Grid: tiles of m, tiles of n, groups times parts of k.
template <int PASS, class P>
__global__ void __launch_bounds__(P::THREADS, P::BLOCKS) tensor_product_kernel(gather_t t) {
#if __CUDA_ARCH__ >= 800
  typedef typename P::E E;
  constexpr bool A_ALONG = PASS != DW, B_ALONG = PASS == FORWARD;
  extern __shared__ float4 shared[];
  constexpr int STEP = P::THREADS / (ROW_BYTES / 16), OWN = P::BM / STEP;
  __shared__ place_t rows[A_ALONG ? P::BM : 1], ks[2][B_ALONG ? 1 : P::KB];
  const product_task &p = t.p;
  const conv_shape &s = p.s;
  char *a_tiles = (char *)shared, *b_tiles = a_tiles + STAGES * P::A_BYTES;
  const E *a = (const E *)p.a, *b = (const E *)p.b;
  int g = blockIdx.z / p.parts, part = blockIdx.z % p.parts, m0 = blockIdx.x * P::BM, n0 = blockIdx.y * P::BN;
  int chunk = ((p.k + P::KB - 1) / P::KB + p.parts - 1) / p.parts * P::KB;
  int begin = part * chunk, end = begin + chunk < p.k ? begin + chunk : p.k;
  int count = end > begin ? (end - begin + P::KB - 1) / P::KB : 0;
  for (int i = threadIdx.x; A_ALONG && i < P::BM; i += P::THREADS)
    rows[i] = place_of<PASS>(t, m0 + i, p.m);
  place_t own[OWN]; // rows of which a thread copies 16 bytes
#pragma unroll
  for (int i = 0; A_ALONG && i < OWN; i++)
    own[i] = place_of<PASS>(t, m0 + (int)threadIdx.x / (ROW_BYTES / 16) + i * STEP, p.m);
  auto note = [&](int j) { // rows of B's tile j, where they are k
    int i = threadIdx.x, k = begin + j * P::KB + i;
    if (B_ALONG || i >= P::KB) return;
    if (PASS == DW) {
      ks[j % 2][i] = place_of<PASS>(t, k, end);
    } else {
      int window = (int)t.by_channels.of((uint32_t)k);
      ks[j % 2][i] = {k < end ? (g * s.og + k - window * s.og) * (s.kh * s.kw) + window : -1, 0, 0};
    }
  };
  auto fetch = [&](int j) {
    char *a_tile = a_tiles + j % STAGES * P::A_BYTES, *b_tile = b_tiles + j % STAGES * P::B_BYTES;
    int k0 = begin + j * P::KB;
    if constexpr (A_ALONG) {
      auto with = [&](place_t row, tap_t tap) {
        return PASS == FORWARD ? in_image(t, a, g, row, tap) : in_slope(t, a, g, row, tap);
      };
      if (p.a_bytes == 16) {
        tap_t tap = tap_of<PASS>(t, k0 + (int)threadIdx.x % (ROW_BYTES / 16) * (16 / P::SIZE), end);
        fetch_own<P, P::BM>(a_tile, a, [&](int i) { return with(own[i], tap); });
      } else {
        auto at = [&](int k) {
          tap_t tap = tap_of<PASS>(t, k0 + k, end);
          return [&, tap](int row) { return with(rows[row], tap); };
        };
        BY_SMALL_PIECE(p.a_bytes, fetch_along<P, BYTES, P::BM>(a_tile, a, at))
      }
    } else {
      auto at = [&](int column) {
        const E *from = m0 + column < p.m ? a + g * s.og + m0 + column : nullptr;
        return [&, from](int k) { return from && k0 + k < end ? from + (int64_t)(k0 + k) * s.o : nullptr; };
      };
      BY_PIECE(p.a_bytes, fetch_across<P, BYTES, P::BM, P::A_PITCH>(a_tile, a, at))
    }
    if constexpr (B_ALONG) {
      auto at = [&](int k) {
        const E *from = k0 + k < end ? b + (int64_t)(g * s.og + n0) * p.k + k0 + k : nullptr;
        return [&, from](int row) { return from && n0 + row < p.n ? from + (int64_t)row * p.k : nullptr; };
      };
      BY_PIECE(p.b_bytes, fetch_along<P, BYTES, P::BN>(b_tile, b, at))
    } else {
      const place_t *k_places = ks[j % 2];
      auto at = [&](int column) {
        int n = n0 + column;
        tap_t tap = PASS == DW ? tap_of<PASS>(t, n, p.n) : tap_t{0, 0, n < p.n ? n : -1};
        return [&, tap](int k) {
          place_t r = k_places[k];
          if (PASS == DW) return in_image(t, b, g, r, tap);
          return r.base < 0 || tap.c < 0 ? nullptr : b + (int64_t)r.base * s.cg + tap.c;
        };
      };
      BY_PIECE(p.b_bytes, fetch_across<P, BYTES, P::BN, P::B_PITCH>(b_tile, b, at))
    }
  };
  int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  int row = warp % (P::BM / P::WM) * P::WM, column = warp / (P::BM / P::WM) * P::WN;
  sums_t<P> sum = {};
  note(0);
#pragma unroll 1
  for (int j = 0; j < count + STAGES - 1; j++) {
    copies_wait<STAGES - 2>();
    __syncthreads(); // all have tile j - (STAGES - 1), and are done with the one whose place tile j takes
    if (j < count) fetch(j);
    copies_end();
    if (j + 1 < count) note(j + 1);
    int ready = j - (STAGES - 1);
    if (ready >= 0)
      add_tile<P, A_ALONG, B_ALONG>(sum, a_tiles + ready % STAGES * P::A_BYTES,
                                    b_tiles + ready % STAGES * P::B_BYTES, row, column);
  }
#pragma unroll
  for (int m = 0; m < P::STRIPS; m++)
#pragma unroll
    for (int n = 0; n < P::PAIRS * 2; n++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int at_m = m0 + row + m * 16 + half * 8 + lane / 4, at_n = n0 + column + n * 8 + lane % 4 * 2;
        if (at_m >= p.m || at_n >= p.n) continue;
        int64_t at = PASS == DW ? (int64_t)(g * s.og + at_m) * p.n + at_n
                                : (int64_t)at_m * (PASS == DX ? s.c : s.o) + g * p.n + at_n;
        put<E>(p, at, g * p.n + at_n, part, sum[m][n] + 2 * half, at_n + 1 < p.n);
      }
#else
  (void)t;
#endif
}

template <int PASS, class P> static int run_product(ls_stream_t *stream, const product_task &p) {
  const conv_shape &s = p.s;
  gather_t t = {p,
                quick_divisor(PASS == DX ? s.og : s.cg),
                quick_divisor(s.kw),
                quick_divisor(PASS == DX ? s.w : s.ow),
                quick_divisor(PASS == DX ? s.h : s.oh),
                quick_divisor(s.sh),
                quick_divisor(s.sw)};
  dim3 grid((unsigned)((p.m + P::BM - 1) / P::BM), (unsigned)((p.n + P::BN - 1) / P::BN), 1);
  int64_t blocks = (int64_t)grid.x * grid.y * p.groups;
  t.p.parts = product_parts(stream, p, blocks, P::KB, &t.p.part);
  grid.z = (unsigned)(p.groups * t.p.parts);
  int error = kernel_ready(tensor_product_kernel<PASS, P>, 80, P::SHARED);
  if (error) return error;
  tensor_product_kernel<PASS, P><<<grid, P::THREADS, P::SHARED, ls_kernel_stream(stream)>>>(t);
  error = launched();
  return error || t.p.parts == 1 ? error : product_finish<typename P::E>(stream, t.p);
}

// The plans: wide tiles, small ones for few sums, narrow ones for few columns (of DW: rows).
template <int PASS, class E, int BLOCKS>
static int product_as(ls_stream_t *stream, const product_task &p, int which) {
  typedef tile_plan<E, 128, 128, 64, 32, BLOCKS> wide;
  typedef tile_plan<E, 64, 64, 32, 32, 2 * BLOCKS> small;
  typedef tile_plan<E, PASS == DW ? 32 : 128, PASS == DW ? 128 : 32, 32, 32, 2 * BLOCKS> narrow;
  return which & LS_TENSOR_NARROW  ? run_product<PASS, narrow>(stream, p)
         : which & LS_TENSOR_SMALL ? run_product<PASS, small>(stream, p)
                                   : run_product<PASS, wide>(stream, p);
}
template <class E, int BLOCKS>
static int product_with(ls_stream_t *stream, const product_task &p, int pass, int which) {
  return pass == FORWARD ? product_as<FORWARD, E, BLOCKS>(stream, p, which)
         : pass == DX    ? product_as<DX, E, BLOCKS>(stream, p, which)
                         : product_as<DW, E, BLOCKS>(stream, p, which);
}
