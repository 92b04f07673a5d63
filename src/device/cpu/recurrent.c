/* Chains of an LSTM and a GRU. Samples are independent, so threads divide them, and each goes through all positions
 * without waiting for another: a product with w_hh for its samples, then the gates of each. Forwards the product
 * streams w_hh transposed, whose rows are long; backwards w_hh as it is. A sample's bits depend on no other. */
#include "device/cpu/cpu.h"

#include <string.h>

typedef struct {
  const ls_simd_t *simd;
  int64_t n, t, h, gates; /* gates: 4 or 3 */
  bool back;
  const float *x, *w, *bias;          /* bias: b_hn */
  const float *dy, *v, *c, *y_before; /* of the gradients; v: the gates, y_before: c of an LSTM, y of a GRU */
  float *wt;                          /* (h, gates h) */
  float *pre;                         /* (n, gates h): w_hh h of one position */
  float *dh, *carried, *zeros;        /* (n, h), (n, h), (h) */
  float *y, *state, *values;          /* state: c of an LSTM, m of a GRU; values: the gates */
  float *dx, *dhidden;                /* the same for an LSTM */
} chain_t;

static int64_t position(const chain_t *k, int64_t s) {
  return k->back ? k->t - 1 - s : s;
}

/* Rows of w_hh's transpose, whose columns [begin, end) are those of w_hh's rows. */
static void transpose_part(const void *arg, int64_t begin, int64_t end) {
  const chain_t *k = arg;
  k->simd->transpose(end - begin, k->h, k->w + begin * k->h, k->h, k->wt + begin, k->gates * k->h);
}

/* pre = w_hh y of the position before; zeros at the first. */
static void recur(const chain_t *k, int64_t begin, int64_t end, int64_t s) {
  const int64_t width = k->gates * k->h;
  float *pre = k->pre + begin * width;
  if (s == 0)
    memset(pre, 0, (size_t)((end - begin) * width) * sizeof *pre);
  else
    k->simd->product_nn(end - begin, 0, width, k->h, k->y + (begin * k->t + position(k, s - 1)) * k->h,
                        k->t * k->h, k->wt, width, pre, width);
}

static void lstm_part(const void *arg, int64_t begin, int64_t end) {
  const chain_t *k = arg;
  const int64_t h = k->h;
  for (int64_t s = 0; s < k->t; s++) {
    recur(k, begin, end, s);
    for (int64_t r = begin; r < end; r++) {
      int64_t row = r * k->t + position(k, s), before = r * k->t + position(k, s - 1);
      const float *pre = k->pre + r * 4 * h, *c0 = s == 0 ? pre : k->state + before * h;
      k->simd->lstm_cell(h, k->x + row * 4 * h, pre, c0, k->values + row * 4 * h, k->state + row * h,
                         k->y + row * h);
    }
  }
}

static void gru_part(const void *arg, int64_t begin, int64_t end) {
  const chain_t *k = arg;
  const int64_t h = k->h;
  for (int64_t s = 0; s < k->t; s++) {
    recur(k, begin, end, s);
    for (int64_t r = begin; r < end; r++) {
      int64_t row = r * k->t + position(k, s), before = r * k->t + position(k, s - 1);
      const float *pre = k->pre + r * 3 * h, *h0 = s == 0 ? pre : k->y + before * h;
      k->simd->gru_cell(h, k->x + row * 3 * h, pre, k->bias, h0, k->values + row * 3 * h, k->state + row * h,
                        k->y + row * h);
    }
  }
}

static void backward_part(const void *arg, int64_t begin, int64_t end) {
  const chain_t *k = arg;
  const int64_t h = k->h, width = k->gates * h;
  memset(k->dh + begin * h, 0, (size_t)((end - begin) * h) * sizeof(float));
  memset(k->carried + begin * h, 0, (size_t)((end - begin) * h) * sizeof(float));
  for (int64_t s = k->t - 1; s >= 0; s--) {
    for (int64_t r = begin; r < end; r++) {
      int64_t row = r * k->t + position(k, s), before = r * k->t + position(k, s - 1);
      const float *first = s == 0 ? k->zeros : k->y_before + before * h, *dy = k->dy + row * h,
                  *dh = k->dh + r * h;
      float *dx = k->dx + row * width, *carried = k->carried + r * h;
      if (k->gates == 4)
        k->simd->lstm_cell_dx(h, dy, dh, k->c + row * h, first, k->v + row * width, carried, dx);
      else
        k->simd->gru_cell_dx(h, dy, dh, k->v + row * width, k->c + row * h, first, carried, dx,
                             k->dhidden + row * width);
    }
    if (s > 0)
      k->simd->product_nn(end - begin, 0, h, width, k->dhidden + (begin * k->t + position(k, s)) * width,
                          k->t * width, k->w, h, k->dh + begin * h, h);
  }
}

/* From w_hh (gates h, h) and a (n, t, ..) tensor. */
static chain_t chain_make(ls_stream_t *stream, const ls_kernel_args_t *args, const ls_tensor_t *w) {
  const ls_shape_t *x = &args->in[0].shape;
  return (chain_t){.simd = ls_cpu_simd(stream),
                   .n = x->dim[0],
                   .t = x->dim[1],
                   .h = w->shape.dim[1],
                   .gates = w->shape.dim[0] / w->shape.dim[1],
                   .back = args->attrs->i[0] == 1,
                   .w = w->data};
}

static ls_status_t run(ls_stream_t *stream, const chain_t *k, ls_cpu_loop_fn part) {
  ls_cpu_loop(stream, k->n, 1, LS_CPU_FLOPS(2 * k->n * k->t * k->gates * k->h * (k->h + 16)), part, k);
  return LS_OK;
}

static ls_status_t forward(ls_stream_t *stream, const ls_kernel_args_t *args, chain_t *k,
                           ls_cpu_loop_fn part) {
  int64_t weights = k->gates * k->h * k->h;
  k->x = args->in[0].data;
  k->y = args->out[0].data;
  k->wt = args->scratch;
  k->pre = k->wt + weights;
  ls_cpu_loop(stream, k->gates * k->h, 16, LS_CPU_BYTES(8 * weights), transpose_part, k);
  return run(stream, k, part);
}

static ls_status_t lstm_chain(ls_stream_t *stream, const ls_kernel_args_t *args) {
  chain_t k = chain_make(stream, args, &args->in[1]);
  k.state = args->out[1].data;
  k.values = args->out[2].data;
  return forward(stream, args, &k, lstm_part);
}

static ls_status_t gru_chain(ls_stream_t *stream, const ls_kernel_args_t *args) {
  chain_t k = chain_make(stream, args, &args->in[1]);
  k.bias = args->in[2].data;
  k.values = args->out[1].data;
  k.state = args->out[2].data;
  return forward(stream, args, &k, gru_part);
}

static ls_status_t backward(ls_stream_t *stream, const ls_kernel_args_t *args, chain_t *k) {
  k->dy = args->in[0].data;
  k->v = args->in[2].data;
  k->dx = args->out[0].data;
  k->dh = args->scratch;
  k->carried = k->dh + k->n * k->h;
  k->zeros = k->carried + k->n * k->h;
  memset(k->zeros, 0, (size_t)k->h * sizeof(float));
  return run(stream, k, backward_part);
}

static ls_status_t lstm_chain_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  chain_t k = chain_make(stream, args, &args->in[3]);
  k.c = k.y_before = args->in[1].data;
  k.dhidden = args->out[0].data;
  return backward(stream, args, &k);
}

static ls_status_t gru_chain_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  chain_t k = chain_make(stream, args, &args->in[4]);
  k.y_before = args->in[1].data;
  k.c = args->in[3].data;
  k.dhidden = args->out[1].data;
  return backward(stream, args, &k);
}

const ls_cpu_row_t ls_cpu_recurrent_rows[] = {{"lstm_chain", lstm_chain},
                                              {"lstm_chain_dx", lstm_chain_dx},
                                              {"gru_chain", gru_chain},
                                              {"gru_chain_dx", gru_chain_dx},
                                              {0}};
