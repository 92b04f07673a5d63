// A factor for each channel of each sample, and for each sample.
#include "device/cuda/block.cuh"
#include "device/cuda/element.h"

__global__ void scale_kernel(const float *x, const float *s, float *y, int64_t places, int64_t positions,
                             int64_t channels) {
  int64_t c = plane_column();
  if (c >= channels) return;
  for (int64_t k = plane_row(); k < places; k += plane_row_step())
    y[k * channels + c] = x[k * channels + c] * s[k / positions * channels + c];
}

static ls_status_t scale_channels(ls_stream_t *stream, args_t args) {
  int64_t channels = in_width(args, 1), places = in_count(args, 0) / channels;
  plane p = plane_for(places, channels);
  scale_kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(in(args, 0), in(args, 1), out(args, 0),
                                                                 places, places / in_rows(args, 1), channels);
  return launched(stream, "scale_channels");
}

// A thread adds up the positions of its sample and channel, in order and in f64.
__global__ void scale_ds_kernel(const float *dy, const float *x, float *ds, int64_t rows, int64_t positions,
                                int64_t channels) {
  int64_t c = plane_column();
  if (c >= channels) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step()) {
    double sum = 0;
    for (int64_t k = r * positions; k < (r + 1) * positions; k++)
      sum += (double)dy[k * channels + c] * x[k * channels + c];
    ds[r * channels + c] = (float)sum;
  }
}

static ls_status_t scale_channels_ds(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0), channels = out_count(args, 0) / rows;
  plane p = plane_for(rows, channels);
  scale_ds_kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), in(args, 1), out(args, 0), rows, in_width(args, 0) / channels, channels);
  return launched(stream, "scale_channels_ds");
}

// The first word of a row's counter decides for all of the row.
__global__ void drop_rows_kernel(const float *x, const unsigned char *step, uint32_t rng_stream, float rate,
                                 float scale, float *y, int64_t rows, int64_t row) {
  uint64_t seed = load_u64(step + offsetof(ls_step_params_t, seed));
  uint64_t position = load_u64(step + offsetof(ls_step_params_t, position));
  int64_t e = plane_column();
  if (e >= row) return;
  for (int64_t r = plane_row(); r < rows; r += plane_row_step())
    y[r * row + e] =
        ls_each_dropout(x[r * row + e], ls_rng(seed, rng_stream, position + (uint64_t)r).v[0], rate, scale);
}

static ls_status_t drop_rows(ls_stream_t *stream, args_t args) {
  int64_t rows = in_rows(args, 0), row = in_width(args, 0);
  double rate = args->attrs->f[0];
  plane p = plane_for(rows, row);
  drop_rows_kernel<<<p.grid, p.block, 0, ls_kernel_stream(stream)>>>(
      in(args, 0), (const unsigned char *)args->in[1].data, LS_RNG_DROPOUT + (uint32_t)args->attrs->i[0],
      (float)rate, (float)(1 / (1 - rate)), out(args, 0), rows, row);
  return launched(stream, "drop_rows");
}

const ls_kernel_row_t ls_cuda_scale_rows[] = {{"scale_channels", scale_channels},
                                              {"scale_channels_ds", scale_channels_ds},
                                              {"drop_rows", drop_rows},
                                              {}};
