// Group norm: a block for each group of a sample.
#include "device/cuda/block.cuh"

// The elements of a group: element e of group k of x (samples, positions, channels).
struct groups_t {
  int64_t positions, channels, groups, each;
  __device__ int64_t at(int64_t k, int64_t e) const {
    return (k / groups * positions + e / each) * channels + k % groups * each + e % each;
  }
  __device__ int64_t channel(int64_t k, int64_t e) const { return k % groups * each + e % each; }
  __device__ int64_t count() const { return positions * each; }
};

static groups_t groups_of(args_t args, int in) {
  const ls_shape_t *x = &args->in[in].shape;
  groups_t g;
  g.channels = x->dim[x->rank - 1];
  g.groups = args->attrs->i[0];
  g.each = g.channels / g.groups;
  g.positions = ls_shape_count(x) / x->dim[0] / g.channels;
  return g;
}

__global__ void group_norm_kernel(groups_t g, const float *x, const float *gamma, const float *beta,
                                  double eps, float *y, float *means, float *rstds) {
  int64_t k = blockIdx.x, count = g.count();
  double sum = 0, square = 0;
  for (int64_t e = threadIdx.x; e < count; e += BLOCK)
    sum += x[g.at(k, e)];
  double mean = block_sum(sum) / (double)count;
  for (int64_t e = threadIdx.x; e < count; e += BLOCK) {
    double d = x[g.at(k, e)] - mean;
    square += d * d;
  }
  double rstd = 1 / sqrt(block_sum(square) / (double)count + eps);
  for (int64_t e = threadIdx.x; e < count; e += BLOCK)
    y[g.at(k, e)] = (float)((x[g.at(k, e)] - mean) * rstd * gamma[g.channel(k, e)] + beta[g.channel(k, e)]);
  if (threadIdx.x > 0) return;
  means[k] = (float)mean;
  rstds[k] = (float)rstd;
}

static ls_status_t group_norm(ls_stream_t *stream, args_t args) {
  groups_t g = groups_of(args, 0);
  group_norm_kernel<<<(unsigned)(in_rows(args, 0) * g.groups), BLOCK, 0, ls_kernel_stream(stream)>>>(
      g, in(args, 0), in(args, 1), in(args, 2), args->attrs->f[0], out(args, 0), out(args, 1), out(args, 2));
  return launched(stream, "group_norm");
}

__global__ void group_norm_dx_kernel(groups_t g, const float *dy, const float *x, const float *gamma,
                                     const float *means, const float *rstds, float *dx) {
  int64_t k = blockIdx.x, count = g.count();
  double mean = means[k], rstd = rstds[k], sum = 0, dot = 0;
  for (int64_t e = threadIdx.x; e < count; e += BLOCK) {
    double v = (double)dy[g.at(k, e)] * gamma[g.channel(k, e)];
    sum += v;
    dot += v * ((x[g.at(k, e)] - mean) * rstd);
  }
  sum = block_sum(sum) / (double)count;
  dot = block_sum(dot) / (double)count;
  for (int64_t e = threadIdx.x; e < count; e += BLOCK) {
    double v = (double)dy[g.at(k, e)] * gamma[g.channel(k, e)], hat = (x[g.at(k, e)] - mean) * rstd;
    dx[g.at(k, e)] = (float)(rstd * (v - sum - hat * dot));
  }
}

static ls_status_t group_norm_dx(ls_stream_t *stream, args_t args) {
  groups_t g = groups_of(args, 1);
  group_norm_dx_kernel<<<(unsigned)(in_rows(args, 1) * g.groups), BLOCK, 0, ls_kernel_stream(stream)>>>(
      g, in(args, 0), in(args, 1), in(args, 2), in(args, 3), in(args, 4), out(args, 0));
  return launched(stream, "group_norm_dx");
}

__global__ void group_norm_dgb_kernel(groups_t g, const float *dy, const float *x, const float *means,
                                      const float *rstds, float *dgamma, float *dbeta, int64_t samples) {
  int64_t c = blockIdx.x;
  double gamma = 0, beta = 0;
  for (int64_t i = threadIdx.x; i < samples * g.positions; i += BLOCK) {
    int64_t k = i / g.positions * g.groups + c / g.each;
    double v = dy[i * g.channels + c];
    gamma += v * ((x[i * g.channels + c] - (double)means[k]) * (double)rstds[k]);
    beta += v;
  }
  gamma = block_sum(gamma);
  beta = block_sum(beta);
  if (threadIdx.x > 0) return;
  dgamma[c] = (float)gamma;
  dbeta[c] = (float)beta;
}

static ls_status_t group_norm_dgb(ls_stream_t *stream, args_t args) {
  groups_t g = groups_of(args, 1);
  group_norm_dgb_kernel<<<(unsigned)g.channels, BLOCK, 0, ls_kernel_stream(stream)>>>(
      g, in(args, 0), in(args, 1), in(args, 2), in(args, 3), out(args, 0), out(args, 1), in_rows(args, 1));
  return launched(stream, "group_norm_dgb");
}

const ls_kernel_row_t ls_cuda_group_norm_rows[] = {
    {"group_norm", group_norm}, {"group_norm_dx", group_norm_dx}, {"group_norm_dgb", group_norm_dgb}, {}};
