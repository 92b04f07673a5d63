// Losses: a warp takes a row, a block the rows of its warps, and the last block to finish adds up all blocks'
// parts in block order. Sums over rows are in f64.
#include "device/cuda/mma.cuh"

enum { LOSS_BLOCKS_MAX = 1024 };
static_assert(2 * LOSS_BLOCKS_MAX <= LS_KERNEL_PARTIAL_MAX, "partial losses fit the scratch");

// Every block's loss and correct count to *loss and *correct. Called by all threads of all blocks.
template <int THREADS = BLOCK>
__device__ static void finish(void *scratch, double row_loss, double row_correct, float *loss,
                              float *correct) {
  double *partial = partial_of(scratch);
  row_loss = block_sum<THREADS>(row_loss);
  row_correct = block_sum<THREADS>(row_correct);
  if (threadIdx.x == 0) {
    partial[2 * blockIdx.x] = row_loss;
    partial[2 * blockIdx.x + 1] = row_correct;
  }
  if (!last_block(scratch)) return;
  double total = 0, count = 0;
  for (unsigned b = threadIdx.x; b < gridDim.x; b += THREADS) {
    total += __ldcg(partial + 2 * b);
    count += __ldcg(partial + 2 * b + 1);
  }
  total = block_sum<THREADS>(total);
  count = block_sum<THREADS>(count);
  if (threadIdx.x == 0) {
    *loss = (float)total;
    *correct = (float)count;
  }
}

// The largest of the lanes' numbers and its first place, the same in every lane; place `classes`: the lane has none.
__device__ static void join_max(float *max, int64_t *place, int64_t classes) {
#pragma unroll
  for (int step = WARP / 2; step > 0; step /= 2) {
    float other = __shfl_xor_sync(0xffffffffu, *max, step);
    int64_t other_at = __shfl_xor_sync(0xffffffffu, *place, step);
    if (other_at < classes && (*place == classes || other > *max || (other == *max && other_at < *place))) {
      *max = other;
      *place = other_at;
    }
  }
}

// The largest of x (classes) and its first place, the same in every lane.
template <class T>
__device__ static void row_max(const T *x, int64_t classes, int lane, float *max, int64_t *place) {
  float best = -INFINITY;
  int64_t at = classes;
  for (int64_t c = lane; c < classes; c += WARP)
    if (at == classes || f32_of(x[c]) > best) {
      best = f32_of(x[c]);
      at = c;
    }
  *max = best;
  *place = at;
  join_max(max, place, classes);
}

template <class T>
__global__ void xent_kernel(void *scratch, const T *logits, const int32_t *target, const float *weight,
                            float *loss, float *correct, T *prob, int64_t rows, int64_t width,
                            int64_t classes, float smoothing) {
  int lane = threadIdx.x % WARP;
  double my_loss = 0, my_correct = 0;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    const T *x = logits + r * width;
    T *p = prob + r * width;
    float max, sum = 0, all = 0;
    int64_t best, t = target[r];
    row_max(x, classes, lane, &max, &best);
    for (int64_t c = lane; c < classes; c += WARP) {
      sum += expf(f32_of(x[c]) - max);
      if (smoothing > 0) all += f32_of(x[c]) - max;
    }
    sum = warp_sum(sum);
    if (smoothing > 0) all = warp_sum(all) * smoothing / (float)classes;
    for (int64_t c = lane; c < width; c += WARP)
      p[c] = rounded<T>(c < classes ? expf(f32_of(x[c]) - max) / sum : 0);
    if (lane == 0) { // a target that is no class gives NaN and reads nothing
      float row_loss = t >= 0 && t < classes ? logf(sum) - (1 - smoothing) * (f32_of(x[t]) - max) - all : NAN;
      my_loss += (double)weight[r] * row_loss;
      my_correct += weight[r] > 0 && best == t;
    }
  }
  finish(scratch, my_loss, my_correct, loss, correct);
}

// ---- rows of many classes: a block takes a row ----

// Calls f(first column, its numbers) for what the thread has of a row: N neighbours at a time, U times before it uses them.
constexpr int WIDE_BLOCK = 512, WIDE_WARPS = WIDE_BLOCK / WARP;
template <int N, int U, class T, class F> __device__ static void each_column(const T *x, int width, F f) {
  for (int base = N * (int)threadIdx.x; base < width; base += N * U * WIDE_BLOCK) {
    some<T, N> v[U];
#pragma unroll
    for (int u = 0; u < U; u++)
      if (base + u * N * WIDE_BLOCK < width) v[u] = load<N>(x + base + u * N * WIDE_BLOCK);
#pragma unroll
    for (int u = 0; u < U; u++)
      if (base + u * N * WIDE_BLOCK < width) f(base + u * N * WIDE_BLOCK, v[u]);
  }
}

// The factor of a sum relative to `top` that becomes one relative to `max`.
__device__ static float shrunk(float top, float max) {
  return top == max ? 1 : power_of_2((top - max) * LOG2_E);
}

// Reads a row twice, the second time while it is in the cache. A thread keeps the largest of its numbers, and the sum of
// exponentials relative to it. Columns that are no classes count as -INFINITY.
template <class T, int N, int U>
__global__ void __launch_bounds__(WIDE_BLOCK)
    xent_wide_kernel(void *scratch, const T *logits, const int32_t *target, const float *weight, float *loss,
                     float *correct, T *prob, int64_t rows, int width, int classes, float smoothing) {
  __shared__ float warp_max[WIDE_WARPS], warp_part[WIDE_WARPS];
  double my_loss = 0, my_correct = 0;
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T *x = logits + r * width;
    T *p = prob + r * width;
    float top = -INFINITY, sum = 0, all = 0;
    int t = target[r];
    each_column<N, U>(x, width, [&](int c, const some<T, N> &from) {
      float v[N], most = -INFINITY;
#pragma unroll
      for (int e = 0; e < N; e++) {
        v[e] = c + e < classes ? from[e] : -INFINITY;
        most = fmaxf(most, v[e]);
      }
      if (most > top) {
        sum *= power_of_2((top - most) * LOG2_E);
        top = most;
      }
      float base = top == -INFINITY ? 0 : top; // nothing but -INFINITY adds 0
#pragma unroll
      for (int e = 0; e < N; e++)
        sum += power_of_2((v[e] - base) * LOG2_E);
    });
    float max = top;
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
      max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, step));
    sum = warp_sum(sum * shrunk(top, max));
    __syncthreads(); // the last row's readers are done
    if (threadIdx.x % WARP == 0) {
      warp_max[threadIdx.x / WARP] = max;
      warp_part[threadIdx.x / WARP] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WIDE_WARPS; w++)
      max = fmaxf(max, warp_max[w]);
    sum = 0;
#pragma unroll
    for (int w = 0; w < WIDE_WARPS; w++)
      sum += warp_part[w] * shrunk(warp_max[w], max);
    float share = 1 / sum;
    bool earlier = false; // than the target, and as large as any
    each_column<N, U>(x, width, [&](int c, const some<T, N> &v) {
      float out[N];
#pragma unroll
      for (int e = 0; e < N; e++) {
        bool real = c + e < classes;
        out[e] = real ? power_of_2((v[e] - max) * LOG2_E) * share : 0;
        earlier |= v[e] == max && c + e < t;
        if (smoothing > 0 && real) all += v[e] - max;
      }
      store(p + c, out);
    });
    earlier = __syncthreads_or(earlier);
    if (smoothing > 0) all = block_sum<WIDE_BLOCK>(all) * smoothing / (float)classes;
    if (threadIdx.x == 0) {
      float hit = t >= 0 && t < classes ? f32_of(x[t]) : NAN;
      my_loss += (double)weight[r] * (logf(sum) - (1 - smoothing) * (hit - max) - all);
      my_correct += weight[r] > 0 && hit == max && !earlier;
    }
  }
  finish<WIDE_BLOCK>(scratch, my_loss, my_correct, loss, correct);
}

enum { WIDE_ROW = 512 };
// Two blocks on each multiprocessor of today's largest: the rows at work fit the cache.
constexpr int64_t WIDE_GRID = 264;

static ls_status_t softmax_xent(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0), width = in_width(args, 0), classes = ls_attrs_classes(args->attrs, width);
  void *scratch = ls_kernel_scratch(stream);
  const int32_t *target = in<int32_t>(args, 1);
  float smoothing = (float)args->attrs->f[0];
  bool aligned = aligned16(in(args, 0), out(args, 2));
  if (classes >= WIDE_ROW)
    BY_DTYPE(in_dtype(args, 0), auto *kernel = aligned && width % WIDE<T> == 0
                                                   ? xent_wide_kernel<T, WIDE<T>, 4>
                                                   : xent_wide_kernel<T, 1, 16>;
             kernel<<<grid_for(rows, 1, WIDE_GRID), WIDE_BLOCK, 0, ls_kernel_stream(stream)>>>(
                 scratch, in<T>(args, 0), target, in(args, 2), out(args, 0), out(args, 1), out<T>(args, 2),
                 rows, (int)width, (int)classes, smoothing))
  else
    BY_DTYPE(in_dtype(args, 0),
             xent_kernel<<<grid_for(rows, WARPS, LOSS_BLOCKS_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
                 scratch, in<T>(args, 0), target, in(args, 2), out(args, 0), out(args, 1), out<T>(args, 2),
                 rows, width, classes, smoothing))
  return launched(stream, "softmax_xent");
}

constexpr int ROWS_AT_ONCE = 8;

// dx may be prob. N numbers at a time.
template <class T, int N>
__global__ void xent_dx_kernel(const float *dloss, const T *prob, const int32_t *target, const float *weight,
                               T *dx, int64_t rows, int64_t width, int64_t classes, float hit, float each) {
  int64_t c = plane_column() * N;
  if (c >= width) return;
  int64_t step = plane_row_step();
  float scale = *dloss;
  for (int64_t r = plane_row(); r < rows; r += ROWS_AT_ONCE * step) {
    some<T, N> value[ROWS_AT_ONCE];
#pragma unroll
    for (int k = 0; k < ROWS_AT_ONCE; k++)
      if (r + k * step < rows) value[k] = load<N>(prob + (r + k * step) * width + c);
#pragma unroll
    for (int k = 0; k < ROWS_AT_ONCE; k++) {
      int64_t at = r + k * step;
      if (at >= rows) break;
      float d[N], by = scale * weight[at];
#pragma unroll
      for (int e = 0; e < N; e++)
        d[e] = c + e < classes ? by * (value[k][e] - (c + e == target[at] ? hit : each)) : 0;
      store<N>(dx + at * width + c, d);
    }
  }
}

static ls_status_t softmax_xent_dx(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 1), width = in_width(args, 1), classes = ls_attrs_classes(args->attrs, width);
  double smoothing = args->attrs->f[0];
  float each = (float)(smoothing / (double)classes), hit = (float)(1 - smoothing) + each;
  bool aligned = aligned16(args->in[1].data, args->out[0].data);
  BY_DTYPE(in_dtype(args, 1), bool several = aligned && width % WIDE<T> == 0;
           plane p = plane_for((rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, several ? width / WIDE<T> : width);
           auto *kernel = several ? xent_dx_kernel<T, WIDE<T>> : xent_dx_kernel<T, 1>;
           kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
               in(args, 0), in<T>(args, 1), in<int32_t>(args, 2), in(args, 3), out<T>(args, 0), rows, width,
               classes, hit, each))
  return launched(stream, "softmax_xent_dx");
}

// A warp has the positions of a sample.
__global__ void position_weights_kernel(const int32_t *target, const float *weight, float *each, int32_t *to,
                                        int64_t rows, int64_t positions, int32_t ignored) {
  int lane = threadIdx.x % WARP;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    int count = 0;
    for (int64_t k = lane; k < positions; k += WARP)
      count += target[r * positions + k] != ignored;
    count = warp_sum(count);
    for (int64_t k = lane; k < positions; k += WARP) {
      int32_t t = target[r * positions + k];
      each[r * positions + k] = t != ignored ? weight[r] / (float)count : 0;
      to[r * positions + k] = t != ignored ? t : 0;
    }
  }
}

static ls_status_t position_weights(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0);
  position_weights_kernel<<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      (const int32_t *)args->in[0].data, in(args, 1), out(args, 0), (int32_t *)args->out[1].data, rows,
      in_width(args, 0), (int32_t)args->attrs->i[0]);
  return launched(stream, "position_weights");
}

__global__ void mse_kernel(void *scratch, const float *pred, const float *target, const float *weight,
                           float *loss, float *correct, int64_t rows, int64_t outputs) {
  int lane = threadIdx.x % WARP;
  double my_loss = 0;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    float sum = 0;
    for (int64_t o = lane; o < outputs; o += WARP) {
      float d = pred[r * outputs + o] - target[r * outputs + o];
      sum += d * d;
    }
    sum = warp_sum(sum);
    if (lane == 0) my_loss += (double)weight[r] * ((double)sum / (double)outputs);
  }
  finish(scratch, my_loss, 0, loss, correct);
}

static ls_status_t mse(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0), outputs = in_width(args, 0);
  mse_kernel<<<grid_for(rows, WARPS, LOSS_BLOCKS_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      ls_kernel_scratch(stream), in(args, 0), in(args, 1), in(args, 2), out(args, 0), out(args, 1), rows,
      outputs);
  return launched(stream, "mse");
}

// dx may be pred.
__global__ void mse_dx_kernel(const float *dloss, const float *pred, const float *target, const float *weight,
                              float *dx, int64_t rows, int64_t outputs) {
  int64_t o = plane_column();
  if (o >= outputs) return;
  float each = 2.0f / (float)outputs;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step())
    dx[r * outputs + o] = *dloss * weight[r] * each * (pred[r * outputs + o] - target[r * outputs + o]);
}

static ls_status_t mse_dx(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 1), outputs = in_width(args, 1);
  plane p = plane_for(rows, outputs);
  mse_dx_kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(in(args, 0), in(args, 1), in(args, 2),
                                                                  in(args, 3), out(args, 0), rows, outputs);
  return launched(stream, "mse_dx");
}

const ls_kernel_row_t ls_cuda_loss_rows[] = {{"softmax_xent", softmax_xent, true},
                                             {"softmax_xent_dx", softmax_xent_dx, true},
                                             {"position_weights", position_weights},
                                             {"mse", mse},
                                             {"mse_dx", mse_dx},
                                             {}};
