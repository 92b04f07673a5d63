/* Chains of an LSTM and a GRU (simd_recurrent.h). Threads share the samples. Samples are independent, so each goes
 * through all positions without waiting for another. The weights are packed once for all positions. */
#include "device/chain.h"
#include "device/cpu/cpu.h"

typedef struct {
  const ls_simd_t *simd;
  ls_simd_chain_t chain;
  bool gradient;
  const float *w;
  float *packed;
} work_t;

static void pack_part(const void *arg, int64_t begin, int64_t end) {
  const work_t *k = arg;
  (k->gradient ? k->simd->pack_dx : k->simd->pack)(k->chain.h, k->chain.gates, begin, end, k->w, k->packed);
}

static void chain_part(const void *arg, int64_t begin, int64_t end) {
  const work_t *k = arg;
  (k->gradient ? k->simd->chain_dx : k->simd->chain)(&k->chain, begin, end);
}

/* w: w_hh (gates h, h), packed into the op's scratch. A gradient carries h floats for each sample in the scratch after
 * them. */
static ls_status_t run(ls_stream_t *stream, const ls_kernel_args_t *args, const ls_tensor_t *w, bool gradient,
                       ls_simd_chain_t chain) {
  const ls_shape_t *x = &args->in[0].shape;
  const int64_t n = x->dim[0], h = w->shape.dim[1], weights = ls_shape_count(&w->shape);
  float *packed = args->scratch;
  chain.t = x->dim[1];
  chain.h = h;
  chain.gates = (int)(w->shape.dim[0] / h);
  chain.back = args->attrs->i[0] == 1;
  chain.packed = packed;
  if (gradient) chain.carried = packed + ls_chain_packed_floats(chain.gates, h);
  const work_t k = {ls_cpu_simd(stream), chain, gradient, w->data, packed};
  ls_cpu_loop(stream, h, LS_SIMD_GRAIN, LS_CPU_BYTES(8 * weights), pack_part, &k);
  ls_cpu_loop(stream, n, 1, LS_CPU_FLOPS(2 * n * chain.t * chain.gates * h * (h + 16)), chain_part, &k);
  return LS_OK;
}

static ls_status_t lstm_chain(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_simd_chain_t k = {.x = args->in[0].data,
                       .y = args->out[0].data,
                       .c_or_m = args->out[1].data,
                       .gate_values = args->out[2].data};
  return run(stream, args, &args->in[1], false, k);
}

static ls_status_t gru_chain(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_simd_chain_t k = {.x = args->in[0].data,
                       .bias = args->in[2].data,
                       .y = args->out[0].data,
                       .gate_values = args->out[1].data,
                       .c_or_m = args->out[2].data};
  return run(stream, args, &args->in[1], false, k);
}

static ls_status_t lstm_chain_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_simd_chain_t k = {.dy = args->in[0].data,
                       .c_or_m = args->in[1].data,
                       .c_or_y = args->in[1].data,
                       .gate_values = args->in[2].data,
                       .dgates_x = args->out[0].data,
                       .dgates_h = args->out[0].data};
  return run(stream, args, &args->in[3], true, k);
}

static ls_status_t gru_chain_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_simd_chain_t k = {.dy = args->in[0].data,
                       .c_or_y = args->in[1].data,
                       .gate_values = args->in[2].data,
                       .c_or_m = args->in[3].data,
                       .dgates_x = args->out[0].data,
                       .dgates_h = args->out[1].data};
  return run(stream, args, &args->in[4], true, k);
}

const ls_cpu_row_t ls_cpu_recurrent_rows[] = {{"lstm_chain", lstm_chain},
                                              {"lstm_chain_dx", lstm_chain_dx},
                                              {"gru_chain", gru_chain},
                                              {"gru_chain_dx", gru_chain_dx},
                                              {0}};
