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

int ls_kernel_layer_norm(ls_kernel_stream_t stream, const float *x, const float *gamma, const float *beta,
                         double eps, float *y, float *mean, float *rstd, int64_t rows, int64_t width) {
  if (rows <= 0 || width <= 0) return cudaSuccess;
  layer_norm_kernel<<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, stream>>>(x, gamma, beta, (float)eps, y,
                                                                           mean, rstd, rows, width);
  return launched();
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

int ls_kernel_layer_norm_dx(ls_kernel_stream_t stream, const float *dy, const float *x, const float *gamma,
                            const float *mean, const float *rstd, float *dx, int64_t rows, int64_t width) {
  if (rows <= 0 || width <= 0) return cudaSuccess;
  layer_norm_dx_kernel<<<grid_for(rows, WARPS, GRID_MAX), BLOCK, 0, stream>>>(dy, x, gamma, mean, rstd, dx,
                                                                              rows, width);
  return launched();
}
