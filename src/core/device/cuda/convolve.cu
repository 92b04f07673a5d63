// Convolutions by our own kernels. Each pass is a matrix product of tiles, one operand of which is gathered from an
// image while a tile is loaded; what differs between the passes is where an element of an operand is. A convolution of
// one channel at a time is a sum over its window alone.
#include "device/cuda/product.cuh"

struct spot {
  int n, y, x; // n < 0: none
};
__device__ static spot spot_of(int r, int rows, int h, int w) {
  if (r >= rows) return {-1, 0, 0};
  int line = r / w;
  return {line / h, line % h, r % w};
}
struct tap {
  int ky, kx, c; // ky < 0: none
};
__device__ static tap tap_of(int k, int count, int kw, int channels) {
  if (k >= count) return {-1, 0, 0};
  int window = k / channels;
  return {window / kw, window % kw, k % channels};
}

// Passes. A (m, k) times B (k, n) for each group g; row, mid and col decompose m, k, n. *_ALONG_K: neighbouring k are
// neighbours in memory, else neighbouring m or n are.

template <class T> struct forward_pass {
  typedef T out_t;
  static constexpr bool A_ALONG_K = true, B_ALONG_K = true;
  conv_shape s;
  const T *x, *weight;
  typedef spot row_t;
  typedef struct {
    tap t;
    int k;
  } mid_t;
  typedef int col_t;
  __device__ row_t row(int m, int rows) const {
    spot at = spot_of(m, rows, s.oh, s.ow);
    at.y = at.y * s.sh - s.top;
    at.x = at.x * s.sw - s.left;
    return at;
  }
  __device__ mid_t mid(int k, int end) const { return {tap_of(k, end, s.kw, s.cg), k}; }
  __device__ col_t col(int n, int cols) const { return n < cols ? n : -1; }
  __device__ float a(int g, row_t r, mid_t k) const {
    if (r.n < 0 || k.t.ky < 0) return 0;
    int64_t at = s.from(r.n, r.y, r.x, k.t.ky, k.t.kx);
    return at < 0 ? 0 : f32_of(x[at + g * s.cg + k.t.c]);
  }
  __device__ float b(int g, mid_t k, col_t n) const {
    if (n < 0 || k.t.ky < 0) return 0;
    return f32_of(weight[(int64_t)(g * s.og + n) * (s.kh * s.kw * s.cg) + k.k]);
  }
  __device__ int64_t out(int g, int m, int n) const { return (int64_t)m * s.o + g * s.og + n; }
};

template <class T> struct dx_pass {
  typedef T out_t;
  static constexpr bool A_ALONG_K = true, B_ALONG_K = false;
  conv_shape s;
  const T *dy, *weight;
  typedef spot row_t;
  typedef tap mid_t;
  typedef int col_t;
  __device__ row_t row(int m, int rows) const {
    spot at = spot_of(m, rows, s.h, s.w);
    at.y += s.top;
    at.x += s.left;
    return at;
  }
  __device__ mid_t mid(int k, int end) const { return tap_of(k, end, s.kw, s.og); }
  __device__ col_t col(int n, int cols) const { return n < cols ? n : -1; }
  __device__ float a(int g, row_t r, mid_t k) const {
    if (r.n < 0 || k.ky < 0) return 0;
    int64_t at = s.to(r.n, r.y, r.x, k.ky, k.kx);
    return at < 0 ? 0 : f32_of(dy[at + g * s.og + k.c]);
  }
  __device__ float b(int g, mid_t k, col_t n) const {
    if (n < 0 || k.ky < 0) return 0;
    return f32_of(weight[((int64_t)(g * s.og + k.c) * (s.kh * s.kw) + k.ky * s.kw + k.kx) * s.cg + n]);
  }
  __device__ int64_t out(int g, int m, int n) const { return (int64_t)m * s.c + g * s.cg + n; }
};

template <class T> struct dw_pass {
  typedef float out_t;
  static constexpr bool A_ALONG_K = false, B_ALONG_K = false;
  conv_shape s;
  const T *dy, *x;
  typedef int row_t;
  typedef struct {
    spot at;
    int k;
  } mid_t;
  typedef tap col_t;
  __device__ row_t row(int m, int rows) const { return m < rows ? m : -1; }
  __device__ mid_t mid(int k, int end) const {
    spot at = spot_of(k, end, s.oh, s.ow);
    at.y = at.y * s.sh - s.top;
    at.x = at.x * s.sw - s.left;
    return {at, k};
  }
  __device__ col_t col(int n, int cols) const { return tap_of(n, cols, s.kw, s.cg); }
  __device__ float a(int g, row_t m, mid_t k) const {
    return m < 0 || k.at.n < 0 ? 0 : f32_of(dy[(int64_t)k.k * s.o + g * s.og + m]);
  }
  __device__ float b(int g, mid_t k, col_t t) const {
    if (t.ky < 0 || k.at.n < 0) return 0;
    int64_t at = s.from(k.at.n, k.at.y, k.at.x, t.ky, t.kx);
    return at < 0 ? 0 : f32_of(x[at + g * s.cg + t.c]);
  }
  __device__ int64_t out(int g, int m, int n) const {
    return (int64_t)(g * s.og + m) * (s.kh * s.kw * s.cg) + n;
  }
};

enum { TILE = 64, DEPTH = 16, PAD = 4, EACH = 4 };
static_assert(TILE * DEPTH == EACH * BLOCK, "a thread loads EACH elements of a tile");

// Grid: tiles of m, tiles of n, groups times parts of k. Part p writes to out + p * part_count.
template <class P>
__global__ void __launch_bounds__(BLOCK)
    tile_product_kernel(P p, typename P::out_t *out, int m_count, int n_count, int k_count, int parts,
                        int64_t part_count) {
  __shared__ float a[DEPTH][TILE + PAD], b[DEPTH][TILE + PAD];
  int g = blockIdx.z / parts, part = blockIdx.z % parts;
  int chunk = (k_count + parts - 1) / parts, k_begin = part * chunk;
  int k_end = k_begin + chunk < k_count ? k_begin + chunk : k_count;
  int m0 = blockIdx.x * TILE, n0 = blockIdx.y * TILE;
  int along = threadIdx.x % DEPTH, across = threadIdx.x / DEPTH; // loads along k
  int wide = threadIdx.x % TILE, deep = threadIdx.x / TILE;      // loads along m or n
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  typename P::row_t row[EACH];
  typename P::col_t col[EACH];
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    row[e] = p.row(m0 + (P::A_ALONG_K ? across + DEPTH * e : wide), m_count);
    col[e] = p.col(n0 + (P::B_ALONG_K ? across + DEPTH * e : wide), n_count);
  }
  float sum[4][4] = {};
  for (int k0 = k_begin; k0 < k_end; k0 += DEPTH) {
    if (P::A_ALONG_K || P::B_ALONG_K) {
      typename P::mid_t mid = p.mid(k0 + along, k_end);
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        if (P::A_ALONG_K) a[along][across + DEPTH * e] = p.a(g, row[e], mid);
        if (P::B_ALONG_K) b[along][across + DEPTH * e] = p.b(g, mid, col[e]);
      }
    }
    if (!P::A_ALONG_K || !P::B_ALONG_K) {
#pragma unroll
      for (int e = 0; e < EACH; e++) {
        int k = deep + (DEPTH / EACH) * e;
        typename P::mid_t mid = p.mid(k0 + k, k_end);
        if (!P::A_ALONG_K) a[k][wide] = p.a(g, row[e], mid);
        if (!P::B_ALONG_K) b[k][wide] = p.b(g, mid, col[e]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
      float4 u = *(const float4 *)&a[k][4 * ty], v = *(const float4 *)&b[k][4 * tx];
      float us[4] = {u.x, u.y, u.z, u.w}, vs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          sum[i][j] += us[i] * vs[j];
    }
    __syncthreads();
  }
  out += part * part_count;
#pragma unroll
  for (int i = 0; i < 4; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      int m = m0 + 4 * ty + i, n = n0 + 4 * tx + j;
      if (m < m_count && n < n_count) out[p.out(g, m, n)] = rounded<typename P::out_t>(sum[i][j]);
    }
}

template <class P>
static int tile_product(cudaStream_t stream, P p, typename P::out_t *out, int m, int n, int k, int groups,
                        int parts, int64_t part_count) {
  dim3 grid((unsigned)((m + TILE - 1) / TILE), (unsigned)((n + TILE - 1) / TILE), (unsigned)(groups * parts));
  tile_product_kernel<<<grid, BLOCK, 0, stream>>>(p, out, m, n, k, parts, part_count);
  return launched();
}

// ---- one channel at a time: cg is 1, and depthwise.cu does not have it ----

template <class T>
__global__ void depthwise_kernel(conv_shape s, const T *x, const T *weight, T *y, int rows) {
  int o = (int)plane_column();
  if (o >= s.o) return;
  for (int r = (int)plane_row(); r < rows; r += (int)plane_row_step()) {
    spot at = spot_of(r, rows, s.oh, s.ow);
    float sum = 0;
    for (int ky = 0; ky < s.kh; ky++)
      for (int kx = 0; kx < s.kw; kx++) {
        int64_t from = s.from(at.n, at.y * s.sh - s.top, at.x * s.sw - s.left, ky, kx);
        if (from >= 0)
          sum += f32_of(x[from + o / s.og]) * f32_of(weight[((int64_t)o * s.kh + ky) * s.kw + kx]);
      }
    y[(int64_t)r * s.o + o] = rounded<T>(sum);
  }
}

template <class T>
__global__ void depthwise_dx_kernel(conv_shape s, const T *dy, const T *weight, T *dx, int rows) {
  int c = (int)plane_column();
  if (c >= s.c) return;
  for (int r = (int)plane_row(); r < rows; r += (int)plane_row_step()) {
    spot at = spot_of(r, rows, s.h, s.w);
    float sum = 0;
    for (int ky = 0; ky < s.kh; ky++)
      for (int kx = 0; kx < s.kw; kx++) {
        int64_t to = s.to(at.n, at.y + s.top, at.x + s.left, ky, kx);
        for (int o = c * s.og; to >= 0 && o < (c + 1) * s.og; o++)
          sum += f32_of(dy[to + o]) * f32_of(weight[((int64_t)o * s.kh + ky) * s.kw + kx]);
      }
    dx[(int64_t)r * s.c + c] = rounded<T>(sum);
  }
}

// A block has 32 channels of one place of the window and one part of the rows.
template <class T>
__global__ void depthwise_dw_kernel(conv_shape s, const T *dy, const T *x, float *dw, int rows) {
  __shared__ float stripe[WARPS][WARP];
  int o = blockIdx.x * WARP + threadIdx.x, ky = blockIdx.y / s.kw, kx = blockIdx.y % s.kw;
  int chunk = (rows + (int)gridDim.z - 1) / (int)gridDim.z, begin = (int)blockIdx.z * chunk;
  int end = begin + chunk < rows ? begin + chunk : rows;
  float sum = 0;
  if (o < s.o)
    for (int r = begin + threadIdx.y; r < end; r += WARPS) {
      spot at = spot_of(r, rows, s.oh, s.ow);
      int64_t from = s.from(at.n, at.y * s.sh - s.top, at.x * s.sw - s.left, ky, kx);
      if (from >= 0) sum += f32_of(dy[(int64_t)r * s.o + o]) * f32_of(x[from + o / s.og]);
    }
  stripe[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || o >= s.o) return;
  sum = 0;
#pragma unroll
  for (int k = 0; k < WARPS; k++)
    sum += stripe[k][threadIdx.x];
  dw[((int64_t)blockIdx.z * s.o + o) * (s.kh * s.kw) + blockIdx.y] = sum;
}

// ---- the passes' launches ----

bool conv_shape_of(const ls_attrs_t *attrs, const ls_shape_t &x, const ls_shape_t &w, const ls_shape_t &y,
                   conv_shape *s) {
  const int64_t *i = attrs->i, most = INT32_MAX / 2;
  if (x.dim[0] * x.dim[1] * x.dim[2] > most || y.dim[0] * y.dim[1] * y.dim[2] > most ||
      ls_shape_inner(&w, 1) > most || w.dim[1] * w.dim[2] * w.dim[0] > most)
    return false;
  *s = {(int)x.dim[0],
        (int)x.dim[1],
        (int)x.dim[2],
        (int)x.dim[3],
        (int)y.dim[1],
        (int)y.dim[2],
        (int)y.dim[3],
        (int)w.dim[1],
        (int)w.dim[2],
        (int)w.dim[3],
        (int)(w.dim[0] / i[8]),
        (int)i[0],
        (int)i[1],
        (int)i[2],
        (int)i[3],
        (int)i[6],
        (int)i[7]};
  return true;
}

bool ls_kernel_conv_few(const ls_attrs_t *attrs, const ls_shape_t *x, const ls_shape_t *w,
                        const ls_shape_t *y) {
  conv_shape s;
  return conv_shape_of(attrs, *x, *w, *y, &s) && few_channels(s, x->dtype);
}

// Every sh-th row and sw-th column of images of `vectors` x 16 bytes a position.
__global__ void take_positions_kernel(const uint4 *x, uint4 *y, int rows, int vectors, int oh, int ow, int h,
                                      int w, int sh, int sw) {
  int c = (int)plane_column();
  if (c >= vectors) return;
  for (int r = (int)plane_row(); r < rows; r += (int)plane_row_step()) {
    spot at = spot_of(r, rows, oh, ow);
    y[(int64_t)r * vectors + c] = x[(((int64_t)at.n * h + at.y * sh) * w + at.x * sw) * vectors + c];
  }
}

int ls_kernel_take_positions(ls_kernel_stream_t stream, const ls_tensor_t *x, const ls_tensor_t *y, int sh,
                             int sw) {
  const int64_t *from = x->shape.dim, *to = y->shape.dim;
  int rows = (int)(to[0] * to[1] * to[2]),
      vectors = (int)(to[3] * (int64_t)ls_dtype_bytes(y->shape.dtype) / 16);
  plane p = plane_for(rows, vectors);
  take_positions_kernel<<<p.grid, p.block, 0, stream>>>((const uint4 *)x->data, (uint4 *)y->data, rows,
                                                        vectors, (int)to[1], (int)to[2], (int)from[1],
                                                        (int)from[2], sh, sw);
  return launched();
}

int ls_kernel_conv2d(ls_stream_t *stream, args_t args) {
  conv_shape s;
  if (!conv_shape_of(args->attrs, args->in[0].shape, args->in[1].shape, args->out[0].shape, &s))
    return cudaErrorNotSupported;
  cudaStream_t handle = ls_kernel_stream(stream);
  int rows = s.n * s.oh * s.ow, error = 0;
  bool done = false;
  if (s.cg == 1)
    error = depthwise_forward(handle, s, in_dtype(args, 0), in(args, 0), in(args, 1), out(args, 0), &done);
  else if ((done = aligned16(in(args, 0), out(args, 0)) && few_channels(s, in_dtype(args, 0))))
    error = few_forward(stream, s, in_dtype(args, 0), in(args, 0), in(args, 1), out(args, 0));
  if (error || done) return error;
  plane p = plane_for(rows, s.o);
  BY_DTYPE(in_dtype(args, 0), const T *x = in<T>(args, 0), *weight = in<T>(args, 1);
           if (s.cg > 1) error = tile_product(handle, forward_pass<T>{s, x, weight}, out<T>(args, 0), rows,
                                              s.og, s.kh * s.kw * s.cg, s.o / s.og, 1, 0);
           else depthwise_kernel<<<p.grid, p.block, 0, handle>>>(s, x, weight, out<T>(args, 0), rows))
  return error ? error : launched();
}

int ls_kernel_conv2d_dx(ls_stream_t *stream, args_t args) {
  conv_shape s;
  if (!conv_shape_of(args->attrs, args->out[0].shape, args->in[1].shape, args->in[0].shape, &s))
    return cudaErrorNotSupported;
  cudaStream_t handle = ls_kernel_stream(stream);
  int rows = s.n * s.h * s.w, error = 0;
  bool done = false;
  if (s.cg == 1)
    error = depthwise_dx(handle, s, in_dtype(args, 0), in(args, 0), in(args, 1), out(args, 0), &done);
  if (error || done) return error;
  plane p = plane_for(rows, s.c);
  BY_DTYPE(in_dtype(args, 0), const T *dy = in<T>(args, 0), *weight = in<T>(args, 1);
           if (s.cg > 1) error = tile_product(handle, dx_pass<T>{s, dy, weight}, out<T>(args, 0), rows, s.cg,
                                              s.kh * s.kw * s.og, s.o / s.og, 1, 0);
           else depthwise_dx_kernel<<<p.grid, p.block, 0, handle>>>(s, dy, weight, out<T>(args, 0), rows))
  return error ? error : launched();
}

// Parts of the rows over which dw is a sum: enough to fill a GPU, as many as fit the workspace.
enum { DW_PART_ROWS = 512, DW_BLOCKS = 1024, DW_PARTS_MAX = 256 };

int ls_kernel_conv2d_dw(ls_stream_t *stream, args_t args) {
  conv_shape s;
  if (!conv_shape_of(args->attrs, args->in[1].shape, args->out[0].shape, args->in[0].shape, &s))
    return cudaErrorNotSupported;
  int error = 0;
  bool done = false;
  if (s.cg == 1)
    error = depthwise_dw(stream, s, in_dtype(args, 0), in(args, 0), in(args, 1), out(args, 0), &done);
  else if ((done = aligned16(in(args, 0), in(args, 1)) && few_channels(s, in_dtype(args, 0))))
    error = few_dw(stream, s, in_dtype(args, 0), in(args, 0), in(args, 1), out(args, 0));
  if (error || done) return error;
  cudaStream_t handle = ls_kernel_stream(stream);
  int rows = s.n * s.oh * s.ow, taps = s.kh * s.kw * s.cg;
  int64_t count = out_count(args, 0);
  int64_t blocks = s.cg > 1 ? (int64_t)(s.o / s.og) * ((s.og + TILE - 1) / TILE) * ((taps + TILE - 1) / TILE)
                            : (int64_t)((s.o + WARP - 1) / WARP) * taps;
  size_t workspace_bytes;
  float *workspace = (float *)ls_kernel_workspace(stream, &workspace_bytes);
  int64_t most = (int64_t)(workspace_bytes / sizeof(float)) / count;
  if (most > DW_BLOCKS / blocks) most = DW_BLOCKS / blocks;
  if (most > DW_PARTS_MAX) most = DW_PARTS_MAX;
  int parts = most < 1 ? 1 : (int)grid_for(rows, DW_PART_ROWS, most);
  float *to = parts > 1 ? workspace : out(args, 0);
  dim3 grid((unsigned)((s.o + WARP - 1) / WARP), (unsigned)taps, (unsigned)parts);
  BY_DTYPE(in_dtype(args, 0), const T *dy = in<T>(args, 0), *x = in<T>(args, 1);
           if (s.cg > 1) error =
               tile_product(handle, dw_pass<T>{s, dy, x}, to, s.og, taps, rows, s.o / s.og, parts, count);
           else depthwise_dw_kernel<<<grid, dim3(WARP, WARPS), 0, handle>>>(s, dy, x, to, rows))
  if (!error) error = launched();
  if (!error && parts > 1) error = ls_kernel_add_parts(stream, workspace, out(args, 0), count, parts);
  return error;
}

// ---- on tensor cores ----

// Bytes in which an operand may be copied whose rows, groups and address are multiples of these.
static int piece_of(const ls_tensor_t *t, int64_t a, int64_t b) {
  int64_t bits = (a | b) * (int64_t)ls_dtype_bytes(t->shape.dtype) | (int64_t)(uintptr_t)t->data;
  return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 2;
}

// p.s is set.
static int tensor_pass(ls_stream_t *stream, product_task p, const ls_tensor_t *x, const ls_tensor_t *w,
                       const ls_tensor_t *y, int pass, int which) {
  const conv_shape &s = p.s;
  const ls_tensor_t *out = pass == FORWARD ? y : pass == DX ? x : w;
  int taps = s.kh * s.kw;
  p.groups = s.o / s.og;
  p.m = pass == FORWARD ? s.n * s.oh * s.ow : pass == DX ? s.n * s.h * s.w : s.og;
  p.n = pass == FORWARD ? s.og : pass == DX ? s.cg : taps * s.cg;
  p.k = pass == FORWARD ? taps * s.cg : pass == DX ? taps * s.og : s.n * s.oh * s.ow;
  p.a = pass == FORWARD ? x->data : y->data;
  p.b = pass == DW ? x->data : w->data;
  p.a_bytes = pass == FORWARD ? piece_of(x, s.c, s.cg) : piece_of(y, s.o, s.og);
  p.b_bytes = pass == FORWARD ? piece_of(w, p.k, p.k)
              : pass == DX    ? piece_of(w, s.cg, s.cg)
                              : piece_of(x, s.c, s.cg);
  p.out = out->data;
  p.wide = out->shape.dtype == LS_F32;
  p.count = ls_shape_count(&out->shape);
  ls_dtype_t dtype = pass == FORWARD ? x->shape.dtype : y->shape.dtype;
  return product_tensor(stream, p, pass, dtype, which);
}

int ls_kernel_conv_tensor(ls_stream_t *stream, const ls_attrs_t *attrs, const ls_tensor_t *x,
                          const ls_tensor_t *w, const ls_tensor_t *y, int pass, int which) {
  product_task p = {};
  if (!conv_shape_of(attrs, x->shape, w->shape, y->shape, &p.s)) return cudaErrorNotSupported;
  return tensor_pass(stream, p, x, w, y, pass, which);
}

// An image of one position for each row.
int ls_kernel_linear_tensor(ls_stream_t *stream, args_t args, int pass, bool relu, int which) {
  const ls_tensor_t *w = pass == DW ? &args->out[0] : &args->in[1];
  const ls_tensor_t *x = pass == FORWARD ? &args->in[0] : pass == DX ? &args->out[0] : &args->in[1];
  const ls_tensor_t *y = pass == FORWARD ? &args->out[0] : &args->in[0];
  int64_t inputs = ls_shape_inner(&w->shape, 1), outputs = w->shape.dim[0],
          rows = ls_shape_count(&y->shape) / outputs;
  if (rows > INT32_MAX / 2 || inputs > INT32_MAX / 2) return cudaErrorNotSupported;
  for (int i = 1; i < args->in_count; i++)
    if (args->in[i].shape.dtype != args->in[0].shape.dtype) return cudaErrorNotSupported;
  if (pass != DW && out_dtype(args, 0) != in_dtype(args, 0)) return cudaErrorNotSupported;
  product_task p = {};
  p.s = {(int)rows, 1, 1, (int)inputs, 1, 1, (int)outputs, 1, 1, (int)inputs, (int)outputs, 1, 1, 0, 0, 1, 1};
  p.relu = relu;
  if (pass == FORWARD) p.bias = args->in[2].data;
  if (pass == DX && args->in_count > 2) p.other = args->in[2].data;
  return tensor_pass(stream, p, x, w, y, pass, which);
}
