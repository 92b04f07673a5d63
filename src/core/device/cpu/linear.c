/* linear and its gradients: own products for few rows, a library's for many. Threads share the rows or the columns of the
 * result, whichever are more. */
#include "device/cpu/cpu.h"

#include <string.h>

enum { GRAIN = 16 };

typedef struct {
  const ls_simd_t *simd;
  int64_t n, i, o;
  bool by_rows; /* threads share the rows of the result */
  const float *x, *w, *b, *dy;
  const uint16_t *low_dy; /* bf16 */
  float *y, *dx, *dw, *db;
} linear_t;

/* w: weights or their gradient (o, i); y: any tensor of n rows of o. */
static linear_t linear_of(const ls_stream_t *stream, const ls_shape_t *w, const ls_shape_t *y) {
  linear_t p = {.simd = ls_cpu_simd(stream), .o = w->dim[0], .i = w->dim[1]};
  p.n = ls_shape_count(y) / p.o;
  return p;
}

static const ls_cpu_few_rows_t *few_rows(const ls_stream_t *stream) {
  return &((const ls_cpu_device_t *)stream->device)->few_rows;
}

static ls_cpu_work_t product_work(const linear_t *p) {
  return LS_CPU_FLOPS(2 * p->n * p->i * p->o);
}

/* The part of a result with `across` columns that [begin, end) stands for. */
typedef struct {
  int64_t row, rows, column, columns;
} part_t;

static part_t part_of(const linear_t *p, int64_t across, int64_t begin, int64_t end) {
  return p->by_rows ? (part_t){begin, end - begin, 0, across} : (part_t){0, p->n, begin, end - begin};
}

static void library_loop(ls_stream_t *stream, linear_t *p, int64_t across, ls_cpu_loop_fn fn) {
  p->by_rows = p->n >= across;
  ls_cpu_library_loop(stream, p->by_rows ? p->n : across, GRAIN, product_work(p), fn, p);
}

/* bf16: the processor multiplies twice as many numbers at a time as of f32, and they take half the bytes. */
static ls_status_t low_product(ls_stream_t *stream, const ls_kernel_args_t *args, ls_cpu_product_t product) {
  product.a = args->in[0].data;
  product.b = args->in[1].data;
  product.c = args->out[0].data;
  ls_status_t status = ls_cpu_product_bf16(stream, &product);
  return status == LS_ERR_UNSUPPORTED ? args->widened(stream, args) : status;
}

static bool is_low(const ls_kernel_args_t *args) {
  return args->in[0].shape.dtype == LS_BF16;
}

static void few_y(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  p->simd->product_nt(p->n, begin, end, p->i, p->x, p->i, p->w, p->i, p->b, p->y, p->o);
}

/* The bias is written first and the product added to it, so that y is not read again later. */
static void many_y(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  const part_t part = part_of(p, p->o, begin, end);
  float *y = p->y + part.row * p->o + part.column;
  for (int64_t r = 0; r < part.rows; r++)
    memcpy(y + r * p->o, p->b + part.column, (size_t)part.columns * sizeof *y);
  ls_cpu_gemm(false, true, part.rows, part.columns, p->i, p->x + part.row * p->i, p->i,
              p->w + part.column * p->i, p->i, 1, y, p->o);
}

static ls_status_t linear(ls_stream_t *stream, const ls_kernel_args_t *args) {
  linear_t p = linear_of(stream, &args->in[1].shape, &args->out[0].shape);
  p.x = args->in[0].data;
  p.w = args->in[1].data;
  p.b = args->in[2].data;
  p.y = args->out[0].data;
  if (is_low(args))
    return low_product(stream, args,
                       (ls_cpu_product_t){.m = p.n,
                                          .n = p.o,
                                          .k = p.i,
                                          .lda = p.i,
                                          .ldb = p.i,
                                          .ldc = p.o,
                                          .transpose_b = true,
                                          .low = true,
                                          .by_columns = p.n < p.o,
                                          .bias = args->in[2].data});
  if (p.n <= few_rows(stream)->y)
    ls_cpu_loop(stream, p.o, GRAIN, product_work(&p), few_y, &p);
  else
    library_loop(stream, &p, p.o, many_y);
  return LS_OK;
}

static void few_dx(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  p->simd->product_nn(p->n, begin, end, p->o, p->dy, p->o, p->w, p->i, p->dx, p->i);
}

static void many_dx(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  const part_t part = part_of(p, p->i, begin, end);
  ls_cpu_gemm(false, false, part.rows, part.columns, p->o, p->dy + part.row * p->o, p->o, p->w + part.column,
              p->i, 0, p->dx + part.row * p->i + part.column, p->i);
}

static ls_status_t linear_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  enum { FEW_GRAIN = 48 };
  linear_t p = linear_of(stream, &args->in[1].shape, &args->in[0].shape);
  p.dy = args->in[0].data;
  p.w = args->in[1].data;
  p.dx = args->out[0].data;
  if (is_low(args))
    return low_product(stream, args,
                       (ls_cpu_product_t){.m = p.n,
                                          .n = p.i,
                                          .k = p.o,
                                          .lda = p.o,
                                          .ldb = p.i,
                                          .ldc = p.i,
                                          .low = true,
                                          .by_columns = p.n < p.i});
  if (p.n <= few_rows(stream)->dx)
    ls_cpu_loop(stream, p.i, FEW_GRAIN, product_work(&p), few_dx, &p);
  else
    library_loop(stream, &p, p.i, many_dx);
  return LS_OK;
}

/* Computes rows [begin, end) of dw, and of db if it is wanted. A part of dy is summed just before the product reads
 * it again. */
static void few_dwb(const void *arg, int64_t begin, int64_t end) {
  const linear_t *p = arg;
  if (p->db) p->simd->column_sums(p->n, begin, end, p->dy, p->o, false, p->db);
  p->simd->product_tn(begin, end, p->i, p->n, p->dy, p->o, p->x, p->i, p->dw, p->i);
}

/* Cuts the rows into blocks that stay in the caches while they are summed. */
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

/* db of bf16. */
static void low_column_sums(const void *arg, int64_t begin, int64_t end) {
  enum { BLOCK = 1024 };
  const linear_t *p = arg;
  const uint16_t *dy = p->low_dy;
  float row[BLOCK];
  for (int64_t c = begin; c < end; c += BLOCK) {
    int64_t count = end - c < BLOCK ? end - c : BLOCK;
    p->simd->from_bf16(count, dy + c, p->db + c);
    for (int64_t r = 1; r < p->n; r++) {
      p->simd->from_bf16(count, dy + r * p->o + c, row);
      p->simd->add(count, p->db + c, row, p->db + c);
    }
  }
}

static ls_status_t low_dwb(ls_stream_t *stream, const ls_kernel_args_t *args, const linear_t *p) {
  ls_status_t status = low_product(
      stream, args,
      (ls_cpu_product_t){
          .m = p->o, .n = p->i, .k = p->n, .lda = p->o, .ldb = p->i, .ldc = p->i, .transpose_a = true});
  if (!status && p->db) ls_cpu_loop(stream, p->o, GRAIN, LS_CPU_BYTES(p->n * p->o * 4), low_column_sums, p);
  return status;
}

static ls_status_t linear_dwb(ls_stream_t *stream, const ls_kernel_args_t *args) {
  linear_t p = linear_of(stream, &args->out[0].shape, &args->in[0].shape);
  p.dy = args->in[0].data;
  p.low_dy = args->in[0].data;
  p.x = args->in[1].data;
  p.dw = args->out[0].data;
  p.db = args->out_count > 1 ? args->out[1].data : NULL;
  if (is_low(args)) return low_dwb(stream, args, &p);
  if (p.n <= few_rows(stream)->dwb)
    ls_cpu_loop(stream, p.o, GRAIN, product_work(&p), few_dwb, &p);
  else
    ls_cpu_library_loop(stream, p.o, GRAIN, product_work(&p), many_dwb, &p);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_linear_rows[] = {{"linear", linear, true},
                                           {"linear_dx", linear_dx, true},
                                           {"linear_dwb", linear_dwb, true},
                                           {"linear_dw", linear_dwb, true},
                                           {0}};
