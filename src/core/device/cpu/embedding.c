/* Rows of a table by number. Threads share the positions; in the gradient they share the columns, so that a row is
 * summed in the order of the ids for any number of threads. */
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

typedef struct {
  const ls_tensor_t *ids;
  int64_t rows, width, count;
  const float *table, *dy;
  float *y, *dw;
} embedding_t;

static int64_t id_at(const embedding_t *e, int64_t k) {
  const void *ids = e->ids->data;
  double id;
  switch (e->ids->shape.dtype) {
  case LS_U8:
    return ((const uint8_t *)ids)[k] < e->rows ? ((const uint8_t *)ids)[k] : -1;
  case LS_U16:
    return ((const uint16_t *)ids)[k] < e->rows ? ((const uint16_t *)ids)[k] : -1;
  case LS_I32:
    return ((const int32_t *)ids)[k] >= 0 && ((const int32_t *)ids)[k] < e->rows ? ((const int32_t *)ids)[k]
                                                                                 : -1;
  default:
    id = (double)((const float *)ids)[k];
    return id >= 0 && id < (double)e->rows ? (int64_t)id : -1;
  }
}

static void rows_y(const void *arg, int64_t begin, int64_t end) {
  const embedding_t *e = arg;
  for (int64_t k = begin; k < end; k++) {
    int64_t id = id_at(e, k);
    float *y = e->y + k * e->width;
    if (id >= 0)
      memcpy(y, e->table + id * e->width, (size_t)e->width * sizeof *y);
    else
      for (int64_t c = 0; c < e->width; c++)
        y[c] = NAN;
  }
}

static ls_status_t embedding(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *table = &args->in[1].shape;
  embedding_t e = {.ids = &args->in[0],
                   .rows = table->dim[0],
                   .width = table->dim[1],
                   .table = args->in[1].data,
                   .y = args->out[0].data};
  int64_t count = ls_shape_count(&args->in[0].shape);
  ls_cpu_loop(stream, count, 1, LS_CPU_BYTES(count * e.width * 8), rows_y, &e);
  return LS_OK;
}

static void columns_dw(const void *arg, int64_t begin, int64_t end) {
  const embedding_t *e = arg;
  for (int64_t r = 0; r < e->rows; r++)
    memset(e->dw + r * e->width + begin, 0, (size_t)(end - begin) * sizeof(float));
  for (int64_t k = 0; k < e->count; k++) {
    int64_t id = id_at(e, k);
    float *dw = e->dw + id * e->width;
    const float *dy = e->dy + k * e->width;
    for (int64_t c = begin; id >= 0 && c < end; c++)
      dw[c] += dy[c];
  }
}

static ls_status_t embedding_dw(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *table = &args->out[0].shape;
  embedding_t e = {.ids = &args->in[1],
                   .rows = table->dim[0],
                   .width = table->dim[1],
                   .count = ls_shape_count(&args->in[1].shape),
                   .dy = args->in[0].data,
                   .dw = args->out[0].data};
  ls_cpu_loop(stream, e.width, 16, LS_CPU_BYTES((e.rows + 2 * e.count) * e.width * 4), columns_dw, &e);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_embedding_rows[] = {{"embedding", embedding}, {"embedding_dw", embedding_dw}, {0}};
