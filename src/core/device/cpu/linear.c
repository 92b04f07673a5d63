/* linear and its gradients: own products for few rows, a library's for many. Either the weights are cut along
 * outputs or the rows along samples, whichever gives every thread the larger product. */
#include "device/cpu/cpu.h"

#include <string.h>

typedef struct {
  const ls_simd_t *simd;
  int64_t n, i, o;
  const float *x, *w, *b, *dy;
  float *y, *dx, *dw, *db;
} linear_t;

static const ls_cpu_few_rows_t *few_rows(const ls_stream_t *stream) {
  return &((const ls_cpu_device_t *)stream->device)->few_rows;
}

static ls_cpu_work_t product_work(const linear_t *p) {
  return LS_CPU_FLOPS(2 * p->n * p->i * p->o);
}

static void few_y(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  p->simd->product_nt(p->n, begin, end, p->i, p->x, p->i, p->w, p->i, p->b, p->y, p->o);
}

/* The bias is written first and the product added to it, so that y is not read again later. */
static void many_y(const linear_t *p, int64_t row, int64_t rows, int64_t out, int64_t outs) {
  for (int64_t r = row; r < row + rows; r++)
    memcpy(p->y + r * p->o + out, p->b + out, (size_t)outs * sizeof(float));
  ls_cpu_gemm(false, true, rows, outs, p->i, p->x + row * p->i, p->i, p->w + out * p->i, p->i, 1,
              p->y + row * p->o + out, p->o);
}

static void many_y_rows(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  many_y(p, begin, end - begin, 0, p->o);
}

static void many_y_outs(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  many_y(p, 0, p->n, begin, end - begin);
}

/* ---- bf16: twice as many products at a time as the processor multiplies of f32, and half the bytes ---- */

static ls_status_t low_product(ls_stream_t *stream, const ls_kernel_args_t *args,
                               const ls_cpu_product_t *product) {
  ls_status_t status = ls_cpu_product_bf16(stream, product);
  return status == LS_ERR_UNSUPPORTED ? args->widened(stream, args) : status;
}

static ls_cpu_product_t product_y(const linear_t *p) {
  return (ls_cpu_product_t){.m = p->n,
                            .n = p->o,
                            .k = p->i,
                            .lda = p->i,
                            .ldb = p->i,
                            .ldc = p->o,
                            .transpose_b = true,
                            .low = true,
                            .by_columns = p->n < p->o};
}

static ls_cpu_product_t product_dx(const linear_t *p) {
  return (ls_cpu_product_t){.m = p->n,
                            .n = p->i,
                            .k = p->o,
                            .lda = p->o,
                            .ldb = p->i,
                            .ldc = p->i,
                            .low = true,
                            .by_columns = p->n < p->i};
}

static ls_cpu_product_t product_dwb(const linear_t *p) {
  return (ls_cpu_product_t){
      .m = p->o, .n = p->i, .k = p->n, .lda = p->o, .ldb = p->i, .ldc = p->i, .transpose_a = true};
}

static ls_status_t low_y(ls_stream_t *stream, const ls_kernel_args_t *args, const linear_t *p) {
  ls_cpu_product_t product = product_y(p);
  product.a = args->in[0].data;
  product.b = args->in[1].data;
  product.bias = args->in[2].data;
  product.c = args->out[0].data;
  return low_product(stream, args, &product);
}

static ls_status_t low_dx(ls_stream_t *stream, const ls_kernel_args_t *args, const linear_t *p) {
  ls_cpu_product_t product = product_dx(p);
  product.a = args->in[0].data;
  product.b = args->in[1].data;
  product.c = args->out[0].data;
  return low_product(stream, args, &product);
}

typedef struct {
  const ls_simd_t *simd;
  const uint16_t *dy;
  float *sums;
  int64_t rows, width;
} low_sums_t;

static void low_column_sums(const void *arg, int64_t begin, int64_t end) {
  enum { BLOCK = 1024 };
  const low_sums_t *p = arg;
  float row[BLOCK];
  for (int64_t c = begin; c < end; c += BLOCK) {
    int64_t count = end - c < BLOCK ? end - c : BLOCK;
    p->simd->from_bf16(count, p->dy + c, p->sums + c);
    for (int64_t r = 1; r < p->rows; r++) {
      p->simd->from_bf16(count, p->dy + r * p->width + c, row);
      p->simd->add(count, p->sums + c, row, p->sums + c);
    }
  }
}

static ls_status_t low_dwb(ls_stream_t *stream, const ls_kernel_args_t *args, const linear_t *p) {
  ls_cpu_product_t product = product_dwb(p);
  product.a = args->in[0].data;
  product.b = args->in[1].data;
  product.c = args->out[0].data;
  const low_sums_t sums = {ls_cpu_simd(stream), args->in[0].data, p->db, p->n, p->o};
  ls_status_t status = low_product(stream, args, &product);
  if (!status && p->db) ls_cpu_loop(stream, p->o, 16, LS_CPU_BYTES(p->n * p->o * 4), low_column_sums, &sums);
  return status;
}

static ls_status_t linear(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *w = &args->in[1].shape;
  linear_t p = {.simd = ls_cpu_simd(stream),
                .o = w->dim[0],
                .i = w->dim[1],
                .x = args->in[0].data,
                .w = args->in[1].data,
                .b = args->in[2].data,
                .y = args->out[0].data};
  p.n = ls_shape_count(&args->out[0].shape) / p.o;
  if (args->in[0].shape.dtype == LS_BF16) return low_y(stream, args, &p);
  if (p.n <= few_rows(stream)->y)
    ls_cpu_loop(stream, p.o, 16, product_work(&p), few_y, &p);
  else if (p.n >= p.o)
    ls_cpu_library_loop(stream, p.n, 16, product_work(&p), many_y_rows, &p);
  else
    ls_cpu_library_loop(stream, p.o, 16, product_work(&p), many_y_outs, &p);
  return LS_OK;
}

static void few_dx(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  p->simd->product_nn(p->n, begin, end, p->o, p->dy, p->o, p->w, p->i, p->dx, p->i);
}

static void many_dx_rows(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  ls_cpu_gemm(false, false, end - begin, p->i, p->o, p->dy + begin * p->o, p->o, p->w, p->i, 0,
              p->dx + begin * p->i, p->i);
}

static void many_dx_columns(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  ls_cpu_gemm(false, false, p->n, end - begin, p->o, p->dy, p->o, p->w + begin, p->i, 0, p->dx + begin, p->i);
}

static ls_status_t linear_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *w = &args->in[1].shape;
  linear_t p = {.simd = ls_cpu_simd(stream),
                .o = w->dim[0],
                .i = w->dim[1],
                .dy = args->in[0].data,
                .w = args->in[1].data,
                .dx = args->out[0].data};
  p.n = ls_shape_count(&args->in[0].shape) / p.o;
  if (args->in[0].shape.dtype == LS_BF16) return low_dx(stream, args, &p);
  if (p.n <= few_rows(stream)->dx)
    ls_cpu_loop(stream, p.i, 48, product_work(&p), few_dx, &p);
  else if (p.n >= p.i)
    ls_cpu_library_loop(stream, p.n, 16, product_work(&p), many_dx_rows, &p);
  else
    ls_cpu_library_loop(stream, p.i, 16, product_work(&p), many_dx_columns, &p);
  return LS_OK;
}

/* Rows [begin, end) of dw, and of db where it is wanted: this part of dy is summed just before the product reads it again. */
static void few_dwb(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  if (p->db) p->simd->column_sums(p->n, begin, end, p->dy, p->o, false, p->db);
  p->simd->product_tn(begin, end, p->i, p->n, p->dy, p->o, p->x, p->i, p->dw, p->i);
}

/* In blocks of rows, which are summed while the caches hold them. */
enum { SUM_ROWS = 256 };
static void many_dwb(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  for (int64_t r = 0; r < p->n; r += SUM_ROWS) {
    int64_t rows = p->n - r < 2 * SUM_ROWS ? p->n - r : SUM_ROWS;
    const float *dy = p->dy + r * p->o;
    if (p->db) p->simd->column_sums(rows, begin, end, dy, p->o, r > 0, p->db);
    ls_cpu_gemm(true, false, end - begin, p->i, rows, dy + begin, p->o, p->x + r * p->i, p->i, r > 0,
                p->dw + begin * p->i, p->i);
    if (rows > SUM_ROWS) break;
  }
}

static ls_status_t linear_dwb(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *dw = &args->out[0].shape;
  linear_t p = {.simd = ls_cpu_simd(stream),
                .o = dw->dim[0],
                .i = dw->dim[1],
                .dy = args->in[0].data,
                .x = args->in[1].data,
                .dw = args->out[0].data,
                .db = args->out_count > 1 ? args->out[1].data : NULL};
  p.n = ls_shape_count(&args->in[0].shape) / p.o;
  if (args->in[0].shape.dtype == LS_BF16) return low_dwb(stream, args, &p);
  if (p.n <= few_rows(stream)->dwb)
    ls_cpu_loop(stream, p.o, 16, product_work(&p), few_dwb, &p);
  else
    ls_cpu_library_loop(stream, p.o, 16, product_work(&p), many_dwb, &p);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_linear_rows[] = {{"linear", linear, true},
                                           {"linear_dx", linear_dx, true},
                                           {"linear_dwb", linear_dwb, true},
                                           {"linear_dw", linear_dwb, true},
                                           {0}};
