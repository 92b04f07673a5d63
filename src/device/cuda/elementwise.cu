// Kernels that treat every element alone: activations and their gradients, add, mul, copy, normalize, fill, dropout;
// and tree_sum.
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

template <class F> __global__ void map_kernel(const float *x, float *y, int64_t count, int64_t vectors, F f) {
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    float4 v = ((const float4 *)x)[i];
    ((float4 *)y)[i] = make_float4(f(v.x), f(v.y), f(v.z), f(v.w));
  }
  for (int64_t i = 4 * vectors + thread_index(); i < count; i += thread_count())
    y[i] = f(x[i]);
}

template <class F>
__global__ void zip_kernel(const float *a, const float *b, float *y, int64_t count, int64_t vectors, F f) {
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    float4 u = ((const float4 *)a)[i], v = ((const float4 *)b)[i];
    ((float4 *)y)[i] = make_float4(f(u.x, v.x), f(u.y, v.y), f(u.z, v.z), f(u.w, v.w));
  }
  for (int64_t i = 4 * vectors + thread_index(); i < count; i += thread_count())
    y[i] = f(a[i], b[i]);
}

template <class F> static ls_status_t map(ls_stream_t *stream, args_t args, const char *op, F f) {
  int64_t count = in_count(args, 0), vectors = vectors_of(count, aligned16(in(args, 0), out(args, 0)));
  if (count <= 0) return LS_OK;
  map_kernel<<<grid_for_each(count, vectors), BLOCK, 0, ls_kernel_stream(stream)>>>(in(args, 0), out(args, 0),
                                                                                    count, vectors, f);
  return launched(stream, op);
}

template <class F>
static ls_status_t zip(ls_stream_t *stream, const float *a, const float *b, float *y, int64_t count,
                       const char *op, F f) {
  int64_t vectors = vectors_of(count, aligned16(a, b, y));
  if (count <= 0) return LS_OK;
  zip_kernel<<<grid_for_each(count, vectors), BLOCK, 0, ls_kernel_stream(stream)>>>(a, b, y, count, vectors,
                                                                                    f);
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
    return zip(stream, in(args, 0), in(args, 1), out(args, 0), in_count(args, 0), #op, op##_each());         \
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
  return zip(stream, out(args, 0), in(args, 0), out(args, 0), in_count(args, 0), "accumulate", add_each());
}

template <class T> struct alignas(4 * sizeof(T)) of_four { T x, y, z, w; };

// Four numbers at a time where x and y begin at a multiple of four.
template <class T>
__global__ void normalize_kernel(const T *x, const unsigned char *step, float *y, int64_t count,
                                 int64_t vectors) {
  double mean = load_f32(step + offsetof(ls_step_params_t, mean));
  double scale = load_f32(step + offsetof(ls_step_params_t, scale));
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    of_four<T> v = ((const of_four<T> *)x)[i];
    ((float4 *)y)[i] = make_float4(ls_each_normalize(v.x, mean, scale), ls_each_normalize(v.y, mean, scale),
                                   ls_each_normalize(v.z, mean, scale), ls_each_normalize(v.w, mean, scale));
  }
  for (int64_t i = 4 * vectors + thread_index(); i < count; i += thread_count())
    y[i] = ls_each_normalize(x[i], mean, scale);
}

template <class T> static void normalize_as(ls_stream_t *stream, args_t args) {
  const T *x = (const T *)args->in[0].data;
  const unsigned char *step = (const unsigned char *)args->in[1].data;
  float *y = out(args, 0);
  int64_t count = in_count(args, 0);
  int64_t vectors = vectors_of(count, (uintptr_t)x % (4 * sizeof(T)) == 0 && aligned16(y));
  normalize_kernel<<<grid_for_each(count, vectors), BLOCK, 0, ls_kernel_stream(stream)>>>(x, step, y, count,
                                                                                          vectors);
}

static ls_status_t normalize(ls_stream_t *stream, args_t args) {
  switch (args->in[0].shape.dtype) {
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

// Four numbers at a time where x and y begin at a multiple of four.
template <class X, class Y> __global__ void cast_kernel(const X *x, Y *y, int64_t count, int64_t vectors) {
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    of_four<X> v = ((const of_four<X> *)x)[i];
    of_four<Y> w = {Y::of(v.x.f32()), Y::of(v.y.f32()), Y::of(v.z.f32()), Y::of(v.w.f32())};
    ((of_four<Y> *)y)[i] = w;
  }
  for (int64_t i = 4 * vectors + thread_index(); i < count; i += thread_count())
    y[i] = Y::of(x[i].f32());
}

#define FLOAT(name, type, to, from)                                                                          \
  struct name {                                                                                              \
    type bits;                                                                                               \
    __device__ float f32() const { return to(bits); }                                                        \
    __device__ static name of(float x) { return {from(x)}; }                                                 \
  }
FLOAT(each_f32, float, , );
FLOAT(each_bf16, uint16_t, ls_f32_of_bf16, ls_bf16_of_f32);
FLOAT(each_f16, uint16_t, ls_f32_of_f16, ls_f16_of_f32);

template <class X, class Y> static void cast_as(ls_stream_t *stream, args_t args) {
  const X *x = (const X *)args->in[0].data;
  Y *y = (Y *)args->out[0].data;
  bool even = (uintptr_t)x % (4 * sizeof(X)) == 0 && (uintptr_t)y % (4 * sizeof(Y)) == 0;
  int64_t count = in_count(args, 0), vectors = vectors_of(count, even);
  cast_kernel<X, Y>
      <<<grid_for_each(count, vectors), BLOCK, 0, ls_kernel_stream(stream)>>>(x, y, count, vectors);
}

template <class X> static void cast_from(ls_stream_t *stream, args_t args) {
  switch (args->out[0].shape.dtype) {
  case LS_BF16:
    return cast_as<X, each_bf16>(stream, args);
  case LS_F16:
    return cast_as<X, each_f16>(stream, args);
  default:
    return cast_as<X, each_f32>(stream, args);
  }
}

static ls_status_t cast(ls_stream_t *stream, args_t args) {
  switch (args->in[0].shape.dtype) {
  case LS_BF16:
    cast_from<each_bf16>(stream, args);
    break;
  case LS_F16:
    cast_from<each_f16>(stream, args);
    break;
  default:
    cast_from<each_f32>(stream, args);
  }
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
__global__ void dropout_kernel(const float *x, const unsigned char *step, uint32_t rng_stream, float rate,
                               float scale, float *y, int64_t rows, int64_t row, int64_t quads, bool vector) {
  uint64_t seed = load_u64(step + offsetof(ls_step_params_t, seed));
  uint64_t position = load_u64(step + offsetof(ls_step_params_t, position));
  int64_t q = plane_column();
  if (q >= quads) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    ls_rng4_t words = ls_rng(seed, rng_stream, (position + (uint64_t)r) * (uint64_t)quads + (uint64_t)q);
    int64_t at = r * row + 4 * q;
    if (vector) {
      float4 v = *(const float4 *)(x + at);
      v.x = ls_each_dropout(v.x, words.v[0], rate, scale);
      v.y = ls_each_dropout(v.y, words.v[1], rate, scale);
      v.z = ls_each_dropout(v.z, words.v[2], rate, scale);
      v.w = ls_each_dropout(v.w, words.v[3], rate, scale);
      *(float4 *)(y + at) = v;
    } else {
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (4 * q + e < row) y[at + e] = ls_each_dropout(x[at + e], words.v[e], rate, scale);
    }
  }
}

static ls_status_t dropout(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0), row = in_width(args, 0), quads = (row + 3) / 4;
  const unsigned char *step = (const unsigned char *)args->in[1].data;
  uint32_t rng_stream = LS_RNG_DROPOUT + (uint32_t)args->attrs->i[0];
  double rate = args->attrs->f[0];
  plane p = plane_for(rows, quads);
  bool vector = row % 4 == 0 && aligned16(in(args, 0), out(args, 0));
  dropout_kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(in(args, 0), step, rng_stream, (float)rate,
                                                                   (float)(1 / (1 - rate)), out(args, 0),
                                                                   rows, row, quads, vector);
  return launched(stream, "dropout");
}

// A row is dropped whole: a thread draws once for its part of it.
__global__ void drop_rows_kernel(const float *x, const unsigned char *step, uint32_t rng_stream, float rate,
                                 float scale, float *y, int64_t rows, int64_t row) {
  uint64_t seed = load_u64(step + offsetof(ls_step_params_t, seed));
  uint64_t position = load_u64(step + offsetof(ls_step_params_t, position));
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    uint32_t word = ls_rng(seed, rng_stream, position + (uint64_t)r).v[0];
    for (int64_t e = r * row + thread_index(); e < (r + 1) * row; e += thread_count())
      y[e] = ls_each_dropout(x[e], word, rate, scale);
  }
}

static ls_status_t drop_rows(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0), row = in_width(args, 0);
  const unsigned char *step = (const unsigned char *)args->in[1].data;
  double rate = args->attrs->f[0];
  dim3 grid(grid_for(row, 4 * BLOCK, GRID_MAX), grid_for(rows, 1, 65535));
  drop_rows_kernel<<<grid, BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), step, LS_RNG_DROPOUT + (uint32_t)args->attrs->i[0], (float)rate, (float)(1 / (1 - rate)),
      out(args, 0), rows, row);
  return launched(stream, "drop_rows");
}

const ls_kernel_row_t ls_cuda_elementwise_rows[] = {
    {"relu", relu},
    {"relu_dy", relu_dy},
    {"gelu", gelu},
    {"gelu_dx", gelu_dx},
    {"tanh", tanh_op},
    {"tanh_dy", tanh_dy},
    {"sigmoid", sigmoid},
    {"sigmoid_dy", sigmoid_dy},
    {"gelu_tanh", gelu_tanh},
    {"gelu_tanh_dx", gelu_tanh_dx},
    {"silu", silu},
    {"silu_dx", silu_dx},
    {"add", add},
    {"mul", mul},
    {"copy", copy},
    {"sum_ranks", copy}, // alone: strategies make a collective of it
    {"accumulate", accumulate},
    {"normalize", normalize},
    {"cast", cast},
    {"tree_sum", tree_sum},
    {"fill", fill},
    {"dropout", dropout},
    {"drop_rows", drop_rows},
    {},
};
