// Layer norm: a warp takes a row.
#include "device/cuda/block.cuh"

// Sums are of x minus the row's first element, so that a row far from zero keeps its digits in f32.
__global__ void layer_norm_kernel(const float *x, const float *gamma, const float *beta, float eps, float *y,
                                  float *mean, float *rstd, int64_t rows, int64_t width) {
  int lane = threadIdx.x % WARP;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    const float *row = x + r * width;
    float first = row[0], sum = 0, square = 0;
    for (int64_t c = lane; c < width; c += WARP)
      sum += row[c] - first;
    float shift = warp_sum(sum) / (float)width; // mean - first
    for (int64_t c = lane; c < width; c += WARP) {
      float d = row[c] - first - shift;
      square += d * d;
    }
    float scale = 1 / sqrtf(warp_sum(square) / (float)width + eps);
    for (int64_t c = lane; c < width; c += WARP)
      y[r * width + c] = (row[c] - first - shift) * scale * gamma[c] + beta[c];
    if (lane == 0) {
      mean[r] = first + shift;
      rstd[r] = scale;
    }
  }
}

static ls_status_t layer_norm(ls_stream_t *stream, args_t args) {
  int64_t width = in_count(args, 1), rows = in_count(args, 0) / width;
  layer_norm_kernel<<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), in(args, 1), in(args, 2), (float)args->attrs->f[0], out(args, 0), out(args, 1),
      out(args, 2), rows, width);
  return launched(stream, "layer_norm");
}

// With h = (x - mean) rstd and g = dy gamma: dx = rstd (g - average(g) - h average(g h)).
__global__ void layer_norm_dx_kernel(const float *dy, const float *x, const float *gamma, const float *mean,
                                     const float *rstd, float *dx, int64_t rows, int64_t width) {
  int lane = threadIdx.x % WARP;
  for (int64_t r = thread_index() / WARP; r < rows; r += thread_count() / WARP) {
    float m = mean[r], s = rstd[r], g_sum = 0, gh_sum = 0;
    for (int64_t c = lane; c < width; c += WARP) {
      float g = dy[r * width + c] * gamma[c];
      g_sum += g;
      gh_sum += g * ((x[r * width + c] - m) * s);
    }
    float g_mean = warp_sum(g_sum) / (float)width, gh_mean = warp_sum(gh_sum) / (float)width;
    for (int64_t c = lane; c < width; c += WARP) {
      float g = dy[r * width + c] * gamma[c], h = (x[r * width + c] - m) * s;
      dx[r * width + c] = s * (g - g_mean - h * gh_mean);
    }
  }
}

static ls_status_t layer_norm_dx(ls_stream_t *stream, args_t args) {
  int64_t width = in_count(args, 2), rows = in_count(args, 0) / width;
  layer_norm_dx_kernel<<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), in(args, 1), in(args, 2), in(args, 3), in(args, 4), out(args, 0), rows, width);
  return launched(stream, "layer_norm_dx");
}

// layer_norm_dgb adds over rows: reduce.cu.
const ls_kernel_row_t ls_cuda_norm_rows[] = {
    {"layer_norm", layer_norm}, {"layer_norm_dx", layer_norm_dx}, {}};
