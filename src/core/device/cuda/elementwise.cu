// Kernels that treat every element alone: activations and their gradients, add, mul, copy, normalize, fill, dropout;
// and tree_sum.
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

template <class T, class F>
__global__ void map_kernel(const T *x, T *y, int64_t count, int64_t vectors, F f) {
  constexpr int N = WIDE<T>;
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    some<T, N> v = load<N>(x + N * i);
    float r[N];
#pragma unroll
    for (int e = 0; e < N; e++)
      r[e] = f(v[e]);
    store(y + N * i, r);
  }
  for (int64_t i = N * vectors + thread_index(); i < count; i += thread_count())
    y[i] = rounded<T>(f(f32_of(x[i])));
}

template <class T, class F>
__global__ void zip_kernel(const T *a, const T *b, T *y, int64_t count, int64_t vectors, F f) {
  constexpr int N = WIDE<T>;
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    some<T, N> u = load<N>(a + N * i), v = load<N>(b + N * i);
    float r[N];
#pragma unroll
    for (int e = 0; e < N; e++)
      r[e] = f(u[e], v[e]);
    store(y + N * i, r);
  }
  for (int64_t i = N * vectors + thread_index(); i < count; i += thread_count())
    y[i] = rounded<T>(f(f32_of(a[i]), f32_of(b[i])));
}

template <class F> static ls_status_t map(ls_stream_t *stream, args_t args, const char *op, F f) {
  int64_t count = in_count(args, 0);
  bool aligned = aligned16(in(args, 0), out(args, 0));
  if (count <= 0) return LS_OK;
  BY_DTYPE(in_dtype(args, 0), int64_t vectors = vectors_of<T>(count, aligned);
           map_kernel<<<grid_for_each<T>(count, vectors), BLOCK, 0, ls_kernel_stream(stream)>>>(
               in<T>(args, 0), out<T>(args, 0), count, vectors, f))
  return launched(stream, op);
}

// y may be an input.
template <class F>
static ls_status_t zip(ls_stream_t *stream, const ls_tensor_t &a, const ls_tensor_t &b, const ls_tensor_t &y,
                       const char *op, F f) {
  int64_t count = ls_shape_count(&a.shape);
  bool aligned = aligned16(a.data, b.data, y.data);
  if (count <= 0) return LS_OK;
  BY_DTYPE(a.shape.dtype, int64_t vectors = vectors_of<T>(count, aligned);
           zip_kernel<<<grid_for_each<T>(count, vectors), BLOCK, 0, ls_kernel_stream(stream)>>>(
               (const T *)a.data, (const T *)b.data, (T *)y.data, count, vectors, f))
  return launched(stream, op);
}

#define MAP(op, expression)                                                                                  \
  struct op##_each {                                                                                         \
    __device__ float operator()(float x) const { return expression; }                                        \
  };                                                                                                         \
  static ls_status_t op(ls_stream_t *stream, args_t args) {                                                  \
    return map(stream, args, #op, op##_each());                                                              \
  }
#define ZIP(op, expression)                                                                                  \
  struct op##_each {                                                                                         \
    __device__ float operator()(float a, float b) const { return expression; }                               \
  };                                                                                                         \
  static ls_status_t op(ls_stream_t *stream, args_t args) {                                                  \
    return zip(stream, args->in[0], args->in[1], args->out[0], #op, op##_each());                            \
  }
MAP(relu, ls_each_relu(x))
MAP(gelu, ls_each_gelu(x))
MAP(tanh_op, ls_each_tanh(x))
MAP(sigmoid, ls_each_sigmoid(x))
MAP(gelu_tanh, ls_each_gelu_tanh(x))
MAP(silu, ls_each_silu(x))
MAP(copy, x)
ZIP(add, a + b)
ZIP(mul, (a * b))
ZIP(relu_dy, ls_each_relu_dy(a, b))
ZIP(gelu_dx, ls_each_gelu_dx(a, b))
ZIP(tanh_dy, ls_each_tanh_dy(a, b))
ZIP(sigmoid_dy, ls_each_sigmoid_dy(a, b))
ZIP(gelu_tanh_dx, ls_each_gelu_tanh_dx(a, b))
ZIP(silu_dx, ls_each_silu_dx(a, b))

static ls_status_t accumulate(ls_stream_t *stream, args_t args) {
  return zip(stream, args->out[0], args->in[0], args->out[0], "accumulate", add_each());
}

// Numbers whose mean and scale depend on their channel.
template <class X, class Y>
__global__ void normalize_channels_kernel(const X *x, const unsigned char *step, Y *y, int64_t count,
                                          int channels) {
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    size_t at = (size_t)(i % channels) * sizeof(float);
    y[i] = rounded<Y>(ls_each_normalize(x[i], load_f32(step + offsetof(ls_step_params_t, mean) + at),
                                        load_f32(step + offsetof(ls_step_params_t, scale) + at)));
  }
}

// Four numbers at a time where x and y begin at a multiple of four.
template <class X, class Y>
__global__ void normalize_kernel(const X *x, const unsigned char *step, Y *y, int64_t count, bool even) {
  double mean = load_f32(step + offsetof(ls_step_params_t, mean));
  double scale = load_f32(step + offsetof(ls_step_params_t, scale));
  int64_t vectors = even ? count / 4 : 0;
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    const some<X, 4> v = *(const some<X, 4> *)(x + 4 * i);
    float r[4];
#pragma unroll
    for (int e = 0; e < 4; e++)
      r[e] = ls_each_normalize(v.v[e], mean, scale);
    store(y + 4 * i, r);
  }
  for (int64_t i = 4 * vectors + thread_index(); i < count; i += thread_count())
    y[i] = rounded<Y>(ls_each_normalize(x[i], mean, scale));
}

// The bits of the host's casts, those of NaNs included.
__device__ static float exact(float x) {
  return x;
}
__device__ static float exact(bf16_t x) {
  uint16_t bits;
  memcpy(&bits, &x, sizeof bits);
  return ls_f32_of_bf16(bits);
}
__device__ static float exact(f16_t x) {
  uint16_t bits;
  memcpy(&bits, &x, sizeof bits);
  return ls_f32_of_f16(bits);
}
__device__ static void exact(float x, float *to) {
  *to = x;
}
__device__ static void exact(float x, bf16_t *to) {
  uint16_t bits = ls_bf16_of_f32(x);
  memcpy((void *)to, &bits, sizeof bits);
}
__device__ static void exact(float x, f16_t *to) {
  uint16_t bits = ls_f16_of_f32(x);
  memcpy((void *)to, &bits, sizeof bits);
}

template <class X, class Y> __global__ void cast_kernel(const X *x, Y *y, int64_t count, bool even) {
  int64_t vectors = even ? count / 4 : 0;
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    some<X, 4> v = load<4>(x + 4 * i);
    some<Y, 4> r;
#pragma unroll
    for (int e = 0; e < 4; e++)
      exact(exact(v.v[e]), &r.v[e]);
    *(some<Y, 4> *)(y + 4 * i) = r;
  }
  for (int64_t i = 4 * vectors + thread_index(); i < count; i += thread_count())
    exact(exact(x[i]), &y[i]);
}

template <class X, class Y> static bool four_of(const X *x, const Y *y) {
  return (uintptr_t)x % (4 * sizeof(X)) == 0 && (uintptr_t)y % (4 * sizeof(Y)) == 0;
}

template <class X> static void normalize_as(ls_stream_t *stream, args_t args) {
  int64_t count = in_count(args, 0);
  int channels = (int)args->attrs->i[0];
  if (channels > 0) {
    BY_DTYPE(
        out_dtype(args, 0),
        normalize_channels_kernel<<<grid_for(count, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
            in<X>(args, 0), in<unsigned char>(args, 1), out<T>(args, 0), count, channels))
    return;
  }
  BY_DTYPE(out_dtype(args, 0),
           normalize_kernel<<<grid_for(count, 4 * BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
               in<X>(args, 0), in<unsigned char>(args, 1), out<T>(args, 0), count,
               four_of(in<X>(args, 0), out<T>(args, 0))))
}

static ls_status_t normalize(ls_stream_t *stream, args_t args) {
  switch (in_dtype(args, 0)) {
  case LS_U8:
    normalize_as<uint8_t>(stream, args);
    break;
  case LS_U16:
    normalize_as<uint16_t>(stream, args);
    break;
  default:
    normalize_as<int32_t>(stream, args);
  }
  return launched(stream, "normalize");
}

template <class X> static void cast_from(ls_stream_t *stream, args_t args) {
  int64_t count = in_count(args, 0);
  BY_DTYPE(out_dtype(args, 0),
           cast_kernel<<<grid_for(count, 4 * BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
               in<X>(args, 0), out<T>(args, 0), count, four_of(in<X>(args, 0), out<T>(args, 0))))
}

static ls_status_t cast(ls_stream_t *stream, args_t args) {
  BY_DTYPE(in_dtype(args, 0), cast_from<T>(stream, args))
  return launched(stream, "cast");
}

// PARTS 0: as many as `parts` says, by a loop over sums in local memory; two and four are written out.
template <int PARTS> __global__ void tree_sum_kernel(const float *x, float *y, int64_t parts, int64_t count) {
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    if (PARTS == 2)
      y[i] = x[i] + x[count + i];
    else if (PARTS == 4)
      y[i] = (x[i] + x[count + i]) + (x[2 * count + i] + x[3 * count + i]);
    else
      y[i] = ls_each_tree_sum(x + i, parts, count);
  }
}

static ls_status_t tree_sum(ls_stream_t *stream, args_t args) {
  int64_t parts = in_rows(args, 0), count = out_count(args, 0);
  auto *kernel = parts == 2 ? tree_sum_kernel<2> : parts == 4 ? tree_sum_kernel<4> : tree_sum_kernel<0>;
  kernel<<<grid_for(count, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(in(args, 0), out(args, 0),
                                                                                   parts, count);
  return launched(stream, "tree_sum");
}

__global__ void fill_kernel(float value, float *y, int64_t count) {
  for (int64_t i = thread_index(); i < count; i += thread_count())
    y[i] = value;
}

int ls_kernel_fill(ls_kernel_stream_t stream, float value, float *y, int64_t count) {
  if (count <= 0) return cudaSuccess;
  fill_kernel<<<grid_for(count, BLOCK, GRID_MAX), BLOCK, 0, stream>>>(value, y, count);
  return launched();
}

static ls_status_t fill(ls_stream_t *stream, args_t args) {
  int error =
      ls_kernel_fill(ls_kernel_stream(stream), (float)args->attrs->f[0], out(args, 0), out_count(args, 0));
  return ls_kernel_status(stream, error, "fill");
}

// A thread makes the four words of one counter and uses them for elements 4 q .. 4 q + 3 of a row.
template <class T>
__global__ void dropout_kernel(const T *x, const unsigned char *step, uint32_t rng_stream, float rate,
                               float scale, T *y, int64_t rows, int64_t row, int64_t quads, bool vector) {
  uint64_t seed = load_u64(step + offsetof(ls_step_params_t, seed));
  uint64_t position = load_u64(step + offsetof(ls_step_params_t, position));
  int64_t q = plane_column();
  if (q >= quads) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    ls_rng4_t words = ls_rng(seed, rng_stream, (position + (uint64_t)r) * (uint64_t)quads + (uint64_t)q);
    int64_t at = r * row + 4 * q;
    if (vector) {
      some<T, 4> v = load<4>(x + at);
      float kept[4];
#pragma unroll
      for (int e = 0; e < 4; e++)
        kept[e] = ls_each_dropout(v[e], words.v[e], rate, scale);
      store(y + at, kept);
    } else {
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (4 * q + e < row)
          y[at + e] = rounded<T>(ls_each_dropout(f32_of(x[at + e]), words.v[e], rate, scale));
    }
  }
}

static ls_status_t dropout(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0), row = in_width(args, 0), quads = (row + 3) / 4;
  uint32_t rng_stream = LS_RNG_DROPOUT + (uint32_t)args->attrs->i[0];
  double rate = args->attrs->f[0];
  plane p = plane_for(rows, quads);
  BY_DTYPE(in_dtype(args, 0),
           dropout_kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
               in<T>(args, 0), in<unsigned char>(args, 1), rng_stream, (float)rate, (float)(1 / (1 - rate)),
               out<T>(args, 0), rows, row, quads, row % 4 == 0 && four_of(in<T>(args, 0), out<T>(args, 0))))
  return launched(stream, "dropout");
}

// A row is dropped whole: a thread draws once for its part of it.
template <class T, int N>
__global__ void drop_rows_kernel(const T *x, const unsigned char *step, uint32_t rng_stream, float rate,
                                 float scale, T *y, int64_t rows, int64_t row) {
  uint64_t seed = load_u64(step + offsetof(ls_step_params_t, seed));
  uint64_t position = load_u64(step + offsetof(ls_step_params_t, position));
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    uint32_t word = ls_rng(seed, rng_stream, position + (uint64_t)r).v[0];
    for (int64_t e = r * row + N * thread_index(); e < (r + 1) * row; e += N * thread_count()) {
      some<T, N> v = load<N>(x + e);
      float kept[N];
#pragma unroll
      for (int k = 0; k < N; k++)
        kept[k] = ls_each_dropout(v[k], word, rate, scale);
      store(y + e, kept);
    }
  }
}

static ls_status_t drop_rows(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0), row = in_width(args, 0);
  double rate = args->attrs->f[0];
  dim3 grid(grid_for(row, 4 * BLOCK, GRID_MAX), grid_for(rows, 1, 65535));
  bool aligned = aligned16(in(args, 0), out(args, 0));
  BY_DTYPE(in_dtype(args, 0), auto *kernel = aligned && row % WIDE<T> == 0 ? drop_rows_kernel<T, WIDE<T>>
                                                                           : drop_rows_kernel<T, 1>;
           kernel<<<grid, BLOCK, 0, ls_kernel_stream(stream)>>>(
               in<T>(args, 0), in<unsigned char>(args, 1), LS_RNG_DROPOUT + (uint32_t)args->attrs->i[0],
               (float)rate, (float)(1 / (1 - rate)), out<T>(args, 0), rows, row))
  return launched(stream, "drop_rows");
}

const ls_kernel_row_t ls_cuda_elementwise_rows[] = {
    {"relu", relu, true},
    {"relu_dy", relu_dy, true},
    {"gelu", gelu, true},
    {"gelu_dx", gelu_dx, true},
    {"tanh", tanh_op, true},
    {"tanh_dy", tanh_dy, true},
    {"sigmoid", sigmoid, true},
    {"sigmoid_dy", sigmoid_dy, true},
    {"gelu_tanh", gelu_tanh, true},
    {"gelu_tanh_dx", gelu_tanh_dx, true},
    {"silu", silu, true},
    {"silu_dx", silu_dx, true},
    {"add", add, true},
    {"mul", mul, true},
    {"copy", copy, true},
    {"accumulate", accumulate},
    {"normalize", normalize, true},
    {"cast", cast, true},
    {"tree_sum", tree_sum},
    {"fill", fill},
    {"dropout", dropout, true},
    {"drop_rows", drop_rows, true},
    {},
};
