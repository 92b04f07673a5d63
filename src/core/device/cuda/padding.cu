// Samples that end before their last place, or hold several texts: lengths, segments, targets, pooling, and attention that
// leaves their padding out, plain: a warp for each query or key.
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

enum { POOL_MEAN, POOL_LAST };

__device__ static int64_t length_at(const int32_t *lengths, int64_t row, int64_t places) {
  int64_t length = lengths[row];
  return length < 0 ? 0 : length > places ? places : length;
}

template <class T>
__global__ void lengths_kernel(const T *ids, int32_t *lengths, int64_t rows, int64_t places, double padding) {
  int lane = threadIdx.x % WARP;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    int64_t length = 0;
    for (int64_t k = lane; k < places; k += WARP)
      if ((double)ids[r * places + k] != padding) length = k + 1;
    for (int step = WARP / 2; step > 0; step /= 2) {
      int64_t other = __shfl_xor_sync(0xffffffffu, length, step);
      length = other > length ? other : length;
    }
    if (lane == 0) lengths[r] = (int32_t)length;
  }
}

template <class T> static void launch_lengths(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0);
  lengths_kernel<T><<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      (const T *)args->in[0].data, (int32_t *)args->out[0].data, rows, in_width(args, 0),
      (double)args->attrs->i[0]);
}

template <class T>
__global__ void segments_kernel(const T *ids, int32_t *segment, int64_t rows, int64_t places,
                                double separator, int64_t first, int64_t last) {
  int lane = threadIdx.x % WARP;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    int64_t before = first;
    for (int64_t begin = 0; begin < places; begin += WARP) {
      int64_t k = begin + lane;
      unsigned found = __ballot_sync(0xffffffffu, k < places && (double)ids[r * places + k] == separator);
      int64_t at = before + __popc(found & ((1u << lane) - 1));
      if (k < places) segment[r * places + k] = (int32_t)(at < last ? at : last);
      before += __popc(found);
    }
  }
}

template <class T> static void launch_segments(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0);
  const int64_t *i = args->attrs->i;
  segments_kernel<T><<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      (const T *)args->in[0].data, (int32_t *)args->out[0].data, rows, in_width(args, 0), (double)i[0], i[1],
      i[2]);
}

static ls_status_t lengths(ls_stream_t *stream, args_t args) {
  BY_IDS(launch_lengths, args->in[0].shape.dtype)
  return launched(stream, "lengths");
}

static ls_status_t segments(ls_stream_t *stream, args_t args) {
  BY_IDS(launch_segments, args->in[0].shape.dtype)
  return launched(stream, "segments");
}

__global__ void mask_targets_kernel(const int32_t *target, const int32_t *lengths, int32_t *to, int64_t count,
                                    int64_t places, int32_t ignored) {
  for (int64_t k = thread_index(); k < count; k += thread_count())
    to[k] = k % places < length_at(lengths, k / places, places) ? target[k] : ignored;
}

static ls_status_t mask_targets(ls_stream_t *stream, args_t args) {
  int64_t count = in_count(args, 0);
  mask_targets_kernel<<<grid_for(count, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      (const int32_t *)args->in[0].data, (const int32_t *)args->in[1].data, (int32_t *)args->out[0].data,
      count, in_width(args, 0), (int32_t)args->attrs->i[0]);
  return launched(stream, "mask_targets");
}

// In place where y is x.
template <class T, int N>
__global__ void mask_places_kernel(const T *x, const int32_t *lengths, T *y, int64_t rows, int64_t places,
                                   int64_t channels, float value) {
  int64_t c = N * plane_column();
  if (c >= channels) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    int64_t n = quotient(r, places);
    some<T, N> v;
    if (r - n * places < lengths[n]) {
      if (y == x) continue;
      v = load<N>(x + r * channels + c);
    } else {
#pragma unroll
      for (int e = 0; e < N; e++)
        v.v[e] = rounded<T>(value);
    }
    *(some<T, N> *)(y + r * channels + c) = v;
  }
}

static ls_status_t mask_places(ls_stream_t *stream, args_t args) {
  int64_t n = in_rows(args, 0), t = args->in[0].shape.dim[1], c = in_width(args, 0) / t;
  BY_CHANNELS(
      in_dtype(args, 0), c, aligned16(in(args, 0), out(args, 0)), n * t,
      mask_places_kernel<T, N><<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
          in<T>(args, 0), in<int32_t>(args, 1), out<T>(args, 0), n * t, t, c, (float)args->attrs->f[0]))
  return launched(stream, "mask_places");
}

__global__ void pool_valid_kernel(const float *x, const int32_t *lengths, float *y, int64_t rows,
                                  int64_t places, int64_t width, int64_t kind) {
  for (int64_t k = thread_index(); k < rows * width; k += thread_count()) {
    int64_t r = k / width, c = k % width, length = length_at(lengths, r, places);
    double sum = 0;
    for (int64_t t = kind == POOL_LAST && length > 0 ? length - 1 : 0; t < length; t++)
      sum += x[(r * places + t) * width + c];
    y[k] = (float)(kind == POOL_MEAN && length > 0 ? sum / (double)length : sum);
  }
}

static ls_status_t pool_valid(ls_stream_t *stream, args_t args) {
  const ls_shape_t *x = &args->in[0].shape;
  pool_valid_kernel<<<grid_for(x->dim[0] * x->dim[2], BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), (const int32_t *)args->in[1].data, out(args, 0), x->dim[0], x->dim[1], x->dim[2],
      args->attrs->i[0]);
  return launched(stream, "pool_valid");
}

__global__ void pool_valid_dx_kernel(const float *dy, const int32_t *lengths, float *dx, int64_t count,
                                     int64_t places, int64_t width, int64_t kind) {
  for (int64_t k = thread_index(); k < count; k += thread_count()) {
    int64_t r = k / width / places, t = k / width % places, length = length_at(lengths, r, places);
    float value = dy[r * width + k % width];
    dx[k] = kind == POOL_LAST ? (t == length - 1 ? value : 0) : t < length ? value / (float)length : 0;
  }
}

static ls_status_t pool_valid_dx(ls_stream_t *stream, args_t args) {
  const ls_shape_t *dx = &args->out[0].shape;
  int64_t count = out_count(args, 0);
  pool_valid_dx_kernel<<<grid_for(count, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), (const int32_t *)args->in[1].data, out(args, 0), count, dx->dim[1], dx->dim[2],
      args->attrs->i[0]);
  return launched(stream, "pool_valid_dx");
}

// Attention. A head's rows of queries, keys and values are 3 d apart, those of y and dy d.
struct head_t {
  int64_t t, d, heads, size;
  bool causal;
  float scale, rate;
  uint32_t rng_stream;
  uint64_t counters;
};

static head_t head_of(args_t args, const ls_shape_t *qkv) {
  head_t h;
  h.t = qkv->dim[1];
  h.d = qkv->dim[2] / 3;
  h.heads = args->attrs->i[0];
  h.size = h.d / h.heads;
  h.causal = args->attrs->i[1] != 0;
  h.scale = (float)(1 / sqrt((double)h.size));
  h.rate = (float)args->attrs->f[0];
  h.rng_stream = LS_RNG_DROPOUT + (uint32_t)args->attrs->i[2];
  h.counters = (uint64_t)(h.heads * h.t * h.t + 3) / 4;
  return h;
}

__device__ static float dot_of(const float *a, const float *b, int64_t count) {
  float sum = 0;
  for (int64_t c = 0; c < count; c++)
    sum += a[c] * b[c];
  return sum;
}

__device__ static float factor_of(const head_t &h, const unsigned char *step, int64_t row, int64_t head,
                                  int64_t query, int64_t key) {
  if (h.rate == 0) return 1;
  uint64_t e = (uint64_t)((head * h.t + query) * h.t + key);
  uint64_t position = load_u64(step + offsetof(ls_step_params_t, position)) + (uint64_t)row;
  ls_rng4_t words =
      ls_rng(load_u64(step + offsetof(ls_step_params_t, seed)), h.rng_stream, position * h.counters + e / 4);
  return ls_each_dropout(1, words.v[e % 4], h.rate, 1 / (1 - h.rate));
}

__global__ void padded_kernel(head_t h, const float *qkv, const unsigned char *step, const int32_t *lengths,
                              float *y, float *lse, int64_t rows) {
  int lane = threadIdx.x % WARP;
  for (int64_t w = thread_index() / WARP; w < rows * h.heads * h.t; w += thread_count() / WARP) {
    int64_t n = w / h.t / h.heads, head = w / h.t % h.heads, i = w % h.t, length = length_at(lengths, n, h.t);
    int64_t seen = h.causal ? i + 1 : h.t, keys = seen < length ? seen : length, stride = 3 * h.d;
    const float *q = qkv + (n * h.t + i) * stride + head * h.size,
                *k = qkv + n * h.t * stride + h.d + head * h.size, *v = k + h.d;
    float *to = y + (n * h.t + i) * h.d + head * h.size;
    if (i >= length) {
      for (int64_t c = lane; c < h.size; c += WARP)
        to[c] = 0;
      if (lane == 0) lse[w] = 0;
      continue;
    }
    float max = -INFINITY, sum = 0;
    for (int64_t j = lane; j < keys; j += WARP)
      max = fmaxf(max, h.scale * dot_of(q, k + j * stride, h.size));
    for (int s = WARP / 2; s > 0; s /= 2)
      max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, s));
    for (int64_t j = lane; j < keys; j += WARP)
      sum += expf(h.scale * dot_of(q, k + j * stride, h.size) - max);
    float log_sum = max + logf(warp_sum(sum));
    for (int64_t c0 = 0; c0 < h.size; c0 += WARP) {
      float all = 0;
      for (int64_t j0 = 0; j0 < keys; j0 += WARP) {
        int64_t j = j0 + lane;
        float p = j < keys ? expf(h.scale * dot_of(q, k + j * stride, h.size) - log_sum) *
                                 factor_of(h, step, n, head, i, j)
                           : 0;
        for (int s = 0; s < WARP && j0 + s < keys; s++) {
          float one = __shfl_sync(0xffffffffu, p, s);
          if (c0 + lane < h.size) all += one * v[(j0 + s) * stride + c0 + lane];
        }
      }
      if (c0 + lane < h.size) to[c0 + lane] = all;
    }
    if (lane == 0) lse[w] = log_sum;
  }
}

static ls_status_t attention_padded(ls_stream_t *stream, args_t args) {
  const ls_shape_t *qkv = &args->in[0].shape;
  head_t h = head_of(args, qkv);
  padded_kernel<<<grid_for(qkv->dim[0] * h.heads * h.t, WARPS, GRID_MAX), BLOCK, 0,
                  ls_kernel_stream(stream)>>>(h, in(args, 0), (const unsigned char *)args->in[1].data,
                                              (const int32_t *)args->in[2].data, out(args, 0), out(args, 1),
                                              qkv->dim[0]);
  return launched(stream, "attention_padded");
}

// A warp makes dq, dk and dv of place i of a head: as a query it goes through its keys, as a key through its queries.
__global__ void padded_dx_kernel(head_t h, const float *dy, const float *qkv, const float *y,
                                 const float *lse, const unsigned char *step, const int32_t *lengths,
                                 float *dqkv, int64_t rows) {
  int lane = threadIdx.x % WARP;
  for (int64_t w = thread_index() / WARP; w < rows * h.heads * h.t; w += thread_count() / WARP) {
    int64_t n = w / h.t / h.heads, head = w / h.t % h.heads, i = w % h.t, length = length_at(lengths, n, h.t);
    int64_t stride = 3 * h.d, last = h.causal ? i + 1 : h.t,
            keys = i >= length     ? 0
                   : last < length ? last
                                   : length;
    const float *q = qkv + n * h.t * stride + head * h.size, *k = q + h.d, *v = k + h.d,
                *dys = dy + n * h.t * h.d + head * h.size, *ys = y + n * h.t * h.d + head * h.size,
                *logs = lse + (n * h.heads + head) * h.t;
    float *dq = dqkv + (n * h.t + i) * stride + head * h.size, *dk = dq + h.d, *dv = dk + h.d;
    float given = dot_of(dys + i * h.d, ys + i * h.d, h.size);
    int64_t first = i >= length ? length : h.causal ? i : 0; // of the queries that see key i
    for (int64_t c0 = 0; c0 < h.size; c0 += WARP) {
      bool mine = c0 + lane < h.size;
      int64_t c = c0 + lane;
      float q_sum = 0, k_sum = 0, v_sum = 0;
      for (int64_t j0 = 0; j0 < keys; j0 += WARP) {
        int64_t j = j0 + lane;
        float ds = 0;
        if (j < keys) {
          float p = expf(h.scale * dot_of(q + i * stride, k + j * stride, h.size) - logs[i]);
          float m = factor_of(h, step, n, head, i, j);
          ds = h.scale * p * (m * dot_of(dys + i * h.d, v + j * stride, h.size) - given);
        }
        for (int s = 0; s < WARP && j0 + s < keys; s++) {
          float one = __shfl_sync(0xffffffffu, ds, s);
          if (mine) q_sum += one * k[(j0 + s) * stride + c];
        }
      }
      for (int64_t j0 = first; j0 < length; j0 += WARP) {
        int64_t j = j0 + lane;
        float ds = 0, mp = 0;
        if (j < length) {
          float p = expf(h.scale * dot_of(q + j * stride, k + i * stride, h.size) - logs[j]);
          float m = factor_of(h, step, n, head, j, i);
          ds = h.scale * p *
               (m * dot_of(dys + j * h.d, v + i * stride, h.size) -
                dot_of(dys + j * h.d, ys + j * h.d, h.size));
          mp = m * p;
        }
        for (int s = 0; s < WARP && j0 + s < length; s++) {
          float one = __shfl_sync(0xffffffffu, ds, s), other = __shfl_sync(0xffffffffu, mp, s);
          if (mine) k_sum += one * q[(j0 + s) * stride + c];
          if (mine) v_sum += other * dys[(j0 + s) * h.d + c];
        }
      }
      if (!mine) continue;
      dq[c] = q_sum;
      dk[c] = k_sum;
      dv[c] = v_sum;
    }
  }
}

static ls_status_t attention_padded_dx(ls_stream_t *stream, args_t args) {
  const ls_shape_t *qkv = &args->in[1].shape;
  head_t h = head_of(args, qkv);
  padded_dx_kernel<<<grid_for(qkv->dim[0] * h.heads * h.t, WARPS, GRID_MAX), BLOCK, 0,
                     ls_kernel_stream(stream)>>>(
      h, in(args, 0), in(args, 1), in(args, 2), in(args, 3), (const unsigned char *)args->in[4].data,
      (const int32_t *)args->in[5].data, out(args, 0), qkv->dim[0]);
  return launched(stream, "attention_padded_dx");
}

const ls_kernel_row_t ls_cuda_padding_rows[] = {{"lengths", lengths},
                                                {"segments", segments},
                                                {"mask_targets", mask_targets},
                                                {"mask_places", mask_places, true},
                                                {"pool_valid", pool_valid},
                                                {"pool_valid_dx", pool_valid_dx},
                                                {"attention_padded", attention_padded},
                                                {"attention_padded_dx", attention_padded_dx},
                                                {}};
