/* Chains of an LSTM and a GRU (simd_recurrent.h). Samples are independent, so threads divide them, and each goes through
 * all positions without waiting for another. The weights are packed first: once for all positions. */
#include "device/chain.h"
#include "device/cpu/cpu.h"

typedef struct {
  const ls_simd_t *simd;
  ls_simd_chain_t chain;
  const float *w;
  float *packed;
} work_t;

static void pack_part(const void *arg, int64_t begin, int64_t end) {
  const work_t *k = arg;
  k->simd->pack(k->chain.h, k->chain.gates, begin, end, k->w, k->packed);
}

static void pack_dx_part(const void *arg, int64_t begin, int64_t end) {
  const work_t *k = arg;
  k->simd->pack_dx(k->chain.h, k->chain.gates, begin, end, k->w, k->packed);
}

static void forward_part(const void *arg, int64_t begin, int64_t end) {
  const work_t *k = arg;
  k->simd->chain(&k->chain, begin, end);
}

static void backward_part(const void *arg, int64_t begin, int64_t end) {
  const work_t *k = arg;
  k->simd->chain_dx(&k->chain, begin, end);
}

/* w: w_hh (gates h, h); chain->packed is room for it. */
static ls_status_t run(ls_stream_t *stream, const ls_kernel_args_t *args, const ls_tensor_t *w,
                       ls_simd_chain_t *chain, ls_cpu_loop_fn pack, ls_cpu_loop_fn part) {
  const ls_shape_t *x = &args->in[0].shape;
  const int64_t n = x->dim[0], h = w->shape.dim[1], weights = ls_shape_count(&w->shape);
  chain->t = x->dim[1];
  chain->h = h;
  chain->gates = (int)(w->shape.dim[0] / h);
  chain->back = args->attrs->i[0] == 1;
  work_t k = {ls_cpu_simd(stream), *chain, w->data, args->scratch};
  k.chain.packed = k.packed;
  ls_cpu_loop(stream, h, LS_SIMD_GRAIN, LS_CPU_BYTES(8 * weights), pack, &k);
  ls_cpu_loop(stream, n, 1, LS_CPU_FLOPS(2 * n * chain->t * chain->gates * h * (h + 16)), part, &k);
  return LS_OK;
}

/* Behind the packed weights. */
static float *carried(const ls_kernel_args_t *args, const ls_tensor_t *w) {
  const int64_t h = w->shape.dim[1];
  return (float *)args->scratch + ls_chain_packed_floats(w->shape.dim[0] / h, h);
}

static ls_status_t lstm_chain(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_simd_chain_t k = {.x = args->in[0].data,
                       .y = args->out[0].data,
                       .c_or_m = args->out[1].data,
                       .gate_values = args->out[2].data};
  return run(stream, args, &args->in[1], &k, pack_part, forward_part);
}

static ls_status_t gru_chain(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_simd_chain_t k = {.x = args->in[0].data,
                       .bias = args->in[2].data,
                       .y = args->out[0].data,
                       .gate_values = args->out[1].data,
                       .c_or_m = args->out[2].data};
  return run(stream, args, &args->in[1], &k, pack_part, forward_part);
}

static ls_status_t lstm_chain_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_simd_chain_t k = {.dy = args->in[0].data,
                       .c_or_m = args->in[1].data,
                       .c_or_y = args->in[1].data,
                       .gate_values = args->in[2].data,
                       .carried = carried(args, &args->in[3]),
                       .dgates_x = args->out[0].data,
                       .dgates_h = args->out[0].data};
  return run(stream, args, &args->in[3], &k, pack_dx_part, backward_part);
}

static ls_status_t gru_chain_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_simd_chain_t k = {.dy = args->in[0].data,
                       .c_or_y = args->in[1].data,
                       .gate_values = args->in[2].data,
                       .c_or_m = args->in[3].data,
                       .carried = carried(args, &args->in[4]),
                       .dgates_x = args->out[0].data,
                       .dgates_h = args->out[1].data};
  return run(stream, args, &args->in[4], &k, pack_dx_part, backward_part);
}

const ls_cpu_row_t ls_cpu_recurrent_rows[] = {{"lstm_chain", lstm_chain},
                                              {"lstm_chain_dx", lstm_chain_dx},
                                              {"gru_chain", gru_chain},
                                              {"gru_chain_dx", gru_chain_dx},
                                              {0}};
