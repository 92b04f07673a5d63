/* Pooling, and values for each channel: loops along the channels of a position. */
#include "device/cpu/cpu.h"
#include "device/window.h"

#include <string.h>

typedef struct {
  const ls_simd_t *simd;
  ls_window_t v;
  const float *x, *dy, *b;
  const uint8_t *place_in;
  float *y, *dx;
  uint8_t *place;
  int64_t rows, width;
} pool_t;

/* The element of x under place k of the window at (oy, ox) of image r, channel 0; -1 in the padding. */
static inline int64_t under(const ls_window_t *v, int64_t r, int64_t oy, int64_t ox, int64_t k) {
  int64_t y = oy * v->sh - v->top + k / v->kw, x = ox * v->sw - v->left + k % v->kw;
  if (y < 0 || y >= v->h || x < 0 || x >= v->w) return -1;
  return ((r * v->h + y) * v->w + x) * v->c;
}

static ls_cpu_work_t work_of(const ls_window_t *v) {
  return LS_CPU_BYTES(v->n * v->oh * v->ow * v->c * (5 + 4 * v->kh * v->kw));
}

static void max_rows(const void *arg, int64_t begin, int64_t end) {
  const pool_t *p = arg;
  const ls_window_t *v = &p->v;
  for (int64_t row = begin; row < end; row++)
    for (int64_t ox = 0; ox < v->ow; ox++) {
      int64_t to = (row * v->ow + ox) * v->c;
      bool first = true;
      for (int64_t k = 0; k < v->kh * v->kw; k++) {
        int64_t at = under(v, row / v->oh, row % v->oh, ox, k);
        if (at < 0) continue;
        if (first) {
          memcpy(p->y + to, p->x + at, (size_t)v->c * sizeof(float));
          memset(p->place + to, (int)k, (size_t)v->c);
        } else
          p->simd->take_larger(v->c, (int)k, p->x + at, p->y + to, p->place + to);
        first = false;
      }
    }
}

static ls_status_t max_pool(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const pool_t p = {.simd = ls_cpu_simd(stream),
                    .v = ls_window_pool(args->attrs, &args->in[0].shape, &args->out[0].shape),
                    .x = args->in[0].data,
                    .y = args->out[0].data,
                    .place = args->out[1].data};
  ls_cpu_loop(stream, p.v.n * p.v.oh, 1, work_of(&p.v), max_rows, &p);
  return LS_OK;
}

static void max_dx_images(const void *arg, int64_t begin, int64_t end) {
  const pool_t *p = arg;
  const ls_window_t *v = &p->v;
  int64_t image = v->h * v->w * v->c;
  memset(p->dx + begin * image, 0, (size_t)((end - begin) * image) * sizeof(float));
  for (int64_t row = begin * v->oh; row < end * v->oh; row++)
    for (int64_t ox = 0; ox < v->ow; ox++)
      for (int64_t k = 0; k < v->kh * v->kw; k++) {
        int64_t from = (row * v->ow + ox) * v->c, at = under(v, row / v->oh, row % v->oh, ox, k);
        if (at >= 0) p->simd->add_where(v->c, (int)k, p->place_in + from, p->dy + from, p->dx + at);
      }
}

static ls_status_t max_pool_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const pool_t p = {.simd = ls_cpu_simd(stream),
                    .v = ls_window_pool(args->attrs, &args->out[0].shape, &args->in[0].shape),
                    .dy = args->in[0].data,
                    .place_in = args->in[1].data,
                    .dx = args->out[0].data};
  ls_cpu_loop(stream, p.v.n, 1, work_of(&p.v), max_dx_images, &p);
  return LS_OK;
}

static void bias_rows(const void *arg, int64_t begin, int64_t end) {
  const pool_t *p = arg;
  for (int64_t r = begin; r < end; r++)
    p->simd->add(p->width, p->x + r * p->width, p->b, p->y + r * p->width);
}

static ls_status_t bias(ls_stream_t *stream, const ls_kernel_args_t *args) {
  pool_t p = {.simd = ls_cpu_simd(stream),
              .width = ls_shape_count(&args->in[1].shape),
              .x = args->in[0].data,
              .b = args->in[1].data,
              .y = args->out[0].data};
  p.rows = ls_shape_count(&args->in[0].shape) / p.width;
  ls_cpu_loop(stream, p.rows, 1, LS_CPU_BYTES(p.rows * p.width * 8), bias_rows, &p);
  return LS_OK;
}

/* Sums of so many rows are added up in f64. */
enum { SUM_ROWS = 64, SUM_COLUMNS = 64 };

static void sum_columns(const void *arg, int64_t begin, int64_t end) {
  const pool_t *p = arg;
  for (int64_t c = begin; c < end; c += SUM_COLUMNS) {
    int64_t count = end - c < SUM_COLUMNS ? end - c : SUM_COLUMNS;
    double sum[SUM_COLUMNS] = {0};
    float some[SUM_COLUMNS];
    for (int64_t r = 0; r < p->rows; r += SUM_ROWS) {
      int64_t rows = p->rows - r < SUM_ROWS ? p->rows - r : SUM_ROWS;
      p->simd->column_sums(rows, 0, count, p->dy + r * p->width + c, p->width, false, some);
      for (int64_t k = 0; k < count; k++)
        sum[k] += some[k];
    }
    for (int64_t k = 0; k < count; k++)
      p->y[c + k] = (float)sum[k];
  }
}

static ls_status_t sum_leading(ls_stream_t *stream, const ls_kernel_args_t *args) {
  pool_t p = {.simd = ls_cpu_simd(stream),
              .width = ls_shape_count(&args->out[0].shape),
              .dy = args->in[0].data,
              .y = args->out[0].data};
  p.rows = ls_shape_count(&args->in[0].shape) / p.width;
  ls_cpu_loop(stream, p.width, 16, LS_CPU_BYTES(p.rows * p.width * 4), sum_columns, &p);
  return LS_OK;
}

/* Sums each sample with sum_columns: its rows are the positions. */
static void mean_samples(const void *arg, int64_t begin, int64_t end) {
  const pool_t *p = arg;
  for (int64_t n = begin; n < end; n++) {
    pool_t one = *p;
    one.dy += n * p->rows * p->width;
    one.y += n * p->width;
    sum_columns(&one, 0, p->width);
    for (int64_t c = 0; c < p->width; c++)
      one.y[c] /= (float)p->rows;
  }
}

static ls_status_t mean_positions(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *x = &args->in[0].shape;
  const pool_t p = {.simd = ls_cpu_simd(stream),
                    .rows = x->dim[1],
                    .width = x->dim[2],
                    .dy = args->in[0].data,
                    .y = args->out[0].data};
  ls_cpu_loop(stream, x->dim[0], 1, LS_CPU_BYTES(ls_shape_count(x) * 4), mean_samples, &p);
  return LS_OK;
}

static void mean_dx_samples(const void *arg, int64_t begin, int64_t end) {
  const pool_t *p = arg;
  for (int64_t n = begin; n < end; n++) {
    float *first = p->dx + n * p->rows * p->width;
    for (int64_t c = 0; c < p->width; c++)
      first[c] = p->dy[n * p->width + c] / (float)p->rows;
    for (int64_t r = 1; r < p->rows; r++)
      memcpy(first + r * p->width, first, (size_t)p->width * sizeof *first);
  }
}

static ls_status_t mean_positions_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *dx = &args->out[0].shape;
  const pool_t p = {.rows = dx->dim[1], .width = dx->dim[2], .dy = args->in[0].data, .dx = args->out[0].data};
  ls_cpu_loop(stream, dx->dim[0], 1, LS_CPU_BYTES(ls_shape_count(dx) * 4), mean_dx_samples, &p);
  return LS_OK;
}

/* ---- a factor for each channel of each sample ---- */

typedef struct {
  const ls_simd_t *simd;
  int64_t each, width; /* positions of a sample, channels */
  const float *x, *s, *dy;
  float *y;
} scale_t;

static scale_t scale_of(ls_stream_t *stream, const ls_shape_t *x) {
  scale_t p = {.simd = ls_cpu_simd(stream), .width = x->dim[x->rank - 1]};
  p.each = ls_shape_count(x) / x->dim[0] / p.width;
  return p;
}

static void scale_rows(const void *arg, int64_t begin, int64_t end) {
  const scale_t *p = arg;
  for (int64_t r = begin; r < end; r++)
    p->simd->mul(p->width, p->x + r * p->width, p->s + r / p->each * p->width, p->y + r * p->width);
}

static ls_status_t scale_channels(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *x = &args->in[0].shape;
  scale_t p = scale_of(stream, x);
  p.x = args->in[0].data;
  p.s = args->in[1].data;
  p.y = args->out[0].data;
  ls_cpu_loop(stream, x->dim[0] * p.each, 1, LS_CPU_BYTES(ls_shape_count(x) * 8), scale_rows, &p);
  return LS_OK;
}

static void scale_ds_samples(const void *arg, int64_t begin, int64_t end) {
  static const float zeros[SUM_COLUMNS] = {0};
  const scale_t *p = arg;
  float ones[SUM_COLUMNS], unused[SUM_COLUMNS], some[SUM_COLUMNS];
  for (int k = 0; k < SUM_COLUMNS; k++)
    ones[k] = 1;
  for (int64_t n = begin; n < end; n++)
    for (int64_t c = 0; c < p->width; c += SUM_COLUMNS) {
      int64_t count = p->width - c < SUM_COLUMNS ? p->width - c : SUM_COLUMNS;
      double sum[SUM_COLUMNS] = {0};
      for (int64_t r = 0; r < p->each; r += SUM_ROWS) {
        int64_t rows = p->each - r < SUM_ROWS ? p->each - r : SUM_ROWS, at = (n * p->each + r) * p->width + c;
        p->simd->channel_slopes(rows, count, p->dy + at, p->x + at, p->width, zeros, ones, unused, some);
        for (int64_t k = 0; k < count; k++)
          sum[k] += some[k];
      }
      for (int64_t k = 0; k < count; k++)
        p->y[n * p->width + c + k] = (float)sum[k];
    }
}

static ls_status_t scale_channels_ds(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *x = &args->in[1].shape;
  scale_t p = scale_of(stream, x);
  p.dy = args->in[0].data;
  p.x = args->in[1].data;
  p.y = args->out[0].data;
  ls_cpu_loop(stream, x->dim[0], 1, LS_CPU_BYTES(ls_shape_count(x) * 8), scale_ds_samples, &p);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_pool_rows[] = {{"max_pool", max_pool},
                                         {"max_pool_dx", max_pool_dx},
                                         {"mean_positions", mean_positions},
                                         {"mean_positions_dx", mean_positions_dx},
                                         {"bias", bias},
                                         {"sum_leading", sum_leading},
                                         {"scale_channels", scale_channels},
                                         {"scale_channels_ds", scale_channels_ds},
                                         {0}};
