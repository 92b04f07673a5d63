/* Dropout. Counters run along a row, and rows follow each other. If a row is a multiple of four elements, the whole
 * tensor is one run of counters. */
#include "device/cpu/cpu.h"

#include <math.h>

typedef struct {
  const ls_simd_t *simd;
  const float *x;
  float *y;
  uint64_t seed, counter;
  uint32_t stream, threshold;
  float scale;
  int64_t row, row_counters; /* elements and counters of a row */
} dropout_t;

/* begin, end: in units of four elements of the whole tensor. */
static void drop_flat(const void *arg, int64_t begin, int64_t end) {
  const dropout_t *d = arg;
  d->simd->dropout((end - begin) * 4, d->seed, d->stream, d->counter + (uint64_t)begin, d->threshold,
                   d->scale, d->x + begin * 4, d->y + begin * 4);
}

static void drop_rows(const void *arg, int64_t begin, int64_t end) {
  const dropout_t *d = arg;
  for (int64_t r = begin; r < end; r++)
    d->simd->dropout(d->row, d->seed, d->stream, d->counter + (uint64_t)(r * d->row_counters), d->threshold,
                     d->scale, d->x + r * d->row, d->y + r * d->row);
}

static ls_status_t dropout(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *shape = &args->in[0].shape;
  const ls_step_params_t *step = args->in[1].data;
  double rate = args->attrs->f[0];
  int64_t count = ls_shape_count(shape), rows = shape->rank ? shape->dim[0] : 1;
  if (count < 1) return LS_OK;
  dropout_t d = {.simd = ls_cpu_simd(stream),
                 .x = args->in[0].data,
                 .y = args->out[0].data,
                 .seed = step->seed,
                 .stream = (uint32_t)(LS_RNG_DROPOUT + args->attrs->i[0]),
                 .threshold = (uint32_t)ceil((double)(float)rate * 0x1p24),
                 .scale = (float)(1 / (1 - rate)),
                 .row = count / rows};
  d.row_counters = (d.row + 3) / 4;
  d.counter = step->position * (uint64_t)d.row_counters;
  if (d.row % 4 == 0)
    ls_cpu_loop(stream, count / 4, 16, LS_CPU_FLOPS(count * 8 * 16), drop_flat, &d);
  else
    ls_cpu_loop(stream, rows, 1, LS_CPU_FLOPS(count * 8 * 16), drop_rows, &d);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_dropout_rows[] = {{"dropout", dropout}, {0}};
