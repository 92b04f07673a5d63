// Losses of values, and the sums from which figures of an evaluation are made. A warp takes a row, the last block to
// finish adds up all blocks' parts in block order; sums over columns have a block for each column.
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

enum { VALUE_BLOCKS_MAX = 1024 };
static_assert(2 * VALUE_BLOCKS_MAX <= LS_KERNEL_PARTIAL_MAX, "partial losses fit the scratch");

// Both sums over all blocks, in f64, to the first thread of the last block. False in all others.
__device__ static bool sum_all(void *scratch, double *a, double *b) {
  double *partial = partial_of(scratch);
  *a = block_sum(*a);
  *b = block_sum(*b);
  if (threadIdx.x == 0) {
    partial[2 * blockIdx.x] = *a;
    partial[2 * blockIdx.x + 1] = *b;
  }
  if (!last_block(scratch)) return false;
  *a = *b = 0;
  for (unsigned k = threadIdx.x; k < gridDim.x; k += BLOCK) {
    *a += __ldcg(partial + 2 * k);
    *b += __ldcg(partial + 2 * k + 1);
  }
  *a = block_sum(*a);
  *b = block_sum(*b);
  return threadIdx.x == 0;
}

// What a loss is of a prediction and a target, and its slope; bce: from its probability.
struct l1_loss {
  static __device__ float value(float p, float t, float) { return fabsf(p - t); }
  static __device__ float slope(float p, float t, float) { return p > t ? 1 : p < t ? -1 : p - t; }
};
struct huber_loss {
  static __device__ float value(float p, float t, float delta) {
    float d = fabsf(p - t);
    return d > delta ? delta * (d - 0.5f * delta) : 0.5f * d * d;
  }
  static __device__ float slope(float p, float t, float delta) {
    float d = p - t;
    return d > delta ? delta : d < -delta ? -delta : d;
  }
};
struct bce_loss {
  static __device__ float value(float x, float t, float) {
    return (x > 0 ? x : 0) - x * t + log1pf(expf(-fabsf(x)));
  }
  static __device__ float slope(float p, float t, float) { return p - t; }
};

// prob NULL: the loss has no probabilities, and counts nothing.
template <class L>
__global__ void value_kernel(void *scratch, const float *pred, const float *target, const float *weight,
                             float *loss, float *correct, float *prob, int64_t rows, int64_t outputs,
                             float delta) {
  int lane = threadIdx.x % WARP;
  double my_loss = 0, right = 0;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    float sum = 0;
    for (int64_t o = r * outputs + lane; o < (r + 1) * outputs; o += WARP) {
      sum += L::value(pred[o], target[o], delta);
      if (!prob) continue;
      float e = expf(-fabsf(pred[o]));
      prob[o] = (pred[o] >= 0 ? 1 : pred[o] < 0 ? e : pred[o]) / (1 + e);
      right += weight[r] > 0 && (pred[o] > 0) == (target[o] > 0.5f);
    }
    sum = warp_sum(sum);
    if (lane == 0) my_loss += (double)weight[r] * ((double)sum / (double)outputs);
  }
  if (!sum_all(scratch, &my_loss, &right)) return;
  *loss = (float)my_loss;
  *correct = (float)right;
}

template <class L> static ls_status_t value(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0), outputs = in_width(args, 0);
  value_kernel<L><<<grid_for(rows, WARPS, VALUE_BLOCKS_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      ls_kernel_scratch(stream), in(args, 0), in(args, 1), in(args, 2), out(args, 0), out(args, 1),
      args->out_count > 2 ? out(args, 2) : nullptr, rows, outputs, (float)args->attrs->f[0]);
  return launched(stream, "a loss of values");
}

// dx may be pred.
template <class L>
__global__ void value_dx_kernel(const float *dloss, const float *pred, const float *target,
                                const float *weight, float *dx, int64_t rows, int64_t outputs, float delta) {
  int64_t o = plane_column();
  if (o >= outputs) return;
  float each = 1.0f / (float)outputs;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step())
    dx[r * outputs + o] =
        *dloss * weight[r] * each * L::slope(pred[r * outputs + o], target[r * outputs + o], delta);
}

template <class L> static ls_status_t value_dx(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 1), outputs = in_width(args, 1);
  plane p = plane_for(rows, outputs);
  value_dx_kernel<L><<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(in(args, 0), in(args, 1), in(args, 2),
                                                                       in(args, 3), out(args, 0), rows,
                                                                       outputs, (float)args->attrs->f[0]);
  return launched(stream, "the gradient of a loss of values");
}

__global__ void hits_kernel(void *scratch, const float *pred, const int32_t *target, const float *weight,
                            float *hits, int64_t rows, int64_t classes, int64_t most) {
  int lane = threadIdx.x % WARP;
  double my_hits = 0, unused = 0;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    const float *p = pred + r * classes;
    int64_t t = target[r], before = 0;
    if (!(weight[r] > 0) || t < 0 || t >= classes || isnan(p[t])) continue;
    for (int64_t c = lane; c < classes; c += WARP)
      before += p[c] > p[t] || (p[c] == p[t] && c < t);
    before = warp_sum(before);
    my_hits += lane == 0 && before < most;
  }
  if (sum_all(scratch, &my_hits, &unused)) *hits = (float)my_hits;
}

static ls_status_t top_hits(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0);
  hits_kernel<<<grid_for(rows, WARPS, VALUE_BLOCKS_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      ls_kernel_scratch(stream), in(args, 0), (const int32_t *)args->in[1].data, in(args, 2), out(args, 0),
      rows, in_width(args, 0), args->attrs->i[0]);
  return launched(stream, "top_hits");
}

__global__ void zero_kernel(float *y, int64_t count) {
  for (int64_t k = thread_index(); k < count; k += thread_count())
    y[k] = 0;
}

// Whole numbers: atomics add them in any order alike.
__global__ void classes_kernel(const float *pred, const int32_t *target, const float *weight, float *counts,
                               int64_t rows, int64_t classes) {
  int lane = threadIdx.x % WARP;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    const float *p = pred + r * classes;
    int64_t t = target[r], best = classes;
    if (!(weight[r] > 0) || t < 0 || t >= classes) continue;
    for (int64_t c = lane; c < classes; c += WARP)
      if (best == classes || p[c] > p[best]) best = c;
    for (int step = WARP / 2; step > 0; step /= 2) {
      int64_t other = __shfl_down_sync(0xffffffffu, best, step);
      if (other < classes &&
          (best == classes || p[other] > p[best] || (!(p[best] > p[other]) && other < best)))
        best = other;
    }
    if (lane > 0) continue;
    if (best == t) atomicAdd(counts + t, 1.0f);
    atomicAdd(counts + classes + best, 1.0f);
    atomicAdd(counts + 2 * classes + t, 1.0f);
  }
}

static ls_status_t class_counts(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0), classes = in_width(args, 0), count = 3 * classes;
  zero_kernel<<<grid_for(count, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(out(args, 0), count);
  classes_kernel<<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), (const int32_t *)args->in[1].data, in(args, 2), out(args, 0), rows, classes);
  return launched(stream, "class_counts");
}

__global__ void labels_kernel(const float *pred, const float *target, const float *weight, float *counts,
                              int64_t rows, int64_t width) {
  int64_t o = blockIdx.x;
  double sum[3] = {0, 0, 0};
  for (int64_t r = threadIdx.x; r < rows; r += BLOCK) {
    bool seen = weight[r] > 0, predicted = pred[r * width + o] > 0.5f, is = target[r * width + o] > 0.5f;
    sum[0] += seen && predicted && is;
    sum[1] += seen && predicted;
    sum[2] += seen && is;
  }
  for (int k = 0; k < 3; k++) {
    double all = block_sum(sum[k]);
    if (threadIdx.x == 0) counts[k * width + o] = (float)all;
  }
}

static ls_status_t label_counts(ls_stream_t *stream, args_t args) {
  int64_t width = in_width(args, 0);
  labels_kernel<<<(unsigned)width, BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), in(args, 1), in(args, 2), out(args, 0), in_rows(args, 0), width);
  return launched(stream, "label_counts");
}

__global__ void values_kernel(const float *pred, const float *target, const float *weight, float *high,
                              float *low, int64_t rows, int64_t width) {
  int64_t o = blockIdx.x;
  double sum[4] = {0, 0, 0, 0};
  for (int64_t r = threadIdx.x; r < rows; r += BLOCK) {
    if (!(weight[r] > 0)) continue;
    double t = target[r * width + o], d = (double)pred[r * width + o] - t;
    sum[0] += fabs(d);
    sum[1] += d * d;
    sum[2] += t;
    sum[3] += t * t;
  }
  for (int k = 0; k < 4; k++) {
    double all = block_sum(sum[k]);
    if (threadIdx.x > 0) continue;
    high[k * width + o] = (float)all;
    low[k * width + o] = isfinite((float)all) ? (float)(all - (double)(float)all) : 0;
  }
}

static ls_status_t value_sums(ls_stream_t *stream, args_t args) {
  int64_t width = in_width(args, 0);
  values_kernel<<<(unsigned)width, BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), in(args, 1), in(args, 2), out(args, 0), out(args, 0) + 4 * width, in_rows(args, 0), width);
  return launched(stream, "value_sums");
}

const ls_kernel_row_t ls_cuda_value_rows[] = {{"l1", value<l1_loss>},
                                              {"l1_dx", value_dx<l1_loss>},
                                              {"huber", value<huber_loss>},
                                              {"huber_dx", value_dx<huber_loss>},
                                              {"bce", value<bce_loss>},
                                              {"bce_dx", value_dx<bce_loss>},
                                              {"top_hits", top_hits},
                                              {"class_counts", class_counts},
                                              {"label_counts", label_counts},
                                              {"value_sums", value_sums},
                                              {}};
