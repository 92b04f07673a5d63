/* Launchers of our own kernels: plain C over pointers and sizes, so that .cu files need none of our C11
 * headers. Every launcher only enqueues, and returns a cudaError_t as int. All pointers are device memory.
 * Sums are in a fixed order, so the same inputs give the same bits. The op's row says what each op means. */
#ifndef LS_DEVICE_CUDA_KERNELS_H
#define LS_DEVICE_CUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *ls_kernel_stream_t; /* cudaStream_t */

/* Memory for partial results of reductions. The first LS_KERNEL_COUNTER_BYTES count finished blocks: zero
 * before the first kernel, and every kernel leaves them zero. */
enum { LS_KERNEL_COUNTER_BYTES = 256, LS_KERNEL_PARTIAL_MAX = 65536 /* f64 values behind the counter */ };

enum { LS_MAP_RELU, LS_MAP_GELU, LS_MAP_TANH, LS_MAP_SIGMOID, LS_MAP_COPY };
enum { LS_ZIP_ADD, LS_ZIP_MUL, LS_ZIP_RELU_DY, LS_ZIP_GELU_DX, LS_ZIP_TANH_DY, LS_ZIP_SIGMOID_DY };

/* y[i] = map(x[i]); y == x is allowed. */
int ls_kernel_map(ls_kernel_stream_t stream, int map, const float *x, float *y, int64_t count);
/* y[i] = zip(a[i], b[i]); y may be a or b. */
int ls_kernel_zip(ls_kernel_stream_t stream, int zip, const float *a, const float *b, float *y,
                  int64_t count);
int ls_kernel_fill(ls_kernel_stream_t stream, float value, float *y, int64_t count);

/* x (rows, x_bytes) and target (rows, target_bytes) are the tables' rows row[0..], as they are. */
int ls_kernel_gather(ls_kernel_stream_t stream, const int32_t *row, const void *features, const void *targets,
                     void *x, void *target, int64_t rows, int64_t x_bytes, int64_t target_bytes);

/* y = (x - mean) * scale of the ls_step_params_t `step`; x: whole numbers of 1 or 2 bytes without sign, of 4 with
 * one. */
int ls_kernel_normalize(ls_kernel_stream_t stream, int bytes, const void *x, const void *step, float *y,
                        int64_t count);

enum { LS_CAST_F32, LS_CAST_BF16, LS_CAST_F16 };
/* y[i] = x[i] as another float. */
int ls_kernel_cast(ls_kernel_stream_t stream, int from, int to, const void *x, void *y, int64_t count);

/* x (rows, row). `step` is an ls_step_params_t; rng_stream LS_RNG_DROPOUT + ordinal; kept where unit >= rate,
 * times scale. */
int ls_kernel_dropout(ls_kernel_stream_t stream, const float *x, const void *step, uint32_t rng_stream,
                      float rate, float scale, float *y, int64_t rows, int64_t row);

/* x (rows, width); mean, rstd (rows). */
int ls_kernel_layer_norm(ls_kernel_stream_t stream, const float *x, const float *gamma, const float *beta,
                         double eps, float *y, float *mean, float *rstd, int64_t rows, int64_t width);
int ls_kernel_layer_norm_dx(ls_kernel_stream_t stream, const float *dy, const float *x, const float *gamma,
                            const float *mean, const float *rstd, float *dx, int64_t rows, int64_t width);
int ls_kernel_layer_norm_dgb(ls_kernel_stream_t stream, void *scratch, const float *dy, const float *x,
                             const float *mean, const float *rstd, float *dgamma, float *dbeta, int64_t rows,
                             int64_t width);

/* out[c] = sum over rows of x (rows, width). */
int ls_kernel_column_sum(ls_kernel_stream_t stream, void *scratch, const float *x, float *out, int64_t rows,
                         int64_t width);
/* out[r] = sum over columns of x (rows, width) / divisor. */
int ls_kernel_row_sum(ls_kernel_stream_t stream, void *scratch, const float *x, double divisor, float *out,
                      int64_t rows, int64_t width);
/* dx (rows, width) = dy[r] / divisor. */
int ls_kernel_row_spread(ls_kernel_stream_t stream, const float *dy, float divisor, float *dx, int64_t rows,
                         int64_t width);
/* y (count) = sum over the parts of x (parts, count), in the order of the op's row. */
int ls_kernel_tree_sum(ls_kernel_stream_t stream, const float *x, float *y, int64_t parts, int64_t count);
/* *out = sum of x[i]^2, in f64 until the end. */
int ls_kernel_sumsq(ls_kernel_stream_t stream, void *scratch, const float *x, float *out, int64_t count);

int ls_kernel_xent(ls_kernel_stream_t stream, void *scratch, const float *logits, const int32_t *target,
                   const float *weight, float *loss, float *correct, float *prob, int64_t rows,
                   int64_t classes);
int ls_kernel_xent_dx(ls_kernel_stream_t stream, const float *dloss, const float *prob, const int32_t *target,
                      const float *weight, float *dx, int64_t rows, int64_t classes);
int ls_kernel_mse(ls_kernel_stream_t stream, void *scratch, const float *pred, const float *target,
                  const float *weight, float *loss, float *correct, int64_t rows, int64_t outputs);
int ls_kernel_mse_dx(ls_kernel_stream_t stream, const float *dloss, const float *pred, const float *target,
                     const float *weight, float *dx, int64_t rows, int64_t outputs);

/* The optimizer's values, in the order that optim/optim.h gives them (tests/cuda compares). */
enum { LS_KC_APPLY, LS_KC_GRAD_SCALE, LS_KC_LR, LS_KC_BIAS1, LS_KC_BIAS2, LS_KC_COUNT = 16 };
enum {
  LS_KS_LOSS,
  LS_KS_CORRECT,
  LS_KS_GRAD_NORM,
  LS_KS_APPLIED,
  LS_KS_SKIPPED,
  LS_KS_SKIPPED_ROW,
  LS_KS_COUNT = 16
};
typedef struct {
  double clip_norm, beta1, beta2;
} ls_kernel_control_t;
int ls_kernel_control(ls_kernel_stream_t stream, const ls_kernel_control_t *attrs, const float *head,
                      const float *partial, int64_t partial_count, const void *step, float *ctrl,
                      float *stats, float *counter);

/* Constants of an update op; rest = 1 - beta, formed in f64. */
typedef struct {
  float momentum, beta1, rest1, beta2, rest2, eps, weight_decay;
  int nesterov;
} ls_kernel_update_t;
/* slot0, slot1: the optimizer's state where it has some, else NULL. */
enum { LS_UPDATE_SGD, LS_UPDATE_MOMENTUM, LS_UPDATE_ADAM, LS_UPDATE_ADAMW };
int ls_kernel_update(ls_kernel_stream_t stream, int update, const ls_kernel_update_t *attrs,
                     const float *grad, const float *ctrl, float *param, float *slot0, float *slot1,
                     int64_t count);

/* *word = value, seen by the host: word is mapped host memory. */
int ls_kernel_mark(ls_kernel_stream_t stream, uint32_t *word, uint32_t value);

#ifdef __cplusplus
}
#endif
#endif
