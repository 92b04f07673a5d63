/* Batch norm. Sums are cut along the channels, so that their bits do not depend on the number of threads. Elements
 * are cut along the positions. The rest of a mean that f32 cannot represent goes into a channel's factors. */
#include "device/cpu/cpu.h"
#include "device/mean.h"

#include <math.h>
#include <string.h>

typedef struct {
  const ls_simd_t *simd;
  int64_t n, each, c;            /* samples, positions of each, channels */
  bool low;                      /* x, dy and y are bf16 */
  const ls_tensor_t *x, *dy, *y; /* dy: NULL in moments */
  double *sums;                  /* (2, c) */
  const float *weight, *mean, *rstd, *a, *b, *offset;
} norm_t;

/* Sums of so many rows, and of so many channels at once, are added up in f64. */
enum { SUM_ROWS = 64, SUM_CHANNELS = LS_SIMD_CHANNELS };
/* bf16 is widened row by row, up to so many channels. */
enum { LOW_CHANNELS = 4096 };

static norm_t norm_of(const ls_stream_t *stream, const ls_tensor_t *x, const ls_tensor_t *dy) {
  const ls_shape_t *shape = &x->shape;
  norm_t p = {.simd = ls_cpu_simd(stream),
              .n = shape->dim[0],
              .c = shape->dim[shape->rank - 1],
              .low = shape->dtype == LS_BF16,
              .x = x,
              .dy = dy};
  p.each = ls_shape_count(shape) / p.n / p.c;
  return p;
}

static ls_cpu_work_t work_of(const norm_t *p, int tensors) {
  return LS_CPU_BYTES(p->n * p->each * p->c * 4 * tensors);
}

/* Adds two sums over `rows` rows from `row` on to each of `count` channels from c on. */
static void sum_block(const norm_t *p, int64_t row, int64_t rows, int64_t c, int64_t count) {
  float wide_x[SUM_ROWS * SUM_CHANNELS], wide_dy[SUM_ROWS * SUM_CHANNELS], a[SUM_CHANNELS], b[SUM_CHANNELS];
  const int64_t at = row * p->c + c, ld = p->low ? count : p->c;
  for (int64_t k = 0; k < rows && p->low; k++) {
    ls_cpu_f32(p->simd, p->x, at + k * p->c, count, wide_x + k * count);
    if (p->dy) ls_cpu_f32(p->simd, p->dy, at + k * p->c, count, wide_dy + k * count);
  }
  const float *x = p->low ? wide_x : (const float *)p->x->data + at;
  double *first = p->sums + c, *second = first + p->c;
  if (!p->dy) {
    p->simd->channel_moments(rows, count, x, ld, p->mean + c, first, second);
    return;
  }
  const float *dy = p->low ? wide_dy : (const float *)p->dy->data + at;
  p->simd->channel_slopes(rows, count, dy, x, ld, p->mean + c, p->rstd + c, a, b);
  for (int64_t k = 0; k < count; k++) {
    first[k] += a[k];
    second[k] += b[k];
  }
}

/* Computes two sums for each channel in [begin, end): moments around `mean`, or sums with dy. */
static void sum_channels(const void *arg, int64_t begin, int64_t end) {
  const norm_t *p = arg;
  for (int k = 0; k < 2; k++)
    memset(p->sums + k * p->c + begin, 0, (size_t)(end - begin) * sizeof *p->sums);
  for (int64_t n = 0, until; n < p->n; n = until) {
    until = n + 1;
    if (!(p->weight[n] > 0)) continue;
    while (until < p->n && p->weight[until] > 0)
      until++;
    for (int64_t r = n * p->each; r < until * p->each; r += SUM_ROWS) {
      int64_t left = until * p->each - r, rows = left < SUM_ROWS ? left : SUM_ROWS;
      for (int64_t c = begin; c < end; c += SUM_CHANNELS)
        sum_block(p, r, rows, c, end - c < SUM_CHANNELS ? end - c : SUM_CHANNELS);
    }
  }
}

static ls_status_t bn_sums(ls_stream_t *stream, const ls_kernel_args_t *args) {
  norm_t p = norm_of(stream, &args->in[0], NULL);
  int64_t count = 0;
  p.weight = args->in[1].data;
  p.mean = args->in[2].data;
  p.sums = (double *)args->out[0].data + 1;
  for (int64_t n = 0; n < p.n; n++)
    count += p.weight[n] > 0;
  p.sums[-1] = (double)(count * p.each);
  ls_cpu_loop(stream, p.c, 16, work_of(&p, 1), sum_channels, &p);
  return LS_OK;
}

static ls_status_t bn_back_sums(ls_stream_t *stream, const ls_kernel_args_t *args) {
  norm_t p = norm_of(stream, &args->in[1], &args->in[0]);
  p.mean = args->in[2].data;
  p.rstd = args->in[3].data;
  p.weight = args->in[4].data;
  p.sums = ls_cpu_room(stream, (size_t)(2 * p.c) * sizeof *p.sums);
  if (!p.sums) return LS_ERR_MEMORY;
  ls_cpu_loop(stream, p.c, 16, work_of(&p, 2), sum_channels, &p);
  const float *rest = ls_mean_rest(&args->in[2]);
  float *both = args->out[0].data;
  for (int64_t k = 0; k < p.c; k++) {
    if (rest) p.sums[p.c + k] -= p.sums[k] * ((double)rest[k] * p.rstd[k]);
    ((float *)args->out[1].data)[k] = both[k] = (float)p.sums[k];
    ((float *)args->out[2].data)[k] = both[p.c + k] = (float)p.sums[p.c + k];
  }
  return LS_OK;
}

static bool is_wide(const norm_t *p) {
  return p->low && p->c > LOW_CHANNELS;
}

/* Row r of y, or room for it until put_row. */
static float *row_of_y(const norm_t *p, int64_t r, float *room) {
  return p->low ? room : (float *)p->y->data + r * p->c;
}

static void put_row(const norm_t *p, int64_t r, const float *room) {
  if (p->low) p->simd->to_bf16(p->c, room, (uint16_t *)p->y->data + r * p->c);
}

static void rows_y(const void *arg, int64_t begin, int64_t end) {
  const norm_t *p = arg;
  float wide[LOW_CHANNELS];
  for (int64_t r = begin; r < end; r++) {
    const float *x = ls_cpu_f32(p->simd, p->x, r * p->c, p->c, wide);
    p->simd->channel_scale(p->c, x, p->mean, p->a, p->b, row_of_y(p, r, wide));
    put_row(p, r, wide);
  }
}

static ls_status_t bn_apply(ls_stream_t *stream, const ls_kernel_args_t *args) {
  norm_t p = norm_of(stream, &args->in[0], NULL);
  if (is_wide(&p)) return args->widened(stream, args);
  float *a = ls_cpu_room(stream, (size_t)(2 * p.c) * sizeof *a), *b = a + p.c;
  if (!a) return LS_ERR_MEMORY;
  const float *rest = ls_mean_rest(&args->in[1]), *beta = args->in[4].data;
  p.simd->mul(p.c, args->in[2].data, args->in[3].data, a);
  for (int64_t k = 0; k < p.c; k++)
    b[k] = rest ? beta[k] - rest[k] * a[k] : beta[k];
  p.mean = args->in[1].data;
  p.a = a;
  p.b = b;
  p.y = &args->out[0];
  ls_cpu_loop(stream, p.n * p.each, 1, work_of(&p, 2), rows_y, &p);
  return LS_OK;
}

static void rows_dx(const void *arg, int64_t begin, int64_t end) {
  const norm_t *p = arg;
  float wide[LOW_CHANNELS], wide_x[LOW_CHANNELS];
  for (int64_t r = begin; r < end; r++) {
    float *dx = row_of_y(p, r, wide);
    if (p->weight[r / p->each] > 0) {
      const float *x = ls_cpu_f32(p->simd, p->x, r * p->c, p->c, wide_x);
      const float *dy = ls_cpu_f32(p->simd, p->dy, r * p->c, p->c, wide);
      p->simd->channel_dx(p->c, dy, x, p->mean, p->a, p->b, p->offset, dx);
    } else
      memset(dx, 0, (size_t)p->c * sizeof *dx);
    put_row(p, r, wide);
  }
}

static ls_status_t bn_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  norm_t p = norm_of(stream, &args->in[1], &args->in[0]);
  if (is_wide(&p)) return args->widened(stream, args);
  const float *gamma = args->in[2].data, *rstd = args->in[4].data, *back = args->in[6].data;
  const float *rest = ls_mean_rest(&args->in[3]);
  double count = *(const double *)args->in[7].data;
  float *a = ls_cpu_room(stream, (size_t)(3 * p.c) * sizeof *a), *b = a + p.c, *offset = b + p.c;
  if (!a) return LS_ERR_MEMORY;
  for (int64_t k = 0; k < p.c; k++) {
    double scale = (double)gamma[k] * rstd[k];
    a[k] = (float)scale;
    b[k] = (float)(-scale * rstd[k] * back[p.c + k] / count);
    offset[k] = (float)(-scale * back[k] / count - (rest ? rest[k] : 0) * b[k]);
  }
  p.mean = args->in[3].data;
  p.weight = args->in[5].data;
  p.a = a;
  p.b = b;
  p.offset = offset;
  p.y = &args->out[0];
  ls_cpu_loop(stream, p.n * p.each, 1, work_of(&p, 3), rows_dx, &p);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_batch_norm_rows[] = {{"bn_sums", bn_sums, true},
                                               {"bn_back_sums", bn_back_sums, true},
                                               {"bn_apply", bn_apply, true},
                                               {"bn_dx", bn_dx, true},
                                               {0}};
