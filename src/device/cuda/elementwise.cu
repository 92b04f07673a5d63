// Kernels that treat every element alone: activations and their gradients, add, mul, copy, fill, dropout.
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

template <class F> static int map(ls_kernel_stream_t stream, const float *x, float *y, int64_t count, F f) {
  if (count <= 0) return cudaSuccess;
  int64_t vectors = vectors_of(count, aligned16(x, y));
  map_kernel<<<grid_for_each(count, vectors), BLOCK, 0, stream>>>(x, y, count, vectors, f);
  return launched();
}

template <class F>
static int zip(ls_kernel_stream_t stream, const float *a, const float *b, float *y, int64_t count, F f) {
  if (count <= 0) return cudaSuccess;
  int64_t vectors = vectors_of(count, aligned16(a, b, y));
  zip_kernel<<<grid_for_each(count, vectors), BLOCK, 0, stream>>>(a, b, y, count, vectors, f);
  return launched();
}

#define MAP(name, expression)                                                                                \
  struct name {                                                                                              \
    __device__ float operator()(float x) const { return expression; }                                        \
  }
#define ZIP(name, expression)                                                                                \
  struct name {                                                                                              \
    __device__ float operator()(float a, float b) const { return expression; }                               \
  }
MAP(relu, ls_each_relu(x));
MAP(gelu, ls_each_gelu(x));
MAP(tanh_of, ls_each_tanh(x));
MAP(sigmoid, ls_each_sigmoid(x));
MAP(copy, x);
ZIP(add, a + b);
ZIP(mul, a *b);
ZIP(relu_dy, ls_each_relu_dy(a, b));
ZIP(gelu_dx, ls_each_gelu_dx(a, b));
ZIP(tanh_dy, ls_each_tanh_dy(a, b));
ZIP(sigmoid_dy, ls_each_sigmoid_dy(a, b));

int ls_kernel_map(ls_kernel_stream_t stream, int which, const float *x, float *y, int64_t count) {
  switch (which) {
  case LS_MAP_RELU:
    return map(stream, x, y, count, relu());
  case LS_MAP_GELU:
    return map(stream, x, y, count, gelu());
  case LS_MAP_TANH:
    return map(stream, x, y, count, tanh_of());
  case LS_MAP_SIGMOID:
    return map(stream, x, y, count, sigmoid());
  case LS_MAP_COPY:
    return map(stream, x, y, count, copy());
  default:
    return cudaErrorInvalidValue;
  }
}

int ls_kernel_zip(ls_kernel_stream_t stream, int which, const float *a, const float *b, float *y,
                  int64_t count) {
  switch (which) {
  case LS_ZIP_ADD:
    return zip(stream, a, b, y, count, add());
  case LS_ZIP_MUL:
    return zip(stream, a, b, y, count, mul());
  case LS_ZIP_RELU_DY:
    return zip(stream, a, b, y, count, relu_dy());
  case LS_ZIP_GELU_DX:
    return zip(stream, a, b, y, count, gelu_dx());
  case LS_ZIP_TANH_DY:
    return zip(stream, a, b, y, count, tanh_dy());
  case LS_ZIP_SIGMOID_DY:
    return zip(stream, a, b, y, count, sigmoid_dy());
  default:
    return cudaErrorInvalidValue;
  }
}

template <class T> struct alignas(4 * sizeof(T)) of_four { T x, y, z, w; };

// Four numbers at a time where x and y begin at a multiple of four.
template <class T>
__global__ void normalize_kernel(const T *x, const unsigned char *step, float *y, int64_t count,
                                 int64_t vectors) {
  double mean = load_f32(step + 20), scale = load_f32(step + 24);
  for (int64_t i = thread_index(); i < vectors; i += thread_count()) {
    of_four<T> v = ((const of_four<T> *)x)[i];
    ((float4 *)y)[i] = make_float4(ls_each_normalize(v.x, mean, scale), ls_each_normalize(v.y, mean, scale),
                                   ls_each_normalize(v.z, mean, scale), ls_each_normalize(v.w, mean, scale));
  }
  for (int64_t i = 4 * vectors + thread_index(); i < count; i += thread_count())
    y[i] = ls_each_normalize(x[i], mean, scale);
}

template <class T>
static int normalize(ls_kernel_stream_t stream, const void *x, const void *step, float *y, int64_t count) {
  if (count <= 0) return cudaSuccess;
  int64_t vectors = vectors_of(count, (uintptr_t)x % (4 * sizeof(T)) == 0 && aligned16(y));
  normalize_kernel<T><<<grid_for_each(count, vectors), BLOCK, 0, stream>>>(
      (const T *)x, (const unsigned char *)step, y, count, vectors);
  return launched();
}

int ls_kernel_normalize(ls_kernel_stream_t stream, int bytes, const void *x, const void *step, float *y,
                        int64_t count) {
  switch (bytes) {
  case 1:
    return normalize<uint8_t>(stream, x, step, y, count);
  case 2:
    return normalize<uint16_t>(stream, x, step, y, count);
  case 4:
    return normalize<int32_t>(stream, x, step, y, count);
  default:
    return cudaErrorInvalidValue;
  }
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

template <class X, class Y>
static int cast(ls_kernel_stream_t stream, const void *x, void *y, int64_t count) {
  if (count <= 0) return cudaSuccess;
  bool even = (uintptr_t)x % (4 * sizeof(X)) == 0 && (uintptr_t)y % (4 * sizeof(Y)) == 0;
  int64_t vectors = vectors_of(count, even);
  cast_kernel<X, Y>
      <<<grid_for_each(count, vectors), BLOCK, 0, stream>>>((const X *)x, (Y *)y, count, vectors);
  return launched();
}

template <class X>
static int cast_to(ls_kernel_stream_t stream, int to, const void *x, void *y, int64_t count) {
  switch (to) {
  case LS_CAST_F32:
    return cast<X, each_f32>(stream, x, y, count);
  case LS_CAST_BF16:
    return cast<X, each_bf16>(stream, x, y, count);
  case LS_CAST_F16:
    return cast<X, each_f16>(stream, x, y, count);
  default:
    return cudaErrorInvalidValue;
  }
}

int ls_kernel_cast(ls_kernel_stream_t stream, int from, int to, const void *x, void *y, int64_t count) {
  switch (from) {
  case LS_CAST_F32:
    return cast_to<each_f32>(stream, to, x, y, count);
  case LS_CAST_BF16:
    return cast_to<each_bf16>(stream, to, x, y, count);
  case LS_CAST_F16:
    return cast_to<each_f16>(stream, to, x, y, count);
  default:
    return cudaErrorInvalidValue;
  }
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

int ls_kernel_tree_sum(ls_kernel_stream_t stream, const float *x, float *y, int64_t parts, int64_t count) {
  if (count <= 0) return cudaSuccess;
  unsigned grid = grid_for(count, BLOCK, GRID_MAX);
  if (parts == 2)
    tree_sum_kernel<2><<<grid, BLOCK, 0, stream>>>(x, y, parts, count);
  else if (parts == 4)
    tree_sum_kernel<4><<<grid, BLOCK, 0, stream>>>(x, y, parts, count);
  else
    tree_sum_kernel<0><<<grid, BLOCK, 0, stream>>>(x, y, parts, count);
  return launched();
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

// The step's parameters may stand at any address.
__device__ static uint64_t load_u64(const unsigned char *bytes) {
  if (((uintptr_t)bytes & 7) == 0) return *(const uint64_t *)bytes;
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--)
    value = value << 8 | bytes[i];
  return value;
}

// A thread makes the four words of one counter and uses them for elements 4 q .. 4 q + 3 of a row.
__global__ void dropout_kernel(const float *x, const unsigned char *step, uint32_t rng_stream, float rate,
                               float scale, float *y, int64_t rows, int64_t row, int64_t quads, bool vector) {
  uint64_t seed = load_u64(step), position = load_u64(step + 8);
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

int ls_kernel_dropout(ls_kernel_stream_t stream, const float *x, const void *step, uint32_t rng_stream,
                      float rate, float scale, float *y, int64_t rows, int64_t row) {
  if (rows <= 0 || row <= 0) return cudaSuccess;
  int64_t quads = (row + 3) / 4;
  plane p = plane_for(rows, quads);
  bool vector = row % 4 == 0 && aligned16(x, y);
  dropout_kernel<<<p.grid, p.block, 0, stream>>>(x, (const unsigned char *)step, rng_stream, rate, scale, y,
                                                 rows, row, quads, vector);
  return launched();
}
