/* Inside the cpu backend: tuned kernels by op name, and how they share work between threads. */
#ifndef LS_DEVICE_CPU_CPU_H
#define LS_DEVICE_CPU_CPU_H

#include "device/cpu/simd.h"
#include "device/host/host.h"
#include "device/window.h"

/* A linear layer with at most so many rows (samples) uses our own products instead of the library's. */
typedef struct {
  int64_t y, dx, dwb;
} ls_cpu_few_rows_t;

typedef struct ls_cpu_onednn ls_cpu_onednn_t;
typedef struct ls_cpu_rounded ls_cpu_rounded_t;

typedef struct {
  ls_host_device_t host;
  const ls_simd_t *simd;
  const ls_simd_int8_t *int8;
  ls_cpu_rounded_t *rounded; /* weights that are kept as 8-bit integers (int8.c) */
  ls_cpu_few_rows_t few_rows;
  void *room; /* for the kernel that runs; as large as the largest needed so far */
  size_t room_bytes;
  ls_cpu_onednn_t *onednn; /* made when it is needed first */
} ls_cpu_device_t;

static inline const ls_simd_t *ls_cpu_simd(const ls_stream_t *stream) {
  return ((const ls_cpu_device_t *)stream->device)->simd;
}

/* Elements [at, at + count) of a tensor of floats in f32: where they lie, or widened into `room`. */
static inline const float *ls_cpu_f32(const ls_simd_t *simd, const ls_tensor_t *t, int64_t at, int64_t count,
                                      float *room) {
  if (t->shape.dtype == LS_F32) return (const float *)t->data + at;
  (t->shape.dtype == LS_BF16 ? simd->from_bf16 : simd->from_f16)(count, (const uint16_t *)t->data + at, room);
  return room;
}

/* The amount of work in a whole loop. */
typedef struct {
  int64_t bytes; /* bytes moved; heavy arithmetic counts as its time in bytes */
  int64_t flops; /* FLOPs of products, and of work that takes as long */
} ls_cpu_work_t;
#define LS_CPU_BYTES(count) ((ls_cpu_work_t){.bytes = (count)})
#define LS_CPU_FLOPS(count) ((ls_cpu_work_t){.flops = (count)})

/* The cost in bytes moved: 16 FLOPs take about as long as a byte from memory. */
static inline int64_t ls_cpu_cost(ls_cpu_work_t work) {
  return work.bytes + work.flops / 16;
}

/* Calls fn(arg, begin, end) for parts of [0, count) cut at multiples of `grain`. A loop that costs less than
 * LS_CPU_COST_MIN is one part. The pool chooses how many threads run the parts (ls_pool_run_work), which
 * changes no bits. */
enum { LS_CPU_COST_MIN = 48 * 1024 };
typedef void (*ls_cpu_loop_fn)(const void *arg, int64_t begin, int64_t end);
void ls_cpu_loop(ls_stream_t *stream, int64_t count, int64_t grain, ls_cpu_work_t work, ls_cpu_loop_fn fn,
                 const void *arg);

/* The number of parts of such a loop. */
int ls_cpu_parts(ls_stream_t *stream, ls_cpu_work_t work);
/* Runs a loop that calls a library's kernels, and lets no signal handler run meanwhile. oneDNN's kernels keep the
 * stack pointer within memory from malloc, and a signal's frame would overwrite the heap below it. Any handler of a
 * program that embeds this library would do so, unless it has an alternate stack. The pool's own threads never take
 * signals. A signal that arrives during the loop is handled after it. */
void ls_cpu_library_loop(ls_stream_t *stream, int64_t count, int64_t grain, ls_cpu_work_t work,
                         ls_cpu_loop_fn fn, const void *arg);
/* Returns at least so many bytes for the kernel that runs on the compute lane, 64-byte aligned, contents undefined.
 * It grows in the first step only. NULL when memory is short. */
void *ls_cpu_room(ls_stream_t *stream, size_t size_bytes);

/* Adds up fn's two sums over the parts of such a loop, in the order of the parts: the same number of threads gives
 * the same bits. */
typedef void (*ls_cpu_sum_fn)(const void *arg, int64_t begin, int64_t end, double sums[2]);
void ls_cpu_sum(ls_stream_t *stream, int64_t count, int64_t grain, ls_cpu_work_t work, ls_cpu_sum_fn fn,
                const void *arg, double sums[2]);

/* Row-major c (m, n) = op(a) (m, k) op(b) (k, n) + beta c in the calling thread, by oneDNN or OpenBLAS. */
void ls_cpu_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
const char *ls_cpu_gemm_name(void); /* "oneDNN 2.6.3" */
/* Switches the library's own threads off. Call it before the first ls_cpu_gemm; it may be repeated. */
void ls_cpu_gemm_prepare(void);
/* The row counts up to which our own loops are faster than the library, with this CPU's instruction set. */
ls_cpu_few_rows_t ls_cpu_gemm_few_rows(const ls_simd_t *simd);

/* ---- oneDNN's primitives (onednn.c, onednn_make.c). LS_ERR_UNSUPPORTED: it has no good one; nothing was written
 * ---- */

/* Row-major c (m, n) = op(a) (m, k) op(b) (k, n) + bias (n), sums in f32. */
typedef struct {
  int64_t m, n, k, lda, ldb, ldc;
  bool transpose_a, transpose_b;
  bool low;        /* c and bias are bf16, else f32 */
  bool by_columns; /* threads share columns of c, else rows */
  uint16_t *a, *b, *bias;
  void *c;
} ls_cpu_product_t;
ls_status_t ls_cpu_product_bf16(ls_stream_t *stream, const ls_cpu_product_t *product);
/* True if oneDNN uses these instruction sets (dnnl_cpu_isa_t). */
bool ls_cpu_onednn_has(unsigned isa);
/* True if it has convolutions made for this processor, of nearly all shapes. */
bool ls_cpu_convolves(void);
/* True if it has AVX512-BF16 or AMX. */
bool ls_cpu_multiplies_bf16(void);

/* x (n, h, w, c), w (o, kh, kw, c / groups), y (n, oh, ow, o); the kind says which is written. `low`: bf16, but
 * gradients of filters, which are f32. */
typedef enum { LS_CPU_CONV_Y, LS_CPU_CONV_DX, LS_CPU_CONV_DW, LS_CPU_CONV_COUNT } ls_cpu_conv_kind_t;
ls_status_t ls_cpu_convolution(ls_stream_t *stream, ls_cpu_conv_kind_t kind, const ls_window_t *v, bool low,
                               void *x, void *w, void *y);
void ls_cpu_onednn_close(ls_cpu_device_t *cpu);
void ls_cpu_int8_close(ls_cpu_device_t *cpu);

typedef struct {
  const char *op;
  ls_kernel_fn fn;
  bool low; /* takes bf16 too, or gives it to args->widened */
} ls_cpu_row_t;
/* Ended by a row without a name. */
extern const ls_cpu_row_t ls_cpu_linear_rows[], ls_cpu_elementwise_rows[], ls_cpu_dropout_rows[],
    ls_cpu_batch_norm_rows[], ls_cpu_conv_rows[], ls_cpu_pool_rows[], ls_cpu_norm_rows[], ls_cpu_loss_rows[],
    ls_cpu_update_rows[], ls_cpu_attention_rows[], ls_cpu_embedding_rows[], ls_cpu_recurrent_rows[],
    ls_cpu_int8_rows[], ls_cpu_words_rows[];

#endif
