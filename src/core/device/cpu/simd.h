/* The inner loops of the cpu backend: plain ranges of floats, no tensors, no threads. They are compiled once
 * per instruction set (simd_base.c, simd_avx2.c, simd_avx512.c, all from simd_*.h) and chosen at run time, so
 * one binary runs on every CPU and is fast on new ones. Within one CPU the same input gives the same bits. */
#ifndef LS_DEVICE_CPU_SIMD_H
#define LS_DEVICE_CPU_SIMD_H

#include "base/base.h"

/* Constants of one Adam or AdamW update. */
typedef struct {
  float beta1, beta2, eps;
  float rest1, rest2;   /* 1 - beta1, 1 - beta2, rounded once */
  float grad_scale;     /* multiplied with gradients first */
  float decay_grad;     /* adam: weight decay, added to the gradient */
  float shrink;         /* adamw: lr * weight decay, the share of the parameter that is subtracted first;
                         * else 0 */
  float step_size;      /* lr / bias1 */
  float inv_sqrt_bias2; /* 1 / sqrt(bias2) */
} ls_simd_adam_t;

/* A recurrent chain (ls_op_lstm_chain, ls_op_gru_chain) or its gradient, of all samples. Packed weights have
 * LS_SIMD_GRAIN units at a time. */
enum { LS_SIMD_GRAIN = 48, LS_SIMD_CHANNELS = 64 };
typedef struct {
  int64_t t, h;
  int gates; /* 4: LSTM, 3: GRU */
  bool back;
  const float *packed;
  const float *x, *bias;           /* gates_x (n, t, gates h); b_hn of a GRU */
  float *y, *c_or_m, *gate_values; /* (n, t, h); c of an LSTM, m of a GRU; gates after their functions */
  const float *dy, *c_or_y;        /* c of an LSTM, y of a GRU: read at the position before */
  float *carried;                  /* (n, h): the gradient carries it from position to position */
  float *dgates_x, *dgates_h;      /* (n, t, gates h): of x, and of w_hh h; one tensor for an LSTM */
} ls_simd_chain_t;

/* Products of 8-bit integers (int8.c). Values of x and weights are bytes or have 16 bits, and lie in groups of 4 bytes. */
typedef struct {
  int64_t runs, groups; /* of a window: runs of adjacent values, and groups in each run */
  const int64_t *run;   /* (runs) bytes from the window's first value */
  const void *w; /* (outputs / lanes, runs, groups, lanes) groups; values after the last output are ignored */
  const int32_t *start;        /* (outputs, rounded up to lanes) with what a sum begins */
  const float *factor, *shift; /* (outputs, rounded up to lanes): y = sum factor + shift */
  int64_t outputs;
} ls_simd_int8_product_t;
typedef struct {
  int value_bytes, lanes;
  /* ls_int8_value of each. */
  void (*round)(int64_t count, const float *x, float inverse, float zero, void *to);
  /* Computes outputs begin (a multiple of lanes) to end of y (rows, outputs), whose windows begin at x (rows).
   * Reads up to 3 bytes past the end of each run. */
  void (*product)(const ls_simd_int8_product_t *p, int64_t rows, const char *const *x, int64_t begin,
                  int64_t end, float *y);
} ls_simd_int8_t;

typedef struct {
  const char *name;
  const ls_simd_int8_t *int8;

  /* Products for few rows, where libraries are slow: each streams the weights once.
   * nt: y[r][c] = sum_k x[r][k] w[c][k] + bias[c]        r < rows, begin <= c < end; bias may be NULL
   * nn: y[r][c] = sum_k a[r][k] b[k][c]                  r < rows, begin <= c < end
   * tn: y[r][c] = sum_k a[k][r] b[k][c]                  begin <= r < end, c < cols
   * ld*: distance of rows in elements. */
  void (*product_nt)(int64_t rows, int64_t begin, int64_t end, int64_t depth, const float *x, int64_t ldx,
                     const float *w, int64_t ldw, const float *bias, float *y, int64_t ldy);
  void (*product_nn)(int64_t rows, int64_t begin, int64_t end, int64_t depth, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float *y, int64_t ldy);
  void (*product_tn)(int64_t begin, int64_t end, int64_t cols, int64_t depth, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float *y, int64_t ldy);
  /* sums[c] (+)= sum over rows of a[r][c], begin <= c < end. */
  void (*column_sums)(int64_t rows, int64_t begin, int64_t end, const float *a, int64_t lda, bool add,
                      float *sums);

  /* w_hh (gates h, h) in the order of chain or chain_dx: units [begin, end) rounded up to a multiple of the grain;
   * `begin` is one. */
  void (*pack)(int64_t h, int gates, int64_t begin, int64_t end, const float *w, float *packed);
  void (*pack_dx)(int64_t h, int gates, int64_t begin, int64_t end, const float *w, float *packed);
  void (*chain)(const ls_simd_chain_t *chain, int64_t begin, int64_t end);
  void (*chain_dx)(const ls_simd_chain_t *chain, int64_t begin, int64_t end);

  /* Elementwise over `count`; out may be an input. */
  void (*relu)(int64_t count, const float *x, float *y);
  void (*tanh)(int64_t count, const float *x, float *y);
  void (*sigmoid)(int64_t count, const float *x, float *y);
  void (*gelu)(int64_t count, const float *x, float *y);
  void (*gelu_tanh)(int64_t count, const float *x, float *y);
  void (*silu)(int64_t count, const float *x, float *y);
  void (*relu_dy)(int64_t count, const float *dy, const float *y, float *dx);
  void (*tanh_dy)(int64_t count, const float *dy, const float *y, float *dx);
  void (*sigmoid_dy)(int64_t count, const float *dy, const float *y, float *dx);
  void (*gelu_dx)(int64_t count, const float *dy, const float *x, float *dx);
  void (*gelu_tanh_dx)(int64_t count, const float *dy, const float *x, float *dx);
  void (*silu_dx)(int64_t count, const float *dy, const float *x, float *dx);
  /* (x - mean) * scale in f64, rounded once. */
  void (*from_u8)(int64_t count, const uint8_t *x, double mean, double scale, float *y);
  void (*from_u16)(int64_t count, const uint16_t *x, double mean, double scale, float *y);
  void (*from_i32)(int64_t count, const int32_t *x, double mean, double scale, float *y);
  void (*from_bf16)(int64_t count, const uint16_t *x, float *y);
  void (*from_f16)(int64_t count, const uint16_t *x, float *y);
  void (*to_bf16)(int64_t count, const float *x, uint16_t *y);
  void (*to_f16)(int64_t count, const float *x, uint16_t *y);
  void (*add)(int64_t count, const float *a, const float *b, float *y);
  void (*mul)(int64_t count, const float *a, const float *b, float *y);

  /* Loops over the channels of one position. add_product: y += a b. take_larger: y = x and place = k if x is
   * larger, or a NaN. add_where: y += x if place = k. */
  void (*add_product)(int64_t count, const float *a, const float *b, float *y);
  void (*take_larger)(int64_t count, int k, const float *x, float *y, uint8_t *place);
  void (*add_where)(int64_t count, int k, const uint8_t *place, const float *x, float *y);

  /* Batch norm, see simd_window.h. Moments of up to LS_SIMD_CHANNELS channels. */
  void (*channel_moments)(int64_t rows, int64_t count, const float *x, int64_t ldx, const float *shift,
                          double *sum, double *square);
  void (*channel_slopes)(int64_t rows, int64_t count, const float *dy, const float *x, int64_t ldx,
                         const float *mean, const float *rstd, float *sum, float *product);
  void (*channel_scale)(int64_t count, const float *x, const float *mean, const float *a, const float *b,
                        float *y);
  void (*channel_dx)(int64_t count, const float *dy, const float *x, const float *mean, const float *a,
                     const float *b, const float *c, float *y);

  /* Element e takes word e % 4 of counter + e / 4 (see ls_op_dropout) and is kept, times `scale`, when the
   * word's upper 24 bits are at least `threshold`. */
  void (*dropout)(int64_t count, uint64_t seed, uint32_t stream, uint64_t counter, uint32_t threshold,
                  float scale, const float *x, float *y);

  /* One row: p = softmax(scale x), scale > 0; returns log(sum of exp(scale x)). p may be x. */
  float (*softmax_row)(int64_t count, float scale, const float *x, float *p);
  /* s: scores; then m p with p = exp(scale s - lse) and m the mask (NULL: 1). dp: d loss / d (m p); then
   * d loss / d s = scale p (m dp - given). */
  void (*attention_slopes)(int64_t count, float scale, float lse, float given, const float *m, float *s,
                           float *dp);
  float (*dot)(int64_t count, const float *a, const float *b);
  double (*sum)(int64_t count, const float *x);
  double (*squared_distance)(int64_t count, const float *a, const float *b);
  /* Sums of losses (graph/ops/value_loss.c) and their slopes, times scale; bce: p = sigmoid(x). */
  double (*absolute_distance)(int64_t count, const float *a, const float *b);
  double (*huber_distance)(int64_t count, float delta, const float *a, const float *b);
  double (*bce_distance)(int64_t count, const float *x, const float *target, float *p);
  void (*l1_slope)(int64_t count, float scale, const float *a, const float *b, float *y);
  void (*huber_slope)(int64_t count, float scale, float delta, const float *a, const float *b, float *y);
  void (*scaled_difference)(int64_t count, float scale, const float *a, const float *b, float *y);
  void (*moments)(int64_t count, const float *x, double eps, double *mean, double *rstd);
  void (*normalize)(int64_t count, const float *x, double mean, float rstd, const float *gamma,
                    const float *beta, float *y);
  void (*normalize_dx)(int64_t count, const float *dy, const float *x, const float *gamma, float mean,
                       float rstd, float *dx);
  /* dgamma += dy * (x - mean) * rstd; dbeta += dy, over [begin, end) of a row. */
  void (*normalize_dgb)(int64_t begin, int64_t end, const float *dy, const float *x, float mean, float rstd,
                        float *dgamma, float *dbeta);

  double (*sumsq)(int64_t count, const float *x);
  void (*sgd)(int64_t count, float lr, float grad_scale, float decay, const float *g, float *p);
  void (*sgd_momentum)(int64_t count, float lr, float grad_scale, float decay, float momentum, bool nesterov,
                       const float *g, float *p, float *m);
  void (*adam)(int64_t count, const ls_simd_adam_t *a, const float *g, float *p, float *m, float *v);
} ls_simd_t;

/* The widest table that this CPU can run. */
const ls_simd_t *ls_simd_pick(void);
/* Its products of 8-bit integers, or those that have an instruction for them. */
const ls_simd_int8_t *ls_simd_pick_int8(void);
/* All tables that this CPU can run, for tests: widest first, NULL-terminated. */
enum { LS_SIMD_MAX = 4 };
void ls_simd_list(const ls_simd_t *list[LS_SIMD_MAX]);

#endif
