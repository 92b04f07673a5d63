/* Layer norm: rows are independent. The gradients of gamma and beta add over rows, so they are cut along the features. */
#include "device/cpu/cpu.h"

#include <string.h>

typedef struct {
  const ls_simd_t *simd;
  int64_t rows, width;
  double eps;
  const float *x, *dy, *gamma, *beta, *mean_in, *rstd_in;
  float *y, *mean, *rstd, *dx, *dgamma, *dbeta;
} norm_t;

enum { PASSES = 3 };
static ls_cpu_work_t work_of(const norm_t *n) {
  return LS_CPU_BYTES(n->rows * n->width * 4 * PASSES);
}

static void rows_y(const void *arg, int64_t begin, int64_t end) {
  const norm_t *n = arg;
  for (int64_t r = begin; r < end; r++) {
    const float *x = n->x + r * n->width;
    double mean, rstd;
    n->simd->moments(n->width, x, n->eps, &mean, &rstd);
    n->simd->normalize(n->width, x, mean, (float)rstd, n->gamma, n->beta, n->y + r * n->width);
    n->mean[r] = (float)mean;
    n->rstd[r] = (float)rstd;
  }
}

static ls_status_t layer_norm(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int64_t width = args->in[1].shape.dim[0];
  norm_t n = {.simd = ls_cpu_simd(stream),
              .rows = ls_shape_count(&args->in[0].shape) / width,
              .width = width,
              .eps = args->attrs->f[0],
              .x = args->in[0].data,
              .gamma = args->in[1].data,
              .beta = args->in[2].data,
              .y = args->out[0].data,
              .mean = args->out[1].data,
              .rstd = args->out[2].data};
  ls_cpu_loop(stream, n.rows, 1, work_of(&n), rows_y, &n);
  return LS_OK;
}

static void rows_dx(const void *arg, int64_t begin, int64_t end) {
  const norm_t *n = arg;
  for (int64_t r = begin; r < end; r++)
    n->simd->normalize_dx(n->width, n->dy + r * n->width, n->x + r * n->width, n->gamma, n->mean_in[r],
                          n->rstd_in[r], n->dx + r * n->width);
}

/* dy, x, and from input `mean` on the means and reciprocal deviations of the rows. */
static norm_t backward_of(ls_stream_t *stream, const ls_kernel_args_t *args, int64_t width, int mean) {
  return (norm_t){.simd = ls_cpu_simd(stream),
                  .rows = ls_shape_count(&args->in[0].shape) / width,
                  .width = width,
                  .dy = args->in[0].data,
                  .x = args->in[1].data,
                  .mean_in = args->in[mean].data,
                  .rstd_in = args->in[mean + 1].data};
}

static ls_status_t layer_norm_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  norm_t n = backward_of(stream, args, args->in[2].shape.dim[0], 3);
  n.gamma = args->in[2].data;
  n.dx = args->out[0].data;
  ls_cpu_loop(stream, n.rows, 1, work_of(&n), rows_dx, &n);
  return LS_OK;
}

static void columns_dgb(const void *arg, int64_t begin, int64_t end) {
  const norm_t *n = arg;
  memset(n->dgamma + begin, 0, (size_t)(end - begin) * sizeof(float));
  memset(n->dbeta + begin, 0, (size_t)(end - begin) * sizeof(float));
  for (int64_t r = 0; r < n->rows; r++)
    n->simd->normalize_dgb(begin, end, n->dy + r * n->width, n->x + r * n->width, n->mean_in[r],
                           n->rstd_in[r], n->dgamma, n->dbeta);
}

static ls_status_t layer_norm_dgb(ls_stream_t *stream, const ls_kernel_args_t *args) {
  norm_t n = backward_of(stream, args, args->out[0].shape.dim[0], 2);
  n.dgamma = args->out[0].data;
  n.dbeta = args->out[1].data;
  ls_cpu_loop(stream, n.width, 16, work_of(&n), columns_dgb, &n);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_norm_rows[] = {
    {"layer_norm", layer_norm}, {"layer_norm_dx", layer_norm_dx}, {"layer_norm_dgb", layer_norm_dgb}, {0}};
