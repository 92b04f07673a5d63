// What stands beside the optimizer's update: the rate of a group of parameters, and the moving mean of all.
#include "device/cuda/block.cuh"

__global__ void rate_kernel(const float *ctrl, float *to, double factor) {
  int k = threadIdx.x;
  if (k < LS_CTRL_COUNT) to[k] = k == LS_CTRL_LR ? (float)(ctrl[k] * factor) : ctrl[k];
}

static ls_status_t rate_scale(ls_stream_t *stream, args_t args) {
  rate_kernel<<<1, WARP, 0, ls_kernel_stream(stream)>>>(in(args, 0), out(args, 0), args->attrs->f[0]);
  return launched(stream, "rate_scale");
}

__global__ void ema_kernel(const float *param, const float *ctrl, const float *counter, float *mean,
                           double most, int64_t count) {
  if (ctrl[LS_CTRL_APPLY] == 0) return;
  double before = (double)counter[LS_COUNTER_APPLIED] - 1, keep = (1 + before) / (10 + before);
  float rest = (float)(1 - (keep < most ? keep : most));
  for (int64_t k = thread_index(); k < count; k += thread_count())
    mean[k] = mean[k] + rest * (param[k] - mean[k]);
}

static ls_status_t ema(ls_stream_t *stream, args_t args) {
  int64_t count = in_count(args, 0);
  ema_kernel<<<grid_for(count, BLOCK, GRID_MAX), BLOCK, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), in(args, 1), in(args, 2), out(args, 0), args->attrs->f[0], count);
  return launched(stream, "ema");
}

const ls_kernel_row_t ls_cuda_average_rows[] = {{"rate_scale", rate_scale}, {"ema", ema}, {}};
