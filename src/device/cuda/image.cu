// Images (n, h, w, c) and sequences (n, t, c): pooling, means and single positions. Threads of a plane have a channel
// each, so neighbours read neighbouring numbers. Gradients gather instead of adding up: a thread sums, in the order of
// the windows, what reaches its element.
#include "device/cuda/block.cuh"

struct pool_shape {
  int64_t h, w, c, oh, ow;           // x, y
  int64_t kh, kw, sh, sw, top, left; // window, stride, padding
  bool padding_counts;               // in an average
  __device__ int64_t window_count(int64_t oy, int64_t ox) const {
    int64_t y0 = oy * sh - top, x0 = ox * sw - left;
    if (padding_counts) return kh * kw;
    int64_t y1 = y0 + kh < h ? y0 + kh : h, x1 = x0 + kw < w ? x0 + kw : w;
    return (y1 - (y0 > 0 ? y0 : 0)) * (x1 - (x0 > 0 ? x0 : 0));
  }
};

// x and y: shapes of the image and of its windows' results.
static pool_shape pool_of(args_t args, const int64_t x_side[2], int64_t channels, const ls_shape_t &y) {
  const int64_t *i = args->attrs->i;
  return {x_side[0], x_side[1], channels, y.dim[1], y.dim[2], i[0], i[1], i[2], i[3], i[4], i[5], i[10] != 0};
}

// Row r of y (n oh ow rows) as sample, oy, ox.
struct place_t {
  int64_t n, y, x;
};
__device__ static place_t place_of(int64_t r, int64_t h, int64_t w) {
  int64_t line = quotient(r, w), n = quotient(line, h);
  return {n, line - n * h, r - line * w};
}

// A NaN is larger than all numbers before it and stays, as in the op's row; of equal values the first wins.
__global__ void max_pool_kernel(const float *x, float *y, unsigned char *place, int64_t rows, pool_shape p) {
  int64_t c = plane_column();
  if (c >= p.c) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    place_t at = place_of(r, p.oh, p.ow);
    float best = 0;
    int64_t best_at = -1;
    for (int64_t ky = 0; ky < p.kh; ky++)
      for (int64_t kx = 0; kx < p.kw; kx++) {
        int64_t iy = at.y * p.sh - p.top + ky, ix = at.x * p.sw - p.left + kx;
        if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
        float v = x[((at.n * p.h + iy) * p.w + ix) * p.c + c];
        if (best_at >= 0 && !(v > best) && !(isnan(v) && !isnan(best))) continue;
        best = v;
        best_at = ky * p.kw + kx;
      }
    y[r * p.c + c] = best;
    place[r * p.c + c] = (unsigned char)best_at;
  }
}

__global__ void avg_pool_kernel(const float *x, float *y, int64_t rows, pool_shape p) {
  int64_t c = plane_column();
  if (c >= p.c) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    place_t at = place_of(r, p.oh, p.ow);
    float sum = 0;
    for (int64_t ky = 0; ky < p.kh; ky++)
      for (int64_t kx = 0; kx < p.kw; kx++) {
        int64_t iy = at.y * p.sh - p.top + ky, ix = at.x * p.sw - p.left + kx;
        if (iy >= 0 && iy < p.h && ix >= 0 && ix < p.w) sum += x[((at.n * p.h + iy) * p.w + ix) * p.c + c];
      }
    y[r * p.c + c] = sum / (float)p.window_count(at.y, at.x);
  }
}

// place NULL: an average.
__global__ void pool_dx_kernel(const float *dy, const unsigned char *place, float *dx, int64_t rows,
                               pool_shape p) {
  int64_t c = plane_column();
  if (c >= p.c) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    place_t at = place_of(r, p.h, p.w);
    int64_t y = at.y + p.top, x = at.x + p.left; // within the padded image
    int64_t oy0 = y < p.kh ? 0 : (y - p.kh) / p.sh + 1, ox0 = x < p.kw ? 0 : (x - p.kw) / p.sw + 1;
    float sum = 0;
    for (int64_t oy = oy0; oy < p.oh && oy * p.sh <= y; oy++)
      for (int64_t ox = ox0; ox < p.ow && ox * p.sw <= x; ox++) {
        int64_t from = ((at.n * p.oh + oy) * p.ow + ox) * p.c + c;
        if (!place)
          sum += dy[from] / (float)p.window_count(oy, ox);
        else if (place[from] == (y - oy * p.sh) * p.kw + (x - ox * p.sw))
          sum += dy[from];
      }
    dx[r * p.c + c] = sum;
  }
}

static ls_status_t max_pool(ls_stream_t *stream, args_t args) {
  const ls_shape_t &x = args->in[0].shape, &y = args->out[0].shape;
  pool_shape p = pool_of(args, x.dim + 1, x.dim[3], y);
  int64_t rows = y.dim[0] * p.oh * p.ow;
  plane at = plane_for(rows, p.c);
  max_pool_kernel<<<at.grid, at.block, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), out(args, 0), (unsigned char *)args->out[1].data, rows, p);
  return launched(stream, "max_pool");
}

static ls_status_t avg_pool(ls_stream_t *stream, args_t args) {
  const ls_shape_t &x = args->in[0].shape, &y = args->out[0].shape;
  pool_shape p = pool_of(args, x.dim + 1, x.dim[3], y);
  int64_t rows = y.dim[0] * p.oh * p.ow;
  plane at = plane_for(rows, p.c);
  avg_pool_kernel<<<at.grid, at.block, 0, ls_kernel_stream(stream)>>>(in(args, 0), out(args, 0), rows, p);
  return launched(stream, "avg_pool");
}

static ls_status_t pool_dx(ls_stream_t *stream, args_t args, const unsigned char *place, const char *op) {
  const ls_shape_t &dy = args->in[0].shape, &dx = args->out[0].shape;
  pool_shape p = pool_of(args, dx.dim + 1, dx.dim[3], dy);
  int64_t rows = dx.dim[0] * p.h * p.w;
  plane at = plane_for(rows, p.c);
  pool_dx_kernel<<<at.grid, at.block, 0, ls_kernel_stream(stream)>>>(in(args, 0), place, out(args, 0), rows,
                                                                     p);
  return launched(stream, op);
}
static ls_status_t max_pool_dx(ls_stream_t *stream, args_t args) {
  return pool_dx(stream, args, (const unsigned char *)args->in[1].data, "max_pool_dx");
}
static ls_status_t avg_pool_dx(ls_stream_t *stream, args_t args) {
  return pool_dx(stream, args, nullptr, "avg_pool_dx");
}

// ---- positions of a sample: (n, t, c), or images with all their positions ----

struct element_of {
  const float *x;
  __device__ float operator()(int64_t i) const { return x[i]; }
};
struct product_of {
  const float *a, *b;
  __device__ float operator()(int64_t i) const { return a[i] * b[i]; }
};

// y (n, c) = sum of f over the positions / divisor. A block has 32 channels of a sample; its rows of threads are added up
// in order.
template <class F>
__global__ void sum_positions_kernel(F f, float *y, int64_t positions, int64_t channels, float divisor) {
  __shared__ float stripe[WARPS][WARP];
  int64_t n = blockIdx.x, c = (int64_t)blockIdx.y * WARP + threadIdx.x;
  float sum = 0;
  if (c < channels)
#pragma unroll 4
    for (int64_t t = threadIdx.y; t < positions; t += WARPS)
      sum += f((n * positions + t) * channels + c);
  stripe[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || c >= channels) return;
  sum = 0;
#pragma unroll
  for (int s = 0; s < WARPS; s++)
    sum += stripe[s][threadIdx.x];
  y[n * channels + c] = sum / divisor;
}

template <class F>
static ls_status_t sum_positions(ls_stream_t *stream, args_t args, F f, bool mean, const char *op) {
  int64_t n = in_rows(args, 0), c = out_count(args, 0) / n, t = in_count(args, 0) / (n * c);
  dim3 grid((unsigned)n, (unsigned)((c + WARP - 1) / WARP));
  sum_positions_kernel<<<grid, dim3(WARP, WARPS), 0, ls_kernel_stream(stream)>>>(f, out(args, 0), t, c,
                                                                                 mean ? (float)t : 1);
  return launched(stream, op);
}

static ls_status_t mean_positions(ls_stream_t *stream, args_t args) {
  return sum_positions(stream, args, element_of{in(args, 0)}, true, "mean_positions");
}
static ls_status_t scale_channels_ds(ls_stream_t *stream, args_t args) {
  return sum_positions(stream, args, product_of{in(args, 0), in(args, 1)}, false, "scale_channels_ds");
}

// Position `only` of each sample gets dy / divisor, the others 0; only -1: all get it.
__global__ void spread_positions_kernel(const float *dy, float *dx, int64_t rows, int64_t positions,
                                        int64_t channels, int64_t only, float divisor) {
  int64_t c = plane_column();
  if (c >= channels) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    int64_t n = quotient(r, positions);
    bool here = only < 0 || r - n * positions == only;
    dx[r * channels + c] = here ? dy[n * channels + c] / divisor : 0;
  }
}

static ls_status_t spread_positions(ls_stream_t *stream, args_t args, int64_t positions, int64_t only,
                                    float divisor, const char *op) {
  int64_t n = in_rows(args, 0), c = in_width(args, 0);
  plane p = plane_for(n * positions, c);
  spread_positions_kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), out(args, 0), n * positions, positions, c, only, divisor);
  return launched(stream, op);
}

static ls_status_t mean_positions_dx(ls_stream_t *stream, args_t args) {
  int64_t positions = out_count(args, 0) / in_count(args, 0);
  return spread_positions(stream, args, positions, -1, (float)positions, "mean_positions_dx");
}

// The position that i[0] names, -1 being the last.
static int64_t position_of(args_t args, int64_t positions) {
  int64_t index = args->attrs->i[0];
  return index < 0 ? index + positions : index;
}

static ls_status_t take_position(ls_stream_t *stream, args_t args) {
  int64_t n = in_rows(args, 0), c = out_count(args, 0) / n, t = in_count(args, 0) / (n * c);
  size_t each = (size_t)c * sizeof(float);
  cudaError_t error =
      cudaMemcpy2DAsync(out(args, 0), each, in(args, 0) + position_of(args, t) * c, (size_t)t * each, each,
                        (size_t)n, cudaMemcpyDeviceToDevice, ls_kernel_stream(stream));
  return ls_kernel_status(stream, error, "take_position");
}

static ls_status_t take_position_dx(ls_stream_t *stream, args_t args) {
  int64_t positions = out_count(args, 0) / in_count(args, 0);
  return spread_positions(stream, args, positions, position_of(args, positions), 1, "take_position_dx");
}

// y[b, t] = x[b, t - by], 0 where that is none: what a chain in time multiplies with its gradients.
__global__ void shift_positions_kernel(const float *x, float *y, int64_t rows, int64_t positions,
                                       int64_t channels, int64_t by) {
  int64_t c = plane_column();
  if (c >= channels) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    int64_t from = r - quotient(r, positions) * positions - by;
    y[r * channels + c] = from >= 0 && from < positions ? x[(r - by) * channels + c] : 0;
  }
}

static ls_status_t shift_positions(ls_stream_t *stream, args_t args) {
  int64_t n = in_rows(args, 0), t = args->in[0].shape.dim[1], c = in_width(args, 0) / t;
  plane p = plane_for(n * t, c);
  shift_positions_kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(in(args, 0), out(args, 0), n * t,
                                                                           t, c, args->attrs->i[0]);
  return launched(stream, "shift_positions");
}

const ls_kernel_row_t ls_cuda_image_rows[] = {{"max_pool", max_pool},
                                              {"max_pool_dx", max_pool_dx},
                                              {"avg_pool", avg_pool},
                                              {"avg_pool_dx", avg_pool_dx},
                                              {"mean_positions", mean_positions},
                                              {"mean_positions_dx", mean_positions_dx},
                                              {"take_position", take_position},
                                              {"take_position_dx", take_position_dx},
                                              {"shift_positions", shift_positions},
                                              {"scale_channels_ds", scale_channels_ds},
                                              {}};
